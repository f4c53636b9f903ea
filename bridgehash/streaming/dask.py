"""Run the tasks of a fit or an encoding on a Dask cluster.

`cluster` is the public entry point. `DaskMapper` submits a few tasks per worker thread ahead of
the results, in order, and submits a task again if its data was lost with a worker.
"""

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

_AHEAD = 3  # tasks per worker thread: one running, two queued
_SMALL = 1 << 16  # bytes sent with a task; larger arguments would overload the scheduler
_RETRIES = 2  # of a failed task: a file server may be unavailable for a moment
_ATTEMPTS = 5  # to send lost data again
_POLL = 5.0  # seconds between two checks that there are workers
_PATIENCE = 60.0  # seconds that a cluster may be without workers
_IDLE = 10.0  # seconds that all workers may be idle while a task waits
_CONNECT = 10.0  # seconds that a scheduler may take to answer


@contextmanager
def cluster(where: Any) -> Iterator[Client]:
    """Run the block operations of all fits inside on a cluster.

    Parameters
    ----------
    where : str, distributed.Client or a cluster object
        Address of a scheduler (tcp://host:8786), or an existing client, which stays open.

    Examples
    --------
    >>> from bridgehash import ATH
    >>> with cluster("tcp://host:8786"):  # doctest: +SKIP
    ...     ATH.unsupervised(n_bits=64).fit("/data/photos/", "/data/sketches/")
    """
    client = where
    if not isinstance(where, Client):
        try:
            client = Client(where, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"{where}: no scheduler answers; start one with `dask scheduler` and use the "
                "address that it prints, such as tcp://host:8786"
            ) from error
    try:
        with use_mapper(DaskMapper(client)):
            yield client
    finally:
        if client is not where:
            client.close()


def quiet() -> AbstractContextManager[None]:
    """Suppress Dask's log messages inside, such as those about a lost worker."""
    return silence_logging_cmgr(logging.CRITICAL + 1)


