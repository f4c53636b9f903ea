"""Process blocks of rows in threads, each with single-threaded BLAS.

One thread per block is faster than multi-threaded BLAS, whose threads wait for each other after
every product: on two cores encoding takes three quarters of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")


def map_blocks(
    work: Callable[[slice], Part],
    n_rows: int,
    size: int,
    *,
    threads: bool,
    done: Callable[[int], None] | None = None,
) -> list[Part]:
    """Return `work(rows)` for each block of `size` rows, in order.

    Parameters
    ----------
    threads : bool
        Process as many blocks at a time as BLAS has threads; otherwise one after another.
    done : callable, optional
        Called with the number of finished rows after each block.

    Examples
    --------
    >>> map_blocks(lambda rows: (rows.start, rows.stop), 5, 2, threads=True)
    [(0, 2), (2, 4), (4, 5)]
    """
    blocks = [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
    if not threads:
        return _collect(map(work, blocks), blocks, done)
    # Also for one block: multi-threaded BLAS adds in another order and gives other bits.
    with one_blas_thread() as n_threads:
        if n_threads == 1 or len(blocks) == 1:
            return _collect(map(work, blocks), blocks, done)
        settings = copy_context()  # np.errstate of the caller
        with ThreadPoolExecutor(min(n_threads, len(blocks))) as pool:
            parts = pool.map(lambda rows: settings.copy().run(work, rows), blocks)
            return _collect(parts, blocks, done)


def _collect(
    parts: Iterator[Part], blocks: list[slice], done: Callable[[int], None] | None
) -> list[Part]:
    collected = []
    for part, rows in zip(parts, blocks, strict=True):
        collected.append(part)
        if done is not None:
            done(rows.stop)
    return collected


class _BlasThreads:
    """The number of BLAS threads, which is one setting for the whole process.

    It is restored when the last user has finished. threadpoolctl alone cannot do this: if limits
    overlap in time, it restores the number found by the last one, which is 1.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before: list[int] = []

    @contextmanager
    def single_threaded(self) -> Iterator[int]:
        """Set BLAS to one thread; yield the number it had before (1 if unknown)."""
        with self._lock:
            if self._users == 0:
                self._before = [library.num_threads for library in _libraries()]
                if set(self._before) != {1}:
                    self._set([1] * len(self._before))
            self._users += 1
        try:
            yield min(self._before, default=1)
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and set(self._before) != {1}:
                    self._set(self._before)

    @staticmethod
    def _set(numbers: list[int]) -> None:
        for library, number in zip(_libraries(), numbers, strict=True):
            library.set_num_threads(number)
            if library.num_threads != number and hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)  # held by a thread that has ended
                library.set_num_threads(number)


@cache
def _libraries() -> list[Any]:
    """Return the controllers of the loaded BLAS libraries; cached, because the search is slow."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


one_blas_thread = _BlasThreads().single_threaded  # for work that runs in many threads
