"""How well a fit estimates its own precision: `bridge_report_` against labelled queries.

    python benchmarks/estimate.py collect --record FILE [--data FOLDER] [--splits 100,0,101,1]
        [--jobs 2] [--seconds 0]

`collect` fits methods to tasks of the data pack ($BRIDGEHASH_DATA, or ../shared/data) and appends
one line per fit and set of known labels to FILE: the signals, the precision of the first ten items
of held-out queries, and the time. Finished work is skipped, so it can be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import permutations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per fit: fits run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from recorded import DATA

from bridgehash.bench.runner import few_labels
from bridgehash.datasets.task import TransferTask, parse_task
from bridgehash.metrics import evaluate
from bridgehash.models.bridge_report import Known, sampled_signals
from bridgehash.registry import find_method

PACS, OFFICE = ("photo", "cartoon", "sketch"), ("amazon", "caltech10")
DEEP, OTHERS = "effnet_lite0", ("mobilenet_v1", "gist512")
ONE_SPACE = [
    *(f"pacs/{a}.{f}-{b}.{f}@500" for f in (DEEP, *OTHERS) for a, b in permutations(PACS, 2)),
    *(
        f"office-caltech10/{a}.{f}-{b}.{f}"
        for f in (DEEP, "mobilenet_v1", "surf800")
        for a, b in permutations(OFFICE, 2)
    ),
    "mnist-usps/mnist2000.pixels-usps1800.pixels@500",
    "mnist-usps/usps1800.pixels-mnist2000.pixels@500",
    "wiki/train.sift128-test.sift128@500",
    "wiki/train.lda10-test.lda10@500",
    "mfeat/test.fourier76-train.fourier76",
    "mfeat/test.karhunen64-train.karhunen64",
    "banking77/train.wordllama256-test.wordllama256@700",
    "banking77/train.wink_glove100-test.wink_glove100@700",
]
SMALL = [
    "pacs/photo.effnet_lite0-cartoon.effnet_lite0@100",
    "pacs/cartoon.effnet_lite0-photo.effnet_lite0@100",
    "pacs/photo.mobilenet_v1-sketch.mobilenet_v1@300",
    "office-caltech10/amazon.effnet_lite0-caltech10.effnet_lite0@100",
    "office-caltech10/caltech10.surf800-amazon.surf800@300",
    "mnist-usps/mnist2000.pixels-usps1800.pixels@300",
]
TWO_SPACES = [
    "office-caltech10/caltech10.mobilenet_v1-amazon.effnet_lite0",
    "office-caltech10/amazon.mobilenet_v1-caltech10.effnet_lite0",
    "office-caltech10/amazon.mobilenet_v1-amazon.effnet_lite0",
    "pacs/photo.mobilenet_v1-cartoon.effnet_lite0@500",
    "office-caltech10/amazon.effnet_lite0-caltech10.surf800",
    "pacs/cartoon.effnet_lite0-photo.mobilenet_v1@500",
    "pacs/photo.effnet_lite0-photo.mobilenet_v1@500",
    "pacs/sketch.mobilenet_v1-photo.effnet_lite0@500",
    "office-caltech10/amazon.effnet_lite0-caltech10.effnet_lite2",
    "office-caltech10/caltech10.mobilenet_v1-amazon.googlenet1024",
    "pacs/photo.gist512-cartoon.effnet_lite0@500",
    "pacs/photo.mobilenet_v1-cartoon.effnet_lite0@200",
    "office-caltech10/amazon.mobilenet_v1-amazon.effnet_lite0@150",
    "snare/all.atac19-all.rna10@500",
    "scgem/all.expression34-all.methylation27",
    "mfeat/test.fourier76-train.karhunen64",
    "mfeat/all.profile216-all.zernike47@500",
    "wiki/train.sift128-test.lda10@500",
    "banking77/train.wordllama256-test.wink_glove100@700",
]
PAIRED = [
    *(f"pacs/{a}.mobilenet_v1-{a}.effnet_lite0" for a in PACS),
    "pacs/photo.gist512-photo.effnet_lite0",
    "office-caltech10/caltech10.mobilenet_v1-caltech10.effnet_lite2",
    "office-caltech10/caltech10.surf800-caltech10.effnet_lite0",
    "mfeat/train.fourier76-train.karhunen64",
    "mfeat/all.profile216-all.zernike47",
    "wiki/train.sift128-train.lda10",
    "snare/all.atac19-all.rna10",
    "banking77/train.wordllama256-train.wink_glove100",
]


@dataclass(frozen=True)
class Job:
    """One fit; `labels` are "none", "source", "both", "one", "three" or a number of pairs."""

    task: str
    method: str
    labels: str
    n_bits: int
    seed: int

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def jobs(seed: int) -> Iterator[tuple[int, Job]]:
    """Yield all jobs of a split, each with its order: important ones have small numbers."""
    for task in (*ONE_SPACE, *SMALL):
        for labels, method in (
            ("none", "ath-unsupervised"),
            ("none", "itq"),
            ("source", "ath-propagated"),
            ("source", "ath-semi-supervised"),
            ("both", "ath-supervised"),
            ("both", "ath-kernel"),
            ("three", "ath-propagated"),
            ("three", "ath-supervised"),
        ):
            yield 0, Job(task, method, labels, 64, seed)
            if method != "itq":
                yield 2, Job(task, method, labels, 16, seed)
        yield 3, Job(task, "sdh", "both", 64, seed)
    for task in TWO_SPACES:
        yield 0, Job(task, "ath-structural", "none", 64, seed)
        for labels, method in (
            ("none", "ath-unsupervised"),
            ("both", "ath-supervised"),
            ("both", "ath-kernel"),
            ("three", "ath-propagated"),
            ("one", "ath-propagated"),
            ("three", "ath-supervised"),
        ):
            yield 1, Job(task, method, labels, 64, seed)
            if labels in ("both", "three"):
                yield 2, Job(task, method, labels, 16, seed)
    for task in TWO_SPACES[:8]:
        yield 1, Job(task, "ath-propagated", "source", 64, seed)
    for task in ONE_SPACE[:24:3]:
        yield 1, Job(task, "ath-structural", "none", 64, seed)
    for task in PAIRED:
        for n in ("50", "200", "800"):
            for method in ("ath-paired", "ridge-map"):
                yield 1, Job(task, method, n, 64, seed)
            yield 2, Job(task, "ath-paired", n, 16, seed)


def paired_split(task: str, n: int, seed: int, folder: Path) -> tuple[TransferTask, np.ndarray]:
    """Return views of up to 1,500 rows, with 300 queries, and n pairs."""
    rows = parse_task(task).load_pairs(folder)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows.X_train))[:1800]
    query, train = order[: min(300, len(order) // 4)], order[min(300, len(order) // 4) :]
    split = TransferTask(
        rows.X_train[train], rows.Z_train[train], rows.Z_train[query],
        rows.y_train[train], rows.y_train[train], rows.y_train[query],
    )  # fmt: skip
    chosen = rng.permutation(len(train))[:n]
    return split, np.column_stack([chosen, chosen])


def run(job: Job, folder: Path) -> list[dict[str, Any]]:
    """Fit one job and return its records."""
    given: dict[str, Any] = {}
    if job.labels.isdigit():
        split, given["pairs"] = paired_split(job.task, int(job.labels), job.seed, folder)
    else:
        split = parse_task(job.task).load(job.seed, folder)
        if job.labels != "none":
            given["y_source"] = split.y_source
        if job.labels in ("both", "one", "three"):
            given["y_target"] = split.y_target
        if job.labels in ("one", "three"):
            rng = np.random.default_rng(job.seed)
            n = {"one": 1, "three": 3}[job.labels]
            given = {name: few_labels(y, n, rng) for name, y in given.items()}
    hasher = find_method(job.method).prepared(job.n_bits, job.seed)
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hasher.fit(split.X_source, split.X_target, **given)
    seconds = time.process_time() - started
    scores = evaluate(hasher, split).cross
    labels_q, counts = np.unique(split.y_query, return_counts=True)
    shares = np.array([(split.y_source == c).mean() for c in labels_q])
    about = asdict(job) | {
        "truth": scores.precision_at_10,
        "area": scores.radius_pr_area,
        "chance": float(shares @ counts / counts.sum()),
        "rows": [len(split.X_source), len(split.X_target)],
        "widths": [split.X_source.shape[1], split.X_target.shape[1]],
        "agreement": getattr(hasher, "agreement_", None),
        "warnings": sorted({type(each.message).__name__ for each in caught}),
        "seconds": seconds,
    }
    known = [("as given", given)]
    if not given:
        known.append(("source", {"y_source": split.y_source}))
    records = []
    for name, labels in known:
        started = time.process_time()
        signals = signals_of(hasher, split, labels)
        took = time.process_time() - started
        records.append(about | {"known": name, "signals": signals, "report_seconds": took})
    return records


def signals_of(hasher: Any, split: TransferTask, given: dict[str, Any]) -> dict[str, float]:
    completed = getattr(hasher, "_completed_labels", None) or (None, None)
    known = []
    for name, estimated in zip(("y_source", "y_target"), completed, strict=True):
        y = given.get(name)
        known.append(Known(y if estimated is None else estimated, y))
    return sampled_signals(
        (hasher.source_encoder_, hasher.target_encoder_),
        (split.X_source, split.X_target),
        (known[0], known[1]),
        given.get("pairs"),
    )


def collect(options: argparse.Namespace) -> None:
    seeds = [int(seed) for seed in options.splits.split(",")]
    wanted = sorted(
        ((order, i, job) for i, seed in enumerate(seeds) for order, job in jobs(seed)),
        key=lambda item: item[:2],
    )
    done = set()
    if options.record.exists():
        for line in options.record.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            done.add(Job(*(record[name] for name in Job.__dataclass_fields__)).key)
    todo = [job for _, _, job in wanted if job.key not in done and options.only in job.key]
    print(f"{len(todo)} of {len(wanted)} jobs to do", flush=True)
    started = time.time()
    with (
        options.record.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
    ):
        futures = {pool.submit(run, job, options.data): job for job in todo}
        for i, future in enumerate(as_completed(futures)):
            try:
                for record in future.result():
                    file.write(json.dumps(record) + "\n")
                file.flush()
            except Exception as error:
                print(f"{futures[future]}: {type(error).__name__}: {error}", flush=True)
            if i % 50 == 0:
                print(f"{i + 1} done, {time.time() - started:.0f} s", flush=True)
            if options.seconds and time.time() - started > options.seconds:
                print("time is up", flush=True)
                for process in list(pool._processes.values()):
                    process.terminate()
                os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("--record", type=Path, required=True)
    collecting.add_argument("--data", type=Path, default=DATA)
    collecting.add_argument("--splits", default="100,0,101,1")
    collecting.add_argument("--jobs", type=int, default=2)
    collecting.add_argument("--seconds", type=float, default=0.0, help="stop after this time")
    collecting.add_argument("--only", default="", help="jobs whose description has this text")
    collecting.set_defaults(run=collect)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
