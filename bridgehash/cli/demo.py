"""`bridgehash demo`: the whole package on data that it carries, in less than a minute."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from bridgehash._core.errors import InputError
from bridgehash._core.files import atomic_write
from bridgehash._core.progress import progress
from bridgehash.cli.console import may_animate
from bridgehash.cli.demo_figures import nearest_items, pr_curves, require_matplotlib
from bridgehash.cli.demo_page import page
from bridgehash.cli.demo_study import COMPARED, METHODS, Nearest, Study, nearest, reading, run_study
from bridgehash.cli.demo_terminal import show_data, show_nearest, show_scores
from bridgehash.cli.io import write_codes
from bridgehash.datasets import DigitDomains, digit_domains

SAVED = "ATH supervised"  # the model that is left behind
FILES = {
    "index.html": "this page",
    "model.bh": "supervised ATH, learned from two feature spaces",
    "codes_source.npy": "packed codes of the source, one row an image",
    "codes_target.npy": "packed codes of the target, without the queries",
    "digits.npz": "the data: source, target, query and their labels y_source, y_target, y_query; "
    "target_pixels and query_pixels are the same images in one feature space with the source",
    "neighbours.png": "one query and the images nearest to it",
    "pr_curve.png": "precision and recall by Hamming radius",
}


class Step(NamedTuple):
    """A command to try next: its words in groups, each of which is a line."""

    what: str
    lines: tuple[tuple[str, ...], ...]

    @property
    def arguments(self) -> list[str]:
        """All words behind `bridgehash`."""
        return [word for line in self.lines for word in line]

    def __str__(self) -> str:
        return " \\\n    ".join(
            ["bridgehash " + shlex.join(self.lines[0])]
            + [shlex.join(line) for line in self.lines[1:]]
        )


def run_demo(out: Path, console: Console, domains: DigitDomains | None = None) -> None:
    """Fit, score, show and write everything; files that are there already are replaced.

    Parameters
    ----------
    out : path
        Folder to write to, made if need be.
    console : rich console
        Where to print.
    domains : DigitDomains, optional
        All digits, unless given.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, but the demo writes a folder; name another place")
    require_matplotlib()
    domains = digit_domains() if domains is None else domains
    with progress("demo", 2 * len(METHODS), visible=may_animate()) as advance:
        study = run_study(domains, advance)
    found = tuple(nearest(study, name) for name in COMPARED)
    show_data(console, study)
    show_scores(console, study, reading(study))
    show_nearest(console, study, found)
    out.mkdir(parents=True, exist_ok=True)
    write_files(out, study, found)
    _show_files(console, out)


def write_files(out: Path, study: Study, found: tuple[Nearest, ...]) -> None:
    """Leave model, codes, data, pictures and the page in a folder."""
    hasher, task = study.result(SAVED).hasher, study.task
    hasher.save(out / "model.bh")
    write_codes(out / "codes_source.npy", hasher.encode(task.X_source, "source"))
    write_codes(out / "codes_target.npy", hasher.encode(task.X_target, "target"))
    _write_arrays(out / "digits.npz", _arrays(study))
    pictures = {"nearest": nearest_items(study, found), "curves": pr_curves(study)}
    _write(out / "neighbours.png", pictures["nearest"])
    _write(out / "pr_curve.png", pictures["curves"])
    steps = [(step.what, str(step)) for step in (info_step(out), *next_steps(out))]
    _write(out / "index.html", page(study, found, pictures, steps, FILES).encode())


def next_steps(out: Path) -> tuple[Step, ...]:
    """Three commands that work on what the demo has left in a folder."""
    data, mine = f"{out / 'digits.npz'}", f"{out / 'mine.bh'}"
    return (
        Step(
            "Learn a model of your own",
            (
                ("fit", f"{data}:source", f"{data}:target"),
                ("--labels-source", f"{data}:y_source"),
                ("--labels-target", f"{data}:y_target"),
                ("--bits", "32", "--out", mine),
            ),
        ),
        Step(
            "Turn new rows into codes",
            (
                ("encode", mine, f"{data}:query", "--domain", "target"),
                ("--out", f"{out / 'codes_query.npy'}"),
            ),
        ),
        Step(
            "Measure it",
            (
                ("evaluate", mine),
                ("--queries", f"{data}:query", "--labels-queries", f"{data}:y_query"),
                ("--database", f"{data}:source", "--labels-database", f"{data}:y_source"),
            ),
        ),
    )


def info_step(out: Path) -> Step:
    """The command that tells what the model of the demo is."""
    return Step("See what the model of this page is", (("info", f"{out / 'model.bh'}"),))


def _arrays(study: Study) -> dict[str, NDArray[Any]]:
    task, domains = study.task, study.domains
    return {
        "source": task.X_source,
        "target": task.X_target,
        "query": task.X_query,
        "target_pixels": domains.target.pixels,
        "query_pixels": domains.query.pixels,
        "y_source": task.y_source,
        "y_target": task.y_target,
        "y_query": task.y_query,
    }


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def _show_files(console: Console, out: Path) -> None:
    console.print(f"Written to {out}: {', '.join(FILES)}", markup=False)
    console.print(f"Open {out / 'index.html'} in a browser, or try next:\n", markup=False)
    for step in next_steps(out):
        console.print(f"# {step.what}", style="dim")
        console.print(f"{step}\n", markup=False, soft_wrap=True)
