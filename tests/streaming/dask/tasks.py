"""Functions that workers import by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np


class Shared:
    """An object that is not equal to its copies."""

    def __init__(self, value: int) -> None:
        self.value = value


def plus(shared: Shared, number: int) -> int:
    return shared.value + number


def place(shared: Shared, number: int) -> tuple[int, int]:
    """Return the process, and the address of the object in it."""
    return os.getpid(), id(shared)


def slow(shared: Shared, number: int) -> int:
    time.sleep(0.05)
    return shared.value + number


def total(a: Any, b: Any) -> float:
    return float(np.sum(a) + np.sum(b))


def refuse(number: int) -> int:
    if number == 3:
        raise ValueError("shard 3: holds NaN; fill or drop it")
    return number


def out_of_time() -> None:
    raise TimeoutError("the task's own")


def end_the_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
