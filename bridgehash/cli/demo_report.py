"""The report of `bridgehash demo`: five methods on the four retrieval tasks of the paper.

`run_study` computes, `show` prints, `write_files` writes. Digits of the source domain are pixels;
digits of the target domain are pixels (Ho) or gradient histograms (He).
"""

from __future__ import annotations

import shlex
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from threadpoolctl import threadpool_limits

from bridgehash import HammingIndex, __version__
from bridgehash._core.errors import FeatureSpaceWarning
from bridgehash._core.files import atomic_write
from bridgehash._core.linalg import Array
from bridgehash._core.progress import progress
from bridgehash.bench.drawing import NEEDS, line_style, matplotlib_is_there, new_figure, plain, png
from bridgehash.bench.spec import SEEN, MethodSpec
from bridgehash.bench.tables import Cell, ResultTable
from bridgehash.cli.console import counted, may_animate, note
from bridgehash.cli.io import write_codes
from bridgehash.datasets import DigitDomains, TransferTask, digit_domains
from bridgehash.metrics import radius_pr_curve
from bridgehash.metrics.evaluate import Scores, evaluate
from bridgehash.models.base import BaseTransferHasher

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BITS, N_NEAREST = 64, 5
METHODS = (
    MethodSpec("ITQ", "itq"),
    MethodSpec("ATH unsupervised", "ath-unsupervised"),
    MethodSpec("ATH semi-supervised", "ath-semi-supervised", "source"),
    MethodSpec("ATH supervised", "ath-supervised", "both"),
    MethodSpec("ATH kernel", "ath-kernel", "both"),
)
SUBTASKS = ("HoSDR", "HoCDR", "HeSDR", "HeCDR")  # Ho, He: one or two feature spaces
METRICS = ("radius_pr_area", "mean_average_precision")
SAVED = "ATH kernel"  # the model that is written
COMPARED = (SAVED, "ITQ")  # methods whose nearest items are shown
FILES = {
    "index.html": "this page",
    "model.bh": "ATH kernel, learned from two feature spaces",
    "codes_source.npy": "packed codes of the source, one row per image",
    "codes_target.npy": "packed codes of the target, without the queries",
    "digits.npz": "the data: source, target, query and their labels y_source, y_target, y_query; "
    "target_pixels and query_pixels are the same images in the feature space of the source, pairs "
    "their rows; ids are new ids for the queries",
    "neighbours.png": "one query and the images nearest to it",
    "pr_curve.png": "precision and recall by Hamming radius",
}
KEY = (
    "Ho: both domains are pixels. He: source as pixels, target as gradient histograms.",
    "SDR: target queries search the target. CDR: target queries search the source.",
    "In per cent: radius_pr_area (mean_average_precision). One split of the images;",
    "another split changes the scores by several points.",
)
_FIRST_ID = 10_000  # of the queries, if they are added to an index
_RIGHT, _WRONG, _QUERY = "#00795c", "#c44e00", "#3d4450"  # distinct for colour-blind readers


@dataclass(frozen=True, eq=False)
class Study:
    """Scores of all methods by subtask, and the hashers of the task with two feature spaces."""

    domains: DigitDomains
    task: TransferTask
    scores: dict[str, dict[str, Scores]]
    hashers: dict[str, BaseTransferHasher]

    def table(self, metric: str) -> ResultTable:
        """Return methods by subtasks, in per cent."""
        rows = {
            label: [Cell({0: 100 * getattr(by_subtask[name], metric)}) for name in SUBTASKS]
            for label, by_subtask in self.scores.items()
        }
        return ResultTable("cross", metric, [(name, N_BITS) for name in SUBTASKS], rows)

    def areas(self, subtask: str) -> dict[str, float]:
        """Return `radius_pr_area` by method, in per cent."""
        return {label: 100 * by[subtask].radius_pr_area for label, by in self.scores.items()}

    def chance(self, subtask: str) -> float:
        """Return the share of relevant pairs in per cent: the score of random codes."""
        histogram = self.scores[METHODS[0].label][subtask].histogram
        return 100 * float(histogram.relevant.sum() / histogram.total.sum())


class Neighbors(NamedTuple):
    """The source items nearest to a query, by one method."""

    method: str
    images: Array  # (k, 8, 8)
    y: list[int]
    distances: list[int]  # in bits
    right: list[bool]

    @property
    def summary(self) -> str:
        return f"{sum(self.right)} of {len(self.right)} right"


