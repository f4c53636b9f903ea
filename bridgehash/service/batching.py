"""Micro-batching of queued requests: one pass over the codes, or one fsync, for several of them.

A batch never waits to be filled: requests that arrive while all threads are busy form the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from .errors import overloaded

In = TypeVar("In")
Out = TypeVar("Out")


class Batcher(Generic[In, Out]):
    """Call a function of many requests with single ones.

    Parameters
    ----------
    work : callable
        Takes a list of requests and returns as many results. A result that is an exception is
        raised to its caller only. Runs in `pool`.
    concurrency : int
        Batches that run at the same time.
    max_batch : int
        Requests per batch, counted by `size`; a larger request is a batch of its own.
    size : callable, optional
        What a request counts as. Default: 1.
    group : callable, optional
        Only requests of the same group share a batch. The one that has waited longest chooses the
        group of the next batch. Default: all are of one group.
    max_queue : int
        Requests that may wait; any more fail with 503.
    on_batch : callable, optional
        Called with the size of each batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[In]], Sequence[Out | Exception]],
        pool: Executor,
        *,
        concurrency: int,
        max_batch: int,
        max_queue: int,
        size: Callable[[In], int] = lambda request: 1,
        group: Callable[[In], Hashable] = lambda request: None,
        on_batch: Callable[[int], object] = lambda n: None,
    ) -> None:
        self._work, self._pool, self._on_batch = work, pool, on_batch
        self._size, self._group = size, group
        self._concurrency, self._max_batch, self._max_queue = concurrency, max_batch, max_queue
        self._queue: deque[tuple[In, asyncio.Future[Out]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_running = 0

    async def __call__(self, request: In) -> Out:
        """Queue one request and return its result."""
        if len(self._queue) >= self._max_queue:
            raise overloaded("overloaded; retry later")
        future: asyncio.Future[Out] = asyncio.get_running_loop().create_future()
        self._queue.append((request, future))
        if self._n_running < self._concurrency:
            self._n_running += 1
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def finish(self) -> None:
        """Wait until the queue is empty and no batch is running."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._next_batch():
            self._on_batch(len(batch))
            try:
                requests = [request for request, _ in batch]
                results = await loop.run_in_executor(self._pool, self._work, requests)
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its caller was cancelled
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._n_running -= 1  # before any await, so that the next request starts a new task

    def _next_batch(self) -> list[tuple[In, asyncio.Future[Out]]]:
        batch: list[tuple[In, asyncio.Future[Out]]] = []
        others: list[tuple[In, asyncio.Future[Out]]] = []
        size = 0
        while self._queue:
            request, future = self._queue[0]
            if not future.done():  # else it timed out in the queue
                if batch and self._group(request) != self._group(batch[0][0]):
                    others.append(self._queue.popleft())
                    continue
                size += self._size(request)
                if batch and size > self._max_batch:
                    break
                batch.append((request, future))
            self._queue.popleft()
        self._queue.extendleft(reversed(others))  # they keep their places
        return batch
