"""Query an old index with a new embedding model; the catalogue is not embedded again.

    python examples/new_model_old_index.py [--pairs 200] [--bits 64] [--write FOLDER]

Needs pacs.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data). A catalogue of photos was
embedded by an old model (MobileNet, 1024 dimensions). Queries come from a new model (EfficientNet,
1280 dimensions), which has also embedded some rows of the catalogue: the pairs. `recall@10` is the
share of the ten nearest photos of the old model (by cosine) among the first ten results, `class@10`
the share of the first ten results that have the class of the query. `--write` saves the arrays to a
folder, for use with the command line.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bridgehash import ATH, ITQ, HammingIndex, UnitRows

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data") / "pacs.npz"
K = 10


@dataclass(frozen=True)
class Photos:
    """Features of photos by both models, in rows of unit norm."""

    old: NDArray[np.float32]
    new: NDArray[np.float32]
    y: NDArray[np.int64]

    def __getitem__(self, rows: NDArray[np.intp]) -> Photos:
        return Photos(self.old[rows], self.new[rows], self.y[rows])


def read_photos() -> Photos:
    with np.load(DATA) as data:
        old, new = (
            UnitRows().fit_transform(data[f"photo_{model}"].astype(np.float32))
            for model in ("mobilenet_v1", "effnet_lite0")
        )
        return Photos(old, new, data["photo_y"])


def nearest_by_cosine(catalogue: NDArray[np.float32], queries: NDArray[np.float32]) -> NDArray:
    """Return the rows of the catalogue that are nearest for the old model."""
    return np.argsort(-queries @ catalogue.T, axis=1, kind="stable")[:, :K]


def show(title: str, ids: NDArray, wanted: NDArray, catalogue: Photos, queries: Photos) -> None:
    hits = (ids[:, :, None] == wanted[:, None, :]).any(axis=2)
    right = catalogue.y[ids] == queries.y[:, None]
    print(f"{title:50}  {hits.mean():9.3f}  {right.mean():8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the fit")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="save the arrays there")
    options = parser.parse_args()
    if not DATA.is_file():
        parser.exit(
            2, f"{DATA}: file not found; set BRIDGEHASH_DATA to the folder of the data pack\n"
        )

    photos = read_photos()
    order = np.random.default_rng(options.seed).permutation(len(photos.y))
    queries, catalogue = photos[order[: options.queries]], photos[order[options.queries :]]
    rows = np.arange(options.pairs)  # of the catalogue, which is in random order
    pairs = np.column_stack([rows, rows])  # row i of the catalogue, row i of the new embeddings
    if options.write is not None:
        options.write.mkdir(parents=True, exist_ok=True)
        np.save(options.write / "catalogue_old.npy", catalogue.old)
        np.save(options.write / "some_new.npy", catalogue.new[rows])
        np.save(options.write / "pairs.npy", pairs)
        np.save(options.write / "queries_old.npy", queries.old)
        np.save(options.write / "queries_new.npy", queries.new)
        np.savez(options.write / "labels.npz", catalogue=catalogue.y, queries=queries.y)

    ath = ATH.paired(options.bits, random_state=options.seed)
    ath.fit(catalogue.old, catalogue.new[rows], pairs=pairs)
    index = HammingIndex(options.bits).add(ath.encode(catalogue.old, domain="source"))
    by_new = index.search(ath.encode(queries.new, domain="target"), K)[1]
    by_old = index.search(ath.encode(queries.old, domain="source"), K)[1]

    before, after = (ITQ(options.bits, random_state=options.seed) for _ in range(2))
    old_index = HammingIndex(options.bits).add(before.fit(catalogue.old).encode(catalogue.old))
    as_before = old_index.search(before.encode(queries.old), K)[1]
    re_embedded = HammingIndex(options.bits).add(after.fit(catalogue.new).encode(catalogue.new))
    at_full_cost = re_embedded.search(after.encode(queries.new), K)[1]

    wanted = nearest_by_cosine(catalogue.old, queries.old)
    print(f"{len(catalogue.y)} photos, {len(queries.y)} queries, {options.bits} bits", end="")
    print(f", {len(pairs)} pairs\n")
    print(f"{'':50}  recall@10  class@10")
    show("old queries, old index (ITQ)", as_before, wanted, catalogue, queries)
    show("old queries, bridged index", by_old, wanted, catalogue, queries)
    show("new queries, bridged index", by_new, wanted, catalogue, queries)
    show("new queries, all re-embedded (ITQ)", at_full_cost, wanted, catalogue, queries)


if __name__ == "__main__":
    main()
