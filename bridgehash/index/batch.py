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

    def rows(self, rows: Any) -> Batch:
        """Return some items."""
        numbered = self.attributes
        if numbered is not None:
            numbered = numbered._replace(numbers=numbered.numbers[rows])
        return Batch(self.codes[rows], self.ids[rows], numbered)


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
    kind: IdKind | None = None,
    first_id: int = 0,
) -> Batch:
    """Return codes sorted by id, for an index with ids of this kind.

    Without ids they are numbered from `first_id`.
    """
    packed = packed_codes(codes, n_bits)
    n = len(packed)
    attributes = parse_attributes(tags, domain, n)
    if ids is None:
        if kind == "text" and n:
            raise InputError("this index has text ids; give one id per code", "ids")
        return Batch(packed, np.arange(first_id, first_id + n), attributes)
    given = check_kind(parse_ids(ids), kind)
    if len(given) != n:
        raise InputError(f"{len(given)} ids for {n} codes; give one id per code", "ids")
    order = np.argsort(given, kind="stable")
    batch = Batch(packed, given, attributes).rows(order)
    if n and kind_of(given) == "numbers" and batch.ids[0] < 0:
        raise InputError(f"id {batch.ids[0]} is negative; ids are whole numbers from 0", "ids")
    twice = np.flatnonzero(batch.ids[1:] == batch.ids[:-1])
    if len(twice):
        raise InputError(f"id {batch.ids[twice[0]]} is given twice", "ids")
    return batch


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
