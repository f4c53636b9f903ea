"""How often `fit` warns before it learns: about sound inputs (false alarms) and about wrong ones.

    python benchmarks/checks.py [--splits 10] [--first-split 0] [--fits] [--record FILE]

Needs the data pack ($BRIDGEHASH_DATA, or ../shared/data). Sound inputs are tasks of the data pack
with the labels or pairs that the method of their row needs. Wrong ones are made from them: labels
in another spelling, features of another model, columns in another order, labels of few rows, pairs
that are shuffled, shifted by one row or partly wrong. Only the checks run, no fit. `--fits` also
measures what wrong pairs cost: recall@10 of the neighbours of the old model, PACS photos, MobileNet
to EfficientNet, 64 bits, pairs only.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from pairs import Split
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import ATH, BridgeWarning
from bridgehash.ath import checks
from bridgehash.datasets.task import parse_task
from bridgehash.models.training import Inputs, check_rows

LITE, OTHERS = ("effnet_lite0", "effnet_lite2"), ("mobilenet_v1", "gist512")
PACS, OFFICE = ("photo", "sketch", "cartoon"), ("amazon", "caltech10")
ONE_SPACE = [
    *(f"pacs/{a}.{f}-{b}.{f}" for f in (*LITE, *OTHERS) for a, b in permutations(PACS, 2)),
    *(
        f"office-caltech10/{a}.{f}-{b}.{f}"
        for f in (*LITE, "mobilenet_v1", "surf800")
        for a, b in permutations(OFFICE, 2)
    ),
    "mnist-usps/mnist2000.pixels-usps1800.pixels",
    "mnist-usps/usps1800.pixels-mnist2000.pixels",
    "wiki/train.sift128-test.sift128",
    "wiki/train.lda10-test.lda10",
    "mfeat/test.fourier76-train.fourier76",
    "mfeat/test.karhunen64-train.karhunen64",
    "banking77/train.use512-test.use512",
    "banking77/train.wordllama256-test.wordllama256",
    "banking77/train.wink_glove100-test.wink_glove100",
    "cifar10/all.gist512@2000",
]
SMALL = [f"{task}@100" for task in ONE_SPACE[:32]]
TWO_MODELS = [  # of equal width
    *(f"pacs/{a}.{LITE[0]}-{b}.{LITE[1]}" for a in PACS for b in PACS),
    *(f"office-caltech10/{a}.{LITE[0]}-{b}.{LITE[1]}" for a in OFFICE for b in OFFICE),
    *(f"office-caltech10/{a}.mobilenet_v1-amazon.googlenet1024" for a in OFFICE),
]
TWO_SPACES = [
    *(f"pacs/{a}.mobilenet_v1-{b}.effnet_lite0" for a, b in permutations(PACS, 2)),
    "office-caltech10/caltech10.mobilenet_v1-amazon.effnet_lite0",
    "office-caltech10/amazon.effnet_lite0-caltech10.surf800",
    "snare/all.atac19-all.rna10",
    "scgem/all.expression34-all.methylation27",
]
PAIRED = [
    *(f"pacs/{a}.mobilenet_v1-{a}.effnet_lite0" for a in PACS),
    *(f"pacs/{a}.effnet_lite0-{a}.effnet_lite2" for a in PACS),
    "pacs/photo.gist512-photo.effnet_lite0",
    "office-caltech10/caltech10.mobilenet_v1-caltech10.effnet_lite2",
    "office-caltech10/caltech10.surf800-caltech10.effnet_lite0",
    *(f"mfeat/train.{a}-train.{b}" for a, b in combinations(("fourier76", "karhunen64"), 2)),
    "mfeat/all.profile216-all.zernike47",
    "snare/all.atac19-all.rna10",
    "banking77/train.wordllama256-train.use512",
    "banking77/train.wink_glove100-train.use512",
]
WEAK = ["wiki/train.sift128-train.lda10"]  # pairs say little about each other: many are needed
Case = tuple[ATH, dict[str, Any]]


def warned(ath: ATH, given: dict[str, Any]) -> list[str]:
    """Return the classes of the warnings about the arguments of a fit; nothing is fitted."""
    inputs = Inputs.of(
        given["X_source"], given["X_target"], given.get("y_source"), given.get("y_target"), None,
        given.get("pairs"),
    )  # fmt: skip
    data = inputs.checked(check_rows(inputs.X, inputs.arguments("X")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BridgeWarning)
        checks.checked_inputs(ath, data)
    return [type(each.message).__name__ for each in caught]


def domains(task: str, seed: int) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    split = parse_task(task).load(seed, DATA)
    return {"X_source": split.X_source, "X_target": split.X_target}, split.y_source, split.y_target


def few(y: np.ndarray, rng: np.random.Generator, n: int = 3) -> np.ndarray:
    """Keep n labels of each class."""
    kept = np.full_like(y, -1)
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))[:n]
        kept[rows] = c
    return kept


def paired(task: str, n: int | None, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Return two views of up to 2,500 rows in the order of the file, and n pairs of them."""
    rows = parse_task(task).load_pairs(DATA)
    rng = np.random.default_rng(seed)
    kept = np.sort(rng.permutation(len(rows.X_train))[:2500])
    chosen = rng.permutation(len(kept))[:n]
    X = {"X_source": rows.X_train[kept], "X_target": rows.Z_train[kept]}
    return X, np.column_stack([chosen, chosen])


