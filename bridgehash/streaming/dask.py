"""What is used of Dask, or what to install."""

from __future__ import annotations

import logging
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import ClusterError
from .._core.threads import one_blas_thread
from .mappers import use_mapper

try:
    from dask.sizeof import sizeof
    from distributed import Client, Future, KilledWorker
    from distributed.utils import silence_logging_cmgr
except ImportError as error:
    raise ImportError("a cluster needs Dask; pip install 'bridgehash[dask]'") from error

__all__ = ["Client", "Future", "KilledWorker", "silence_logging_cmgr", "sizeof"]

_AHEAD = 3  # tasks a thread: one at work, and the next ones there before it asks
_SMALL = 1 << 16  # bytes that travel with a task; more would burden the scheduler
_RETRIES = 2  # of a task that fails: a file server may have a bad moment
_ATTEMPTS = 5  # to send what was lost
_LOOK = 5.0  # seconds between two looks at whether anybody is still at work
_PATIENCE = 60.0  # seconds that a cluster may be without any worker


class DaskMapper:
    """Maps functions over the workers of a cluster, a few tasks ahead of the results.

    What is shared is sent to all workers once a call. An object other than an array is taken to
    stay as it is: each worker has one copy of it as long as it lives here, and a `Reader` keeps
    its blocks there. A task uses one thread of BLAS, so that a worker uses as many as it has.

    Parameters
    ----------
    client : distributed.Client

    Examples
    --------
    >>> with Client(processes=False, dashboard_address=None) as client:  # doctest: +SKIP
    ...     list(DaskMapper(client)(pow, [(2,), (3,)], shared=(10,)))
    [100, 1000]
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._kept: dict[int, tuple[Any, _Copies]] = {}  # by id: a weak reference, what was sent

    def __call__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        shared: tuple[Any, ...] = (),
    ) -> Iterator[Any]:
        threads = self._threads()
        workers, room = list(threads), _AHEAD * sum(threads.values())
        call = _Call(self, function, shared)
        waiting: deque[_Task] = deque()  # given up, by an error or a break, its tasks end
        for number, each in enumerate(arguments):
            # The same worker for the same place in each pass: it may have kept the block.
            waiting.append(call.submit(each, workers[number % len(workers)]))
            if len(waiting) >= room:
                yield call.result(waiting.popleft())
        while waiting:
            yield call.result(waiting.popleft())

    def send(self, data: Any) -> Any:
        """Data on the workers, as an argument of tasks; small things stay what they are."""
        if isinstance(data, np.ndarray) or not type(data).__weakrefoffset__:
            return data if sizeof(data) <= _SMALL else self.scatter(data, broadcast=True)
        number = id(data)
        if number not in self._kept:
            gone = weakref.ref(data, lambda _: self._kept.pop(number, None))
            self._kept[number] = gone, _Copies(self, data)
        return self._kept[number][1]

    def forget(self) -> None:
        """Take all that was sent for lost."""
        self._kept.clear()

    def scatter(self, data: Any, *, broadcast: bool) -> Future:
        """Data that tasks take from each other's workers."""
        for _ in range(_ATTEMPTS):
            self._threads()
            try:
                return self.client.scatter([data], broadcast=broadcast, hash=False)[0]
            except (OSError, KeyError, TimeoutError, CancelledError) as error:
                problem = error  # a worker went while it was sent to
                time.sleep(1.0)
        raise ClusterError(f"data cannot be sent to the workers ({problem}); see their logs")

    def result(self, future: Future) -> Any:
        """What a task gives, however long it takes, as long as there are workers."""
        alone = 0.0
        while True:
            try:
                return future.result(timeout=_LOOK)
            except TimeoutError:
                if future.status == "error":  # the task's own
                    raise
                alone = 0.0 if self._threads(at_once=True) else alone + _LOOK
                if alone >= _PATIENCE:
                    raise self._without_workers() from None

    def _threads(self, *, at_once: bool = False) -> dict[str, int]:
        """The threads of each worker; of at least one, unless asked for at once."""
        try:
            found = dict(self.client.nthreads())
            while not (found or at_once):
                self.client.wait_for_workers(1, timeout=_PATIENCE)
                found = dict(self.client.nthreads())
            return found
        except TimeoutError:
            raise self._without_workers() from None
        except (OSError, ValueError, CancelledError) as error:
            raise self.gone() from error

    def gone(self) -> ClusterError:
        """What to say when nobody answers any more."""
        where = getattr(self.client.scheduler, "address", "the cluster")
        return ClusterError(f"{where}: the scheduler is gone; start it and run this again")

    def _without_workers(self) -> ClusterError:
        address = self.client.scheduler.address
        return ClusterError(
            f"{address}: has no workers; start some on each machine: dask worker {address}"
        )


