"""What a code is worth: recall of float neighbours by bytes per item, ours and others.

    python benchmarks/quality.py [LINE ...] [--splits 3] [--first-split 0] [--bits 64,128,256]
        [--without OPQ] [--only OPQ] [--record FILE] [--figure FILE]

Lines: cifar, pacs, use, wordllama, pairs, candidates. Needs the data pack ($BRIDGEHASH_DATA, or
../shared/data). One thread. Rows have unit norm; each split draws 500 queries, and 39,500 other
rows, or all, are the items. Everything is learned from the items.

`r@1`, `r@10`, `r@100`: share of the nearest rows by Euclidean distance of the float rows, which is
the order of cosine, among as many results. `class`: share of the first ten results with the class
of the query. `q/s`: queries per second of CPU time, for k = 100, best of three.

* Hamming, real-valued query, corrected: codes of ITQ, searched by `HammingIndex`. "corrected" has
  codes and corrections of `encode_corrected`; "corrected, plain codes" keeps the signs as codes.
* RaBitQ, PQ, OPQ: faiss, `PCAR{bits},RaBitQ` with float queries, and product quantisers of the same
  bytes with distance tables of the float query. These learn from 10,000 rows in ten rounds, the
  rotation of OPQ from 5,000 in eight, which takes most of the time (`--without OPQ`). `--only`
  measures some of these methods and nothing else.
* binary, int8: quantisation as sentence-transformers does it: the signs of the columns, ranked by
  Hamming distance ("binary") or by the float query ("binary, float query"); columns in 255 steps
  between their least and largest value, ranked by the inner product. Their size is that of the row.
  "binary, usearch": the same signs in an HNSW graph of usearch with its defaults, which is
  approximate; bytes are those of the signs, without the graph. Only if usearch is installed.
* pairs: photos of PACS, coded by ITQ on the old model (MobileNet) at 64 bits and frozen; queries of
  the new model (EfficientNet), 200 pairs, as in benchmarks/lasting.py. Neighbours are those of the
  old float rows. "corrected" knows the old rows; "chosen codes" also chooses codes anew.
* candidates: share of the ten best corrected codes among the nearest codes by Hamming distance.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from pairs import Split
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import ATH, ITQ, HammingIndex, UnitRows

Rows = NDArray[Any]
N_QUERIES, N_ITEMS, DEPTH, RUNS = 500, 39_500, 100, 3
CANDIDATES = (300, 1000, 3000, 10_000)
COLUMNS = ("bytes", "r@1", "r@10", "r@100", "class", "q/s")
FAISS = ("PCA + RaBitQ", "PQ", "OPQ")
PACS = ("photo", "cartoon", "sketch")
TITLES = {
    "cifar": "CIFAR-10, GIST 512",
    "pacs": "PACS, EfficientNet 1280",
    "use": "BANKING77, USE 512",
    "wordllama": "BANKING77, WordLlama 256",
}

LINES = (*TITLES, "pairs", "candidates")


class Task(NamedTuple):
    """Items and queries of one split, and the true neighbours of the queries."""

    X: Rows
    queries: Rows
    y: Rows
    y_query: Rows
    near: Rows  # (n_queries, DEPTH)

    def scores(self, found: Rows) -> list[float]:
        """Return recall at 1, 10 and 100, and the precision by class."""
        recalls = [
            float(np.mean([np.isin(a[:k], b[:k]) for a, b in zip(found, self.near, strict=True)]))
            for k in (1, 10, 100)
        ]
        return [*recalls, float((self.y[found[:, :10]] == self.y_query[:, None]).mean())]


class Answer(NamedTuple):
    """A method after training: bytes per item, and a search for the items nearest to queries."""

    n_bytes: float
    search: Callable[[], Rows]


def load(name: str) -> tuple[Rows, Rows]:
    """Return all rows of a data set and their classes."""
    if name == "cifar":
        with np.load(DATA / "cifar10_gist512.npz") as data:
            return data["gist512"], data["y"]
    if name == "pacs":
        with np.load(DATA / "pacs.npz") as data:
            parts = [(data[f"{one}_effnet_lite0"], data[f"{one}_y"]) for one in PACS]
        X, y = zip(*parts, strict=True)
        return np.concatenate(X), np.concatenate(y)
    with np.load(DATA / "external" / "banking77.npz") as data:
        return data[{"use": "use512", "wordllama": "wordllama256"}[name]], data["y"]


def drawn(name: str, seed: int) -> Task:
    """Return one split."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))[: N_QUERIES + N_ITEMS]
    rows, classes = UnitRows().fit_transform(X[order].astype(np.float32)), y[order]
    queries, items = rows[:N_QUERIES], rows[N_QUERIES:]
    near = smallest(-(queries @ items.T), DEPTH)
    return Task(items, queries, classes[N_QUERIES:], classes[:N_QUERIES], near)


