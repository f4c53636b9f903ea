"""Score the variants of ATH and ITQ on real data: default settings, ten random splits.

    python benchmarks/levels.py [--tasks surf-effnet,...] [--bits 16,64] [--splits 10] [--jobs 2]
        [--record docs/results/records/levels.json]

Needs the data pack ($BRIDGEHASH_DATA, or ../shared/data). Each split draws 500 queries from the
target; the rest of the target and all of the source are training data. All methods see rows of unit
norm. Per cent, mean ± standard deviation over the splits: `area` is radius_pr_area (often called
"MAP"), `map` is mean_average_precision with ties in expectation; cross searches the source, single
the target. Rows marked `paper` are as the paper prints it, `authors` as in its authors' script.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per split: splits run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from bridgehash import ATH, ITQ, Shared, UnitRows, evaluate
from bridgehash.datasets import TransferTask
from bridgehash.models.base import BaseTransferHasher

OFFICE, DIGITS, PACS = "office_caltech10.npz", "mnist_usps.npz", "pacs.npz"
TASKS = {  # file, features of the source, of the target
    "surf-effnet": (OFFICE, "caltech10_surf800", "amazon_effnet_lite0"),
    "effnet-surf": (OFFICE, "amazon_effnet_lite0", "caltech10_surf800"),
    "mobilenet-effnet": (OFFICE, "caltech10_mobilenet_v1", "amazon_effnet_lite2"),
    "mnist-usps": (DIGITS, "mnist2000_x", "usps1800_x"),
    "usps-mnist": (DIGITS, "usps1800_x", "mnist2000_x"),
    "photo-cartoon": (PACS, "photo_effnet_lite0", "cartoon_effnet_lite0"),
    "cartoon-photo": (PACS, "cartoon_effnet_lite0", "photo_effnet_lite0"),
    "photo-sketch": (PACS, "photo_effnet_lite0", "sketch_effnet_lite0"),
    "gist-sketch": (PACS, "photo_gist512", "sketch_effnet_lite0"),
    "amazon-caltech": (OFFICE, "amazon_effnet_lite0", "caltech10_effnet_lite0"),
}
Maker = Callable[[int, int], BaseTransferHasher]
SEES = {
    "ATH_M": ("source",),
    "ATH_P": ("source",),
    "ATH_S": ("source", "target"),
    "ATH_K": ("source", "target"),
}
METHODS: dict[str, Maker] = {
    "ITQ": lambda bits, seed: Shared(ITQ(bits, random_state=seed)),
    "ATH_U": lambda bits, seed: ATH.unsupervised(bits, random_state=seed),
    "ATH_M": lambda bits, seed: ATH.semi_supervised(bits, random_state=seed),
    "ATH_P": lambda bits, seed: ATH.propagated(bits, random_state=seed),
    "ATH_S": lambda bits, seed: ATH.supervised(bits, random_state=seed),
    "ATH_K": lambda bits, seed: ATH.kernel(bits, random_state=seed),
    "ATH_U paper": lambda bits, seed: ATH.unsupervised(bits, published=True, random_state=seed),
    "ATH_M paper": lambda bits, seed: ATH.semi_supervised(bits, published=True, random_state=seed),
    "ATH_S paper": lambda bits, seed: ATH.supervised(bits, published=True, random_state=seed),
    "ATH_K paper": lambda bits, seed: ATH.kernel(bits, published=True, random_state=seed),
    "ATH_U authors": lambda bits, seed: ATH.unsupervised(
        bits, published="authors", unit_rows=True, random_state=seed
    ),
}
COLUMNS = ("cross area", "cross map", "single area", "single map")


def load(task: str, seed: int, *, unit: bool = True) -> TransferTask:
    """Return one split of a task, with rows of unit norm or as stored."""
    file, source, target = TASKS[task]
    with np.load(DATA / file) as data:
        X_s, X_t = (data[key].astype(float) for key in (source, target))
        y_s, y_t = (data[key.split("_")[0] + "_y"] for key in (source, target))
    if unit:
        X_s, X_t = UnitRows().fit_transform(X_s), UnitRows().fit_transform(X_t)
    return TransferTask.split(X_s, y_s, X_t, y_t, n_queries=500, seed=seed)


def scores(task: str, method: str, bits: int, seed: int, make: Maker | None = None) -> list[float]:
    """Return the four scores of one fit; `make` replaces the settings of the method."""
    hasher = (make or METHODS[method])(bits, seed)
    split = load(task, seed, unit=getattr(hasher, "unit_rows", True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = {f"y_{d}": getattr(split, f"y_{d}") for d in SEES.get(method.split()[0], ())}
        hasher.fit(split.X_source, split.X_target, **labels)
    report = evaluate(hasher, split)
    return [
        100 * value
        for side in (report.cross, report.single)
        for value in (side.radius_pr_area, side.mean_average_precision)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--bits", default="16,64")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    seeds = range(options.first_split, options.first_split + options.splits)
    tasks = options.tasks.split(",")
    recorder = Recorder(options.record, seeds, (TASKS[task][0] for task in tasks))
    console = Console(width=None if os.isatty(1) else 110)
    for task in tasks:
        for bits in map(int, options.bits.split(",")):
            title = f"{task}, {bits} bits, {len(seeds)} splits"
            table = Table("method", *COLUMNS, title=title, box=MARKDOWN)
            for method in options.methods.split(","):
                runs = np.array(
                    Parallel(options.jobs)(
                        delayed(scores)(task, method, bits, seed) for seed in seeds
                    )
                )
                for column, values in zip(COLUMNS, runs.T, strict=True):
                    recorder.add(values, task, method, bits, column)
                mean, spread = runs.mean(axis=0), runs.std(axis=0)
                table.add_row(
                    method, *(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, spread, strict=True))
                )
            console.print(table)
    recorder.write()


if __name__ == "__main__":
    main()
