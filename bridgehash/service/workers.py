"""Worker threads, the queues in front of them, and counters for Prometheus.

Each catalogue has a queue of short searches, one of long searches and one of changes. A long search
is split into parts that queue again, so that others do not wait for all of it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from ..index.changes import Add, ChangeResult, Remove, Upsert
from .batching import Batcher
from .catalogue import Catalogue, SearchQuery, SearchResult, measure_scores
from .clients import KeyGuesses
from .errors import overloaded
from .memory import MemoryBudget
from .sandbox import Sandbox
from .settings import ServiceSettings

_MAX_BATCH = 32  # queries per pass over the codes
_SHORT_HITS = 320  # queries times k; a longer search has threads of its own
_PART_HITS = 4_096  # of one part of a long search
_LONG_NICENESS = 15
_OTHER_THREADS = 4  # for everything but searches

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)

T = TypeVar("T")


class Workers:
    """Catalogues, and the threads that work on them."""

    def __init__(self, catalogues: Mapping[str, Catalogue], settings: ServiceSettings) -> None:
        self.catalogues, self.settings = catalogues, settings
        self.memory = MemoryBudget(settings.limits.request_bytes)
        self.sandbox = Sandbox(settings.limits)
        self.guesses = KeyGuesses()
        self.metrics = Metrics(catalogues, self.memory, settings.limits.memory_bytes)
        self.stopping = False
        self._n_working = 0
        self._scoring = asyncio.Lock()
        self._scores: dict[str, tuple[int, dict[str, Any]]] = {}
        n_threads = os.cpu_count() or 1
        self._search_pool = ThreadPoolExecutor(n_threads, "search")
        self._other_pool = ThreadPoolExecutor(_OTHER_THREADS, "other")
        self._long_pool = ThreadPoolExecutor(max(1, n_threads // 2), "long", _lower_priority)
        self._searches: dict[str, Batcher[SearchQuery, SearchResult]] = {}
        self._long_searches: dict[str, Batcher[SearchQuery, SearchResult]] = {}
        self._changes: dict[str, Batcher[Add | Upsert | Remove, ChangeResult]] = {}
        for name, each in catalogues.items():
            self._searches[name] = Batcher(
                each.search,
                self._search_pool,
                concurrency=n_threads,
                max_batch=_MAX_BATCH,
                max_queue=settings.limits.queue,
                size=_n_queries,
                group=_is_weighted,
                on_batch=self.metrics.batches.labels(name, "search").observe,
            )
            self._long_searches[name] = Batcher(
                each.search,
                self._long_pool,
                concurrency=max(1, n_threads // 2),
                max_batch=1,
                max_queue=settings.limits.queue,
            )
            self._changes[name] = Batcher(
                each.change,
                self._other_pool,
                concurrency=1,
                max_batch=settings.limits.queue,
                max_queue=settings.limits.queue,
                on_batch=self.metrics.batches.labels(name, "change").observe,
            )

    async def search(self, catalogue: Catalogue, query: SearchQuery) -> SearchResult:
        """Search, in parts if there are many queries."""
        n, k = len(query.rows), query.k
        with self._counted():
            if n <= _MAX_BATCH and n * k <= _SHORT_HITS:
                return await self._searches[catalogue.name](query)
            results, step = [], max(1, min(_MAX_BATCH, _PART_HITS // k))
            for start in range(0, n, step):
                part = query._replace(rows=query.rows[start : start + step])
                results.append(await self._long_searches[catalogue.name](part))
        if len(results) == 1:
            return results[0]
        return SearchResult(*map(_joined, zip(*results, strict=True)))

    async def change(self, catalogue: Catalogue, change: Add | Upsert | Remove) -> ChangeResult:
        """Make a change; it is on disk when this returns."""
        with self._counted():
            return await self._changes[catalogue.name](change)

    async def scores(self, catalogue: Catalogue) -> dict[str, Any]:
        """Return the scores of a catalogue, measured again only after changes."""
        async with self._scoring:
            version = catalogue.store.version
            cached = self._scores.get(catalogue.name)
            if cached is None or cached[0] != version:
                cached = version, await self.run_in_thread(measure_scores, catalogue)
                self._scores[catalogue.name] = cached
            return cached[1]

    async def run_in_thread(
        self, work: Callable[..., T], *arguments: object, long: bool = False
    ) -> T:
        """Run a function in a thread and return its result; with `long`, in one of few threads."""
        pool = self._long_pool if long else self._other_pool
        with self._counted():
            return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Limit the requests that are worked on, so that connections remain for others."""
        if self._n_working >= self.settings.limits.requests:
            raise overloaded("overloaded; retry later")
        self._n_working += 1
        try:
            yield
        finally:
            self._n_working -= 1

    async def stop(self) -> None:
        """Finish all queued work, then stop the threads and child processes."""
        self.stopping = True
        batchers: list[Batcher[Any, Any]] = [
            *self._searches.values(),
            *self._long_searches.values(),
            *self._changes.values(),
        ]
        for batcher in batchers:
            await batcher.finish()
        self.sandbox.stop()
        for pool in (self._search_pool, self._long_pool, self._other_pool):
            pool.shutdown()


def _lower_priority() -> None:
    """Let short searches go first; on Linux each thread has a priority of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LONG_NICENESS)


def _n_queries(query: SearchQuery) -> int:
    return len(query.rows)


def _is_weighted(query: SearchQuery) -> bool:
    return query.weighted


def _joined(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


class Metrics:
    """Counters of one service. Labels are routes and catalogues, never text from a client."""

    def __init__(
        self, catalogues: Mapping[str, Catalogue], memory: MemoryBudget, memory_bytes: int
    ) -> None:
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
        text = "Bodies, arrays and unsent answers of requests."
        used = Gauge("bridgehash_request_bytes", text, registry=registry)
        used.set_function(lambda: memory.used)
        text = "Limit of bridgehash_request_bytes."
        Gauge("bridgehash_request_bytes_limit", text, registry=registry).set(memory.limit)
        text = "Memory limit of the service with its child processes."
        Gauge("bridgehash_memory_bytes_limit", text, registry=registry).set(memory_bytes)
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
