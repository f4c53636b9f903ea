"""Ties are ordered by id, however the server orders and cuts them."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import EngineError
from bridgehash.codes import hamming
from bridgehash.index import HammingIndex
from bridgehash.index.attributes import ItemFilter
from bridgehash.index.servers import milvus
from bridgehash.index.servers.milvus import Hits, nearest


class Server:
    """Finds up to `limit` nearest codes exactly, with ties in random order."""

    def __init__(self, codes: Any, ids: Any) -> None:
        self.codes, self.ids = codes, ids
        self.rng = np.random.default_rng(0)
        self.limits: list[int] = []
        self.rounds = 0

    def ask(self, queries: Any, limit: int, rule: str) -> list[Hits]:
        self.limits.append(limit)
        self.rounds += bool(rule)
        seen = np.arange(len(self.ids))
        if rule:
            seen = np.flatnonzero(self.ids <= json.loads(rule.removeprefix("id <= ")))
        answers = []
        for row in hamming(queries, self.codes[seen]).astype(np.int64):
            order = np.lexsort((self.rng.random(len(row)), row))[:limit]
            answers.append(Hits(row[order], self.ids[seen][order], self.codes[seen][order]))
        return answers


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus, "MOST", 200)


def test_answers_are_those_of_the_index_in_memory() -> None:
    queries = np.array([[0], [1], [255]], np.uint8)
    for n, k, spread, gap in product(
        [1, 30, 199, 200, 201, 3000], [1, 7, 150, 199], [0.0, 0.05, 0.5], [1, 10, 0]
    ):
        rng = np.random.default_rng(n + k)
        codes = np.packbits(rng.random((n, 8)) < spread, axis=1)
        ids = rng.permutation(max(1, gap) * n)[:n].astype(np.int64)
        if gap == 0:  # text, in another order than the numbers
            ids = np.array([f'{i % 7}"é\\{i}' for i in ids.tolist()], object)
        D, expected = HammingIndex(8, n_jobs=1).add(codes, ids).search(queries, k)
        server = Server(codes, ids)
        for row, hits in enumerate(nearest(queries, k, server.ask, exact=True)):
            m = min(n, k)
            np.testing.assert_array_equal(hits.ids, expected[row, :m], f"{n} {k} {spread} {gap}")
            np.testing.assert_array_equal(hits.distances, D[row, :m])
            assert (hamming(queries[row : row + 1], hits.contents) == hits.distances).all()
        assert server.rounds <= 40 * len(queries)


def test_the_only_range_of_ids_that_fits_is_found() -> None:
    for n in range(1000, 1040):
        server = Server(np.zeros((n, 1), np.uint8), np.arange(n))
        hits = nearest(np.zeros((1, 1), np.uint8), 199, server.ask, exact=True)[0]
        np.testing.assert_array_equal(hits.ids, np.arange(199))


def test_one_request_is_enough_without_many_ties_and_for_approximate_search() -> None:
    codes = np.arange(256, dtype=np.uint8)[:, None]
    server = Server(codes, np.arange(256))
    assert len(nearest(codes, 2, server.ask, exact=True)) == 256
    assert server.limits == [68]
    server = Server(np.zeros((500, 1), np.uint8), np.arange(500))
    assert len(nearest(np.zeros((3, 1), np.uint8), 2, server.ask, exact=False)) == 3
    assert server.limits == [68]
    assert nearest(codes[:0], 2, server.ask, exact=True) == []
    assert server.limits == [68]


def test_filters_become_expressions() -> None:
    for wanted, rule in [
        (ItemFilter(), ""),
        (ItemFilter(("",)), 'array_contains_any(tags, [""])'),
        (ItemFilter(('a"b', "é"), "all"), 'array_contains_all(tags, ["a\\"b", "é"])'),
        (
            ItemFilter(("a",), "any", "photo"),
            'domain == "photo" and array_contains_any(tags, ["a"])',
        ),
    ]:
        assert milvus._rule(wanted) == rule


def test_the_url_can_set_the_number_of_shards() -> None:
    for url, shards in [("milvus://h", 1), ("milvus://h:1/db?shards=4", 4)]:
        assert milvus._shards(url) == shards
    for number in ("0", "-1", "two"):
        with pytest.raises(EngineError, match="shards="):
            milvus._shards(f"milvus://h?shards={number}")
