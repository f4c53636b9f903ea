"""Damage done to files on purpose, and the answers that are right afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from bridgehash.index import HammingIndex
from bridgehash.models.model_file import load_model, save_model

Arrays = dict[str, np.ndarray]
Header = dict[str, Any]

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 7, 64, 65, 4096, 4097, 2**31, 2**53, 2**63, 2**70, -(2**40), 1.5,
    1e308, "", "64", "x" * 300, "\x1b[31m", "\ud800", [], [1], {}, {"a": 1}, [[[]]],
)  # fmt: skip
DTYPES = ("u1", "i1", "u2", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?")


def flipped(data: bytes, rng: np.random.Generator, at: int | None = None) -> bytes:
    """Return data with one bit changed."""
    damaged = bytearray(data)
    at = int(rng.integers(len(damaged))) if at is None else at
    damaged[at] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def sample_index(
    rng: np.random.Generator, n: int = 30, n_bits: int = 12, *, text: bool = False
) -> HammingIndex:
    """Return an index with tags, domains, and gaps between its ids."""
    codes = rng.integers(0, 256, (n, -(-n_bits // 8)), dtype=np.uint8)
    codes[:, -1] &= 0xFF << (-n_bits % 8) & 0xFF
    ids = np.sort(rng.permutation(10 * n)[:n])
    tags = [["", "ant", ["bee", "ant"], "Ünï"][i] for i in rng.integers(0, 4, n)]
    domains = [["", "photo", "sketch"][i] for i in rng.integers(0, 3, n)]
    names = [f"é{i}" for i in ids.tolist()] if text else ids
    index = HammingIndex(n_bits).add(codes, names, tags=tags, domain=domains)
    index.about = {"model": "m", "domain": "source"}
    return index


def craft(path: Path, out: Path, rng: np.random.Generator) -> None:
    """Write a file with changed contents and a right checksum."""
    file = load_model(path)
    header, arrays = json.loads(json.dumps(file.header)), dict(file.arrays)
    for _ in range(int(rng.integers(1, 4))):
        _choose(rng, (_change_array, _change_array, _change_header))(header, arrays, rng)
    save_model(out, file.kind, header, arrays)


def _choose(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a JSON value with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in list(items):
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def _change_header(header: Header, arrays: Arrays, rng: np.random.Generator) -> None:
    places = list(_places(header))
    if not places:
        return
    container, key = _choose(rng, places)
    kind = int(rng.integers(4))
    if kind == 0 and isinstance(container, dict):
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[str(_choose(rng, ODD_VALUES))] = deepcopy(container[key])
    elif kind == 2:
        container[key] = deepcopy(_choose(rng, [c[k] for c, k in places]))
    else:
        container[key] = deepcopy(_choose(rng, ODD_VALUES))


def _change_array(header: Header, arrays: Arrays, rng: np.random.Generator) -> None:
    if not arrays:
        return
    name = _choose(rng, sorted(arrays))
    array = arrays[name]
    changes: tuple[Callable[[], Any], ...] = (
        lambda: arrays.pop(name),
        lambda: arrays.update({name: array[:0]}),
        lambda: arrays.update({name: array[..., :-1]}),
        lambda: arrays.update({name: array[::-1].copy()}),
        lambda: arrays.update({name: np.concatenate([array, array])}),
        lambda: arrays.update({name: array.reshape(-1)}),
        lambda: arrays.update({name: array[None]}),
        lambda: arrays.update({name: array.T.copy()}),
        lambda: arrays.update({name: array.astype(_choose(rng, DTYPES))}),
        lambda: arrays.update({name: _overwritten(array, rng)}),
        lambda: arrays.update({name: _overwritten(array, rng)}),
        lambda: arrays.update({name: arrays[_choose(rng, sorted(arrays))]}),
        lambda: arrays.update({"more": array}),
    )
    with np.errstate(all="ignore"):
        _choose(rng, changes)()


def _overwritten(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array with an extreme value somewhere."""
    changed = np.array(array)
    if changed.size == 0:
        return changed
    if changed.dtype.kind == "f":
        values: tuple[Any, ...] = (np.nan, np.inf, -np.inf, 1e300, -1e-310, 0.0)
    elif changed.dtype.kind == "b":
        values = (True, False)
    else:
        limits = np.iinfo(changed.dtype)
        values = (limits.min, limits.max, 0, 1, limits.max // 2)
    with np.errstate(all="ignore"):
        changed.reshape(-1)[int(rng.integers(changed.size))] = _choose(rng, values)
    return changed
