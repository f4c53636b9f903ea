"""A real Milvus server gives the answers of the index in memory and loses nothing.

`make test-milvus` runs these in a separate network, because the server listens on all addresses.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import EngineError, InputError
from bridgehash.cli.main import main
from bridgehash.index import HammingIndex
from bridgehash.index.servers import base, build_index, create_index, index_exists, open_index
from bridgehash.index.servers.milvus import MilvusIndex
from tests.index.servers.cases import (
    TAGS,
    assert_same_answers,
    check_operations,
    check_same_answers,
    random_codes,
)
from tests.servers import Proxy

pytestmark = pytest.mark.milvus
PORT = 29530

Make = Callable[..., MilvusIndex]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that is stopped after this module."""
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        pytest.fail("not alone on this network; run `make test-milvus`")
    milvus = pytest.importorskip("milvus")
    started = milvus.MilvusServer()
    started.set_base_dir(str(tmp_path_factory.mktemp("milvus")))
    started.start()
    yield started.listen_port
    started.stop()


@pytest.fixture(scope="module")
def url(server: int) -> str:
    return f"milvus://127.0.0.1:{server}"


@pytest.fixture
def make(url: str) -> Iterator[Make]:
    """`make(n_bits, ...)`: an empty index that is dropped at the end."""
    made = []

    def create(n_bits: int = 12, name: str = "codes", **options: Any) -> MilvusIndex:
        made.append(create_index(options.pop("url", url), name, n_bits, **options))
        return made[-1]

    yield create
    for index in made:
        if index_exists(url, index.name):
            with open_index(url, index.name) as left:
                left.drop()
        index.close()


@pytest.fixture
def proxy(server: int) -> Iterator[Proxy]:
    between = Proxy(socket.AF_INET, ("127.0.0.1", PORT), ("127.0.0.1", server))
    yield between
    between.close()


@pytest.fixture
def through(proxy: Proxy, make: Make) -> MilvusIndex:
    """An index with three codes whose connection goes through the proxy."""
    index = make(12, url=f"milvus://127.0.0.1:{PORT}")
    return index.add(np.zeros((3, 2), np.uint8))


@pytest.mark.parametrize("n_bits", [1, 8, 12, 64, 4096])
def test_answers_are_those_of_the_index_in_memory(make: Make, url: str, n_bits: int) -> None:
    check_same_answers(
        make(n_bits, url=f"{url}?shards=2"), tags=[None, *TAGS, "unknown", "\x00", "\ud800"]
    )


@pytest.mark.parametrize("seed", range(2))
def test_any_changes_leave_the_answers_of_the_index_in_memory(make: Make, seed: int) -> None:
    check_operations(make([5, 64][seed]), seed, n_steps=25)


def test_more_ties_than_fit_in_an_answer_are_ordered_by_id(make: Make) -> None:
    rng = np.random.default_rng(0)
    codes = np.zeros((40_000, 1), np.uint8)
    codes[:500] = 1
    ids = np.unique(rng.integers(0, 10**12, 40_000))[rng.permutation(40_000)]
    index, twin = make(8).add(codes, ids), HammingIndex(8).add(codes, ids)
    for query, k in (([[1]], 700), ([[0]], 3), ([[1]], 16_383)):
        assert_same_answers(index, twin, np.array(query, np.uint8), k, None)
    with pytest.raises(InputError, match="k: 16384 is not allowed"):
        index.search([[0]], 16_384)


def test_the_next_id_follows_the_largest(make: Make) -> None:
    index = make(8)
    for ids in ([3], [10**15], list(range(100, 30_100))):
        index.add(np.zeros((len(ids), 1), np.uint8), ids)
    assert index.next_id() == 10**15 + 1
    index.remove([10**15])
    assert index.next_id() == 30_100


def test_an_add_that_is_refused_leaves_nothing(make: Make) -> None:
    index = make(8).add([[1], [2]], [10, 30])
    with pytest.raises(InputError, match="id 10 is in the index already; use upsert to replace it"):
        index.add([[3], [4], [5], [6]], [5, 30, 10, 50])
    assert len(index) == 2


def test_an_add_that_fails_is_undone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    index, works = make(8), MilvusIndex._send

    def fails(self: Any, collection: str, batch: Any, *, replace: bool) -> None:
        works(self, collection, batch, replace=replace)
        if batch.ids[0] == 20_000:
            raise EngineError("away")

    monkeypatch.setattr(MilvusIndex, "_send", fails)
    with pytest.raises(EngineError, match="away"):
        index.add(np.zeros((50_000, 1), np.uint8))
    assert len(index) == 0


