"""Part `gpu` of scale.py: one fit on a CUDA device, and a comparison of the codes with the CPU.

    python benchmarks/scale_gpu.py [--scale 1.0] [--data FOLDER]

200,000 x 200,000 rows of 512 features, 64 bits, 10 iterations, exact W-steps, including the k-NN
graphs. The first fit of a process compiles the kernels or reads them from Triton's cache on disk;
both are timed, in separate processes. The W-step is compared with the rate of a large product of
16-bit matrices, measured in the same process. Real tasks of the data pack (FOLDER, or
$BRIDGEHASH_DATA) compare scores and bits of a GPU fit in float32 with the CPU in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scale import GPU, N_ITER, samples, scaled

TASKS = {  # file, features of the source, of the target
    "MNIST → USPS": ("mnist_usps.npz", "mnist2000_x", "usps1800_x"),
    "Caltech MobileNet → Amazon EfficientNet": (
        "office_caltech10.npz",
        "caltech10_mobilenet_v1",
        "amazon_effnet_lite2",
    ),
    "PACS photo → cartoon": ("pacs.npz", "photo_effnet_lite0", "cartoon_effnet_lite0"),
}


def fits(sizes: dict[str, int], repeats: int) -> dict[str, Any]:
    """Measure fits in this process, on tensors that are on the device."""
    began = time.perf_counter()
    import torch

    from bridgehash import ATH
    from bridgehash.neighbors.search import find_neighbors

    torch.zeros(1, device="cuda")
    result: dict[str, Any] = {"import": time.perf_counter() - began}
    X = [torch.from_numpy(samples(sizes[f"n_{'st'[i]}"], sizes["d"], i)[0]) for i in range(2)]
    began = time.perf_counter()
    X = [rows.cuda() for rows in X]
    torch.cuda.synchronize()
    result["transfer"] = time.perf_counter() - began
    result["fits"] = []
    for _ in range(1 + repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        ath = ATH.unsupervised(sizes["bits"], max_iter=N_ITER, tol=0.0, random_state=0).fit(*X)
        torch.cuda.synchronize()
        result["fits"].append(time.perf_counter() - began)
    result["memory"] = torch.cuda.max_memory_allocated() / 2**30
    result["falls"] = bool((np.diff(ath.objective_["total"]) <= 0).all())
    H = [
        ath.decision_function(rows, side)
        for rows, side in zip(X, ("source", "target"), strict=True)
    ]
    result["w_step"] = best(lambda: find_neighbors(H[0], H[1], 11, None))
    result["knn"] = best(lambda: find_neighbors(X[0], X[0], 41, None))
    square = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    result["rate"] = 2 * 8192**3 / best(lambda: square @ square)
    return result


def best(work: Any, repeats: int = 5) -> float:
    import torch

    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times)


def alone(sizes: dict[str, int], repeats: int, cache: str) -> dict[str, Any]:
    """Run `fits` in a separate process, with Triton's cache in a given folder."""
    line = [sys.executable, __file__, "--one", json.dumps([sizes, repeats])]
    environment = os.environ | {"TRITON_CACHE_DIR": cache}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def gpu(console: Console, scale: float, data: Path | None = None) -> None:
    sizes = scaled(GPU, scale)
    with tempfile.TemporaryDirectory() as cache:
        empty, filled = alone(sizes, 0, cache), alone(sizes, 3, cache)
    console.print(f"{sizes}, {N_ITER} iterations, float32, data on the device")
    table = Table("what", "seconds", box=MARKDOWN)
    table.add_row("libraries and CUDA", f"{filled['import']:.2f}")
    table.add_row("transfer of the data", f"{filled['transfer']:.2f}")
    table.add_row("first fit, no kernel compiled yet", f"{empty['fits'][0]:.2f}")
    table.add_row("first fit, kernels on disk", f"{filled['fits'][0]:.2f}")
    table.add_row("later fits", ", ".join(f"{each:.2f}" for each in filled["fits"][1:]))
    table.add_row("one W-step (exact, 11 of all)", f"{filled['w_step']:.4f}")
    table.add_row("one k-NN search (exact, 41 of all)", f"{filled['knn']:.4f}")
    console.print(table)
    pairs = sizes["n_s"] * sizes["n_t"]
    shares = {
        "W-step": 2 * pairs * sizes["bits"] / filled["w_step"] / filled["rate"],
        "k-NN": 2 * sizes["n_s"] ** 2 * sizes["d"] / filled["knn"] / filled["rate"],
    }
    console.print(
        f"measured rate of 16-bit products: {filled['rate'] / 1e12:.0f} TFLOP/s; share used: "
    )
    console.print(", ".join(f"{name} {share:.0%}" for name, share in shares.items()))
    falls = "falls in every iteration" if filled["falls"] else "DOES NOT FALL in every iteration"
    console.print(f"memory {filled['memory']:.1f} GiB; the objective {falls}")
    agreement(console, data)


def agreement(console: Console, data: Path | None) -> None:
    """Compare bits and scores of float32 on the device with float64 on the CPU."""
    import torch

    from bridgehash import ATH, evaluate
    from bridgehash.datasets import TransferTask

    warnings.simplefilter("ignore")
    folder = data or Path(os.environ.get("BRIDGEHASH_DATA", "."))
    table = Table("task", "cross / single host", "cross / single GPU", "equal bits", box=MARKDOWN)
    for name, (file, source, target) in TASKS.items():
        if not (folder / file).exists():
            console.print(f"{name}: file not found: {folder / file}")
            continue
        with np.load(folder / file) as arrays:
            parts = [
                arrays[key] for x in (source, target) for key in (x, f"{x.partition('_')[0]}_y")
            ]
        task = TransferTask.split(*parts, n_queries=500, seed=0)
        host = ATH.unsupervised(64, random_state=0)
        host.fit(task.X_source.astype(np.float64), task.X_target.astype(np.float64))
        rows = [
            torch.from_numpy(X.astype(np.float32)).cuda() for X in (task.X_source, task.X_target)
        ]
        device = ATH.unsupervised(64, random_state=0).fit(*rows)
        scores = []
        for hasher in (host, device):
            report = evaluate(hasher, task)
            areas = (100 * each.radius_pr_area for each in (report.cross, report.single))
            scores.append(" / ".join(f"{area:.2f}" for area in areas))
        equal = [
            (host.transform(X, side) == device.transform(X, side)).mean()
            for X, side in ((task.X_query, "target"), (task.X_source, "source"))
        ]
        table.add_row(name, *scores, f"{100 * min(equal):.3f} %")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of rows")
    parser.add_argument("--data", type=Path, help="folder of the data pack")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(fits(*json.loads(options.one))))
        return
    gpu(Console(width=140), options.scale, options.data)


if __name__ == "__main__":
    main()
