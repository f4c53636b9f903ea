"""What waits is done together: one pass over the codes, or one fsync, for several requests.

Nothing is held back to fill a group: whoever comes while all lanes are busy forms the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from .errors import busy

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Batcher(Generic[Asked, Answer]):
    """A function of many requests, called by single ones.

    Parameters
    ----------
    work : callable
        Takes a list of requests, gives a list of as many answers; an answer that is an exception
        is raised for the one who asked. Runs in `pool`.
    lanes : int
        Groups at work at a time.
    most : int
        Requests in a group.
    waiting : int
        Requests in the queue; further ones are refused.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Sequence[Answer | Exception]],
        pool: Executor,
        *,
        lanes: int,
        most: int,
        waiting: int,
        on_group: Callable[[int], object] = lambda n: None,
    ) -> None:
        self._work, self._pool = work, pool
        self._lanes, self._most, self._room = lanes, most, waiting
        self._on_group = on_group
        self._queue: deque[tuple[Asked, asyncio.Future[Answer]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_running = 0

    async def __call__(self, asked: Asked) -> Answer:
        """The answer to one request."""
        if len(self._queue) >= self._room:
            raise busy(f"{self._room} requests are waiting already; try again in a moment")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append((asked, future))
        if self._n_running < self._lanes:
            self._n_running += 1
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def finish(self) -> None:
        """Wait until nothing is left to do."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while group := self._next_group():
            self._on_group(len(group))
            try:
                asked = [request for request, _ in group]
                answers = await loop.run_in_executor(self._pool, self._work, asked)
            except Exception as error:
                answers = [error] * len(group)
            for (_, future), answer in zip(group, answers, strict=True):
                if future.done():  # whoever asked has gone
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._n_running -= 1  # at once: who comes next must not wait for this lane

    def _next_group(self) -> list[tuple[Asked, asyncio.Future[Answer]]]:
        group: list[tuple[Asked, asyncio.Future[Answer]]] = []
        while self._queue and len(group) < self._most:
            request = self._queue.popleft()
            if not request[1].done():  # timed out in the queue
                group.append(request)
        return group
