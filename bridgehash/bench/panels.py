"""What the pictures of suites have in common: panels, titles, means over splits, legends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..datasets.spec import parse_task
from .drawing import line_style, sample
from .spec import Suite
from .tables import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES = {"cross": "search in the source", "single": "search in the target"}
AREA = "radius_pr_area in per cent"
LEAST_SPAN = 10.0  # per cent that an axis of scores shows at least


@dataclass(frozen=True)
class Panel:
    """One small picture."""

    title: str
    figure: Figure
    words: str  # what there is to see, for those who do not see it


@dataclass(frozen=True)
class Plot:
    """The picture of a suite: panels that may stand side by side or below each other."""

    caption: str
    panels: list[Panel]
    legend: list[tuple[str, Figure]]  # words, and a sample of what stands for them


def task_title(task: str) -> str:
    """A task in words.

    >>> task_title("pacs/photo.gist512-sketch.effnet_lite0@500")
    'pacs: photo.gist512 → sketch.effnet_lite0, 500 rows'
    """
    spec = parse_task(task)
    views = str(spec.source) if spec.alone else f"{spec.source} → {spec.target}"
    rows = "" if spec.n_train is None else f", {spec.n_train:,} rows"
    return f"{spec.dataset}: {views}{rows}"


def sides_of(suite: Suite, task: str) -> list[str]:
    """The sides to show of a task; both are the same where one view is source and target."""
    same = parse_task(task).alone and "single" in suite.sides
    return ["single"] if same else list(suite.sides)


def places(suite: Suite, runs: list[Run]) -> Iterator[tuple[str, str, list[Run]]]:
    """Side, title and runs for every task, length and side."""
    for task, bits in dict.fromkeys((run.task, run.n_bits) for run in runs):
        here = [run for run in runs if (run.task, run.n_bits) == (task, bits)]
        for side in sides_of(suite, task):
            yield side, f"{task_title(task)}; {SIDES[side]}, {bits} bits", here


def mean_area(runs: Iterable[Run], side: str) -> tuple[float, float]:
    """Mean and spread of the area over splits, in per cent."""
    values = [run.score(side) for run in runs]
    return float(np.mean(values)), float(np.std(values))


def by_label(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each method, in the order of the suite."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.label, []).append(run)
    return found


def legend_of(names: Iterable[str], known: Sequence[str]) -> list[tuple[str, Figure]]:
    """Lines by name; `known` fixes their styles."""
    return [(name, sample(line_style(known.index(name)))) for name in known if name in set(names)]


def told(values: Iterable[tuple[str, float]]) -> str:
    """Names and numbers in a sentence."""
    return ", ".join(f"{name} {value:.1f}" for name, value in values)
