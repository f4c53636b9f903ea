"""Counters of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from .catalogue import Catalogue

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters of one service. Labels are routes and catalogues, never text from a client."""

    def __init__(self, catalogues: Mapping[str, Catalogue]) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        labels = ("method", "route", "status")
        self._requests = Counter(
            "bridgehash_requests_total", "Requests by route and status.", labels, registry=registry
        )
        self._seconds = Histogram(
            "bridgehash_request_seconds",
            "Response time.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "bridgehash_batch_size",
            "Requests per batch.",
            ("catalogue", "kind"),
            buckets=_SIZES,
            registry=registry,
        )
        items = Gauge("bridgehash_items", "Items.", ("catalogue",), registry=registry)
        text = "Size of the journal: changes that are not in the index file yet."
        journal = Gauge("bridgehash_journal_bytes", text, ("catalogue",), registry=registry)
        for name, catalogue in catalogues.items():
            store = catalogue.store
            items.labels(name).set_function(partial(lambda store: len(store.index), store))
            journal.labels(name).set_function(partial(getattr, store, "journal_bytes"))

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)
