"""The memory of the service: a stated limit, and what requests hold of it.

The limit covers the loaded catalogues, the child processes, the connections, and a budget for
requests. A request reserves the bytes of its body, its arrays and its answer before it holds them,
and gives them back when the answer is sent. What does not fit is answered with 503.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from threading import Lock

from .._core.errors import InputError
from .errors import overloaded
from .settings import Limits

DECODER_BYTES = 512 << 20  # what one child process may allocate
_DECODER_BASE = 96 << 20  # its interpreter and libraries
_CONNECTION_BYTES = 64 << 10  # a request head and the unsent end of an answer
_OVERHEAD = 128 << 20  # threads, allocator, counters, batches of searches
_MIN_BODIES = 4  # of full size, that fit the budget
_LARGE = 256 << 10  # a request that holds more may not use the last part of the budget
_LARGE_SHARE = 0.75


class MemoryBudget:
    """Bytes that requests hold. Thread-safe.

    >>> budget = MemoryBudget(100)
    >>> held = budget.hold()
    >>> held.reserve(80)
    >>> budget.used
    80
    >>> held.release()
    >>> budget.used
    0
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self._lock = Lock()

    def hold(self) -> HeldMemory:
        """Return the account of one request."""
        return HeldMemory(self)

    def change(self, n: int, large: bool = False) -> None:
        """Add n bytes, or give them back; raise 503 if they do not fit.

        The last part of the budget is for small requests, so that a few large ones cannot lock
        everybody out.
        """
        with self._lock:
            most = self.limit * _LARGE_SHARE if large else self.limit
            if n > 0 and self.used + n > most:
                raise overloaded("the memory for requests is in use; retry later")
            self.used += n


class HeldMemory:
    """Bytes that one request holds."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget, self._n = budget, 0

    def reserve(self, n: int) -> None:
        """Hold n more bytes; raise 503 if they do not fit."""
        self._budget.change(n, large=self._n + n > _LARGE)
        self._n += n

    def release(self) -> None:
        """Give everything back."""
        self._budget.change(-self._n)
        self._n = 0


def plan(limits: Limits, memory_limit: int | None) -> Limits:
    """Return the limits with the memory of the service, once its catalogues are loaded.

    Without a limit, requests get their default budget on top of what is loaded. With one, they get
    what remains; if that is too little for two child processes, there is one.
    """
    if memory_limit is None:
        total = _fixed_bytes(limits) + limits.request_bytes
        return replace(limits, memory_bytes=total)
    least = _MIN_BODIES * limits.body_bytes
    if memory_limit < _fixed_bytes(limits) + least:
        limits = replace(limits, decoders=1)
    remaining = memory_limit - _fixed_bytes(limits)
    if remaining < least:
        needed = (_fixed_bytes(limits) + least >> 20) + 1
        raise InputError(
            f"{memory_limit >> 20} MiB are too little for these catalogues and their requests; "
            f"set at least {needed}MiB",
            "--memory-limit",
        )
    return replace(limits, request_bytes=remaining, memory_bytes=memory_limit)


def _fixed_bytes(limits: Limits) -> int:
    """Return what the service needs besides its requests."""
    children = limits.decoders * (DECODER_BYTES + _DECODER_BASE)
    return resident_bytes() + children + limits.connections * _CONNECTION_BYTES + _OVERHEAD


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
