"""KSH, supervised hashing with kernels (Liu, Wang, Ji, Jiang & Chang, CVPR 2012)."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, majority_sign
from .._core.validation import Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About, BaseLabelHasher
from ..models.encoder import LinearEncoder
from ..models.feature_maps import AnchorKernel, drawn_rows
from ..models.training import Ids
from ..neighbors.graphs import label_graph
from ._kernel import label_contrast

_SINGULAR = 1e-8  # ridge of a singular scatter matrix, relative to the mean eigenvalue
_DOUBLINGS = 50  # of the curvature, at most, per step of the refinement
_FLAT = 1e-2  # change of the smooth objective per row below which the refinement stops


class KSH(BaseLabelHasher):
    """Kernel hash functions, learned bit by bit, whose inner products match class similarities.

    min ‖BBᵀ/r - S‖² over B = sign(KA): S is +1 within a class and -1 across, K are the centred
    Gaussian similarities of some labelled rows to anchors. Each bit fits the residual of the bits
    before it, R = rS - Σ bbᵀ: it starts at a generalised eigenvector, is refined by accelerated
    gradient steps on -pᵀRp with a smooth sign p, and the better of the two is kept. Objective,
    steps and constants follow the paper and its public code, Supervised-Hashing-with-Kernels.
    Ours: products with R by class sums instead of an l × l matrix; a ridge if the eigenproblem is
    singular; the sign of an eigenvector (the third moment of its projections is positive). Rows
    without a label are not used. Kernel width and mean use all labelled rows.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors : int, default=300
        Random rows used as anchors; all rows if there are fewer.
    n_labelled : int, default=2000
        l, random rows used in S; all rows if there are fewer.
    max_iter : int, default=500
        Maximum number of gradient steps per bit.
    random_state : int, RandomState or None
        Draws both sets of rows.

    Attributes
    ----------
    objective_ : array of shape (n_bits,)
        After each bit.
    n_iter_ : int
        Largest number of gradient steps of any bit.
    """

    about: ClassVar = About("supervised", "Liu, Wang, Ji, Jiang & Chang, CVPR 2012", ("y",))
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_anchors": Range(1, kind=Integral),
        "n_labelled": Range(2, kind=Integral),
        "max_iter": Range(0, kind=Integral),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 300,
        n_labelled: int = 2000,
        max_iter: int = 500,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_labelled = n_labelled
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn_classes(self, X: Array, y: Ids) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        kernel = AnchorKernel(self.n_anchors, "twice-mean", rng.randint(2**31 - 1)).fit(X)
        K = kernel.transform(X)
        mean = K.mean(axis=0, dtype=np.float64)
        rows = drawn_rows(X, self.n_labelled, rng)
        A, objective, self.n_iter_ = greedy_bits(
            K[rows] - mean, y[rows], self.n_bits, self.max_iter
        )
        self.objective_ = np.array(objective)
        return LinearEncoder(A.astype(X.dtype), mean.astype(X.dtype), maps=[kernel])


class Residual:
    """R = rS - BBᵀ: the similarities that the bits so far do not explain; never formed."""

    def __init__(self, y: Ids, n_bits: int) -> None:
        self._y, self._n_bits = y, n_bits
        self._bits: Array = np.empty((n_bits, len(y)))
        self._n_learned = 0
        self.square = float(n_bits * len(y)) ** 2  # ‖R‖²

    def __matmul__(self, p: Array) -> Array:
        """Return R p for a vector p."""
        B = self._bits[: self._n_learned]
        sums = np.bincount(self._y, weights=p)  # per class
        Sp = 2.0 * sums[self._y] - sums.sum()
        return self._n_bits * Sp - (B @ p) @ B

    def explained(self, p: Array) -> float:
        """Return pᵀRp."""
        return float(p @ (self @ p))

    def subtract(self, b: Array) -> None:
        """Replace R by R - bbᵀ."""
        self.square += float(len(b)) ** 2 - 2.0 * self.explained(b)
        self._bits[self._n_learned] = b
        self._n_learned += 1


def greedy_bits(K: Array, y: Ids, n_bits: int, max_iter: int) -> tuple[Array, list[float], int]:
    """Learn the bits one by one from centred kernel rows.

    Returns the projections A, the objective after each bit, and the largest number of steps.
    """
    R = Residual(y, n_bits)
    scatter = invertible(K.T @ K)
    KRK = n_bits * K.T @ label_contrast(label_graph(y, y), K)
    A = np.empty((K.shape[1], n_bits))
    objective, most = [], 0
    for t in range(n_bits):
        start = spectral_start(K, KRK, scatter)
        refined, n_steps = refine(K, R, start, max_iter)
        b, b_refined = (signs(K @ a).astype(K.dtype) for a in (start, refined))
        A[:, t] = start
        if R.explained(b_refined) > R.explained(b):
            A[:, t], b = refined, b_refined
        R.subtract(b)
        Kb = K.T @ b
        KRK -= np.outer(Kb, Kb)
        objective.append(R.square / n_bits**2)
        most = max(most, n_steps)
    return A, objective, most


def invertible(C: Array) -> Array:
    """Return C, with a small ridge if it is singular: repeated anchors, or more than rows."""
    ridge = _SINGULAR * float(np.trace(C)) / len(C)
    if eigh(C, eigvals_only=True, subset_by_index=(0, 0))[0] > ridge:
        return C
    return C + (ridge or 1.0) * np.eye(len(C))


def spectral_start(K: Array, KRK: Array, scatter: Array) -> Array:
    """Return argmax (Ka)ᵀR(Ka) / ‖Ka‖², scaled to ‖Ka‖² = l: the bit without its sign function."""
    m = len(KRK)
    a: Array = eigh(KRK, scatter, subset_by_index=(m - 1, m - 1))[1][:, 0]
    h = K @ a
    scale = np.sqrt(len(K)) / (float(np.linalg.norm(h)) or 1.0)
    return scale * majority_sign(h) * a


def smooth_loss(R: Residual, h: Array) -> tuple[float, Array]:
    """Return g = -pᵀRp with p = 2 / (1 + exp(-h)) - 1, and its gradient with respect to h."""
    p = np.tanh(h / 2)  # the same, without overflow
    Rp = R @ p
    return -float(p @ Rp), -Rp * (1.0 - p * p)


def refine(K: Array, R: Residual, a: Array, max_iter: int) -> tuple[Array, int]:
    """Minimise the smooth loss from a by Nesterov's accelerated gradient; also count the steps.

    The curvature is doubled until the loss falls as the quadratic bound predicts, and never
    lowered. Projections h = Ka are stored: two products with K per step, none per doubling.
    """
    a_before, h = a, K @ a
    h_before, g = h, smooth_loss(R, h)[0]
    delta_before, delta, curvature = 0.0, 1.0, 1.0
    for step in range(1, max_iter + 1):
        momentum = (delta_before - 1.0) / delta
        v, h_v = a + momentum * (a - a_before), h + momentum * (h - h_before)
        g_v, slope = smooth_loss(R, h_v)
        gradient = K.T @ slope
        square, h_gradient = float(gradient @ gradient), K @ gradient
        for _ in range(_DOUBLINGS + 1):
            h_new = h_v - h_gradient / curvature
            g_new = smooth_loss(R, h_new)[0]
            if g_new <= g_v - square / (2.0 * curvature):
                break
            curvature *= 2.0
        else:
            return a, step
        a_before, a = a, v - gradient / curvature
        h_before, h = h, h_new
        delta_before, delta = delta, (1.0 + np.sqrt(1.0 + 4.0 * delta**2)) / 2.0
        if abs(g_new - g) <= _FLAT * len(K):
            return a, step
        g = g_new
    return a, max_iter
