"""Who does the work on the blocks: this process, or machines elsewhere.

A mapper is called as `mapper(function, arguments, shared)` and gives `function(*shared, *each)` for
each tuple of arguments, in their order. Functions are module-level and arguments can be pickled, so
a cluster may run them anywhere; what is shared it sends to a worker once. Results are asked
for one by one, so no mapper has to hold more than a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol


class Mapper(Protocol):
    """Calls a function for many arguments, wherever it likes."""

    def __call__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        shared: tuple[Any, ...] = (),
    ) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Serial:
    """One after the other.

    >>> list(Serial()(pow, [(2,), (3,)], shared=(10,)))
    [100, 1000]
    """

    def __call__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        shared: tuple[Any, ...] = (),
    ) -> Iterator[Any]:
        for each in arguments:
            yield function(*shared, *each)


_HERE = Serial()
_current: ContextVar[Mapper] = ContextVar("mapper", default=_HERE)


def current_mapper() -> Mapper:
    """Who does the work on blocks at the moment: this thread, unless `mapped_by` says otherwise."""
    return _current.get()


@contextmanager
def mapped_by(mapper: Mapper) -> Iterator[None]:
    """Let a mapper do the work on blocks of all fits inside."""
    token = _current.set(mapper)
    try:
        yield
    finally:
        _current.reset(token)
