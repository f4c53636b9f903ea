"""Checks of the codes, ids, tags and domains that are given to an index."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import IdExistsError, InputError, unknown
from .._core.validation import Range
from ..codes import n_bytes
from .attributes import BatchAttributes, parse_attributes
from .ids import IdKind, Ids, check_kind, kind_of, no_ids, on_host, parse_ids

SearchMode = Literal["exact", "approximate"]


class Batch(NamedTuple):
    """Codes with increasing ids, and their attributes if any were given."""

    codes: NDArray[np.uint8]  # (n, n_bytes)
    ids: Ids
    attributes: BatchAttributes | None = None
    corrections: NDArray[np.float16] | None = None  # (n, 2); NaN where there are none

    def rows(self, rows: Any) -> Batch:
        """Return some items."""
        numbered = self.attributes
        if numbered is not None:
            numbered = numbered._replace(numbers=numbered.numbers[rows])
        corrections = None if self.corrections is None else self.corrections[rows]
        return Batch(self.codes[rows], self.ids[rows], numbered, corrections)


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


def checked_batch(
    codes: ArrayLike,
    ids: ArrayLike | None,
    tags: ArrayLike | None,
    domain: ArrayLike | None,
    n_bits: int,
    *,
    corrections: ArrayLike | None = None,
    may_miss: bool = False,
    kind: IdKind | None = None,
    first_id: int = 0,
) -> Batch:
    """Return codes sorted by id, for an index with ids of this kind.

    Without ids they are numbered from `first_id`. `may_miss` allows NaN as corrections of
    codes that have none.
    """
    packed = packed_codes(codes, n_bits)
    n = len(packed)
    attributes = parse_attributes(tags, domain, n)
    numbers = None if corrections is None else checked_corrections(corrections, n, may_miss)
    if ids is None:
        if kind == "text" and n:
            raise InputError("this index has text ids; give one id per code", "ids")
        return Batch(packed, np.arange(first_id, first_id + n), attributes, numbers)
    given = check_kind(parse_ids(ids), kind)
    if len(given) != n:
        raise InputError(f"{len(given)} ids for {n} codes; give one id per code", "ids")
    order = np.argsort(given, kind="stable")
    batch = Batch(packed, given, attributes, numbers).rows(order)
    if n and kind_of(given) == "numbers" and batch.ids[0] < 0:
        raise InputError(f"id {batch.ids[0]} is negative; ids are whole numbers from 0", "ids")
    twice = np.flatnonzero(batch.ids[1:] == batch.ids[:-1])
    if len(twice):
        raise InputError(f"id {batch.ids[twice[0]]} is given twice", "ids")
    return batch


def checked_corrections(
    corrections: ArrayLike, n: int, may_miss: bool = False
) -> NDArray[np.float16]:
    """Return offsets and slopes of n codes as float16, from `encode_corrected`."""
    given = np.asarray(on_host(corrections))
    if given.dtype.kind != "f" or given.shape != (n, 2):
        raise InputError(
            f"{given.dtype} of shape {given.shape}; two numbers per code, shape ({n}, 2), are "
            "needed (see encode_corrected)",
            "corrections",
        )
    with np.errstate(over="ignore"):
        numbers = given.astype(np.float16)
    if not valid_corrections(numbers) or (np.isnan(numbers).any() and not may_miss):
        raise InputError(
            "values that are NaN, infinite as float16, or a negative slope; use the corrections of "
            "encode_corrected, and add codes that have none in a batch of their own",
            "corrections",
        )
    return numbers


def valid_corrections(numbers: NDArray[np.float16]) -> bool:
    """Return whether each pair is finite with a slope of at least 0, or NaN as a whole."""
    missing = np.isnan(numbers)
    same = (missing[:, 0] == missing[:, 1]).all()
    return bool(same and (missing | np.isfinite(numbers)).all() and not (numbers[:, 1] < 0).any())


def id_exists(id_: object) -> IdExistsError:
    """Build the error of `add` for an id that is already in the index."""
    error = IdExistsError(f"id {id_} is in the index already; use upsert to replace it", "ids")
    error.id = id_
    return error


def no_neighbors(
    n_queries: int, k: int, n_bits: int, kind: IdKind | None
) -> tuple[NDArray[np.int32], Ids]:
    """Return the values where there are fewer than k codes: distance n_bits + 1, and no id."""
    return np.full((n_queries, k), n_bits + 1, np.int32), no_ids(n_queries, k, kind)
