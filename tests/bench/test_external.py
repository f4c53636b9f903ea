"""Protocols on public data: on small data with known outcome, and next to published figures."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import SuiteError
from bridgehash.bench.spec import parse_suite
from bridgehash.datasets import DATASETS, PairedTask, parse_task

from .conftest import TEXT

ROOT = Path(__file__).resolve().parents[2]
ORIGINS = {"author's code run here", "computed here", "run here; code not stated", "paper"}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of benchmarks/external.py, which is no part of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return runpy.run_path(str(ROOT / "benchmarks" / "external.py"), run_name="script")


@pytest.fixture(scope="module")
def task() -> PairedTask:
    """Three separate classes; the second view is a rotation of the first."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = 6 * np.eye(3, 6)[y] + rng.normal(size=(150, 6))
    Z = X @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    return PairedTask(X[:120], Z[:120], y[:120], X[120:], Z[120:], y[120:])


@pytest.mark.parametrize(
    ("protocol", "method", "text", "least"),
    [
        ("by_labels", "ATH_S", "wiki/train.sift128-train.lda10", 0.95),
        ("by_learned_codes", "ATH_S", "wiki/train.sift128-train.lda10", 0.95),
        ("by_half", "ATH_S", "wiki/train.sift128-train.lda10", 0.95),
        ("by_pairs", "ATH paired", "mfeat/train.fourier76-train.karhunen64", 0.8),
    ],
)
def test_rows_of_one_class_find_each_other_in_both_directions(
    script: dict[str, Any], task: PairedTask, protocol: str, method: str, text: str, least: float
) -> None:
    spec, ath = parse_task(text), script["METHODS"][method](16, random_state=0)
    scores = script[protocol](spec, task, ath, 0)
    features = spec.source.feature, spec.target.feature
    metric = "map@100" if protocol == "by_pairs" else "map"
    assert set(scores) == {f"{metric}, {a} -> {b}" for a, b in (features, features[::-1])}
    assert min(scores.values()) > least


def test_items_known_in_both_views_are_found_from_either(
    script: dict[str, Any], task: PairedTask
) -> None:
    ath = script["METHODS"]["ATH paired"](16, random_state=0)
    scores = script["by_both_views"](parse_task(script["TOPICS"]), task, ath, 0)
    assert set(scores) == {"map, lda10 -> both", "map, sift128 -> both"}
    assert min(scores.values()) > 0.8


def test_a_random_half_hides_the_rows_of_the_database(
    script: dict[str, Any], task: PairedTask
) -> None:
    class Watched:
        n_bits = 8

        def fit(self, X: Any, Z: Any, y_source: Any, y_target: Any) -> None:
            self.seen, self.y, self.encoded = X, y_source, []
            assert len(X) == len(Z) == len(y_source) == len(y_target) == 60

        def encode(self, X: Any, domain: str) -> Any:
            self.encoded.append(X)
            return np.zeros((len(X), 1), dtype=np.uint8)

    hasher = Watched()
    scores = script["by_half"](parse_task("banking77/train.use512"), task, hasher, 3)
    held = np.concatenate([hasher.seen, hasher.encoded[1]])  # queries first, then the database
    np.testing.assert_array_equal(np.sort(held, axis=0), np.sort(task.X_train, axis=0))
    classes = np.bincount(task.y_train) - np.bincount(hasher.y)  # of the database
    (score,) = scores.values()
    assert score == pytest.approx(np.mean(classes[task.y_query] / 60), abs=0.05)  # equal codes


def test_partners_are_scored_in_their_own_order(script: dict[str, Any], task: PairedTask) -> None:
    class Mean:
        """Not fitted to pairs: both views have one space, and codes that are all different."""

        def fit(self, X: Any, Z: Any) -> None:
            assert not np.array_equal(Z, task.X_train)
            assert np.array_equal(np.sort(Z, axis=0), np.sort(task.X_train, axis=0))

        def decision_function(self, X: Any, domain: str) -> Any:
            return X

        def encode(self, X: Any, domain: str) -> Any:
            return np.packbits(X[:, :, None] > np.linspace(-3, 9, 32), axis=2).reshape(len(X), -1)

    same = PairedTask(task.X_train, task.X_train, *[task.y_train] * 4)  # type: ignore[arg-type]
    scores = script["unpaired"](parse_task("snare/all.atac19-all.rna10"), same, Mean(), 0)
    assert scores["foscttm, projections"] == 0.0
    assert scores["foscttm, codes"] < 0.01
    assert min(scores["5-NN transfer, codes"], scores["5-NN transfer, projections"]) > 0.95


def test_pairs_connect_a_new_model_with_the_old_one(
    script: dict[str, Any], task: PairedTask
) -> None:
    spec = parse_task("banking77/train.wordllama256-train.use512")
    recalls = []
    for turned in (task, PairedTask(**(vars(task) | {"Z_query": task.Z_query[::-1]}))):
        ath = script["METHODS"]["ATH paired"](64, random_state=0)
        recalls.append(script["migration"](60)(spec, turned, ath, 0)["recall@10"])
    assert recalls[0] > recalls[1] + 0.2  # the queries of other items find other neighbours


def test_published_figures_belong_to_a_protocol(script: dict[str, Any]) -> None:
    lines = list(csv.DictReader(script["PUBLISHED"].read_text(encoding="utf-8").splitlines()))
    known = {(protocol.data, protocol.name) for protocol in script["PROTOCOLS"]}
    for line in lines:
        assert (line["data"], line["protocol"]) in known
        assert line["data"] in DATASETS
        assert line["origin"] in ORIGINS
        assert 0 < float(line["value"]) < 1
    shown = {
        (protocol.data, method): row
        for protocol in script["PROTOCOLS"]
        for bits in protocol.bits
        for (method, _), row in protocol.published(bits).items()
    }
    assert shown["mfeat", "FSH"]["map@100, karhunen64 -> fourier76"] == 0.803
    assert {method for _, method in shown} == {line["method"] for line in lines}


def test_figures_of_other_papers_are_no_table_of_a_suite() -> None:
    with pytest.raises(SuiteError, match=r"unknown published table 'external\.csv'"):
        parse_suite("toy", TEXT.format(more='paper = "external.csv"'))
