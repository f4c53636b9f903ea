"""A real PostgreSQL server gives the answers of the index in memory and loses nothing."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import EngineError, InputError
from bridgehash.index import HammingIndex
from bridgehash.index.attributes import ItemFilter
from bridgehash.index.servers import base, build_index, create_index, open_index
from tests.index.servers.cases import (
    assert_same_answers,
    check_kinds_of_ids,
    check_operations,
    check_same_answers,
    check_same_ranking,
    random_codes,
)
from tests.servers import Proxy

psycopg = pytest.importorskip("psycopg", reason="no driver: pip install 'bridgehash[postgres]'")
from bridgehash.index.servers import postgres as postgres_tables  # noqa: E402
from bridgehash.index.servers.postgres import PostgresIndex  # noqa: E402

Make = Callable[..., PostgresIndex]


@pytest.fixture
def execute(postgres_url: str) -> Iterator[Callable[..., Any]]:
    """Run SQL on another connection."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield lambda *statement: connection.execute(*statement)


@pytest.fixture
def name(execute: Callable[..., Any]) -> Iterator[str]:
    """The name of a table for one test."""
    table = f"t_{uuid.uuid4().hex[:16]}"
    yield table
    execute(f"DROP TABLE IF EXISTS {table}")


@pytest.fixture
def make(postgres_url: str, name: str) -> Iterator[Make]:
    """`make(n_bits, ...)`: an empty index that is closed at the end."""
    made = []

    def create(n_bits: int = 12, **options: Any) -> PostgresIndex:
        made.append(create_index(options.pop("url", postgres_url), name, n_bits, **options))
        return made[-1]

    yield create
    for index in made:
        index.close()


@pytest.fixture
def through(proxy: Proxy, make: Make) -> PostgresIndex:
    """An index with three codes whose connection goes through the proxy."""
    folder = str(Path(proxy._here).parent)
    index = make(12, url=f"postgresql://postgres@/postgres?host={folder}")
    return index.add(np.zeros((3, 2), np.uint8))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PAUSES", (0.05, 0.1, 0.2, 0.4))


@pytest.mark.parametrize("n_bits", [1, 12, 64, 4096])
@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_answers_are_those_of_the_index_in_memory(make: Make, n_bits: int, ids: str) -> None:
    check_same_answers(make(n_bits, ids=ids))


@pytest.mark.parametrize("n_missing", [0, 100, 600])
@pytest.mark.parametrize(("n_bits", "ids"), [(12, "text"), (70, "numbers")])
def test_codes_are_ranked_as_in_memory(make: Make, n_bits: int, ids: str, n_missing: int) -> None:
    check_same_ranking(make(n_bits, ids=ids, corrections=True), n_missing=n_missing)


def test_codes_without_corrections_are_ranked_by_their_agreement(make: Make) -> None:
    index = make(12)
    check_same_ranking(index)
    with pytest.raises(InputError, match="has no room for them; build it again") as error:
        index.add([[1, 16]], corrections=np.ones((1, 2)))
    assert error.value.argument == "corrections"


@pytest.mark.parametrize(("n_bits", "seed"), [(5, 0), (70, 1)])
@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_any_changes_leave_the_answers_of_the_index_in_memory(
    make: Make, n_bits: int, seed: int, ids: str
) -> None:
    check_operations(make(n_bits, ids=ids), seed, n_steps=30)


@pytest.mark.parametrize("ids", ["numbers", "text"])
def test_ids_of_the_other_kind_are_refused(make: Make, ids: str) -> None:
    check_kinds_of_ids(make(8, ids=ids))


def test_text_is_ordered_by_code_points_whatever_the_table_says(
    postgres_url: str, name: str, execute: Any
) -> None:
    columns = 'id text COLLATE "und-x-icu" PRIMARY KEY, code bit(8), domain text, tags text[]'
    try:
        execute(f"CREATE TABLE {name} ({columns})")
    except psycopg.Error:
        columns = columns.replace(' COLLATE "und-x-icu"', "")  # a server without ICU
        execute(f"CREATE TABLE {name} ({columns})")
    texts = ["b", "B", "a", "é", "z", "\U0001f600", "\uffff", "_"]
    with open_index(postgres_url, name) as index:
        index.add(np.zeros((len(texts), 1), np.uint8), texts)
        assert index.search([[0]], len(texts) + 1)[1].tolist() == [[*sorted(texts), None]]
        with pytest.raises(InputError, match="id B is in the index already"):
            index.add([[1], [1]], ["b", "B"])


