"""An index from the command line: built, changed, asked, and refused where it must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import load
from bridgehash.cli import io
from bridgehash.index import HammingIndex, IndexStore

Run = Callable[..., Any]
Refused = Callable[[str], str]
BUILD = "index build source.npy --model model.bh --domain source --out new.bhi"
SEARCH = "search new.bhi target.npy --model model.bh --domain target"


@pytest.fixture
def built(run: Run) -> Run:
    ended = run(BUILD)
    assert ended.code == 0, ended.err
    assert "60 of 12 bits" in ended.out
    return run


def expected(k: int) -> tuple[np.ndarray, np.ndarray]:
    model = load("model.bh")
    index = HammingIndex(12).add(model.encode(np.load("source.npy"), "source"))
    return index.search(model.encode(np.load("target.npy"), "target"), k)


def test_a_search_is_that_of_the_library(built: Run) -> None:
    found = json.loads(built(SEARCH + " -k 3 --json").out)
    distances, ids = expected(3)
    assert [record["ids"] for record in found] == ids.tolist()
    assert [record["distances"] for record in found] == distances.tolist()


def test_an_index_that_is_being_changed_is_refused(built: Run, monkeypatch: Any) -> None:
    monkeypatch.setattr("bridgehash.cli.index._WAIT", 0.0)
    np.save("ids.npy", np.arange(3))
    lines = (
        "index add new.bhi source.npy --model model.bh --domain source",
        "index upsert new.bhi source.npy --model model.bh --domain source --ids ids.npy",
        "index remove new.bhi --ids ids.npy",
        BUILD + " --replace",
    )
    with IndexStore.open("new.bhi") as store:
        store.add(np.zeros((1, 2), np.uint8))
        for line in lines:
            ended = built(line)
            assert ended.code == 2
            assert "new.bhi: in use by another process" in ended.err
        assert "61" in built("index info new.bhi").out
    assert len(HammingIndex.load("new.bhi")) == 61


def test_the_terminal_shows_the_first_queries(built: Run) -> None:
    lines = built(SEARCH + " -k 2").out.splitlines()
    distances, ids = expected(2)
    assert len(lines) == 1 + 20
    assert lines[1].split() == [
        "0",
        *(f"{i}:{d}" for i, d in zip(ids[0], distances[0], strict=True)),
    ]


def test_results_are_written(built: Run) -> None:
    for name in ["found.npz", "found.json", "found.parquet"]:
        ended = built(f"{SEARCH} -k 3 --out {name}")
        assert ended.code == 0, ended.err
        ids = expected(3)[1]
        if name.endswith("npz"):
            np.testing.assert_array_equal(np.load(name)["ids"], ids)
        elif name.endswith("json"):
            assert [r["ids"] for r in json.loads(Path(name).read_text())] == ids.tolist()
        else:
            table = pytest.importorskip("pyarrow.parquet").read_table(name)
            assert table["id"].to_pylist() == ids.ravel().tolist()


def test_an_existing_index_is_replaced_only_if_asked(built: Run) -> None:
    before = Path("new.bhi").read_bytes()
    ended = built("index build target.npy --model model.bh --domain target --out new.bhi")
    assert (ended.code, Path("new.bhi").read_bytes() == before) == (2, True)
    line = "index build target.npy --model model.bh --domain target --out new.bhi --replace"
    assert "50 of 12 bits" in built(line).out


def test_a_tag_that_no_code_has_is_a_note(run: Run) -> None:
    assert run(BUILD + " --tags labels.npz:source").code == 0
    ended = run(SEARCH + " --tag nosuch --json")
    assert ended.code == 0
    assert ended.err == "note: no code of new.bhi has the tag 'nosuch'\n"
    assert run(SEARCH + " --tag bee --json").err == ""


def test_reranking_is_that_of_the_library_and_reads_its_inputs_once(
    built: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = io.read_matrix
    monkeypatch.setattr(io, "read_matrix", lambda spec: (read.append(spec), real(spec))[1])
    found = json.loads(built(SEARCH + " -k 3 --rerank --json").out)
    assert read == ["target.npy"]
    model = load("model.bh")
    index = HammingIndex(12).add(model.encode(np.load("source.npy"), "source"))
    X = np.load("target.npy")
    H = model.decision_function(X, "target")
    ids = index.search(model.encode(X, "target"), 3, rerank=H)[1]
    assert [record["ids"] for record in found] == ids.tolist()


def test_codes_may_come_from_encode(built: Run) -> None:
    assert built("encode model.bh source.npy --domain source --out codes.npy").code == 0
    assert built("index build codes.npy --bits 12 --out plain.bhi").code == 0
    assert built("encode model.bh target.npy --domain target --out queries.npy").code == 0
    plain = json.loads(built("search plain.bhi queries.npy -k 3 --json").out)
    assert plain == json.loads(built(SEARCH + " -k 3 --json").out)


def test_add_refuses_known_ids_upsert_replaces_remove_removes(built: Run) -> None:
    np.save("ids.npy", np.arange(50) + 100)
    np.save("more.npy", np.load("source.npy")[:50])
    more = "index add new.bhi more.npy --model model.bh --domain source --ids ids.npy"
    assert "110 of 12 bits" in built(more).out
    ended = built(more)
    assert (ended.code, "100" in ended.err) == (2, True)
    replaced = built(more.replace("index add", "index upsert"))
    assert (replaced.code, "110 of 12 bits" in replaced.out) == (0, True)
    np.save("gone.npy", np.array([0, 100, 7777]))
    ended = built("index remove new.bhi --ids gone.npy")
    assert "removed" in ended.out
    assert "2 codes" in ended.out
    assert len(HammingIndex.load("new.bhi")) == 108


def test_info_tells_what_is_there(built: Run) -> None:
    record = json.loads(built("index info new.bhi --json").out)
    assert (record["codes"], record["n_bits"], record["domain"]) == (60, 12, "source")
    assert len(record["model"]) == 64


def test_what_does_not_fit_is_refused(built: Run, refused: Refused) -> None:
    np.save("codes.npy", np.zeros((3, 4), np.uint8))
    other = "fit source.npy target.npy --out other.bh --bits 12 --preset unsupervised"
    assert built(other).code == 0
    for line, reason in [
        ("search new.bhi target.npy --model other.bh --domain target", "another model"),
        ("index add new.bhi target.npy --model model.bh --domain target", "the source domain"),
        ("index add new.bhi source.npy --model other.bh --domain source", "another model"),
        ("search new.bhi target.npy --model model.bh", "--domain source or"),
        ("search new.bhi target.npy --domain target", "--domain: needs --model"),
        ("search new.bhi codes.npy", "12 bits"),
        ("search new.bhi codes.npy --rerank", "--rerank: needs --model"),
        ("search new.bhi codes.npy --search exact", "--search: needs --engine"),
        ("search new.bhi codes.npy --search nowhere", "--search"),
        ("search model.bh target.npy --model model.bh --domain target", "index"),
        ("search lost.bhi target.npy --model model.bh --domain target", "lost.bhi"),
        ("index info labels.npz", "labels.npz: "),
        ("index build source.npy --model model.bh --domain source --out x.npy", "must end in .bhi"),
        (
            "index upsert new.bhi source.npy --model model.bh --domain source",
            "Missing option '--ids'",
        ),
        ("index add new.bhi codes.npy --replace", "No such option"),
        (BUILD, "new.bhi: exists already; use --replace"),
        (
            BUILD.replace("new", "other") + " --search approximate",
            "--search: approximate needs --engine",
        ),
        ("index remove new.bhi --ids labels.npz:source", "whole numbers"),
        (BUILD + " --bits 16 --replace", "makes codes of 12 bits, not 16"),
    ]:
        assert reason in refused(line)
