"""Many codes into an index on a server: in batches, with a bar, and back out where it fails."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridgehash._progress import countdown
from bridgehash.engines import EngineError, EngineIndex, create_index, index_exists
from bridgehash.engines.base import check_name, parsed
from bridgehash.index.batch import checked_batch

from .console import may_animate
from .tables import InputError

_BATCH = 100_000  # codes in one transaction
_LOADING = "_loading"  # ends the name of an index that is not complete


class Load(NamedTuple):
    """Codes on their way into an index, and what is known of them."""

    codes: NDArray[np.uint8]
    n_bits: int
    about: dict[str, str]
    ids: NDArray[np.int64] | None = None
    tags: NDArray[Any] | None = None


def check_free(url: str, name: str, *, replace: bool) -> None:
    """Refuse a name that is taken, before any work is done."""
    check_name(name + _LOADING)
    if index_exists(url, name) and not replace:
        raise InputError(
            f"{parsed(url).shown}: {name} is there already; give --replace, or another --out"
        )


def build_on_server(
    url: str, name: str, load: Load, *, approximate: bool, replace: bool
) -> EngineIndex:
    """A new index, which gets its name when it is complete.

    What a build that was killed has left is dropped by the next one.
    """
    index = create_index(
        url,
        name + _LOADING,
        load.n_bits,
        approximate=approximate,
        about=load.about,
        replace=True,
    )
    try:
        load_codes(index, load)
        index.finish()
        index.rename(name, replace=replace)
    except BaseException:
        with index, suppress(EngineError):  # the first failure is the one to tell
            index.drop()
        raise
    return index


def load_codes(index: EngineIndex, load: Load, *, replace: bool = False) -> None:
    """Add codes, or put them in place of others; all of them, or where possible none."""
    first = index.next_id() if load.ids is None else 0
    batch = checked_batch(load.codes, load.ids, load.tags, index.n_bits, first)
    n, put = len(batch.ids), index.upsert if replace else index.add
    done = 0
    with countdown("load", visible=may_animate() and n > _BATCH) as reach:
        try:
            while done < n:
                rows = slice(done, done + _BATCH)
                tags = None if batch.tags is None else batch.tags[rows]
                put(batch.codes[rows], batch.ids[rows], tags=tags)
                done = min(done + _BATCH, n)
                reach(done, n)
        except BaseException as error:
            if done:
                _take_back(index, batch.ids[:done], n, error, replaced=replace)
            raise


def _take_back(
    index: EngineIndex, ids: NDArray[np.int64], n: int, error: BaseException, *, replaced: bool
) -> None:
    """Leave an index as it was before a load that failed, or say what is in it."""
    if replaced:
        raise InputError(
            f"{error}; {len(ids)} of {n} codes are in the index: the same command does the rest"
        ) from error
    try:
        index.remove(ids)
    except EngineError:
        raise InputError(
            f"{error}; {len(ids)} of {n} codes are in the index, ids {ids[0]} to {ids[-1]}: "
            "remove them, or give --ids and --replace"
        ) from error