class _Copies:
    """An object, with a copy for each worker that is asked to use it.

    They are results of tasks of their own: of equal results Dask soon drops all but one.
    """

    def __init__(self, mapper: DaskMapper, data: Any) -> None:
        self._client, self._first = mapper.client, mapper.scatter(data, broadcast=False)
        self._copies: dict[str, Future] = {}

    def on(self, worker: str) -> Future:
        """The copy that is there for a worker."""
        if worker not in self._copies:
            self._copies[worker] = self._client.submit(
                _same, self._first, pure=False, workers=[worker], allow_other_workers=True
            )
        return self._copies[worker]


@dataclass
class _Task:
    """Arguments, the worker that is best for them, and what has become of them so far."""

    arguments: tuple[Any, ...]
    worker: str
    given: tuple[Any, ...]  # what is shared, as it was sent
    future: Future


class _Call:
    """One function over many arguments."""

    def __init__(self, mapper: DaskMapper, function: Callable[..., Any], shared: Any) -> None:
        self._mapper, self._function, self._shared = mapper, function, shared
        self._given = tuple(map(mapper.send, shared))

    def submit(self, arguments: tuple[Any, ...], worker: str) -> _Task:
        """A task, best done by the given worker."""
        mapper, function = self._mapper, self._function
        given = [each.on(worker) if isinstance(each, _Copies) else each for each in self._given]
        own = [
            each if sizeof(each) <= _SMALL else mapper.scatter(each, broadcast=False)
            for each in arguments
        ]
        future = mapper.client.submit(
            _work,
            function,
            *given,
            *own,
            key=f"{function.__name__}-{uuid.uuid4().hex}",
            pure=False,
            retries=_RETRIES,
            workers=[worker],
            allow_other_workers=True,
        )
        return _Task(arguments, worker, self._given, future)

    def result(self, task: _Task) -> Any:
        """The result of a task, which is submitted again where what it needs was lost."""
        for _ in range(_ATTEMPTS):
            try:
                return self._mapper.result(task.future)
            except KilledWorker as error:
                raise ClusterError(
                    f"{self._function.__name__} ended several workers, likely for want of memory; "
                    "give them more, or fewer threads each"
                ) from error
            except CancelledError as error:
                if self._mapper.client.status != "running":
                    raise self._mapper.gone() from error
                if task.given is self._given:  # else a task before this one has sent it again
                    self._mapper.forget()
                    self._given = tuple(map(self._mapper.send, self._shared))
                task = self.submit(task.arguments, task.worker)
        raise ClusterError("workers end faster than they are given data; see their logs")


def _same(data: Any) -> Any:
    """What a worker has received, as its own."""
    return data


def _work(function: Callable[..., Any], *arguments: Any) -> Any:
    """A task, on a worker."""
    with one_blas_thread():
        return function(*arguments)


_ANSWER = 10.0  # seconds that a scheduler may take to answer


@contextmanager
def cluster(where: Any) -> Iterator[Client]:
    """Let a cluster do the work on the blocks of all fits inside.

    Parameters
    ----------
    where : str, distributed.Client or a cluster object
        Address of a scheduler (tcp://host:8786), or a client or cluster of one's own, which
        stays open.

    Examples
    --------
    >>> from bridgehash import ATH
    >>> with cluster("tcp://host:8786"):  # doctest: +SKIP
    ...     ATH.unsupervised(n_bits=64).fit("/data/photos/", "/data/sketches/")
    """
    client = where if isinstance(where, Client) else _connected(where)
    try:
        with use_mapper(DaskMapper(client)):
            yield client
    finally:
        if client is not where:
            client.close()


def quiet() -> AbstractContextManager[None]:
    """Dask's own messages are left out inside: that a worker went, say, which is seen to here."""
    found: AbstractContextManager[None] = silence_logging_cmgr(logging.CRITICAL + 1)
    return found


def _connected(where: Any) -> Client:
    try:
        return Client(where, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{where}: no scheduler answers there; start one with `dask scheduler`, and name the "
            "address that it prints, such as tcp://host:8786"
        ) from error
