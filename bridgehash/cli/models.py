"""Saved models as the commands use them: which encoder, for which rows."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridgehash._core.errors import InputError
from bridgehash._core.progress import countdown
from bridgehash.cli.console import counted, may_animate
from bridgehash.cli.io import read_labels, read_matrix
from bridgehash.models.encoder import LinearEncoder

_MANY = 8192  # rows that take long enough for a progress bar


class Domain(StrEnum):
    """The two sides of a transfer."""

    source = "source"
    target = "target"


def read_rows(spec: str, encoder: LinearEncoder, model: Path) -> NDArray[Any]:
    """The rows of `spec`, if the encoder is made for their width."""
    X = read_matrix(spec)
    width = encoder.n_features_in_
    if X.shape[1] != width:
        raise InputError(
            f"{spec}: has {counted(X.shape[1], 'column')}, but this encoder of {model} takes "
            f"{width}; is it the right file, and the right domain?"
        )
    return X


def read_row_labels(spec: str, n_rows: int, rows: str, noun: str = "label") -> NDArray[Any]:
    """The labels of `spec`, if there is one for each of the rows."""
    labels = read_labels(spec)
    if len(labels) != n_rows:
        raise InputError(
            f"{spec}: holds {counted(len(labels), noun)}, but {rows} has "
            f"{counted(n_rows, 'row')}; give one {noun} a row"
        )
    return labels


def check_one_kind(labels: dict[str, NDArray[Any]]) -> None:
    """Refuse numbers on one side and text on the other: no class would be common to both."""
    kinds = {
        spec: "text" if y.dtype.kind in "US" else "whole numbers" for spec, y in labels.items()
    }
    if len(set(kinds.values())) > 1:
        described = " and ".join(f"{spec} holds {kind}" for spec, kind in kinds.items())
        raise InputError(f"labels of both sets must be of one kind; {described}: convert one")


def check_not_an_input(out: Path, *specs: str) -> None:
    """Refuse an output that would take the place of an input."""
    for spec in specs:
        for path in (spec, spec.rpartition(":")[0]):
            if out.exists() and os.path.exists(path) and out.samefile(path):
                raise InputError(f"{out}: is also the input {spec}; choose another name")


def encode_rows(encoder: LinearEncoder, X: NDArray[Any], title: str) -> NDArray[np.uint8]:
    """Packed codes of all rows, with a progress bar for many."""
    with countdown(title, visible=may_animate() and len(X) > _MANY) as reach:
        return encoder.encode(X, done=lambda rows: reach(rows, len(X)))
