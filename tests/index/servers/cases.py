"""Checks for an index on any server: its answers are those of `HammingIndex`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bridgehash._core.errors import InputError
from bridgehash.codes import pack
from bridgehash.index import HammingIndex

# Quotes, escapes, blanks and other scripts must be stored unchanged.
TAGS = ["", "shoes", "a'b\"c", "x\\ny", "line\nbreak", "\\", "日本", " shoes"]


def random_codes(rng: np.random.Generator, n: int, n_bits: int, spread: float = 0.5) -> Any:
    return pack(rng.random((n, n_bits)) < spread)


def random_tags(rng: np.random.Generator, n: int) -> Any:
    return np.array(TAGS, dtype=object)[rng.integers(0, len(TAGS), n)]


def assert_same_answers(index: Any, twin: HammingIndex, queries: Any, k: int, tag: Any) -> None:
    for ours, expected in zip(
        index.search(queries, k, tag=tag), twin.search(queries, k, tag=tag), strict=True
    ):
        np.testing.assert_array_equal(ours, expected)
        assert ours.dtype == expected.dtype


def check_same_answers(index: Any, *, n: int = 700, tags: list[Any]) -> None:
    """Few distinct distances, so there are ties at nearly every place."""
    rng = np.random.default_rng(index.n_bits)
    codes = random_codes(rng, n, index.n_bits, spread=0.2)
    ids, given = rng.permutation(5 * n)[:n], random_tags(rng, n)
    index.add(codes, ids, tags=given)
    twin = HammingIndex(index.n_bits).add(codes, ids, tags=given)
    queries = random_codes(rng, 9, index.n_bits, spread=0.2)
    for tag in tags:
        assert_same_answers(index, twin, queries, 12, tag)
    assert_same_answers(index, twin, queries[:2], n + 5, None)
    assert len(index) == n


def check_operations(index: Any, seed: int, n_steps: int) -> None:
    """Make the same random changes on an index in memory and compare all answers."""
    rng = np.random.default_rng(seed)
    twin = HammingIndex(index.n_bits)
    for _ in range(n_steps):
        n = int(rng.integers(0, 9))
        ids, codes = rng.permutation(40)[:n], random_codes(rng, n, index.n_bits, spread=0.3)
        tags = random_tags(rng, n) if rng.random() < 0.5 else None
        step = rng.integers(0, 4)
        if step == 0:
            same_outcome(index, twin, lambda one: len(one.add(codes, ids, tags=tags)))  # noqa: B023
        elif step == 1:
            same_outcome(index, twin, lambda one: len(one.upsert(codes, ids, tags=tags)))  # noqa: B023
        elif step == 2:
            same_outcome(index, twin, lambda one: one.remove(ids))  # noqa: B023
        else:
            same_outcome(index, twin, lambda one: len(one.add(codes, tags=tags)))  # noqa: B023
        tag = None if rng.random() < 0.5 else TAGS[rng.integers(0, len(TAGS))]
        assert_same_answers(
            index, twin, random_codes(rng, 3, index.n_bits), int(rng.integers(1, 9)), tag
        )


def same_outcome(index: Any, twin: HammingIndex, step: Any) -> None:
    """Both have the same result, or the same error."""
    assert _outcome(index, step) == _outcome(twin, step)


def _outcome(index: Any, step: Any) -> Any:
    try:
        return step(index)
    except InputError as error:
        return str(error), error.argument
