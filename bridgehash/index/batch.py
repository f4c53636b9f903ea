"""Checks of the codes, ids and tags that are given to an index."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import IdExistsError, InputError, unknown
from .._core.validation import Range
from ..codes import n_bytes

Ids = NDArray[np.int64]
MAX_ID = 2**53 - 1  # of automatic ids: larger integers lose digits in some JSON parsers
SearchMode = Literal["exact", "approximate"]


class Batch(NamedTuple):
    """Codes with increasing ids, and one tag per code if tags were given."""

    codes: NDArray[np.uint8]  # (n, n_bytes)
    ids: Ids
    tags: NDArray[Any] | None  # (n,), text


def check_search_mode(search: str) -> SearchMode:
    """Return "exact" or "approximate"; refuse anything else."""
    modes = get_args(SearchMode)
    if search not in modes:
        raise InputError(unknown("search mode", str(search), modes), "search")
    return search  # type: ignore[return-value]


def check_number(value: int, name: str, least: int, most: float = np.inf) -> int:
    """Return a whole number from `least` to `most`."""
    rule = Range(least, most, kind=Integral)
    if not rule.admits(value):
        raise InputError(f"{value!r} is not allowed; use {rule}", name)
    return int(value)


def on_host(array: Any) -> Any:
    """Copy a torch tensor to the CPU; return anything else unchanged."""
    return array.cpu() if hasattr(array, "cpu") else array


def packed_codes(codes: ArrayLike, n_bits: int) -> NDArray[np.uint8]:
    """Return codes as a uint8 array of shape (n, n_bytes) in main memory.

    Arrays and tensors must be uint8: a cast would turn projections or ±1 signs into wrong codes.
    Python lists of whole numbers from 0 to 255 are accepted.
    """
    packed = np.asarray(on_host(codes))
    is_list = not hasattr(codes, "dtype")
    if is_list and packed.dtype.kind in "iu" and not (packed >> 8).any():
        packed = packed.astype(np.uint8)
    if packed.dtype != np.uint8:
        reason = "values outside 0..255" if is_list and packed.dtype.kind in "iu" else packed.dtype
        raise InputError(f"{reason}; packed uint8 codes are needed (see encode and pack)", "codes")
    width = n_bytes(n_bits)
    if packed.ndim != 2 or packed.shape[1] != width:
        raise InputError(
            f"shape {packed.shape}; codes of {n_bits} bits have {width} bytes per row", "codes"
        )
    spare = 8 * width - n_bits
    if (packed[:, -1] & ((1 << spare) - 1)).any():
        raise InputError(f"the last {spare} bits of {n_bits}-bit codes must be zero", "codes")
    return packed


def whole_ids(ids: ArrayLike) -> Ids:
    """Return ids as an int64 array of one dimension; fractions and text are refused."""
    array = np.asarray(on_host(ids))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"shape {array.shape}, type {array.dtype}; a list of whole numbers is needed", "ids"
        )
    return array.astype(np.int64)


def free_ids(ids: Ids, n: int) -> Ids:
    """Return n ids that are not among some increasing ones.

    They follow the highest id, or if that is too high, fill the lowest gaps.

    >>> free_ids(np.array([0, 5]), 2), free_ids(np.array([0, 2, MAX_ID]), 3)
    (array([6, 7]), array([1, 3, 4]))
    """
    first = int(ids[-1]) + 1 if len(ids) else 0
    if first + n - 1 <= MAX_ID:
        return np.arange(first, first + n)
    ids = ids[: np.searchsorted(ids, MAX_ID, "right")]
    before = np.append(-1, ids)
    sizes = np.append(ids, MAX_ID + 1) - before - 1  # of the gap after each id
    last = int(np.argmax(np.cumsum(np.minimum(sizes, n)) >= n))  # gap with the n-th free id
    starts, lengths = before[: last + 1] + 1, np.minimum(sizes[: last + 1], n)
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return (np.repeat(starts, lengths) + steps)[:n]


def checked_batch(
    codes: ArrayLike, ids: ArrayLike | None, tags: ArrayLike | None, n_bits: int, first_id: int
) -> Batch:
    """Return codes sorted by id. Without ids they are numbered from `first_id`."""
    packed = packed_codes(codes, n_bits)
    n = len(packed)
    texts = None if tags is None else np.asarray(tags, dtype=object)
    if texts is not None and (
        texts.shape != (n,) or not all(isinstance(text, str) for text in texts)
    ):
        raise InputError(f"shape {texts.shape}; give one text per code, {n} in all", "tags")
    if ids is None:
        return Batch(packed, np.arange(first_id, first_id + n), texts)
    given = whole_ids(ids)
    if len(given) != n:
        raise InputError(f"{len(given)} ids for {n} codes; give one id per code", "ids")
    order = np.argsort(given, kind="stable")
    increasing = given[order]
    if n and increasing[0] < 0:
        raise InputError(f"id {increasing[0]} is negative; ids are whole numbers from 0", "ids")
    twice = np.flatnonzero(increasing[1:] == increasing[:-1])
    if len(twice):
        raise InputError(f"id {increasing[twice[0]]} is given twice", "ids")
    return Batch(packed[order], increasing, None if texts is None else texts[order])


def id_exists(id_: object) -> IdExistsError:
    """Build the error of `add` for an id that is already in the index."""
    error = IdExistsError(f"id {id_} is in the index already; use upsert to replace it", "ids")
    error.id = id_
    return error


def no_neighbors(n_queries: int, k: int, n_bits: int) -> tuple[NDArray[np.int32], Ids]:
    """Return distances n_bits + 1 and ids -1: the values where there are fewer than k codes."""
    far = np.full((n_queries, k), n_bits + 1, np.int32)
    return far, np.full((n_queries, k), -1, np.int64)