def run_demo(out: Path, console: Console, domains: DigitDomains | None = None) -> None:
    """Fit, score, print and write everything; existing files are replaced."""
    domains = digit_domains() if domains is None else domains
    with progress("demo", 2 * len(METHODS), visible=may_animate()) as advance:
        study = run_study(domains, advance)
    neighbors = [nearest(study, method) for method in COMPARED]
    show(console, study, neighbors)
    out.mkdir(parents=True, exist_ok=True)
    written = write_files(out, study, neighbors)
    console.print(f"Written to {out}: {', '.join(written)}", markup=False)
    if left_out := [name for name in FILES if name not in written]:
        note(f"without matplotlib there is no {' and no '.join(left_out)}; {NEEDS}")
    console.print(f"Open {out / 'index.html'} in a browser, or try next:\n", markup=False)
    for what, command in next_steps(out).items():
        console.print(f"# {what}", style="dim")
        console.print(f"{command}\n", markup=False, soft_wrap=True)


def run_study(domains: DigitDomains, advance: Callable[[str], None]) -> Study:
    """Fit and score every method on both tasks; call `advance(label)` after each fit."""
    tasks = {"Ho": domains.homogeneous(), "He": domains.heterogeneous()}
    scores: dict[str, dict[str, Scores]] = {}
    hashers = {}
    with threadpool_limits(1):  # for small matrices threads cost more than they save
        for method in METHODS:
            by_subtask = scores[method.label] = {}
            for space, task in tasks.items():
                labels = {name: getattr(task, name) for name in SEEN[method.labels]}
                hasher = method.build(N_BITS, seed=0)
                with warnings.catch_warnings():  # the table shows what two spaces cost
                    warnings.simplefilter("ignore", FeatureSpaceWarning)
                    hasher.fit(task.X_source, task.X_target, **labels)
                report = evaluate(hasher, task)
                by_subtask |= {f"{space}SDR": report.single, f"{space}CDR": report.cross}
                advance(method.label)
            hashers[method.label] = hasher
    return Study(domains, tasks["He"], scores, hashers)


def nearest(study: Study, method: str, query: int = 0, k: int = N_NEAREST) -> Neighbors:
    """Return the k source items nearest to a query, across feature spaces."""
    hasher, task, source = study.hashers[method], study.task, study.domains.source
    index = HammingIndex(N_BITS).add(hasher.encode(task.X_source, "source"))
    codes = hasher.encode(task.X_query[query : query + 1], "target")
    distances, ids = (result[0] for result in index.search(codes, k))
    y = source.y[ids]
    right = y == task.y_query[query]
    return Neighbors(method, source.images[ids], y.tolist(), distances.tolist(), right.tolist())


def summary(study: Study) -> str:
    """Return the main results in two sentences."""
    areas, one_space = study.areas("HeCDR"), study.areas("HoCDR")
    chance = study.chance("HeCDR")
    best = max(areas, key=lambda method: areas[method])
    near = [f"{method} ({area:.1f})" for method, area in areas.items() if area < 2 * chance]
    unlabelled = [method.label for method in METHODS if method.labels == "none"]
    ranked = sorted(unlabelled, key=lambda method: -one_space[method])
    return (
        f"Across feature spaces (HeCDR), {best} is best with {areas[best]:.1f}; near chance "
        f"({chance:.1f}): {', '.join(near) or 'no method'}. Without labels, in one feature space "
        f"(HoCDR): {', '.join(f'{method} {one_space[method]:.1f}' for method in ranked)}."
    )


def show(console: Console, study: Study, neighbors: list[Neighbors]) -> None:
    """Print the data, the table of scores and the example query."""
    domains, task = study.domains, study.task
    console.print(
        f"Handwritten digits in two domains. Source: {len(domains.source.y)} images, "
        f"{task.X_source.shape[1]} pixels. Target: {len(domains.target.y)} other images, blurred "
        f"and shifted by one pixel, as pixels or as gradient histograms "
        f"({task.X_target.shape[1]} numbers). Queries: {len(domains.query.y)} more target images. "
        f"Codes of {N_BITS} bits.\n"
    )
    areas, precisions = map(study.table, METRICS)
    best = [areas.rank(column) for column in range(len(SUBTASKS))]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in ("method", "labels", *SUBTASKS):
        table.add_column(name, no_wrap=True)
    for label, seen in ((method.label, method.labels) for method in METHODS):
        cells = [
            Text.assemble(
                (f"{area.mean:4.1f}", "bold green" if rank[label] == 1 else ""),
                (f" ({precision.mean:.1f})", "dim"),
            )
            for area, precision, rank in zip(
                areas.rows[label], precisions.rows[label], best, strict=True
            )
        ]
        table.add_row(label, seen, *cells)
    table.add_row("chance", "", *(f"{study.chance(name):4.1f}" for name in SUBTASKS), style="dim")
    console.print(table, "")
    for line in KEY:
        console.print(line, style="dim")
    console.print(f"\n{summary(study)}\n", style="bold")
    show_neighbors(console, study, neighbors)


