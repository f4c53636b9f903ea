"""Arguments and options that commands share, each with its help text."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

# Names and limits of the library, repeated here so that --help does not load it.
PRESETS = (
    "unsupervised",
    "semi-supervised",
    "supervised",
    "kernel",
    "propagated",
    "adopted",
    "paired",
    "structural",
)
MAX_BITS = 4096

TYPED = {  # argument of the library -> what the user typed
    "y_source": "--labels-source",
    "y_target": "--labels-target",
    "pairs": "--pairs",
    "n_bits": "--bits",
    "method": "--method",
    "preset": "--preset",
    "device": "--device",
    "memory_limit": "--memory-limit",
    "random_state": "--seed",
    "domain": "--domain",
    "hub": "--hub",
    "initial": "--initial",
    "frozen": "--frozen",
    "ids": "--ids",
    "tags": "--tags",
    "corrections": "--corrections",
    "backbone": "--backbone",
    "labels_column": "--labels-column",
    "ids_column": "--ids-column",
}


def whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    """Return a parser of whole numbers in a range, written in the digits 0 to 9.

    `int` also accepts 1_0 and the digits of other scripts, which are typing errors here.
    """

    def parse(text: Any) -> int:
        digits = str(text)
        if not (digits.removeprefix("-").isdigit() and digits.isascii() and len(digits) < 20):
            raise typer.BadParameter(f"{digits!r} is not a whole number")
        if not low <= int(digits) <= (int(digits) if high is None else high):
            limits = f"at least {low}" if high is None else f"from {low} to {high}"
            raise typer.BadParameter(f"{digits} is not {limits}")
        return int(digits)

    return parse


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, written by `fit`.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the workers of a Dask scheduler: tcp://host:8786"),
]
OneDomain = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Domain of the features, if the model has several: source, target, ..."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Indexes
IndexName = Annotated[
    str,
    typer.Argument(
        metavar="INDEX", help="Index file (*.bhi); with --engine, a table or collection."
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Use a server instead of a file: postgresql://... or milvus://..."
    ),
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", help="Encode features with this model first.")
]

Corrections = Annotated[
    bool | None,
    typer.Option(
        "--corrections/--no-corrections",
        help="Store two numbers per code that estimate distances of rows. Default: if the model "
        "did not learn from labels; as the index has them; as DATA has them.",
        show_default=False,
    ),
]


class SearchKind(StrEnum):
    """How an index is searched."""

    exact = "exact"
    approximate = "approximate"