def test_approximate_search_finds_nearly_all_and_exact_search_stays_exact(
    make: Make, url: str
) -> None:
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 5000, 64)
    index = make(64, search="approximate").add(codes)
    index.finish()
    index.n_probe = 96
    twin, queries = HammingIndex(64).add(codes), codes[::100] ^ np.uint8(1)
    true, found = twin.search(queries, 10)[0], index.search(queries, 10)[0]
    assert (found <= true[:, -1:]).mean() > 0.8
    with open_index(url, index.name, search="exact") as exact:
        assert_same_answers(exact, twin, queries, 10, None)


def test_a_connection_lost_between_operations_is_opened_again(
    through: MilvusIndex, proxy: Proxy
) -> None:
    proxy.cut()
    assert len(through) == 3
    proxy.cut()
    through.add([[255, 240]])
    proxy.cut()
    assert through.search([[255, 240]], 1)[1] == [[3]]
    proxy.cut()
    assert through.remove([3, 2, 99]) == 2


@pytest.mark.parametrize(
    ("method", "change", "outcome", "n"),
    [
        ("insert", lambda index: len(index.add([[255, 240]], [77])), 4, 4),
        ("insert", lambda index: len(index.add([[255, 240]])), 4, 4),
        ("upsert", lambda index: len(index.upsert([[255, 240]], [1])), 3, 3),
        ("delete", lambda index: index.remove([0, 1, 99]), 2, 1),
    ],
)
def test_a_request_whose_answer_is_lost_is_not_done_twice(
    make: Make, method: str, change: Any, outcome: int, n: int
) -> None:
    grpc, pymilvus = pytest.importorskip("grpc"), pytest.importorskip("pymilvus")
    index = make(12).add(np.zeros((3, 2), np.uint8))
    client, calls = index._session._client, []
    works = getattr(client, method)

    def loses_its_answer(*arguments: Any, **options: Any) -> None:
        calls.append(works(*arguments, **options))
        raise pymilvus.MilvusException(grpc.StatusCode.UNAVAILABLE, "lost")

    setattr(client, method, loses_its_answer)  # the next client has its own
    assert change(index) == outcome
    assert len(calls) == 1
    assert len(index) == n
    assert len(set(index.search([[255, 240]], n)[1][0])) == n


def test_a_server_that_stays_away_is_a_clear_error(
    through: MilvusIndex, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "PAUSES", (0.1,))
    proxy.close()
    with pytest.raises(EngineError, match="could not be opened again"):
        len(through)
    proxy.open()
    assert len(through) == 3


def test_a_server_that_does_not_run_is_a_clear_error() -> None:
    with pytest.raises(EngineError, match="no connection") as refused:
        open_index("milvus://ann:secret@127.0.0.1:1", "photos")
    assert "secret" not in str(refused.value)


def test_a_collection_is_replaced_only_on_request(make: Make, url: str) -> None:
    make(8, about={"model": 'it\'s "m"'}).add([[1]])
    with pytest.raises(EngineError, match="collection codes exists"):
        create_index(url, "codes", 16)
    with pytest.raises(EngineError, match="no collection lost; build it"):
        open_index(url, "lost")
    with open_index(url, "codes") as index:
        assert (index.n_bits, index.search_mode, len(index)) == (8, "exact", 1)
        assert index.about == {"model": 'it\'s "m"'}
    with pytest.raises(EngineError, match="exists; replace it"):
        build_index(url, "codes", 16, [[1, 2], [3, 4]])
    build_index(url, "codes", 16, [[1, 2], [3, 4]], replace=True).close()
    with open_index(url, "codes") as index:
        assert (index.n_bits, len(index)) == (16, 2)


def test_a_collection_of_another_program_is_not_changed(make: Make, url: str) -> None:
    client = make(8)._session._client
    client.create_collection("theirs", dimension=4)
    for attempt in (
        lambda: open_index(url, "theirs"),
        lambda: create_index(url, "theirs", 8, replace=True),
    ):
        with pytest.raises(EngineError, match="not created by bridgehash"):
            attempt()


def test_the_command_line_works_on_a_collection(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = random_codes(np.random.default_rng(0), 300, 16)
    np.save("codes.npy", codes)
    np.save("tags.npy", np.arange(300) % 2)
    found = []
    for place in ("--out photos.bhi", f"--out photos --engine {url}"):
        assert main(f"index build codes.npy --tags tags.npy {place}".split()) == 0
        name, *engine = place.removeprefix("--out ").split()
        capsys.readouterr()
        assert main(["search", name, "codes.npy", *engine, "--tag", "1", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert main(f"index info photos --engine {url}".split()) == 0
    assert "300" in capsys.readouterr().out
    assert main(f"index info lost --engine {url}".split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "there is no collection lost" in error
