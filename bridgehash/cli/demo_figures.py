"""The pictures of the demo, as PNG files in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridgehash._core.errors import InputError
from bridgehash._core.linalg import Array
from bridgehash.bench.drawing import NEEDS, line_style, matplotlib_is_there, new_figure, plain, png
from bridgehash.cli.console import counted
from bridgehash.cli.demo_study import Nearest, Study
from bridgehash.metrics import radius_pr_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RIGHT, _WRONG, _QUERY = "#00795c", "#c44e00", "#3d4450"  # told apart with any kind of sight
_CURVES = {
    "HeCDR": "Two feature spaces (HeCDR)",
    "HoCDR": "One feature space (HoCDR)",
}


def require_matplotlib() -> None:
    """Say what to install before any long work is begun."""
    if not matplotlib_is_there():
        raise InputError(f"the pictures of the demo need matplotlib; {NEEDS}")


def pr_curves(study: Study) -> bytes:
    """Precision and recall by Hamming radius, across domains, for every method."""
    figure = new_figure(7.0, 4.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (subtask, title) in zip(panels, _CURVES.items(), strict=True):
        _draw_curves(axes, study, subtask)
        axes.set_title(title, fontsize=11, fontweight="bold", loc="left")
    panels[0].set_ylabel("precision")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    return png(figure)


def _draw_curves(axes: Axes, study: Study, subtask: str) -> None:
    for i, result in enumerate(study.results):
        recall, precision = radius_pr_curve(result.scores[subtask].histogram)
        found = recall > 0  # below, nothing is returned and precision means nothing
        axes.plot(
            recall[found],
            precision[found],
            **line_style(i),
            markevery=0.12,
            label=result.method.name,
            clip_on=False,
        )
    axes.axhline(study.chance(subtask) / 100, color="black", linewidth=0.8, label="chance")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall")
    plain(axes)


def nearest_items(study: Study, found: tuple[Nearest, ...]) -> bytes:
    """A query and its features at the left, to the right the nearest items, a row a method."""
    figure = new_figure(7.0, 1.7 * len(found), layout=None)
    query = study.domains.query
    axes = _tile(figure, 0, 0, "target image", _QUERY, f"Query: a {query.y[0]}")
    _draw_image(axes, query.images[0])
    axes = _tile(figure, 1, 0, "gradients", _QUERY, "Seen as")
    _draw_histograms(axes, study.task.X_query[0])
    for row, nearest in enumerate(found):
        heading = f"{nearest.name}: {nearest.summary()} among the nearest source images"
        for i, image in enumerate(nearest.images):
            colour, mark = (_RIGHT, "✓") if nearest.right[i] else (_WRONG, "✗")
            caption = f"{mark} {counted(int(nearest.distances[i]), 'bit')}"
            axes = _tile(figure, row, i + 1, caption, colour, heading if i == 0 else "")
            _draw_image(axes, image)
    return png(figure)


def _tile(figure: Figure, row: int, column: int, caption: str, colour: str, heading: str) -> Axes:
    """A framed square of one inch in a grid of such squares; the first column stands apart."""
    width, height = figure.get_size_inches()
    left = 0.05 + 1.13 * column + (0.2 if column else 0.0)
    bottom = height - 1.7 * row - 1.35
    axes = figure.add_axes((left / width, bottom / height, 1.0 / width, 1.0 / height))
    axes.set(xticks=[], yticks=[])
    axes.set_title(heading, fontsize=10.5, fontweight="bold", loc="left", pad=6)
    axes.set_xlabel(caption, color=colour, fontsize=10.5, fontweight="bold", labelpad=4)
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=2.5)
    return axes


def _draw_image(axes: Axes, image: Array) -> None:
    axes.imshow(1.0 - image, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto")


def _draw_histograms(axes: Axes, x: Array, n_cells: int = 4) -> None:
    """In each cell a stroke along the edges of each direction, the darker the more there are."""
    cells = x.reshape(n_cells, n_cells, -1)
    angles = np.pi * (np.arange(cells.shape[2]) / cells.shape[2] + 0.5)  # an edge crosses its slope
    across, down = 0.45 * np.cos(angles), 0.45 * np.sin(angles)
    for (i, j, b), amount in np.ndenumerate(cells / cells.max()):
        ends = (j - across[b], j + across[b]), (i - down[b], i + down[b])
        axes.plot(*ends, color="black", alpha=float(amount), linewidth=2.0)
    axes.set(xlim=(-0.5, n_cells - 0.5), ylim=(n_cells - 0.5, -0.5))
