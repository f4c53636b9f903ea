"""Pictures of a suite, as pure functions of its records: `plot_of(suite, records)`.

What has not been run, or has failed, is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.spec import parse_task
from ..metrics import DistanceHistogram, radius_pr_curve
from .drawing import CLASSES, INK, SOFT, line_style, page_style, panel, plain, sample, widen
from .panels import (
    AREA,
    LEAST_SPAN,
    SIDES,
    Panel,
    Plot,
    by_label,
    legend_of,
    mean_area,
    places,
    sides_of,
    task_title,
    told,
)
from .spec import Suite
from .store import Record
from .sweeps import grid, iterations
from .tables import Run, runs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_of(suite: Suite, records: Iterable[Record]) -> Plot | None:
    """The picture that a suite asks for; None if it asks for none, or nothing is finished."""
    runs = [run for run in runs_of(suite, records) if run.finished]
    if suite.figure is None or not runs:
        return None
    with page_style():
        return PLOTS[suite.figure](suite, runs)


def precision_recall(suite: Suite, runs: list[Run]) -> Plot:
    """Curves by Hamming radius, one line a method."""
    known = [method.label for method in suite.methods]
    panels = []
    for side, title, here in places(suite, runs):
        figure, axes = panel()
        for label, mine in by_label(here).items():
            recall, precision = pooled_curve(mine, side)
            found = recall > 0  # below, nothing is returned and precision means nothing
            style = line_style(known.index(label)) | {"markevery": 0.12, "clip_on": False}
            axes.plot(recall[found], precision[found], label=label, **style)
        axes.axhline(_chance(here, side), color=INK, linewidth=0.8)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        plain(axes)
        areas = told((label, mean_area(mine, side)[0]) for label, mine in by_label(here).items())
        words = f"Precision against recall, {title}. {AREA}: {areas}."
        panels.append(Panel(title, figure, words))
    chance = sample({"color": INK, "linewidth": 0.8})
    return Plot(
        "Precision and recall of all pairs within radius 0, 1, 2, … of a query, pooled over the "
        "queries of all splits. The area below the curve of a split is its radius_pr_area.",
        panels,
        [*legend_of(by_label(runs), known), ("chance", chance)],
    )


def pooled_curve(runs: Iterable[Run], side: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Recall and precision by radius, the pairs of all runs taken together."""
    total, relevant = (_counts(runs, side, name)[None] for name in ("pairs", "relevant"))
    return radius_pr_curve(DistanceHistogram(total, relevant))


def _chance(runs: Iterable[Run], side: str) -> float:
    """Precision of returning everything."""
    return float(_counts(runs, side, "relevant").sum() / _counts(runs, side, "pairs").sum())


def _counts(runs: Iterable[Run], side: str, name: str) -> NDArray[np.int64]:
    """Pairs by distance, summed over runs."""
    return np.sum([run.record["scores"][side][name] for run in runs], axis=0, dtype=np.int64)


def bars(suite: Suite, runs: list[Run]) -> Plot:
    """A bar a method, with the spread over splits."""
    known = [method.label for method in suite.methods]
    panels = []
    for side, title, here in places(suite, runs):
        scores = {label: mean_area(mine, side) for label, mine in by_label(here).items()}
        figure, axes = panel(3.5, 0.75 + 0.32 * len(scores))
        top = max(mean + spread for mean, spread in scores.values())
        for i, (label, (mean, spread)) in enumerate(scores.items()):
            colour = line_style(known.index(label))["color"]
            axes.barh(i, mean, xerr=spread or None, color=colour, height=0.62, ecolor=INK)
            axes.text(mean + spread + 0.02 * top, i, f"{mean:.1f}", va="center")
        axes.set_yticks(range(len(scores)), list(scores))
        axes.set(xlim=(0, 1.15 * top), xlabel=AREA)
        axes.invert_yaxis()
        plain(axes)
        axes.grid(visible=False, axis="y")
        words = told((label, mean) for label, (mean, _) in scores.items())
        panels.append(Panel(title, figure, f"{AREA}: {words}."))
    return Plot("Mean over splits; the thin line is one standard deviation each way.", panels, [])


