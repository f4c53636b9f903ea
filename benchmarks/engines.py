"""Measure the load, the search speed and the recall of codes on a server.

    python benchmarks/engines.py --engine postgresql://localhost/shop

Creates a table `bridgehash_benchmark` of clustered codes of 64 bits (--random: uniform codes), and
drops it at the end. With --weights, codes have corrections, and searches rank by weights: with the
default number of candidates, and with the number that is chosen for a recall of 0.95. Their recall
is that of the ten best scores.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

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


def weighted(rng: np.random.Generator, codes: np.ndarray, queries: np.ndarray) -> tuple[Any, Any]:
    """Return corrections of codes, and weights of queries: Gaussian lengths."""
    lengths = rng.normal(1, 0.1, len(codes))
    signs = 2.0 * np.unpackbits(queries, axis=1) - 1
    W = signs * np.abs(rng.normal(size=signs.shape)) / N_BITS
    return np.column_stack([lengths**2, 2 * lengths]).astype(np.float16), W


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--codes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--approximate", action="store_true")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--ef-search", type=int, help="of HNSW, if not its default")
    add_option(parser)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    centres = rng.random((N_CENTRES, N_BITS)) < 0.5
    noise = 0.5 if asked.random else NOISE
    codes = clustered(rng, asked.codes, centres, noise)
    queries = clustered(rng, asked.queries, centres, noise)
    corrections, W = weighted(rng, codes, queries) if asked.weights else (None, None)
    local = HammingIndex(N_BITS).add(codes, corrections=corrections)
    true, ids = local.search(queries, weights=W)
    with create_index(
        asked.engine,
        NAME,
        N_BITS,
        search="approximate" if asked.approximate else "exact",
        corrections=asked.weights,
        replace=True,
    ) as index:
        if asked.ef_search is not None:
            index.ef_search = asked.ef_search
        started = perf_counter()
        for start in range(0, asked.codes, BATCH):
            part = codes[start : start + BATCH]
            numbers = None if corrections is None else corrections[start : start + BATCH]
            index.add(part, np.arange(start, start + len(part)), corrections=numbers)
        loaded = perf_counter()
        load = asked.codes / (loaded - started)
        print(f"load          {load:10.0f} codes/s")
        index.finish()
        finish = perf_counter() - loaded
        print(f"finish        {finish:10.1f} s")
        searches: dict[str, tuple[float, float]] = {}
        for name, more in (("", {}), ("auto", {"n_candidates": "auto"}))[: 1 + asked.weights]:
            wanted: Any = {"weights": W, **more}
            index.search(queries, **wanted)  # chooses the number of candidates
            started = perf_counter()
            distances, found = index.search(queries, **wanted)
            speed = asked.queries / (perf_counter() - started)
            searches[name] = speed, float(np.mean(distances <= true[:, -1:]))
            print(f"search        {speed:10.1f} queries/s {name}")
            print(f"recall at 10  {searches[name][1]:10.3f}")
            print(f"same ids      {np.mean(found == ids):10.3f}")
        if asked.weights:
            print(f"candidates    {next(iter(index._depths.values())):10,}")
        index.drop()
    options = [
        "approximate" if asked.approximate else "exact",
        *(["random"] if asked.random else []),
        *(["weights"] if asked.weights else []),
        *([f"ef {asked.ef_search}"] if asked.ef_search is not None else []),
    ]
    recorder = Recorder(asked.record)
    for more, (speed, found_share) in searches.items():
        labels = [
            asked.engine.partition(":")[0],
            f"{asked.codes:,}",
            *options,
            *filter(None, [more]),
        ]
        for name, value in (
            ("load", round(load, -3)),
            ("finish", finish),
            ("queries/s", speed),
            ("recall", found_share),
        ):
            recorder.add([value], *labels, name)
    recorder.write()


if __name__ == "__main__":
    main()
