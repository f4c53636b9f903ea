"""Compare one fit at the size used by the authors with a transcription of their script.

    python benchmarks/authors_size.py [--scale 1.0]

4365 x 1927 samples of 4096 features, 64 bits, 10 iterations of ATH_U. The transcription follows the
public MATLAB script step by step: dense graphs and Laplacians, Φ of both domains formed and solved
in every iteration, all n_s x n_t distances sorted, one simplex projection per row; in float64, as
in MATLAB (NumPy is no faster in float32). The package gets the same samples as float64 and as
float32. Each runs in a separate process, one after the other, with all cores. Memory is the peak
resident size minus that of the process once its inputs exist.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from recorded import Recorder, add_option

from bridgehash import ATH
from bridgehash._core.linalg import Array

N_SOURCE, N_TARGET, N_FEATURES, N_BITS, N_ITER, NEIGHBOURS = 4365, 1927, 4096, 64, 10, 10


def samples(n: int, d: int, seed: int) -> Array:
    """Return non-negative rows around 65 classes, similar to rectified activations."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(65, d))
    rows = centres[rng.integers(65, size=n)] + 2.0 * rng.normal(size=(n, d))
    return np.maximum(rows, 0.0)


def product(X_s: Array, X_t: Array) -> None:
    """Fit with the package, the constants and the number of iterations of the paper."""
    ATH.unsupervised(N_BITS, published=True, random_state=0).fit(X_s, X_t)


def transcription(X_s: Array, X_t: Array) -> None:
    """Run the authors' script in NumPy; samples are columns, as in the script."""
    X_s, X_t = X_s.T - X_s.mean(axis=0)[:, None], X_t.T - X_t.mean(axis=0)[:, None]
    n_s, n_t = X_s.shape[1], X_t.shape[1]
    L_s, L_t = knn_laplacian(X_s), knn_laplacian(X_t)
    A_s, A_t = principal(X_s), principal(X_t)
    F = distances(A_s.T @ X_s, A_t.T @ X_t)
    order = np.argsort(F, axis=1)
    F_sorted = np.sort(F, axis=1)
    k = NEIGHBOURS
    gamma = np.mean((k * F_sorted[:, k + 1] - F_sorted[:, 1 : k + 1].sum(axis=1)) / 2)
    for iteration in range(N_ITER):
        B_s, B_t = halves(A_s.T @ X_s), halves(A_t.T @ X_t)
        F = distances(A_s.T @ X_s, A_t.T @ X_t)
        if iteration >= 5:
            order = np.argsort(F, axis=1)
        W = np.zeros((n_s, n_t))
        for i in range(n_s):
            near = order[i, 1 : k + 1]
            W[i, near] = simplex(-F[i, near] / (2 * gamma))
        A_s = projection(X_s, B_s, L_s, W, A_t.T @ X_t, 1e-2, 1e-3, 1.0)
        A_t = projection(X_t, B_t, L_t, W.T, A_s.T @ X_s, 1e-1, 1e-1, 1e-2)


def projection(
    X: Array, B: Array, L: Array, W: Array, H: Array, alpha: float, beta: float, ridge: float
) -> Array:
    inner = alpha * np.eye(X.shape[1]) + beta * L + np.diag(W.sum(axis=1))
    Phi = X @ inner @ X.T + ridge * np.eye(X.shape[0])
    return np.linalg.solve(Phi, alpha * X @ B.T + X @ W @ H.T)


def principal(X: Array) -> Array:
    """Return leading eigenvectors of the covariance, by the smaller Gram matrix if d > n."""
    if X.shape[0] <= X.shape[1]:
        return np.linalg.eigh(X @ X.T)[1][:, ::-1][:, :N_BITS]
    V = X @ np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :N_BITS]
    return V / np.linalg.norm(V, axis=0)


def knn_laplacian(X: Array) -> Array:
    F = distances(X, X)
    near = np.argsort(F, axis=1)[:, : NEIGHBOURS + 1]
    W = np.zeros_like(F)
    np.put_along_axis(W, near, 1.0, axis=1)
    np.fill_diagonal(W, 0.0)
    W = np.maximum(W, W.T)
    return np.diag(W.sum(axis=1)) - W


def distances(A: Array, C: Array) -> Array:
    return np.maximum((A**2).sum(axis=0)[:, None] + (C**2).sum(axis=0) - 2 * A.T @ C, 0.0)


def halves(H: Array) -> Array:
    B = np.ones_like(H)
    order = np.argsort(H, axis=1)
    np.put_along_axis(B, order[:, : int(H.shape[1] / 2 + 0.5)], -1.0, axis=1)
    return B


def simplex(v: Array) -> Array:
    """Newton's method on the multiplier, as in the script."""
    v = v - v.mean() + 1 / len(v)
    if v.min() >= 0:
        return v
    shift = 0.0
    for _ in range(100):
        rest = v - shift
        positive = rest > 0
        excess = rest[positive].sum() - 1
        if abs(excess) < 1e-10:
            break
        shift += excess / positive.sum()
    return np.maximum(v - shift, 0.0)


def measured(fit: Callable[[Array, Array], None], dtype: type, scale: float, out: Any) -> None:
    """Measure seconds and peak memory of one fit in this process."""
    warnings.simplefilter("ignore")
    sizes = [round(scale * size) for size in (N_SOURCE, N_TARGET, N_FEATURES)]
    X_s = samples(sizes[0], sizes[2], 1).astype(dtype)
    X_t = samples(sizes[1], sizes[2], 2).astype(dtype)
    fit(X_s[:200, :64], X_t[:200, :64])  # loads libraries and starts threads
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    fit(X_s, X_t)
    seconds = time.perf_counter() - began
    above = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    out.put((seconds, above / 2**20))


def in_new_process(fit: Callable[..., None], dtype: type, scale: float) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=measured, args=(fit, dtype, scale, out))
    process.start()
    result: tuple[float, float] = out.get()
    process.join()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all three sizes")
    add_option(parser)
    options = parser.parse_args()
    recorder = Recorder(options.record)
    runs = {
        (name, dtype.__name__): in_new_process(fit, dtype, options.scale)
        for name, fit, dtype in (
            ("bridgehash", product, np.float64),
            ("bridgehash", product, np.float32),
            ("transcription", transcription, np.float64),
        )
    }
    theirs = runs["transcription", "float64"][0]
    for (name, dtype), (seconds, above) in runs.items():
        for column, value in (
            ("seconds", seconds),
            ("times as fast", theirs / seconds),
            ("GiB", above),
        ):
            recorder.add([value], name, dtype, options.scale, column)
        ratio = f"{theirs / seconds:5.1f} x"
        print(f"{name:13s} {dtype}  {seconds:8.2f} s  {ratio}  {above:6.2f} GiB beyond the inputs")
    recorder.write()


if __name__ == "__main__":
    main()
