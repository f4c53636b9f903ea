"""Hash functions of similarities to anchors: the common parts of KSH, SDH, FSDH and SCDH.

SDH, FSDH and SCDH learn codes B of labelled rows. A ridge regression P of the codes on [φ(x), 1]
encodes new rows; φ(x) are the similarities of a row to the anchors. SDH and FSDH also share the
optimisation loop and differ in the term that joins codes and labels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Literal, Protocol

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, RidgeSolver
from .._core.validation import Flag, Range, Rules
from ..models.base import N_BITS, BaseLabelHasher, Ids
from ..models.encoder import LinearEncoder
from ..models.feature_maps import AnchorKernel, outward, unit_row_map
from ..neighbors.graphs import FactoredGraph

_TILE = 1024  # rows mapped at a time


class BaseKernelHasher(BaseLabelHasher):
    """A method whose hash function is sign([φ(x), 1] P).

    Subclasses implement `_learn_projection(phi, y, rng)`, which returns P.
    """

    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_anchors": Range(1, kind=Integral),
        "sigma": Range(0, above=True),
        "unit_rows": Flag(),
        "ridge": Range(0, above=True),
        "max_iter": Range(1, kind=Integral),
    }
    n_anchors: int
    sigma: float
    unit_rows: bool
    random_state: int | np.random.RandomState | None
    kernel: Literal["gaussian", "exponential"] = "gaussian"

    def _learn_classes(self, X: Array, y: Ids) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        seed = rng.randint(2**31 - 1)
        kernel = AnchorKernel(self.n_anchors, 2.0 * self.sigma**2, seed, self.kernel)
        maps, X = unit_row_map(X, self.unit_rows)
        order = outward(X)  # draws per row then do not depend on the order of the samples
        X, y = X[order], y[order]
        P = self._learn_projection(with_constant(kernel.fit(X), X), y, rng).astype(X.dtype)
        return LinearEncoder(
            P[:-1], np.zeros(len(P) - 1, X.dtype), maps=[*maps, kernel], intercept=P[-1]
        )

    @abstractmethod
    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        """Return P of shape (m + 1, n_bits) for rows [φ(x), 1] of classes y."""


def with_constant(kernel: AnchorKernel, X: Array) -> Array:
    """Return [φ(x), 1] of each row, computed in tiles to save memory.

    The result is float64 for any X: the small ridges of these methods would be lost in float32.
    """
    phi = np.ones((len(X), len(kernel.anchors_) + 1))
    for rows in gen_batches(len(X), _TILE):
        phi[rows, :-1] = kernel.transform(X[rows])
    return phi


def label_contrast(graph: FactoredGraph, H: Array) -> Array:
    """Return S H with S = 2 W - 11ᵀ for a label graph W: +1 inside a class, -1 across classes.

    >>> from bridgehash.neighbors.graphs import label_graph
    >>> y = np.array([0, 0, 1])
    >>> label_contrast(label_graph(y, y), np.eye(3))
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    SH = 2.0 * (graph @ H)
    SH -= H.sum(axis=0)
    return SH


class LabelTerm(Protocol):
    """The term of an objective that joins codes B and labels through weights W."""

    def weights(self, B: Array) -> Array:
        """Return the best W for given codes."""

    def codes(self, B: Array, W: Array, pull: Array) -> Array:
        """Return codes no worse than B at minimising loss(B, W) - 2 tr(Bᵀ pull)."""

    def loss(self, B: Array, W: Array) -> float:
        """Return the value of the term."""


@dataclass(frozen=True)
class RegressionResult:
    """Result of `discrete_regression`."""

    P: Array  # (m + 1, r)
    W: Array
    B: Array  # (n, r)
    objective: list[float]  # after each round


def discrete_regression(
    phi: Array,
    B: Array,
    term: LabelTerm,
    *,
    fit_weight: float,
    ridge: float,
    max_iter: int,
    tol: float,
) -> RegressionResult:
    """Minimise term(B, W) + ν (‖B - φP‖² + ρ ‖P‖²) over signs B, weights W and P in turns.

    ν is `fit_weight`, ρ is `ridge`. It stops when φP equals the codes, or P no longer changes,
    within the relative tolerance `tol`.
    """
    regress = RidgeSolver(phi, ridge)
    W, P = term.weights(B), regress(B)
    H = phi @ P
    objective = []
    for _ in range(max_iter):
        B = term.codes(B, W, fit_weight * H)
        P_before = P
        W, P = term.weights(B), regress(B)
        H = phi @ P
        misfit = float(np.linalg.norm(B - H))
        fit = misfit**2 + ridge * float(np.vdot(P, P))
        objective.append(term.loss(B, W) + fit_weight * fit)
        if misfit < tol * np.linalg.norm(B):
            break
        if np.linalg.norm(P - P_before) < tol * np.linalg.norm(P):
            break
    return RegressionResult(P, W, B, objective)


class BaseRegressionHasher(BaseKernelHasher):
    """A method that learns its codes with `discrete_regression`.

    Subclasses implement `_term(y)`, the label term, and `_start(y, rng)`, the first codes.
    """

    _rules: ClassVar[Rules] = {
        **BaseKernelHasher._rules,
        "fit_weight": Range(0),
        "label_ridge": Range(0, above=True),
        "tol": Range(0),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 1000,
        sigma: float = 0.4,
        unit_rows: bool = True,
        fit_weight: float = 1e-5,
        label_ridge: float = 1.0,
        ridge: float = 1e-2,
        max_iter: int = 5,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.sigma = sigma
        self.unit_rows = unit_rows
        self.fit_weight = fit_weight
        self.label_ridge = label_ridge
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @abstractmethod
    def _term(self, y: Ids) -> LabelTerm:
        """Return the term of the objective that depends on the labels."""

    @abstractmethod
    def _start(self, y: Ids, rng: np.random.RandomState) -> Array:
        """Return the first codes, as floats."""

    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        result = discrete_regression(
            phi,
            self._start(y, rng),
            self._term(y),
            fit_weight=self.fit_weight,
            ridge=self.ridge,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        self.objective_ = np.array(result.objective)
        self.n_iter_ = len(result.objective)
        return result.P
