"""Labels that a method is not granted change nothing: not one bit of a code."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from bridgehash import ATH, StructuralStart
from bridgehash.ath import propagation as memberships
from bridgehash.ath.presets import STARTS
from bridgehash.bench import runner
from bridgehash.bench.runner import Job, run_job
from bridgehash.bench.spec import MethodSpec
from bridgehash.datasets import TaskSpec, TransferTask, parse_task
from bridgehash.models.base import BaseTransferHasher, BaseTwoDomainHasher

QUICK = StructuralStart(n_starts=4, max_rows=60)
N = 60
NAME = "office-caltech10/caltech10.surf800-amazon.effnet_lite0"  # only its name is used


@pytest.fixture
def task() -> TransferTask:
    """Three classes of unlike sizes, seen by two models."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [N // 2, N // 3, N // 6])
    corners = np.array([[9.0, 0.0, 0.0], [6.0, 5.0, 0.0], [-4.0, 0.0, 8.0]])
    views = [
        (corners[y] + 0.4 * rng.normal(size=(N, 3))) @ np.linalg.qr(rng.normal(size=(d, 3)))[0].T
        for d in (8, 6, 6)
    ]
    return TransferTask(views[0], views[1], views[1] + 0.1 * rng.normal(size=(N, 6)), y, y, y)


def random_labels(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 3, N)


def codes(hasher: BaseTransferHasher, task: TransferTask) -> bytes:
    parts = (hasher.encode(task.X_source, "source"), hasher.encode(task.X_query, "target"))
    return b"".join(part.tobytes() for part in parts)


@pytest.mark.parametrize("preset", ["structural", "paired", "unsupervised"])
def test_labels_without_a_use_are_not_looked_at(task: TransferTask, preset: str) -> None:
    settings = {"start": QUICK} if preset == "structural" else {}
    more = {"pairs": np.column_stack([np.arange(0, N, 4)] * 2)} if preset == "paired" else {}

    def fitted(**labels: Any) -> bytes:
        ath = getattr(ATH, preset)(12, random_state=0, max_iter=3, tol=0.0, **settings)
        return codes(ath.fit(task.X_source, task.X_target, **more, **labels), task)

    without = fitted()
    assert fitted() == without
    for given in ("y_source", "y_target"):
        assert fitted(**{given: random_labels(1)}) == without, given
        assert fitted(**{given: task.y_target}) == without, given


@pytest.mark.parametrize(
    ("use", "labels", "granted"),
    [
        ("ath-propagated", "source", {"y_source"}),
        ("ath-semi-supervised", "source", {"y_source"}),
        ("psca", "source", {"y_source"}),
        ("ath-unsupervised", "none", set()),
        ("ath-structural", "none", set()),
    ],
)
def test_a_run_of_a_suite_hands_over_what_is_granted(
    monkeypatch: pytest.MonkeyPatch, task: TransferTask, use: str, labels: Any, granted: set[str]
) -> None:
    """The labels of the target are made random; codes and what `fit` is given stay the same."""
    monkeypatch.setitem(STARTS, "structural", QUICK)
    quick_match = partial(memberships.match, **QUICK.get_params())
    monkeypatch.setattr(memberships, "match", quick_match)
    job = Job(parse_task(NAME), MethodSpec("any", use, labels), 12, 0)
    made: list[bytes] = []
    given: list[set[str]] = []
    evaluate = runner.evaluate

    def kept(hasher: BaseTransferHasher, seen: TransferTask) -> Any:
        made.append(codes(hasher, seen))
        return evaluate(hasher, seen)

    fits = {cls: cls.fit for cls in (BaseTwoDomainHasher, ATH)}

    def noted(self: BaseTransferHasher, *rows: Any, **arguments: Any) -> Any:
        given.append({name for name, value in arguments.items() if value is not None})
        return fits[ATH if isinstance(self, ATH) else BaseTwoDomainHasher](self, *rows, **arguments)

    monkeypatch.setattr(runner, "evaluate", kept)
    for cls in fits:
        monkeypatch.setattr(cls, "fit", noted)
    monkeypatch.setattr(TaskSpec, "checksums", lambda *_: {})
    tasks = [task, *(replace(task, y_target=random_labels(seed)) for seed in (1, 2))]
    for one in tasks:
        monkeypatch.setattr(TaskSpec, "load", lambda *_, one=one, **__: one)
        record = run_job(job)
        assert "error" not in record, record["traceback"]
    assert made == made[:1] * 3
    assert given == [granted] * 3


def test_labels_of_the_target_do_matter_where_they_are_granted(task: TransferTask) -> None:
    """The comparison above would notice: with labels of both, random ones change the codes."""
    ath = ATH.propagated(12, random_state=0)
    labels = {"y_source": task.y_source}
    right = codes(ath.fit(task.X_source, task.X_target, **labels, y_target=task.y_target), task)
    wrong = codes(ath.fit(task.X_source, task.X_target, **labels, y_target=random_labels(1)), task)
    assert right != wrong
