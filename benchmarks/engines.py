"""Measure the load, the search speed and the recall of codes on a server.

    python benchmarks/engines.py --engine postgresql://localhost/shop

Creates a table `bridgehash_benchmark` of clustered codes of 64 bits (--random: uniform codes), and
drops it at the end.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from recorded import Recorder, add_option

from bridgehash.index import HammingIndex
from bridgehash.index.servers import create_index

NAME = "bridgehash_benchmark"
N_BITS, N_CENTRES, NOISE = 64, 2000, 0.1
BATCH = 100_000


def clustered(rng: np.random.Generator, n: int, centres: np.ndarray, noise: float) -> np.ndarray:
    flipped = rng.random((n, N_BITS)) < noise
    return np.packbits(centres[rng.integers(0, N_CENTRES, n)] ^ flipped, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--codes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--approximate", action="store_true")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--ef-search", type=int, help="of HNSW, if not its default")
    add_option(parser)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    centres = rng.random((N_CENTRES, N_BITS)) < 0.5
    noise = 0.5 if asked.random else NOISE
    codes = clustered(rng, asked.codes, centres, noise)
    queries = clustered(rng, asked.queries, centres, noise)
    true, ids = HammingIndex(N_BITS).add(codes).search(queries)
    with create_index(
        asked.engine,
        NAME,
        N_BITS,
        search="approximate" if asked.approximate else "exact",
        replace=True,
    ) as index:
        if asked.ef_search is not None:
            index.ef_search = asked.ef_search
        started = perf_counter()
        for start in range(0, asked.codes, BATCH):
            part = codes[start : start + BATCH]
            index.add(part, np.arange(start, start + len(part)))
        loaded = perf_counter()
        load = asked.codes / (loaded - started)
        print(f"load          {load:10.0f} codes/s")
        index.finish()
        finish = perf_counter() - loaded
        print(f"finish        {finish:10.1f} s")
        index.search(queries[:1])
        started = perf_counter()
        distances, found = index.search(queries)
        speed = asked.queries / (perf_counter() - started)
        found_share = float(np.mean(distances <= true[:, -1:]))
        print(f"search        {speed:10.1f} queries/s")
        print(f"recall at 10  {found_share:10.3f}")
        print(f"same ids      {np.mean(found == ids):10.3f}")
        index.drop()
    options = [
        "approximate" if asked.approximate else "exact",
        *(["random"] if asked.random else []),
        *([f"ef {asked.ef_search}"] if asked.ef_search is not None else []),
    ]
    recorder = Recorder(asked.record)
    for name, value in (
        ("load", round(load, -3)),
        ("finish", finish),
        ("queries/s", speed),
        ("recall", found_share),
    ):
        recorder.add([value], asked.engine.partition(":")[0], f"{asked.codes:,}", *options, name)
    recorder.write()


if __name__ == "__main__":
    main()
