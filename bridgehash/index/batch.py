"""What every index checks of the codes, ids and tags that it is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..codes import n_bytes

MOST_BITS = 1024

Ids = NDArray[np.int64]


class Batch(NamedTuple):
    """Codes with their ids, which increase, and a tag each if any was given."""

    codes: NDArray[np.uint8]  # (n, n_bytes)
    ids: Ids
    tags: NDArray[Any] | None  # (n,), text


def check_length(n_bits: int) -> int:
    """The number of bits, if an index can have codes of it."""
    if not 1 <= n_bits <= MOST_BITS:
        raise ValueError(f"n_bits={n_bits} is outside 1..{MOST_BITS}")
    return int(n_bits)


def check_k(k: int) -> int:
    """The number of codes to find, if it is one."""
    if k < 1:
        raise ValueError(f"k={k} is not allowed: give a whole number of at least 1")
    return int(k)


def packed_codes(codes: ArrayLike, n_bits: int) -> NDArray[np.uint8]:
    """Codes as an array of bytes, wherever they lie, if their rows have the right length."""
    on_host = codes.cpu() if hasattr(codes, "cpu") else codes  # a torch tensor may be on a GPU
    packed = np.asarray(on_host, dtype=np.uint8)
    if packed.ndim != 2 or packed.shape[1] != n_bytes(n_bits):
        raise ValueError(
            f"codes of shape {packed.shape} are not codes of {n_bits} bits, which have "
            f"{n_bytes(n_bits)} bytes a row"
        )
    spare = 8 * packed.shape[1] - n_bits
    if (packed[:, -1] & ((1 << spare) - 1)).any():
        raise ValueError(
            f"codes of {n_bits} bits end with {spare} bits of zero, which are set here"
        )
    return packed


def checked_batch(
    codes: ArrayLike, ids: ArrayLike | None, tags: ArrayLike | None, n_bits: int, first_id: int
) -> Batch:
    """Codes in the order of their ids, each id once; without ids those from `first_id` on."""
    packed = packed_codes(codes, n_bits)
    n = len(packed)
    texts = None if tags is None else _texts(tags, n)
    if ids is None:
        return Batch(packed, np.arange(first_id, first_id + n), texts)
    given = np.asarray(ids)
    if n == 0 and given.shape == (0,):
        given = given.astype(np.int64)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"ids of shape {given.shape} and type {given.dtype}; one whole number for each of "
            f"the {n} codes is needed"
        )
    order = np.argsort(given, kind="stable")
    increasing = given.astype(np.int64)[order]
    if n and increasing.min() < 0:
        raise ValueError(f"id {increasing.min()} is negative; ids are whole numbers from 0 on")
    twice = np.flatnonzero(increasing[1:] == increasing[:-1])
    if len(twice):
        raise ValueError(f"id {increasing[twice[0]]} is given twice")
    return Batch(packed[order], increasing, None if texts is None else texts[order])


def _texts(tags: ArrayLike, n: int) -> NDArray[Any]:
    texts = np.asarray(tags, dtype=object)
    if texts.shape != (n,) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"tags of shape {texts.shape}: one text for each of the {n} codes is needed"
        )
    return texts
