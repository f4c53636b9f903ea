"""Choose a method, the number of bits and parameters: by an estimate, or by known labels.

Without labels of the target, each candidate is fitted once, and the one with the highest expected
precision (`bridge_report_`) wins. With labels of some target rows, these are cross-validated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from .._core.errors import BridgeWarning, InputError
from .._core.progress import progress
from .._core.validation import check_labels, class_ids
from ..models.base import BaseTransferHasher
from ..models.columns import columns_correspond
from ..models.training import check_rows
from ..registry import find_method, inner_estimator
from .with_source import precision_across

_LEAST_LABELLED = 30  # target rows, to cross-validate
_ALIKE = 0.01  # differences in precision that do not count


@dataclass(frozen=True)
class Candidate:
    """A method with its settings, and how good it is expected to be."""

    method: str
    n_bits: int
    parameters: Mapping[str, Any]
    expected: float  # precision of the first ten items
    low: float
    high: float
    seconds: float

    @property
    def settings(self) -> str:
        """Parameters that were set, as text."""
        return ", ".join(f"{name}={value}" for name, value in self.parameters.items())


@dataclass(frozen=True)
class TuneResult:
    """The best model, fitted to all rows, and all candidates, the best first."""

    model: BaseTransferHasher
    by: Literal["estimate", "labels"]
    candidates: Sequence[Candidate] = field(repr=False)

    @property
    def best(self) -> Candidate:
        """The candidate of the model."""
        return self.candidates[0]


def tune(
    X_source: Any,
    X_target: Any,
    *,
    y_source: ArrayLike | None = None,
    y_target: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    methods: Sequence[str] | None = None,
    n_bits: Sequence[int] = (64,),
    grid: Mapping[str, Sequence[Any]] | None = None,
    folds: int = 3,
    random_state: int = 0,
    verbose: bool = False,
) -> TuneResult:
    """Choose method, number of bits and parameters; return the best model and all candidates.

    Methods are compared at the largest number of bits. Then all other numbers of bits and all
    combinations of `grid` are tried for the best method. Of candidates that differ by less than one
    point, the one with the shortest codes wins.

    Parameters
    ----------
    X_source, X_target : arrays of shape (n_source, d_source), (n_target, d_target)
    y_source, y_target : array of class ids or names, optional
        -1 marks an unknown class. With at least 30 known labels of the target, and labels of the
        source, candidates are judged by cross-validation, otherwise by `bridge_report_`.
    pairs : array of shape (p, 2), optional
        Row numbers of the source and of the target that show the same thing.
    methods : sequence of str, optional
        Names from `bridgehash methods`. Default: those that suit the data.
    n_bits : sequence of int, default=(64,)
    grid : mapping from parameters to values, optional
        Such as `{"lam": [0.2, 1.0]}`; parameters of the best method.
    folds : int, default=3
        Of the cross-validation.
    random_state : int, default=0
    verbose : bool, default=False
        Show a progress bar.

    Returns
    -------
    TuneResult

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(120) % 3
    >>> X, Z = rng.normal(size=(120, 8)) + 2 * y[:, None], rng.normal(size=(120, 5)) + y[:, None]
    >>> result = tune(X, Z, y_source=y, y_target=y, n_bits=[8, 16], methods=["ath-supervised"])
    >>> result.by, len(result.candidates)
    ('labels', 2)
    """
    if not n_bits:
        raise InputError("no number of bits given", "n_bits")
    X_s, X_t = check_rows((X_source, X_target), ("X_source", "X_target"))
    labels_s = check_labels(y_source, len(X_s), "y_source")
    labels_t = check_labels(y_target, len(X_t), "y_target")
    given = {"y_source": labels_s, "y_target": labels_t, "pairs": pairs}
    given = {name: value for name, value in given.items() if value is not None}
    ids = class_ids(labels_s, labels_t)
    chosen = (
        list(methods)
        if methods
        else possible_methods(X_s, X_t, ids[0], ids[1], has_pairs=pairs is not None)
    )
    labelled = 0 if ids[1] is None else int((ids[1] >= 0).sum())
    by_labels = labelled >= _LEAST_LABELLED and ids[0] is not None and bool((ids[0] >= 0).any())
    trial = _Trial(X_s, X_t, given, folds if by_labels else 0, random_state)
    bits, settings = sorted(set(n_bits)), list(_combinations(grid or {}))
    total = len(chosen) + len(bits) * len(settings) - 1
    found: list[tuple[Candidate, BaseTransferHasher]] = []
    with progress("tune", total, visible=verbose) as advance:

        def add(method: str, n: int, parameters: Mapping[str, Any]) -> None:
            found.append(trial(method, n, parameters))
            advance(f"{method}, {n} bits")

        for method in chosen:
            add(method, bits[-1], {})
        best = max(found, key=lambda pair: pair[0].expected)[0].method
        for n, parameters in product(bits[::-1], settings):
            if parameters or n != bits[-1]:
                add(best, n, parameters)
    highest = max(candidate.expected for candidate, _ in found)
    found.sort(key=lambda pair: _order(pair[0], highest))
    by: Literal["estimate", "labels"] = "labels" if by_labels else "estimate"
    return TuneResult(found[0][1], by, [candidate for candidate, _ in found])


def possible_methods(
    X_s: Any, X_t: Any, y_s: Any = None, y_t: Any = None, *, has_pairs: bool = False
) -> list[str]:
    """Return the methods that suit the data: its feature spaces, labels and pairs."""
    if has_pairs:
        return ["ath-paired", "ridge-map"]
    shares = [0.0 if y is None else float((y >= 0).mean()) for y in (y_s, y_t)]
    if min(shares) >= 0.5:
        return ["ath-kernel", "ath-supervised"]
    same = X_s.shape[1] == X_t.shape[1] and columns_correspond(X_s, X_t)
    if min(shares) > 0:
        return ["ath-propagated", "ath-supervised"]
    if shares[0] > 0:
        others = ["ath-semi-supervised", "ath-unsupervised"] if same else ["ath-structural"]
        return ["ath-propagated", *(others if shares[0] == 1.0 else others[1:])]
    return ["ath-unsupervised", "itq"] if same else ["ath-structural"]


@dataclass(frozen=True)
class _Trial:
    """Fits a candidate and judges it."""

    X_s: Any
    X_t: Any
    given: Mapping[str, Any]
    folds: int  # 0: by the estimate
    seed: int

    def __call__(
        self, method: str, n_bits: int, parameters: Mapping[str, Any]
    ) -> tuple[Candidate, BaseTransferHasher]:
        started = perf_counter()
        hasher: BaseTransferHasher = clone(find_method(method).prepared(n_bits, self.seed))
        inner_estimator(hasher).set_params(**parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BridgeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(hasher).fit(self.X_s, self.X_t, **self.given)
            report = fitted.bridge_report_
            assert report is not None  # both domains have rows
            expected, low, high = report.expected, report.low, report.high
            if self.folds:
                scores = list(self._scores(hasher))
                expected, low, high = float(np.mean(scores)), min(scores), max(scores)
        took = perf_counter() - started
        return Candidate(method, n_bits, dict(parameters), expected, low, high, took), fitted

    def _scores(self, hasher: BaseTransferHasher) -> Iterator[float]:
        """Yield the precision of labelled target rows that are left out, by fold."""
        y = self.given["y_target"]
        (ids,) = class_ids(y)
        assert ids is not None
        labelled = np.flatnonzero(ids >= 0)
        for _, held in KFold(self.folds, shuffle=True, random_state=self.seed).split(labelled):
            out = labelled[held]
            kept = np.setdiff1d(np.arange(len(y)), out)
            given = dict(self.given) | {"y_target": y[kept]}
            if "pairs" in given:
                given["pairs"] = _kept_pairs(np.asarray(given["pairs"]), kept)
            fitted = clone(hasher).fit(self.X_s, self.X_t[kept], **given)
            yield precision_across(fitted, self.X_t[out], y[out], self.X_s, given["y_source"])


def _kept_pairs(pairs: Any, kept: Any) -> Any:
    """Return the pairs of the target rows that are kept, by their new numbers."""
    pairs = pairs[np.isin(pairs[:, 1], kept)]
    return np.column_stack([pairs[:, 0], np.searchsorted(kept, pairs[:, 1])])


def _combinations(grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield no settings, then all combinations of the grid."""
    yield {}
    if grid:
        for values in product(*grid.values()):
            yield dict(zip(grid, values, strict=True))


def _order(candidate: Candidate, highest: float) -> tuple[float, int, float]:
    """Return what candidates are sorted by: those close to the best are equal but for bits."""
    behind = highest - candidate.expected
    return (0.0 if behind < _ALIKE else behind), candidate.n_bits, behind
