"""Measure what an inverted file costs in score, compared with exact search.

    python benchmarks/probes.py [--probes 1,4,8,16,32] [--splits 3] [--record FILE]

ATH.unsupervised, 64 bits, 10 iterations: CIFAR-10 GIST in two halves of 20,000 rows, and MNIST
(20,000 rows) to USPS (7,291). The k-NN graphs and the W-steps search n_probe cells. Printed: recall
of the target's graph and of the first W-step, and the change of radius_pr_area from exact search on
the same split, cross and single, in points, mean ± standard deviation over splits; `seconds` is the
CPU time of one fit. Needs the data pack ($BRIDGEHASH_DATA).
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from numpy.typing import NDArray
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import ATH, AdaptiveBipartite, KNNGraph, UnitRows, evaluate
from bridgehash.datasets import TransferTask
from bridgehash.datasets.mnist_usps import shrunk
from bridgehash.neighbors.cells import Cells, recall

N = 20_000


def halves(seed: int) -> TransferTask:
    """Return CIFAR-10 as two disjoint sets of 20,000 rows, and 500 queries."""
    with np.load(DATA / "cifar10_gist512.npz") as data:
        X, y = data["gist512"].astype(np.float32), data["y"]
    order = np.random.default_rng(seed).permutation(len(X))[: 2 * N + 500]
    one, other = order[:N], order[N:]
    return TransferTask.split(X[one], y[one], X[other], y[other], n_queries=500, seed=seed)


def digits(seed: int) -> TransferTask:
    """Return MNIST and USPS as 16 x 16 pixels."""
    with np.load(DATA / "mnist_usps.npz") as data:
        images, y_s = data["mnist_train_images"], data["mnist_train_y"]
        X_t, y_t = data["usps_train_x"].astype(np.float32), data["usps_train_y"]
    some = np.random.default_rng(seed).permutation(len(images))[:N]
    X_s = shrunk(images[some]).astype(np.float32)
    return TransferTask.split(X_s, y_s[some], X_t, y_t, n_queries=500, seed=seed)


def measured(task: TransferTask, n_probe: int | None, seed: int) -> tuple[float, float, float]:
    """Return cross and single area in per cent, and seconds of CPU time."""
    graph = KNNGraph(20, mutual=True, n_probe=n_probe)
    bridge = AdaptiveBipartite(n_probe=n_probe)
    parts = {"source_graph": graph, "target_graph": graph, "bipartite": bridge}
    began = time.process_time()
    ath = ATH.unsupervised(64, max_iter=10, tol=0.0, random_state=seed, **parts)
    ath.fit(task.X_source, task.X_target)
    seconds = time.process_time() - began
    report = evaluate(ath, task)
    return 100 * report.cross.radius_pr_area, 100 * report.single.radius_pr_area, seconds


def recalls(task: TransferTask, n_probe: int, seed: int) -> tuple[float, float]:
    """Return the recall of neighbours in the target, and of targets of the source."""
    X = UnitRows().fit_transform(task.X_target)
    F, _ = Cells(X).nearest(X, 41, n_probe)
    start = ATH.unsupervised(64, max_iter=1, tol=0.0, random_state=seed)
    start.fit(task.X_source, task.X_target)
    H_s, H_t = (
        start.decision_function(task.X_source, "source"),
        start.decision_function(task.X_target, "target"),
    )
    W, _ = Cells(H_t).nearest(H_s, 11, n_probe)
    return recall(F, X, X), recall(W, H_s, H_t)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--probes", default="1,4,8,16,32")
    parser.add_argument("--splits", type=int, default=3)
    add_option(parser)
    options = parser.parse_args()
    files = ("cifar10_gist512.npz", "mnist_usps.npz")
    recorder = Recorder(options.record, range(options.splits), files)
    warnings.simplefilter("ignore")
    console = Console(width=140)
    heads = ("n_probe", "recall, graph", "recall, W", "cross", "single", "seconds")
    for name, draw in (("CIFAR-10", halves), ("MNIST → USPS", digits)):
        tasks = [draw(seed) for seed in range(options.splits)]
        exact = np.array([measured(task, None, seed) for seed, task in enumerate(tasks)])
        table = Table(*heads, box=MARKDOWN)

        def add(
            cells: object, values: NDArray, graph: float, bridge: float, name: str = name
        ) -> None:
            for column, each in zip(("cross", "single", "seconds"), values.T, strict=True):
                recorder.add(each, name, cells, column)
            recorder.add([graph], name, cells, "recall of graph")
            recorder.add([bridge], name, cells, "recall of W-step")

        add("all", exact, 1.0, 1.0)
        areas = [f"{mean:.2f}" for mean in exact.mean(axis=0)]
        table.add_row("exact", "1", "1", areas[0], areas[1], f"{exact[:, 2].mean():.0f}")
        for n_probe in map(int, options.probes.split(",")):
            areas = np.array([measured(task, n_probe, seed) for seed, task in enumerate(tasks)])
            change = (areas - exact)[:, :2]
            shown = [
                f"{m:+.2f} ± {s:.2f}"
                for m, s in zip(change.mean(axis=0), change.std(axis=0), strict=True)
            ]
            graph, bridge = recalls(tasks[0], n_probe, 0)
            seconds = f"{areas[:, 2].mean():.0f}"
            add(n_probe, np.column_stack([change, areas[:, 2]]), graph, bridge)
            table.add_row(str(n_probe), f"{graph:.3f}", f"{bridge:.3f}", *shown, seconds)
        console.print(name)
        console.print(table)
    recorder.write()


if __name__ == "__main__":
    main()
