"""Counters of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from .catalogue import Catalogue

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one service. Labels are routes and catalogues, never text from a client."""

    def __init__(self, catalogues: Mapping[str, Catalogue]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "bridgehash_requests_total",
            "Requests by route and status.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "bridgehash_request_seconds",
            "Response time.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._batches = Histogram(
            "bridgehash_batch_size",
            "Requests per batch.",
            ("catalogue", "kind"),
            buckets=_SIZES,
            registry=self.registry,
        )
        items = Gauge("bridgehash_items", "Items.", ("catalogue",), registry=self.registry)
        journal = Gauge(
            "bridgehash_journal_bytes",
            "Size of the journal: changes that are not in the index file yet.",
            ("catalogue",),
            registry=self.registry,
        )
        for name, catalogue in catalogues.items():
            store = catalogue.store
            items.labels(name).set_function(partial(lambda store: len(store.index), store))
            journal.labels(name).set_function(partial(getattr, store, "journal_bytes"))

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_batch(self, catalogue: str, kind: str, size: int) -> None:
        """Count one batch."""
        self._batches.labels(catalogue, kind).observe(size)

    def text(self) -> bytes:
        """Return all counters in the format of Prometheus."""
        return generate_latest(self.registry)
