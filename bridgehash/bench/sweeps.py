"""Pictures of sweeps: the course over the rounds, and scores by the values of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .drawing import line_style, panel, plain, widen
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
    task_title,
    told,
)
from .spec import MethodSpec, Suite
from .tables import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Course = tuple[NDArray[np.float64], NDArray[np.float64]]  # x and y
Scored = tuple[Any, float]  # values of parameters by name, and the score there


def iterations(suite: Suite, runs: list[Run]) -> Plot:
    """Objective, 1-NN accuracy and area against the number of rounds."""
    methods = {method.label: method for method in suite.methods}
    series = list(dict.fromkeys(method.series for method in suite.methods))
    courses: dict[str, Callable[[list[Run]], Course]] = {
        "objective, 1 after the first round": objective_course,
        "1-NN accuracy in per cent": lambda mine: _by_rounds(mine, methods, _accuracy),
    }
    for side in suite.sides:
        courses[f"{AREA}, {SIDES[side]}"] = _area_course(methods, side)
    panels = []
    for task, bits in dict.fromkeys((run.task, run.n_bits) for run in runs):
        here = [run for run in runs if (run.task, run.n_bits) == (task, bits)]
        for what, course in courses.items():
            lines = {
                name: course([run for run in here if methods[run.label].series == name])
                for name in series
            }
            lines = {name: xy for name, xy in lines.items() if np.isfinite(xy[1]).any()}
            if lines:
                title = f"{task_title(task)}, {bits} bits; {what}"
                panels.append(_course_panel(title, what, lines, series))
    return Plot(
        "The course over the rounds of Algorithm 1, mean over splits. Every point but those of the "
        "objective is a fit of its own, stopped after so many rounds. 1-NN accuracy: the share of "
        "target rows whose nearest projected source row has their class.",
        panels,
        legend_of(series, series),
    )


def objective_course(runs: list[Run]) -> Course:
    """The objective of the longest runs by round, relative to the first, mean over splits."""
    values = [run.record.get("objective", []) for run in runs]
    longest = max(map(len, values), default=0)
    whole = np.array([v for v in values if len(v) == longest > 0], dtype=float)
    if whole.size == 0:
        return np.empty(0), np.empty(0)
    return np.arange(1.0, longest + 1), (whole / whole[:, :1]).mean(axis=0)


def _area_course(methods: dict[str, MethodSpec], side: str) -> Callable[[list[Run]], Course]:
    return lambda runs: _by_rounds(runs, methods, lambda run: run.score(side))


def _accuracy(run: Run) -> float:
    return 100.0 * float(run.record.get("transfer", np.nan))


def _by_rounds(
    runs: list[Run], methods: dict[str, MethodSpec], value: Callable[[Run], float]
) -> Course:
    found: dict[float, list[float]] = {}
    for run in runs:
        found.setdefault(float(methods[run.label].point["max_iter"]), []).append(value(run))
    rounds = sorted(found)
    return np.array(rounds), np.array([np.mean(found[n]) for n in rounds])


def _course_panel(title: str, what: str, lines: dict[str, Course], known: list[str]) -> Panel:
    from matplotlib.ticker import MaxNLocator

    figure, axes = panel()
    for name, (x, y) in lines.items():
        axes.plot(x, y, label=name, **line_style(known.index(name)))
    axes.set(xlabel="rounds", ylabel=what.partition(",")[0])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    widen(axes, 0.0 if what.startswith("objective") else LEAST_SPAN)
    plain(axes)
    ends = "; ".join(f"{name} from {y[0]:.3g} to {y[-1]:.3g}" for name, (_, y) in lines.items())
    return Panel(title, figure, f"{what}, over the rounds: {ends}.")


def grid(suite: Suite, runs: list[Run]) -> Plot:
    """A heat map over two swept parameters, a line over one."""
    methods = {method.label: method for method in suite.methods}
    panels = []
    for side, title, here in places(suite, runs):
        for name in dict.fromkeys(methods[run.label].series for run in here):
            values: list[Scored] = [
                (methods[label].point, mean_area(mine, side)[0])
                for label, mine in by_label(here).items()
                if methods[label].series == name
            ]
            draw = _heat_map if len(values[0][0]) == 2 else _line
            panels.append(Panel(f"{name}, {title}", *draw(values)))
    return Plot(f"{AREA}, mean over splits, by the values of the parameters.", panels, [])


def _heat_map(values: list[Scored]) -> tuple[Figure, str]:
    """The first parameter upwards, the second to the right, the score in every cell."""
    up, right = values[0][0]
    rows, columns = (list(dict.fromkeys(point[key] for point, _ in values)) for key in (up, right))
    Z = np.full((len(rows), len(columns)), np.nan)
    for point, score in values:
        Z[rows.index(point[up]), columns.index(point[right])] = score
    figure, axes = panel(3.5, 0.9 + 0.34 * len(rows))
    low, high = float(np.nanmin(Z)), float(np.nanmax(Z))
    top = max(high, low + 1.0)  # differences below a point are no colours
    shown: dict[str, Any] = {
        "cmap": "cividis",
        "vmin": low,
        "vmax": top,
        "edgecolor": "face",
        "linewidth": 0.4,
    }
    axes.pcolormesh(np.arange(len(columns)), np.arange(len(rows)), Z, **shown)
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


def _line(values: list[Scored]) -> tuple[Figure, str]:
    (key,) = values[0][0]
    names, y = [short(point[key]) for point, _ in values], [score for _, score in values]
    figure, axes = panel()
    axes.plot(range(len(y)), y, **line_style(3))
    axes.set_xticks(range(len(y)), names)
    axes.set(xlabel=key, ylabel=AREA)
    widen(axes, LEAST_SPAN)
    plain(axes)
    return figure, f"{AREA}, by {key}: {told(zip(names, y, strict=True))}."


def short(value: Any) -> str:
    """A value on an axis.

    >>> short(1e-06), short(0.1), short(1000.0), short("itq")
    ('1e-6', '0.1', '1e3', 'itq')
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
