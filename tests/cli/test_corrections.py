"""Corrections on the command line: where they are stored, read back, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import load, save
from bridgehash.index import HammingIndex

Run = Callable[..., Any]
Refused = Callable[[str], str]
BUILD = "index build source.npy --model itq.bh --out new.bhi"
SEARCH = "search new.bhi source.npy --model itq.bh -k 5 --json"


def corrected() -> Any:
    return load("itq.bh").encode_corrected(np.load("source.npy"))


def assert_holds(path: str, expected: Any) -> None:
    """The codes and corrections of an index are these."""
    index = HammingIndex.load(path)
    np.testing.assert_array_equal(index.get(index.ids).codes, expected.codes)
    np.testing.assert_array_equal(index.corrections, expected.corrections)


def test_models_that_learned_from_no_labels_store_corrections(run: Run) -> None:
    assert "60 of 4 bits, with corrections" in run(BUILD).out
    assert_holds("new.bhi", corrected())
    assert "corrections  yes" in run("index info new.bhi").out
    ended = run(SEARCH)
    model, X = load("itq.bh"), np.load("source.npy")
    scores, ids = HammingIndex.load("new.bhi").search(
        model.encode(X), 5, weights=model.query_weights(X)
    )
    found = json.loads(ended.out)
    assert ended.err == ""
    assert [record["ids"] for record in found] == ids.tolist()
    assert [record["scores"] for record in found] == scores.tolist()


def test_options_override_the_model(run: Run) -> None:
    assert "60 of 4 bits\n" in run(f"{BUILD} --no-corrections").out
    index = HammingIndex.load("new.bhi")
    assert (index.has_corrections, index.corrections) == (False, None)
    np.testing.assert_array_equal(
        index.get(index.ids).codes, load("itq.bh").encode(np.load("source.npy"))
    )
    ended = run(SEARCH)
    assert "note: new.bhi has no corrections; codes are ranked by their agreement" in ended.err
    build = "index build source.npy --model model.bh --domain source --out labels.bhi"
    assert "with corrections" not in run(build).out
    search = "search labels.bhi target.npy --model model.bh --domain target"
    assert run(search + " --json").err == ""
    assert "with corrections" in run(f"{build} --replace --corrections").out


def test_changes_follow_the_index(run: Run) -> None:
    assert run(BUILD).code == 0
    np.save("ids.npy", np.arange(60))
    assert run("index add new.bhi source.npy --model itq.bh").err == ""
    assert not np.isnan(HammingIndex.load("new.bhi").corrections).any()
    run("index upsert new.bhi source.npy --model itq.bh --ids ids.npy --no-corrections")
    assert np.isnan(HammingIndex.load("new.bhi").corrections[:, 0]).sum() == 60
    assert run("index upsert new.bhi source.npy --model itq.bh --ids ids.npy").err == ""
    assert not np.isnan(HammingIndex.load("new.bhi").corrections).any()
    assert run(f"{BUILD} --no-corrections --replace").code == 0
    ended = run("index add new.bhi source.npy --model itq.bh")
    assert "note: new.bhi has no corrections, so none were added" in ended.err
    assert run("encode itq.bh source.npy --out codes.npy --corrections").code == 0
    ended = run("index add new.bhi codes.npy")
    assert "note: new.bhi has no corrections, so none were added" in ended.err
    ended = run("index add new.bhi source.npy --model itq.bh --corrections")
    assert (ended.err, "240 of 4 bits, with corrections" in ended.out) == ("", True)


@pytest.mark.parametrize("name", ["codes.npy", "codes.parquet"])
def test_encoded_corrections_are_read_back(run: Run, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    encode = f"encode itq.bh source.npy --out {name}"
    ended = run(f"{encode} --corrections")
    assert ended.code == 0, ended.err
    assert ("codes.corrections.npy" in ended.out) == name.endswith("npy")
    assert "with corrections" in run(f"index build {name} --out new.bhi").out
    assert_holds("new.bhi", corrected())
    assert HammingIndex.load("new.bhi").about.keys() == {"code_space", "n_bits"}
    run(f"index build {name} --out new.bhi --replace --no-corrections")
    assert not HammingIndex.load("new.bhi").has_corrections
    assert run(encode).code == 0  # the earlier corrections are gone
    assert run(f"index build {name} --out new.bhi --replace").code == 0
    assert not HammingIndex.load("new.bhi").has_corrections
    assert "has no corrections; encode the rows with --corrections" in (
        run(f"index build {name} --out new.bhi --replace --corrections").err
    )


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_folder_of_codes_has_corrections(run: Run, refused: Refused, suffix: str) -> None:
    Path("rows").mkdir()
    rows = np.load("source.npy")
    if suffix == ".npy":
        np.save("rows/a.npy", rows)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        parquet.write_table(pyarrow.table({"x": list(rows)}), "rows/a.parquet")
    encode = "encode itq.bh rows --out codes"
    ended = run(f"{encode} --corrections")
    assert ended.code == 0, ended.err
    assert "0 encoded, 1 already done" in run(f"{encode} --corrections").out
    assert run(f"index build codes/a{suffix} --bits 4 --out new.bhi").code == 0
    assert_holds("new.bhi", corrected())
    assert "holds codes with corrections; use another folder" in refused(encode)
    assert run(f"{encode} --replace").code == 0
    assert "holds codes without corrections" in refused(f"{encode} --corrections")
    assert run(f"index build codes/a{suffix} --bits 4 --out new.bhi --replace").code == 0
    assert not HammingIndex.load("new.bhi").has_corrections
    np.save("rows/a.corrections.npy", rows)
    assert "has the name of a file of corrections" in refused(f"{encode} --corrections")


def test_corrections_that_do_not_fit_are_refused(run: Run, refused: Refused) -> None:
    assert run("encode itq.bh source.npy --out codes.npy --corrections").code == 0
    good = np.load("codes.corrections.npy")
    np.save("codes.corrections.npy", good + np.float16(1))
    error = refused("index build codes.npy --out new.bhi")
    assert "codes.corrections.npy: is not what was written with codes.npy" in error
    Path("codes.npy.origin.json").unlink()
    for wrong, reason in [
        (good[:-1], "float16 of shape (59, 2); two numbers per code, shape (60, 2)"),
        (good * np.float16(np.nan), "NaN"),
        (good.astype(np.float64) * 1e9, "infinite as float16"),
        (-good, "negative slope"),
        (good.astype(int), "int64 of shape"),
        (good[:, 0], "two dimensions of numbers"),
    ]:
        np.save("codes.corrections.npy", wrong)
        error = refused("index build codes.npy --out new.bhi")
        assert "codes.corrections.npy: " in error
        assert reason in error
    np.save("codes.corrections.npy", np.array([None]), allow_pickle=True)
    assert "codes.corrections.npy" in refused("index build codes.npy --out new.bhi")
    assert "also the input" in refused(
        "encode itq.bh codes.corrections.npy --out codes.npy --corrections"
    )
    assert run("index build codes.npy --out new.bhi --no-corrections").code == 0


def test_an_exported_index_keeps_what_it_has(run: Run, refused: Refused) -> None:
    pytest.importorskip("pyarrow")
    assert run(BUILD).code == 0
    assert run("index add new.bhi source.npy --model itq.bh --no-corrections").code == 0
    assert run("index export new.bhi new.parquet").code == 0
    np.save("tags.npy", np.arange(120))
    before = HammingIndex.load("new.bhi").corrections
    for options in ("", " --tags tags.npy"):
        assert run(f"index build new.parquet --out copy.bhi --replace{options}").code == 0
        np.testing.assert_array_equal(HammingIndex.load("copy.bhi").corrections, before)
    assert run("index build new.parquet --out copy.bhi --replace --no-corrections").code == 0
    assert not HammingIndex.load("copy.bhi").has_corrections
    np.save("ids.npy", np.arange(120) + 500)
    add = "index add new.bhi new.parquet --ids ids.npy"
    assert "some of its codes have no corrections" in refused(add)
    assert "240 of 4 bits" in run(f"{add} --no-corrections").out


def test_a_model_of_an_earlier_version_has_no_corrections(run: Run, refused: Refused) -> None:
    model = load("itq.bh")
    del model.encoder_.decoder_
    save(model, "old.bh")
    build = "index build source.npy --model old.bh --out new.bhi"
    assert "old.bh: was fitted by an earlier version" in refused(f"{build} --corrections")
    assert "old.bh: was fitted by an earlier version" in refused(
        "encode old.bh source.npy --out codes.npy --corrections"
    )
    assert "60 of 4 bits\n" in run(build).out
    found = json.loads(run("search new.bhi source.npy --model old.bh -k 5 --json").out)
    index, X = HammingIndex.load("new.bhi"), np.load("source.npy")
    ids = index.search(model.encode(X), 5, weights=model.decision_function(X))[1]
    assert [record["ids"] for record in found] == ids.tolist()


def test_an_older_model_does_not_use_corrections(run: Run, refused: Refused) -> None:
    assert run(BUILD).code == 0
    model = load("itq.bh")
    model.encoder_.decoder_ = None
    save(model, "itq.bh")
    ended = run(SEARCH)
    note = "itq.bh was fitted by an earlier version and cannot use the corrections of new.bhi"
    assert f"note: {note}; codes are ranked by Hamming distance, fit the model again" in ended.err
    _, ids = HammingIndex.load("new.bhi").search(model.encode(np.load("source.npy")), 5)
    assert [record["ids"] for record in json.loads(ended.out)] == ids.tolist()
    assert "scores" not in json.loads(ended.out)[0]
    assert f"--candidates: {note}; fit the model again" in refused(f"{SEARCH} --candidates 9")
    assert run(f"{SEARCH} --hamming").err == ""
