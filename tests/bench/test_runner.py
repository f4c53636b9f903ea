"""Every job is run once, its record is complete, and a failure does not stop the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bridgehash import ITQ, MissingDataError, Shared
from bridgehash._core.linalg import pca
from bridgehash.bench import runner
from bridgehash.bench.extras import EXTRAS
from bridgehash.bench.runner import Job, jobs_of, pending, run_job, run_suite
from bridgehash.bench.spec import FEW, SEEN, Suite, parse_suite
from bridgehash.bench.store import ResultStore
from bridgehash.bench.tables import runs_of
from bridgehash.datasets import parse_task
from bridgehash.datasets.dataset import MEMORY
from bridgehash.models.base import BaseTransferHasher, BaseTwoDomainHasher

TINY = """
title = "Tiny"
tasks = ["own/a.f-b.g", "own/b.g"]
n_bits = [4, 8]
seeds = 2
extras = ["agreement", "objective", "transfer"]

[[method]]
label = "ITQ"
use = "itq"

[[method]]
label = "ATH"
use = "ath-supervised"
labels = "both"
params = { max_iter = 2 }
"""


@pytest.fixture
def tiny() -> Suite:
    return parse_suite("tiny", TINY)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two small views."""
    monkeypatch.delenv("BRIDGEHASH_DATA", raising=False)
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    (folder / "own").mkdir(parents=True)
    for name, n, d in (("a.f", 40, 9), ("b.g", 50, 7)):
        y = np.arange(n) % 3
        x = rng.normal(size=(3, d))[y] * 3 + rng.normal(size=(n, d))
        np.savez(folder / "own" / f"{name}.npz", x=x, y=y)
    MEMORY.clear()
    yield folder
    MEMORY.clear()


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "records.jsonl")


def run(suite: Suite, store: ResultStore, data: Path, **options: Any) -> list[runner.SuiteProgress]:
    return list(run_suite(suite, store, folder=data, **options))


def test_jobs_are_all_combinations(tiny: Suite) -> None:
    jobs = jobs_of(tiny)
    assert len(jobs) == len(set(map(str, jobs))) == 2 * 2 * 2 * 2
    assert [job.method.label for job in jobs[:2]] == ["ITQ", "ATH"]
    assert [job.seed for job in jobs] == [0] * 8 + [1] * 8
    quick = jobs_of(tiny, quick=True)
    assert {(job.n_bits, job.seed) for job in quick} == {(16, 0)}
    assert len(quick) == 2 * 2


def test_a_record_holds_what_tables_and_figures_need(tiny: Suite, data: Path) -> None:
    record = run_job(jobs_of(tiny)[1], data)
    assert record["use"] == "ath-supervised"
    assert record["task"] == "own/a.f-b.g"
    assert record["rows"] == {"source": 40, "target": 45}
    assert set(record["data"]) == {"own/a.f.npz", "own/b.g.npz"}
    assert set(record["versions"]) >= {"bridgehash", "numpy"}
    assert record["seconds"]["fit"] > 0
    assert len(record["objective"]) == 2
    assert 0 <= record["transfer"] <= 1
    assert record["agreement"] is None  # nothing was searched for
    for side, n_database in (("cross", 40), ("single", 45)):
        scores = record["scores"][side]
        assert sum(scores["pairs"]) == 5 * n_database  # a tenth of the target asks
        assert len(scores["pairs"]) == len(scores["relevant"]) == record["n_bits"] + 1
        assert 0 < scores["radius_pr_area"] <= 1
    json.dumps(record, allow_nan=False)


def test_a_record_has_rejection_if_the_source_lacks_a_class(tiny: Suite, data: Path) -> None:
    for classes, has_unknown in (("0+1+2/1+2", False), ("1+2/0+1+2", True), ("open", True)):
        task = parse_task(f"own/a.f-b.g@classes={classes}")
        record = run_job(replace(jobs_of(tiny)[0], task=task), data)
        assert record["task"] == str(task)
        cross, single = (record["scores"][side] for side in ("cross", "single"))
        assert ("rejection_auroc" in cross) == has_unknown
        assert "rejection_auroc" not in single
        assert record["rows"]["source"] < 40 if has_unknown else record["rows"]["source"] == 40
        n_queries = sum(single["pairs"]) // record["rows"]["target"]
        n_known = sum(cross["pairs"]) // record["rows"]["source"]
        assert (n_known < n_queries) == has_unknown


def test_an_embedding_has_a_point_per_row_of_both_domains(tiny: Suite, data: Path) -> None:
    job = replace(jobs_of(tiny)[0], extras=("embedding",))
    embedding = run_job(job, data)["embedding"]
    assert embedding["n_source"] == 40
    assert {len(embedding[key]) for key in ("x", "y", "class")} == {40 + 45}


def test_equal_jobs_give_equal_records(tiny: Suite, data: Path) -> None:
    job = jobs_of(tiny)[0]
    first, second = (run_job(job, data) for _ in range(2))
    assert first["key"] == second["key"]
    assert first["scores"] == second["scores"]
    assert run_job(jobs_of(tiny)[8], data)["scores"] != first["scores"]  # another split


