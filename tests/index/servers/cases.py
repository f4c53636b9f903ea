"""Checks for an index on any server: its answers are those of `HammingIndex`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bridgehash._core.errors import InputError
from bridgehash.codes import pack
from bridgehash.index import HammingIndex
from bridgehash.index.ids import is_id

# Quotes, escapes, blanks and other scripts must be stored unchanged.
TAGS = ["", "shoes", "a'b\"c", "x\\ny", "line\nbreak", "\\", "日本", " shoes", "{a,b}", "NULL"]
DOMAINS = ["", "photo", 'it\'s a "sketch"']
FILTERS = [
    {},
    *({"tags": tag} for tag in [*TAGS, "unknown", "\x00", "\ud800"]),
    {"tags": ["shoes", "日本"]},
    {"tags": ["shoes", "日本"], "match": "all"},
    {"tags": ["shoes", ""]},
    {"tags": ["shoes", ""], "match": "all"},
    {"tags": ["shoes", "\x00"]},
    {"tags": ["shoes", "\x00"], "match": "all"},
    *({"domain": domain} for domain in [*DOMAINS, "unknown", "\x00"]),
    {"tags": ["shoes", "\\"], "domain": "photo"},
]


def random_codes(rng: np.random.Generator, n: int, n_bits: int, spread: float = 0.5) -> Any:
    return pack(rng.random((n, n_bits)) < spread)


def random_tags(rng: np.random.Generator, n: int) -> Any:
    """One text, or a list of up to three."""
    chosen = [[TAGS[i] for i in rng.integers(0, len(TAGS), rng.integers(0, 4))] for _ in range(n)]
    return [tags[0] if len(tags) == 1 else tags for tags in chosen]


def random_domains(rng: np.random.Generator, n: int) -> Any:
    return [DOMAINS[i] for i in rng.integers(0, len(DOMAINS), n)]


def named(index: Any, numbers: Any) -> Any:
    """Ids of the kind that an index has; texts are not in the order of the numbers."""
    if index.id_kind == "numbers":
        return numbers
    odd = ["SKU'", 'a"b', "x\\", "日本", "Z é", "%", "z"]
    return [f"{odd[i % len(odd)]}{i}" for i in np.asarray(numbers).tolist()]


def assert_same_answers(
    index: Any, twin: HammingIndex, queries: Any, k: int, filters: Any = None
) -> None:
    for ours, expected in zip(
        index.search(queries, k, **(filters or {})),
        twin.search(queries, k, **(filters or {})),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, expected)
        assert ours.dtype == expected.dtype


def check_same_answers(index: Any, *, n: int = 700) -> None:
    """Few distinct distances, so there are ties at nearly every place."""
    rng = np.random.default_rng(index.n_bits)
    codes = random_codes(rng, n, index.n_bits, spread=0.2)
    ids, tags = named(index, rng.permutation(5 * n)[:n]), random_tags(rng, n)
    domains = random_domains(rng, n)
    index.add(codes, ids, tags=tags, domain=domains)
    twin = HammingIndex(index.n_bits).add(codes, ids, tags=tags, domain=domains)
    queries = random_codes(rng, 9, index.n_bits, spread=0.2)
    for filters in FILTERS:
        assert_same_answers(index, twin, queries, 12, filters)
    assert_same_answers(index, twin, queries[:2], n + 5)
    assert len(index) == n
    assert index.domains == twin.domains


def random_corrections(rng: np.random.Generator, n: int) -> Any:
    """Few different numbers, so that scores are often equal."""
    return (rng.integers(0, 4, (n, 2)) / 2).astype(np.float16)


def assert_same_ranking(
    index: Any, twin: HammingIndex, queries: Any, W: Any, k: int, n_candidates: Any, filters: Any
) -> None:
    ours = index.rank(queries, W, k, n_candidates, **filters)
    expected = twin.search(queries, k, weights=W, n_candidates=n_candidates, **filters)
    np.testing.assert_array_equal(ours.ids, expected[1])
    np.testing.assert_array_equal(ours.scores, expected[0])
    assert (ours.scores.dtype, ours.ids.dtype) == (np.float32, expected[1].dtype)
    for query, row, distances in zip(queries, ours.ids, ours.distances, strict=True):
        found = is_id(row)
        codes = twin.get(row[found]).codes
        assert distances[found].tolist() == np.bitwise_count(codes ^ query).sum(axis=1).tolist()
        assert (distances[~found] == index.n_bits + 1).all()


def check_same_ranking(index: Any, *, n: int = 600, n_missing: int = 0) -> None:
    """With ties at nearly every place, and `n_missing` codes without corrections."""
    rng = np.random.default_rng(index.n_bits)
    codes = random_codes(rng, n, index.n_bits, spread=0.3)
    ids, tags = named(index, rng.permutation(5 * n)[:n]), random_tags(rng, n)
    domains, corrections = random_domains(rng, n), random_corrections(rng, n)
    twin = HammingIndex(index.n_bits)
    for one in (index, twin):
        for some, numbers in [(slice(n_missing), None), (slice(n_missing, n), corrections)]:
            if index.has_corrections and numbers is not None:
                more = {"corrections": numbers[some]}
            else:
                more = {}
            part = {"tags": tags[some], "domain": domains[some], **more}
            if len(codes[some]):
                one.add(codes[some], ids[some], **part)
    W = rng.normal(size=(7, index.n_bits)).round()
    queries = pack(W)
    for filters in FILTERS:
        assert_same_ranking(index, twin, queries, W, 9, 40, filters)
    for k, depth in [(1, 1), (30, 5), (n + 5, n), (5, 2 * n)]:
        assert_same_ranking(index, twin, queries[:2], W[:2], k, depth, {})
    every = index.search(queries, 5, weights=W)  # fewer codes than the default depth
    for ours, expected in zip(every, twin.search(queries, 5, weights=W), strict=True):
        np.testing.assert_array_equal(ours, expected)
    for n_candidates in (None, "auto"):
        none = index.search(queries[:0], 3, weights=W[:0], n_candidates=n_candidates)
        assert none[0].shape == (0, 3)
    check_chosen_depth(index, twin, queries, W)
    for wrong, reason in [
        ({"weights": W[:3]}, "weights"),
        ({"weights": W * np.nan}, "weights"),
        ({"weights": W, "n_candidates": 0}, "n_candidates"),
    ]:
        for one in (index, twin):
            assert _outcome(one, lambda one: one.search(queries, 3, **wrong))[1] == reason  # noqa: B023
    if index.has_corrections:
        replaced, others = codes[: n // 2], random_corrections(rng, n // 2)
        for one in (index, twin):
            one.upsert(replaced, ids[: n // 2], corrections=others)
        assert_same_ranking(index, twin, queries, W, 9, 40, {})
        bad = np.full((1, 2), np.nan)
        for numbers in (bad, others[:2], others.astype(int)[:1]):
            same_outcome(
                index,
                twin,
                lambda one: one.add(codes[:1], named(one, [0]), corrections=numbers),  # noqa: B023
            )


def check_chosen_depth(index: Any, twin: HammingIndex, queries: Any, W: Any) -> None:
    """n_candidates="auto" is the smallest number of candidates that holds the share `recall`."""
    for k, recall, filters in [(5, 0.5, {}), (5, 0.95, {}), (3, 1.0, {"tags": "shoes"})]:
        index.recall = recall
        found = index.search(queries, k, weights=W, n_candidates="auto", **filters)
        best = twin.search(queries, k, weights=W, **filters)[1]
        order = twin.search(queries, len(twin), **filters)[1]
        places = [np.isin(row, near).nonzero()[0] for row, near in zip(order, best, strict=True)]
        held = np.sort(np.concatenate(places))
        depth = max(k, 1 + held[int(np.ceil(recall * len(held))) - 1])
        expected = twin.search(queries, k, weights=W, n_candidates=int(depth), **filters)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert len(set(index._depths.values())) > 1


def check_operations(index: Any, seed: int, n_steps: int) -> None:
    """Make the same random changes on an index in memory and compare all answers."""
    rng = np.random.default_rng(seed)
    twin = HammingIndex(index.n_bits).add(random_codes(rng, 1, index.n_bits), named(index, [0]))
    twin.remove(named(index, [0]))  # its ids are of the same kind
    for _ in range(n_steps):
        n = int(rng.integers(0, 9))
        ids, codes = rng.permutation(40)[:n], random_codes(rng, n, index.n_bits, spread=0.3)
        ids = named(index, ids)
        tags = random_tags(rng, n) if rng.random() < 0.5 else None
        domain = [None, "photo", random_domains(rng, n)][rng.integers(0, 3)]
        more: Any = {"tags": tags, "domain": domain}
        step = rng.integers(0, 4)
        if step == 0:
            same_outcome(index, twin, lambda one: len(one.add(codes, ids, **more)))  # noqa: B023
        elif step == 1:
            same_outcome(index, twin, lambda one: len(one.upsert(codes, ids, **more)))  # noqa: B023
        elif step == 2:
            same_outcome(index, twin, lambda one: one.remove(ids))  # noqa: B023
        else:
            same_outcome(index, twin, lambda one: len(one.add(codes, **more)))  # noqa: B023
        filters = FILTERS[rng.integers(0, len(FILTERS))]
        assert_same_answers(
            index, twin, random_codes(rng, 3, index.n_bits), int(rng.integers(1, 9)), filters
        )
    assert index.domains == twin.domains


def check_kinds_of_ids(index: Any) -> None:
    """Ids of the other kind are refused, as in memory."""
    twin = HammingIndex(index.n_bits).add(
        random_codes(np.random.default_rng(0), 1, index.n_bits), named(index, [0])
    )
    twin.remove(named(index, [0]))
    wrong = [1] if index.id_kind == "text" else ["1"]
    code = random_codes(np.random.default_rng(0), 1, index.n_bits)
    for step in (
        lambda one: one.add(code, wrong),
        lambda one: one.upsert(code, wrong),
        lambda one: one.remove(wrong),
    ):
        same_outcome(index, twin, step)
        assert "ids of this index are" in _outcome(index, step)[0]
    if index.id_kind == "text":
        same_outcome(index, twin, lambda one: one.next_id())
        same_outcome(index, twin, lambda one: one.add(code))
    assert len(index) == 0


def same_outcome(index: Any, twin: HammingIndex, step: Any) -> None:
    """Both have the same result, or the same error."""
    assert _outcome(index, step) == _outcome(twin, step)


def _outcome(index: Any, step: Any) -> Any:
    try:
        return step(index)
    except InputError as error:
        return str(error), error.argument
