"""Compress text embeddings to 64 bytes per text, scored by the benchmark BitBudget.

    pip install bitbudget
    python examples/bitbudget_compressor.py [--bytes 64] [--feature use512] [--split SEED]

Needs external/banking77.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data). The training
texts of BANKING77 are the database, the test texts are the queries. `recall@10` is the share of the
ten nearest texts (by cosine of the float vectors) among the first ten results, `nDCG@10` counts the
texts of the same class as relevant, `% float` compares it with the float vectors. All figures are
computed by `bitbudget.evaluate`. With `--split` test texts are not used: the queries are 1,000
random training texts. The settings of `ResidualCodes` were chosen in this way.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bridgehash import ITQ, UnitRows
from bridgehash.codes import unpack
from bridgehash.datasets import parse_task

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")
FILE = DATA / "external" / "banking77.npz"
FEATURES = ("use512", "wordllama256", "wink_glove100")
Rows = NDArray[np.floating[Any]]


class ResidualCodes:
    """Binary codes in stages, with two numbers per item; queries stay real-valued.

    ITQ gives each bit the same share of the variance, however few directions carry most of it. So
    the first 64 bits code the rows, and each later stage codes what the stages before it have
    missed: directions of large variance get more bits. An item h (centred) is decoded to ĥ, linear
    in its bits. Its last two bytes hold ‖h‖² and h·ĥ / ‖h‖², which make the estimate of a squared
    distance exact for a query at the item itself:

        ‖q - h‖² - ‖q‖² ≈ ‖h‖² - 2 (q·ĥ) / (h·ĥ / ‖h‖²)

    Parameters
    ----------
    n_bytes : int, default=64
        Bytes stored per item, the last two of them for the two numbers.
    stage_bits : int, default=64
        Bits per stage, a multiple of 8.
    norm_weight : float, default=0.8
        Weight of ‖h‖² in the estimate. 1 estimates the distance of the float vectors. Less prefers
        the direction from the mean, which finds more texts of the right class.
    random_state : int, default=0
    """

    def __init__(
        self,
        n_bytes: int = 64,
        stage_bits: int = 64,
        norm_weight: float = 0.8,
        random_state: int = 0,
    ) -> None:
        self.n_bytes = n_bytes
        self.stage_bits = stage_bits
        self.norm_weight = norm_weight
        self.random_state = random_state

    def fit(self, X: Rows) -> Self:
        """Learn the stages, and the ranges of the two numbers, from the rows of X."""
        n_bits = 8 * (self.n_bytes - 2)
        self.stages_: list[ITQ] = []
        self.decoder_ = np.empty((0, X.shape[1]))  # one row per bit
        self.center_ = np.zeros(X.shape[1])
        rest = np.asarray(X, dtype=np.float64)
        for start in range(0, n_bits, self.stage_bits):
            itq = ITQ(min(self.stage_bits, n_bits - start), random_state=self.random_state)
            B = itq.fit(rest).transform(rest)
            mean, decoder = itq.encoder_.mean, itq.encoder_.projection.T
            decoded, rest = B @ decoder, rest - mean
            scale = np.vdot(rest, decoded) / np.vdot(decoded, decoded)  # least squares
            rest = rest - scale * decoded
            self.stages_.append(itq)
            self.decoder_ = np.vstack([self.decoder_, scale * decoder])
            self.center_ = self.center_ + mean
        numbers = self._numbers(X, self._codes(X))
        self.low_, self.high_ = numbers.min(axis=0), numbers.max(axis=0)
        return self

    def encode(self, X: Rows) -> NDArray[np.uint8]:
        """Return all that is stored of the rows of X, shape (n, n_bytes)."""
        codes = self._codes(X)
        numbers = (self._numbers(X, codes) - self.low_) / np.maximum(self.high_ - self.low_, 1e-12)
        return np.hstack([codes, np.rint(255 * numbers.clip(0, 1)).astype(np.uint8)])

    def scores(self, queries: Rows, stored: NDArray[np.uint8]) -> Rows:
        """Return the similarity of each query to each stored item, shape (n_queries, n)."""
        codes, numbers = stored[:, :-2], stored[:, -2:] / 255.0
        norm, share = (self.low_ + numbers * (self.high_ - self.low_)).T
        bits = unpack(codes, len(self.decoder_)).astype(np.float32)
        weights = ((queries - self.center_) @ self.decoder_.T).astype(np.float32)  # of the bits
        return 2 * (weights @ bits.T) / share - self.norm_weight * norm

    def __call__(self, database: Rows, queries: Rows) -> tuple[Rows, int]:
        """Return scores and bytes per item: the interface of a method of BitBudget."""
        stored = self.fit(database).encode(database)
        return self.scores(queries, stored), stored.shape[1]

    def _codes(self, X: Rows) -> NDArray[np.uint8]:
        """Return the packed bits of all stages."""
        rest, start, codes = np.asarray(X, dtype=np.float64), 0, []
        for itq in self.stages_:
            codes.append(itq.encode(rest))
            rows = self.decoder_[start : start + itq.n_bits]
            rest = rest - itq.encoder_.mean - unpack(codes[-1], itq.n_bits) @ rows
            start += itq.n_bits
        return np.hstack(codes)

    def _numbers(self, X: Rows, codes: NDArray[np.uint8]) -> Rows:
        """Return ‖h‖² and h·ĥ / ‖h‖² of the rows; the second is 1 for a row at the mean."""
        H = X - self.center_
        norm = np.sum(H * H, axis=1)
        product = np.sum(H * (unpack(codes, len(self.decoder_)) @ self.decoder_), axis=1)
        share = np.divide(product, norm, out=np.ones_like(norm), where=norm > 0)
        return np.column_stack([norm, share])


def itq_hamming(database: Rows, queries: Rows) -> tuple[Rows, int]:
    """Rank codes of ITQ by Hamming distance; a bit per column."""
    itq = ITQ(database.shape[1], random_state=0).fit(database)
    codes = itq.encode(database)
    return _agreement(itq.transform(queries), codes), codes.shape[1]


def itq_projections(database: Rows, queries: Rows) -> tuple[Rows, int]:
    """Rank codes of ITQ by the projections of the queries, as `HammingIndex.search(weights=)`."""
    itq = ITQ(database.shape[1], random_state=0).fit(database)
    codes = itq.encode(database)
    return _agreement(itq.decision_function(queries), codes), codes.shape[1]


def _agreement(weights: NDArray[Any], codes: NDArray[np.uint8]) -> Rows:
    bits = unpack(codes, weights.shape[1]).astype(np.float32)
    return weights.astype(np.float32) @ bits.T


def read_texts(feature: str, split: int | None = None) -> tuple[Rows, Rows, Any, Any]:
    """Return unit rows of database and queries, then their labels."""
    task = parse_task(f"banking77/train.{feature}").load_pairs(DATA)
    X, y, X_query, y_query = task.X_train, task.y_train, task.X_query, task.y_query
    if split is not None:
        order = np.random.default_rng(split).permutation(len(y))
        X, y, X_query, y_query = X[order[1000:]], y[order[1000:]], X[order[:1000]], y[order[:1000]]
    X, X_query = (UnitRows().fit_transform(rows).astype(np.float32) for rows in (X, X_query))
    return X, X_query, y, y_query


def table(feature: str, n_bytes: int, split: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of `bitbudget.evaluate`: its own methods, then those of this file."""
    import bitbudget

    ours = {
        "ITQ, Hamming": itq_hamming,
        "ITQ, real-valued queries": itq_projections,
        "ResidualCodes, norm_weight=1": ResidualCodes(n_bytes, norm_weight=1),
        "ResidualCodes": ResidualCodes(n_bytes),
    }
    for name, compressor in ours.items():
        bitbudget.method(name)(compressor)
    X, X_query, y, y_query = read_texts(feature, split)
    same = {label: {str(row): 1 for row in np.flatnonzero(y == label)} for label in np.unique(y)}
    relevant = {str(i): same[label] for i, label in enumerate(y_query)}
    ids = [str(row) for row in range(len(y))]
    theirs = ("float32", "int8", "binary", "binary-mean", "rabitq")
    names = [*theirs, *(["pq"] if X.shape[1] % 8 == 0 else []), *ours]
    found = bitbudget.evaluate(X, X_query, ids, list(relevant), relevant, names)
    return sorted(found, key=lambda row: names.index(row["method"]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=64, help="of ResidualCodes")
    parser.add_argument("--feature", choices=FEATURES, default="use512")
    parser.add_argument("--split", type=int, metavar="SEED", help="choose settings without tests")
    options = parser.parse_args()
    if not FILE.is_file():
        parser.exit(
            2, f"{FILE}: file not found; set BRIDGEHASH_DATA to the folder of the data pack\n"
        )
    try:
        rows = table(options.feature, options.bytes, options.split)
    except ModuleNotFoundError as error:
        parser.exit(2, f"{error}; run: pip install bitbudget\n")
    print(f"{'':30}  {'bytes':>6}  recall@10  nDCG@10  % float")
    for row in rows:
        print(f"{row['method']:30}  {row['bytes']:6.0f}  {row['recall']:9.3f}  ", end="")
        print(f"{row['ndcg']:7.3f}  {row['pct_float']:7.1f}")


if __name__ == "__main__":
    main()
