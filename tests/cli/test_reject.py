"""Queries without a counterpart: what `fit` prints about them, and `search --reject`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridgehash import ATH, load, save
from bridgehash.cli.fit import _counterparts
from bridgehash.models.rejector import Rejector

Run = Callable[..., Any]
Refused = Callable[[str], str]
BUILD = "index build source.npy --model model.bh --domain source --out new.bhi"
SEARCH = "search new.bhi target.npy --model rejecting.bh --domain target -k 3"
NOTHING = "nothing like this in the source"


@pytest.fixture
def rejected(run: Run) -> np.ndarray:
    """Which rows of the target a model rejects: those with a large first feature."""
    model, X = load("model.bh"), np.load("target.npy")
    first = X[:, 0] / np.linalg.norm(X, axis=1)
    model.rejectors_ = {"target": Rejector(np.eye(5)[0], 0.25, 0.25 + float(np.median(first)))}
    save(model, "rejecting.bh")
    assert run(BUILD).code == 0
    marked = load("rejecting.bh").rejects(X, "target")
    assert marked.tolist() == (first > np.median(first)).tolist()
    return marked


def test_rejected_queries_get_no_hits_but_a_line(run: Run, rejected: np.ndarray) -> None:
    every, some = run(SEARCH).out.splitlines()[1:], run(SEARCH + " --reject").out.splitlines()[1:]
    assert len(every) == len(some) == 20
    for i, (full, line) in enumerate(zip(every, some, strict=True)):
        assert line.split(maxsplit=1)[1] == (NOTHING if rejected[i] else full.split(maxsplit=1)[1])


@pytest.mark.parametrize("rank", ["", " --hamming"])
def test_records_say_which_queries_are_rejected(run: Run, rejected: np.ndarray, rank: str) -> None:
    every = json.loads(run(f"{SEARCH}{rank} --json").out)
    some = json.loads(run(f"{SEARCH}{rank} --json --reject").out)
    assert [record["rejected"] for record in every] == rejected.tolist()
    for full, record in zip(every, some, strict=True):
        none = {key: [] for key in full.keys() - {"rejected"}}
        assert record == ({**none, "rejected": True} if full["rejected"] else full)
        assert len(full["ids"]) == 3


def test_files_say_which_queries_are_rejected(run: Run, rejected: np.ndarray) -> None:
    ended = run(SEARCH + " --reject --out found.npz")
    assert ended.code == 0
    assert f"rejected  {rejected.sum()}" in ended.out
    found = np.load("found.npz")
    np.testing.assert_array_equal(found["rejected"], rejected)
    np.testing.assert_array_equal((found["ids"] < 0).all(axis=1), rejected)
    assert (found["distances"][rejected] == 13).all()
    assert np.isinf(found["scores"][rejected]).all()
    assert np.isfinite(found["scores"][~rejected]).all()
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run(SEARCH + " --out found.parquet").code == 0
    table = parquet.read_table("found.parquet")
    assert table["rejected"].to_pylist() == np.repeat(rejected, 3).tolist()
    assert run(SEARCH + " --reject --out found.parquet").code == 0
    table = parquet.read_table("found.parquet")
    assert set(table["query"].to_pylist()) == set(np.flatnonzero(~rejected).tolist())


def test_a_note_says_if_many_queries_would_be_rejected(run: Run, rejected: np.ndarray) -> None:
    ended = run(SEARCH + " --json")
    start = f"note: {rejected.sum()} of 50 queries seem to have no counterpart in the source; "
    assert ended.err == f"{start}--reject returns nothing for them\n"
    assert run(SEARCH + " --json --reject").err == ""
    model = load("rejecting.bh")
    model.rejectors_["target"].limit = 2.0
    save(model, "rejecting.bh")
    assert run(SEARCH + " --json").err == ""


def test_all_queries_may_be_rejected(run: Run, rejected: np.ndarray) -> None:
    model = load("rejecting.bh")
    model.rejectors_["target"].limit = -2.0
    save(model, "rejecting.bh")
    ended = run(SEARCH + " --reject")
    assert (ended.code, ended.err.count("\n")) == (0, 1)  # 20 of 50 queries are shown
    assert ended.out.count(NOTHING) == 20


def test_what_cannot_be_told_is_refused(refused: Refused, rejected: np.ndarray) -> None:
    problem = refused(SEARCH.replace("rejecting", "model") + " --reject")
    assert problem.startswith("--reject: model.bh cannot tell which queries have no counterpart")
    assert "--preset propagated" in problem
    assert "needs --model" in refused("search new.bhi codes.npy --reject")
    inside = refused(SEARCH + " --in-domain target --reject")
    assert "search codes of another domain" in inside


@pytest.fixture
def rejected_codes(run: Run, rejected: np.ndarray) -> np.ndarray:
    """Which codes of the target the model rejects: those whose last bit is one."""
    model = load("rejecting.bh")
    model.code_rejectors_ = {"target": Rejector(np.eye(12)[-1], 0.0, 0.0)}
    save(model, "rejecting.bh")
    marked: np.ndarray = model.transform(np.load("target.npy"), "target")[:, -1] > 0
    assert 0 < marked.sum() < 50
    return marked


@pytest.mark.parametrize("name", ["queries.npy", "queries.parquet"])
@pytest.mark.parametrize("domain", ["", " --domain target"])
def test_codes_are_rejected_by_their_codes(
    run: Run, rejected_codes: np.ndarray, name: str, domain: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    assert run(f"encode rejecting.bh target.npy --domain target --out {name}").code == 0
    line = f"search new.bhi {name} -k 3 --json"
    plain = json.loads(run(line).out)
    every = json.loads(run(f"{line} --model rejecting.bh{domain}").out)
    some = json.loads(run(f"{line} --model rejecting.bh{domain} --reject").out)
    assert [record.pop("rejected") for record in every] == rejected_codes.tolist()
    assert every == plain  # by Hamming distance, as without a model
    assert [not record["ids"] for record in some] == rejected_codes.tolist()


def test_an_exported_index_can_be_searched_with(run: Run, rejected_codes: np.ndarray) -> None:
    pytest.importorskip("pyarrow")
    build = "index build target.npy --model rejecting.bh --domain target --out own.bhi"
    assert run(build).code == 0
    assert run("index export own.bhi own.parquet").code == 0
    found = json.loads(run("search new.bhi own.parquet --model rejecting.bh --json").out)
    assert [record["rejected"] for record in found] == rejected_codes.tolist()


def test_codes_that_do_not_suit_the_model_are_refused(
    run: Run, refused: Refused, rejected_codes: np.ndarray
) -> None:
    assert run("encode rejecting.bh target.npy --domain target --out queries.npy").code == 0
    line = "search new.bhi queries.npy --model rejecting.bh"
    assert "--domain: queries.npy holds codes of 'target'" in refused(f"{line} --domain source")
    assert "needs --model and features" in refused(f"{line} --candidates 5")
    assert "search codes of another domain" in refused(f"{line} --in-domain target --reject")
    model = load("rejecting.bh")
    model.code_rejectors_ = None
    save(model, "rejecting.bh")
    assert "rejecting.bh cannot tell which queries" in refused(f"{line} --reject")
    X = np.load("target.npy")
    ATH.unsupervised(12, random_state=1).fit(X, X + 1).save("other.bh")
    assert "queries.npy: holds codes of another model" in refused(
        "search new.bhi queries.npy --model other.bh"
    )


def test_searches_inside_a_domain_reject_nothing(run: Run, rejected: np.ndarray) -> None:
    assert run("index build target.npy --model model.bh --domain target --out own.bhi").code == 0
    ended = run(SEARCH.replace("new.bhi", "own.bhi") + " --json")
    assert ended.err == ""
    assert "rejected" not in json.loads(ended.out)[0]


class Fitted:
    """What a fit found."""

    def __init__(
        self, shared: Any, private: Any, new: Any, tested: Any = None, doubtful: Any = ()
    ) -> None:
        self.shared_classes_, self.private_classes_ = shared, private
        self.new_share_, self.rejectors_, self.doubtful_domains_ = new, tested, doubtful


@pytest.mark.parametrize(
    ("fitted", "labelled", "text"),
    [
        (
            Fitted([0, 1, 2, 3, 4], {"s": [5, 6], "t": []}, {"s": 0.0, "t": 0.224}, {"t": None}),
            ["s"],
            "5 of 7 classes of s found in t; 22 % of t look new",
        ),
        (
            Fitted([0, 1], {"s": [], "t": []}, {"s": 0.0, "t": 0.0}, {"t": None}),
            ["s"],
            "all 2 classes of s found in t",
        ),
        (
            Fitted([0, 1], {"s": [], "t": []}, {"s": 0.0, "t": 0.0}, {"t": None}, ["t"]),
            ["s"],
            "the classes of t may be others",
        ),
        (
            Fitted([0, 1], {"s": [2], "t": []}, {"s": 0.0, "t": 0.1}, {"t": None}, ["t"]),
            ["s"],
            "2 of 3 classes of s found in t; 10 % of t look new; the classes of t may be others",
        ),
        (
            Fitted([0, 1], {"s": [], "t": [2]}, {"s": 0.0, "t": 0.0}, {"s": None}),
            ["t"],
            "2 of 3 classes of t found in s",
        ),
        (
            Fitted([0, 1], {"s": [2], "t": [3, 4]}, {"s": 0.0, "t": 0.0}),
            ["s", "t"],
            "2 of 3 classes of s found in t; 2 of 4 classes of t found in s",
        ),
        (Fitted([0, 1], {"s": [], "t": []}, {"s": 0.0, "t": 0.0}), ["s", "t"], None),
        (Fitted([0, 1], {"s": [2], "t": []}, {"s": 0.0, "t": 0.0}), ["s"], None),
        (Fitted(None, {}, {}), ["s"], None),
        (Fitted(None, {}, {"s": 0.502, "t": 0.0}), [], "50 % of s have none"),
        (Fitted(None, {}, {"s": 0.0, "t": 0.0}), [], None),
    ],
)
def test_the_summary_names_classes_without_a_counterpart(
    fitted: Any, labelled: list[str], text: str | None
) -> None:
    expected = [] if text is None else [("counterparts", text)]
    assert _counterparts(fitted, labelled, ["s", "t"]) == expected


def test_three_domains_are_counted_together() -> None:
    fitted: Any = Fitted([0, 1], {"a": [2], "b": [], "c": []}, {"a": 0.0, "b": 0.0, "c": 0.0})
    text = "2 of 3 classes found in two or more domains"
    assert _counterparts(fitted, ["a", "b", "c"], ["a", "b", "c"]) == [("counterparts", text)]


def test_fit_prints_what_is_new(run: Run) -> None:
    rng = np.random.default_rng(0)
    centres = 3 * np.linalg.qr(rng.normal(size=(20, 6)))[0].T
    y, z = np.repeat(np.arange(4), 40), np.repeat(np.arange(6), 40)
    np.save("a.npy", centres[y] + 0.5 * rng.normal(size=(160, 20)))
    np.save("b.npy", centres[z] + 0.3 + 0.5 * rng.normal(size=(240, 20)))
    np.save("y.npy", y)
    line = "fit a.npy b.npy --labels-source y.npy --out open.bh --bits 8"
    ended = run(line)
    assert ended.code == 0
    lines = [" ".join(each.split()) for each in ended.out.splitlines()]
    found = "all 4 classes of source found in target; 33 % of target look new"
    assert f"counterparts {found}" in lines
    assert ended.err.startswith("note: 33% of the rows of target resemble no class.")
    assert ended.err.count("\n") == 1
    assert load("open.bh").rejects(np.load("b.npy"), "target")[z >= 4].mean() > 0.9
    assert load("open.bh").rejects(np.load("b.npy"), "target")[z < 4].mean() < 0.1
