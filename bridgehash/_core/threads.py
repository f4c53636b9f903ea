"""Blocks of rows, each worked on by one thread with a BLAS of one thread.

Threads of BLAS meet at the end of every product, and whatever follows a product runs on one of
them alone. A thread a block needs neither: on two cores encoding took three quarters of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from sklearn.utils import gen_batches
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
    """`work(rows)` for blocks of `size` rows, in their order.

    Parameters
    ----------
    threads : bool
        As many blocks at a time as BLAS has threads; one after another otherwise.
    done : callable, optional
        Told the number of rows after each block.

    Examples
    --------
    >>> map_blocks(lambda rows: (rows.start, rows.stop), 5, 2, threads=True)
    [(0, 2), (2, 4), (4, 5)]
    """
    blocks = list(gen_batches(n_rows, size))
    if not threads:
        return _collect(map(work, blocks), blocks, done)
    with _BLAS.single_threaded() as n_threads:  # one block as well: threads add in another order
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


class _Blas:
    """The threads of BLAS, which all threads of a process share.

    They come back when the last user has finished, whoever that is: of limits that overlap,
    threadpoolctl restores what the first has left, which is one thread for good.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before: list[int] = []

    @contextmanager
    def single_threaded(self) -> Iterator[int]:
        """One thread for BLAS; gives the number that it had (1 where that is unknown)."""
        with self._lock:
            if self._users == 0:
                self._before = [library.num_threads for library in _libraries()]
                self._set([1] * len(self._before))
            self._users += 1
        try:
            yield min(self._before, default=1)
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._set(self._before)

    @staticmethod
    def _set(numbers: list[int]) -> None:
        for library, number in zip(_libraries(), numbers, strict=True):
            library.set_num_threads(number)
            if library.num_threads != number and hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)  # a thread that is done holds it
                library.set_num_threads(number)


@cache
def _libraries() -> list[Any]:
    """Controllers of the BLAS libraries in use; looks through all that is loaded, hence once."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_BLAS = _Blas()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """For work that many threads do at a time."""
    with _BLAS.single_threaded():
        yield
