"""Hash functions over similarities to anchors: what SDH, FSDH and SCDH have in common.

Each of them finds codes B for labelled rows, and a ridge regression P of the codes on
[φ(x), 1], φ the similarities of a row to anchors, carries them to new rows. SDH and
FSDH share the alternation as well and differ in what they ask of codes and labels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, RidgeSolver
from .._core.validation import Flag, Range, Rules
from ..codes import MAX_BITS
from ..models.base import BaseLabelHasher, Ids
from ..models.encoder import LinearEncoder
from ..models.feature_maps import AnchorKernel, UnitRows, outward

_TILE = 1024  # rows mapped at a time


class BaseKernelHasher(BaseLabelHasher):
    """A method whose hash function is sign([φ(x), 1] P).

    A subclass says in `_learn_projection(phi, y, rng)` what P is.
    """

    _rules: ClassVar[Rules] = {
        "n_bits": Range(1, MAX_BITS, Integral),
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
        maps: list[Any] = [UnitRows().fit(X), kernel] if self.unit_rows else [kernel]
        for earlier in maps[:-1]:
            X = earlier.transform(X)
        order = outward(X)  # so that what is drawn row by row is blind to the order of the samples
        X, y = X[order], y[order]
        P = self._learn_projection(with_constant(kernel.fit(X), X), y, rng).astype(X.dtype)
        return LinearEncoder(P[:-1], np.zeros(len(P) - 1, X.dtype), maps=maps, intercept=P[-1])

    @abstractmethod
    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        """P, of shape (m + 1, n_bits), for rows [φ(x), 1] of classes y."""


def with_constant(kernel: AnchorKernel, X: Array) -> Array:
    """[φ(x), 1] of each row, filled in tiles: nothing of this size is held twice.

    In float64 whatever X is: a ridge as small as these methods take is lost in float32.
    """
    phi = np.ones((len(X), len(kernel.anchors_) + 1))
    for rows in gen_batches(len(X), _TILE):
        phi[rows, :-1] = kernel.transform(X[rows])
    return phi


class LabelTerm(Protocol):
    """What a method asks of codes B and labels, by way of weights W."""

    def weights(self, B: Array) -> Array:
        """The best W for given codes."""

    def codes(self, B: Array, W: Array, pull: Array) -> Array:
        """Codes at least as good as B: minimise the loss - 2 tr(Bᵀ pull) for given W."""

    def loss(self, B: Array, W: Array) -> float:
        """The value of the term."""


@dataclass(frozen=True)
class Codes:
    """What the alternation leaves: the regression, the weights, the codes, the way there."""

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
) -> Codes:
    """min term(B, W) + ν (‖B - φP‖² + ρ ‖P‖²) over signs B, weights W and P, in turns.

    ν is `fit_weight`, ρ is `ridge`. It ends when φP meets the codes, or P stays, to `tol`.
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
    return Codes(P, W, B, objective)


class BaseRegressionHasher(BaseKernelHasher):
    """A method that finds its codes by `discrete_regression`.

    A subclass says in `_term(y)` what it asks of codes and labels, in `_start(y, rng)` which
    codes it starts from.
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
        """The part of the objective that knows the labels."""

    @abstractmethod
    def _start(self, y: Ids, rng: np.random.RandomState) -> Array:
        """The codes to start from, as floats."""

    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        found = discrete_regression(
            phi,
            self._start(y, rng),
            self._term(y),
            fit_weight=self.fit_weight,
            ridge=self.ridge,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        return found.P
