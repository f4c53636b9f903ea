"""What a device has to offer: kernels, and memory for a search."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from shutil import which
from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError("work on a GPU needs torch; pip install 'bridgehash[gpu]'") from error

_SHARE = 4  # of the free memory: one part in so many
_MOST = 8 << 30  # more of it does not make a search faster
_HOST = 1 << 28


@cache
def has_kernels(device: Any) -> bool:
    """Can Triton's kernels be compiled for the device and run? It calls a C compiler, too."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    compiler = os.environ.get("CC") or which("gcc") or which("clang")
    return compiler is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def scratch(device: Any) -> int:
    """Bytes that a search may hold beside its inputs and answers."""
    if device.type != "cuda":
        return _HOST
    free = torch.cuda.mem_get_info(device)[0]
    if free < _SHARE * _MOST:  # torch keeps some for itself; to ask for it takes longer
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(_MOST, int(free) // _SHARE)
