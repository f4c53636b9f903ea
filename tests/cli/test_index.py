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
from bridgehash.codes import hamming
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


def ranked(k: int, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, Hamming distances and ids of the library."""
    model, X = load("model.bh"), np.load("target.npy")
    gallery, queries = model.encode(np.load("source.npy"), "source"), model.encode(X, "target")
    weights = model.query_weights(X, "target")
    scores, ids = HammingIndex(12).add(gallery).search(queries, k, weights=weights, **options)
    return scores, np.take_along_axis(hamming(queries, gallery), ids, axis=1), ids


def values(found: list[dict[str, Any]], name: str) -> list[Any]:
    return [record[name] for record in found]


def test_a_hamming_search_is_that_of_the_library(built: Run) -> None:
    found = json.loads(built(SEARCH + " -k 3 --hamming --json").out)
    distances, ids = expected(3)
    assert set(found[0]) == {"ids", "distances"}
    assert values(found, "ids") == ids.tolist()
    assert values(found, "distances") == distances.tolist()


@pytest.mark.parametrize(("line", "options"), [("", {}), (" --candidates 5", {"n_candidates": 5})])
def test_features_are_ranked_by_weights(
    built: Run, line: str, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = io.read_table
    monkeypatch.setattr(io, "read_table", lambda spec, **k: (read.append(spec), real(spec, **k))[1])
    ended = built(f"{SEARCH} -k 3{line} --json")
    assert (read, ended.err) == (["target.npy"], "")
    found = json.loads(ended.out)
    for name, array in zip(("scores", "distances", "ids"), ranked(3, **options), strict=True):
        assert values(found, name) == array.tolist()


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
    lines = built(SEARCH + " -k 2 --hamming").out.splitlines()
    distances, ids = expected(2)
    assert len(lines) == 1 + 20
    assert "nearest first" in lines[0]
    assert lines[1].split() == [
        "0",
        *(f"{i}:{d}" for i, d in zip(ids[0], distances[0], strict=True)),
    ]
    lines = built(SEARCH + " -k 1").out.splitlines()
    scores, distances, ids = ranked(1)
    assert "id:distance (score), smallest score first" in lines[0]
    assert lines[1].split()[1:] == [f"{ids[0, 0]}:{distances[0, 0]}", f"({scores[0, 0]:.3g})"]


def test_results_are_written(built: Run) -> None:
    for name in ["found.npz", "found.json", "found.parquet"]:
        ended = built(f"{SEARCH} -k 3 --out {name}")
        assert ended.code == 0, ended.err
        scores, distances, ids = ranked(3)
        if name.endswith("npz"):
            arrays = np.load(name)
            np.testing.assert_array_equal(arrays["ids"], ids)
            np.testing.assert_array_equal(arrays["distances"], distances)
            np.testing.assert_array_equal(arrays["scores"], scores)
        elif name.endswith("json"):
            found = json.loads(Path(name).read_text())
            assert values(found, "ids") == ids.tolist()
            assert values(found, "scores") == scores.tolist()
        else:
            table = pytest.importorskip("pyarrow.parquet").read_table(name)
            assert table["id"].to_pylist() == ids.ravel().tolist()
            assert table["score"].to_pylist() == scores.ravel().tolist()
            assert built(f"{SEARCH} --hamming --out {name}").code == 0
            table = pytest.importorskip("pyarrow.parquet").read_table(name)
            assert table.column_names == ["query", "id", "distance"]


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


def test_codes_may_come_from_encode(built: Run) -> None:
    assert built("encode model.bh source.npy --domain source --out codes.npy").code == 0
    assert built("index build codes.npy --bits 12 --out plain.bhi").code == 0
    assert built("encode model.bh target.npy --domain target --out queries.npy").code == 0
    plain = json.loads(built("search plain.bhi queries.npy -k 3 --json").out)
    assert plain == json.loads(built(SEARCH + " -k 3 --hamming --json").out)


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
    assert (record["codes"], record["n_bits"], record["ids"]) == (60, 12, "numbers")
    assert record["domains"] == {"source": 60}
    assert len(record["code_space"]) == 64
    assert built("index add new.bhi target.npy --model model.bh --domain target").code == 0
    assert "source 60, target 50" in built("index info new.bhi").out


def test_a_search_within_a_domain_finds_its_codes_only(built: Run) -> None:
    assert built("index add new.bhi target.npy --model model.bh --domain target").code == 0
    for domain, low, high in (("source", 0, 60), ("target", 60, 110)):
        found = json.loads(built(f"{SEARCH} -k 200 --in-domain {domain} --json").out)
        assert {i for record in found for i in record["ids"]} == set(range(low, high))
    ended = built(f"{SEARCH} --tag x --in-domain word --json")
    assert ended.err == "note: no code of new.bhi has the tag 'x' and is of the domain 'word'\n"


def test_packed_codes_may_name_their_domain(run: Run) -> None:
    np.save("codes.npy", np.zeros((3, 2), np.uint8))
    assert run("index build codes.npy --domain photo --out plain.bhi").code == 0
    assert run("index add plain.bhi codes.npy --domain sketch").code == 0
    assert HammingIndex.load("plain.bhi").domains == {"photo": 3, "sketch": 3}


def test_several_tags_are_matched(run: Run) -> None:
    np.save("colours.npy", np.array(["red", "blue"])[np.arange(60) % 2])
    line = BUILD + " --tags labels.npz:source --tags colours.npy"
    assert run(line).code == 0
    index = HammingIndex.load("new.bhi")
    assert index.get([0]).tags == [tuple(sorted([str(np.load("labels.npz")["source"][0]), "red"]))]
    for options, filters in (
        ("--tag bee --tag red", {"tags": ["bee", "red"]}),
        ("--tag bee --tag red --match all", {"tags": ["bee", "red"], "match": "all"}),
    ):
        found = json.loads(run(f"{SEARCH} -k 60 {options} --json").out)
        assert sorted(found[0]["ids"]) == index.page(0, 60, **filters)[0].tolist()


def test_text_ids_from_every_format(run: Run) -> None:
    names = [f"{i:03d}" for i in range(60)]  # as numbers they would lose their zeros
    np.save("ids.npy", np.array(names))
    Path("ids.csv").write_text("sku\n" + "\n".join(names))
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"sku": names}), "ids.parquet")
    for spec in ("ids.npy", "ids.csv", "ids.csv:sku", "ids.parquet:sku"):
        assert run(f"{BUILD} --ids {spec} --replace").code == 0
        assert HammingIndex.load("new.bhi").ids.tolist() == names
    Path("gone.csv").write_text("sku\n007\n012\n999\n")
    assert "2 codes" in run("index remove new.bhi --ids gone.csv").out
    more = "index upsert new.bhi target.npy --model model.bh --domain target"
    np.save("more.npy", np.array([f"SKU-{i}" for i in range(50)]))
    assert run(f"{more} --ids more.npy").code == 0
    index = HammingIndex.load("new.bhi")
    assert (len(index), index.domains) == (108, {"source": 58, "target": 50})
    distances, ids = index.search(load("model.bh").encode(np.load("target.npy"), "target"), 3)
    found = json.loads(run(SEARCH + " -k 3 --hamming --json").out)
    assert [record["ids"] for record in found] == ids.tolist()
    assert (
        run(SEARCH + " -k 3 --hamming").out.splitlines()[1].split()[1]
        == f"{ids[0, 0]}:{distances[0, 0]}"
    )
    for name in ("found.npz", "found.json", "found.parquet"):
        assert run(f"{SEARCH} -k 3 --hamming --out {name}").code == 0
    assert np.load("found.npz")["ids"].tolist() == ids.tolist()
    table = pytest.importorskip("pyarrow.parquet").read_table("found.parquet")
    assert table["id"].to_pylist() == ids.ravel().tolist()
    none = run(f"{SEARCH} -k 3 --in-domain none --out none.npz")
    assert (none.code, np.load("none.npz")["ids"].tolist()[0]) == (0, ["", "", ""])


def test_an_exported_index_is_built_again(run: Run) -> None:
    pytest.importorskip("pyarrow")
    np.save("ids.npy", np.array([f"SKU-{i}" for i in range(60)]))
    assert run(BUILD + " --ids ids.npy --tags labels.npz:source").code == 0
    ended = run("index export new.bhi new.parquet")
    assert ended.code == 0, ended.err
    assert run("index build new.parquet --out copy.bhi").code == 0
    index, copy = HammingIndex.load("new.bhi"), HammingIndex.load("copy.bhi")
    assert (copy.about, copy.n_bits, copy.domains) == (index.about, 12, {"source": 60})
    assert copy.ids.tolist() == index.ids.tolist()
    np.testing.assert_array_equal(copy.get(copy.ids).codes, index.get(index.ids).codes)
    assert copy.get(copy.ids).tags == index.get(index.ids).tags
    assert run(SEARCH + " --json").out == run(SEARCH.replace("new", "copy") + " --json").out
    line = "index build new.parquet --domain photo --tags labels.npz:source --out named.bhi"
    assert run(line).code == 0
    assert HammingIndex.load("named.bhi").domains == {"photo": 60}
    np.save("gone.npy", np.array(["SKU-3", "SKU-4"]))
    assert run("index remove copy.bhi --ids gone.npy").code == 0
    assert run("index upsert copy.bhi new.parquet").code == 0
    copy = HammingIndex.load("copy.bhi")
    np.testing.assert_array_equal(copy.get(copy.ids).codes, index.get(index.ids).codes)
    assert run("index add copy.bhi new.parquet").code == 2


def test_what_does_not_fit_is_refused(built: Run, refused: Refused) -> None:
    np.save("codes.npy", np.zeros((3, 4), np.uint8))
    other = "fit source.npy target.npy --out other.bh --bits 12 --preset unsupervised"
    assert built(other).code == 0
    for line, reason in [
        ("search new.bhi target.npy --model other.bh --domain target", "another model"),
        ("index add new.bhi target.npy --model model.bh --domain photo", "has no domain 'photo'"),
        ("index add new.bhi source.npy --model other.bh --domain source", "another model"),
        ("search new.bhi target.npy --model model.bh", "--domain source or"),
        ("search new.bhi target.npy --domain target", "--domain: needs --model"),
        ("search new.bhi codes.npy", "12 bits"),
        ("search new.bhi codes.npy --candidates 5", "--candidates: needs --model"),
        (SEARCH + " --hamming --candidates 5", "--candidates: does not work with --hamming"),
        (SEARCH + " --candidates 0", "0 is not at least 1"),
        ("search new.bhi codes.npy --search exact", "--search: needs --engine"),
        ("search new.bhi codes.npy --search nowhere", "--search"),
        ("search model.bh target.npy --model model.bh --domain target", "index"),
        ("search lost.bhi target.npy --model model.bh --domain target", "lost.bhi"),
        ("index info labels.npz", "labels.npz: "),
        ("index build source.npy --model model.bh --domain source --out x.npy", "must end in .bhi"),
        (
            "index upsert new.bhi source.npy --model model.bh --domain source",
            "--ids: is needed",
        ),
        ("index add new.bhi codes.npy --replace", "No such option"),
        (BUILD, "new.bhi: exists already; use --replace"),
        (
            BUILD.replace("new", "other") + " --search approximate",
            "--search: approximate needs --engine",
        ),
        ("index remove new.bhi --ids labels.npz:source", "ids of this index are whole numbers"),
        (
            "index add new.bhi source.npy --model model.bh --domain source --ids labels.npz:source",
            "ids",
        ),
        ("search new.bhi codes.npy --match both", "--match"),
        ("index export new.bhi codes.npy", "must end in .parquet"),
        ("index export lost.bhi codes.parquet", "lost.bhi"),
        (BUILD + " --bits 16 --replace", "makes codes of 12 bits, not 16"),
    ]:
        assert reason in refused(line)