def sound(seed: int) -> Iterator[tuple[str, Case]]:
    """Yield all inputs that no check should warn about."""
    rng = np.random.default_rng(seed)
    for task in (*ONE_SPACE, *SMALL):
        X, y_s, y_t = domains(task, seed)
        yield "one feature space, no labels", (ATH.unsupervised(), X)
        if task in ONE_SPACE:
            known = {**X, "y_source": y_s}
            yield "one feature space, labels of the source", (ATH.propagated(), known)
            yield "all labels", (ATH.kernel(), {**known, "y_target": y_t})
    for task in (*TWO_SPACES, *TWO_MODELS):
        X, y_s, y_t = domains(task, seed)
        both = {"y_source": y_s, "y_target": y_t}
        yield "all labels", (ATH.supervised(), X | both)
        if task in TWO_SPACES:
            some = {"y_source": few(y_s, rng), "y_target": few(y_t, rng)}
            yield "two feature spaces, few labels of both", (ATH.propagated(), X | some)
        yield "two feature spaces, no labels", (ATH.structural(), X)
    for task in ("pacs/photo.effnet_lite0-cartoon.effnet_lite0", ONE_SPACE[24]):
        for classes in ("partial", "open", "universal"):
            X, y_s, y_t = domains(f"{task}@classes={classes}", seed)
            yield (
                "some classes in one domain only",
                (
                    ATH.kernel(),
                    {**X, "y_source": y_s, "y_target": y_t},
                ),
            )
    for task in PAIRED:
        for n in (50, 200, 800):
            X, pairs = paired(task, n, seed)
            yield f"{n} pairs", (ATH.paired(), {**X, "pairs": pairs})
    for task in WEAK:
        X, pairs = paired(task, 800, seed)
        yield "800 pairs", (ATH.paired(), {**X, "pairs": pairs})


def wrong(seed: int) -> Iterator[tuple[str, str, Case]]:
    """Yield inputs that a check should warn about, with the class of the warning."""
    rng = np.random.default_rng(seed)
    for task in (*ONE_SPACE[:26:3], *TWO_SPACES[:8]):
        X, y_s, y_t = domains(task, seed)
        upper, lower = (np.array([f"{word}{c}" for c in y]) for word, y in (("C", y_s), ("c", y_t)))
        given = {**X, "y_source": upper, "y_target": lower}
        yield "labels in another spelling", "ClassesWarning", (ATH.kernel(), given)
        given = {**X, "y_source": few(y_s, rng), "y_target": few(y_t, rng)}
        yield "few labels", "FewLabelsWarning", (ATH.supervised(), given)
    for task in TWO_MODELS:
        X, y_s, _ = domains(task, seed)
        yield "two models of equal width", "FeatureSpaceWarning", (ATH.unsupervised(), X)
        given = {**X, "y_source": y_s}
        yield "two models of equal width", "FeatureSpaceWarning", (ATH.propagated(), given)
    for task in ONE_SPACE:
        X, _, _ = domains(task, seed)
        if X["X_target"].shape[1] < 20:  # too few columns to tell
            continue
        order = rng.permutation(X["X_target"].shape[1])
        given = {**X, "X_target": X["X_target"][:, order]}
        yield "columns in another order", "FeatureSpaceWarning", (ATH.unsupervised(), given)
    for task in TWO_SPACES:
        X, _, _ = domains(task, seed)
        yield "no labels, two widths", "FeatureSpaceWarning", (ATH.unsupervised(), X)
    for task in (*PAIRED, *WEAK):
        X, pairs = paired(task, 6, seed)
        yield "6 pairs", "PairsWarning", (ATH.paired(), {**X, "pairs": pairs})
        for n in (200, 800):
            X, pairs = paired(task, n, seed)
            shuffled = np.column_stack([pairs[:, 0], rng.permutation(pairs[:, 1])])
            name = f"{n} pairs, shuffled"
            yield name, "PairsWarning", (ATH.paired(), {**X, "pairs": shuffled})
            inside = pairs[:, 1] + 1 < len(X["X_target"])
            name = f"{n} pairs, one row off"
            yield name, "PairsWarning", (ATH.paired(), {**X, "pairs": pairs[inside] + [0, 1]})
    for task in PAIRED[:6]:  # pairs that can be judged one by one
        for n in (200, 800):
            X, pairs = paired(task, n, seed)
            name = f"{n} pairs, 20 % wrong"
            yield name, "PairsWarning", (ATH.paired(), {**X, "pairs": spoiled(pairs, seed)})