def plane(suite: Suite, runs: list[Run]) -> Plot:
    """Projections of both domains, laid out by t-SNE, of the first split."""
    panels: list[Panel] = []
    classes: set[int] = set()
    for run in (run for run in runs if run.seed == 0):
        title = f"{run.label}, {task_title(run.task)}, {run.n_bits} bits"
        figure = _scatter(run.record["embedding"])
        panels.append(Panel(title, figure, f"Rows of two domains as points in the plane, {title}."))
        classes |= set(run.record["embedding"]["class"])
    shapes = [
        ("source", sample(_point("h", SOFT, hollow=True))),
        ("target", sample(_point("o", SOFT, hollow=False))),
    ]
    return Plot(
        "Projections before the sign, laid out in the plane by t-SNE; some rows of each domain. "
        "Hollow hexagons are source, full circles target, a colour is a class. Axes mean nothing.",
        panels,
        shapes
        + [(f"class {k}", sample(_point("o", _colour(k), hollow=False))) for k in sorted(classes)],
    )


def _scatter(embedding: dict[str, Any]) -> Figure:
    x, y, k = (np.array(embedding[name]) for name in ("x", "y", "class"))
    source = np.arange(len(x)) < embedding["n_source"]
    figure, axes = panel(3.2, 3.2)
    for chosen, marker, hollow in ((source, "h", True), (~source, "o", False)):
        for c in np.unique(k[chosen]):
            here = chosen & (k == c)
            axes.plot(x[here], y[here], **_point(marker, _colour(c), hollow=hollow))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return figure


def _colour(k: int) -> str:
    return CLASSES[k % len(CLASSES)]


def _point(marker: str, colour: str, *, hollow: bool) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": 5.0 if hollow else 3.5,
        "markerfacecolor": "none" if hollow else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 0.9,
    }


def samples(suite: Suite, runs: list[Run]) -> Plot:
    """Score against the number of training rows."""
    known = [method.label for method in suite.methods]
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task.partition("@")[0], run.n_bits), []).append(run)
    panels = [
        _samples_panel(f"{task_title(task)}; {SIDES[side]}, {bits} bits", here, side, known)
        for (task, bits), here in groups.items()
        for side in sides_of(suite, task)
    ]
    return Plot(
        "Score against the number of training rows of a domain, mean and standard deviation over "
        "splits. The rows that are searched are those that train, so they grow as well.",
        panels,
        legend_of(by_label(runs), known),
    )


def _samples_panel(title: str, runs: list[Run], side: str, known: list[str]) -> Panel:
    figure, axes = panel()
    ends = []
    for label, mine in by_label(runs).items():
        x, y, spread = rows_course(mine, side)
        axes.errorbar(x, y, spread, capsize=2, label=label, **line_style(known.index(label)))
        ends.append(f"{label} from {y[0]:.1f} to {y[-1]:.1f}")
    _rows_axis(axes, sorted({n_rows(run) for run in runs}))
    axes.set(xlabel="training rows of a domain", ylabel=AREA)
    widen(axes, LEAST_SPAN)
    plain(axes)
    return Panel(title, figure, f"{AREA} over training rows, {title}: {'; '.join(ends)}.")


def n_rows(run: Run) -> int:
    """Training rows: what the task allows, else those of the larger domain."""
    return parse_task(run.task).n_train or max(run.record["rows"].values())


def rows_course(runs: list[Run], side: str) -> tuple[list[int], list[float], list[float]]:
    """Numbers of rows, mean scores and spreads."""
    sizes = sorted({n_rows(run) for run in runs})
    scores = [mean_area([run for run in runs if n_rows(run) == n], side) for n in sizes]
    return sizes, [mean for mean, _ in scores], [spread for _, spread in scores]


def _rows_axis(axes: Axes, sizes: list[int]) -> None:
    """A logarithmic axis with the numbers that were tried."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())


PLOTS: dict[str, Callable[[Suite, list[Run]], Plot]] = {
    "pr": precision_recall,
    "iterations": iterations,
    "grid": grid,
    "bars": bars,
    "tsne": plane,
    "samples": samples,
}
