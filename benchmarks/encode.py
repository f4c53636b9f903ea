"""Compare encoding with a plain matrix product of the same shape, and count changed bits.

    OMP_NUM_THREADS=2 python benchmarks/encode.py [--rows 1000000] [--runs 7] [--no-bits] [--blocks]
    OMP_NUM_THREADS=1 python benchmarks/encode.py --cpu-time
    python benchmarks/encode.py --gpu

`product` is X @ P of random float32 rows. `encode` computes the packed codes of the same rows with
the same P, by an encoder without maps and by one that first divides rows by their norm, as in ATH.
`speed` is product / encode, each the best of its runs; runs alternate. `--blocks` shows how the
number of rows per block matters. `--cpu-time` counts CPU time instead of wall time, for busy
machines: the threads of a product wait for each other and those of encoding do not, so wall time
favours encoding there; use one thread with it. `--gpu` uses torch tensors on CUDA, in 16-bit types
too.

Changed bits: the share of bits that differ from float64 arithmetic with the same arrays, for
features in BRIDGEHASH_DATA (if set) and for random rows far from the origin; `centred` subtracts
the mean in float32 before the product, as in the formula. bfloat16 needs torch; its rows and its P
are rounded to eight bits, its sums are float32.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from recorded import Recorder, add_option, record_cells
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info

from bridgehash import LinearEncoder, UnitRows
from bridgehash._core import arrays as _xp
from bridgehash.baselines.itq import itq_projection
from bridgehash.baselines.shared import standardised

SHAPES = [(512, 64), (128, 32), (2048, 128)]  # features, bits
ROWS_AT_2048 = 4  # times fewer rows
FEATURES = [
    ("CIFAR-10 GIST", "cifar10_gist512.npz", ("gist512",)),
    ("MNIST, USPS", "mnist_usps.npz", ("mnist2000_x", "usps_train_x")),
    ("Office-Caltech10", "office_caltech10.npz", ("amazon_surf800", "amazon_effnet_lite2")),
    ("PACS", "pacs.npz", ("photo_gist512", "sketch_effnet_lite2", "cartoon_mobilenet_v1")),
]
CONSOLE = Console(width=None if os.isatty(1) else 120)


def in_turns(
    works: dict[Any, Callable[[], object]],
    runs: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Any, float]:
    """Return the seconds of the fastest run of each; runs alternate."""
    best = dict.fromkeys(works, np.inf)
    for _ in range(runs):
        for name, work in works.items():
            started = clock()
            work()
            best[name] = min(best[name], clock() - started)
    return best


def encoders(d: int, bits: int) -> dict[str, LinearEncoder]:
    rng = np.random.default_rng(0)
    P = rng.standard_normal((d, bits), dtype=np.float32)
    mean = rng.standard_normal(d, dtype=np.float32) / np.float32(d**0.5)
    return {
        "plain": LinearEncoder(P, mean, scale=2.0),
        "unit rows": LinearEncoder(P, mean, scale=2.0, maps=[UnitRows().fit(mean[None])]),
    }


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, box=MARKDOWN, title_justify="left")
    for column in columns:
        made.add_column(column, justify="right")
    return made


def speed(args: argparse.Namespace) -> None:
    threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    recorder = Recorder(args.record)
    clock = time.process_time if args.cpu_time else time.perf_counter
    shown = table(
        f"Encoding, float32, NumPy, threads of BLAS: {max(threads)}, best of {args.runs}",
        "rows", "features", "bits", "product s", "plain s", "speed", "unit rows s", "speed",
    )  # fmt: skip
    for d, bits in SHAPES:
        n = args.rows // (ROWS_AT_2048 if d == 2048 else 1)
        X = np.random.default_rng(1).standard_normal((n, d), dtype=np.float32)
        made = encoders(d, bits)
        P = made["plain"].projection
        works: dict[str, Callable[[], object]] = {"product": lambda X=X, P=P: X @ P}
        works |= {name: lambda e=e, X=X: e.encode(X) for name, e in made.items()}
        add_speeds(shown, (n, d, bits), in_turns(works, args.runs, clock), recorder)
    CONSOLE.print(shown)
    recorder.write()


def add_speeds(
    shown: Table, shape: tuple[object, ...], best: dict[str, float], recorder: Recorder
) -> None:
    bare = best["product"]
    cells = [f"{bare:.4f}"]
    for name in ("plain", "unit rows"):
        cells += [f"{best[name]:.4f}", f"{bare / best[name]:.2f}"]
    shown.add_row(*map(str, shape), *cells)
    columns = ("product", "plain", "plain speed", "unit rows", "unit rows speed")
    labels = [f"{shape[0]:,}", *map(str, shape[1:])]
    record_cells(recorder, labels, columns, cells)


def blocks(args: argparse.Namespace) -> None:
    n = args.rows // 2
    X = np.random.default_rng(1).standard_normal((n, 512), dtype=np.float32)
    made = encoders(512, 64)
    shown = table(f"Rows per block, {n} x 512 to 64 bits", "rows", "plain s", "unit rows s")
    sizes = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)

    def work(encoder: LinearEncoder, size: int) -> None:
        _xp._ROWS, _xp._IN_CACHE = size, 0
        encoder.encode(X)

    works = {
        (name, size): lambda e=e, size=size: work(e, size)
        for size in sizes
        for name, e in made.items()
    }
    best = in_turns(works, args.runs)
    for size in sizes:
        shown.add_row(str(size), *(f"{best[name, size]:.3f}" for name in made))
    CONSOLE.print(shown)


def speed_on_gpu(args: argparse.Namespace) -> None:
    import torch

    recorder = Recorder(args.record)
    shown = table(
        f"Encoding on {torch.cuda.get_device_name()}, best of {args.runs}",
        "rows", "features", "bits", "type", "product s", "plain s", "speed", "unit rows s", "speed",
    )  # fmt: skip

    def waited(work: Callable[[], object]) -> Callable[[], object]:
        return lambda: (work(), torch.cuda.synchronize())

    for d, bits in SHAPES:
        n = args.rows // (ROWS_AT_2048 if d == 2048 else 1)
        rows = torch.randn((n, d), device="cuda")
        made = encoders(d, bits)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            X = rows.to(dtype)
            P = torch.asarray(made["plain"].projection, device="cuda").to(dtype)
            works = {"product": waited(lambda X=X, P=P: X @ P)}
            works |= {name: waited(lambda e=e, X=X: e.encode(X)) for name, e in made.items()}
            name = str(dtype).removeprefix("torch.")
            add_speeds(shown, (n, d, bits, name), in_turns(works, args.runs), recorder)
    CONSOLE.print(shown)
    recorder.write()


def feature_sets() -> Iterator[tuple[str, np.ndarray]]:
    if folder := os.environ.get("BRIDGEHASH_DATA"):
        for title, name, keys in FEATURES:
            with np.load(Path(folder) / name) as data:
                for key in keys:
                    yield f"{title} {key}", data[key].astype(np.float32)
    rows = np.random.default_rng(2).standard_normal((20_000, 512), dtype=np.float32)
    for shift in (1, 10, 100, 1000):
        yield f"Gaussian, mean {shift}", rows + np.float32(shift)


def changed_bits(args: argparse.Namespace) -> None:
    """Count changed bits for each way to encode float32 rows; ITQ gives the projection."""
    device = "cuda" if args.gpu else "cpu"
    torch = torch_or_none()
    names = ("float32", "centred", *(("bfloat16", "float16") if torch else ()))
    shown = table(
        f"Changed bits of 64, {device}", "features", "rows", "bits", "mean / spread", *names
    )
    for title, X in feature_sets():
        for unit in (True, False):
            maps = [UnitRows().fit(X)] if unit else []
            Z = X.astype(np.float64)
            Z = maps[0].transform(Z) if unit else Z
            rows, mean, scale = standardised(Z[:5000])
            A = itq_projection(rows, 64, 10, np.random.RandomState(0))
            encoder = LinearEncoder(np.float32(A), np.float32(mean), scale, maps)
            exact = (Z - encoder.mean) @ (encoder.projection / np.float64(scale)) > 0
            found = ways(encoder, X, torch, device)
            cells = [f"{(found[name] != exact).mean():.1e}" for name in names]
            ratio = f"{np.linalg.norm(mean) / scale:.1f}"
            shown.add_row(
                title + ", unit rows" * unit, str(len(X)), f"{exact.size:.1e}", ratio, *cells
            )
    CONSOLE.print(shown)


def ways(encoder: LinearEncoder, X: np.ndarray, torch: Any, device: str) -> dict[str, np.ndarray]:
    Z = encoder.maps[0].transform(X) if encoder.maps else X
    found = {"centred": (Z - encoder.mean) @ (encoder.projection / np.float32(encoder.scale)) > 0}
    if torch is None or device == "cpu":
        found["float32"] = encoder.transform(X) > 0
    if torch is not None:
        rows = torch.asarray(X, device=device)
        for name in ("float32", "bfloat16", "float16"):
            codes = encoder.transform(rows.to(getattr(torch, name)))
            found.setdefault(name, _xp.to_numpy(codes) > 0)
    return found


def torch_or_none() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--blocks", action="store_true", help="vary the size of a block")
    parser.add_argument("--cpu-time", action="store_true", help="for busy machines")
    parser.add_argument("--gpu", action="store_true", help="torch tensors on CUDA")
    parser.add_argument("--no-bits", action="store_true", help="do not count changed bits")
    add_option(parser)
    args = parser.parse_args()
    if args.blocks:
        blocks(args)
        return
    if args.gpu:
        speed_on_gpu(args)
    else:
        speed(args)
    if not args.no_bits:
        changed_bits(args)


if __name__ == "__main__":
    main()
