"""Search labelled photos with sketches that have no labels.

    python examples/sketch_finds_photo.py [--bits 64] [--picture FILE.png] [--write FOLDER]

Needs pacs.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data); --picture needs Pillow and
the images of the pack. `precision@10` is the share of the first ten photos that have the class of
the sketch; the queries are not part of the training data. `--write` saves the arrays to a folder,
for use with the command line.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridgehash import ATH, ITQ, BridgeWarning, HammingIndex, Shared, UnitRows
from bridgehash.bench.runner import few_labels

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")
K = 10
_SHOWN = 8  # photos per row of the picture
_SIDE, _GAP = 56, 4  # size of an image and of a gap, in pixels
_RIGHT, _WRONG = (40, 150, 70), (200, 60, 50)


@dataclass(frozen=True)
class Split:
    """Features of all photos and sketches, in rows of unit norm, and which sketches are queries."""

    photos: NDArray[np.float32]
    y_photos: NDArray[np.int64]
    sketches: NDArray[np.float32]
    y_sketches: NDArray[np.int64]
    training: NDArray[np.intp]  # rows of sketches
    queries: NDArray[np.intp]
    names: NDArray[np.str_]


def read_split(n_queries: int, n_training: int | None, seed: int) -> Split:
    with np.load(DATA / "pacs.npz") as data:
        photos, sketches = (
            UnitRows().fit_transform(data[f"{domain}_effnet_lite0"].astype(np.float32))
            for domain in ("photo", "sketch")
        )
        order = np.random.default_rng(seed).permutation(len(sketches))
        queries, training = order[:n_queries], order[n_queries:][:n_training]
        labels = data["photo_y"], data["sketch_y"]
        return Split(photos, labels[0], sketches, labels[1], training, queries, data["class_names"])


def write(split: Split, few: dict[int, NDArray[np.int64]], folder: Path) -> None:
    """Save the arrays to files."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "photos.npy", split.photos)
    np.save(folder / "sketches.npy", split.sketches[split.training])
    np.save(folder / "queries.npy", split.sketches[split.queries])
    y_queries = split.y_sketches[split.queries]
    some = {f"few{n}": y for n, y in few.items()}
    np.savez(folder / "labels.npz", photos=split.y_photos, queries=y_queries, **some)


def picture(split: Split, ath: ATH, rows: NDArray[np.intp], path: Path) -> None:
    """Draw sketches and the first photos found, among those that the pack has images of."""
    from PIL import Image, ImageDraw

    files = _images()
    photos = np.array(sorted(row for domain, row in files if domain == "photo"))
    index = HammingIndex(ath.n_bits).add(ath.encode(split.photos[photos], "source"), ids=photos)
    ids = index.search(ath.encode(split.sketches[rows], "target"), _SHOWN)[1]
    step = _SIDE + _GAP
    sheet = Image.new("RGB", ((_SHOWN + 1) * step + 3 * _GAP, len(rows) * (step + _GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for i, (row, nearest) in enumerate(zip(rows, ids, strict=True)):
        y = i * (step + _GAP)
        for j, (domain, number) in enumerate([("sketch", row), *(("photo", n) for n in nearest)]):
            x = j * step + (3 * _GAP if j else 0)
            with Image.open(files[domain, int(number)]) as image:
                sheet.paste(image.convert("RGB").resize((_SIDE, _SIDE)), (x, y))
            if j:
                right = split.y_photos[number] == split.y_sketches[row]
                line = (x, y + _SIDE + 1, x + (_SIDE if right else _SIDE // 3), y + _SIDE + 4)
                draw.rectangle(line, fill=_RIGHT if right else _WRONG)
    sheet.quantize(128).save(path, optimize=True)


def _images() -> dict[tuple[str, int], Path]:
    """Return image files by domain and row."""
    with open(DATA / "images" / "index.csv", newline="") as lines:
        return {
            (line["domain"], int(line["row"])): DATA / "images" / line["file"]
            for line in csv.DictReader(lines)
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument(
        "--sketches", type=int, help="number of training sketches; default: all but the queries"
    )
    parser.add_argument(
        "--few", type=int, nargs="+", default=[3, 30], help="labelled sketches per class"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the fits")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the results")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="save the arrays there")
    options = parser.parse_args()
    for needed in ("pacs.npz", *(["images/index.csv"] if options.picture else [])):
        if not (DATA / needed).is_file():
            remedy = "set BRIDGEHASH_DATA to the folder of the data pack"
            parser.exit(2, f"{DATA / needed}: file not found; {remedy}\n")

    split = read_split(options.queries, options.sketches, options.seed)
    X_target, queries = split.sketches[split.training], split.sketches[split.queries]
    y_queries = split.y_sketches[split.queries]
    y_target = split.y_sketches[split.training]
    few = {n: few_labels(y_target, n, np.random.default_rng(options.seed)) for n in options.few}
    if options.write is not None:
        write(split, few, options.write)

    given: dict[str, Any] = {"n_bits": options.bits, "random_state": options.seed}
    methods = [
        ("ITQ, shared", Shared(ITQ(**given)), None),
        ("ATH.semi_supervised", ATH.semi_supervised(**given), None),
        ("ATH.propagated", ATH.propagated(**given), None),
        *(
            (f"ATH.propagated, {n} labels per class of sketches", ATH.propagated(**given), y)
            for n, y in few.items()
        ),
        ("ATH.kernel, labels of all sketches", ATH.kernel(**given), y_target),
    ]
    print(f"{len(split.photos)} photos, {len(X_target)} training sketches", end="")
    print(f", {len(queries)} queries, {options.bits} bits\n")
    print(f"{'':46}  precision@10")
    ids = {}
    warnings.simplefilter("ignore", BridgeWarning)  # the table says how good each method is
    for title, hasher, y in methods:
        hasher.fit(split.photos, X_target, y_source=split.y_photos, y_target=y)
        index = HammingIndex(options.bits).add(hasher.encode(split.photos, "source"))
        ids[title] = index.search(hasher.encode(queries, "target"), K)[1]
        right = split.y_photos[ids[title]] == y_queries[:, None]
        print(f"{title:46}  {right.mean():12.3f}")

    title, ath, _ = methods[2]
    print(f"\nThe first three sketches, {title}:")
    for i in range(3):
        classes = Counter(split.names[split.y_photos[ids[title][i]]]).most_common()
        counts = ", ".join(f"{n} {name}" for name, n in classes)
        print(f"  {split.names[y_queries[i]]:8} finds {counts}")
    if options.picture is not None:
        drawn = {row for domain, row in _images() if domain == "sketch"}
        rows = np.array([row for row in split.queries if int(row) in drawn])
        _, firsts = np.unique(split.y_sketches[rows], return_index=True)  # one per class
        picture(split, ath, rows[firsts], options.picture)


if __name__ == "__main__":
    main()