def show_neighbors(console: Console, study: Study, neighbors: list[Neighbors]) -> None:
    """Print a query and its nearest items as small pictures, one row per method."""
    query, plain_text = study.domains.query, console.options.ascii_only
    marks = ("no", "ok") if plain_text else ("✗", "✓")
    console.print(
        f"The first query, a {query.y[0]} of the target as gradient histograms, and the nearest "
        "items of the source, as pixels:"
    )
    for each in neighbors:
        grid = Table.grid(padding=(0, 3))
        pictures = (query.images[0], *each.images)
        grid.add_row(*(_drawn(image, " '.:" if plain_text else " ▀▄█") for image in pictures))
        captions = [
            Text(f"{marks[right]} {counted(bits, 'bit')}", "green" if right else "red")
            for right, bits in zip(each.right, each.distances, strict=True)
        ]
        grid.add_row(Text("query", "bold"), *captions)
        console.print(f"\n{each.method}: {each.summary}", style="bold")
        console.print(grid)
    console.print()


def _drawn(image: Array, blocks: str) -> str:
    """Return an image as text, two pixels per character: none, upper, lower, both."""
    ink = image > 0.5 * image.max()
    return "\n".join("".join(blocks[i] for i in row) for row in ink[::2] + 2 * ink[1::2])


def write_files(out: Path, study: Study, neighbors: list[Neighbors]) -> dict[str, str]:
    """Write model, codes, data, page and, with matplotlib, pictures; return files by name."""
    hasher, task = study.hashers[SAVED], study.task
    hasher.save(out / "model.bh")
    write_codes(out / "codes_source.npy", hasher.encode(task.X_source, "source"))
    write_codes(out / "codes_target.npy", hasher.encode(task.X_target, "target"))
    write_data(out, study.domains)
    pictures = {}
    if matplotlib_is_there():
        pictures["neighbours.png"] = draw_neighbors(study, neighbors)
        pictures["pr_curve.png"] = draw_curves(study)
    written = {
        name: what for name, what in FILES.items() if name[-4:] != ".png" or name in pictures
    }
    page = render_page(out, study, neighbors, pictures, written).encode()
    for name, content in {**pictures, "index.html": page}.items():
        with atomic_write(out / name) as temporary:
            temporary.write_bytes(content)
    return written


def write_data(out: Path, domains: DigitDomains | None = None) -> Path:
    """Write the arrays of the demo and return their file."""
    domains = digit_domains() if domains is None else domains
    task, path = domains.heterogeneous(), out / "digits.npz"
    arrays: Any = {
        **{name: getattr(task, f"X_{name}") for name in ("source", "target", "query")},
        **{f"y_{name}": getattr(task, f"y_{name}") for name in ("source", "target", "query")},
        **{f"{name}_pixels": getattr(domains, name).pixels for name in ("target", "query")},
        "pairs": np.column_stack(2 * [np.arange(len(task.X_target))]),
        "ids": _FIRST_ID + np.arange(len(task.X_query)),
    }
    out.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
    return path


def next_steps(out: Path) -> dict[str, str]:
    """Return commands that work with the files of the demo, by what they do."""
    names = ("model.bh", "digits.npz", "mine.bh", "codes_query.npy")
    model, data, mine, codes = (shlex.quote(str(out / name)) for name in names)
    line = " \\\n    "
    return {
        "Describe the model": f"bridgehash info {model}",
        "Learn your own model": f"bridgehash fit {data}:source {data}:target{line}"
        f"--labels-source {data}:y_source --labels-target {data}:y_target{line}"
        f"--bits 32 --out {mine}",
        "Encode new rows": f"bridgehash encode {mine} {data}:query --domain target{line}"
        f"--out {codes}",
        "Evaluate it": f"bridgehash evaluate {mine}{line}"
        f"--queries {data}:query --labels-queries {data}:y_query{line}"
        f"--database {data}:source --labels-database {data}:y_source",
    }


