"""`bridgehash methods`: list all methods."""

from __future__ import annotations

import json

from bridgehash.cli import options as opt
from bridgehash.cli.console import show_table


def methods(as_json: opt.Json = False) -> None:
    """List all methods: what each learns from, and its reference.

    \b
    Example:
      bridgehash methods
      bridgehash fit photos.npy sketches.npy --method gth-g --out model.bh
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
    columns = ("method", "kind", "inputs", "citation")
    show_table(columns, [tuple(record[name] for name in columns) for record in records])
