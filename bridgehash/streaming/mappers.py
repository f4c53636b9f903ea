"""Mappers: run tasks over blocks of rows in this process or on a cluster.

`mapper(function, arguments, shared)` yields `function(*shared, *each)` for each tuple of arguments,
in order. Functions are module-level and arguments can be pickled. Shared arguments are sent to each
worker once. Results are requested one by one, so only a few are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Mapper(Protocol):
    """Call a function for many arguments."""

    def __call__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        shared: tuple[Any, ...] = (),
    ) -> Iterator[Any]: ...


def map_serially(
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    shared: tuple[Any, ...] = (),
) -> Iterator[Any]:
    """Run the tasks one after another in this process.

    >>> list(map_serially(pow, [(2,), (3,)], shared=(10,)))
    [100, 1000]
    """
    for each in arguments:
        yield function(*shared, *each)


cluster_mapper: ContextVar[Mapper | None] = ContextVar("cluster_mapper", default=None)
"""The mapper of the cluster in use; None: tasks run in this process."""


@contextmanager
def use_mapper(mapper: Mapper | None) -> Iterator[None]:
    """Run all tasks inside the block with this mapper; None: in this process."""
    before = cluster_mapper.set(mapper)
    try:
        yield
    finally:
        cluster_mapper.reset(before)


def current_mapper() -> Mapper:
    """Return the mapper of the cluster in use, else `map_serially`."""
    return cluster_mapper.get() or map_serially
