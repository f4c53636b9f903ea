"""Recall of float neighbours against a loop over the orders of tied rows."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from bridgehash import InputError, recall_of_neighbors
from bridgehash.codes import pack, unpack
from bridgehash.metrics import float_neighbors

RNG = np.random.default_rng(0)
QUERIES, ROWS = RNG.normal(size=(4, 3)), RNG.normal(size=(6, 3))
CODES, DATABASE = (pack(RNG.choice([-1, 1], size=(n, 4))) for n in (4, 6))


@pytest.mark.parametrize("k", [1, 2, 6])
def test_recall_is_the_mean_over_all_orders(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_neighbors, "_BLOCK", 12)  # two queries at a time
    shares = []
    for x, code in zip(QUERIES, unpack(CODES, 4), strict=True):
        cosines = [x @ row / np.linalg.norm(row) for row in ROWS]
        near = set(np.argsort(cosines)[::-1][:k])
        distances = (unpack(DATABASE, 4) != code).sum(axis=1)
        for order in permutations(range(6)):
            first = sorted(order, key=lambda i: distances[i])[:k]
            shares.append(len(near & set(first)) / k)
    score = recall_of_neighbors(CODES, DATABASE, QUERIES, ROWS, n_bits=4, k=k)
    assert score == pytest.approx(np.mean(shares), abs=1e-12)


def test_rows_with_the_cosine_of_the_last_neighbour_are_neighbours() -> None:
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    database = pack([[1, 1], [1, -1], [-1, -1]])
    assert recall_of_neighbors(database[:1], database, rows[:1], rows, n_bits=2, k=1) == 0.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": 7}, "k=7 of 6 database rows; give 1 to 6"),
        ({"X_query": QUERIES[:2]}, "X_query: has 2 rows for 4 codes"),
        ({"X_query": QUERIES[:, :2]}, "X_query has 2 columns, X_database 3"),
        ({"X_query": QUERIES * np.nan}, "X_query: contains NaN"),
    ],
)
def test_wrong_input_is_refused(changes: Any, words: str) -> None:
    arguments = {"X_query": QUERIES, "k": 2} | changes
    with pytest.raises(InputError, match=words):
        recall_of_neighbors(CODES, DATABASE, X_database=ROWS, n_bits=4, **arguments)