def test_a_built_index_has_ids_of_the_kind_it_was_given(postgres_url: str, name: str) -> None:
    with build_index(
        postgres_url, name, 8, [[1], [2]], ["b", "a"], tags=["x", ["x", "y"]], domain="photo"
    ) as index:
        assert (index.id_kind, index.domains) == ("text", {"photo": 2})
    with open_index(postgres_url, name) as index:
        assert index.id_kind == "text"
        assert index.search([[0]], 2, tags=["x", "y"], match="all")[1].tolist() == [["a", None]]


def test_a_built_index_has_room_for_corrections_if_it_has_some(
    postgres_url: str, name: str, execute: Any
) -> None:
    numbers = np.array([[1.5, 0.25], [np.nan, np.nan]])
    options: Any = {"may_miss": True, "corrections": numbers}
    with build_index(postgres_url, name, 8, [[1], [2]], [5, 3], **options) as index:
        assert index.has_corrections
    with open_index(postgres_url, name) as index:
        assert index.has_corrections
        index.add([[4]], [7]).upsert([[1], [2]], [5, 4], corrections=[[2.0, 0.5], [1.0, 0.0]])
        index.upsert([[4]], [4])
    rows = execute(f"SELECT id, score_offset, score_slope FROM {name} ORDER BY id").fetchall()
    assert rows == [(3, None, None), (4, None, None), (5, 2.0, 0.5), (7, None, None)]
    with (
        pytest.raises(InputError, match="NaN"),
        build_index(postgres_url, name, 8, [[1], [2]], corrections=numbers, replace=True),
    ):
        pass
    build_index(postgres_url, name, 8, [[1]], replace=True).close()
    with open_index(postgres_url, name) as index:
        assert not index.has_corrections


def test_a_table_of_others_may_have_corrections(postgres_url: str, name: str, execute: Any) -> None:
    columns = "id bigint PRIMARY KEY, code bit(8), domain text, tags text[]"
    execute(f"CREATE TABLE {name} ({columns}, score_offset real, score_slope real)")
    execute(f"INSERT INTO {name} VALUES (1, B'11110000', '', '{{}}', 1, 2)")
    execute(f"INSERT INTO {name} VALUES (2, B'11110000', '', '{{}}', 3, NULL)")
    with open_index(postgres_url, name) as index:
        assert index.has_corrections
        query: Any = ([[0b11110000]], np.ones((1, 8)))
        assert index.rank(*query, k=2).scores.tolist() == [[1, 1]]  # both with offset 1, slope 2
        execute(f"UPDATE {name} SET score_slope = -1 WHERE id = 2")
        with pytest.raises(EngineError, match="negative score_slope; set both to null"):
            index.rank(*query)
        execute(f"UPDATE {name} SET score_slope = 1, score_offset = 'infinity' WHERE id = 2")
        with pytest.raises(EngineError, match="not finite"):
            index.rank(*query)


def test_a_code_is_its_bits_first_bit_first(make: Make, execute: Any, name: str) -> None:
    make(12).add([[0b10010001, 0b01000000]], [7], tags=[["shoes", "red"]], domain="photo")
    rows = execute(f"SELECT id, code::text, domain, tags FROM {name}").fetchall()
    assert rows == [(7, "100100010100", "photo", ["red", "shoes"])]


def test_many_queries_go_in_several_round_trips(make: Make) -> None:
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 50, 16), random_codes(rng, 700, 16)
    index, twin = make(16).add(codes), HammingIndex(16).add(codes)
    assert_same_answers(index, twin, queries, 3, None)
    assert index.search(queries[:0], 3)[1].shape == (0, 3)


def test_an_opened_index_knows_what_it_holds(make: Make, postgres_url: str, name: str) -> None:
    make(12, about={"model": 'it\'s "m"', "domain": "source"}).add([[1, 16]])
    with open_index(postgres_url, name) as index:
        assert (index.n_bits, index.search_mode, len(index)) == (12, "exact", 1)
        assert index.about == {"model": 'it\'s "m"', "domain": "source"}


def test_an_add_that_is_refused_leaves_nothing(make: Make) -> None:
    index = make(8).add([[1], [2]], [10, 30])
    with pytest.raises(InputError, match="id 10 is in the index already; use upsert to replace it"):
        index.add([[3], [4], [5], [6]], [5, 30, 10, 50])
    assert len(index) == 2
    assert index.search([[3]], 1)[0] == [[1]]


