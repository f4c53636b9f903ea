"""Compare search with faiss.

    python benchmarks/search.py [--million 1,10] [--bits 64,128,256] [--queries 512] [--k 100]

Speeds are queries per second of CPU time, best of five runs; with threads, of wall time. Exact
search: random codes, one thread. `ratio` compares with the faster of the two modes of faiss
(`use_heap`); `bound` is the share of the speed of the same scan if it selects no code. Ids and
distances are compared with those of faiss. With weights: the same codes with random corrections and
real-valued queries, all scored; `of Hamming` is the time as a multiple of the Hamming scan, `of
faiss` the speed as a multiple of the faster mode of its Hamming scan, timed in turns. Approximate
search: codes of a mixture of 500 Gaussians by random hyperplanes, recall of the ten nearest on
separate queries; plain faiss searches the same number of the same number of lists.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from recorded import Recorder, add_option, record_cells
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash.codes import pack
from bridgehash.index import HammingIndex, sliced_kernel
from bridgehash.index.state import as_words

RUNS = 5
RECALL = 0.99
CONSOLE = Console(width=None if os.isatty(1) else 120)
FIRST_SEARCH = """
import time
from bridgehash.index import HammingIndex
index = HammingIndex(64).add([[0] * 8] * 1000)
started = time.perf_counter()
index.search([[1] * 8])
print(time.perf_counter() - started)
"""


def best(
    work: Callable[[], object], clock: Callable[[], float] = time.process_time, runs: int = RUNS
) -> float:
    """Return the seconds of the fastest run."""
    times = []
    for _ in range(runs):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)


def random_codes(n: int, bits: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, bits // 8), dtype=np.uint8)


def without_selection(words: Any, queries: Any, bits: int) -> None:
    """Scan with limits that no code is below: the time that no selection can be below."""
    n = len(queries)
    limits, held, below = (np.zeros(n, np.int64) for _ in range(3))
    counts, rows = np.zeros((n, bits + 2), np.int64), np.empty((n, 1024), np.int64)
    scan = sliced_kernel.scan_tiles
    scan(words, queries, 1, limits, counts, rows.astype(np.uint16), rows, held, below, 0)


def exact_row(n: int, bits: int, n_queries: int, k: int) -> list[str]:
    import faiss

    codes, queries = random_codes(n, bits, 0), random_codes(n_queries, bits, 1)
    index = HammingIndex(bits, n_jobs=1).add(codes)
    index.search(queries[:1], k)  # compiles, or reads what was compiled before
    ours = best(lambda: index.search(queries, k))
    words = np.ascontiguousarray(as_words(queries).T)
    bound = best(lambda: without_selection(index._state.words, words, bits))
    D, ids = index.search(queries, k)
    theirs, same = [], True
    for heap in (True, False):
        flat = faiss.IndexBinaryFlat(bits)
        flat.add(codes)
        flat.use_heap = heap
        theirs.append(best(lambda flat=flat: flat.search(queries, k)))
        their_D, their_ids = flat.search(queries, k)
        same &= bool((their_D == D).all() and (their_ids == ids).all())
    one = best(lambda: index.search(queries[:1], k))
    return [
        f"{n:,}",
        str(bits),
        *(f"{n_queries / seconds:,.0f}" for seconds in (ours, *theirs)),
        f"{min(theirs) / ours:.1f}",
        f"{bound / ours:.0%}",
        f"{1e3 * one:.2f} ms",
        "yes" if same else "NO",
    ]


def exact(
    millions: list[float], lengths: list[int], n_queries: int, k: int, recorder: Recorder
) -> None:
    columns = ("codes", "bits", "q/s", "faiss heap", "faiss count", "ratio", "bound", "one", "same")
    table = Table(*columns, box=MARKDOWN)
    for million in millions:
        for bits in lengths if million <= 1 else lengths[:1]:
            cells = exact_row(int(million * 1e6), bits, n_queries, k)
            table.add_row(*cells)
            record_cells(recorder, cells[:2], columns[2:-1], cells[2:-1])
    CONSOLE.print(table)


def weighted_row(n: int, bits: int, n_queries: int, k: int) -> list[str]:
    import faiss

    rng = np.random.default_rng(2)
    codes, queries = random_codes(n, bits, 0), random_codes(n_queries, bits, 1)
    lengths = np.exp(0.2 * rng.normal(size=n))
    slopes = 2.5 * lengths * (1 + 0.03 * rng.normal(size=n))
    corrections = np.column_stack([lengths**2, slopes]).astype(np.float16)
    weights = rng.normal(size=(n_queries, bits)) / bits**0.5
    index = HammingIndex(bits, n_jobs=1).add(codes, corrections=corrections)
    flats = [faiss.IndexBinaryFlat(bits) for _ in range(2)]
    for flat, heap in zip(flats, (True, False), strict=True):
        flat.add(codes)
        flat.use_heap = heap
    works: list[Callable[[], object]] = [
        lambda: index.search(queries, k, weights=weights),
        lambda: index.search(queries, k),
        *(lambda flat=flat: flat.search(queries, k) for flat in flats),
        lambda: index.search(queries[:1], k, weights=weights[:1]),
    ]
    index.search(queries[:1], k, weights=weights[:1])  # compiles
    turns = [[best(work, runs=1) for work in works] for _ in range(RUNS)]
    ours, hamming, *theirs, one = np.min(turns, axis=0)
    return [
        f"{n:,}",
        str(bits),
        f"{n_queries / ours:,.0f}",
        f"{ours / hamming:.2f}",
        f"{min(theirs) / ours:.2f}",
        f"{1e3 * one:.2f} ms",
    ]


def weighted(lengths: list[int], n_queries: int, k: int, recorder: Recorder) -> None:
    columns = ("codes", "bits", "q/s", "of Hamming", "of faiss", "one")
    table = Table(*columns, box=MARKDOWN)
    for bits in lengths:
        cells = weighted_row(1_000_000, bits, n_queries, k)
        table.add_row(*cells)
        record_cells(recorder, ["weights", *cells[:2]], columns[2:], cells[2:])
    CONSOLE.print("with weights and corrections, one thread")
    CONSOLE.print(table)


def threads(k: int) -> None:
    codes, queries = random_codes(1_000_000, 64, 0), random_codes(4096, 64, 1)
    one, two = (
        best(lambda index=index: index.search(queries, k), time.perf_counter)
        for index in (HammingIndex(64, n_jobs).add(codes) for n_jobs in (1, 2))
    )
    CONSOLE.print(
        f"two threads against one, 1,000,000 x 64 bits: {one / two:.2f} "
        f"({len(queries) / two:,.0f} and {len(queries) / one:,.0f} q/s)"
    )


def mixture(n: int, rng: np.random.Generator, centres: np.ndarray, W: np.ndarray) -> np.ndarray:
    X = centres[rng.integers(len(centres), size=n)] + rng.normal(size=(n, len(W)))
    return pack(X.astype(np.float32) @ W)


def approximate(recorder: Recorder) -> None:
    import faiss

    rng = np.random.default_rng(0)
    shape = 1.5 * rng.normal(size=(500, 32)), rng.normal(size=(32, 64)).astype(np.float32)
    codes, queries = (mixture(n, rng, *shape) for n in (1_000_000, 4096))
    exact = HammingIndex(64, n_jobs=1).add(codes).search(queries, 10)[0][:, -1:]

    def recall(answer: Any) -> float:
        return float((answer[0][:, :10] <= exact).mean())

    index = HammingIndex(64, n_jobs=1, search="approximate", recall=RECALL).add(codes)
    lists = index.lists
    assert lists is not None
    quantizer = faiss.IndexBinaryFlat(64)
    plain = faiss.IndexBinaryIVF(quantizer, 64, lists.n_lists)
    plain.train(codes[: 40 * lists.n_lists])
    plain.add(codes)
    plain.nprobe = lists.n_probe
    table = Table("k", "q/s", "plain faiss", "ratio", "recall", "faiss's", "lists", box=MARKDOWN)
    for k in (10, 100):
        ours, theirs = (best(lambda one=one, k=k: one.search(queries, k)) for one in (index, plain))
        speeds = [f"{len(queries) / seconds:,.0f}" for seconds in (ours, theirs)]
        recalls = [f"{recall(one.search(queries, k)):.3f}" for one in (index, plain)]
        probes = f"{lists.n_probe} of {lists.n_lists}"
        cells = [str(k), *speeds, f"{theirs / ours:.2f}", *recalls]
        table.add_row(*cells, probes)
        columns = ("q/s", "plain faiss", "ratio", "recall", "faiss's recall")
        record_cells(recorder, ["approximate", str(k)], columns, cells[1:])
    CONSOLE.print("approximate, 1,000,000 x 64 bits, one thread")
    CONSOLE.print(table)


def memory() -> None:
    codes, ids = random_codes(10_000_000, 64, 0), np.arange(10_000_000)
    tracemalloc.start()
    index = HammingIndex(64).add(codes, ids)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    CONSOLE.print(f"memory of {len(index):,} codes of 64 bits with ids: {held / 1e6:.0f} MB")


def compilation() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = (
            float(
                subprocess.run(
                    [sys.executable, "-c", FIRST_SEARCH],
                    env=os.environ | {"NUMBA_CACHE_DIR": folder},
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(2)
        )
    CONSOLE.print(f"first search ever {first:.1f} s, of any later process {second:.2f} s")


def main() -> None:
    import faiss

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--million", default="1,10")
    parser.add_argument("--bits", default="64,128,256")
    parser.add_argument("--queries", type=int, default=512)
    parser.add_argument("--k", type=int, default=100)
    add_option(parser)
    options = parser.parse_args()
    recorder = Recorder(options.record)
    faiss.omp_set_num_threads(1)
    millions = [float(one) for one in options.million.split(",")]
    lengths = [int(one) for one in options.bits.split(",")]
    exact(millions, lengths, options.queries, options.k, recorder)
    weighted(lengths, options.queries, options.k, recorder)
    threads(options.k)
    approximate(recorder)
    memory()
    compilation()
    recorder.write()


if __name__ == "__main__":
    main()
