"""Properties of a device: whether kernels can run, and memory for a search."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from shutil import which
from typing import Any

import torch

_SHARE = 4  # a search may use 1/4 of the free memory
_MOST = 8 << 30  # bytes; more memory does not make a search faster
_HOST = 1 << 28  # bytes, on a CPU


@cache
def has_kernels(device: Any) -> bool:
    """Return whether Triton, a C compiler and a GPU of compute capability 8.0 are available."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    compiler = os.environ.get("CC") or which("gcc") or which("clang")
    return compiler is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def scratch(device: Any) -> int:
    """Return the bytes that a search may use in addition to its inputs and results."""
    if device.type != "cuda":
        return _HOST
    free = torch.cuda.mem_get_info(device)[0]
    if free < _SHARE * _MOST:  # add what torch has cached; this is slow
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(_MOST, int(free) // _SHARE)
