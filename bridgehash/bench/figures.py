"""Figures of a suite, drawn from its records: `plot_of(suite, records)`.

Results that are missing or failed are not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..datasets import parse_task
from ..metrics import DistanceHistogram, radius_pr_curve
from .drawing import CLASSES, INK, SOFT, line_style, page_style, panel, plain, sample, widen
from .spec import MethodSpec, Suite
from .store import Record
from .tables import Run, runs_by, runs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES = {"cross": "search in the source", "single": "search in the target"}
AREA = "radius_pr_area in per cent"
ACCURACY = "1-NN accuracy in per cent"
LEAST_SPAN = 10.0  # per cent; an axis of scores shows at least this range

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # x and y
PointScore = tuple[Any, float]  # values of the parameters by name, and the score


@dataclass(frozen=True)
class Panel:
    """One small figure."""

    title: str
    figure: Figure
    words: str  # the content as text, for screen readers


@dataclass(frozen=True)
class Plot:
    """The figure of a suite: panels, a legend and a caption."""

    caption: str
    panels: list[Panel]
    legend: list[tuple[str, Figure]]  # name, and a sample of its line or marker


def plot_of(suite: Suite, records: Iterable[Record]) -> Plot | None:
    """Return the figure of a suite; None if it has none, or if no fit has finished."""
    if suite.figure is None:
        return None
    runs = [run for run in runs_of(suite, records) if run.finished]
    if not runs:
        return None
    with page_style():
        return PLOTS[suite.figure](suite, runs)


def task_title(task: str) -> str:
    """Return a task as a title.

    >>> task_title("pacs/photo.gist512-sketch.effnet_lite0@500")
    'pacs: photo.gist512 → sketch.effnet_lite0, 500 rows'
    >>> task_title("pacs/photo.gist512-sketch.gist512@classes=partial")
    'pacs: photo.gist512 → sketch.gist512, partial classes'
    """
    spec = parse_task(task)
    views = str(spec.source) if spec.alone else f"{spec.source} → {spec.target}"
    rows = "" if spec.n_train is None else f", {spec.n_train:,} rows"
    classes = "" if spec.classes is None else f", {spec.classes} classes"
    return f"{spec.dataset}: {views}{rows}{classes}"


def precision_recall(suite: Suite, runs: list[Run]) -> Plot:
    """Draw curves by Hamming radius, one line per method."""
    known = [method.label for method in suite.methods]
    panels = []
    for side, title, here in _places(suite, runs):
        figure, axes = panel()
        areas = {}
        for label, mine in runs_by(here, "label").items():
            areas[label] = mean_area(mine, side)[0]
            recall, precision = pooled_curve(mine, side)
            shown = recall > 0  # below, nothing is returned and precision is undefined
            style = line_style(known.index(label)) | {"markevery": 0.12, "clip_on": False}
            axes.plot(recall[shown], precision[shown], label=label, **style)
        chance = _counts(here, side, "relevant").sum() / _counts(here, side, "pairs").sum()
        axes.axhline(float(chance), color=INK, linewidth=0.8)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        plain(axes)
        words = f"Precision against recall, {title}. {AREA}: {_listed(areas)}."
        panels.append(Panel(title, figure, words))
    return Plot(
        "Precision and recall of all pairs within radius 0, 1, 2, … of a query, pooled over the "
        "queries of all splits. The area under the curve of one split is its radius_pr_area.",
        panels,
        [*_legend(runs, known), ("chance", sample({"color": INK, "linewidth": 0.8}))],
    )


def pooled_curve(runs: Iterable[Run], side: str) -> Curve:
    """Return recall and precision by radius, with the pairs of all runs pooled."""
    total, relevant = (_counts(runs, side, name)[None] for name in ("pairs", "relevant"))
    return radius_pr_curve(DistanceHistogram(total, relevant))


def _counts(runs: Iterable[Run], side: str, name: str) -> NDArray[np.int64]:
    """Return the number of pairs by distance, summed over runs."""
    return np.sum([run.record["scores"][side][name] for run in runs], axis=0, dtype=np.int64)


def bars(suite: Suite, runs: list[Run]) -> Plot:
    """Draw one bar per method, with the spread over splits."""
    known = [method.label for method in suite.methods]
    panels = []
    for side, title, here in _places(suite, runs):
        scores = {label: mean_area(mine, side) for label, mine in runs_by(here, "label").items()}
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
        means = {label: mean for label, (mean, _) in scores.items()}
        panels.append(Panel(title, figure, f"{AREA}: {_listed(means)}."))
    return Plot("Mean over splits; the thin line is one standard deviation each way.", panels, [])


def plane(suite: Suite, runs: list[Run]) -> Plot:
    """Draw the projections of both domains in the plane (t-SNE), for the first split."""
    panels: list[Panel] = []
    classes: set[int] = set()
    for run in (run for run in runs if run.seed == 0):
        title = f"{run.label}, {task_title(run.task)}, {run.n_bits} bits"
        embedding = run.record["embedding"]
        x, y, k = (np.array(embedding[name]) for name in ("x", "y", "class"))
        source = np.arange(len(x)) < embedding["n_source"]
        figure, axes = panel(3.2, 3.2)
        for hollow, chosen in ((True, source), (False, ~source)):
            for c in np.unique(k[chosen]):
                here = chosen & (k == c)
                axes.plot(x[here], y[here], **_point(CLASSES[c % len(CLASSES)], hollow=hollow))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        panels.append(Panel(title, figure, f"Rows of two domains as points in the plane, {title}."))
        classes |= set(embedding["class"])
    return Plot(
        "Projections before the sign, embedded in the plane by t-SNE, for some rows per domain. "
        "Hollow hexagons: source. Filled circles: target. Colours: classes. The axes have no "
        "meaning.",
        panels,
        [
            ("source", sample(_point(SOFT, hollow=True))),
            ("target", sample(_point(SOFT))),
            *((f"class {k}", sample(_point(CLASSES[k % len(CLASSES)]))) for k in sorted(classes)),
        ],
    )


def _point(colour: str, *, hollow: bool = False) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": "h" if hollow else "o",
        "markersize": 5.0 if hollow else 3.5,
        "markerfacecolor": "none" if hollow else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 0.9,
    }


def samples(suite: Suite, runs: list[Run]) -> Plot:
    """Draw the score against the number of training rows."""
    known = [method.label for method in suite.methods]
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task.partition("@")[0], run.n_bits), []).append(run)
    panels = [
        _samples_panel(f"{task_title(task)}; {SIDES[side]}, {bits} bits", here, side, known)
        for (task, bits), here in groups.items()
        for side in _sides(suite, task)
    ]
    return Plot(
        "Score against the number of training rows per domain, mean and standard deviation over "
        "splits. The training rows are also the rows that are searched, so both grow.",
        panels,
        _legend(runs, known),
    )


def _samples_panel(title: str, runs: list[Run], side: str, known: list[str]) -> Panel:
    from matplotlib.ticker import NullLocator

    figure, axes = panel()
    ends = []
    for label, mine in runs_by(runs, "label").items():
        x = sorted({_n_rows(run) for run in mine})
        scores = [mean_area([run for run in mine if _n_rows(run) == n], side) for n in x]
        y, spread = zip(*scores, strict=True)
        axes.errorbar(x, y, spread, capsize=2, label=label, **line_style(known.index(label)))
        ends.append(f"{label} from {y[0]:.1f} to {y[-1]:.1f}")
    sizes = sorted({_n_rows(run) for run in runs})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="training rows per domain", ylabel=AREA)
    widen(axes, LEAST_SPAN)
    plain(axes)
    return Panel(title, figure, f"{AREA} over training rows, {title}: {'; '.join(ends)}.")


def _n_rows(run: Run) -> int:
    """Return the training rows: the limit of the task, else those of the larger domain."""
    return parse_task(run.task).n_train or max(run.record["rows"].values())


def iterations(suite: Suite, runs: list[Run]) -> Plot:
    """Draw objective, 1-NN accuracy and area against the number of iterations."""
    methods = {method.label: method for method in suite.methods}
    series = list(dict.fromkeys(method.series for method in suite.methods))
    values: dict[str, Callable[[Run], float] | None] = {
        "objective, 1 after the first iteration": None,  # of one fit, not of one per point
        ACCURACY: lambda run: 100.0 * run.record.get("transfer", np.nan),
    }
    values |= {f"{AREA}, {SIDES[side]}": partial(Run.score, side=side) for side in suite.sides}
    panels = []
    for (task, bits), here in runs_by(runs, "task", "n_bits").items():
        for what, value in values.items():
            lines = {}
            for name in series:
                mine = [run for run in here if methods[run.label].series == name]
                lines[name] = (
                    _by_iterations(mine, methods, value) if value else objective_curve(mine)
                )
                if what == ACCURACY:
                    lines[name] = _from_the_features(mine, lines[name])
            lines = {name: xy for name, xy in lines.items() if np.isfinite(xy[1]).any()}
            if lines:
                title = f"{task_title(task)}, {bits} bits; {what}"
                panels.append(_curves_panel(title, what, lines, series))
    return Plot(
        "Iterations of Algorithm 1, mean over splits. Except for the objective, each point is a "
        "separate fit with that many iterations. 1-NN accuracy: share of target rows whose "
        "nearest projected source row has the same class; at 0 by the features themselves, or by "
        "one PCA per domain if the widths differ.",
        panels,
        [(name, sample(line_style(i))) for i, name in enumerate(series)],
    )


def _from_the_features(runs: list[Run], curve: Curve) -> Curve:
    """Put the accuracy before any learning in front of a curve, if it was recorded."""
    before = [
        100.0 * run.record["transfer_before"] for run in runs if "transfer_before" in run.record
    ]
    if not before:
        return curve
    return np.append(0.0, curve[0]), np.append(np.mean(before), curve[1])


def objective_curve(runs: list[Run]) -> Curve:
    """Return the objective of the longest runs per iteration, relative to the first."""
    values = [run.record.get("objective", []) for run in runs]
    longest = max(map(len, values), default=0)
    whole = np.array([v for v in values if len(v) == longest > 0], dtype=float)
    if whole.size == 0:
        return np.empty(0), np.empty(0)
    return np.arange(1.0, longest + 1), (whole / whole[:, :1]).mean(axis=0)


def _by_iterations(
    runs: list[Run], methods: dict[str, MethodSpec], value: Callable[[Run], float]
) -> Curve:
    values: dict[float, list[float]] = {}
    for run in runs:
        values.setdefault(float(methods[run.label].point["max_iter"]), []).append(value(run))
    x = sorted(values)
    return np.array(x), np.array([np.mean(values[n]) for n in x])


def _curves_panel(title: str, what: str, lines: dict[str, Curve], known: list[str]) -> Panel:
    from matplotlib.ticker import MaxNLocator

    figure, axes = panel()
    for name, (x, y) in lines.items():
        axes.plot(x, y, label=name, **line_style(known.index(name)))
    axes.set(xlabel="iterations", ylabel=what.partition(",")[0])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    widen(axes, 0.0 if what.startswith("objective") else LEAST_SPAN)
    plain(axes)
    ends = "; ".join(f"{name} from {y[0]:.3g} to {y[-1]:.3g}" for name, (_, y) in lines.items())
    return Panel(title, figure, f"{what}, over the iterations: {ends}.")


def grid(suite: Suite, runs: list[Run]) -> Plot:
    """Draw a heat map over two swept parameters, or a line over one."""
    methods = {method.label: method for method in suite.methods}
    panels = []
    for side, title, here in _places(suite, runs):
        for name in dict.fromkeys(methods[run.label].series for run in here):
            values: list[PointScore] = [
                (methods[label].point, mean_area(mine, side)[0])
                for label, mine in runs_by(here, "label").items()
                if methods[label].series == name
            ]
            draw = _heat_map if len(values[0][0]) == 2 else _line
            panels.append(Panel(f"{name}, {title}", *draw(values)))
    return Plot(f"{AREA}, mean over splits, by the values of the parameters.", panels, [])


def _heat_map(values: list[PointScore]) -> tuple[Figure, str]:
    """Draw the first parameter upwards, the second to the right, the score in every cell."""
    up, right = values[0][0]
    rows, columns = (list(dict.fromkeys(point[key] for point, _ in values)) for key in (up, right))
    Z = np.full((len(rows), len(columns)), np.nan)
    for point, score in values:
        Z[rows.index(point[up]), columns.index(point[right])] = score
    figure, axes = panel(3.5, 0.9 + 0.34 * len(rows))
    low, high = float(np.nanmin(Z)), float(np.nanmax(Z))
    top = max(high, low + 1.0)  # differences below one point get the same colour
    style: Any = {"cmap": "cividis", "vmin": low, "vmax": top, "edgecolor": "face"}
    axes.pcolormesh(np.arange(len(columns)), np.arange(len(rows)), Z, linewidth=0.4, **style)
    for (i, j), score in np.ndenumerate(Z):
        text = "" if np.isnan(score) else f"{score:.0f}"
        colour = "#000000" if score > (low + top) / 2 else "#ffffff"
        axes.text(j, i, text, ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), [short(x) for x in columns])
    axes.set_yticks(range(len(rows)), [short(x) for x in rows])
    axes.set(xlabel=right, ylabel=up)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    best, _ = max(values, key=lambda value: value[1])
    where = " and ".join(f"{key} {short(x)}" for key, x in best.items())
    return figure, f"{AREA} from {low:.1f} to {high:.1f}, highest at {where}."


def _line(values: list[PointScore]) -> tuple[Figure, str]:
    (key,) = values[0][0]
    names, y = [short(point[key]) for point, _ in values], [score for _, score in values]
    figure, axes = panel()
    axes.plot(range(len(y)), y, **line_style(3))
    axes.set_xticks(range(len(y)), names)
    axes.set(xlabel=key, ylabel=AREA)
    widen(axes, LEAST_SPAN)
    plain(axes)
    return figure, f"{AREA}, by {key}: {_listed(dict(zip(names, y, strict=True)))}."


def short(value: Any) -> str:
    """Return a value as the label of a tick.

    >>> short(1e-06), short(0.1), short(1000.0), short("itq")
    ('1e-6', '0.1', '1e3', 'itq')
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


