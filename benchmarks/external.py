"""Score ATH on public data by the protocols of the papers that report on them.

    python benchmarks/external.py [--tables wiki,mfeat,snare,scgem,banking77] [--methods ATH_K,...]
        [--bits 64] [--splits 3] [--first-split 0] [--jobs 2]
        [--record docs/results/records/external.json]

Needs external/*.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data). Presets of ATH with
default settings; a seed draws rotations, anchors, the order of shuffled rows and random pairs.
Databases are encoded by the hash functions unless a protocol says otherwise. `QUERY -> DATABASE`
names the features. Scores are fractions, mean ± standard deviation over the seeds:

* labels: the labels of all training rows are known, pairs are not used. `map` is
  mean_average_precision of the test rows over the training rows, ties in expectation. A kernel
  with many anchors reproduces the labels of rows that it has seen, so this is close to a database
  of learned codes.
* learned codes: the fit of "labels", but the database holds the codes that the fit assigned to its
  training rows, from their labels (`training_codes_`).
* labels of half: only a random half of the training rows is seen, with labels; the database is the
  other half, so no label of the database is known.
* pairs: all training rows are known pairs without labels. `map@100` counts the first 100.
* both views: the fit of "pairs", but each item of the database is encoded from both its rows
  (`encode_both`), and the topics are the source.
* unpaired: no labels and no pairs, the rows of the second view are shuffled. FOSCTTM and accuracy
  of the labels of the five nearest rows of the other view (mean of both directions), between codes
  (Hamming) and between projections (before the sign, Euclidean).
* migration: the database is encoded by the old model, queries come from the new one, random pairs
  of training rows are known. `recall@10` of the ten nearest rows by the old model's cosine.

Rows with an origin are published figures, from bridgehash/bench/paper/external.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per seed: seeds run in parallel
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from recorded import DATA, ROOT, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from bridgehash import (
    ATH,
    BridgeWarning,
    foscttm,
    label_transfer_accuracy,
    recall_of_neighbors,
)
from bridgehash.datasets import DATASETS, PairedTask, TaskSpec, parse_task
from bridgehash.metrics import distance_histogram, mean_average_precision

METHODS: dict[str, Callable[..., ATH]] = {
    "ATH_S": ATH.supervised,
    "ATH_K": ATH.kernel,
    "ATH paired": ATH.paired,
    "ATH structural": ATH.structural,
}
Scores = dict[str, float]  # by metric and direction
Codes = NDArray[np.uint8]
PUBLISHED = ROOT / "bridgehash" / "bench" / "paper" / "external.csv"


def by_labels(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
    """Fit with the labels of both views; search in both directions, or once if they are one."""
    ath.fit(task.X_train, task.Z_train, y_source=task.y_train, y_target=task.y_train)
    return retrieval(spec, task, ath)


def by_learned_codes(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
    """Fit with the labels of both views; search the codes that the fit assigned."""
    ath.fit(task.X_train, task.Z_train, y_source=task.y_train, y_target=task.y_train)
    learned = ath.training_codes_
    return {
        f"map, {asks.feature} -> {holds.feature}": map_of(ath.encode(X, a), learned[b], task)
        for a, b, X, asks, holds in (
            ("target", "source", task.Z_query, spec.target, spec.source),
            ("source", "target", task.X_query, spec.source, spec.target),
        )
    }


def by_both_views(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
    """Fit with all pairs and no labels; the items of the database are known in both views."""
    rows = np.arange(len(task.X_train))
    ath.fit(task.X_train, task.Z_train, pairs=np.column_stack([rows, rows]))
    database = ath.encode_both(task.X_train, task.Z_train)
    return {
        f"map, {feature} -> both": map_of(ath.encode(X, domain), database, task)
        for domain, X, feature in (
            ("source", task.X_query, spec.source.feature),
            ("target", task.Z_query, spec.target.feature),
        )
    }


def by_half(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
    """Fit with the labels of a random half; the other half is the database."""
    seen, unseen = np.array_split(np.random.default_rng(seed).permutation(len(task.y_train)), 2)
    X, Z, y = task.X_train, task.Z_train, task.y_train
    ath.fit(X[seen], Z[seen], y_source=y[seen], y_target=y[seen])
    database = replace(task, X_train=X[unseen], Z_train=Z[unseen], y_train=y[unseen])
    return retrieval(spec, database, ath)


def by_pairs(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
    """Fit with all pairs and no labels; search in both directions."""
    rows = np.arange(len(task.X_train))
    ath.fit(task.X_train, task.Z_train, pairs=np.column_stack([rows, rows]))
    return retrieval(spec, task, ath, top=100 if spec.dataset == "mfeat" else None)


def unpaired(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
    """Fit without labels and pairs; compare each row with its partner, and with all labels."""
    order = np.random.default_rng(seed).permutation(len(task.Z_train))
    ath.fit(task.X_train, task.Z_train[order])
    X, Z, y = task.X_train, task.Z_train, task.y_train
    scores = {}
    for place, values, metric in (
        ("codes", ath.encode, "hamming"),
        ("projections", ath.decision_function, "euclidean"),
    ):
        H_x, H_z = values(X, "source"), values(Z, "target")
        scores[f"foscttm, {place}"] = foscttm(H_x, H_z, metric=metric)
        both = [
            label_transfer_accuracy(*sides, k=5, metric=metric)
            for sides in ((H_x, y, H_z, y), (H_z, y, H_x, y))
        ]
        scores[f"5-NN transfer, {place}"] = float(np.mean(both))
    return scores


def migration(n_pairs: int) -> Callable[[TaskSpec, PairedTask, ATH, int], Scores]:
    """Return the protocol of an old catalogue and a new model that has embedded only the pairs."""

    def scores(spec: TaskSpec, task: PairedTask, ath: ATH, seed: int) -> Scores:
        rows = np.random.default_rng(seed).permutation(len(task.X_train))[:n_pairs]
        pairs = np.column_stack([rows, np.arange(n_pairs)])
        ath.fit(task.X_train, task.Z_train[rows], pairs=pairs)
        queries, database = ath.encode(task.Z_query, "target"), ath.encode(task.X_train, "source")
        old = task.X_query, task.X_train
        return {"recall@10": recall_of_neighbors(queries, database, *old, n_bits=ath.n_bits, k=10)}

    return scores


def retrieval(spec: TaskSpec, task: PairedTask, ath: ATH, top: int | None = None) -> Scores:
    """Return the MAP of the test rows over the training rows, in both directions."""
    sides = {
        "source": (spec.source.feature, task.X_train, task.X_query),
        "target": (spec.target.feature, task.Z_train, task.Z_query),
    }
    scores = {}
    for asks, holds in (("target", "source"), ("source", "target")):
        (feature, _, X_query), (other, X_database, _) = sides[asks], sides[holds]
        codes = ath.encode(X_query, asks), ath.encode(X_database, holds)
        name = "map" if top is None else f"map@{top}"
        scores.setdefault(f"{name}, {feature} -> {other}", map_of(*codes, task, top))
    return scores


def map_of(queries: Codes, database: Codes, task: PairedTask, top: int | None = None) -> float:
    """Return the MAP of codes of the test rows over codes of the training rows."""
    n_bits = 8 * database.shape[1]  # padding differs nowhere
    hist = distance_histogram(queries, database, task.y_query, task.y_train, n_bits=n_bits)
    return mean_average_precision(hist, top=top)


@dataclass(frozen=True)
class Protocol:
    """What is known in training, and how codes are scored."""

    task: str
    name: str
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    scores: Callable[[TaskSpec, PairedTask, ATH, int], Scores]

    @property
    def data(self) -> str:
        return parse_task(self.task).dataset

    def run(self, method: str, bits: int, seed: int) -> Scores:
        """Return the scores of one fit."""
        spec = parse_task(self.task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", BridgeWarning)
            ath = METHODS[method](bits, random_state=seed)
            return self.scores(spec, spec.load_pairs(DATA), ath, seed)

    def published(self, bits: int) -> dict[tuple[str, str], Scores]:
        """Return the published scores by method and origin."""
        rows: dict[tuple[str, str], Scores] = {}
        with PUBLISHED.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                if (line["data"], line["protocol"]) != (self.data, self.name):
                    continue
                if line["bits"] in ("", str(bits)):  # none: the method has no codes
                    column = ", ".join(filter(None, (line["metric"], line["direction"])))
                    row = rows.setdefault((line["method"], line["origin"]), {})
                    row[column] = float(line["value"])
        return rows


LENGTHS = (16, 32, 64, 128)
WORDS = ("ATH_S", "ATH_K")
WIKI, TOPICS = "wiki/train.sift128-train.lda10", "wiki/train.lda10-train.sift128"
DIGITS = "mfeat/train.fourier76-train.karhunen64"
SNARE, SCGEM = "snare/all.atac19-all.rna10", "scgem/all.expression34-all.methylation27"
USE, MODELS = "banking77/train.use512", "banking77/train.wordllama256-train.use512"
PROTOCOLS = (
    Protocol(WIKI, "labels", WORDS, LENGTHS, by_labels),
    Protocol(WIKI, "learned codes", WORDS, LENGTHS, by_learned_codes),
    Protocol(WIKI, "labels of half", WORDS, LENGTHS, by_half),
    Protocol(WIKI, "pairs", ("ATH paired",), LENGTHS, by_pairs),
    Protocol(TOPICS, "both views", ("ATH paired",), LENGTHS, by_both_views),
    Protocol(DIGITS, "pairs", ("ATH paired",), LENGTHS, by_pairs),
    Protocol(SNARE, "unpaired", ("ATH structural",), (64,), unpaired),
    Protocol(SCGEM, "unpaired", ("ATH structural",), (64,), unpaired),
    Protocol(USE, "labels", WORDS, (64,), by_labels),
    Protocol(USE, "labels of half", WORDS, (64,), by_half),
    Protocol(MODELS, "labels of two models", WORDS, (64,), by_labels),
    *(
        Protocol(MODELS, f"migration, {n} pairs", ("ATH paired",), (256,), migration(n))
        for n in (200, 1000, 5000)
    ),
)


def shown(protocol: Protocol, bits: int, runs: dict[str, list[Scores]], n_seeds: int) -> Table:
    """Return the table of one protocol and length: our methods, then published figures."""
    columns = list(next(iter(runs.values()))[0])
    title = f"{protocol.data}, {protocol.name}, {bits} bits, {n_seeds} seeds"
    table = Table("method", *columns, "origin", title=title, box=MARKDOWN)
    for method, scores in runs.items():
        values = np.array([[score[column] for column in columns] for score in scores])
        cells = zip(values.mean(axis=0), values.std(axis=0), strict=True)
        table.add_row(method, *(f"{mean:.3f} ± {spread:.3f}" for mean, spread in cells), "")
    for (method, origin), row in protocol.published(bits).items():
        cells = (f"{row[column]:.3f}" if column in row else "-" for column in columns)
        table.add_row(method, *cells, origin)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables = list(dict.fromkeys(protocol.data for protocol in PROTOCOLS))
    parser.add_argument("--tables", default=",".join(tables))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--bits", help="default: those of each protocol")
    parser.add_argument("--splits", type=int, default=3, help="number of seeds")
    parser.add_argument("--first-split", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    for option, known in (("tables", tables), ("methods", METHODS)):
        if unknown := set(getattr(options, option).split(",")) - set(known):
            parser.error(f"--{option}: unknown {', '.join(unknown)}; choose of {', '.join(known)}")
    chosen = [p for p in PROTOCOLS if p.data in options.tables.split(",")]
    seeds = range(options.first_split, options.first_split + options.splits)
    files = (DATASETS[protocol.data].file for protocol in chosen)
    recorder = Recorder(options.record, seeds, (file.name for file in files if file is not None))
    console = Console(width=None if os.isatty(1) else 160)
    for protocol in chosen:
        methods = [name for name in options.methods.split(",") if name in protocol.methods]
        lengths = map(int, options.bits.split(",")) if options.bits else protocol.bits
        for bits in lengths if methods else ():
            runs = {
                method: Parallel(options.jobs)(
                    delayed(protocol.run)(method, bits, seed) for seed in seeds
                )
                for method in methods
            }
            for method, scores in runs.items():
                for column in scores[0]:
                    values = [score[column] for score in scores]
                    recorder.add(values, protocol.data, protocol.name, method, bits, column)
            console.print(shown(protocol, bits, runs, len(seeds)))
    recorder.write()


if __name__ == "__main__":
    main()
