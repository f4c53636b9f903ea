"""Do the pairs of a fit agree with each other?

A linear map, learned from two thirds of the pairs, predicts the source row of each other pair from
its target row. The rank of the true row among the left-out ones is near 0 if the pairs are right,
and anywhere from 0 to 1 if they are not. docs/maths.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import take_rows, to_numpy
from .._core.errors import PairsWarning
from .._core.linalg import Array, pca, unit_rows
from ..models.feature_maps import AnchorKernel
from ..models.training import Domains, Ids, TrainingData
from .pairs import regression

View = Callable[[Ids], Array]

_FOLDS = 3
_DIRECTIONS = 128  # principal directions of each domain
_LEARN_FROM = 1000  # pairs per map
_AMONG = 500  # left-out pairs that are ranked together
_CHANCE = 4.0  # z below which the pairs are no better than chance
_LEAST, _FEW = 10, 50  # pairs: fewer than 10 cannot be judged
_SHIFTED = 4.0  # t from which another alignment is better,
_LOWER = 0.02  # if it also lowers the mean rank by this: shifted pairs may be right as well
_SHIFT_PAIRS = 400  # pairs that decide about it
_LEAST_SHIFT_PAIRS = 20
_WRONG = 0.08  # share of wrong pairs from which they are left out
_LEAST_WRONG = 5  # pairs of a rank above 0.5 without which none is judged wrong
_MIDDLE = (0.1, 0.5)  # ranks of which at least half must be wrong pairs: few are uncertain
_SURE = 0.02  # median rank of right pairs up to which single pairs can be judged
_PURITY = 0.7  # of the pairs left out, at least this share is estimated to be wrong
_CUTS = np.geomspace(0.5, 0.02, 50)  # ranks above which pairs may be left out
_SHIFTS = {  # row numbers added to source and target, by words for them
    "their target rows were one further": (0, 1),
    "their target rows were one before": (0, -1),
    "their source rows were one further": (1, 0),
    "their source rows were one before": (-1, 0),
    "both rows were one before, as if they were counted from 1": (-1, -1),
}


def checked_pairs_of(data: Domains, unit: bool) -> tuple[Domains, list[PairsWarning]]:
    """Return the data without the pairs that the others contradict, and warnings about pairs.

    With `unit`, rows are divided by their norm first. Of more than two domains, pairs are compared
    with those of the first one, and none is left out.
    """
    found: list[PairsWarning] = []
    for k in range(1, len(data.X)):
        two = data.two(0, k)
        if two.pairs is None or len(two.pairs) < 2:
            continue
        names = data.names[0], data.names[k]
        views = (
            _view(two.X_source, two.pairs[:, 0], unit),
            _view(two.X_target, two.pairs[:, 1], unit),
        )
        Y, X = (view(rows) for view, rows in zip(views, two.pairs.T, strict=True))
        if not (X.any() and Y.any()):  # equal rows: the fit says so
            continue
        ranks = left_out_ranks(X, Y)
        warning = _shift_warning(two, views, names)
        unsure = above_chance(ranks) < _CHANCE or len(ranks) < _LEAST
        if warning is None and unsure:  # perhaps no linear map, but another
            kernel = AnchorKernel(min(_DIRECTIONS, len(X)), "half-median", random_state=0)
            warning = _chance_warning(ranks, left_out_ranks(kernel.fit_transform(X), Y), names)
        elif warning is None and len(data.X) == 2:
            kept = trusted(X, Y, ranks)
            if not kept.all():
                share, n = 2 * np.mean(ranks > 0.5), np.count_nonzero(~kept)
                warning = PairsWarning(
                    f"about {share:.0%} of the {len(kept):,} pairs of {names[0]} and {names[1]} "
                    f"seem to be wrong; {n:,} pairs that the others contradict are left out. Check "
                    "how the pairs were made"
                )
                assert data.pairs is not None
                data = replace(data, pairs=data.pairs[kept])
        found += [] if warning is None else [warning]
    return data, found


def _chance_warning(ranks: Array, by_kernel: Array, names: tuple[str, str]) -> PairsWarning | None:
    if above_chance(by_kernel) >= _CHANCE and len(ranks) >= _LEAST:
        return None
    n, (first, second) = len(ranks), names
    problem = "are too few, or wrong" if n < _FEW else "are wrong, or too few for these features"
    return PairsWarning(
        f"the {n:,} pairs of {first} and {second} {problem}: learned from some of them, the "
        "partner of another is found hardly better than by chance (mean rank "
        f"{ranks.mean():.2f}, chance 0.50). Check that both columns of `pairs` are row numbers "
        f"from 0 in the order of the domains, or give more pairs: {_FEW} are often "
        "enough, 200 are better"
    )


def above_chance(ranks: Array) -> float:
    """Return how far the mean of ranks is below 0.5, in deviations of independent ones.

    >>> above_chance(np.full(12, 0.25))
    3.0
    """
    return float((0.5 - ranks.mean()) * np.sqrt(12 * len(ranks)))


def _shift_warning(
    two: TrainingData, views: tuple[View, View], names: tuple[str, str]
) -> PairsWarning | None:
    """Warn if the pairs agree much better when the rows of one domain are shifted by one."""
    assert two.pairs is not None
    step = max(1, len(two.pairs) // _SHIFT_PAIRS)
    pairs = two.pairs[::step]
    sizes = np.array([two.X_source.shape[0], two.X_target.shape[0]])
    best, words = _SHIFTED, ""
    for each, shift in _SHIFTS.items():
        moved = pairs + np.array(shift)
        inside = ((moved >= 0) & (moved < sizes)).all(axis=1)
        if inside.sum() < _LEAST_SHIFT_PAIRS:
            continue
        now, then = (
            left_out_ranks(views[1](p[inside, 1]), views[0](p[inside, 0])) for p in (pairs, moved)
        )
        better = now - then
        spread = max(float(better.std()), np.finfo(float).tiny)
        t = float(better.mean()) / spread * len(better) ** 0.5
        if t > best and better.mean() > _LOWER and above_chance(then) >= _CHANCE:
            best, words = t, each
    if not words:
        return None
    return PairsWarning(
        f"the pairs of {names[0]} and {names[1]} are shifted: they would agree much better if "
        f"{words}. Correct the row numbers"
    )


def _view(X: Any, paired: Ids, unit: bool) -> View:
    """Return a function from row numbers to rows, in few directions of the paired ones."""

    def read(rows: Ids) -> Array:
        Z: Array = to_numpy(take_rows(X, rows)).astype(np.float64)
        return unit_rows(Z) if unit else Z

    Z = read(paired)
    mean = Z.mean(axis=0)
    if not np.ptp(Z, axis=0).any():
        return lambda rows: np.zeros((len(rows), 1))
    P = pca((Z - mean)[:: max(1, len(Z) // _LEARN_FROM)], _DIRECTIONS)
    return lambda rows: (read(rows) - mean) @ P


def left_out_ranks(X: Array, Y: Array, use: NDArray[np.bool_] | None = None) -> Array:
    """Return the rank of each row of Y among left-out ones, as predicted from X: 0 is the first.

    Maps are learned from the pairs to `use`, without those that are ranked.
    """
    n = len(X)
    ranks: Array = np.full(n, 0.5)
    fold = np.random.default_rng(0).permutation(n) % _FOLDS  # the order of pairs may be periodic
    for k in range(_FOLDS):
        held = np.flatnonzero(fold == k)
        rest = np.flatnonzero(fold != k if use is None else (fold != k) & use)
        if len(rest) < 2 or len(held) < 2:
            continue
        rest = rest[:: max(1, len(rest) // _LEARN_FROM)]
        mean, offset = X[rest].mean(axis=0), Y[rest].mean(axis=0)
        M = regression(X[rest] - mean, Y[rest] - offset)
        for rows in np.array_split(held, -(-len(held) // _AMONG)):
            S = unit_rows((X[rows] - mean) @ M) @ unit_rows(Y[rows] - offset).T
            own = np.diag(S)[:, None]
            ties = (own == S).sum(axis=1) - 1
            ranks[rows] = ((own < S).sum(axis=1) + ties / 2) / max(len(rows) - 1, 1)
    return ranks


def trusted(X: Array, Y: Array, ranks: Array) -> NDArray[np.bool_]:
    """Tell which pairs to learn from: all, unless some are clearly wrong.

    Wrong pairs have ranks from 0 to 1 alike, so twice as many as above 0.5.
    """
    everyone = np.ones(len(ranks), dtype=bool)
    wrong = np.count_nonzero(ranks > 0.5)
    share = 2 * wrong / len(ranks)
    if wrong < _LEAST_WRONG or not _WRONG <= share < 1:
        return everyone
    low, high = _MIDDLE
    uncertain = float(np.mean((ranks > low) & (ranks <= high)))
    if np.quantile(ranks, (1 - share) / 2) > _SURE or share * (high - low) < uncertain / 2:
        return everyone
    kept = ranks <= _cut(ranks)
    again = left_out_ranks(X, Y, kept)  # a better map judges better
    kept = again <= _cut(again)
    return kept if kept.sum() >= len(kept) / 2 else everyone


def _cut(ranks: Array) -> float:
    """Return the lowest rank above which most pairs are wrong."""
    wrong = 2 * np.count_nonzero(ranks > 0.5)
    cuts: Iterator[float] = (float(cut) for cut in _CUTS)
    best = next(cuts)
    for cut in cuts:
        if wrong * (1 - cut) < _PURITY * np.count_nonzero(ranks > cut):
            break
        best = cut
    return best