def test_an_upsert_twice_is_one(make: Make) -> None:
    index = make(8).add([[1], [2]], tags=["a", "a"])
    for _ in range(2):
        index.upsert([[255], [254]], [1, 9], tags=["b", ""])
    assert len(index) == 3
    np.testing.assert_array_equal(index.search([[255]], 3)[1], [[1, 9, 0]])
    np.testing.assert_array_equal(index.search([[255]], 2, tags="a")[1], [[0, -1]])


def test_tags_that_cannot_be_stored_are_refused(make: Make) -> None:
    index = make(8)
    for tag in ("zero\x00byte", "\ud800", "x" * 70_000):
        with pytest.raises(InputError, match=r"tags: .* cannot be stored"):
            index.add([[1]], tags=[["good", tag]])
        with pytest.raises(InputError, match=r"domain: .* cannot be stored"):
            index.add([[1]], domain=tag)
    assert len(index) == 0


def test_approximate_search_finds_nearly_all_and_exact_search_stays_exact(
    make: Make, postgres_url: str, name: str, execute: Any
) -> None:
    rng = np.random.default_rng(0)
    centres = rng.random((60, 64)) < 0.5
    codes = np.packbits(centres[rng.integers(0, 60, 3000)] ^ (rng.random((3000, 64)) < 0.1), axis=1)
    tags = np.array(["rare" if i % 47 == 0 else "" for i in range(3000)], dtype=object)
    index = make(64, search="approximate").add(codes, tags=tags)
    index.finish()
    index.finish()  # a second time changes nothing
    assert len(execute("SELECT FROM pg_indexes WHERE tablename = %s", [name]).fetchall()) == 3
    twin = HammingIndex(64).add(codes, tags=tags)
    queries = codes[::100] ^ np.uint8(1)
    true, found = twin.search(queries, 10)[0], index.search(queries, 10)[0]
    assert (found <= true[:, -1:]).mean() > 0.95
    assert index.search(queries, 10, tags="rare")[1].min() >= 0
    with open_index(postgres_url, name, search="exact") as exact:
        for filters in ({}, {"tags": "rare"}):
            assert_same_answers(exact, twin, queries, 10, filters)


def test_only_approximate_search_uses_hnsw(make: Make) -> None:
    index = make(64, search="approximate").add(random_codes(np.random.default_rng(0), 3000, 64))
    index.finish()

    def plan() -> str:
        def work(connection: Any) -> str:
            index._configure(connection, 5)
            statement = postgres_tables.sql.SQL("EXPLAIN ") + index._statement(ItemFilter())
            values = {"queries": ["0" * 64], "k": 5}
            return str(connection.execute(statement, values).fetchall())

        return index._session.read(index._table, work)

    assert "_code_idx" in plan()
    index.search_mode = "exact"
    assert "_code_idx" not in plan()


def test_a_connection_lost_between_operations_is_opened_again(
    through: PostgresIndex, proxy: Proxy
) -> None:
    proxy.cut()
    assert len(through) == 3
    proxy.cut()
    through.add([[255, 240]])
    proxy.cut()
    assert through.search([[255, 240]], 1)[1] == [[3]]
    proxy.cut()
    assert through.remove([3, 2]) == 2
    assert proxy.n_connections == 5


def test_a_ranking_whose_connection_is_lost_begins_again(
    proxy: Proxy, through: PostgresIndex, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_tables, "_QUERIES", 1)
    n_sent = 0

    def is_third_query(data: bytes) -> bool:
        nonlocal n_sent
        n_sent += b"bit_send" in data
        return b"bit_send" in data and n_sent == 3

    proxy.watch = is_third_query
    found = through.search([[0, 0]] * 3, 2, weights=np.ones((3, 12)))
    assert found[1].tolist() == [[0, 1]] * 3
    assert (n_sent, proxy.n_connections) == (6, 2)


def test_a_backend_that_is_ended_is_replaced(make: Make, execute: Any) -> None:
    index = make(8).add([[1]])
    pid = index._session.read(index._table, lambda c: c.info.backend_pid)
    execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    assert len(index.add([[2]])) == 2


@pytest.mark.parametrize("when", [b"COPY", b"pg_current_xact_id", b"BEGIN"])
def test_a_connection_lost_in_the_middle_loses_nothing(
    through: PostgresIndex, proxy: Proxy, impatient: None, when: bytes
) -> None:
    _lose_once(proxy, when)
    through.add([[255, 240], [1, 0]])
    assert len(through) == 5
    assert proxy.n_connections == 2


