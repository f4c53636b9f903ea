"""Three embedding models in a row, one index: no code ever changes.

    python examples/three_models_one_index.py [--data images|texts] [--pairs 200] [--bits 64]

Needs pacs.npz or external/banking77.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data). A
catalogue is encoded from the rows of a first model. A second and a third model join with some
pairs each. New items arrive with each model and go into the same index. `recall@10` is the share of
the ten nearest items of the first model (by cosine) among the first ten results, `class@10` the
share of the first ten results that have the class of the query.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bridgehash import ATH, ITQ, HammingIndex, UnitRows

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")
K = 10
FILES = {  # file, models in the order in which they arrive, labels
    "images": (
        "pacs.npz",
        {
            "MobileNet": "photo_mobilenet_v1",
            "Lite0": "photo_effnet_lite0",
            "Lite2": "photo_effnet_lite2",
        },
        "photo_y",
    ),
    "texts": (
        "external/banking77.npz",
        {"GloVe": "wink_glove100", "WordLlama": "wordllama256", "USE": "use512"},
        "y",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=FILES, default="images")
    parser.add_argument("--pairs", type=int, default=200, help="per new model")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the fits")
    options = parser.parse_args()
    file, columns, labels = FILES[options.data]
    if not (DATA / file).is_file():
        place = "set BRIDGEHASH_DATA to the folder of the data pack"
        parser.exit(2, f"{DATA / file}: file not found; {place}\n")
    with np.load(DATA / file) as data:
        X = {
            name: UnitRows().fit_transform(data[key].astype(np.float32))
            for name, key in columns.items()
        }
        y = data[labels]

    rng = np.random.default_rng(options.seed)
    order = rng.permutation(len(y))
    n = len(y)
    queries, first, *later = np.split(order, [n // 5, 3 * n // 5, 4 * n // 5])
    one, two, three = columns

    # Year one: a catalogue, encoded by any method.
    itq = ITQ(options.bits, random_state=options.seed).fit(X[one][first])
    index = HammingIndex(options.bits)
    index.add(itq.encode(X[one][first]), first, domain=one)
    catalogue = index.get(first).codes

    # Year two: the second model embeds some items of the catalogue, and joins.
    known = rng.choice(len(first), options.pairs, replace=False)
    pairs = np.column_stack([known, np.arange(options.pairs)])
    model = ATH.paired(options.bits, random_state=options.seed)
    model.fit({one: X[one][first], two: X[two][first[known]]}, pairs=pairs, frozen={one: itq})
    index.add(model.encode(X[two][later[0]], domain=two), later[0], domain=two)

    # Year three: the third model joins; the rows of the first one were kept.
    known = rng.choice(len(first), options.pairs, replace=False)
    pairs = np.column_stack([known, np.arange(options.pairs)])
    model.join(three, X[three][first[known]], to=one, X_to=X[one][first], pairs=pairs)
    index.add(model.encode(X[three][later[1]], domain=three), later[1], domain=three)

    unchanged = (index.get(first).codes == catalogue).all()
    print(f"{len(index)} items of three models in one index: {index.domains}")
    print(f"codes of the catalogue unchanged: {unchanged}\n")
    print(f"{'queries by':12}  recall@10  class@10")
    everything = np.concatenate([first, *later])
    nearest = everything[np.argsort(-X[one][queries] @ X[one][everything].T, axis=1)[:, :K]]
    for name in columns:
        ids = index.search(model.encode(X[name][queries], domain=name), K)[1]
        show(name, ids, nearest, y, queries)


def show(name: str, ids: NDArray, nearest: NDArray, y: NDArray, queries: NDArray) -> None:
    hits = (ids[:, :, None] == nearest[:, None, :]).any(axis=2).mean()
    right = (y[ids] == y[queries][:, None]).mean()
    print(f"{name:12}  {hits:9.3f}  {right:8.3f}")


if __name__ == "__main__":
    main()