class DaskMapper:
    """Map functions over the workers of a cluster.

    Shared arrays are sent to all workers once per call. Any other shared object must not change:
    each worker keeps one copy of it while the original exists, so a `BlockReader` keeps its cache
    there. A task uses one BLAS thread, so a worker uses as many cores as it has threads.

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
        self._sent: dict[int, tuple[Any, _WorkerCopies]] = {}  # by id, with a weak reference

    def __call__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        shared: tuple[Any, ...] = (),
    ) -> Iterator[Any]:
        threads = self._threads()
        workers, limit = list(threads), _AHEAD * sum(threads.values())
        call = _MapCall(self, function, shared)
        pending: deque[_PendingTask] = deque()  # dropped tasks are cancelled by Dask
        for number, each in enumerate(arguments):
            # Block i is sent to the same worker in each pass: it may be in its cache.
            pending.append(call.submit(each, workers[number % len(workers)]))
            if len(pending) >= limit:
                yield call.result(pending.popleft())
        while pending:
            yield call.result(pending.popleft())

    def send(self, data: Any) -> Any:
        """Send data to the workers and return a task argument for it; small data is unchanged."""
        if isinstance(data, np.ndarray) or not type(data).__weakrefoffset__:
            return data if sizeof(data) <= _SMALL else self.scatter(data, broadcast=True)
        key = id(data)
        if key not in self._sent:
            reference = weakref.ref(data, lambda _: self._sent.pop(key, None))
            self._sent[key] = reference, _WorkerCopies(self, data)
        return self._sent[key][1]

    def forget(self) -> None:
        """Treat all data that was sent as lost."""
        self._sent.clear()

    def scatter(self, data: Any, *, broadcast: bool) -> Future:
        """Send data to one worker or to all of them."""
        for _ in range(_ATTEMPTS):
            self._threads()
            try:
                return self.client.scatter([data], broadcast=broadcast, hash=False)[0]
            except (OSError, KeyError, TimeoutError, CancelledError) as error:
                problem = error  # a worker was lost while data was sent to it
                time.sleep(1.0)
        raise ClusterError(f"data cannot be sent to the workers ({problem}); see their logs")

    def result(self, future: Future) -> Any:
        """Wait for the result of a task, without a time limit while there are busy workers.

        If all workers are idle the task waits for data that was sent to a worker while it died,
        and `CancelledError` is raised.
        """
        alone = idle = 0.0
        while True:
            try:
                return future.result(timeout=_POLL)
            except TimeoutError:
                if future.status == "error":  # raised by the task
                    raise
                alone = 0.0 if self._threads(wait=False) else alone + _POLL
                if alone >= _PATIENCE:
                    raise self._no_workers() from None
                idle = 0.0 if alone or self._is_busy() else idle + _POLL
                if idle >= _IDLE:
                    raise CancelledError(future.key) from None

    def _is_busy(self) -> bool:
        """Whether a worker has any task."""
        try:
            return any(self.client.processing().values())
        except (OSError, ValueError, CancelledError) as error:
            raise self.scheduler_lost() from error

    def _threads(self, *, wait: bool = True) -> dict[str, int]:
        """Return the number of threads of each worker; by default wait for the first worker."""
        try:
            threads = dict(self.client.nthreads())
            while wait and not threads:
                self.client.wait_for_workers(1, timeout=_PATIENCE)
                threads = dict(self.client.nthreads())
            return threads
        except TimeoutError:
            raise self._no_workers() from None
        except (OSError, ValueError, CancelledError) as error:
            raise self.scheduler_lost() from error

    def scheduler_lost(self) -> ClusterError:
        """Return the error for a lost scheduler."""
        where = getattr(self.client.scheduler, "address", "the cluster")
        return ClusterError(f"{where}: connection to the scheduler lost; start it and run again")

    def _no_workers(self) -> ClusterError:
        address = self.client.scheduler.address
        return ClusterError(
            f"{address}: has no workers; start some on each machine: dask worker {address}"
        )


class _WorkerCopies:
    """An object with one copy per worker.

    Each copy is the result of its own task: Dask keeps only one of several equal results.
    """

    def __init__(self, mapper: DaskMapper, data: Any) -> None:
        self._client, self._original = mapper.client, mapper.scatter(data, broadcast=False)
        self._copies: dict[str, Future] = {}

    def on(self, worker: str) -> Future:
        """Return the copy for a worker."""
        if worker not in self._copies:
            self._copies[worker] = self._client.submit(
                _copy, self._original, pure=False, workers=[worker], allow_other_workers=True
            )
        return self._copies[worker]


@dataclass
class _PendingTask:
    """A submitted task, with what is needed to submit it again."""

    arguments: tuple[Any, ...]
    worker: str
    sent: tuple[Any, ...]  # the shared arguments that it uses
    future: Future


class _MapCall:
    """One call of a mapper: a function, its shared arguments, and the submission of its tasks."""

    def __init__(self, mapper: DaskMapper, function: Callable[..., Any], shared: Any) -> None:
        self._mapper, self._function, self._shared = mapper, function, shared
        self._sent = tuple(map(mapper.send, shared))

    def submit(self, arguments: tuple[Any, ...], worker: str) -> _PendingTask:
        """Submit a task, preferably to the given worker."""
        mapper, function = self._mapper, self._function
        shared = [
            each.on(worker) if isinstance(each, _WorkerCopies) else each for each in self._sent
        ]
        own = [
            each if sizeof(each) <= _SMALL else mapper.scatter(each, broadcast=False)
            for each in arguments
        ]
        future = mapper.client.submit(
            _run_task,
            function,
            *shared,
            *own,
            key=f"{function.__name__}-{uuid.uuid4().hex}",
            pure=False,
            retries=_RETRIES,
            workers=[worker],
            allow_other_workers=True,
        )
        return _PendingTask(arguments, worker, self._sent, future)

    def result(self, task: _PendingTask) -> Any:
        """Return the result of a task; submit it again if its data was lost."""
        for _ in range(_ATTEMPTS):
            try:
                return self._mapper.result(task.future)
            except KilledWorker as error:
                raise ClusterError(
                    f"{self._function.__name__} killed several workers, probably out of memory; "
                    "give them more memory or fewer threads"
                ) from error
            except CancelledError as error:
                if self._mapper.client.status != "running":
                    raise self._mapper.scheduler_lost() from error
                if task.sent is self._sent:  # else an earlier task has sent the data again
                    self._mapper.forget()
                    self._sent = tuple(map(self._mapper.send, self._shared))
                task = self.submit(task.arguments, task.worker)
        raise ClusterError("workers are lost faster than data can be sent; see their logs")


def _copy(data: Any) -> Any:
    """Return the data unchanged; its result is the copy of this worker."""
    return data


def _run_task(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task on a worker."""
    with one_blas_thread():
        return function(*arguments)
