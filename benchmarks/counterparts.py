"""Classes that one of the domains lacks: what ATH.propagated finds, and what that is worth.

    python benchmarks/counterparts.py [--tasks photo-cartoon ...] [--kinds partial ...]
        [--splits 10] [--first-split 0] [--labels 3] [--jobs 2] [--device cuda] [--record FILE]
        [--unlabelled]
    python benchmarks/counterparts.py --plot docs/counterparts.png

Tasks: photo-cartoon, cartoon-photo (PACS), amazon-caltech, caltech-amazon (Office-Caltech10), by
features of EfficientNet-Lite0, mnist-usps and usps-mnist (pixels). Kinds: closed (same classes),
partial (the target lacks half of the classes), open (the source lacks half of them), universal
(each lacks some); every split draws other classes. 64 bits. Labels of the source only, of all rows
or of N per class (--labels N): ATH.propagated against the same without the test
(`Propagation(private=False)`, with --untested) and ITQ. With --unlabelled no labels:
ATH.unsupervised, whose rows may abstain, against the same with all rows taking part. Mean ±
standard deviation of

* cross: radius_pr_area of target queries in the source, over queries whose class it has;
* single: the same inside the target, over all queries;
* reject: AUROC of `rejection_score` (ITQ: of the mean distance to the ten nearest source codes);
* reject codes: AUROC of `code_rejection_score`, which sees the codes of the queries only;
* told: share of the splits in which `CounterpartWarning` was given; 0 is right for closed, 1 for
  the others.

Needs the data pack ($BRIDGEHASH_DATA, or ../shared/data). About a minute of one core per fit.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from recorded import DATA, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from bridgehash import ATH, ITQ, CounterpartWarning, Propagation, Shared
from bridgehash.datasets import parse_task
from bridgehash.metrics import evaluate, rejection_auroc

TASKS = {
    "photo-cartoon": "pacs/photo.effnet_lite0-cartoon.effnet_lite0",
    "cartoon-photo": "pacs/cartoon.effnet_lite0-photo.effnet_lite0",
    "amazon-caltech": "office-caltech10/amazon.effnet_lite0-caltech10.effnet_lite0",
    "caltech-amazon": "office-caltech10/caltech10.effnet_lite0-amazon.effnet_lite0",
    "mnist-usps": "mnist-usps/mnist2000.pixels-usps1800.pixels",
    "usps-mnist": "mnist-usps/usps1800.pixels-mnist2000.pixels",
}
FILES = {
    "photo-cartoon": "pacs.npz",
    "cartoon-photo": "pacs.npz",
    "amazon-caltech": "office_caltech10.npz",
    "caltech-amazon": "office_caltech10.npz",
    "mnist-usps": "mnist_usps.npz",
    "usps-mnist": "mnist_usps.npz",
}
KINDS = ("closed", "partial", "open", "universal")
SCORES = ("cross", "single", "reject", "reject codes", "told")
BITS = 64
UNLABELLED = ("ATH.unsupervised", "all rows take part")


def fitted(method: str) -> Any:
    """Return a method that has not seen data."""
    if method == "ITQ":
        return Shared(ITQ(BITS, random_state=0))
    if method in UNLABELLED:
        model = ATH.unsupervised(BITS, random_state=0)
        return model.set_params(bipartite__abstaining=method == UNLABELLED[0])
    completion = Propagation(private=method != "not tested")
    return ATH.propagated(BITS, random_state=0, completion=completion)


def few(y: Any, n: int | None, seed: int) -> Any:
    """Return labels of n rows per class, and -1 for the others; None keeps all."""
    if n is None:
        return y
    order = np.random.default_rng(seed).permutation(len(y))
    chosen = np.concatenate([order[y[order] == c][:n] for c in np.unique(y)])
    return np.where(np.isin(np.arange(len(y)), chosen), y, -1)


def scores(
    task: str, kind: str, method: str, seed: int, n_labels: int | None, device: str | None
) -> list[float]:
    """Return the scores of one fit; NaN where there is none."""
    name = TASKS[task] + ("" if kind == "closed" else f"@classes={kind}")
    split = parse_task(name).load(seed, DATA)
    model = fitted(method)
    unlabelled = method in ("ITQ", *UNLABELLED)
    labels = {} if unlabelled else {"y_source": few(split.y_source, n_labels, seed)}
    on_device = {} if method == "ITQ" else {"device": device}
    with threadpool_limits(1), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        model.fit(split.X_source, split.X_target, **labels, **on_device)
    report = evaluate(model, split)
    told = any(issubclass(each.category, CounterpartWarning) for each in given)
    reject = np.nan if report.rejection_auroc is None else report.rejection_auroc
    areas = (report.cross.radius_pr_area, report.single.radius_pr_area)
    return [*areas, reject, _by_codes(model, split), float(told)]


def _by_codes(model: Any, split: Any) -> float:
    """Return how well codes alone tell queries of a class that the source lacks."""
    new = ~np.isin(split.y_query, split.y_source)
    if not new.any() or "target" not in (model.code_rejectors_ or {}):
        return np.nan
    return rejection_auroc(model.code_rejection_score(model.encode(split.X_query, "target")), new)


def plot(path: Path) -> None:
    """Draw the rejection scores of queries whose class the source has, or lacks; split 0."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for axis, task in zip(axes, ("amazon-caltech", "cartoon-photo"), strict=True):
        split = parse_task(TASKS[task] + "@classes=open").load(0, DATA)
        model = fitted("ATH.propagated")
        model.fit(split.X_source, split.X_target, y_source=split.y_source)
        values = model.rejection_score(split.X_query, "target")
        known = np.isin(split.y_query, split.y_source)
        bins = np.linspace(values.min(), values.max(), 31)
        axis.hist(values[known], bins, color="#4477aa", alpha=0.75, label="class known to source")
        axis.hist(values[~known], bins, color="#ee6677", alpha=0.75, label="class is new")
        axis.axvline(model.rejectors_["target"].limit, color="black", linewidth=1, label="limit")
        axis.set(title=task, xlabel="rejection score", ylabel="queries")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure the chosen tasks and kinds, print a table, and record it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    labelled = [task for task in TASKS if task != "caltech-amazon"]
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=labelled)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--labels", type=int, metavar="N", help="labels per class; all by default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", help="of the fits: cuda, ...; the CPU by default")
    parser.add_argument("--untested", action="store_true", help="also fit without the test")
    parser.add_argument("--unlabelled", action="store_true", help="fit without labels")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="only draw rejection scores")
    add_option(parser)
    options = parser.parse_args()
    if options.plot is not None:
        plot(options.plot)
        return
    seeds = range(options.first_split, options.first_split + options.splits)
    recorder = Recorder(options.record, seeds, [FILES[task] for task in options.tasks])
    methods = ["ATH.propagated", *(["not tested"] if options.untested else []), "ITQ"]
    if options.unlabelled:
        methods = [*UNLABELLED]
    groups = [
        (task, kind, method)
        for task in options.tasks
        for kind in options.kinds
        for method in methods
    ]
    runs = Parallel(options.jobs, return_as="generator")(
        delayed(scores)(*group, seed, options.labels, options.device)
        for group in groups
        for seed in seeds
    )
    few_labels = [] if options.labels is None else [f"{options.labels} labels per class"]
    table = Table("task", "classes", "method", *SCORES, box=MARKDOWN)
    for group in groups:
        found = np.array([next(runs) for _ in seeds])
        cells = []
        for name, values in zip(SCORES, found.T, strict=True):
            if np.isnan(values).any() or (name == "told" and group[-1] == "ITQ"):
                cells.append("")
                continue
            recorder.add(100 * values, *group, *few_labels, name)
            cells.append(f"{100 * values.mean():.1f} ± {100 * values.std():.1f}")
        table.add_row(*group, *cells)
        print(*group, *cells, flush=True)
        recorder.write()
    Console().print(table)


if __name__ == "__main__":
    main()
