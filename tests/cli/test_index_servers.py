"""An index on a PostgreSQL server from the command line: as a file, and never half there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import EngineError
from bridgehash.index import HammingIndex
from bridgehash.index.servers import open_index

pytest.importorskip("psycopg", reason="no driver: pip install 'bridgehash[postgres]'")
from bridgehash.index.servers import postgres

Run = Callable[..., Any]
Refused = Callable[[str], str]
SOURCE = "--model model.bh --domain source"
TARGET = "--model model.bh --domain target"


@pytest.fixture
def table(postgres_url: str) -> Iterator[str]:
    """Options that name a server and, with {}, a table on it that is gone after the test."""
    psycopg = pytest.importorskip("psycopg")
    name = f"c_{uuid.uuid4().hex[:16]}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for ending in ("", "_loading"):
            connection.execute(f"DROP TABLE IF EXISTS {name}{ending}")


@pytest.fixture
def unfinished(postgres_url: str) -> Callable[[], list[Any]]:
    """The names of tables of builds that did not end."""
    psycopg = pytest.importorskip("psycopg")

    def find() -> list[Any]:
        with psycopg.connect(postgres_url) as connection:
            names = "SELECT relname FROM pg_class WHERE relname LIKE 'bridgehash%'"
            return connection.execute(names).fetchall()

    return find


@pytest.fixture
def engine(postgres_url: str) -> str:
    return f"--engine {postgres_url.replace('postgres:@', 'postgres:secret@')}"


@pytest.fixture
def build(table: str, engine: str) -> str:
    return f"index build source.npy {SOURCE} {engine} --out {table}"


@pytest.fixture
def built(run: Run, build: str, table: str) -> Run:
    np.save("tags.npy", np.arange(60) % 3)
    ended = run(f"{build} --tags tags.npy")
    assert ended.code == 0, ended.err
    assert "60 of 12 bits" in ended.out
    assert f"{table} at postgresql://postgres@" in ended.out
    assert "secret" not in ended.out + ended.err
    return run


def test_a_table_answers_as_a_file_does(built: Run, table: str, engine: str) -> None:
    assert built(f"index build source.npy {SOURCE} --tags tags.npy --out new.bhi").code == 0
    for options in (
        "-k 7",
        "-k 3 --candidates 9",
        "-k 3 --tag 1",
        "-k 3 --tag nothing",
    ):
        file = json.loads(built(f"search new.bhi target.npy {TARGET} {options} --json").out)
        line = f"search {table} target.npy {TARGET} {engine} {options} --json"
        assert json.loads(built(line).out) == file
    auto = f"target.npy {TARGET} -k 3 --candidates auto --json"
    file, server = (
        json.loads(built(line).out)
        for line in (f"search new.bhi {auto}", f"search {table} {auto} {engine}")
    )
    same = [len({*a["ids"]} & {*b["ids"]}) / 3 for a, b in zip(file, server, strict=True)]
    assert np.mean(same) > 0.9  # ties at the last candidate are broken differently
    assert built(f"search {table} target.npy {TARGET} {engine} -k 2 --out found.npz").code == 0
    assert np.load("found.npz")["ids"].shape == (50, 2)


def test_corrections_are_stored_as_in_a_file(run: Run, table: str, engine: str) -> None:
    np.save("ids.npy", np.arange(60) + 100)
    assert run("encode itq.bh source.npy --out plain.npy").code == 0
    for name, more in [("new.bhi", ""), (table, engine)]:
        ended = run(f"index build source.npy --model itq.bh --out {name} {more}")
        assert "60 of 4 bits, with corrections" in ended.out
        assert run(f"index add {name} source.npy --model itq.bh --ids ids.npy {more}").err == ""
        assert run(f"index add {name} plain.npy {more}").code == 0  # these have none
    line = "source.npy --model itq.bh -k 9 --candidates 50 --json"
    file = json.loads(run(f"search new.bhi {line}").out)
    assert json.loads(run(f"search {table} {line} {engine}").out) == file
    assert json.loads(run(f"index info {table} {engine} --json").out)["corrections"] is True
    if pytest.importorskip("pyarrow"):
        assert run("index export new.bhi new.parquet").code == 0
        ended = run(f"index build new.parquet --out {table} --replace {engine}")
        assert "180 of 4 bits, with corrections" in ended.out
        assert json.loads(run(f"search {table} {line} {engine}").out) == file


def test_a_table_without_corrections_stays_as_it_is(run: Run, table: str, engine: str) -> None:
    build = f"index build source.npy --model itq.bh --no-corrections --out {table} {engine}"
    assert "60 of 4 bits\n" in run(build).out
    ended = run(f"index add {table} source.npy --model itq.bh {engine}")
    assert ended.err == (
        f"note: {table} has no corrections, so none were added; build it again to store them\n"
    )
    ended = run(f"search {table} source.npy --model itq.bh {engine}")
    assert (ended.code, "has no corrections; codes are ranked by" in ended.err) == (0, True)
    assert json.loads(run(f"index info {table} {engine} --json").out)["corrections"] is False


def test_tags_in_a_file_may_be_text(run: Run) -> None:
    line = f"index build source.npy {SOURCE} --tags labels.npz:source --out new.bhi"
    assert run(line).code == 0
    y = np.load("labels.npz")["source"]
    found = json.loads(run(f"search new.bhi target.npy {TARGET} --tag bee -k 60 --json").out)
    assert sorted(found[0]["ids"]) == np.flatnonzero(y == "bee").tolist()


def test_codes_are_added_replaced_and_removed(built: Run, table: str, engine: str) -> None:
    np.save("ids.npy", np.arange(60) + 100)
    more = f"index add {table} source.npy {SOURCE} {engine}"
    assert "120 of 12 bits" in built(f"{more} --ids ids.npy").out
    assert "100" in built(f"{more} --ids ids.npy").err
    upsert = more.replace("index add", "index upsert")
    assert "120 of 12 bits" in built(f"{upsert} --ids ids.npy").out
    assert "180 of 12 bits" in built(more).out
    np.save("gone.npy", np.array([0, 100, 7777, 219]))
    assert "3 codes" in built(f"index remove {table} {engine} --ids gone.npy").out
    record = json.loads(built(f"index info {table} {engine} --json").out)
    assert (record["codes"], record["n_bits"], record["domain"]) == (177, 12, "source")
    assert (record["name"], record["search"], len(record["code_space"])) == (table, "exact", 64)
    assert "secret" not in record["engine"]


def test_an_approximate_index_is_told_and_searched_exactly_if_asked(
    run: Run, build: str, table: str, engine: str
) -> None:
    assert run(f"{build} --search approximate").code == 0
    assert json.loads(run(f"index info {table} {engine} --json").out)["search"] == "approximate"
    assert run(f"index build source.npy {SOURCE} --out new.bhi").code == 0
    file = run(f"search new.bhi target.npy {TARGET} --json").out
    assert run(f"search {table} target.npy {TARGET} {engine} --search exact --json").out == file


def test_packed_codes_added_to_a_models_index_are_noted(
    built: Run, table: str, engine: str
) -> None:
    assert built("encode model.bh source.npy --domain source --out codes.npy").code == 0
    assert built(f"index add {table} codes.npy {engine}").err == ""
    Path("codes.npy.origin.json").unlink()
    assert "assuming the model of" in built(f"index add {table} codes.npy {engine}").err


def test_what_does_not_fit_is_refused(
    built: Run, refused: Refused, table: str, engine: str
) -> None:
    np.save("codes.npy", np.zeros((3, 4), np.uint8))
    other = "fit source.npy target.npy --out other.bh --bits 12 --preset unsupervised"
    assert built(other).code == 0
    for line, reason in [
        ("search {table} target.npy --model other.bh --domain target", "another model"),
        ("index add {table} source.npy --model other.bh --domain source", "another model"),
        ("index add {table} codes.npy", "12 bits"),
        ("search {table} codes.npy", "12 bits"),
        (
            "index add {table} source.npy " + SOURCE + " --corrections",
            "--corrections: the table {table} has no room for them",
        ),
        (
            "index build source.npy " + SOURCE + " --out {table}",
            "exists already at postgresql://postgres@",
        ),
        ("index build source.npy " + SOURCE + " --out x.bhi", "x.bhi"),
        ("index info {table}_lost", "{table}_lost"),
    ]:
        error = refused(f"{line.format(table=table)} {engine}")
        assert reason.format(table=table) in error
        assert "secret" not in error


def test_a_server_that_is_away_or_unknown_is_one_line(run: Run, refused: Refused) -> None:
    for engine, reason in [
        ("postgresql://ann:secret@127.0.0.1:1/shop", "127.0.0.1:1"),
        ("mysql://ann:secret@127.0.0.1/shop", "mysql"),
    ]:
        for line in ("index info photos", f"search photos target.npy {TARGET}"):
            error = refused(f"{line} --engine {engine}")
            assert reason in error
            assert "secret" not in error


def fail_at_the_third_block(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    works, calls = postgres._binary_rows, []

    def fails(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise error
        return works(*arguments)

    monkeypatch.setattr(postgres, "_ROWS", 20)
    monkeypatch.setattr(postgres, "_binary_rows", fails)


@pytest.mark.parametrize("error", [EngineError("the server is away"), KeyboardInterrupt()])
def test_a_build_that_fails_leaves_no_index_and_can_be_done_again(
    run: Run, build: str, table: str, postgres_url: str, error: BaseException, unfinished: Any
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        fail_at_the_third_block(patched, error)
        assert run(build).code in (2, 130)
    with pytest.raises(EngineError, match=table):
        open_index(postgres_url, table)
    assert unfinished() == []
    assert run(build).code == 0


def test_an_index_with_the_name_of_a_part_is_not_touched(
    run: Run, build: str, table: str, engine: str
) -> None:
    assert run(f"{build}_loading").code == 0
    assert "60 of 12 bits" in run(build).out
    assert "60" in run(f"index info {table}_loading {engine}").out


def test_a_build_in_place_of_another_keeps_the_old_one_if_it_fails(
    built: Run, build: str, table: str, engine: str
) -> None:
    assert built("encode model.bh target.npy --domain target --out codes.npy").code == 0
    other = f"index build codes.npy --bits 12 {engine} --out {table} --replace"
    with pytest.MonkeyPatch.context() as patched:
        fail_at_the_third_block(patched, EngineError("the server is away"))
        assert built(other).code == 2
    assert json.loads(built(f"index info {table} {engine} --json").out)["codes"] == 60
    assert "50 of 12 bits" in built(other).out


@pytest.mark.parametrize("command", ["add", "upsert"])
def test_a_change_that_fails_changes_nothing(
    built: Run, table: str, engine: str, command: str
) -> None:
    np.save("ids.npy", np.arange(60) + 100)
    line = f"index {command} {table} source.npy {SOURCE} {engine} --ids ids.npy"
    with pytest.MonkeyPatch.context() as patched:
        fail_at_the_third_block(patched, EngineError("the server is away"))
        ended = built(line)
    assert (ended.code, ended.err) == (2, "error: the server is away\n")
    assert json.loads(built(f"index info {table} {engine} --json").out)["codes"] == 60
    assert "120 of 12 bits" in built(line).out


def test_blocks_are_one_load(built: Run, engine: str, table: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(postgres, "_ROWS", 7)
    np.save("ids.npy", np.random.default_rng(0).permutation(1000)[:60])
    line = f"index build source.npy {SOURCE} --ids ids.npy"
    assert built(f"{line} --out new.bhi").code == 0
    assert built(f"{line} --out {table} --replace {engine}").code == 0
    file = built(f"search new.bhi target.npy {TARGET} --json").out
    assert built(f"search {table} target.npy {TARGET} {engine} --json").out == file
    assert len(HammingIndex.load("new.bhi")) == 60
    np.save("ids.npy", np.arange(60) // 2)
    assert "0" in built(f"{line} --out {table} --replace {engine}").err