def smallest(D: Rows, k: int) -> Rows:
    """Return the columns of the k smallest values per row, smallest first."""
    some = np.argpartition(D, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(D, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def ours(task: Task, bits: int, seed: int) -> Iterator[tuple[str, Answer]]:
    """Codes of ITQ, ranked in four ways."""
    itq = ITQ(bits, random_state=seed).fit(task.X)
    plain, chosen = itq.encode(task.X), itq.encode_corrected(task.X)
    numbers = itq.encode_corrected(task.X, codes=plain).corrections
    codes, H = itq.encode(task.queries), itq.decision_function(task.queries)
    weights = itq.query_weights(task.queries)
    for name, stored, corrections, W in (
        ("Hamming", plain, None, None),
        ("real-valued query", plain, None, H),
        ("corrected, plain codes", plain, numbers, weights),
        ("corrected", chosen.codes, chosen.corrections, weights),
    ):
        index = HammingIndex(bits, n_jobs=1).add(stored, corrections=corrections)
        extra = 0 if corrections is None else 4
        yield (
            name,
            Answer(
                bits / 8 + extra,
                lambda index=index, W=W: index.search(codes, DEPTH, weights=W)[1],
            ),
        )


def of_faiss(task: Task, bits: int, names: Sequence[str]) -> Iterator[tuple[str, Answer]]:
    """RaBitQ and product quantisers, those that are named."""
    import faiss

    faiss.omp_set_num_threads(1)
    d, n_bytes = task.X.shape[1], bits // 8
    rabitq = faiss.index_factory(d, f"PCAR{min(bits, d)},RaBitQ")
    faiss.downcast_index(rabitq.index).qb = 0  # float queries
    rotation = faiss.OPQMatrix(d, n_bytes)
    rotation.niter, rotation.niter_pq_0, rotation.niter_pq = 8, 8, 4
    quantisers = [faiss.IndexPQ(d, n_bytes, 8) for _ in range(2)]
    for each in quantisers:
        each.pq.cp.niter = 10
    for name, index, size, n_rows in (
        ("PCA + RaBitQ", rabitq, faiss.downcast_index(rabitq.index).code_size, len(task.X)),
        ("PQ", quantisers[0], n_bytes, 10_000),
        ("OPQ", faiss.IndexPreTransform(rotation, quantisers[1]), n_bytes, 10_000),
    ):
        if name not in names:
            continue
        if name == "OPQ":
            rotation.train(task.X[:5000])
        index.train(task.X[:n_rows])
        index.add(task.X)
        yield name, Answer(size, lambda index=index: index.search(task.queries, DEPTH)[1])


def of_columns(task: Task) -> Iterator[tuple[str, Answer]]:
    """Quantised columns, without learning."""
    X, queries = task.X, task.queries
    d = X.shape[1]
    signs, query_signs = (np.packbits(rows > 0, axis=1) for rows in (X, queries))
    index = HammingIndex(d, n_jobs=1).add(signs)
    yield "binary", Answer(d / 8, lambda: index.search(query_signs, DEPTH)[1])
    if importlib.util.find_spec("usearch") is not None:
        from usearch.index import Index

        graph = Index(ndim=d, metric="hamming", dtype="b1")
        graph.add(np.arange(len(X)), signs, threads=1)
        yield (
            "binary, usearch",
            Answer(d / 8, lambda: np.asarray(graph.search(query_signs, DEPTH, threads=1).keys)),
        )
    yield (
        "binary, float query",
        Answer(d / 8, lambda: index.search(query_signs, DEPTH, weights=queries)[1]),
    )
    low, high = X.min(axis=0), X.max(axis=0)
    steps = (high - low) / 255
    levels = np.floor((X - low) / np.where(steps > 0, steps, 1)).astype(np.uint8)
    restored = (levels * steps + low).astype(np.float32)
    yield "int8", Answer(d, lambda: smallest(-(queries @ restored.T), DEPTH))


def speed(search: Callable[[], Rows]) -> float:
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        search()
        times.append(time.process_time() - started)
    return N_QUERIES / min(times)


def measured(
    name: str, bits: Iterable[int], seed: int, names: Sequence[str], *, alone: bool
) -> dict[tuple[str, ...], list[float]]:
    """Return the columns of all methods, or of those of faiss alone, by bits and method."""
    task = drawn(name, seed)
    found: dict[tuple[str, ...], list[float]] = {}

    def add(label: str, methods: Iterator[tuple[str, Answer]]) -> None:
        for method, answer in methods:
            rows = answer.search()
            found[label, method] = [answer.n_bytes, *task.scores(rows), speed(answer.search)]

    for each in bits:
        if not alone:
            add(str(each), ours(task, each, seed))
        add(str(each), of_faiss(task, each, names))
    if not alone:
        add("columns", of_columns(task))
    return found


def frozen_pairs(seed: int) -> dict[str, float]:
    """Return recall@10 of frozen codes, for queries of another model."""
    split = Split.drawn("photo", 200, seed)
    old, new = split.catalogue
    itq = ITQ(64, random_state=0).fit(old)
    given = np.column_stack([split.paired, np.arange(200)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ath = ATH.paired(64, random_state=0).fit(
            old, new[split.paired], pairs=given, frozen={"source": itq}
        )
    near = smallest(-(split.queries[0] @ old.T), 10)
    plain, rows = itq.encode(old), split.queries[1]
    codes, H = ath.encode(rows, "target"), ath.decision_function(rows, "target")
    weights = ath.query_weights(rows, "target")
    corrected = ath.encode_corrected(old, "source", codes=plain)
    chosen = ath.encode_corrected(old, "source")
    results = {}
    for name, stored, numbers, W in (
        ("Hamming", plain, None, None),
        ("real-valued query", plain, None, H),
        ("corrected", plain, corrected.corrections, weights),
        ("corrected, chosen codes", chosen.codes, chosen.corrections, weights),
    ):
        index = HammingIndex(64, n_jobs=1).add(stored, corrections=numbers)
        ids = index.search(codes, 10, weights=W)[1]
        shares = [np.isin(a, b).mean() for a, b in zip(near, ids, strict=True)]
        results[name] = float(np.mean(shares))
    return results


def among_candidates(name: str, bits: int, seed: int) -> list[float]:
    """Return the share of the ten best codes that is among the nearest codes, by their number."""
    task = drawn(name, seed)
    itq = ITQ(bits, random_state=seed).fit(task.X)
    stored, codes = itq.encode_corrected(task.X), itq.encode(task.queries)
    index = HammingIndex(bits, n_jobs=1).add(stored.codes, corrections=stored.corrections)
    best = index.search(codes, 10, weights=itq.query_weights(task.queries))[1]
    near = index.search(codes, max(CANDIDATES))[1]
    pairs = list(zip(best, near, strict=True))
    return [float(np.mean([np.isin(a, b[:n]) for a, b in pairs])) for n in CANDIDATES]


def figure(record: Path, path: Path) -> None:
    """Draw recall@10 by bytes per item, from a record."""
    import matplotlib.pyplot as plt

    runs = json.loads(record.read_text(encoding="utf-8"))
    rows = {tuple(row["labels"]): row["values"] for run in runs for row in run["rows"]}
    shown = ("corrected", "real-valued query", "Hamming", "PCA + RaBitQ", "PQ", "OPQ")
    names = [name for name in TITLES if any(name in labels for labels in rows)]
    drawing, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.2), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for method in shown:
            points = sorted(
                (np.mean(values), np.mean(rows[(*labels[:-1], "r@10")]))
                for labels, values in rows.items()
                if labels[0] == name and labels[2:] == (method, "bytes")
            )
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", markersize=4, label=method)
        axis.set(title=TITLES[name], xlabel="bytes per item", ylim=(0, 1))
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("recall@10")
    axes[0][-1].legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", nargs="*", metavar="LINE", help=", ".join(LINES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--bits", default="64,128,256")
    parser.add_argument("--without", default="", help="methods of faiss to leave out, such as OPQ")
    parser.add_argument("--only", default="", help="methods of faiss to measure, and no others")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw a plot of the record")
    add_option(parser)
    options = parser.parse_args()
    if options.figure and not options.record:
        parser.error("--figure draws a record; give --record FILE, too")
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    seeds = range(options.first_split, options.first_split + options.splits)
    files = ("cifar10_gist512.npz", "pacs.npz", "external/banking77.npz")
    recorder = Recorder(options.record, seeds, files)
    only, without = options.only.split(","), options.without.split(",")
    names = [name for name in FAISS if name not in without and (name in only or not options.only)]
    bits = [int(each) for each in options.bits.split(",")]
    console = Console(width=None if os.isatty(1) else 120)
    for line in options.lines or LINES:
        if line == "pairs":
            runs = [frozen_pairs(seed) for seed in seeds]
            table = Table("frozen codes, 64 bits, 200 pairs", "recall@10", box=MARKDOWN)
            for name in runs[0]:
                values = [run[name] for run in runs]
                recorder.add(values, line, name, "r@10")
                table.add_row(name, f"{np.mean(values):.3f} ± {np.std(values):.3f}")
        elif line == "candidates":
            table = Table("data", "bits", *(f"{n:,}" for n in CANDIDATES), box=MARKDOWN)
            for name, each in itertools.product(TITLES, bits):
                shares = np.transpose([among_candidates(name, each, seed) for seed in seeds])
                for n, values in zip(CANDIDATES, shares, strict=True):
                    recorder.add(values, line, name, each, n)
                table.add_row(name, str(each), *(f"{m:.3f}" for m in shares.mean(axis=1)))
        else:
            alone = bool(options.only)
            splits = [measured(line, bits, seed, names, alone=alone) for seed in seeds]
            table = Table("bits", "method", *COLUMNS, title=TITLES[line], box=MARKDOWN)
            for labels in splits[0]:
                values = np.array([split[labels] for split in splits])
                for column, each in zip(COLUMNS, values.T, strict=True):
                    recorder.add(each, line, *labels, column)
                means = values.mean(axis=0)
                cells = [f"{means[0]:.0f}", *(f"{m:.3f}" for m in means[1:5]), f"{means[5]:,.0f}"]
                table.add_row(*labels, *cells)
        console.print(table)
    recorder.write()
    if options.figure:
        figure(options.record, options.figure)


if __name__ == "__main__":
    main()
