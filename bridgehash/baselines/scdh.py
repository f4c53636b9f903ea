"""SCDH, strongly constrained discrete hashing (Chen, Tian, Zhang, Wang & Zhang, TIP 29, 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from .._core.linalg import Array, RidgeSolver
from .._core.validation import OneOf, Range, Rules
from ..codes import signs
from ..models.base import About
from ..models.training import Ids
from ..neighbors.graphs import FactoredGraph, label_graph
from ._kernel import BaseKernelHasher, label_contrast

_RANK = 1e-5  # singular values below this share of the largest are rounding errors

Draw = Callable[[int, int], Array]  # numbers of rows and columns -> random matrix


class SCDH(BaseKernelHasher):
    """Codes whose products with relaxed codes Z, uncorrelated and balanced, match class similarity.

    min ‖rS - BZᵀ‖² + λ‖B - φP‖² + α‖B - Z‖² + β‖P‖² over signs B, P, and Z with Zᵀ1 = 0 and
    ZᵀZ = nI. S is +1 within a class and -1 across; φ are similarities to anchors and a constant.
    Each of the three steps is exact. Objective, steps and constants follow the paper and the files
    in single-modal-supervised-hashing-baseline-for-image-retrieval. Those files use the distance to
    an anchor without its square; the default here is the Gaussian of the paper, which scored
    better. Ours: the relative rank test, the stop after a round without changes, and codes of n
    bits or more, for which ZᵀZ is n times a projection (the objective may then rise). Rows without
    a label are not used, and all rows are encoded by P.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors : int, default=2000
        Random rows used as anchors; all rows if there are fewer.
    sigma, unit_rows
        As for `SDH`.
    kernel : "gaussian" or "exponential", default="gaussian"
        "exponential" uses ‖x - χ‖ instead of its square.
    fit_weight : float, default=10.0
        λ, the weight of the regression of the codes on φ.
    relaxed_weight : float, default=0.1
        α, the weight of the distance between Z and B.
    ridge : float, default=1.0
        β, the ridge of P.
    max_iter : int, default=10
        Maximum number of rounds.
    random_state : int, RandomState or None
        Draws the anchors, the first codes and the undetermined columns of Z.

    Attributes
    ----------
    objective_ : array of shape (n_iter_,)
        After each round.
    n_iter_ : int
    """

    about: ClassVar = About(
        "supervised", "Chen, Tian, Zhang, Wang & Zhang, TIP 29:3596-3611, 2020", ("y",)
    )
    _rules: ClassVar[Rules] = {
        **BaseKernelHasher._rules,
        "kernel": OneOf(("gaussian", "exponential")),
        "fit_weight": Range(0, above=True),
        "relaxed_weight": Range(0),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 2000,
        sigma: float = 0.4,
        kernel: Literal["gaussian", "exponential"] = "gaussian",
        unit_rows: bool = True,
        fit_weight: float = 10.0,
        relaxed_weight: float = 0.1,
        ridge: float = 1.0,
        max_iter: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.sigma = sigma
        self.kernel = kernel
        self.unit_rows = unit_rows
        self.fit_weight = fit_weight
        self.relaxed_weight = relaxed_weight
        self.ridge = ridge
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        def draw(n: int, k: int) -> Array:
            return rng.standard_normal((n, k))

        B = signs(draw(len(y), self.n_bits)).astype(np.float64)
        return self._alternate(phi, label_graph(y, y), B, draw)[0]

    def _alternate(
        self, phi: Array, graph: FactoredGraph, B: Array, draw: Draw
    ) -> tuple[Array, Array]:
        """Alternate P, Z and B from codes B; return P and B."""
        lam, alpha, beta = self.fit_weight, self.relaxed_weight, self.ridge
        regress = RidgeSolver(phi, beta / lam)
        values: list[float] = []
        for _ in range(self.max_iter):
            P = regress(B)
            H = phi @ P
            Z = relaxed_step(graph, B, alpha, draw)
            B_before, B = B, code_step(graph, Z, H, lam, alpha)
            values.append(objective(graph, B, Z, H, P, lam=lam, alpha=alpha, beta=beta))
            if np.array_equal(B, B_before):
                break
        self.objective_ = np.array(values)
        self.n_iter_ = len(values)
        return P, B


def relaxed_step(graph: FactoredGraph, B: Array, alpha: float, draw: Draw) -> Array:
    """Z-step: argmax tr(ZᵀE) over Zᵀ1 = 0 and ZᵀZ = nI, with E = rSB + αB minus its mean.

    Computed from the thin singular value decomposition of E. Its rank is often below r, because
    there are few classes; then random left singular vectors are added.
    """
    n, r = B.shape
    E = r * label_contrast(graph, B) + alpha * B
    E -= E.mean(axis=0)
    U, s, Vt = np.linalg.svd(E, full_matrices=False)
    U = U[:, s > _RANK * s[0]]
    n_more = min(r, n - 1) - U.shape[1]
    if n_more > 0:
        U = np.hstack([U, completion(U, draw(n, n_more))])
    return np.sqrt(n) * U @ Vt[: U.shape[1]]


def completion(U: Array, Q: Array) -> Array:
    """Return orthonormal columns of mean zero, orthogonal to those of U, computed from Q."""
    for _ in range(2):  # the second pass removes rounding errors of the first
        Q = Q - Q.mean(axis=0)
        Q = np.linalg.qr(Q - U @ (U.T @ Q))[0]
    return Q


def code_step(graph: FactoredGraph, Z: Array, H: Array, lam: float, alpha: float) -> Array:
    """B-step: the best signs for given Z and H = φP; ZᵀZ = nI makes the bits independent."""
    return signs(Z.shape[1] * label_contrast(graph, Z) + lam * H + alpha * Z).astype(Z.dtype)


def objective(
    graph: FactoredGraph,
    B: Array,
    Z: Array,
    H: Array,
    P: Array,
    *,
    lam: float,
    alpha: float,
    beta: float,
) -> float:
    """Return the objective; ‖rS - BZᵀ‖² is computed without n × n matrices."""
    n, r = B.shape
    similarity = (r * n) ** 2 - 2 * r * np.vdot(Z, label_contrast(graph, B))
    similarity += np.vdot(B.T @ B, Z.T @ Z)
    misfit, apart = B - H, B - Z
    value = similarity + lam * np.vdot(misfit, misfit) + alpha * np.vdot(apart, apart)
    return float(value + beta * np.vdot(P, P))
