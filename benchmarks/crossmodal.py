"""Cross-modal retrieval on two public data sets, by the protocols of published results.

    python benchmarks/crossmodal.py [--tasks wiki,uci] [--methods cca-itq,cmfh,fsh,scm,scratch]
        [--bits 16,32,64,128] [--seeds 3] [--first-split SEED] [--record FILE]

Needs `external/wiki.npz` and `external/uci_digits.npz` in the data pack ($BRIDGEHASH_DATA, or
../shared/data). Rows are paired; labels are given to the methods that use them.

wiki: images (SIFT bag of words) and texts (topics) of Wikipedia, 2,173 training items, 693 queries.
`map` is mean_average_precision over all training items; ties count in expectation.
uci: handwritten digits, Fourier and Karhunen-Loève coefficients, 1,500 training items, 500
queries. `map` is the mean precision at the ranks of the relevant items among the first 100; ties
are in the order of the training items, as in the code of FSH.

The training items are encoded by the hash function of the other side (`encoded`), or have the codes
that the method learned for them (`learned`). `1 → 2`: queries of the first feature space.
Mean over seeds of the method; the split is fixed. With --first-split the queries are a random
fifth of the training items instead, for choosing settings.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash.codes import hamming
from bridgehash.metrics import distance_histogram, mean_average_precision
from bridgehash.registry import find_method

TASKS = {  # file, first and second feature space
    "wiki": ("external/wiki.npz", "sift128", "lda10"),
    "uci": ("external/uci_digits.npz", "fourier76", "karhunen64"),
}
METHODS = "cca-itq,cmfh,fsh,scm,scratch"
SCORES = ("encoded, 1 → 2", "encoded, 2 → 1", "learned, 1 → 2", "learned, 2 → 1")
N_RANKS = 100
Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Items:
    """Items in two feature spaces."""

    X: NDArray[Any]
    Y: NDArray[Any]
    y: NDArray[np.int64]

    def __getitem__(self, rows: NDArray[np.intp]) -> Items:
        return Items(self.X[rows], self.Y[rows], self.y[rows])


def load(task: str, split: int | None) -> tuple[Items, Items]:
    """Return training items and queries."""
    file, first, second = TASKS[task]
    with np.load(DATA / file) as data:
        train, test = (
            Items(
                data[f"{part}_{first}"].astype(float),
                data[f"{part}_{second}"].astype(float),
                data[f"{part}_y"],
            )
            for part in ("train", "test")
        )
    if split is None:
        return train, test
    order = np.random.default_rng(split).permutation(len(train.y))
    n = len(order) // 5
    return train[order[n:]], train[order[:n]]


def mean_precision(task: str, queries: Codes, items: Codes, test: Items, train: Items) -> float:
    """Return the score of a task."""
    if task == "wiki":
        n_bits = 8 * items.shape[1]
        return mean_average_precision(
            distance_histogram(queries, items, test.y, train.y, n_bits=n_bits)
        )
    first = np.argsort(hamming(queries, items), axis=1, kind="stable")[:, :N_RANKS]
    relevant = train.y[first] == test.y[:, None]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, N_RANKS + 1)
    return float(((precision * relevant).sum(axis=1) / np.maximum(relevant.sum(axis=1), 1)).mean())


def scores(task: str, method: str, n_bits: int, seed: int, split: int | None) -> list[float]:
    """Return the scores of one fit in the order of SCORES; NaN if no codes are learned."""
    train, test = load(task, split)
    rows = np.arange(len(train.y))
    model = find_method(method).prepared(n_bits, seed)
    given = {"y_source": train.y, "y_target": train.y, "pairs": np.column_stack([rows, rows])}
    model.fit(train.X, train.Y, **{name: given[name] for name in model.used_inputs()})
    queries = model.encode(test.X, "source"), model.encode(test.Y, "target")
    items = [model.encode(train.Y, "target"), model.encode(train.X, "source")]
    items += 2 * [getattr(model, "codes_", None)]
    return [
        np.nan if codes is None else mean_precision(task, queries[i % 2], codes, test, train)
        for i, codes in enumerate(items)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--bits", default="16,32,64,128")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-split", type=int, help="seed of the first random split")
    add_option(parser)
    options = parser.parse_args()
    if not (DATA / "external").is_dir():
        parser.exit(2, f"Data pack not found: {DATA / 'external'}; set BRIDGEHASH_DATA\n")
    seeds = range(options.first_split or 0, (options.first_split or 0) + options.seeds)
    tasks = options.tasks.split(",")
    recorder = Recorder(options.record, seeds, (TASKS[task][0] for task in tasks))
    for task in tasks:
        table = Table("method", "bits", *SCORES, title=f"{task}, map", box=MARKDOWN)
        for method in options.methods.split(","):
            for n_bits in map(int, options.bits.split(",")):
                values = np.array(
                    [
                        scores(task, method, n_bits, s, None if options.first_split is None else s)
                        for s in seeds
                    ]
                )
                for column, score in zip(values.T, SCORES, strict=True):
                    if np.isfinite(column).all():
                        recorder.add(column, task, method, n_bits, score)
                means = [f"{mean:.3f}" if np.isfinite(mean) else "" for mean in values.mean(axis=0)]
                table.add_row(method, str(n_bits), *means)
        Console(width=120).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
