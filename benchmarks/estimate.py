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
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per fit: fits run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from estimate_fit import (
    SIGNALS,
    Record,
    at_chance,
    fitted,
    load,
    predicted,
    rank_correlation,
    regrets,
    with_interval,
)
from estimate_jobs import Job, jobs
from recorded import DATA
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scipy.special import expit, logit

from bridgehash.bench.runner import few_labels
from bridgehash.datasets.task import TransferTask, parse_task
from bridgehash.metrics import evaluate
from bridgehash.models.bridge_calibration import LogisticModel
from bridgehash.models.bridge_report import RED, bridge_report
from bridgehash.registry import find_method

NAMES = {
    "columns": "common columns",
    "structure": "structure",
    "pairs": "pairs",
    "source": "labels of the source",
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
    """Fit the calibration, print how good it is, and write it."""
    records = load(options.records)
    learned = [record for record in records if record["seed"] >= FIRST_FRESH] or records
    console = Console(width=120)
    models: dict[str, LogisticModel] = {}
    for kind, names in SIGNALS.items():
        mine = [record for record in records if record["kind"] == kind]
        if len({record["base"] for record in mine}) < 3:
            continue
        expected = predicted(mine, names, lambda record: record in learned)
        model = fitted([record for record in mine if record in learned], names)
        fresh = np.array([record in learned for record in mine]) & np.isfinite(expected)
        truth = np.array([record["truth"] for record in mine])
        tasks = [record["base"] for record, kept in zip(mine, fresh, strict=True) if kept]
        models[kind] = with_interval(model, expected[fresh], truth[fresh], tasks)
        for record, value in zip(mine, expected, strict=True):
            record["expected"] = value
            ends = expit(logit(value) + np.array([models[kind].below, models[kind].above]))
            record["low"], record["high"] = ends
    judged = [
        r for r in records if r["seed"] < FIRST_FRESH and np.isfinite(r.get("expected", np.nan))
    ]
    judged = judged or [r for r in records if np.isfinite(r.get("expected", np.nan))]
    show(console, judged)
    if options.out:
        text = json.dumps({"version": 1, "models": {k: asdict(m) for k, m in models.items()}})
        options.out.write_text(text.replace('}, "', '},\n"') + "\n", encoding="utf-8")
    if options.plot:
        draw(judged, options.plot)


def show(console: Console, records: list[Record]) -> None:
    """Print the correlation of estimate and truth, and the share of truths inside the interval."""
    table = Table(
        "bridge", "fits", "tasks", "Spearman", "mean error", "inside, %", "width", box=MARKDOWN
    )
    for kind in (*SIGNALS, "all"):
        mine = [record for record in records if kind in ("all", record["kind"])]
        if len(mine) < 3:
            continue
        expected, truth, low, high = (
            np.array([record[name] for record in mine])
            for name in ("expected", "truth", "low", "high")
        )
        inside = (low <= truth) & (truth <= high)
        table.add_row(
            kind,
            str(len(mine)),
            str(len({record["base"] for record in mine})),
            f"{rank_correlation(expected, truth):.2f}",
            f"{np.abs(expected - truth).mean():.3f}",
            f"{100 * inside.mean():.0f}",
            f"{(high - low).mean():.2f}",
        )
    console.print(table)
    unlabelled = [r for r in records if r["known"] == "as given" and r["labels"] == "none"]
    right = [(r["expected"] < RED) == at_chance(r) for r in unlabelled]
    if unlabelled:
        chance = sum(map(at_chance, unlabelled))
        console.print(
            f"BridgeWarning without labels: right for {100 * np.mean(right):.1f} % of "
            f"{len(right)} fits, {chance} of which are at chance"
        )
    table = Table("labels", "choices", "regret of the best estimate, points", box=MARKDOWN)
    lost = regrets(records)
    lost["all"] = [value for values in lost.values() for value in values]
    for name, values in lost.items():
        if values:
            table.add_row(name, str(len(values)), f"{np.mean(values):.1f}")
    console.print(table)


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
    calibrating.add_argument("--plot", type=Path, help="picture to draw")
    calibrating.set_defaults(run=calibrate)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
