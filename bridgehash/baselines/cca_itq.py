"""CCA-ITQ: canonical directions of pairs, rotated by ITQ (Gong et al., TPAMI 35(12), 2013)."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, itq_rotation, majority_sign, random_orthonormal
from .._core.validation import Flag, Range, Rules
from ..models.base import N_BITS, About, BaseTwoDomainHasher
from ..models.encoder import LinearEncoder
from ..models.training import TrainingData
from ._views import View, unit_maps, whitened


class CCAITQ(BaseTwoDomainHasher):
    """Canonical correlation analysis of paired rows, then one ITQ rotation for both domains.

    max uᵀX_sᵀX_t v with uᵀ(X_sᵀX_s + ρI)u = vᵀ(X_tᵀX_t + ρI)v = 1, one pair of directions after the
    other. Each direction is weighted by its squared correlation. The rotation minimises the
    quantisation error of the projections of both domains. In the paper the second view are
    the labels, and only the first is encoded; for two views of features see Gong, Ke, Isard &
    Lazebnik, IJCV 106(2), 2014. Ours: the rotation is learned on both views, and codes longer than
    the number of directions. Rows without a partner are not used.

    Parameters
    ----------
    n_bits : int, default=64
    ridge : float, default=0.1
        ρ, for rows of unit norm.
    max_iter : int, default=50
        Rounds of ITQ.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first rotation.
    """

    about: ClassVar = About(
        "paired", "Gong, Lazebnik, Gordo & Perronnin, TPAMI 35(12), 2013", ("pairs",)
    )
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "ridge": Range(0, above=True),
        "max_iter": Range(0, kind=Integral),
        "unit_rows": Flag(),
    }

    def __init__(
        self,
        n_bits: int = 64,
        ridge: float = 0.1,
        max_iter: int = 50,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.max_iter = max_iter
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        rng = check_random_state(self.random_state)
        rows = data.paired_rows(type(self).__name__)
        source, target = (View.build(X, unit_maps(self.unit_rows)) for X in rows)
        U, V, correlations = canonical_directions(source.X, target.X, self.ridge, self.n_bits)
        U, V = U * correlations**2, V * correlations**2
        R = random_orthonormal(U.shape[1], self.n_bits, rng)
        # ITQ compares projections with ±1: rows of n pairs have projections of size 1 / √n.
        projected = np.sqrt(len(source.X)) * np.vstack([source.X @ U, target.X @ V])
        R = itq_rotation(projected, R, self.max_iter)
        return source.encoder(U @ R), target.encoder(V @ R)


def canonical_directions(X: Array, Y: Array, ridge: float, n: int) -> tuple[Array, Array, Array]:
    """Return the leading canonical directions of centred paired rows, and their correlations.

    UᵀXᵀYV is diagonal, and Uᵀ(XᵀX + ρI)U = Vᵀ(YᵀY + ρI)V = I.

    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> canonical_directions(X, -2 * X, ridge=1e-9, n=1)[2].round(3)
    array([1.])
    """
    (Z_x, back_x), (Z_y, back_y) = whitened(X, ridge), whitened(Y, ridge)
    A, correlations, Bt = np.linalg.svd(Z_x.T @ Z_y, full_matrices=False)
    A, B = A[:, :n], Bt[:n].T
    sign = majority_sign(Z_x @ A, Z_y @ B)
    return back_x(A * sign), back_y(B * sign), correlations[:n]
