"""How well a fit estimates its own precision: `bridge_report_` against labelled queries.

    python benchmarks/estimate.py collect --record FILE [--data FOLDER] [--splits 100,0,101,1]
        [--jobs 2] [--seconds 0]
    python benchmarks/estimate.py calibrate FILE [--out bridgehash/models/bridge_calibration.json]
        [--record docs/results/records/estimate.json] [--plot docs/reliability.png]

`collect` fits methods to tasks of the data pack ($BRIDGEHASH_DATA, or ../shared/data) and appends
one line per fit and set of known labels to FILE: the signals, the precision of the first ten items
of held-out queries, and the time. Finished work is skipped, so it can be continued.

`calibrate` learns the expected precision from splits 100 and up, and judges it by splits 0 to 99 if
there are any: each task by models and intervals that were learned from other tasks. It prints the
correlation of estimate and truth, the share of truths inside the interval, how often
`BridgeWarning` is right, and what a choice by the estimate loses against the best method.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per fit: fits run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from estimate_fit import (
    COLUMNS,
    SIGNALS,
    Record,
    at_chance,
    figures,
    fitted,
    load,
    predict,
    regrets,
    with_interval,
)
from estimate_jobs import Job, jobs
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash._core.linalg import unit_rows
from bridgehash.bench.runner import few_labels
from bridgehash.datasets.task import TransferTask, parse_task
from bridgehash.metrics import evaluate
from bridgehash.models.bridge_report import bridge_report, least_precision
from bridgehash.registry import find_method

NAMES = {
    "columns": "common columns",
    "structure": "structure",
    "pairs": "pairs",
    "source": "columns, labels of the source",
    "matched": "structure, labels of the source",
    "few": "a few labels",
    "both": "labels of both",
}
FIRST_FRESH = 100  # splits from here on are learned from, others are judged


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
        "own": own_precision(split),
        "rows": [len(split.X_source), len(split.X_target)],
        "widths": [split.X_source.shape[1], split.X_target.shape[1]],
        "agreement": getattr(hasher, "agreement_", None),
        "warnings": sorted({type(each.message).__name__ for each in caught}),
        "seconds": seconds,
    }
    reports = {"as given": hasher.bridge_report_}
    if not given:  # what labels of the source would tell about the same fit
        more = {"y_source": split.y_source}
        reports["source"] = bridge_report(hasher, split.X_source, split.X_target, **more)
    return [
        about | {"known": name, "link": found.link, "seen": found.labels, "signals": found.signals}
        for name, found in reports.items()
    ]


def own_precision(split: TransferTask) -> float:
    """Return the precision of the ten nearest target rows by cosine: search without a bridge."""
    U, V = (unit_rows(X - split.X_target.mean(axis=0)) for X in (split.X_query, split.X_target))
    near = np.argpartition(-(U @ V.T), 10, axis=1)[:, :10]
    return float((split.y_target[near] == split.y_query[:, None]).mean())


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


def calibrate(options: argparse.Namespace) -> None:
    """Fit the calibration, print how good it is for tasks that it has not seen, and write it."""
    records = load(options.records)
    fresh = [record["seed"] >= FIRST_FRESH for record in records]
    for record, learned in zip(records, fresh, strict=True):
        record["learned"] = learned or not any(fresh)
    models = {}
    for kind, names in SIGNALS.items():
        mine = [record for record in records if record["kind"] == kind]
        if len({record["base"] for record in mine}) < 3:
            print(f"{kind}: too few tasks")
            continue
        predict(mine, names)
        learned = [record for record in mine if record["learned"]]
        models[kind] = with_interval(fitted(learned, names), learned)
    known = [record for record in records if "expected" in record]
    judged = [record for record in known if record["seed"] < FIRST_FRESH] or known
    recorder = Recorder(options.record, sorted({record["seed"] for record in judged}))
    show(judged, recorder)
    recorder.write()
    if options.out:
        text = json.dumps({"version": 1, "models": {k: asdict(m) for k, m in models.items()}})
        options.out.write_text(text.replace('}, "', '},\n"') + "\n", encoding="utf-8")
    if options.plot:
        draw(judged, options.plot)


def show(records: list[Record], recorder: Recorder) -> None:
    """Print how good estimates, intervals, warnings and choices are."""
    console = Console(width=120)
    table = Table("known", *COLUMNS, box=MARKDOWN)
    for kind in (*SIGNALS, "all"):
        mine = [record for record in records if kind in ("all", record["kind"])]
        if len(mine) < 3:
            continue
        values = figures(mine)
        for name, value in zip(COLUMNS, values, strict=True):
            recorder.add([value], kind, name)
        table.add_row(kind, *(f"{value:.3g}" for value in values))
    console.print(table)
    unlabelled = [r for r in records if r["known"] == "as given" and r["labels"] == "none"]
    for name, mine in (
        ("common columns", [r for r in unlabelled if r["link"] == "columns"]),
        ("structure", [r for r in unlabelled if r["link"] == "structure"]),
        ("nothing", [r for r in unlabelled if r["link"] == "none"]),
        ("no labels", unlabelled),
    ):
        if mine:
            right = [warned(record) == at_chance(record) for record in mine]
            failed = sum(map(at_chance, mine))
            recorder.add([100 * float(np.mean(right))], "warning", name, "right")
            recorder.add([float(len(mine))], "warning", name, "fits")
            recorder.add([float(failed)], "warning", name, "chance")
            console.print(
                f"BridgeWarning, {name}: right for {100 * np.mean(right):.1f} % of {len(mine)} "
                f"fits; {failed} have failed"
            )
    table = Table("labels", "choices", "regret, points", box=MARKDOWN)
    lost = regrets(records)
    lost["all"] = [value for values in lost.values() for value in values]
    for name, values in lost.items():
        if values:
            recorder.add([float(np.mean(values))], "regret", name, "points")
            recorder.add([float(len(values))], "regret", name, "choices")
            table.add_row(name, str(len(values)), f"{np.mean(values):.1f}")
    console.print(table)


def warned(record: Record) -> bool:
    """Whether a fit warns with `BridgeWarning`: by its estimate, or as nothing connects domains."""
    least = least_precision(record["link"], record["signals"])
    return bool(record["expected"] < least or record["link"] == "none")


def draw(records: list[Record], path: Path) -> None:
    """Draw the precision of queries over the expected one."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    for kind in SIGNALS:
        mine = [record for record in records if record["kind"] == kind]
        if mine:
            expected = [record["expected"] for record in mine]
            axes.scatter(expected, [r["truth"] for r in mine], s=10, alpha=0.6, label=NAMES[kind])
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    axes.set(
        xlabel="expected precision of the first ten", ylabel="measured", xlim=(0, 1), ylim=(0, 1)
    )
    axes.legend(frameon=False, title="known")
    figure.savefig(path, dpi=110)


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
    calibrating = commands.add_parser("calibrate")
    calibrating.add_argument("records", type=Path)
    calibrating.add_argument("--out", type=Path, help="calibration file to write")
    add_option(calibrating)
    calibrating.add_argument("--plot", type=Path, help="picture to draw")
    calibrating.set_defaults(run=calibrate)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
