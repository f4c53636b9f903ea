"""SCM, semantic correlation maximisation (Zhang & Li, AAAI 2014), bit by bit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.errors import InputError
from .._core.linalg import Array, leading, majority_sign
from .._core.validation import Flag, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About, BaseTwoDomainHasher
from ..models.encoder import LinearEncoder
from ..models.training import Ids, TrainingData
from ..neighbors.graphs import label_graph
from ._kernel import label_contrast
from ._views import View, unit_maps, whitened


class SCM(BaseTwoDomainHasher):
    """Codes whose inner products across domains show equal classes, learned bit by bit.

    min ‖r S - Σ_k sign(X_s w_k) sign(X_t v_k)ᵀ‖², where S is 1 for rows of one class and -1 for
    others. Without the signs, the next bit is the leading pair of canonical directions of what the
    bits before it leave of r S (SCM-seq of the paper). Objective, steps and ridge follow the paper
    and the public code of its authors. S needs labels of both domains, and the rows need not be
    paired. Ours: unknown classes are left out, rows may have unit norm, and late bits are learned
    as the others are (the code replaces some of them by CCA, which needs pairs).

    Parameters
    ----------
    n_bits : int, default=64
    ridge : float, default=1e-6
        Added to XᵀX of each domain.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    """

    about: ClassVar = About("supervised", "Zhang & Li, AAAI 2014", ("y_source", "y_target"))
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "ridge": Range(0, above=True),
        "unit_rows": Flag(),
    }

    def __init__(self, n_bits: int = 64, ridge: float = 1e-6, unit_rows: bool = True) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.unit_rows = unit_rows

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        X_s, y_s = _labelled(data.X_source, data.y_source, "y_source")
        X_t, y_t = _labelled(data.X_target, data.y_target, "y_target")
        source, target = (View.build(X, unit_maps(self.unit_rows)) for X in (X_s, X_t))
        (Z_s, back_s), (Z_t, back_t) = (whitened(view.X, self.ridge) for view in (source, target))
        # Row and column sums of S do not matter: the rows are centred.
        C = self.n_bits * Z_s.T @ label_contrast(label_graph(y_s, y_t), Z_t)
        A_s, A_t = sequential_directions(Z_s, Z_t, C, self.n_bits)
        return source.encoder(back_s(A_s)), target.encoder(back_t(A_t))


def sequential_directions(Z_s: Array, Z_t: Array, C: Array, n_bits: int) -> tuple[Array, Array]:
    """Return per bit the directions a, b of the largest aᵀCb; C then loses what the bit explains.

    C is Z_sᵀ(rS)Z_t for whitened rows.
    """
    A_s, A_t = np.empty((Z_s.shape[1], n_bits)), np.empty((Z_t.shape[1], n_bits))
    C = C.copy()
    for k in range(n_bits):
        a, b = leading_directions(C)
        sign = majority_sign((Z_s @ a)[:, None], (Z_t @ b)[:, None])
        A_s[:, k], A_t[:, k] = sign * a, sign * b
        C -= np.outer(Z_s.T @ signs(Z_s @ A_s[:, k]), Z_t.T @ signs(Z_t @ A_t[:, k]))
    return A_s, A_t


def leading_directions(C: Array) -> tuple[Array, Array]:
    """Return the leading left and right singular vectors of C, from its smaller Gram matrix.

    >>> leading_directions(np.diag([3.0, 2.0]))[0] ** 2
    array([1., 0.])
    """
    if C.shape[0] > C.shape[1]:
        b, a = leading_directions(C.T)
        return a, b
    a = leading(C @ C.T, 1)[1][:, 0]
    b = C.T @ a
    return a, b / np.linalg.norm(b)


def _labelled(X: Array, y: Ids | None, argument: str) -> tuple[Array, Ids]:
    """Return the rows of known class, and their classes."""
    if y is None:
        raise InputError("missing; SCM needs labels of both domains", argument)
    known = y >= 0
    if len(np.unique(y[known])) < 2:
        raise InputError("fewer than two classes; SCM needs at least two", argument)
    return X[known], y[known]