@pytest.mark.parametrize(
    ("change", "outcome", "n"),
    [
        (lambda index: len(index.add([[255, 240]])), 4, 4),
        (lambda index: len(index.add([[255, 240]], [77])), 4, 4),
        (lambda index: len(index.upsert([[255, 240]], [1])), 3, 3),
        (lambda index: index.remove([0, 1, 99]), 2, 1),
    ],
)
def test_a_commit_whose_answer_is_lost_is_not_done_twice(
    through: PostgresIndex, proxy: Proxy, impatient: None, change: Any, outcome: int, n: int
) -> None:
    _lose_once(proxy, b"COMMIT\x00")
    assert change(through) == outcome
    assert proxy.n_connections == 2
    assert len(through) == n


def test_a_commit_that_did_not_arrive_is_done_again(
    through: PostgresIndex, proxy: Proxy, impatient: None, execute: Any
) -> None:
    def end_the_backend(data: bytes) -> bool:
        if b"COMMIT\x00" not in data or proxy.n_connections > 1:
            return False
        pid = execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'bridgehash' "
            "AND state LIKE 'idle in%%' AND query LIKE 'COPY%%' AND query LIKE %s",
            [f"%{through.name}%"],
        ).fetchone()[0]
        execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return True

    proxy.watch = end_the_backend
    through.add([[255, 240]], [77])
    assert proxy.n_connections == 2
    assert len(through) == 4


def test_a_server_that_stays_away_is_a_clear_error(
    through: PostgresIndex, proxy: Proxy, impatient: None
) -> None:
    proxy.close()
    with pytest.raises(EngineError, match="could not be opened again"):
        len(through)
    proxy.open()
    assert len(through) == 3


def _lose_once(proxy: Proxy, when: bytes) -> None:
    """Cut the connection once, after the client has sent this."""
    left = [True]
    proxy.watch = lambda data: when in data and bool(left) and left.pop()


def test_a_server_that_does_not_run_is_a_clear_error() -> None:
    with pytest.raises(EngineError, match="no connection") as refused:
        open_index("postgresql://ann:secret@127.0.0.1:1/shop", "photos")
    assert "ann@127.0.0.1:1/shop" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_bad_url_is_refused_without_its_password() -> None:
    for url, message in [
        ("mysql://ann:secret@h/shop", "unsupported engine: mysql://; use postgresql"),
        ("photos.bhi", "unsupported engine: a URL without ://"),
        ("secret", "unsupported engine: a URL without ://"),
        ("postgresql://ann:sec@ret@h/shop", "in a user name or password write @"),
        ("postgresql://ann:sec/secret@h/shop", "in a user name or password write @"),
        ("postgresql://ann:sec?secret@h/shop", "in a user name or password write @"),
        ("postgresql://ann:secret@h:port/shop", "check its port and options|no connection"),
        ("postgresql://ann:secret@h/shop?nonsense=1", "check its port and options"),
        ("milvus://ann:secret@h:port", "the port is not a number"),
    ]:
        with pytest.raises(EngineError, match=message) as refused:
            open_index(url, "photos")
        assert "sec" not in str(refused.value)


def test_a_wrong_password_is_a_clear_error(postgres_url: str, execute: Any, name: str) -> None:
    execute(f"CREATE ROLE {name} LOGIN")
    try:
        other = postgres_url.replace("postgres:@", "nobody_of_this_name:secret@")
        with pytest.raises(EngineError, match="check address, user and password") as refused:
            open_index(other, name)
        assert "secret" not in str(refused.value)
        plain = postgres_url.replace("postgres:@", f"{name}@")
        with pytest.raises(EngineError, match="permission denied"):
            create_index(plain, name, 8)
    finally:
        execute(f"DROP ROLE {name}")


def test_a_server_without_pgvector_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str, name: str
) -> None:
    monkeypatch.setattr(postgres_tables, "EXTENSION", "no_such_extension")
    with pytest.raises(EngineError, match="pgvector is not installed on the server"):
        create_index(postgres_url, name, 8)


@pytest.mark.parametrize("module", ["psycopg", "pymilvus"])
def test_a_missing_driver_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    for known in [*sys.modules]:
        if known.startswith(("bridgehash.index.servers.postgres", module)):
            monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, module, None)
    scheme, extra = {"psycopg": ("postgresql", "postgres"), "pymilvus": ("milvus", "milvus")}[
        module
    ]
    with pytest.raises(EngineError, match=rf"pip install 'bridgehash\[{extra}\]'"):
        open_index(f"{scheme}://localhost", "photos")


