"""Codes on a server: how fast they load, how fast and how well they are found.

    python benchmarks/engines.py --engine postgresql://localhost/shop

makes a table `bridgehash_benchmark` of clustered codes of 64 bits (with --random, of uniform ones),
and drops it at the end.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

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
        print(f"load          {asked.codes / (loaded - started):10.0f} codes/s")
        index.finish()
        print(f"finish        {perf_counter() - loaded:10.1f} s")
        index.search(queries[:1])
        started = perf_counter()
        distances, found = index.search(queries)
        print(f"search        {asked.queries / (perf_counter() - started):10.1f} queries/s")
        print(f"recall at 10  {np.mean(distances <= true[:, -1:]):10.3f}")
        print(f"same ids      {np.mean(found == ids):10.3f}")
        index.drop()


if __name__ == "__main__":
    main()
