"""Exact search against faiss: queries a second of one thread, ids and distances compared.

    python benchmarks/search.py [--million 1,10] [--bits 64,128,256] [--queries 512] [--k 100]

Random codes. Every figure is the best of five runs, in CPU seconds of one process, both sides in
one run; `ratio` is against the faster of faiss's two modes (`use_heap`). `bound` is the share of
what the same tiles reach when distances are made and nothing is selected.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash.index import HammingIndex
from bridgehash.index.kernel import distances_only

RUNS = 5


def best(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest run."""
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def row(n: int, bits: int, n_queries: int, k: int) -> list[str]:
    import faiss

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (n_queries, bits // 8), dtype=np.uint8)
    index = HammingIndex(bits, n_jobs=1).add(codes)
    index.search(queries[:1], k)  # compiles, or reads what was compiled before
    ours = best(lambda: index.search(queries, k))
    bound = best(lambda: distances_only(index._state.words, index._words(queries).T.copy(), bits))
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
        f"{n_queries / ours:,.0f}",
        f"{n_queries / theirs[0]:,.0f}",
        f"{n_queries / theirs[1]:,.0f}",
        f"{min(theirs) / ours:.1f}",
        f"{bound / ours:.0%}",
        f"{1e3 * one:.2f} ms",
        "yes" if same else "NO",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--million", default="1")
    parser.add_argument("--bits", default="64,128,256")
    parser.add_argument("--queries", type=int, default=512)
    parser.add_argument("--k", type=int, default=100)
    options = parser.parse_args()
    columns = ("codes", "bits", "q/s", "faiss heap", "faiss count", "ratio", "bound", "one", "same")
    table = Table(*columns, box=MARKDOWN)
    for million in map(float, options.million.split(",")):
        for bits in map(int, options.bits.split(",")):
            table.add_row(*row(int(million * 1e6), bits, options.queries, options.k))
    Console(width=None if os.isatty(1) else 120).print(table)


if __name__ == "__main__":
    main()
