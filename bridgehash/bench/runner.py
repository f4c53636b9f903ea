"""Run a suite: each job once, with its record on disk before the next one starts.

A job is a task, a method, a code length and a seed. Finished jobs are skipped. A failed job is
recorded with its error and run again next time; it does not stop the others.
"""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._core.errors import MissingDataError
from .._core.files import StrPath
from .._core.validation import UNKNOWN
from ..datasets import TaskSpec, TransferTask
from ..metrics.evaluate import Scores, evaluate
from .extras import EXTRAS
from .origin import run_origin
from .spec import FEW, QUICK_BITS, QUICK_SEEDS, REJECTION, SEEN, MethodSpec, Suite
from .store import Record, ResultStore, record_key


@dataclass(frozen=True)
class Job:
    """One fit and its scores."""

    task: TaskSpec
    method: MethodSpec
    n_bits: int
    seed: int
    extras: tuple[str, ...] = ()

    def identity(self, checksums: dict[str, str]) -> dict[str, Any]:
        """Return everything that the result depends on, in JSON types."""
        return {
            "task": str(self.task),
            "use": self.method.use,
            "labels": self.method.labels,
            "params": dict(self.method.params),
            "settings": self.method.settings,
            "n_bits": self.n_bits,
            "seed": self.seed,
            "extras": sorted(self.extras),
            "data": checksums,
        }


def jobs_of(suite: Suite, *, quick: bool = False) -> list[Job]:
    """Return all jobs of a suite, ordered by seed, task, code length and method."""
    bits = QUICK_BITS if quick else suite.n_bits
    seeds = QUICK_SEEDS if quick else suite.seeds
    return [
        Job(task, method, n_bits, seed, suite.extras)
        for seed in range(seeds)
        for task in suite.tasks
        for n_bits in bits
        for method in suite.methods
    ]


def run_job(job: Job, folder: StrPath | None = None) -> Record:
    """Fit and score one job and return its record; an error becomes part of the record."""
    checksums = job.task.checksums(folder)
    identity = job.identity(checksums)
    record = {"key": record_key(identity), **identity, "label": job.method.label, **run_origin()}
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = _results(job, folder)
            json.dumps(results, allow_nan=False)  # a score that is not a number is a failure
            return record | results
    except Exception as error:  # a failed method must not stop the suite
        line = f"{type(error).__name__}: {error}"
        return record | {"error": line, "traceback": traceback.format_exc(limit=-3)}


def _results(job: Job, folder: StrPath | None) -> Record:
    task = job.task.load(job.seed, folder, unit_rows=True)
    hasher = job.method.build(job.n_bits, job.seed)
    labels = _seen(task, job.method.labels, job.seed)
    started = time.perf_counter()
    hasher.fit(task.X_source, task.X_target, **labels)
    fitted = time.perf_counter()
    report = evaluate(hasher, task)
    scores = {side: _scores(getattr(report, side)) for side in ("cross", "single")}
    if report.rejection_auroc is not None:
        scores["cross"][REJECTION] = report.rejection_auroc
    return {
        "scores": scores,
        "seconds": {"fit": fitted - started, "score": time.perf_counter() - fitted},
        "rows": {"source": len(task.X_source), "target": len(task.X_target)},
        **{name: EXTRAS[name](hasher, task) for name in job.extras},
    }


def _seen(task: TransferTask, labels: str, seed: int) -> dict[str, NDArray[np.intp]]:
    """Return the labels that a method may see."""
    given = {name: getattr(task, name) for name in SEEN[labels]}
    if labels not in FEW:
        return given
    rng = np.random.default_rng(seed)
    return {name: few_labels(y, FEW[labels], rng) for name, y in given.items()}


def few_labels(y: NDArray[np.intp], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the labels of n random rows per class, and -1 for the other rows.

    >>> few_labels(np.array([0, 0, 1, 1, 1]), 1, np.random.default_rng(0))
    array([-1,  0, -1,  1, -1])
    """
    few = np.full_like(y, UNKNOWN)
    for label in np.unique(y[y != UNKNOWN]):
        rows = np.flatnonzero(y == label)
        few[rng.choice(rows, min(n, len(rows)), replace=False)] = label
    return few


def _scores(scores: Scores) -> dict[str, Any]:
    """Return the scores, and the number of pairs by distance for curves."""
    pairs, relevant = (
        counts.sum(axis=0).tolist()
        for counts in (scores.histogram.total, scores.histogram.relevant)
    )
    values = {name: value for name, value in vars(scores).items() if name != "histogram"}
    return values | {"pairs": pairs, "relevant": relevant}


def pending(jobs: Iterable[Job], done: dict[str, Record], folder: StrPath | None) -> list[Job]:
    """Return the jobs without a finished record; failed ones are run again."""
    return [
        job
        for job in jobs
        if "scores" not in done.get(record_key(job.identity(job.task.checksums(folder))), {})
    ]


class SuiteProgress(NamedTuple):
    """Jobs done so far, and the last record."""

    n_done: int
    n_jobs: int
    record: Record | None = None  # None at the start
    missing: tuple[str, ...] = ()  # at the start: tasks left out because of missing data, and why


def run_suite(
    suite: Suite,
    store: ResultStore,
    *,
    quick: bool = False,
    rerun: bool = False,
    n_jobs: int = 1,
    folder: StrPath | None = None,
) -> Iterator[SuiteProgress]:
    """Run the unfinished jobs of a suite, `n_jobs` at a time; yield after each stored record.

    Tasks without data are left out. If no task has data, `MissingDataError` is raised.
    """
    missing = {}
    for task in suite.tasks:
        try:
            task.checksums(folder)
        except MissingDataError as error:
            missing[task] = error
    jobs = [job for job in jobs_of(suite, quick=quick) if job.task not in missing]
    if not jobs:
        raise next(iter(missing.values()))
    todo = jobs if rerun else pending(jobs, store.records(), folder)
    n_done = len(jobs) - len(todo)
    left_out = tuple(f"{task} is left out: {error}" for task, error in missing.items())
    yield SuiteProgress(n_done, len(jobs), missing=left_out)
    if not todo:
        return
    with store.writer() as append:
        for record in _records(todo, n_jobs, folder):
            append(record)
            n_done += 1
            yield SuiteProgress(n_done, len(jobs), record)


def _records(jobs: list[Job], n_jobs: int, folder: StrPath | None) -> Iterator[Record]:
    if n_jobs == 1:
        yield from (run_job(job, folder) for job in jobs)
        return
    pool = ProcessPoolExecutor(n_jobs, get_context("spawn"), initializer=_end_with_parent)
    try:
        for future in as_completed([pool.submit(run_job, job, folder) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """End a worker when its parent is killed; it would wait for work forever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
