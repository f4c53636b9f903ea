"""The steps of `bridgehash fit`: read both domains, learn, tell what came of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from bridgehash import ATH
from bridgehash._core.errors import BridgeWarning, InputError
from bridgehash.ath.fit import check_in_blocks
from bridgehash.cli.console import counted, may_animate, say
from bridgehash.cli.description import fit_fields, fit_record
from bridgehash.cli.io import read_matrix
from bridgehash.cli.models import check_one_kind, read_row_labels
from bridgehash.models.base import BaseTransferHasher
from bridgehash.registry import inner_estimator
from bridgehash.streaming.blocks import as_blocks, read_all

Data = dict[str, Any]  # X_source, X_target; where given, y_source, y_target, pairs


@dataclass(frozen=True)
class Means:
    """By what a fit is done; the model knows nothing of it."""

    scheduler: str | None = None
    memory_limit: str | None = None
    device: str | None = None

    @property
    def options(self) -> list[str]:
        """Those given, as they are called on the line."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value]

    @property
    def parameters(self) -> dict[str, str]:
        """Those that are parameters of ATH."""
        given = {"memory_limit": self.memory_limit, "device": self.device}
        return {name: value for name, value in given.items() if value is not None}

    def check(self, hasher: BaseTransferHasher, title: str) -> None:
        """Refuse what does not go together, before anything takes time."""
        method = inner_estimator(hasher)
        if self.options and not isinstance(method, ATH):
            raise InputError(f"{self.options[0]} belongs to --method ath; drop one of them")
        if self.scheduler is None:
            return
        if self.parameters:
            raise InputError(f"--scheduler does not go with {self.options[1]}; drop one of them")
        try:
            check_in_blocks(method)
        except ValueError as error:
            raise InputError(
                f"--scheduler: {title} needs all rows in one memory; choose --preset unsupervised, "
                "semi_supervised or supervised, or drop --scheduler"
            ) from error


def read_domains(
    specs: dict[str, str],
    labels: dict[str, str | None],
    pairs: str | None,
    verbose: bool | None,
    *,
    in_blocks: bool = False,
) -> Data:
    """The arguments of a hasher's `fit`, by name, from what each side is called on the line.

    Files that can be read in blocks stay where they are if that is asked for.
    """
    data: Data = {}
    for side, spec in specs.items():
        if verbose:
            say(f"reading {spec}")
        X = data[f"X_{side}"] = _read_rows(spec, in_blocks)
        if len(X) < 2:
            raise InputError(f"{spec}: holds a single row; learning needs at least two")
        y = labels[side]
        if y is not None:
            data[f"y_{side}"] = read_row_labels(y, len(X), spec)
    check_one_kind({str(labels[s]): data[f"y_{s}"] for s in specs if f"y_{s}" in data})
    if pairs is not None:
        data["pairs"] = _read_pairs(pairs)
    return data


def _read_rows(spec: str, in_blocks: bool) -> Any:
    if Path(spec).is_dir():
        rows = as_blocks(spec)
        return rows if in_blocks else read_all(rows)
    kind = Path(spec).suffix.lower().partition(":")[0]
    return as_blocks(spec) if in_blocks and kind in (".npy", ".parquet") else read_matrix(spec)


def _read_pairs(spec: str) -> NDArray[np.intp]:
    numbers = read_matrix(spec)
    if numbers.shape[1] != 2 or (numbers != np.round(numbers)).any():
        raise InputError(
            f"{spec}: pairs have two columns of whole numbers, a row of the source and a row of "
            f"the target, not {counted(numbers.shape[1], 'column')}"
        )
    return numbers.astype(np.intp)


@contextmanager
def at_work(scheduler: str | None) -> Iterator[None]:
    """Whatever is done inside is done by a cluster, if one is named."""
    if scheduler is None:
        yield
        return
    try:
        from bridgehash.streaming.dask import cluster, quiet
    except ImportError as error:
        raise InputError(f"--scheduler: {error}") from error
    with quiet(), cluster(scheduler):
        yield


def learn(
    hasher: BaseTransferHasher,
    data: Data,
    specs: dict[str, str],
    verbose: bool | None,
    means: Means,
) -> None:
    """Fit, with a progress bar if wanted."""
    options: dict[str, Any] = {}
    if isinstance(hasher, ATH):
        options = {**means.parameters, "verbose": may_animate() if verbose is None else verbose}
    if verbose:
        say("fitting")
    with (
        _in_words_of_the_command(specs),
        warnings.catch_warnings(),
        at_work(means.scheduler),
    ):
        if verbose is False:
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", BridgeWarning)
        hasher.fit(**data, **options)


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

    def option(match: re.Match[str]) -> str:
        return f"--{match[1].replace('_', '-')} {match[2]}"

    try:
        yield
    except np.linalg.LinAlgError:  # a ValueError that speaks of no argument
        raise
    except (ValueError, ImportError) as error:
        line = re.sub(r"\b(memory_limit|device)='(.*?)'", option, str(error))
        line = line.replace("memory_limit", "--memory-limit")
        line = re.sub(r"\b(X|y)_(source|target)\b", translated, line)
        line = re.sub(r"\bgive pairs\b|^pairs\b", lambda m: m[0].replace("pairs", "--pairs"), line)
        raise InputError(line) from error
