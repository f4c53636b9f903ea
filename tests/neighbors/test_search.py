"""Nearest rows against loops, with ties and duplicates, in every way to search."""

import logging
from importlib.util import find_spec

import numpy as np
import pytest

from bridgehash.neighbors import search
from bridgehash.neighbors.search import (
    find_neighbors,
    find_other_neighbors,
    nearest,
    nearest_others,
)
from bridgehash.streaming.blocks import as_blocks
from bridgehash.streaming.mappers import map_serially, use_mapper
from bridgehash.streaming.operator import BlockRows
from tests import reference


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_nearest_rows_are_those_of_all_distances():
    queries, rows = normal(13, 5), normal(9, 5, seed=1)
    for rows_searched in (rows, queries):  # another set, and the queries themselves
        D = reference.distances(queries.T, rows_searched.T)
        for k in (1, 4, 9):
            F, columns = nearest(queries, rows_searched, k)
            np.testing.assert_array_equal(columns, np.argsort(D, axis=1)[:, :k])
            np.testing.assert_allclose(F, np.sort(D, axis=1)[:, :k], rtol=1e-10, atol=1e-12)


def test_distances_are_never_negative():
    X = normal(30, 7) + 1e4
    assert nearest(X, X, 3)[0].min() >= 0
    assert nearest(X, X.copy(), 3)[0].min() >= 0


@pytest.mark.skipif(not find_spec("faiss"), reason="faiss is not installed")
def test_faiss_finds_the_same_in_several_rounds():
    queries, rows = normal(2500, 64), normal(20_000, 64, seed=1)  # faiss is used from 20,000 rows
    rows[-1] = 1e3
    F, columns = nearest(queries, rows[:-1], 100)
    F_faiss, columns_faiss = nearest(queries, rows, 100)
    np.testing.assert_array_equal(columns_faiss, columns)
    np.testing.assert_allclose(F_faiss, F, rtol=1e-9, atol=1e-9)


def test_a_row_is_not_its_own_neighbour():
    X = normal(12, 3)
    F, columns = nearest_others(X, 4)
    for i, x in enumerate(X):
        D = ((x - X) ** 2).sum(axis=1)
        expected = sorted((j for j in range(12) if j != i), key=D.__getitem__)[:4]
        np.testing.assert_array_equal(columns[i], expected)
        np.testing.assert_allclose(F[i], D[expected], atol=1e-12)


def test_copies_of_a_row_are_neighbours_at_distance_zero():
    F, columns = nearest_others(np.repeat(np.eye(2), 6, axis=0), 3)
    assert columns.shape == (12, 3)
    assert np.abs(F).max() < 1e-12


def test_every_way_to_search_finds_the_same(monkeypatch, caplog):
    queries, rows = normal(50, 4), normal(300, 4, seed=1)
    expected = nearest(queries, rows, 5)
    others = nearest_others(rows, 5)
    in_blocks = BlockRows.standardised(as_blocks([rows[:100], rows[100:]]), unit_rows=False)
    scaled = nearest_others(in_blocks.to_array(), 5)

    def check(n_probe):
        F, columns = find_neighbors(queries, rows, 5, n_probe)
        np.testing.assert_array_equal(columns, expected[1])
        np.testing.assert_allclose(F, expected[0], rtol=1e-9)
        for X, (F_others, columns_others) in ((rows, others), (in_blocks, scaled)):
            F, columns = find_other_neighbors(X, 5, n_probe)
            np.testing.assert_array_equal(columns, columns_others)
            np.testing.assert_allclose(F, F_others, rtol=1e-9)

    check(None)  # all rows
    check("auto")  # few pairs: all rows
    check(1000)  # all cells
    with use_mapper(map_serially):
        check(None)
        check(1000)
    monkeypatch.setattr(search, "_ALL_PAIRS", 0)
    with caplog.at_level(logging.INFO):
        F, _ = find_neighbors(queries, rows, 5, "auto")  # as many cells as 90 % recall needs
    assert np.mean(expected[0][:, -1:] * (1 + 1e-9) >= F) >= 0.85
    assert "cells, recall 0.9" in caplog.text or "cells, recall 1.0" in caplog.text