def test_accuracy_before_learning_is_that_of_the_nearest_row(data: Path) -> None:
    """Of the rows themselves with one width, else of as many components as bits per domain."""
    hasher = ITQ(4)
    rng = np.random.default_rng(0)
    task = parse_task("own/a.f-b.g").load(0, data)
    one_width = replace(task, X_source=rng.normal(size=(40, 7)))
    D = cdist(one_width.X_target, one_width.X_source)
    expected = (task.y_source[D.argmin(axis=1)] == task.y_target).mean()
    assert EXTRAS["transfer_before"](Shared(hasher), one_width) == pytest.approx(expected)
    components = [
        X @ pca(X, 4) for X in (X - X.mean(axis=0) for X in (task.X_source, task.X_target))
    ]
    D = cdist(components[1], components[0])
    expected = (task.y_source[D.argmin(axis=1)] == task.y_target).mean()
    assert EXTRAS["transfer_before"](Shared(hasher), task) == pytest.approx(expected)
    assert EXTRAS["transfer_before"](Shared(ITQ(64)), task) >= 0  # more bits than features


def test_a_second_run_has_nothing_to_do(tiny: Suite, data: Path, store: ResultStore) -> None:
    steps = run(tiny, store, data)
    assert [step.n_done for step in steps] == list(range(17))
    assert steps[0].record is None
    assert len(store.records()) == 16
    before = store.path.read_bytes()
    assert run(tiny, store, data) == [runner.SuiteProgress(16, 16)]
    assert store.path.read_bytes() == before
    assert run(tiny, store, data, rerun=True)[-1].n_done == 16
    assert store.path.read_bytes().startswith(before)
    assert len(store.records()) == 16


def test_a_changed_data_file_is_another_job(tiny: Suite, data: Path, store: ResultStore) -> None:
    run(tiny, store, data, quick=True)
    jobs = jobs_of(tiny, quick=True)
    assert pending(jobs, store.records(), data) == []
    np.savez(data / "own" / "a.f.npz", x=np.eye(40), y=np.arange(40) % 3)
    todo = pending(jobs, store.records(), data)
    assert {str(job.task) for job in todo} == {"own/a.f-b.g"}


def broken(*_: Any, **__: Any) -> BaseTransferHasher:
    raise np.linalg.LinAlgError("no way")


def test_a_failure_is_recorded_and_tried_again(
    tiny: Suite, data: Path, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("bridgehash.baselines.itq.ITQ.fit", broken)
        run(tiny, store, data, quick=True)
    failed = [record for record in store.records().values() if "error" in record]
    assert {record["label"] for record in failed} == {"ITQ"}
    assert {record["error"] for record in failed} == {"LinAlgError: no way"}
    assert "broken" in failed[0]["traceback"]
    assert run(tiny, store, data, quick=True)[0] == runner.SuiteProgress(2, 4)
    assert all("scores" in record for record in store.records().values())


def test_a_score_that_is_not_a_number_is_a_failure(
    tiny: Suite, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runner.EXTRAS, "transfer", lambda hasher, task: float("nan"))
    record = run_job(jobs_of(tiny)[0], data)
    assert "scores" not in record
    assert record["error"].startswith("ValueError")


def test_a_method_sees_the_labels_of_the_suite(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    fit = BaseTwoDomainHasher.fit

    def spy(self: Any, X_source: Any, X_target: Any, **given: Any) -> Any:
        seen.update(given)
        return fit(self, X_source, X_target, **given)

    monkeypatch.setattr(BaseTwoDomainHasher, "fit", spy)
    for labels, names in SEEN.items():
        seen.clear()
        text = TINY.replace('label = "ITQ"', f'label = "ITQ"\nlabels = "{labels}"')
        assert "scores" in run_job(jobs_of(parse_suite("tiny", text))[0], data)
        assert set(seen) == set(names)
        for y in seen.values():
            counts = np.unique_counts(y[y >= 0]).counts
            assert (counts == FEW[labels]).all() if labels in FEW else (y >= 0).all()


def test_several_at_a_time_find_the_same(tiny: Suite, data: Path, tmp_path: Path) -> None:
    stores = [ResultStore(tmp_path / name) for name in ("one.jsonl", "two.jsonl")]
    for n_jobs, store in enumerate(stores, 1):
        run(tiny, store, data, quick=True, n_jobs=n_jobs)
    one, two = (store.records() for store in stores)
    assert one.keys() == two.keys()
    for key, record in one.items():
        assert record["scores"] == two[key]["scores"]


def test_the_order_of_parameters_makes_no_other_job(tiny: Suite) -> None:
    job = jobs_of(tiny)[1]
    assert isinstance(job, Job)
    identity = job.identity({})
    assert identity["params"] == {"max_iter": 2}
    assert identity["extras"] == ["agreement", "objective", "transfer"]


def test_another_default_is_another_job(
    tiny: Suite, data: Path, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny, store, data, quick=True)
    init = ITQ.__init__

    def other(self: ITQ, n_bits: int = 64, max_iter: int = 7, random_state: int = 0) -> None:
        init(self, n_bits, max_iter, random_state)

    monkeypatch.setattr(ITQ, "__init__", other)
    again = replace(tiny, methods=tuple(replace(method) for method in tiny.methods))
    todo = pending(jobs_of(again, quick=True), store.records(), data)
    assert {job.method.label for job in todo} == {"ITQ"}
    assert {one.label for one in runs_of(again, store.records().values())} == {"ATH"}


def test_tasks_without_data_are_left_out_unless_none_is_left(
    tiny: Suite, data: Path, store: ResultStore
) -> None:
    lost = parse_task("own/a.f-lost.g")
    some = replace(tiny, tasks=(lost, tiny.tasks[0]))
    first, *_ = run(some, store, data, quick=True)
    assert (first.n_done, first.n_jobs) == (0, 2)
    assert first.missing[0].startswith("own/a.f-lost.g is left out: ")
    with pytest.raises(MissingDataError, match=r"lost\.g"):
        run(replace(tiny, tasks=(lost,)), store, data)
