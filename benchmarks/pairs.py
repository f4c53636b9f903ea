"""Search an old catalogue with embeddings of a new model, given known pairs; ten random splits.

    python benchmarks/pairs.py [--pairs 50,200,800] [--bits 64] [--splits 10]
        [--jobs 2] [--record FILE]

Needs the data pack ($BRIDGEHASH_DATA, or ../shared/data). Photos of PACS: 500 are queries, the
others are the catalogue, encoded from the embeddings of the old model (MobileNet). Queries are
embeddings of the new model (EfficientNet). For some rows of the catalogue both are known. "pairs
only": the new model has embedded no other rows; "all rows": it has embedded the whole catalogue,
but only the pairs are known. `recall` is the share of the ten nearest rows by the old model's
cosine among the first ten by Hamming distance, `map` is mean_average_precision by class; ties count
in expectation; mean ± standard deviation over the splits. `same model` encodes catalogue and
queries with ITQ of the old model, without a map.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per split: splits run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import ATH, ITQ, Procrustes, RidgeMap, UnitRows
from bridgehash.metrics import distance_histogram, mean_average_precision, recall_of_neighbors

TASKS = {  # file, rows, old model, new model
    "photo": ("pacs.npz", "photo", "mobilenet_v1", "effnet_lite0"),
    "photo-back": ("pacs.npz", "photo", "effnet_lite0", "mobilenet_v1"),
    "cartoon": ("pacs.npz", "cartoon", "mobilenet_v1", "effnet_lite0"),
    "sketch": ("pacs.npz", "sketch", "mobilenet_v1", "effnet_lite0"),
    "caltech": ("office_caltech10.npz", "caltech10", "mobilenet_v1", "effnet_lite2"),
}
N_QUERIES, N_NEAREST = 500, 10
Codes = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # of catalogue and queries
METHODS: dict[str, Callable[..., Any]] = {
    "ridge-map": RidgeMap,
    "procrustes": Procrustes,
    "ath-paired": ATH.paired,
}
SAME = "same model"
CASES = ("pairs only", "all rows")


@dataclass(frozen=True)
class Split:
    """Catalogue and queries in both feature spaces, and the paired rows of the catalogue."""

    catalogue: tuple[NDArray[Any], NDArray[Any]]  # by the old model, by the new model
    queries: tuple[NDArray[Any], NDArray[Any]]
    classes: tuple[NDArray[Any], NDArray[Any]]  # of catalogue and queries
    paired: NDArray[np.intp]

    @classmethod
    def drawn(cls, task: str, n_pairs: int, seed: int) -> Split:
        file, rows, old, new = TASKS[task]
        with np.load(DATA / file) as data:
            X = [
                UnitRows().fit_transform(data[f"{rows}_{name}"].astype(float))
                for name in (old, new)
            ]
            y = data[f"{rows}_y"]
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        q, c = order[:N_QUERIES], order[N_QUERIES:]
        paired = rng.permutation(len(c))[:n_pairs]
        return cls((X[0][c], X[1][c]), (X[0][q], X[1][q]), (y[c], y[q]), paired)

    def fitted(self, hasher: Any, case: str) -> Codes:
        """Return the codes of a method that learns from the pairs."""
        old, new = self.catalogue
        rows = self.paired
        if case == "all rows":
            hasher.fit(old, new, pairs=np.column_stack([rows, rows]))
        else:
            pairs = np.column_stack([rows, np.arange(len(rows))])
            hasher.fit(old, new[rows], pairs=pairs)
        return hasher.encode(old, "source"), hasher.encode(self.queries[1], "target")

    def same_model(self, bits: int) -> Codes:
        """Return the codes of ITQ if the old model embeds the queries too."""
        itq = ITQ(bits, random_state=0).fit(self.catalogue[0])
        return itq.encode(self.catalogue[0]), itq.encode(self.queries[0])

    def scores(self, codes: Codes, bits: int) -> tuple[float, float]:
        """Return recall and map, both from 0 to 1."""
        pair, classes = codes[::-1], self.classes[::-1]  # queries first
        old = self.queries[0], self.catalogue[0]
        return (
            recall_of_neighbors(*pair, *old, n_bits=bits, k=N_NEAREST),
            mean_average_precision(distance_histogram(*pair, *classes, n_bits=bits)),
        )


def scores(
    task: str, case: str, method: str, n_pairs: int, bits: int, seed: int
) -> tuple[float, float]:
    """Return recall and map of one method on one split."""
    split = Split.drawn(task, n_pairs, seed)
    if method == SAME:
        return split.scores(split.same_model(bits), bits)
    hasher = METHODS[method](bits, random_state=0)
    return split.scores(split.fitted(hasher, case), bits)


def cells(values: NDArray[np.float64]) -> tuple[str, str]:
    (recall, map_), (spread, map_spread) = values.mean(axis=0), values.std(axis=0)
    return f"{recall:.3f} ± {spread:.3f}", f"{100 * map_:.1f} ± {100 * map_spread:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default="photo", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--methods", default=",".join((*METHODS, SAME)))
    parser.add_argument("--pairs", default="50,200,800")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    seeds = range(options.first_split, options.first_split + options.splits)
    counts = [int(n) for n in options.pairs.split(",")]
    tasks = options.tasks.split(",")
    recorder = Recorder(options.record, seeds, (TASKS[task][0] for task in tasks))
    for task in tasks:
        title = f"{task}, {options.bits} bits, {len(seeds)} splits"
        columns = [f"{score}, {n}" for n in counts for score in ("recall", "map")]
        table = Table("rows of the new model", "method", *columns, title=title, box=MARKDOWN)
        methods = options.methods.split(",")
        rows = [(case, method) for case in CASES for method in methods if method != SAME]
        for case, method in [*rows, *([("-", SAME)] if SAME in methods else [])]:
            row: list[str] = []
            for n in counts:
                made = (
                    delayed(scores)(task, case, method, n, options.bits, seed) for seed in seeds
                )
                values = np.array(Parallel(options.jobs)(made))
                row += cells(values)
                labels = [task, options.bits, n, method, *([case] if case in CASES else [])]
                recorder.add(values[:, 0], *labels, "recall")
                recorder.add(100 * values[:, 1], *labels, "map")
            table.add_row(case, method, *row)
        Console(width=140).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
