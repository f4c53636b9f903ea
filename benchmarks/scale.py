"""Measure time and memory of a fit for growing data.

    python benchmarks/scale.py [--part million,growth,gpu] [--scale 1.0] [--out scale]

Parts:
  million   1,000,000 x 100,000 rows of 256 features, 64 bits, 10 iterations: unsupervised and
            supervised, with the data in memory as float32; then from files with a memory limit
  growth    time and peak memory while one of n_s, n_t, d and the bits grows; exponents, and a
            plot (OUT.png) on logarithmic axes
  gpu       see scale_gpu.py

Rows are Gaussian in 16 dimensions without clusters, mapped to d by a random matrix, with noise in
all dimensions; the target is shifted a little. Such rows are hard for an inverted file, because
most neighbours are in another cell. Classes are those of the nearest of 100 points. Each fit runs
in a separate process. Memory is its peak resident size, including inputs and libraries.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from recorded import Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

MILLION = {"n_s": 1_000_000, "n_t": 100_000, "d": 256, "bits": 64}
BASE = {"n_s": 40_000, "n_t": 40_000, "d": 128, "bits": 64}
GROWTH = {
    "n_s": (125_000, 250_000, 500_000, 1_000_000),
    "n_t": (20_000, 40_000, 80_000, 160_000),
    "d": (64, 128, 256, 512),
    "bits": (16, 32, 64, 128),
}
GPU = {"n_s": 200_000, "n_t": 200_000, "d": 512, "bits": 64}
N_ITER, CLASSES, LATENT = 10, 100, 16


def samples(n: int, d: int, domain: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a domain as float32, and their classes."""
    shared = np.random.default_rng(0)
    centres = shared.normal(size=(CLASSES, LATENT)).astype(np.float32)
    turn = shared.normal(size=(LATENT, d)).astype(np.float32) / np.float32(LATENT**0.5)
    shift = 0.2 * np.random.default_rng(100 + domain).normal(size=d).astype(np.float32)
    rng = np.random.default_rng(1 + domain)
    X, y = np.empty((n, d), dtype=np.float32), np.empty(n, dtype=np.int64)
    step = max(1, (1 << 22) // d)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        Z = rng.standard_normal((part.stop - start, LATENT), dtype=np.float32)
        y[part] = (2.0 * Z @ centres.T - (centres**2).sum(axis=1)).argmax(axis=1)
        X[part] = Z @ turn + shift
        X[part] += 0.1 * rng.standard_normal((part.stop - start, d), dtype=np.float32)
    return X, y


def one_fit(task: dict[str, Any]) -> dict[str, Any]:
    """Fit in this process; return seconds, iterations, memory in GiB before it and at its peak."""
    from bridgehash import ATH

    warnings.simplefilter("ignore")
    X, y = {}, {}
    for domain, (name, n) in enumerate((("source", task["n_s"]), ("target", task["n_t"]))):
        X[name], y[name] = samples(n, task["d"], domain)
    labels = {}
    if task["variant"] == "supervised":
        labels = {f"y_{name}": y[name] for name in y}
    settings = {"max_iter": N_ITER, "tol": 0.0, "random_state": 0}
    folder = tempfile.TemporaryDirectory()
    if task.get("files"):
        for name, rows in X.items():
            np.save(Path(folder.name) / f"{name}.npy", rows)
        X = {name: Path(folder.name) / f"{name}.npy" for name in X}
    before = resident()
    began = time.perf_counter()
    ath = getattr(ATH, task["variant"])(task["bits"], **settings)
    ath.fit(X["source"], X["target"], **labels, memory_limit=task.get("memory_limit"))
    seconds = time.perf_counter() - began
    folder.cleanup()
    return {"seconds": seconds, "n_iter": ath.n_iter_, "before": before, "peak": peak()}


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def alone(task: dict[str, Any]) -> dict[str, Any]:
    """Run `one_fit` in a separate process."""
    line = [sys.executable, __file__, "--one", json.dumps(task)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def scaled(sizes: dict[str, int], scale: float) -> dict[str, int]:
    return {name: max(64, round(scale * n)) if name[0] == "n" else n for name, n in sizes.items()}


def million(console: Console, scale: float, recorder: Recorder) -> None:
    sizes = scaled(MILLION, scale)
    table = Table("fit", "seconds", "per iteration", "peak GiB", "GiB before the fit", box=MARKDOWN)
    rows = [
        ("unsupervised", {}),
        ("supervised", {}),
        (
            "unsupervised, from files, limit 3 GiB",
            {"files": True, "memory_limit": "3GiB"},
        ),
    ]
    for title, more in rows:
        result = alone(sizes | {"variant": title.split(",")[0]} | more)
        per_round = f"{result['seconds'] / result['n_iter']:.1f}"
        console.print(f"{title}: {result}")
        for name in ("seconds", "peak", "before"):
            recorder.add([result[name]], title, scale, name)
        table.add_row(
            title,
            f"{result['seconds']:.1f}",
            per_round,
            f"{result['peak']:.2f}",
            f"{result['before']:.2f}",
        )
    console.print(f"{sizes}, {N_ITER} iterations")
    console.print(table)


def growth(console: Console, scale: float, out: Path) -> None:
    table = Table("grows", "sizes", "seconds", "peak GiB", "exponent of time", box=MARKDOWN)
    curves = {}
    for name, values in GROWTH.items():
        sizes = [scaled(BASE | {name: value}, scale) for value in values]
        results = [alone(size | {"variant": "unsupervised"}) for size in sizes]
        x = np.array([size[name] for size in sizes], dtype=float)
        seconds = np.array([each["seconds"] for each in results])
        memory = np.array([each["peak"] for each in results])
        curves[name] = x, seconds, memory
        exponent = np.polyfit(np.log(x), np.log(seconds), 1)[0]
        shown = [", ".join(f"{v:,.0f}" for v in x), ", ".join(f"{v:.1f}" for v in seconds)]
        table.add_row(name, *shown, ", ".join(f"{v:.2f}" for v in memory), f"{exponent:.2f}")
        console.print(f"{name} done")
    console.print(f"other sizes: {scaled(BASE, scale)}, {N_ITER} iterations")
    console.print(table)
    draw(curves, out.with_suffix(".png"))
    console.print(f"plot: {out.with_suffix('.png')}")


def draw(curves: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(
        2, len(curves), figsize=(13, 5.5), sharey="row", layout="constrained"
    )
    for column, (name, (x, seconds, memory)) in enumerate(curves.items()):
        for axis, y, unit in (
            (axes[0][column], seconds, "seconds"),
            (axes[1][column], memory, "GiB"),
        ):
            axis.loglog(x, y, "o-", color="#2b6cb0")
            axis.loglog(x, y[0] * x / x[0], "--", color="#a0aec0", linewidth=1)
            axis.set_xticks(x, [f"{v / 1000:g}k" if v >= 10_000 else f"{v:g}" for v in x])
            axis.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            if column == 0:
                axis.set_ylabel(unit)
        axes[0][column].set_title(f"{name} grows", fontsize=10)
    figure.suptitle("One unsupervised fit, 10 iterations; dashed: proportional growth", fontsize=11)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="million,growth", help="million, growth, gpu")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of rows")
    parser.add_argument("--out", type=Path, default=Path("scale"), help="name of the plot")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    add_option(parser)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_fit(json.loads(options.one))))
        return
    console = Console(width=140)
    parts = options.part.split(",")
    if "million" in parts:
        recorder = Recorder(options.record)
        million(console, options.scale, recorder)
        recorder.write()
    if "growth" in parts:
        growth(console, options.scale, options.out)
    if "gpu" in parts:
        from scale_gpu import gpu

        gpu(console, options.scale)


if __name__ == "__main__":
    main()