def test_a_table_of_another_layout_is_refused(postgres_url: str, name: str, execute: Any) -> None:
    for columns in (
        "id bigint PRIMARY KEY, code bit(8), domain text, tag text",
        "id integer PRIMARY KEY, code bit(8), domain text, tags text[]",
        "id bigint, code bit(8), domain text, tags text[]",
        "id bigint PRIMARY KEY, code varbit(8), domain text, tags text[]",
        "",
    ):
        execute(f"CREATE TABLE {name} ({columns})")
        for attempt in (
            lambda: open_index(postgres_url, name),
            lambda: create_index(postgres_url, name, 8),
            lambda: create_index(postgres_url, name, 8, replace=True),
        ):
            with pytest.raises(EngineError, match=f"table {name} holds no codes"):
                attempt()
        execute(f"DROP TABLE {name}")


def test_a_table_of_another_program_is_searched_but_never_dropped(
    postgres_url: str, name: str, execute: Any, make: Make
) -> None:
    make(8).drop()
    execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, code bit(8), domain text, tags text[], "
        "price int DEFAULT 1)"
    )
    with open_index(postgres_url, name) as index:
        assert index.add([[1], [2]]).upsert([[7]], [1]).search([[7]], 1)[0] == [[0]]
        with pytest.raises(EngineError, match="not created by bridgehash and is not dropped"):
            index.drop()
        assert len(index) == 2


def test_a_table_is_replaced_only_on_request(postgres_url: str, make: Make, name: str) -> None:
    index = make(8).add([[1]])
    with pytest.raises(EngineError, match="exists; replace it or choose another name"):
        create_index(postgres_url, name, 16)
    with create_index(postgres_url, name, 16, replace=True) as other:
        assert (other.n_bits, len(other)) == (16, 0)
    with pytest.raises(EngineError, match=f"no table {name}_lost; build it"):
        open_index(postgres_url, f"{name}_lost")
    with pytest.raises(EngineError, match="exists; replace it"):
        build_index(postgres_url, name, 8, [[1], [2]])
    with build_index(postgres_url, name, 8, [[1], [2]], replace=True) as other:
        assert len(other) == 2
    assert len(index) == 2


def test_invalid_names_are_refused(postgres_url: str) -> None:
    for bad in ("", "1a", "a-b", "a.b", 'a"; DROP TABLE x; --', "é", "x" * 64):
        for attempt in (
            lambda: open_index(postgres_url, bad),  # noqa: B023
            lambda: create_index(postgres_url, bad, 8),  # noqa: B023
        ):
            with pytest.raises(EngineError, match="is not a valid table"):
                attempt()


def test_bad_parameters_are_named(make: Make, postgres_url: str, name: str, execute: Any) -> None:
    for argument, attempt in [
        ("n_bits", lambda: create_index(postgres_url, name, 0)),
        ("n_bits", lambda: create_index(postgres_url, name, 4097)),
        ("search", lambda: create_index(postgres_url, name, 8, search="hnsw")),
        ("search", lambda: open_index(postgres_url, name, search="ivf")),
        ("ids", lambda: create_index(postgres_url, name, 8, ids="uuid")),
        ("codes", lambda: make(8).add(np.array([[1.0]]))),
    ]:
        with pytest.raises(InputError) as caught:
            attempt()
        assert caught.value.argument == argument
    execute(f"DROP TABLE {name}")
    execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, code bit(4097), domain text, tags text[])"
    )
    with pytest.raises(EngineError, match="codes of 4097 bits; at most 4096 are allowed"):
        open_index(postgres_url, name)


def test_two_clients_can_add_pgvector_at_once(postgres_url: str, execute: Any, name: str) -> None:
    execute(f"CREATE DATABASE {name}")
    url = postgres_url.replace("/postgres?", f"/{name}?")
    try:
        with (
            psycopg.connect(url) as other,  # has created the extension, but not yet committed
            ThreadPoolExecutor(1) as pool,
        ):
            other.execute("CREATE EXTENSION vector")
            created = pool.submit(create_index, url, "photos", 8)
            waiting = "SELECT FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
            while not execute(waiting, [name]).fetchall():
                assert not created.done()
            other.commit()
            with created.result() as index:
                assert len(index) == 0
    finally:
        execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_automatic_ids_follow_the_highest_or_fill_the_lowest_gap(make: Make) -> None:
    index = make(8).add([[0], [0], [0]], [0, 1, 5])
    assert index.next_id() == 6
    index.add([[1]], [2**53 - 3]).add([[2], [3]])
    assert index.remove([2**53 - 2, 2**53 - 1]) == 2
    index.add([[2]], [2**63 - 1])
    assert index.next_id() == 2
    index.add([[7]] * 4)  # too many for the gap between 1 and 5
    index.add([[8]] * 3)
    ids = index.search([[0]], 20)[1][0]
    assert sorted(ids[ids >= 0]) == [*range(10), 2**53 - 3, 2**63 - 1]