def spoiled(pairs: np.ndarray, seed: int, share: float = 0.2) -> np.ndarray:
    """Exchange the target rows of some of the pairs."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(pairs))[: int(share * len(pairs))]
    pairs = pairs.copy()
    pairs[rows, 1] = np.roll(pairs[rows, 1], 1)
    return pairs


def recalls(n: int, seed: int) -> dict[str, float]:
    """Return recall@10 with right pairs, and with 20 % wrong ones, with and without the check."""
    split = Split.drawn("photo", n, seed)
    old, new = split.catalogue
    right = np.column_stack([split.paired, np.arange(n)])

    def recall(pairs: np.ndarray) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BridgeWarning)
            ath = ATH.paired(64, random_state=0).fit(old, new[split.paired], pairs=pairs)
        codes = ath.encode(old, "source"), ath.encode(split.queries[1], "target")
        return split.scores(codes, 64)[0]

    found = {"right": recall(right), "20 % wrong": recall(spoiled(right, seed))}
    with patch.object(checks, "checked_pairs_of", lambda data, unit: (data, [])):
        found["20 % wrong, unchecked"] = recall(spoiled(right, seed))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--fits", action="store_true", help="measure what wrong pairs cost")
    add_option(parser)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    seeds = range(options.first_split, options.first_split + options.splits)
    files = ["pacs.npz", "office_caltech10.npz", "mnist_usps.npz", "cifar10_gist512.npz"]
    files += [f"external/{name}.npz" for name in ("wiki", "uci_digits", "snare_seq", "scgem")]
    recorder = Recorder(options.record, seeds, [*files, "external/banking77.npz"])
    console = Console(width=140)
    if options.fits:
        for n in (200, 800):
            all_found = [recalls(n, seed) for seed in seeds]
            for name in all_found[0]:
                values = [found[name] for found in all_found]
                recorder.add(values, "recall", n, name)
                console.print(f"{n} pairs, {name}: {np.mean(values):.3f}")
        recorder.write()
        return
    shares: dict[tuple[str, str], list[list[bool]]] = {}
    for i, seed in enumerate(seeds):
        for name, (ath, given) in sound(seed):
            kinds = warned(ath, given)
            shares.setdefault(("sound", name), [[] for _ in seeds])[i].append(bool(kinds))
            shares.setdefault(("sound", "all"), [[] for _ in seeds])[i].append(bool(kinds))
            if kinds:
                widths = given["X_source"].shape, given["X_target"].shape
                console.print(f"false alarm, split {seed}: {name}, {widths}, {kinds}")
        for name, kind, (ath, given) in wrong(seed):
            kinds = warned(ath, given)
            shares.setdefault(("wrong", name), [[] for _ in seeds])[i].append(kind in kinds)
    table = Table("inputs", "", "cases per split", "warned, %", box=MARKDOWN)
    for (side, name), found in shares.items():
        values = [100 * float(np.mean(each)) for each in found]
        recorder.add(values, side, name, "warned")
        recorder.add([float(len(each)) for each in found], side, name, "cases")
        table.add_row(side, name, str(len(found[0])), f"{np.mean(values):.1f}")
    console.print(table)
    recorder.write()


if __name__ == "__main__":
    main()
