"""Write what a script has measured to a JSON file that tables of the documentation name.

    recorder = Recorder(options.record, seeds, ["pacs.npz"])  # after add_option(parser)
    recorder.add([93.1, 94.0], "photo", "itq", 64, "map")  # one value per split
    recorder.write()

A file is a list of runs, each with its command, seeds, checksums of the data, commit, versions and
machine, and with rows of labels and values. A rerun replaces the rows that it measured again. A row
with the same values stays as it is, so a rerun that changes no result changes no file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bridgehash._core.files import atomic_write
from bridgehash.bench.origin import run_origin, source_commit

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")
Labels = tuple[str, ...]


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add --record FILE to the options of a script."""
    parser.add_argument("--record", type=Path, metavar="FILE", help="add the values to this file")


class Recorder:
    """The rows of a run; without a path nothing is written."""

    def __init__(
        self, path: Path | None, seeds: Iterable[int] = (), data: Iterable[str] = ()
    ) -> None:
        self.path = path
        self.seeds = list(seeds)
        self.data = sorted(set(data))
        self.rows: dict[Labels, list[float]] = {}
        source_commit()  # of the code that runs, whatever changes until the end

    def add(self, values: Iterable[float], *labels: object) -> None:
        """Add the values of all splits under some labels; a comma separates two labels."""
        names = tuple(name for label in labels for name in str(label).split(", "))
        self.rows[names] = [round(float(value), 5) for value in values]

    def write(self) -> None:
        """Add this run to the file; the file is replaced whole or not at all."""
        if self.path is None:
            return
        runs = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else []
        old = {tuple(row["labels"]): row["values"] for run in runs for row in run["rows"]}
        new = {labels: values for labels, values in self.rows.items() if old.get(labels) != values}
        for run in runs:
            run["rows"] = [row for row in run["rows"] if tuple(row["labels"]) not in new]
        if new:
            runs.append(self._run(new))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as temporary:
            temporary.write_text(_text([run for run in runs if run["rows"]]), encoding="utf-8")

    def _run(self, rows: dict[Labels, list[float]]) -> dict[str, Any]:
        return {
            "command": _command(sys.argv),
            "seeds": self.seeds,
            "data": {name: _checksum(DATA / name) for name in self.data},
            **run_origin(),
            "rows": [{"labels": list(labels), "values": values} for labels, values in rows.items()],
        }


def record_cells(
    recorder: Recorder, labels: Sequence[str], columns: Sequence[str], cells: Sequence[str]
) -> None:
    """Add the figures of a printed row: one cell per column, without units."""
    for column, cell in zip(columns, cells, strict=True):
        recorder.add([float(cell.split()[0].replace(",", "").rstrip("%"))], *labels, column)


def _command(line: Sequence[str]) -> str:
    """Return the command without --record, which changes no value."""
    words = iter(line[1:])
    shown = [f"benchmarks/{Path(line[0]).name}"]
    for word in words:
        if word == "--record":
            next(words, None)
        elif not word.startswith("--record="):
            shown.append(word)
    return " ".join(["python", *shown])


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(runs: list[dict[str, Any]]) -> str:
    """Return runs as JSON with one line per row, which suits version control."""
    parts = []
    for run in runs:
        about = {name: value for name, value in run.items() if name != "rows"}
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in run["rows"])
        head = json.dumps(about, ensure_ascii=False, indent=1)
        parts.append(head.removesuffix("\n}") + f',\n "rows": [\n{rows}\n ]\n}}')
    return "[\n" + ",\n".join(parts) + "\n]\n"
