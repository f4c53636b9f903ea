"""Score all methods on MNIST → USPS and compare with reference scores, ten random splits.

    python benchmarks/compared.py [--methods itq,gth-g,...] [--bits 16,64] [--splits 10] [--jobs 2]
        [--record FILE]

Needs the data pack ($BRIDGEHASH_DATA, or ../shared/data). Default settings, rows of unit norm, 500
queries per split. Per cent, mean ± standard deviation over the splits, of radius_pr_area (often
called "MAP"), with mean_average_precision in brackets. `ref` is the area of a prototype written
from the published descriptions, on one to three splits (tolerance about two points); `diff` is ours
minus `ref`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per split: splits run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from levels import load
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import evaluate
from bridgehash.registry import METHODS

Area = dict[int, tuple[float, float]]  # cross, single by number of bits


class Row(NamedTuple):
    """A line of the table: a method, the labels it sees, and the scores to compare with."""

    method: str
    labels: tuple[str, ...] = ()
    reference: Area = {}  # noqa: RUF012 (never changed)
    parameters: dict[str, Any] = {}  # noqa: RUF012
    remark: str = ""


SOURCE, BOTH = ("y_source",), ("y_source", "y_target")
FIXED = {"step": "fixed", "max_iter": 5}  # as the public code runs
ROWS = [
    Row("lsh", (), {16: (15.6, 44.5), 64: (23.1, 60.5)}),
    Row("pcah", (), {16: (16.2, 45.9), 64: (11.8, 42.2)}),
    Row("sh", (), {16: (16.3, 46.6), 64: (11.8, 49.8)}),
    Row("itq", (), {16: (28.1, 61.7), 64: (33.4, 70.5)}),
    Row("sp", (), {16: (28.9, 61.6), 64: (32.4, 65.9)}),
    Row("shsr", (), {16: (14.0, 64.6), 64: (11.9, 57.5)}),
    Row("dplm", (), {16: (14.8, 61.1), 64: (15.3, 62.7)}),
    Row("itq+", (), {16: (30.1, 65.1), 64: (32.9, 70.8)}),
    Row("lapitq+"),
    Row("gth-g", (), {16: (28.0, 65.6), 64: (30.8, 70.1)}),
    Row("gth-h"),
    Row("gth-g", (), {16: (25.1, 53.2), 64: (25.0, 57.8)}, FIXED, "fixed step"),
    Row("gth-h", (), {16: (24.8, 53.7), 64: (24.3, 57.4)}, FIXED, "fixed step"),
    Row("pwcf", SOURCE, {16: (44.7, 48.9), 64: (54.0, 70.7)}),
    Row("prototype-bank", SOURCE),
    Row("psca", SOURCE, {16: (86.05, 80.61), 64: (87.35, 81.53)}, remark="ref: as published"),
    Row("psca", SOURCE, {}, {"out_of_sample": "linear"}, "linear"),
    Row("ksh", SOURCE, {16: (37.0, 43.8), 64: (38.5, 49.9)}, {"n_labelled": 1000}, "1000 rows"),
    Row("ksh", SOURCE),
    Row("sdh", SOURCE, {16: (45.6, 32.7), 64: (56.5, 44.9)}),
    Row("fsdh", SOURCE, {16: (48.1, 36.4), 64: (58.0, 49.4)}),
    Row("scdh", SOURCE, {16: (52.4, 45.2), 64: (60.5, 54.5)}),
    Row("ksh", BOTH),
    Row("sdh", BOTH, {16: (93.1, 95.4), 64: (96.0, 97.1)}),
    Row("fsdh", BOTH, {16: (93.3, 95.3), 64: (96.1, 97.2)}),
    Row("scdh", BOTH, {16: (94.3, 95.7), 64: (96.2, 97.1)}),
    Row("ath-unsupervised"),
    Row("ath-semi-supervised", SOURCE),
    Row("ath-supervised", BOTH),
    Row("ath-kernel", BOTH),
]


def scores(row: Row, bits: int, seed: int) -> list[float]:
    """Return cross and single area, then cross and single mean average precision."""
    hasher = METHODS[row.method].prepared(bits, seed, **row.parameters)
    task = load("mnist-usps", seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hasher.fit(task.X_source, task.X_target, **{y: getattr(task, y) for y in row.labels})
    report = evaluate(hasher, task)
    sides = (report.cross, report.single)
    areas = [100 * side.radius_pr_area for side in sides]
    return areas + [100 * side.mean_average_precision for side in sides]


def table(bits: int, rows: list[Row], splits: int, jobs: int, recorder: Recorder) -> Table:
    """Return the table for one code length."""
    columns = ("method", "labels", "cross", "ref", "diff", "single", "ref", "diff")
    shown = Table(*columns, title=f"MNIST → USPS, {bits} bits, {splits} splits", box=MARKDOWN)
    for row in rows:
        runs = Parallel(jobs)(delayed(scores)(row, bits, seed) for seed in range(splits))
        mean, spread = np.mean(runs, axis=0), np.std(runs, axis=0)
        cells = []
        for side in (0, 1):
            cells.append(f"{mean[side]:.1f} ± {spread[side]:.1f} ({mean[side + 2]:.1f})")
            known = row.reference.get(bits)
            cells += (
                ["", ""]
                if known is None
                else [f"{known[side]}", f"{mean[side] - known[side]:+.1f}"]
            )
        name = f"{row.method}, {row.remark}" if row.remark else row.method
        seen = {0: "none", 1: "source", 2: "both"}[len(row.labels)]
        shown.add_row(name, seen, *cells)
        names = ("cross", "single", "cross map", "single map")
        for column, values in zip(names, np.transpose(runs), strict=True):
            recorder.add(values, name, seen, bits, column)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", help="names separated by commas; default: all")
    parser.add_argument("--bits", default="16,64")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    wanted = options.methods.split(",") if options.methods else list(METHODS)
    rows = [row for row in ROWS if row.method in wanted]
    recorder = Recorder(options.record, range(options.splits), ["mnist_usps.npz"])
    console = Console(width=None if os.isatty(1) else 140)
    for bits in map(int, options.bits.split(",")):
        console.print(table(bits, rows, options.splits, options.jobs, recorder))
    recorder.write()


if __name__ == "__main__":
    main()
