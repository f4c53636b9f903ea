"""The service's threads, and the queues before them.

Searches and changes of a catalogue wait in a queue each. A long search is cut into parts that
queue again, so that short ones are not kept waiting behind it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from .batching import Batcher
from .catalogue import Catalogue, Found, Question
from .errors import Refused
from .figures import measure
from .metrics import Metrics
from .settings import Settings
from .store import Change, Changed

_TOGETHER = 32  # requests in one pass
_PART = 32  # queries of a long search that are done at a time
_OTHERS = 4  # threads for everything but searches

T = TypeVar("T")


class Desk:
    """Catalogues and the threads that work on them."""

    def __init__(self, catalogues: Mapping[str, Catalogue], settings: Settings) -> None:
        self.catalogues, self.settings = catalogues, settings
        self.metrics = Metrics(catalogues)
        self.stopping = False
        self.held_bytes = 0  # of bodies, in requests that are not answered yet
        self._measuring = asyncio.Lock()
        self._figures: dict[str, tuple[int, dict[str, Any]]] = {}
        lanes = os.cpu_count() or 1
        self._searchers = ThreadPoolExecutor(lanes, "search")
        self._others = ThreadPoolExecutor(_OTHERS, "other")
        self._imager = ThreadPoolExecutor(1, "image")  # one image in memory at a time
        waiting = settings.limits.waiting
        self._searches: dict[str, Batcher[Question, Found]] = {}
        self._changes: dict[str, Batcher[Change, Changed]] = {}
        for name, each in catalogues.items():
            counted = partial(self.metrics.grouped, name)
            self._searches[name] = Batcher(
                each.search,
                self._searchers,
                lanes=lanes,
                most=_TOGETHER,
                waiting=waiting,
                on_group=partial(counted, "search"),
            )
            self._changes[name] = Batcher(
                each.store.change,
                self._others,
                lanes=1,
                most=waiting,
                waiting=waiting,
                on_group=partial(counted, "change"),
            )

    def catalogue(self, name: str) -> Catalogue:
        """The catalogue of that name."""
        if name not in self.catalogues:
            raise Refused(404, "catalogue: there is none of this name", "catalogue")
        return self.catalogues[name]

    async def search(self, catalogue: Catalogue, question: Question) -> Found:
        """What a question finds."""
        ask, parts = self._searches[catalogue.name], _parts(question)
        if len(parts) == 1:
            return await ask(question)
        found = [await ask(part) for part in parts]
        return Found(
            np.concatenate([part.queries for part in found]),
            np.concatenate([part.ids for part in found]),
            np.concatenate([part.distances for part in found]),
            np.concatenate([part.codes for part in found]),
            [row for part in found for row in part.tags],
        )

    async def change(self, catalogue: Catalogue, change: Change) -> Changed:
        """Carry out a change; when this returns it is on disk."""
        return await self._changes[catalogue.name](change)

    async def figures(self, catalogue: Catalogue) -> dict[str, Any]:
        """Scores of a catalogue, measured once for each state of it, one at a time."""
        async with self._measuring:
            version = catalogue.store.version
            known = self._figures.get(catalogue.name)
            if known is None or known[0] != version:
                known = version, await self.aside(measure, catalogue)
                self._figures[catalogue.name] = known
            return known[1]

    async def aside(self, work: Callable[..., T], *arguments: object) -> T:
        """The outcome of something that takes a while, made in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._others, work, *arguments)

    async def with_image(self, work: Callable[..., T], *arguments: object) -> T:
        """The same, for work on an image: one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._imager, work, *arguments)

    async def stop(self) -> None:
        """Finish what is under way."""
        self.stopping = True
        for search in self._searches.values():
            await search.finish()
        for change in self._changes.values():
            await change.finish()
        for pool in (self._searchers, self._others, self._imager):
            pool.shutdown()


def _parts(question: Question) -> list[Question]:
    name = next(n for n in ("features", "codes", "ids") if getattr(question, n) is not None)
    rows = getattr(question, name)
    starts = range(0, len(rows), _PART)
    return [question._replace(**{name: rows[start : start + _PART]}) for start in starts]