def render_page(
    out: Path,
    study: Study,
    neighbors: list[Neighbors],
    pictures: dict[str, bytes],
    files: dict[str, str],
) -> str:
    """Return the page as HTML, with the pictures inside."""
    environment = Environment(
        loader=PackageLoader("bridgehash.cli"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("demo.html").render(
        version=__version__,
        n_bits=N_BITS,
        study=study,
        summary=summary(study),
        neighbors=neighbors,
        methods=METHODS,
        subtasks=SUBTASKS,
        tables=[study.table(metric) for metric in METRICS],
        steps=next_steps(out),
        files=files,
        pictures={name: b64encode(content).decode() for name, content in pictures.items()},
    )


def draw_curves(study: Study) -> bytes:
    """Draw precision and recall by Hamming radius, across domains, for every method."""
    figure = new_figure(7.0, 4.0)
    panels = figure.subplots(1, 2, sharey=True)
    titles = {"HeCDR": "Two feature spaces (HeCDR)", "HoCDR": "One feature space (HoCDR)"}
    for axes, (subtask, title) in zip(panels, titles.items(), strict=True):
        for i, (label, by_subtask) in enumerate(study.scores.items()):
            recall, precision = radius_pr_curve(by_subtask[subtask].histogram)
            some = recall > 0  # without results precision is undefined
            style = line_style(i) | {"markevery": 0.12, "clip_on": False}
            axes.plot(recall[some], precision[some], label=label, **style)
        axes.axhline(study.chance(subtask) / 100, color="black", linewidth=0.8, label="chance")
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall")
        axes.set_title(title, fontsize=11, fontweight="bold", loc="left")
        plain(axes)
    panels[0].set_ylabel("precision")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    return png(figure)


def draw_neighbors(study: Study, neighbors: list[Neighbors]) -> bytes:
    """Draw a query and its features on the left, its nearest items on the right."""
    query, n = study.domains.query, len(neighbors)
    figure = new_figure(7.0, 1.7 * n, layout=None)
    sizes = {"width_ratios": [1, 0.05] + N_NEAREST * [1], "wspace": 0.12, "hspace": 0.6}
    grid = figure.subplots(n, 2 + N_NEAREST, gridspec_kw=sizes)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.91, bottom=0.1)
    _draw_histograms(grid[1, 0], study.task.X_query[0])
    grid[0, 0].imshow(1.0 - query.images[0], cmap="gray", vmin=0.0, vmax=1.0, aspect="auto")
    _frame(grid[0, 0], "target image", _QUERY, f"Query: a {query.y[0]}")
    _frame(grid[1, 0], "gradients", _QUERY, "Seen as")
    for row, each in zip(grid, neighbors, strict=True):
        row[1].set_axis_off()
        for i, axes in enumerate(row[2:]):
            axes.imshow(1.0 - each.images[i], cmap="gray", vmin=0.0, vmax=1.0, aspect="auto")
            colour, mark = (_RIGHT, "✓") if each.right[i] else (_WRONG, "✗")
            title = f"{each.method}: {each.summary} among the nearest source images"
            caption = f"{mark} {counted(each.distances[i], 'bit')}"
            _frame(axes, caption, colour, "" if i else title)
    return png(figure)


def _frame(axes: Axes, caption: str, colour: str, title: str) -> None:
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=10.5, fontweight="bold", loc="left", pad=6)
    axes.set_xlabel(caption, color=colour, fontsize=10.5, fontweight="bold", labelpad=4)
    axes.spines[:].set(color=colour, linewidth=2.5)


def _draw_histograms(axes: Axes, x: Array, n_cells: int = 4) -> None:
    """Draw one stroke per cell and direction; darker strokes are stronger edges."""
    cells = x.reshape(n_cells, n_cells, -1)
    angles = np.pi * (np.arange(cells.shape[2]) / cells.shape[2] + 0.5)  # an edge crosses its slope
    across, down = 0.45 * np.cos(angles), 0.45 * np.sin(angles)
    for (i, j, b), amount in np.ndenumerate(cells / cells.max()):
        ends = (j - across[b], j + across[b]), (i - down[b], i + down[b])
        axes.plot(*ends, color="black", alpha=float(amount), linewidth=2.0)
    axes.set(xlim=(-0.5, n_cells - 0.5), ylim=(n_cells - 0.5, -0.5))
