"""SHSR, spectral hashing with spectral rotation (Li, Hu, Nie, AAAI 2017, there LGHSR)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_random_state

from .._core.arrays import balanced_signs
from .._core.linalg import Array, procrustes, random_orthonormal
from .._core.validation import Range, Rules
from ..models.base import N_BITS, About, BaseHasher
from ..models.encoder import LinearEncoder
from ._anchor_graph import AnchorGraphMap, anchor_eigenvectors, anchor_graph


class SHSR(BaseHasher):
    """Eigenvectors of an anchor graph, rotated to minimise the error of balanced signs.

    min ‖B - FQ‖² over signs B with 1ᵀB = 0 and rotations Q, alternating two exact steps, where F
    holds the leading eigenvectors of the graph. A new row is encoded by the signs of z(x)P with
    P = Λ⁻¹ZᵀFQ, the mean of FQ around each anchor. Objective and steps follow the paper; anchors,
    neighbours and the 20 rounds follow the public code (wxqlab/Image-Hashing-Toolkit).

    Ours: training rows are encoded by z(x)P like all others; the rounds stop if no bit changes;
    codes longer than the number of eigenvectors (fewer than anchors, and than rows), for which Q
    has orthonormal rows.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors, n_neighbors : int, default=300 and 3
        Parameters of the graph (see `AnchorGraphMap`).
    max_iter : int, default=20
        Maximum number of rounds.
    random_state : int, RandomState or None
        Draws the first anchors and the first rotation.
    """

    about: ClassVar = About(
        "unsupervised", "Li, Hu & Nie, AAAI 2017; Hu, Nie & Li, TIP 28(3), 2019"
    )
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_anchors": Range(2, kind=Integral),
        "n_neighbors": Range(1, kind=Integral),
        "max_iter": Range(1, kind=Integral),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 300,
        n_neighbors: int = 3,
        max_iter: int = 20,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        seed = rng.randint(np.iinfo(np.int32).max)  # an integer can be saved with the model
        anchors = AnchorGraphMap(self.n_anchors, self.n_neighbors, random_state=seed).fit(X)
        Z = anchors.memberships(X)
        F = anchor_eigenvectors(Z, self.n_bits).astype(X.dtype, copy=False)
        Q = random_orthonormal(F.shape[1], self.n_bits, rng).astype(X.dtype)
        Q, self.objective_ = spectral_rotation(F, Q, self.max_iter)
        self.n_iter_ = len(self.objective_)
        P: Array = (anchor_graph(Z).left.T @ F).astype(X.dtype) @ Q
        return LinearEncoder(P, np.zeros(len(P), X.dtype), maps=[anchors])


def spectral_rotation(F: Array, Q: Array, max_iter: int) -> tuple[Array, Array]:
    """Return the rotation of F closest to balanced signs, from Q, and the objective per round."""
    B = balanced_signs(F @ Q)
    objective = []
    for _ in range(max_iter):
        Q = procrustes(F.T @ B)
        FQ = F @ Q
        objective.append(float(np.square(B - FQ).sum()))
        before, B = B, balanced_signs(FQ)
        if np.array_equal(B, before):
            break
    return Q, np.array(objective)
