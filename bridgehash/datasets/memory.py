"""Rows that were read before: many runs of one process share them instead of the disk."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from numpy.typing import NDArray

from .._core.linalg import Array

Rows = tuple[Array, NDArray[Any]]  # X of shape (n, d), y of shape (n,)


class Memory:
    """Read-only rows and labels, within a bound: those used longest ago make room.

    Rows that take more than the bound alone are handed out and not kept.

    >>> import numpy as np
    >>> memory = Memory(max_bytes=100)
    >>> X, y = memory.get("a", lambda: (np.zeros((3, 2)), np.arange(3)))
    >>> memory.get("a", lambda: 1 / 0)[0] is X, X.flags.writeable
    (True, False)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Rows] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """Bytes held now."""
        return sum(_size(rows) for rows in self._kept.values())

    def get(self, key: Hashable, make: Callable[[], Rows]) -> Rows:
        """What `make` gives, or gave when it was last asked for this key."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        rows = make()
        for array in rows:
            array.flags.writeable = False
        with self._lock:
            if _size(rows) <= self.max_bytes:
                self._kept[key] = rows
            while self.n_bytes > self.max_bytes:
                self._kept.popitem(last=False)
        return rows

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()


def _size(rows: Rows) -> int:
    return sum(array.nbytes for array in rows)
