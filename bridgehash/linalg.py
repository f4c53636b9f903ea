"""The few pieces of linear algebra that more than one method needs.

Everything here is blind to the order of the samples and to a rotation of the features (signs of
principal directions follow the projected samples, not the loadings), so that whatever is built
from these parts inherits both properties.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, qr

from .codes import signs

Array = NDArray[np.floating]

_DENSE_EIGH = 0.25  # above this share of the spectrum a full decomposition is faster


def pca(X: Array, n_components: int) -> Array:
    """Principal directions of centred rows, by decreasing variance; never more than the rank.

    The sign of a direction is free; here the third moment of its projections is positive. Unlike
    a rule on the loadings this does not change when the features are rotated, and it
    tends to agree between two domains that show the same things.

    Parameters
    ----------
    X : array of shape (n, d)
        Centred samples.
    n_components : int
        Directions wanted.

    Returns
    -------
    P : array of shape (d, p)
        Orthonormal columns, p = min(n_components, rank of X).

    Examples
    --------
    >>> pca(np.array([[-1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]]), n_components=2)
    array([[1.],
           [0.]])
    """
    wide = X.shape[0] < X.shape[1]
    C = X @ X.T if wide else X.T @ X
    m = len(C)
    k = min(n_components, m)
    subset = (m - k, m - 1) if k < _DENSE_EIGH * m else None
    values, vectors = eigh(C, subset_by_index=subset, check_finite=False)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    keep = values > values[:1] * m * np.finfo(C.dtype).eps
    vectors = vectors[:, keep]
    P = X.T @ vectors / np.sqrt(values[keep]) if wide else vectors
    return P * _majority_sign(X @ P)


def _majority_sign(V: Array) -> Array:
    return np.where((V**3).sum(axis=0) < 0, -1.0, 1.0).astype(V.dtype)


def random_orthonormal(p: int, r: int, rng: np.random.RandomState) -> Array:
    """A random p × r matrix, uniform among those with orthonormal columns (rows if p < r).

    >>> Q = random_orthonormal(2, 3, np.random.RandomState(0))
    >>> np.allclose(Q @ Q.T, np.eye(2))
    True
    """
    Q, R = np.linalg.qr(rng.standard_normal((max(p, r), min(p, r))))
    Q = Q * np.sign(np.diag(R))
    return Q if p >= r else Q.T


def procrustes(C: Array) -> Array:
    """The matrix with orthonormal columns (or rows) closest to C: argmax tr(QᵀC).

    >>> procrustes(np.diag([2.0, 5.0]))
    array([[1., 0.],
           [0., 1.]])
    """
    U, _, Vt = np.linalg.svd(C, full_matrices=False)
    return U @ Vt


def itq_rotation(V: Array, R: Array, n_iter: int = 50) -> Array:
    """Rotation that brings V closest to the corners of the cube: min ‖sign(VR) - VR‖².

    Iterative quantisation (Gong & Lazebnik 2011), started at R. With fewer columns in V than in
    R the rows of R stay orthonormal instead, so that codes may be longer than the rank
    of the data.
    """
    for _ in range(n_iter):
        B = signs(V @ R).astype(V.dtype)
        R = procrustes(V.T @ B)
    return R


def row_space(X: Array) -> tuple[Array, Array | None]:
    """Coordinates of X in the space its rows span, where that is smaller: X = Z Qᵀ.

    Returns (Z, Q), or (X, None) for n ≥ d. A ridge problem over X has its solution in that
    space, and Q is orthonormal: solve for Z in n dimensions, then multiply by Q. Norms, distances,
    principal components and the ridge term are all the same in Z as in X.
    """
    if X.shape[0] >= X.shape[1]:
        return X, None
    Q, R = qr(X.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(R.T), Q


class SPDSolver:
    """Solves Φ x = b for one symmetric positive definite Φ, factored once."""

    def __init__(self, Phi: Array, ridge: float = 0.0) -> None:
        Phi = Phi.copy()
        Phi.flat[:: len(Phi) + 1] += ridge
        try:
            self._factor = cho_factor(Phi, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"the normal matrix is singular at ridge={ridge:g}; give a larger ridge"
            ) from error

    def __call__(self, b: Array) -> Array:
        return cho_solve(self._factor, b, check_finite=False)
