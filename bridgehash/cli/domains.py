"""Domains on the command line: NAME=SPEC arguments, and the files that they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bridgehash._core.errors import InputError, unknown
from bridgehash.cli.console import counted

Data = dict[str, Any]  # arguments of `fit`: X_source, a mapping; y and pairs, if given

MODEL_SUFFIXES = (".bh", ".safetensors")


def domain_specs(domains: list[str]) -> dict[str, str]:
    """Return the files of the domains by name; two without names are source and target.

    >>> domain_specs(["photo=a.npy", "sketch=b.npy"])
    {'photo': 'a.npy', 'sketch': 'b.npy'}
    """
    named_ones = [_is_named(text) for text in domains]
    if not any(named_ones):
        if len(domains) != 2:
            raise InputError(
                f"{counted(len(domains), 'file')} without names; give a source and a target, or "
                "name each: photo=photos.npy sketch=sketches.npy"
            )
        return dict(zip(("source", "target"), domains, strict=True))
    if not all(named_ones):
        text = domains[named_ones.index(False)]
        raise InputError(f"has no name, unlike others; write NAME={text}", text)
    specs = dict(split_name(text, "domain") for text in domains)
    if len(specs) < len(domains):
        raise InputError("two domains have the same name; rename one")
    return specs


def _is_named(text: str) -> bool:
    return "=" in text and not Path(text).exists()


def split_name(text: str, option: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"{text!r} is not of the form NAME=VALUE", option)
    return name, value


def label_specs(
    specs: Mapping[str, str], source: str | None, target: str | None, named_ones: list[str] | None
) -> dict[str, str]:
    """Return the files of labels by domain."""
    known = dict(split_name(text, "--labels") for text in named_ones or [])
    for domain, spec in (("source", source), ("target", target)):
        if spec is not None:
            known[domain] = spec
    for domain in known:
        if domain not in specs:
            raise InputError(unknown("domain", domain, list(specs)), "--labels")
    return known


def read_data(
    specs: Mapping[str, str],
    labels: Mapping[str, str],
    pairs: str | None,
    *,
    in_blocks: bool = False,
) -> Data:
    """Return the arguments of a hasher's `fit`; with `in_blocks` files are opened, not read."""
    from bridgehash.cli.io import check_same_kind, read_row_labels

    X: dict[str, Any] = {}
    y: dict[str, Any] = {}
    for domain, spec in specs.items():
        X[domain] = _read_rows(spec, in_blocks, keys_in(spec, labels.values())) if spec else None
        if spec and len(X[domain]) < 2:
            raise InputError("has 1 row; at least 2 are needed", spec)
    for domain, spec in labels.items():
        if X[domain] is None:
            from bridgehash.cli.io import read_labels

            y[domain] = read_labels(spec)
        else:
            y[domain] = read_row_labels(spec, len(X[domain]), specs[domain])
    check_same_kind({labels[domain]: known for domain, known in y.items()})
    data: Data = {"X_source": X, **({"y": y} if y else {})}
    if pairs is not None:
        data["pairs"] = read_pairs(pairs, len(specs))
    return data


def read_frozen(frozen: list[str], specs: Mapping[str, str]) -> dict[str, Any]:
    """Return models or packed codes of the domains that must not change."""
    from bridgehash import load
    from bridgehash.cli.io import read_codes
    from bridgehash.models.base import BaseTransferHasher
    from bridgehash.models.provenance import encoder_of

    held: dict[str, Any] = {}
    for text in frozen:
        domain, spec = split_name(text, "--frozen")
        if domain not in specs:
            raise InputError(unknown("domain", domain, list(specs)), "--frozen")
        if Path(spec).suffix.lower() in MODEL_SUFFIXES:
            model = load(spec)
            if isinstance(model, BaseTransferHasher):
                encoder_of(model, Path(spec), domain, "--frozen")  # names the domains it has
            held[domain] = model
        else:
            held[domain] = read_codes(spec)
    for domain, spec in specs.items():
        if not spec and domain not in held:
            raise InputError(f"{domain}= names no rows; give a file, or --frozen {domain}=CODES")
    return held


def keys_in(spec: str, others: Collection[str]) -> list[str]:
    """Return the columns of a file that other specs name.

    >>> keys_in("a.csv", ["a.csv:kind", "b.csv:age"])
    ['kind']
    """
    return [other[len(spec) + 1 :] for other in others if other.startswith(f"{spec}:")]


def _read_rows(spec: str, in_blocks: bool, unused: Collection[str] = ()) -> Any:
    from bridgehash.cli.io import read_table
    from bridgehash.streaming.blocks import as_blocks, read_all

    if Path(spec).is_dir():
        rows = as_blocks(spec)
        return rows if in_blocks else read_all(rows)
    suffix = Path(spec).suffix.lower().partition(":")[0]
    if in_blocks and suffix in (".npy", ".parquet"):
        return as_blocks(spec)
    table = read_table(spec, unused=unused)
    return table.X if table.columns is None else table


def read_pairs(spec: str, n_domains: int = 2) -> Any:
    """Read row numbers, one column per domain."""
    import numpy as np

    from bridgehash.cli.io import read_matrix

    numbers = read_matrix(spec)
    if numbers.shape[1] != n_domains or (numbers != np.round(numbers)).any():
        words = "two" if n_domains == 2 else str(n_domains)
        raise InputError(
            f"has {counted(numbers.shape[1], 'column')}; pairs have {words} columns of whole "
            "numbers: a row of each domain, in their order",
            spec,
        )
    return numbers.astype(np.intp)