PLOTS: dict[str, Callable[[Suite, list[Run]], Plot]] = {
    "pr": precision_recall,
    "iterations": iterations,
    "grid": grid,
    "bars": bars,
    "tsne": plane,
    "samples": samples,
}


def _sides(suite: Suite, task: str) -> list[str]:
    """Return the sides to show; both are the same if one view is source and target."""
    same = parse_task(task).alone and "single" in suite.sides
    return ["single"] if same else list(suite.sides)


def _places(suite: Suite, runs: list[Run]) -> Iterator[tuple[str, str, list[Run]]]:
    """Yield side, title and runs for every task, length and side."""
    for (task, bits), here in runs_by(runs, "task", "n_bits").items():
        for side in _sides(suite, task):
            yield side, f"{task_title(task)}; {SIDES[side]}, {bits} bits", here


def mean_area(runs: Iterable[Run], side: str) -> tuple[float, float]:
    """Return mean and standard deviation of the area over splits, in per cent."""
    values = [run.score(side) for run in runs]
    return float(np.mean(values)), float(np.std(values))


def _legend(runs: Iterable[Run], known: list[str]) -> list[tuple[str, Figure]]:
    """Return a line sample per method that was run; the place in `known` fixes the style."""
    ran = {run.label for run in runs}
    return [(name, sample(line_style(i))) for i, name in enumerate(known) if name in ran]


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())
