"""The pictures of the demo, as PNG files in memory."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from bridgehash.linalg import Array
from bridgehash.metrics import radius_pr_curve

from .console import counted
from .demo_study import Nearest, Study
from .tables import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RIGHT, _WRONG, _QUERY = "#00795c", "#c44e00", "#3d4450"  # told apart with any kind of sight
_GREY = "#6b7280"
_LINES = (  # colour, dashes and marker of each method, in the order of the table
    ("#6b7280", (0, (4, 2)), "s"),
    ("#cc79a7", (0, (1, 1.2)), "D"),
    ("#d98a00", (0, (6, 1.5, 1, 1.5)), "v"),
    ("#0072b2", "solid", "o"),
    ("#00795c", "solid", "^"),
)
_CURVES = {
    "HeCDR": "Two feature spaces (HeCDR)",
    "HoCDR": "One feature space (HoCDR)",
}


def require_matplotlib() -> None:
    """Say what to install before any long work is begun."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(
            "the pictures of the demo need matplotlib; pip install 'bridgehash[plots]'"
        ) from error


def pr_curves(study: Study) -> bytes:
    """Precision and recall by Hamming radius, across domains, for every method."""
    figure = _figure(7.0, 4.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (subtask, title) in zip(panels, _CURVES.items(), strict=True):
        _draw_curves(axes, study, subtask)
        axes.set_title(title, fontsize=11, fontweight="bold", loc="left")
    panels[0].set_ylabel("precision")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    return _png(figure)


def _draw_curves(axes: Axes, study: Study, subtask: str) -> None:
    for result, (colour, dashes, marker) in zip(study.results, _LINES, strict=True):
        recall, precision = radius_pr_curve(
            result.scores[subtask].histogram, include_max_radius=True
        )
        found = recall > 0  # below, nothing is returned and precision means nothing
        axes.plot(
            recall[found],
            precision[found],
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=4.5,
            markevery=0.12,
            linewidth=1.8,
            label=result.method.name,
            clip_on=False,
        )
    axes.axhline(study.chance(subtask) / 100, color="black", linewidth=0.8, label="chance")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def nearest_items(study: Study, found: tuple[Nearest, ...]) -> bytes:
    """A query at the left, and to its right the items nearest to it, one row a method."""
    k = len(found[0].y)
    figure = _figure(7.0, 1.75 * len(found))
    left, right = figure.subfigures(1, 2, width_ratios=(1.35, k))
    query = study.domains.query
    axes = left.subplots()
    _tile(axes, query.images[0], _QUERY, f"query: a {query.y[0]}")
    rows = right.subfigures(len(found), 1)
    for row, nearest in zip(rows, found, strict=True):
        row.suptitle(
            f"{nearest.name}: {nearest.summary()}", x=0.01, ha="left", fontsize=11, weight="bold"
        )
        for i, axes in enumerate(row.subplots(1, k)):
            colour, mark = (_RIGHT, "✓") if nearest.right[i] else (_WRONG, "✗")
            distance = counted(int(nearest.distances[i]), "bit")
            _tile(axes, nearest.images[i], colour, f"{mark} {distance}")
    return _png(figure)


def _tile(axes: Axes, image: Array, colour: str, caption: str) -> None:
    axes.imshow(1.0 - image, cmap="gray", vmin=0.0, vmax=1.0)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(caption, color=colour, fontsize=11, fontweight="bold", labelpad=4)
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=2.5)


def _figure(width: float, height: float) -> Figure:
    """A figure of its own, without the global state of pyplot; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _png(figure: Figure) -> bytes:
    """The same bytes for the same picture: no version is written into it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()
