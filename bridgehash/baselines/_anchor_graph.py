"""Anchor graphs: similarities among many rows through a few cluster centres, the anchors.

Each row is described by its memberships Z in the nearest of m anchors (Liu, Wang, Kumar, Chang,
"Hashing with Graphs", ICML 2011). The similarity of two rows is that of their memberships:
S = Z Λ⁻¹ Zᵀ with Λ = diag(1ᵀZ). S is symmetric, its rows sum to one and its eigenvalues are between
zero and one. S is never formed.
"""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from .._core.linalg import Array, k_means, majority_sign
from .._core.validation import FLOATS, Range, Rules
from ..models.contents import Contents, Number, Values, Width
from ..models.feature_maps import BaseFeatureMap, drawn_rows
from ..neighbors.graphs import FactoredGraph
from ..neighbors.search import nearest

_EQUAL = 1e-8  # eigenvalues of S this close to each other count as equal, this small as zero


class AnchorGraphMap(BaseFeatureMap):
    """Memberships z(x) of a row in its nearest anchors, which sum to one; all others are zero.

    z_j(x) = exp(-‖x - χ_j‖² / σ²) / Σ exp(-‖x - χ_k‖² / σ²), summed over the nearest anchors.
    Anchors are k-means centres of the training rows. K-means starts at random rows; the draw does
    not depend on the order of the rows. The ten rounds of k-means, the three neighbours and the
    width follow public code (wxqlab/Image-Hashing-Toolkit).

    Parameters
    ----------
    n_anchors : int, default=300
        Number of anchors. If there are fewer rows, each is an anchor; equal rows count once.
    n_neighbors : int, default=3
        Anchors per row, at most `n_anchors`.
    n_iter : int, default=10
        Rounds of k-means.
    random_state : int, RandomState or None
        Draws the first centres of k-means.

    Attributes
    ----------
    mean_ : array of shape (d,)
        Mean of the training rows.
    anchors_ : array of shape (m, d)
        Relative to `mean_`.
    sigma_ : float
        σ: the mean distance of a training row to the last of its nearest anchors.
    """

    _rules: ClassVar[Rules] = {
        "n_anchors": Range(1, kind=Integral),
        "n_neighbors": Range(1, kind=Integral),
        "n_iter": Range(0, kind=Integral),
    }
    _contents: ClassVar[Contents] = {
        "n_features_in_": Width("d"),
        "n_features_out_": Width("m"),
        "mean_": Values("d"),
        "anchors_": Values("m d"),
        "sigma_": Number(Range(0, above=True)),
    }

    def __init__(
        self,
        n_anchors: int = 300,
        n_neighbors: int = 3,
        n_iter: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.n_iter = n_iter
        self.random_state = random_state

    def _learn(self, X: Array) -> int:
        rng = check_random_state(self.random_state)
        self.mean_: Array = X.mean(axis=0)
        D = X - self.mean_
        start = D[drawn_rows(D, self.n_anchors, rng)]
        _, distinct = np.unique(start, axis=0, return_index=True)
        anchors = k_means(D, start[np.sort(distinct)], self.n_iter)
        F, columns = nearest(D, anchors, min(self.n_neighbors, len(anchors)))
        self.sigma_ = float(np.sqrt(F[:, -1]).mean()) or 1.0
        mass = _membership_matrix(F, columns, self.sigma_, len(anchors)).sum(axis=0)
        self.anchors_: Array = anchors[mass > np.finfo(X.dtype).tiny]  # drop anchors without rows
        return len(self.anchors_)

    def memberships(self, X: ArrayLike) -> csr_array:
        """Return z(x) of each row as a sparse float64 matrix of shape (n, m)."""
        check_is_fitted(self, "n_features_in_")
        return self._memberships(validate_data(self, X, dtype=FLOATS, reset=False))

    def _memberships(self, X: Array) -> csr_array:
        k = min(self.n_neighbors, len(self.anchors_))
        F, columns = nearest(X - self.mean_, self.anchors_, k)
        return _membership_matrix(F, columns, self.sigma_, len(self.anchors_))

    def _map(self, X: Array) -> Array:
        return self._memberships(X).toarray().astype(X.dtype, copy=False)


def _membership_matrix(
    F: Array, columns: NDArray[np.intp], sigma: float, n_anchors: int
) -> csr_array:
    """Return memberships from the squared distances and column numbers of the nearest anchors."""
    n, k = F.shape
    F = F.astype(np.float64, copy=False)
    weights = np.exp((F[:, :1] - F) / sigma**2)  # minus the smallest: avoids 0 / 0 for far rows
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, n * k + 1, k)
    return csr_array((weights.ravel(), columns.ravel(), starts), shape=(n, n_anchors))


def anchor_graph(Z: csr_array) -> FactoredGraph:
    """Return S = Z Λ⁻¹ Zᵀ for memberships Z; each anchor must have a row."""
    return FactoredGraph((Z @ diags_array(1.0 / Z.sum(axis=0))).tocsr(), Z)


def anchor_eigenvectors(Z: csr_array, n_components: int) -> Array:
    """Return the leading eigenvectors F of S except the constant one: FᵀF = nI and 1ᵀF = 0.

    They follow from those of the small matrix Λ^-½ ZᵀZ Λ^-½. The constant vector is removed
    first: in a disconnected graph it shares its eigenvalue with others.

    Parameters
    ----------
    Z : sparse array of shape (n, m)
        Memberships.
    n_components : int
        Number of eigenvectors.

    Returns
    -------
    F : array of shape (n, p)
        p = min(n_components, rank of S - 1).
    """
    n = Z.shape[0]
    mass: Array = np.asarray(Z.sum(axis=0), dtype=np.float64)
    root = np.sqrt(mass)
    Y = Z @ diags_array(1.0 / root)  # S = Y Yᵀ
    values, V = eigh((Y.T @ Y).toarray() - np.outer(root, root) / n, check_finite=False)
    keep = np.flatnonzero(values > _EQUAL)[::-1]
    values, V = values[keep], _resolve_ties(values[keep], V[:, keep], mass)
    F: Array = np.sqrt(n) * (Y @ (V / np.sqrt(values))[:, :n_components])
    return F * majority_sign(F)


def _resolve_ties(values: Array, V: Array, mass: Array) -> Array:
    """Rotate eigenvectors that share an eigenvalue to the principal axes of the masses.

    The eigenvalue one is repeated if the graph is disconnected. Without this rule, rounding would
    choose the eigenvectors.
    """
    ends = np.flatnonzero(np.abs(np.diff(values)) > _EQUAL) + 1
    groups = np.split(V, ends, axis=1)
    return np.hstack([G @ eigh((G.T * mass) @ G)[1] if G.shape[1] > 1 else G for G in groups])