def test_indexes_and_constraints_are_named_after_the_table(
    postgres_url: str, name: str, execute: Any
) -> None:
    parts = (
        "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE indrelid = %s::regclass UNION SELECT conname FROM pg_constraint "
        "WHERE conrelid = %s::regclass"
    )
    long = name.ljust(63, "x")
    try:
        for table in (name, long):
            for _ in range(2):  # the second one replaces the first
                build_index(
                    postgres_url, table, 8, [[1]], search="approximate", replace=True
                ).close()
                found = [row[0] for row in execute(parts, [table, table]).fetchall()]
                endings = ["_code_idx", "_pkey", "_tags_idx"]
                assert {part for part in found if not part.endswith("_not_null")} == {
                    table[: 63 - len(ending)] + ending for ending in endings
                }
                assert all(part.startswith(table[:40]) for part in found)
    finally:
        execute(f"DROP TABLE IF EXISTS {long}")


def test_a_table_with_the_name_of_an_index_is_kept(
    postgres_url: str, name: str, execute: Any
) -> None:
    execute(f"CREATE TABLE {name}_pkey (price int)")
    try:
        for _ in range(2):
            build_index(postgres_url, name, 8, [[1]], replace=True).close()
        rows = execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", [name]).fetchall()
        assert (f"{name}_pkey1",) in rows
        assert execute(f"SELECT count(price) FROM {name}_pkey").fetchone() == (0,)
    finally:
        execute(f"DROP TABLE {name}_pkey")


def test_a_reader_that_waits_for_a_new_table_sees_all_of_it(
    make: Make, name: str, execute: Any, postgres_url: str
) -> None:
    index = make(8).add([[1]])
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"LOCK TABLE {name}")
        length = pool.submit(lambda: len(index))
        waiting = "SELECT FROM pg_locks WHERE relation = %s::regclass::oid AND NOT granted"
        while not execute(waiting, [name]).fetchall():
            assert not length.done()
        execute(f"CREATE TABLE {name}_2 AS SELECT * FROM generate_series(1, 7) AS id")
        other.execute(f"DROP TABLE {name}; ALTER TABLE {name}_2 RENAME TO {name}")
        other.commit()
        assert length.result() == 7


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
def test_what_the_server_stops_for_others_is_repeated(
    make: Make, impatient: None, code: str
) -> None:
    index, attempts = make(8), []

    def work(connection: Any, n_failures: int) -> int:
        attempts.append(1)
        connection.execute(f"INSERT INTO {index.name} VALUES ({len(attempts)}, B'00000000')")
        if len(attempts) <= n_failures:
            connection.execute(f"DO $$BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END$$")
        return len(attempts)

    assert index._session.write(lambda c: work(c, 2)) == 3
    assert index.search([[0]], 2)[1].tolist() == [[3, -1]]
    with pytest.raises(EngineError, match="stopped by other clients at every attempt, nothing was"):
        index._session.write(lambda c: work(c, 99))
    assert len(attempts) == 3 + 5
    assert len(index) == 1


def test_a_commit_that_stays_unknown_is_said(
    through: PostgresIndex, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "PAUSES", (0.01,))
    lost = []

    def watch(data: bytes) -> bool:
        if b"COMMIT\x00" in data:
            lost.append(1)
        return bool(lost)  # and all later connections

    proxy.watch = watch
    with pytest.raises(EngineError, match="stored completely or not at all; check which"):
        through.add([[255, 240]])


def test_clients_add_at_once_whatever_the_default_isolation_is(
    make: Make, postgres_url: str
) -> None:
    make(8)
    strict = f"{postgres_url}&options=-c%20default_transaction_isolation%3Dserializable"
    clients = [make(8, url=strict, replace=True)]
    clients += [open_index(strict, clients[0].name) for _ in range(3)]

    def add(client: PostgresIndex) -> None:
        for _ in range(10):
            client.add([[1], [2]])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, clients))
    ids = clients[0].search([[0]], 100)[1][0]
    assert sorted(ids[ids >= 0]) == list(range(80))
    for client in clients[1:]:
        client.close()
