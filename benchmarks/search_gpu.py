"""Measure exact search on a GPU in queries per second, and compare the results with the CPU.

    python benchmarks/search_gpu.py [--million 1,10] [--bits 64,128,256] [--queries 4096] [--k 100]

Random codes. Each time is the best of five runs, including the transfer of queries and results.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from recorded import Recorder, add_option, record_cells
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import HammingIndex

RUNS = 5
COMPARED = 64  # queries that are also run on the CPU


def best(index: HammingIndex, queries: np.ndarray, k: int) -> float:
    """Return the seconds of the fastest run."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        index.search(queries, k)
        times.append(time.perf_counter() - started)
    return min(times)


def row(n: int, bits: int, n_queries: int, k: int) -> list[str]:
    rng = np.random.default_rng(0)
    codes, queries = (rng.integers(0, 256, (m, bits // 8), np.uint8) for m in (n, n_queries))
    cpu, gpu = (HammingIndex(bits, n_jobs=1, device=where).add(codes) for where in (None, "cuda"))
    few = queries[:COMPARED]
    same = all((a == b).all() for a, b in zip(cpu.search(few, k), gpu.search(few, k), strict=True))
    ours, one, host = best(gpu, queries, k), best(gpu, queries[:1], k), best(cpu, few, k)
    return [
        f"{n:,}",
        str(bits),
        f"{n_queries / ours:,.0f}",
        f"{1e3 * one:.2f} ms",
        f"{COMPARED / host:,.0f}",
        "yes" if same else "NO",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--million", default="1,10")
    parser.add_argument("--bits", default="64,128,256")
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--k", type=int, default=100)
    add_option(parser)
    options = parser.parse_args()
    recorder = Recorder(options.record)
    table = Table("codes", "bits", "q/s", "one query", "CPU, one thread, q/s", "same", box=MARKDOWN)
    for million in map(float, options.million.split(",")):
        for bits in map(int, options.bits.split(",")):
            cells = row(int(million * 1e6), bits, options.queries, options.k)
            table.add_row(*cells)
            record_cells(recorder, cells[:2], ("q/s", "one query", "CPU"), cells[2:5])
    print(torch.cuda.get_device_name())
    Console(width=120).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
