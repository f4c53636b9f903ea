"""Signals of a bridge: numbers that can be computed without labels of the queries.

They compare the codes of training rows across the domains with what is known about the rows: their
similarities inside each domain, and labels or pairs if there are any. 1 is what a perfect bridge
gives, 0 what chance gives, unless the text of a signal says otherwise. docs/maths.md has the
formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from .._core.linalg import Array, drawn_clusters, expected_places, pca, unit_rows

Ids = NDArray[np.intp]
_NEAREST = 10
_CLUSTERS, _COMPONENTS = 10, 32
_TINY, _SMALL = 1e-12, 1e-9


@dataclass(frozen=True)
class Side:
    """A sample of the training rows of one domain."""

    U: Array  # (n, d) centred rows of unit norm
    B: Array  # (n, r) codes, ±1
    y: Ids | None = None  # class ids, -1 where unknown; given or estimated
    given: NDArray[np.bool_] | None = None  # which of them were given
    n_rows: int = 0  # of the domain

    @classmethod
    def of(
        cls, X: Any, B: Any, y: Ids | None = None, given: Any = None, n_rows: int | None = None
    ) -> Side:
        """Centre and scale the rows."""
        U = unit_rows(np.asarray(X, dtype=np.float32))
        U = unit_rows(U - U.mean(axis=0))
        return cls(U, np.asarray(B, dtype=np.float32), y, given, n_rows or len(U))

    @cached_property
    def S(self) -> Array:
        """Similarities of the rows."""
        similarities: Array = self.U @ self.U.T
        return similarities

    @cached_property
    def D(self) -> Array:
        """Hamming distances of the codes; no row is its own neighbour."""
        return _apart(_hamming(self.B, self.B))

    @cached_property
    def near(self) -> Array:
        """Shares of the first ten places by codes."""
        return _nearest(self.D)

    @cached_property
    def best(self) -> Array:
        """Mean similarity of each row to the ten most similar rows."""
        return _top(_apart(self.S, -np.inf))

    @cached_property
    def clusters(self) -> Array:
        """Memberships in clusters of the rows."""
        k = min(_CLUSTERS, len(self.U) // 2)
        rng = np.random.RandomState(0)
        labels = drawn_clusters(self.U @ pca(self.U, _COMPONENTS), k, rng)
        return _one_hot(labels, k)

    @property
    def tightness(self) -> float:
        """Share of the variance of the rows that is between clusters."""
        sums = self.clusters.T @ self.U
        between = (sums**2).sum(axis=1) / np.maximum(self.clusters.sum(axis=0), 1.0)
        return float(between.sum() / len(self.U))


def bridge_signals(
    source: Side, target: Side, *, same_space: bool, pairs: Ids | None = None
) -> dict[str, float]:
    """Return the signals by name; NaN for those that the data does not allow.

    Parameters
    ----------
    source, target : Side
    same_space : bool
        Whether the columns of both domains mean the same.
    pairs : array of shape (p, 2), optional
        Row numbers of the samples that show the same thing.
    """
    r = source.B.shape[1]
    D = _hamming(target.B, source.B)  # (t, s)
    there, back = _nearest(D), _nearest(D.T)  # shares of the first ten places
    found = {
        "cycle_source": relative_similarity(back @ there, source),
        "cycle_target": relative_similarity(there @ back, target),
        "clusters": _information(target.clusters.T @ there @ source.clusters),
        "halves": _halves(source.B, target.B),
        "mixing": _mixing(D, source.D, target.D),
        "reach_source": _reach(there),
        "reach_target": _reach(back),
        "rank_source": effective_rank(source.B) / r,
        "rank_target": effective_rank(target.B) / r,
        "structure_source": _correlation(there @ source.S @ there.T, target.S),
        "structure_target": _correlation(back @ target.S @ back.T, source.S),
        "kept_source": relative_similarity(source.near, source),
        "kept_target": relative_similarity(target.near, target),
        "tight_source": source.tightness,
        "tight_target": target.tightness,
        "spread_source": effective_spread(source.S),
        "spread_target": effective_spread(target.S),
        "contrast_source": float(source.best.mean()),
        "contrast_target": float(target.best.mean()),
        "distance": float((there * D).sum(axis=1).mean()) / r,
        "distance_own": float(target.D[target.near > 0].mean()) / r,
        "n_bits": float(np.log2(r)),
        "n_source": float(np.log10(source.n_rows)),
        "n_target": float(np.log10(target.n_rows)),
    }
    for name in ("cycle", "structure"):
        found[name] = min(found[f"{name}_source"], found[f"{name}_target"])
    raw = None
    found |= dict.fromkeys(("raw", "raw_cycle", "raw_contrast"), np.nan)
    if same_space:
        S = target.U @ source.U.T
        raw, raw_back = _nearest(-S), _nearest(-S.T)
        top, middle = _top(S).mean(), S.mean()
        found["raw"] = float(((there * S).sum(axis=1).mean() - middle) / max(top - middle, _TINY))
        found["raw_cycle"] = relative_similarity(raw @ raw_back, target)
        found["raw_contrast"] = float(top)
    found |= _label_signals(source, target, there, back, raw)
    found["partner"] = np.nan
    if pairs is not None and len(pairs):
        wanted = D[pairs[:, 1], pairs[:, 0]][:, None]
        rows = D[pairs[:, 1]]
        ahead = (rows < wanted).mean(axis=1) + 0.5 * (rows == wanted).mean(axis=1)
        found["partner"] = float(1.0 - 2.0 * ahead.mean())
    return found


def _label_signals(
    source: Side, target: Side, there: Array, back: Array, raw: Array | None
) -> dict[str, float]:
    """Return the signals that need labels of the source, or of both domains."""
    names = (
        "classes", "chance", "purity", "cycle_class", "balance", "separable_source",
        "separable_votes", "raw_agreeing", "separable_target", "agreeing", "precision_given",
        "given_source",
        "given_target", "separable_given_source", "separable_given_target",
    )  # fmt: skip
    found = dict.fromkeys(names, np.nan)
    if source.y is None or not (source.y >= 0).any():
        return found
    n_classes = 1 + max(int(side.y.max()) for side in (source, target) if side.y is not None)
    Y = _one_hot(source.y, n_classes)
    shares = Y.sum(axis=0) / Y.sum()
    votes, known = _shares(there @ Y), source.y >= 0
    returned = _shares(_apart(back @ there, 0.0) @ Y)
    voted = votes.argmax(axis=1)
    found |= {
        "classes": float(np.log2(np.count_nonzero(shares))),
        "chance": float((shares**2).sum()),
        "purity": float((votes**2).sum(axis=1).mean()),
        "cycle_class": float(returned[known, source.y[known]].mean()),
        "balance": float(np.minimum(votes.mean(axis=0), shares).sum()),
        "separable_source": separable(source.S, source.y, n_classes),
        "separable_votes": separable(target.S, voted, n_classes),
        "given_source": float((known if source.given is None else source.given & known).mean()),
    }
    for name, side in (("source", source), ("target", target)):
        if side.y is not None and side.given is not None and not side.given.all():
            sure = np.where(side.given, side.y, -1)
            found[f"separable_given_{name}"] = separable(side.S, sure, n_classes)
    if raw is not None:
        found["raw_agreeing"] = float((_shares(raw @ Y) * votes).sum(axis=1).mean())
    if target.y is not None and (target.y >= 0).any():
        seen = target.y >= 0
        found["separable_target"] = separable(target.S, target.y, n_classes)
        found["agreeing"] = float(votes[seen, target.y[seen]].mean())
        given = np.zeros(len(seen), dtype=bool) if target.given is None else target.given & seen
        found["given_target"] = float(given.mean())
        if given.any():
            found["precision_given"] = float(votes[given, target.y[given]].mean())
    return found


def relative_similarity(P: Array, side: Side) -> float:
    """Return the mean similarity of rows to the rows that P assigns to them, relative.

    1: they are as similar as the ten most similar rows; 0: as similar as any row. No row counts as
    similar to itself.
    """
    S, P = side.S, _apart(P, 0.0)
    middle = (S.sum(axis=1) - S.diagonal()) / (len(S) - 1)
    reached = (P * S).sum(axis=1) / np.maximum(P.sum(axis=1), _TINY)
    return float((reached - middle).mean() / max(float((side.best - middle).mean()), _TINY))


def effective_rank(B: Array) -> float:
    """Return the participation ratio of the directions of codes: 1 to n_bits."""
    C = np.cov(B, rowvar=False)
    C = np.atleast_2d(C)
    return float(np.trace(C) ** 2 / max(float((C**2).sum()), _TINY))


def effective_spread(S: Array) -> float:
    """Return the logarithm of the participation ratio of the directions of rows."""
    return float(np.log10(np.trace(S) ** 2 / max(float((S**2).sum()), _TINY)))


def separable(S: Array, y: Ids, n_classes: int) -> float:
    """Return the share of labelled rows that the others classify rightly, left out one at a time.

    By kernel ridge regression of the classes with a Gaussian of the median width, whose errors for
    rows left out follow from one inverse. Rows of classes with a single row are left out.
    """
    counts = np.bincount(y[y >= 0], minlength=n_classes)
    rows = np.flatnonzero((y >= 0) & (counts[np.maximum(y, 0)] > 1))
    if len(rows) < 4 or np.count_nonzero(counts > 1) < 2:
        return float("nan")
    S, Y = S[np.ix_(rows, rows)].astype(np.float64), _one_hot(y[rows], n_classes)
    squared = np.maximum(2.0 - 2.0 * S, 0.0)
    K = np.exp(-squared / max(float(np.median(squared)), _TINY))
    inverse = np.linalg.inv(K + 0.03 * np.eye(len(K)))
    centred = Y - Y.mean(axis=0)
    left_out = centred - (inverse @ centred) / inverse.diagonal()[:, None]
    return float((left_out.argmax(axis=1) == y[rows]).mean())


def _halves(B_s: Array, B_t: Array) -> float:
    """Return how near the neighbours by one half of the bits are by the other half."""
    r = B_s.shape[1]
    if r < 4:
        return float("nan")
    order = np.random.RandomState(0).permutation(r)
    parts = np.array_split(order, 2)
    first, second = (_hamming(B_t[:, bits], B_s[:, bits]) for bits in parts)
    scores = []
    for D, other in ((first, second), (second, first)):
        middle, best = other.mean(), (_nearest(other) * other).sum(axis=1).mean()
        reached = (_nearest(D) * other).sum(axis=1).mean()
        scores.append((middle - reached) / max(float(middle - best), _TINY))
    return float(np.mean(scores))


def _mixing(D: Array, D_s: Array, D_t: Array) -> float:
    """Return the share of the other domain among nearest codes, relative to its share of rows."""
    scores = []
    for across, own in ((D, D_t), (D.T, D_s)):
        n = across.shape[1]
        share = _nearest(np.hstack([across, own]))[:, :n].sum(axis=1).mean()
        scores.append(float(share) / (n / (n + len(own) - 1)))
    return float(np.mean(scores))


def _reach(P: Array) -> float:
    """Return the effective share of the rows of the other domain that are ever found."""
    w = P.sum(axis=0)
    return float(w.sum() ** 2 / max(float((w**2).sum()), _TINY) / len(w))


def _top(S: Array) -> Array:
    """Return the mean of the ten largest values of each row."""
    n = S.shape[1]
    k = min(_NEAREST, n - 1)
    means: Array = np.partition(S, n - k, axis=1)[:, n - k :].mean(axis=1)
    return means


def _information(joint: Array) -> float:
    """Return the mutual information of a table, relative to the smaller entropy."""
    p = joint / joint.sum()
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    least = min(float(entropy(rows)), float(entropy(columns)))
    both = float(entropy(rows) + entropy(columns) - entropy(p.ravel()))
    return both / max(least, _TINY)


def _correlation(G: Array, S: Array) -> float:
    """Return the correlation of two similarities over all pairs of different rows."""
    upper = np.triu_indices(len(S), 1)
    a, b = G[upper].astype(np.float64), S[upper].astype(np.float64)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > _SMALL * len(a) else 0.0


def _nearest(D: Array) -> Array:
    """Return the share of the first ten places that each column has; ties share."""
    k = min(_NEAREST, D.shape[1] - 1)
    return expected_places(D, k) / k


def _hamming(B: Array, C: Array) -> Array:
    return (B.shape[1] - B @ C.T) / 2.0


def _apart(D: Array, value: float = np.inf) -> Array:
    """Return a square matrix whose diagonal says that no row is its own neighbour."""
    D = D.copy()
    np.fill_diagonal(D, value)
    return D


def _shares(V: Array) -> Array:
    """Divide rows by their sum."""
    divided: Array = V / np.maximum(V.sum(axis=1, keepdims=True), _TINY)
    return divided


def _one_hot(y: Ids, n_classes: int) -> Array:
    Y: Array = (y[:, None] == np.arange(n_classes)).astype(np.float64)
    return Y
