"""The steps of `bridgehash fit`: read both domains, learn, tell what came of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from bridgehash.base import BaseTransferHasher
from bridgehash.matching import BridgeWarning
from bridgehash.methods import tunable

from .console import counted, may_animate, say
from .description import fit_fields, fit_record
from .models import check_one_kind, read_row_labels
from .tables import InputError, read_matrix

Data = dict[str, NDArray[Any]]  # X_source, X_target; where given, y_source, y_target, pairs


def read_domains(
    specs: dict[str, str], labels: dict[str, str | None], pairs: str | None, verbose: bool | None
) -> Data:
    """The arguments of a hasher's `fit`, by name, from what each side is called on the line."""
    data: Data = {}
    for side, spec in specs.items():
        if verbose:
            say(f"reading {spec}")
        X = data[f"X_{side}"] = read_matrix(spec)
        if len(X) < 2:
            raise InputError(f"{spec}: holds a single row; learning needs at least two")
        y = labels[side]
        if y is not None:
            data[f"y_{side}"] = read_row_labels(y, len(X), spec)
    check_one_kind({str(labels[s]): data[f"y_{s}"] for s in specs if f"y_{s}" in data})
    if pairs is not None:
        data["pairs"] = _read_pairs(pairs)
    return data


def _read_pairs(spec: str) -> NDArray[np.intp]:
    numbers = read_matrix(spec)
    if numbers.shape[1] != 2 or (numbers != np.round(numbers)).any():
        raise InputError(
            f"{spec}: pairs have two columns of whole numbers, a row of the source and a row of "
            f"the target, not {counted(numbers.shape[1], 'column')}"
        )
    return numbers.astype(np.intp)


def learn(
    hasher: BaseTransferHasher, data: Data, specs: dict[str, str], verbose: bool | None
) -> None:
    """Fit, with a bar if wanted, of which the model then knows nothing."""
    estimator = tunable(hasher)
    has_bar = "verbose" in estimator.get_params()
    if verbose:
        say("fitting")
    if has_bar:
        estimator.set_params(verbose=may_animate() if verbose is None else verbose)
    with _in_words_of_the_command(specs), warnings.catch_warnings():
        if verbose is False:
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", BridgeWarning)
        hasher.fit(**data)
    if has_bar:
        estimator.set_params(verbose=False)


def fitted_fields(hasher: BaseTransferHasher, data: Data) -> list[tuple[str, str]]:
    """Sizes, bits and the course of the fit."""
    sides = [(side, _size(data, side)) for side in ("source", "target")]
    bits = str(hasher.encoder("target").n_bits)
    paired = [("pairs", str(len(data["pairs"])))] if "pairs" in data else []
    return [*sides, *paired, ("bits", bits), *fit_fields(fit_record(hasher))]


def _size(data: Data, side: str) -> str:
    n, d = data[f"X_{side}"].shape
    labelled = ", labelled" if f"y_{side}" in data else ""
    return f"{counted(n, 'row')}, {counted(d, 'column')}{labelled}"


@contextmanager
def _in_words_of_the_command(specs: dict[str, str]) -> Iterator[None]:
    """X_source of the library is a file here, y_source an option."""

    def translated(match: re.Match[str]) -> str:
        return specs[match[2]] if match[1] == "X" else f"--labels-{match[2]}"

    try:
        yield
    except np.linalg.LinAlgError:  # a ValueError that speaks of no argument
        raise
    except ValueError as error:
        line = re.sub(r"\b(X|y)_(source|target)\b", translated, str(error))
        line = re.sub(r"\bgive pairs\b|^pairs\b", lambda m: m[0].replace("pairs", "--pairs"), line)
        raise InputError(line) from error
