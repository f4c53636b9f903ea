"""CIFAR-10 GIST, 59,000 training rows and 1,000 queries: scores, time and memory of all methods.

    python benchmarks/cifar.py [--methods itq,sp,...] [--bits 64] [--splits 3] [--record FILE]

Needs the data pack ($BRIDGEHASH_DATA, or ../shared/data). Each split draws 100 queries per class;
the other rows are training data and are searched. Two-domain methods see them as two random halves,
and encode each half with its own encoder. Rows are used as stored, in float64. Methods that learn
from labels see all labels of training rows, or those of the source half if they need no more. Each
fit runs in a separate process with two threads: `seconds` is the fit, `GiB` the peak memory of the
process, including inputs. `paper` is Table I of the ATH paper (radius_pr_area, 10 splits).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

PAPER = {
    "itq": 16.21,
    "sp": 17.20,
    "dplm": 19.50,
    "shsr": 16.47,
    "gth-g": 16.77,
    "ath-unsupervised": 20.82,
}
N_QUERIES = 100  # per class


def split(seed: int) -> tuple[Any, Any, Any, Any]:
    """Return rows and labels of the training data, and of the queries."""
    with np.load(DATA / "cifar10_gist512.npz") as data:
        X, y = data["gist512"].astype(np.float64), data["y"]
    rng = np.random.default_rng(seed)
    query = np.concatenate(
        [rng.choice(np.flatnonzero(y == k), N_QUERIES, replace=False) for k in np.unique(y)]
    )
    train = rng.permutation(np.setdiff1d(np.arange(len(y)), query))
    return X[train], y[train], X[query], y[query]


def one(method: str, bits: int, seed: int) -> None:
    """Fit, score, and print area, map, seconds and GiB; runs in a separate process."""
    from bridgehash.metrics import distance_histogram, mean_average_precision, radius_pr_area
    from bridgehash.registry import METHODS

    X, y, X_query, y_query = split(seed)
    half = len(X) // 2
    entry = METHODS[method]
    hasher = entry.prepared(bits, seed)
    needs = set(entry.about.needs)
    given: dict[str, Any] = {}
    if needs & {"y", "y_source"}:
        given["y_source"] = y[:half]
    if needs & {"y", "y_target"}:
        given["y_target"] = y[half:]
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hasher.fit(X[:half], X[half:], **given)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    codes = np.vstack([hasher.encode(X[:half], "source"), hasher.encode(X[half:], "target")])
    histogram = distance_histogram(hasher.encode(X_query, "target"), codes, y_query, y, n_bits=bits)
    print(radius_pr_area(histogram), mean_average_precision(histogram), seconds, peak)


def main() -> None:
    from bridgehash.registry import METHODS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    compared = [
        name
        for name, entry in METHODS.items()
        if "pairs" not in entry.about.needs and not name.startswith("ath-")
    ]
    parser.add_argument(
        "--methods", default=",".join(compared), help="default: all but ATH, which is slow here"
    )
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    add_option(parser)
    options = parser.parse_args()
    if options.one is not None:
        one(options.methods, options.bits, options.one)
        return
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    recorder = Recorder(options.record, range(options.splits), ["cifar10_gist512.npz"])
    table = Table(
        "method", "area", "paper", "map", "seconds", "GiB", box=MARKDOWN, title="CIFAR-10 GIST"
    )
    for method in options.methods.split(","):
        runs = []
        for seed in range(options.splits):
            line = [sys.executable, __file__, "--methods", method, "--one", str(seed)]
            line += ["--bits", str(options.bits)]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{method}: {done.stderr}")
            runs.append([float(word) for word in done.stdout.split()])
        mean, spread, worst = np.mean(runs, 0), np.std(runs, 0), np.max(runs, 0)
        table.add_row(
            method,
            f"{100 * mean[0]:.1f} ± {100 * spread[0]:.1f}",
            f"{PAPER[method]:.1f}" if method in PAPER and options.bits == 64 else "",
            f"{100 * mean[1]:.1f} ± {100 * spread[1]:.1f}",
            f"{worst[2]:.0f}",
            f"{worst[3]:.1f}",
        )
        units = {"area": 100, "map": 100, "seconds": 1, "GiB": 1}
        for (column, unit), values in zip(units.items(), np.transpose(runs), strict=True):
            recorder.add(unit * values, method, options.bits, column)
        print(method, runs, file=sys.stderr)
    Console(width=None if os.isatty(1) else 110).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
