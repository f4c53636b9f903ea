"""What the service counts, in the form that Prometheus reads."""

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
from .store import Store

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one service; labels are routes and names, never what a client sends."""

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
            "Time to answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._groups = Histogram(
            "bridgehash_group_size",
            "Requests done together.",
            ("catalogue", "kind"),
            buckets=_SIZES,
            registry=self.registry,
        )
        self._watch(catalogues)

    def _watch(self, catalogues: Mapping[str, Catalogue]) -> None:
        items = Gauge("bridgehash_items", "Items.", ("catalogue",), registry=self.registry)
        journal = Gauge(
            "bridgehash_journal_bytes",
            "Changes that are not in the index file yet.",
            ("catalogue",),
            registry=self.registry,
        )
        for name, catalogue in catalogues.items():
            store = catalogue.store
            items.labels(name).set_function(partial(_n_items, store))
            journal.labels(name).set_function(partial(getattr, store, "journal_bytes"))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def grouped(self, catalogue: str, kind: str, size: int) -> None:
        """Count one group."""
        self._groups.labels(catalogue, kind).observe(size)

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self.registry)


def _n_items(store: Store) -> int:
    return len(store.index)
