"""The order of equal distances is ours, however a server orders and cuts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import EngineError
from bridgehash.codes import hamming
from bridgehash.index import HammingIndex
from bridgehash.index.servers import milvus
from bridgehash.index.servers import milvus as milvus_search
from bridgehash.index.servers.milvus import Nearest, nearest


class Server:
    """Finds up to `limit` nearest codes exactly, with ties in an order of chance."""

    def __init__(self, codes: Any, ids: Any) -> None:
        self.codes, self.ids = codes, ids
        self.rng = np.random.default_rng(0)
        self.limits: list[int] = []

    def ask(self, queries: Any, limit: int, rule: str) -> list[Nearest]:
        self.limits.append(limit)
        last = int(rule.removeprefix("id <= ")) if rule else np.iinfo(np.int64).max
        seen = np.flatnonzero(self.ids <= last)
        answers = []
        for row in hamming(queries, self.codes[seen]).astype(np.int64):
            order = np.lexsort((self.rng.random(len(row)), row))[:limit]
            answers.append(Nearest(row[order], self.ids[seen][order]))
        return answers


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_search, "MOST", 200)


@pytest.mark.parametrize("n", [1, 30, 199, 200, 201, 3000])
@pytest.mark.parametrize("k", [1, 7, 150, 199])
@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("gap", [1, 10])
def test_answers_are_those_of_the_index_in_memory(n: int, k: int, spread: float, gap: int) -> None:
    rng = np.random.default_rng(n + k)
    codes = np.packbits(rng.random((n, 8)) < spread, axis=1)
    ids = rng.permutation(gap * n)[:n].astype(np.int64)
    queries = np.array([[0], [1], [255]], np.uint8)
    D, expected = HammingIndex(8).add(codes, ids).search(queries, k)
    for row, near in enumerate(nearest(queries, k, Server(codes, ids).ask, exact=True)):
        m = min(n, k)
        np.testing.assert_array_equal(near.ids, expected[row, :m])
        np.testing.assert_array_equal(near.distances, D[row, :m])


@pytest.mark.parametrize("n", range(1000, 1040))
def test_the_only_range_of_ids_that_fits_is_found(n: int) -> None:
    server = Server(np.zeros((n, 1), np.uint8), np.arange(n))
    found = nearest(np.zeros((1, 1), np.uint8), 199, server.ask, exact=True)[0]
    np.testing.assert_array_equal(found.ids, np.arange(199))


def test_queries_without_many_ties_are_asked_once() -> None:
    codes = np.arange(256, dtype=np.uint8)[:, None]
    server = Server(codes, np.arange(256))
    assert len(nearest(codes, 2, server.ask, exact=True)) == 256
    assert server.limits == [68]


def test_an_approximate_search_is_asked_once() -> None:
    server = Server(np.zeros((500, 1), np.uint8), np.arange(500))
    assert len(nearest(np.zeros((3, 1), np.uint8), 2, server.ask, exact=False)) == 3
    assert server.limits == [68]


def test_no_queries_have_no_answers() -> None:
    server = Server(np.zeros((5, 1), np.uint8), np.arange(5))
    assert nearest(np.zeros((0, 1), np.uint8), 2, server.ask, exact=True) == []
    assert server.limits == []


@pytest.mark.parametrize(("url", "shards"), [("milvus://h", 1), ("milvus://h:1/db?shards=4", 4)])
def test_the_url_may_tell_the_number_of_shards(url, shards):
    assert milvus._shards(url) == shards


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_number_of_shards_that_is_none_is_refused(number):
    with pytest.raises(EngineError, match="shards="):
        milvus._shards(f"milvus://h?shards={number}")
