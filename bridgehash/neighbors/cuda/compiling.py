"""Compile the kernels in parallel.

Triton compiles a kernel at its first launch, one after another. Without a disk cache this takes
longer than a fit. Here each kernel is compiled in its own thread, by a launch with an empty grid,
and a caller waits only for the kernels it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from threading import Lock
from typing import Any

import torch

_started: dict[tuple[Any, ...], list[Future[None]]] = {}
_lock = Lock()


def search_ready(d: int, k: int, dtype: Any, device: Any) -> None:
    """Wait until the kernels of a search are compiled."""
    key = ("search", d, k, dtype, device)
    for task in _tasks(key, partial(_search_steps, d, k, dtype, device)):
        task.result()


def product_ready(d: int, dtype: Any, device: Any) -> None:
    """Wait until the kernel of a sparse product with d columns is compiled."""
    key = ("product", d, dtype, device)
    for task in _tasks(key, partial(_product_steps, d, dtype, device)):
        task.result()


def _tasks(key: tuple[Any, ...], steps: Callable[[], list[Callable[[], None]]]) -> list[Any]:
    """Return the compilations for a key; start them the first time."""
    device = key[-1]
    if device.type != "cuda":
        return []
    with _lock:
        if key not in _started:
            with torch.cuda.device(device):
                _started[key] = [_pool().submit(_run, device, step) for step in steps()]
        return _started[key]


@cache
def _pool() -> ThreadPoolExecutor:
    from triton.runtime import driver

    driver.active.get_current_device()  # once, before several threads need it
    return ThreadPoolExecutor(thread_name_prefix="compile")


def _run(device: Any, step: Callable[[], None]) -> None:
    with torch.cuda.device(device):
        step()


def _search_steps(d: int, k: int, dtype: Any, device: Any) -> list[Callable[[], Any]]:
    """Return the steps of a search with empty inputs: each one compiles its kernel."""
    from . import stages

    empty = partial(torch.empty, dtype=dtype, device=device)
    real, whole = (partial(empty, dtype=other) for other in (torch.float32, torch.int32))
    width = stages.STRIP * -(-d // stages.STRIP)
    values = empty((0, width), dtype=torch.float16)
    none, listed, group = real(0), real((0, stages.PAD)), stages.group_of(width)
    halves = stages.Halves(values, empty(1), none, none, none, group)
    F, columns = empty((0, k)), empty((0, k), dtype=torch.int64)
    Q = empty((0, d))
    return [
        partial(stages.minima, halves, halves, none, none),
        partial(stages.recheck, Q, Q, listed, whole(0), group, 0, F, columns),
        partial(stages.select, listed, none, none, 0.5, k, whole(0)),
        partial(stages.halve, Q, empty(d), none, empty(1), rows=False, split=False),
    ]


def _product_steps(d: int, dtype: Any, device: Any) -> list[Callable[[], Any]]:
    from .sparse import Pieces, add_up

    whole = torch.empty(0, dtype=torch.int64, device=device)
    weights, H = (torch.empty((0, *rest), dtype=dtype, device=device) for rest in ((), (d,)))
    return [partial(add_up, Pieces(whole, whole, whole), whole.int(), weights, H, H)]
