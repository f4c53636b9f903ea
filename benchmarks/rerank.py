"""Measure what re-ranking gains: mean average precision with and without it.

    python benchmarks/rerank.py [--bits 32] [--splits 10] [--first-split 0] [--jobs 2]

Needs the data pack ($BRIDGEHASH_DATA). Supervised ATH on tasks of Office-Caltech10 and PACS, rows
of unit norm, 500 queries per split. The whole database is ranked by Hamming distance (ties in
expectation), and by the weights of the query. Per cent, mean ± standard deviation. `recall`: share
of the ten nearest float rows of the query's own domain among the first ten results there.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from recorded import Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from sklearn.metrics import average_precision_score

from bridgehash import ATH, HammingIndex, evaluate
from bridgehash.datasets import parse_task

TASKS = (
    "office-caltech10/caltech10.surf800-amazon.effnet_lite0",
    "office-caltech10/amazon.effnet_lite0-caltech10.surf800",
    "office-caltech10/caltech10.mobilenet_v1-amazon.effnet_lite2",
    "pacs/photo.effnet_lite0-cartoon.effnet_lite0",
    "pacs/photo.gist512-sketch.effnet_lite0",
)

COLUMNS = ("cross", "single", "recall")


def scores(task: str, bits: int, seed: int) -> list[float]:
    """Return cross, cross re-ranked, single, single re-ranked, recall, recall re-ranked."""
    split = parse_task(task).load(seed, unit_rows=True)
    ath = ATH.supervised(bits, random_state=seed)
    ath.fit(split.X_source, split.X_target, y_source=split.y_source, y_target=split.y_target)
    report = evaluate(ath, split)
    W, queries = ath.query_weights(split.X_query, "target"), ath.encode(split.X_query, "target")
    result = []
    for plain, X, y, domain in (
        (report.cross, split.X_source, split.y_source, "source"),
        (report.single, split.X_target, split.y_target, "target"),
    ):
        index = HammingIndex(bits, n_jobs=1).add(ath.encode(X, domain))
        _, ids = index.search(queries, len(X), weights=W)
        order = -np.arange(len(X))  # the first result scores highest
        precision = [
            average_precision_score(y[row] == label, order)
            for row, label in zip(ids, split.y_query, strict=True)
        ]
        result += [100 * plain.mean_average_precision, 100 * float(np.mean(precision))]
    near = np.argsort(-(split.X_query @ split.X_target.T), axis=1, kind="stable")[:, :10]
    for found in (index.search(queries, 10)[1], ids[:, :10]):
        shares = [np.isin(a, b).mean() for a, b in zip(near, found, strict=True)]
        result.append(100 * float(np.mean(shares)))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    files = ("office_caltech10.npz", "pacs.npz")
    seeds = range(options.first_split, options.first_split + options.splits)
    recorder = Recorder(options.record, seeds, files)
    columns = ["task"]
    for name in COLUMNS:
        columns += [name, "re-ranked", "gain"]
    table = Table(*columns, box=MARKDOWN)
    for task in TASKS:
        runs = Parallel(options.jobs)(delayed(scores)(task, options.bits, seed) for seed in seeds)
        names = [f"{name}{more}" for name in COLUMNS for more in ("", " re-ranked")]
        for name, values in zip(names, np.transpose(runs), strict=True):
            recorder.add(values, task, options.bits, name)
        mean, spread = np.mean(runs, axis=0), np.std(runs, axis=0)
        cells = [f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, spread, strict=True)]
        row = [task]
        for i in (0, 2, 4):
            row += [cells[i], cells[i + 1], f"{mean[i + 1] - mean[i]:+.1f}"]
        table.add_row(*row)
    Console(width=None if os.isatty(1) else 160).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
