"""A real Milvus server gives the answers of the index in memory and loses nothing.

`make test-milvus` runs these in a separate network, because the server listens on all addresses.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import time
from typing import Any

import numpy as np
import pytest

from bridgehash import ITQ, save
from bridgehash._core.errors import EngineError, InputError
from bridgehash.cli.main import main
from bridgehash.index import HammingIndex
from bridgehash.index.servers import (
    base,
    build_index,
    create_index,
    index_exists,
    milvus,
    open_index,
)
from bridgehash.index.servers.base import IndexInfo
from bridgehash.index.servers.milvus import MilvusIndex
from tests.index.servers.cases import (
    assert_same_answers,
    check_kinds_of_ids,
    check_operations,
    check_same_answers,
    check_same_ranking,
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
    started = pytest.importorskip("milvus").MilvusServer()
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
@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_answers_are_those_of_the_index_in_memory(
    make: Make, url: str, n_bits: int, ids: str
) -> None:
    check_same_answers(make(n_bits, url=f"{url}?shards=2", ids=ids))


@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize(("n_bits", "ids"), [(12, "text"), (70, "numbers")])
def test_codes_are_ranked_as_in_memory(
    make: Make, n_bits: int, ids: str, corrections: bool
) -> None:
    check_same_ranking(make(n_bits, ids=ids, corrections=corrections))


def test_corrections_are_given_for_all_codes_or_for_none(make: Make, url: str) -> None:
    index = make(8)
    with pytest.raises(InputError, match="has no room for them; build it again"):
        index.add([[1]], corrections=np.ones((1, 2)))
    numbers = np.array([[1.0, 2.0], [np.nan, np.nan]])
    with pytest.raises(InputError, match="Milvus needs them of all codes"):
        build_index(url, "corrected", 8, [[1], [2]], corrections=numbers, may_miss=True)
    assert not index_exists(url, "corrected")
    with build_index(url, "corrected", 8, [[1]], corrections=numbers[:1]) as built:
        with pytest.raises(InputError, match="Milvus needs them of all codes"):
            built.add([[2]])
        assert len(built.add([[2]], corrections=numbers[:1])) == 2
    with open_index(url, "corrected") as opened:
        assert opened.has_corrections
        opened.drop()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_any_changes_leave_the_answers_of_the_index_in_memory(
    make: Make, seed: int, ids: str
) -> None:
    check_operations(make([5, 64][seed], ids=ids), seed, n_steps=25)


@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_ids_of_the_other_kind_are_refused(make: Make, ids: str) -> None:
    check_kinds_of_ids(make(8, ids=ids))


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_more_ties_than_fit_in_an_answer_are_ordered_by_id(make: Make, kind: str) -> None:
    rng = np.random.default_rng(0)
    codes = np.zeros((40_000, 1), np.uint8)
    codes[:500] = 1
    ids = np.unique(rng.integers(0, 10**12, 40_000))[rng.permutation(40_000)]
    ids = ids if kind == "numbers" else [f"é{i % 9}-{i}" for i in ids.tolist()]
    index, twin = make(8, ids=kind).add(codes, ids), HammingIndex(8).add(codes, ids)
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


def build(url: str, number: int, *, replace: bool) -> None:
    """Build an index whose number of codes and whose codes tell the number of the build."""
    codes = np.full((40 + number, 1), number, np.uint8)
    build_index(url, "shop", 8, codes, replace=replace).close()


def number_of_build(index: Any) -> int:
    """The number of the build that an index comes from, if it is complete."""
    distances, ids = index.search([[0]], 200)
    found = distances[ids >= 0]
    number = len(found) - 40
    assert number >= 0, f"only {len(found)} codes"
    assert set(found.tolist()) == {number.bit_count()}
    return number


@pytest.fixture
def collections(make: Make) -> Iterator[Callable[[], list[str]]]:
    """The names of all collections; those of the index `shop` are dropped at the end."""
    session = make(8)._session
    yield lambda: [
        collection
        for collection in session.call(lambda client: client.list_collections())
        if collection.startswith("shop")
    ]
    with open_index(session.place, "shop") as shop:
        shop.drop()


def test_overlapping_builds_replace_each_other_and_readers_see_whole_ones(
    url: str, collections: Any
) -> None:
    build(url, 0, replace=False)
    stop, n_builds = threading.Event(), 60

    def read(stays: bool) -> int:
        n = 0
        while not stop.is_set():
            with open_index(url, "shop") as index:
                for _ in range(10 if stays else 1):
                    number_of_build(index)
                    n += 1
        return n

    with ThreadPoolExecutor(n_builds + 3) as pool:
        reads = [pool.submit(read, stays) for stays in (True, True, False)]
        builds = [pool.submit(build, url, i, replace=True) for i in range(1, n_builds + 1)]
        failures = [end.exception() for end in builds]
        stop.set()
        assert failures == [None] * n_builds
        n_reads = sum(end.result() for end in reads)
    assert len(collections()) == 1
    print(f"{n_builds} overlapping builds, {n_reads} reads, none partial or missing")


def test_one_of_overlapping_builds_gets_a_free_name(url: str, collections: Any) -> None:
    with ThreadPoolExecutor(5) as pool:
        ends = [pool.submit(build, url, i, replace=False) for i in range(5)]
    failures = {i: str(end.exception()) for i, end in enumerate(ends) if end.exception()}
    assert all("collection shop exists" in failure for failure in failures.values())
    with open_index(url, "shop") as index:
        assert {number_of_build(index)} == set(range(5)) - set(failures)
    assert len(collections()) == 1


def test_only_leftovers_of_dead_builds_are_dropped(url: str, make: Make, collections: Any) -> None:
    make(8, "shop_loading").add([[1]])
    session, info = make(8, "other")._session, IndexInfo(8)
    now = int(time())
    for name, state in {"dead": str(now - 4000), "alive": str(now), "old": "done"}.items():
        milvus._create_collection(session, f"shop_{name}", info, 10)
        milvus._set_state(session, f"shop_{name}", state)
    build(url, 3, replace=False)
    left = collections()
    assert "shop_alive" in left
    assert not {"shop_dead", "shop_old"} & set(left)
    with open_index(url, "shop_loading") as index:
        assert len(index) == 1
    session.call(lambda client: client.drop_collection("shop_alive"))


def test_a_collection_of_an_earlier_version_is_replaced(
    url: str, make: Make, collections: Any
) -> None:
    session = make(8, "other")._session
    milvus._create_collection(session, "shop", IndexInfo(8), 10)
    with open_index(url, "shop") as index:
        assert len(index.add([[1]])) == 1
        build(url, 5, replace=True)
        assert number_of_build(index) == 5
    build(url, 6, replace=True)
    assert len(collections()) == 1


@pytest.mark.parametrize("delivers", [True, False], ids=["answer_lost", "request_lost"])
def test_a_build_whose_connection_is_cut_is_complete_or_not_there(
    url: str, proxy: Proxy, collections: Any, monkeypatch: pytest.MonkeyPatch, delivers: bool
) -> None:
    monkeypatch.setattr(base, "PAUSES", (0.05, 0.2, 0.5, 1))
    build(url, 0, replace=False)
    proxy.delivers, number = delivers, 0
    for place in range(3, 60, 8):
        sent = count()
        proxy.watch = lambda data: next(sent) == place  # noqa: B023
        try:
            build(f"milvus://127.0.0.1:{PORT}", place, replace=True)
            number = place
        except EngineError:
            pass
        with open_index(url, "shop") as index:
            assert number_of_build(index) == number
        if next(sent) <= place:
            break
    proxy.watch = lambda data: False
    assert number > 0
    print(f"cut up to message {place}, the index is always complete")


def test_automatic_ids_follow_the_highest_or_fill_the_lowest_gap(make: Make) -> None:
    index = make(8).add([[0], [0], [0]], [0, 1, 5])
    assert index.next_id() == 6
    index.add([[2], [3]], [2**53 - 1, 2**63 - 1])
    assert index.next_id() == 2
    index.add([[7]] * 4)  # too many for the gap between 1 and 5
    ids = index.search([[0]], 20)[1][0]
    assert sorted(ids[ids >= 0]) == [0, 1, 5, 6, 7, 8, 9, 2**53 - 1, 2**63 - 1]


def test_an_upsert_that_fails_says_what_is_stored(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, works = make(8), MilvusIndex._send

    def fails(self: Any, collection: str, batch: Any, *, replace: bool) -> None:
        if batch.ids[0] == 20_000:
            raise EngineError("away")
        works(self, collection, batch, replace=replace)

    monkeypatch.setattr(MilvusIndex, "_send", fails)
    with pytest.raises(EngineError, match="away; the first 20000 of 30000 codes by id are stored"):
        index.upsert(np.zeros((30_000, 1), np.uint8), np.arange(30_000))
    assert len(index) == 20_000


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
    rows = np.random.default_rng(1).normal(size=(300, 20))
    np.save("rows.npy", rows)
    save(ITQ(n_bits=16, random_state=0).fit(rows), "itq.bh")
    found = []
    for place in ("--out photos.bhi", f"--out photos --engine {url}"):
        assert main(f"index build rows.npy --model itq.bh --replace {place}".split()) == 0
        name, *engine = place.removeprefix("--out ").split()
        assert "with corrections" in capsys.readouterr().out
        search = f"search {name} rows.npy --model itq.bh --candidates 40 --json"
        assert main([*search.split(), *engine]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert main(f"index add photos codes.npy --engine {url}".split()) == 2
    assert "--corrections: the collection photos has corrections" in capsys.readouterr().err
    assert main(f"index info photos --engine {url}".split()) == 0
    assert "300" in capsys.readouterr().out
    assert main(f"index info lost --engine {url}".split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "there is no collection lost" in error
