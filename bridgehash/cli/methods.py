"""`bridgehash methods`: list all methods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from bridgehash.cli import options as opt
from bridgehash.cli.console import show_table

if TYPE_CHECKING:
    from bridgehash.models.base import About


Citations = Annotated[bool, typer.Option("--citations", help="Show the reference of each method.")]
_SHORT = {"y": "source or both", "y_source": "source", "y_target": "target"}


def methods(citations: Citations = False, as_json: opt.Json = False) -> None:
    """List all methods and what each learns from. --citations lists their references.

    \b
    Example:
      bridgehash methods
      bridgehash fit demo/digits.npz:source demo/digits.npz:target_pixels --method gth-g \\
        --out gth.bh
    """
    from bridgehash.registry import METHODS

    records = [
        {
            "method": name,
            "kind": method.about.kind,
            "inputs": method.inputs,
            "citation": method.about.citation,
            "title": method.title,
        }
        for name, method in METHODS.items()
    ]
    if as_json:
        print(json.dumps(records, indent=2, ensure_ascii=False))
        return
    if citations:
        columns = ("method", "citation")
        show_table(columns, [tuple(record[name] for name in columns) for record in records])
        return
    rows = [(name, m.about.kind, _learns_from(m.about)) for name, m in METHODS.items()]
    show_table(("method", "kind", "learns from"), rows)


def _learns_from(about: About) -> str:
    """Return what a method needs beside features, in a few words."""
    labels = [_SHORT[need] for need in about.needs if need in _SHORT]
    words = [f"labels: {'both' if len(labels) > 1 else labels[0]}"] if labels else []
    words += ["pairs"] if "pairs" in about.needs else []
    words += [f"{use} (optional)" for use in about.uses]
    return ", ".join(words) or "features only"
