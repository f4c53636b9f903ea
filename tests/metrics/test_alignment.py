"""Scores of two aligned sets against loops over rows, with ties."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from bridgehash import InputError, foscttm, label_transfer_accuracy
from bridgehash.codes import pack
from bridgehash.metrics import alignment

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(2, 9, 3))
CODES_X, CODES_Z = (pack(RNG.choice([-1, 1], size=(9, 5))) for _ in range(2))  # 6 distances: ties
CASES = [("euclidean", X, Z), ("cosine", X, Z), ("hamming", CODES_X, CODES_Z)]


def distance(a: Any, b: Any, metric: str) -> float:
    if metric == "hamming":
        return sum(bin(int(x) ^ int(z)).count("1") for x, z in zip(a, b, strict=True))
    if metric == "cosine":
        return float(1 - a @ b / np.sqrt((a @ a) * (b @ b)))
    return float(np.sqrt(((a - b) ** 2).sum()))


def looped_foscttm(A: Any, B: Any, metric: str) -> float:
    shares = []
    for left, right in ((A, B), (B, A)):
        for i, row in enumerate(left):
            own = distance(row, right[i], metric)
            others = [distance(row, r, metric) for j, r in enumerate(right) if j != i]
            shares.append(np.mean([1.0 if d < own else 0.5 if d == own else 0.0 for d in others]))
    return float(np.mean(shares))


@pytest.mark.parametrize("block", [1, 20, 1 << 22])
@pytest.mark.parametrize(("metric", "A", "B"), CASES)
def test_foscttm_is_the_loop(
    metric: Any, A: Any, B: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "_BLOCK", block)
    assert foscttm(A, B, metric=metric) == pytest.approx(looped_foscttm(A, B, metric), abs=1e-12)


def test_foscttm_of_equal_codes_is_chance_and_of_partners_zero() -> None:
    assert foscttm(CODES_X[[0] * 4], CODES_Z[[0] * 4]) == 0.5
    assert foscttm(X, X, metric="euclidean") == 0.0


@pytest.mark.parametrize("k", [1, 3, 6])
def test_label_transfer_is_the_vote_in_expectation_over_all_orders(k: int) -> None:
    source, y_source, y_target = CODES_X[:6], np.arange(6) % 3, np.arange(9) % 3
    orders, right = list(permutations(range(6))), []
    for row, label in zip(CODES_Z, y_target, strict=True):
        distances = [distance(row, other, "hamming") for other in source]
        votes = np.zeros(3)
        for order in orders:
            nearest = sorted(order, key=lambda i: distances[i])[:k]
            votes += np.bincount(y_source[nearest], minlength=3)
        right.append((votes[label] == votes.max()) / (votes == votes.max()).sum())
    score = label_transfer_accuracy(source, y_source, CODES_Z, y_target, k=k)
    assert score == pytest.approx(np.mean(right), abs=1e-12)


def test_label_transfer_by_hand() -> None:
    source, target = [[0.0], [2.0], [2.0], [9.0]], [[1.0], [8.0]]
    y = [0, 1, 2, 1]
    transfer = label_transfer_accuracy
    # row 0 sees three rows at distance 1: two thirds of a vote for each class
    assert transfer(source, y, target, [1, 1], k=2, metric="euclidean") == pytest.approx(2 / 3)
    assert transfer(source, y, target, [-1, 1], k=1, metric="euclidean") == 1.0  # -1: left out
    assert transfer(source, [0, 1, 2, -1], target, [-1, 0], k=1, metric="euclidean") == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: foscttm(X, Z[:4], metric="euclidean"), "rows must be pairs"),
        (lambda: foscttm(X[:1], Z[:1], metric="euclidean"), "give at least 2"),
        (lambda: foscttm(X, Z), "codes"),
        (lambda: foscttm(X, Z, metric="l7"), "'l7' is not a distance; use one of"),  # type: ignore[arg-type]
        (lambda: label_transfer_accuracy(X, [0] * 9, Z, [0] * 9, k=10), "k=10 of 9 source rows"),
        (lambda: label_transfer_accuracy(X, [0] * 9, Z, [-1] * 9, k=1), "target: has no row"),
        (lambda: label_transfer_accuracy(X, [0] * 8, Z, [0] * 9), "y_source: has shape"),
    ],
)
def test_wrong_input_is_refused(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
