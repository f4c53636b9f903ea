"""Codes that stay: frozen codes, domains that join, several domains in one model.

    python benchmarks/lasting.py [LINE ...] [--splits 10] [--first-split 0] [--jobs 2]
        [--record FILE]

Lines: pairs, labels, domains, views, succession, refits, million. Needs the data pack
($BRIDGEHASH_DATA, or ../shared/data). All codes have 64 bits. Mean ± standard deviation over the
splits; `million` is measured once, on all cores.

* pairs: photos of PACS as in benchmarks/pairs.py. The codes of the catalogue are those of ITQ on
  the old model and stay; "refit" learns both sides anew. Recall@10 of the old model's neighbours,
  by Hamming distance / by the projections of the query.
* labels: ATH.kernel learns photo and cartoon of PACS; then sketch joins, with the labels of all its
  rows, with none, or with 3 per class. radius_pr_area of held-out sketches in the photos, against
  a fit of photo and sketch alone.
* domains: photo, cartoon and sketch of PACS in one model, labels of all. Mean radius_pr_area over
  the 6 ordered pairs of domains, against 3 separate fits.
* views: the six feature spaces of the UCI digits in one model, by pairs, and by labels. Mean
  MAP@100 over the 30 ordered pairs of spaces, against 15 separate fits.
* succession: ITQ on MobileNet, then EfficientNet-Lite0 joins, then Lite2, with 200 pairs each.
  Lite2 is paired with rows of either, or with the codes of the index alone. Recall@10 as in
  "pairs".
* refits: photo and cartoon of PACS, with nine tenths of the training rows and then with all. Share
  of the bits of the first rows that change, and radius_pr_area of held-out cartoons in the photos:
  a second fit, and one that begins at the first (`initial=`).
* million: 1,000,000 codes of 50 classes, drawn at random in 384 dimensions; a domain of 100,000
  rows joins. Seconds, and how many of the codes differ if they are made again afterwards.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import combinations, permutations
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from pairs import Split
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from bridgehash import ATH, ITQ, UnitRows
from bridgehash.codes import unpack
from bridgehash.metrics import (
    distance_histogram,
    mean_average_precision,
    radius_pr_area,
    recall_of_neighbors,
)

BITS, NEAREST = 64, 10
DOMAINS = ("photo", "cartoon", "sketch")
VIEWS = ("fourier76", "profile216", "karhunen64", "pixels240", "zernike47", "morphological6")
N_QUERIES = 300  # per domain of PACS
Results = dict[str, tuple[float, ...]]  # scores by row of a table


# --- pairs


def by_projection(H: NDArray[Any], codes: NDArray[np.uint8], split: Split) -> float:
    """Return recall@10 if codes are ranked by their inner product with the projections."""
    old_queries, old = split.queries[0], split.catalogue[0]
    ranked = np.argsort(-(H @ unpack(codes, BITS).T.astype(float)), axis=1)[:, :NEAREST]
    near = np.argsort(-(old_queries @ old.T), axis=1)[:, :NEAREST]
    return float(np.mean([len({*a} & {*b}) / NEAREST for a, b in zip(ranked, near, strict=True)]))


def searched(model: Any, domain: str, rows: Any, codes: Any, split: Split) -> tuple[float, float]:
    """Return recall@10 by Hamming distance and by projection, of queries against fixed codes."""
    old = split.queries[0], split.catalogue[0]
    hamming = recall_of_neighbors(model.encode(rows, domain), codes, *old, n_bits=BITS, k=NEAREST)
    return hamming, by_projection(model.decision_function(rows, domain), codes, split)


def pairs(seed: int) -> Results:
    """Frozen ITQ codes against a refit, with 50, 200 and 800 pairs."""
    results: Results = {}
    for n_pairs in (50, 200, 800):
        split = Split.drawn("photo", n_pairs, seed)
        old, new = split.catalogue
        itq = ITQ(BITS, random_state=0).fit(old)
        codes, rows = itq.encode(old), split.paired
        for case in ("pairs only", "all rows"):
            several = case == "all rows"
            X = new if several else new[rows]
            given = np.column_stack([rows, rows if several else np.arange(len(rows))])
            for method, frozen in (("encoder", itq), ("codes", codes), ("refit", None)):
                held = None if frozen is None else {"source": frozen}
                ath = ATH.paired(BITS, random_state=0).fit(old, X, pairs=given, frozen=held)
                if method == "encoder":
                    assert (ath.encode(old, "source") == codes).all()
                database = codes if held else ath.encode(old, "source")
                label = f"{case}, {n_pairs} pairs, {method}"
                results[label] = searched(ath, "target", split.queries[1], database, split)
    return results


def succession(seed: int) -> Results:
    """Three models in a row; the codes are those of the first."""
    models = ("mobilenet_v1", "effnet_lite0", "effnet_lite2")
    with np.load(DATA / "pacs.npz") as data:
        X = [UnitRows().fit_transform(data[f"photo_{name}"].astype(float)) for name in models]
        y = data["photo_y"]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    q, c = order[:500], order[500:]
    paired = [rng.permutation(len(c))[:200] for _ in range(2)]
    split = Split((X[0][c], X[1][c]), (X[0][q], X[1][q]), (y[c], y[q]), paired[0])
    itq = ITQ(BITS, random_state=0).fit(X[0][c])
    codes = itq.encode(X[0][c])

    def number(rows: Any) -> Any:
        return np.column_stack([rows, np.arange(len(rows))])

    first, second = paired
    model = ATH.paired(BITS, random_state=0).fit(
        {"mobilenet": X[0][c], "lite0": X[1][c][first]},
        pairs=number(first),
        frozen={"mobilenet": itq},
    )
    rows, known = X[2][c][second], number(second)
    model.join("to mobilenet", rows, to="mobilenet", X_to=X[0][c], pairs=known)
    model.join("to lite0", rows, to="lite0", X_to=X[1][c], pairs=known)
    model.join("to both", rows, to="lite0", X_to=X[1][c], codes_to=codes, pairs=known)
    model.join("to codes", rows, codes_to=codes, pairs=known)
    direct = ATH.paired(BITS, random_state=0).fit(
        X[0][c], rows, pairs=known, frozen={"source": itq}
    )
    assert (model.encode(X[0][c], "mobilenet") == codes).all()
    results = {
        "mobilenet, no change": searched(model, "mobilenet", X[0][q], codes, split),
        "lite0, joins by rows of mobilenet": searched(model, "lite0", X[1][q], codes, split),
        "lite2, frozen map from mobilenet": searched(direct, "target", X[2][q], codes, split),
    }
    for domain, what in (
        ("to mobilenet", "rows of mobilenet"),
        ("to both", "rows of lite0 and stored codes"),
        ("to codes", "stored codes alone"),
        ("to lite0", "rows of lite0 alone"),
    ):
        results[f"lite2, joins by {what}"] = searched(model, domain, X[2][q], codes, split)
    return results


# --- labels


def drawn_domains(seed: int) -> dict[str, tuple[Any, ...]]:
    """Return training rows and labels, then queries and labels, of the domains of PACS."""
    drawn = {}
    with np.load(DATA / "pacs.npz") as data:
        for name in DOMAINS:
            X, y = data[f"{name}_effnet_lite0"].astype(float), data[f"{name}_y"]
            order = np.random.default_rng(seed).permutation(len(y))
            q, c = order[:N_QUERIES], order[N_QUERIES:]
            drawn[name] = X[c], y[c], X[q], y[q]
    return drawn


def area(queries: Any, codes: Any, y_query: Any, y: Any) -> float:
    return radius_pr_area(distance_histogram(queries, codes, y_query, y, n_bits=BITS))


def few_labels(y: Any, n: int, rng: np.random.Generator) -> Any:
    kept = np.full_like(y, -1)
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))[:n]
        kept[rows] = c
    return kept


def labels(seed: int) -> Results:
    """Sketch joins photo and cartoon, against a fit of photo and sketch."""
    drawn = drawn_domains(seed)
    P, y_p, *_ = drawn["photo"]
    S, y_s, queries, y_q = drawn["sketch"]
    named = {name: drawn[name] for name in ("photo", "cartoon")}
    model = ATH.kernel(BITS, random_state=0).fit(
        {name: rows[0] for name, rows in named.items()},
        y={name: rows[1] for name, rows in named.items()},
    )
    codes = model.encode(P, "photo")
    some = few_labels(y_s, 3, np.random.default_rng(seed))
    results: Results = {}
    for case, preset, y in (
        ("all labels", ATH.kernel, y_s),
        ("labels of the photos", ATH.propagated, None),
        ("and 3 per class", ATH.propagated, some),
    ):
        joint = preset(BITS, random_state=0).fit(P, S, y_source=y_p, y_target=y)
        alone = area(joint.encode(queries, "target"), joint.encode(P, "source"), y_q, y_p)
        results[f"{case}, photo and sketch alone"] = (alone,)
        model.join(case, S, to="photo", X_to=P, y=y, y_to=y_p)
        assert (model.encode(P, "photo") == codes).all()
        results[f"{case}, sketch joins"] = (area(model.encode(queries, case), codes, y_q, y_p),)
    model.join("classes", S, y=y_s)
    joined = area(model.encode(queries, "classes"), codes, y_q, y_p)
    results["all labels, sketch joins by the codes of the classes"] = (joined,)
    return results


# --- several domains in one model


def domains(seed: int) -> Results:
    """Three domains in one model, against three fits of two."""
    drawn = drawn_domains(seed)
    results: Results = {}
    for name, preset in (("kernel", ATH.kernel), ("supervised", ATH.supervised)):

        def fitted(names: tuple[str, ...], preset: Callable[..., Any] = preset) -> Any:
            return preset(BITS, random_state=0).fit(
                {k: drawn[k][0] for k in names}, y={k: drawn[k][1] for k in names}
            )

        def cross(model: Any, query: str, database: str) -> float:
            X, y, *_ = drawn[database]
            *_, queries, y_query = drawn[query]
            return area(model.encode(queries, query), model.encode(X, database), y_query, y)

        results |= compared(fitted, cross, DOMAINS, f"{name}, ")
    return results


def views(seed: int) -> Results:
    """Six feature spaces in one model, against 15 fits of two."""
    with np.load(DATA / "external" / "uci_digits.npz") as data:
        X = {name: data[f"all_{name}"].astype(float) for name in VIEWS}
        y = data["all_y"]
    order = np.random.default_rng(seed).permutation(len(y))
    rows, queries = order[:1500], order[1500:]
    train = {name: X[name][rows] for name in VIEWS}

    def cross(model: Any, query: str, database: str) -> float:
        histogram = distance_histogram(
            model.encode(X[query][queries], query),
            model.encode(train[database], database),
            y[queries],
            y[rows],
            n_bits=BITS,
        )
        return mean_average_precision(histogram, top=100)

    def by_pairs(names: tuple[str, ...]) -> Any:
        same = np.column_stack([np.arange(len(rows))] * len(names))
        return ATH.paired(BITS, random_state=0).fit({k: train[k] for k in names}, pairs=same)

    def by_labels(names: tuple[str, ...]) -> Any:
        known = dict.fromkeys(names, y[rows])
        return ATH.kernel(BITS, random_state=0).fit({k: train[k] for k in names}, y=known)

    results = compared(by_pairs, cross, VIEWS, "pairs, ")
    return results | compared(by_labels, cross, VIEWS, "labels, ")


def compared(
    fitted: Callable[[tuple[str, ...]], Any],
    cross: Callable[[Any, str, str], float],
    names: tuple[str, ...],
    title: str,
) -> Results:
    """Return the mean over all ordered pairs of domains, of one model and of separate fits."""
    whole = fitted(names)
    together = [cross(whole, *two) for two in permutations(names, 2)]
    apart = []
    for two in combinations(names, 2):
        model = fitted(two)
        apart += [cross(model, *two), cross(model, *two[::-1])]
    return {
        f"{title}one model": (float(np.mean(together)),),
        f"{title}separate fits": (float(np.mean(apart)),),
    }


# --- refits


def refits(seed: int) -> Results:
    """Nine tenths of the rows, then all: what changes, and what is found."""
    drawn = drawn_domains(seed)
    X, Z = drawn["photo"][0], drawn["cartoon"][0]
    y_s, y_t = drawn["photo"][1], drawn["cartoon"][1]
    queries, y_q = drawn["cartoon"][2:]
    n, m = int(0.9 * len(X)), int(0.9 * len(Z))
    results: Results = {}
    for preset, labels in (
        ("kernel", (y_s, y_t)),
        ("supervised", (y_s, y_t)),
        ("propagated", (y_s, None)),
        ("unsupervised", (None, None)),
    ):

        def fitted(a: int, b: int, preset: str = preset, labels: Any = labels, **given: Any) -> Any:
            known = [None if y is None else y[:k] for y, k in zip(labels, (a, b), strict=True)]
            model = getattr(ATH, preset)(BITS, random_state=0)
            return model.fit(X[:a], Z[:b], y_source=known[0], y_target=known[1], **given)

        first = fitted(n, m)
        for case, given in (("refit", {}), ("initial", {"initial": first})):
            model = fitted(len(X), len(Z), **given)
            changed = [
                float((model.transform(rows, name) != first.transform(rows, name)).mean())
                for name, rows in (("source", X[:n]), ("target", Z[:m]))
            ]
            found = area(model.encode(queries, "target"), model.encode(X, "source"), y_q, y_s)
            results[f"{preset}, {case}"] = (float(np.mean(changed)), found)
    return results


# --- a million codes


def million(seed: int) -> Results:
    """Join 100,000 rows to a million codes, with labels or pairs."""
    n, n_new, width, n_classes = 1_000_000, 100_000, 384, 50
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(2, n_classes, width)).astype(np.float32)
    y, y_new = rng.integers(n_classes, size=n), rng.integers(n_classes, size=n_new)

    def rows(domain: int, labels: Any) -> Any:
        return centres[domain][labels] + rng.standard_normal((len(labels), width), dtype=np.float32)

    X, Z = rows(0, y), rows(1, y_new)
    few = slice(0, 3000)
    model = ATH.supervised(BITS, random_state=0)
    model.fit({"old": X[few], "other": rows(1, y[few])}, y={"old": y[few], "other": y[few]})
    codes = model.encode(X, "old")
    partners = rng.permutation(n)[:2000]
    Z[:2000] = rows(1, y[partners])
    pairs = np.column_stack([partners, np.arange(2000)])
    results: Results = {}
    for case, given in (
        ("codes of the classes", {"y": y_new}),
        ("labels of all codes", {"y": y_new, "codes_to": codes, "y_to": y}),
        ("2000 pairs", {"codes_to": codes, "pairs": pairs}),
    ):
        started = time.perf_counter()
        model.join(case, Z, **given)
        seconds = time.perf_counter() - started
        changed = (model.encode(X, "old") != codes).any(axis=1).sum()
        results[case] = (seconds, float(changed))
    return results


LINES: Mapping[str, Callable[[int], Results]] = {
    "pairs": pairs,
    "labels": labels,
    "domains": domains,
    "views": views,
    "succession": succession,
    "refits": refits,
    "million": million,
}
SECOND = {"refits": "area", "million": "codes changed"}  # what a second value is; else projections


def measured(line: str, seed: int) -> Results:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LINES[line](seed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", nargs="*", metavar="LINE", help=", ".join(LINES))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    seeds = range(options.first_split, options.first_split + options.splits)
    recorder = Recorder(options.record, seeds, ("pacs.npz", "external/uci_digits.npz"))
    for line in options.lines or LINES:
        if line == "million":
            found = [measured(line, seeds[0])]
        else:
            with threadpool_limits(1):  # one core per split: splits run in parallel
                found = Parallel(options.jobs)(delayed(measured)(line, seed) for seed in seeds)
        table = Table(line, "mean ± standard deviation", title=line, box=MARKDOWN)
        for row in found[0]:
            values = np.array([results[row] for results in found])
            cells = zip(values.mean(axis=0), values.std(axis=0), strict=True)
            table.add_row(row, " / ".join(f"{mean:.3f} ± {std:.3f}" for mean, std in cells))
            for k, column in enumerate(values.T):
                recorder.add(column, line, row, *([SECOND.get(line, "projections")] if k else []))
        Console(width=140).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
