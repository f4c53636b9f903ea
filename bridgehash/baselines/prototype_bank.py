"""Prototype-bank hashing: one binary prototype per class, pseudo-labels for the target."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, RidgeSolver, unit_rows
from .._core.validation import Flag, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.contents import Contents, Values
from ..models.encoder import LinearEncoder
from ..models.feature_maps import outward
from ..models.training import Ids, TrainingData
from ._classes import class_codes, class_means, target_clusters
from .shared import BaseSharedHasher, StackedDomains


class PrototypeBank(BaseSharedHasher):
    """Both domains regressed on a bank of binary class prototypes, alternating with pseudo-labels.

    Each round clusters the target from the class means of the source. The prototype of a class is
    the sign of its mean projection, with equal weight for both domains. Then it fits
    min Σ w ‖xᵀP - c_y‖² + ridge ‖P‖², with w = 1 for the source and the margin between the two
    largest cosines for the target.

    The method is ours. It has a memory bank and pseudo-labels by clustering, as the abstract of
    DHLing (Xia et al., ACM MM 2021) describes. It is not DHLing, whose code and text are not
    public: do not quote its scores as those of DHLing.

    Parameters
    ----------
    n_bits : int, default=64
    ridge : float, default=1
    max_iter : int, default=10
        Number of rounds.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first bank.

    Attributes
    ----------
    bank_ : array of shape (c, n_bits)
        The prototypes, ±1.
    """

    about: ClassVar = About(
        "semi-supervised", "a stand-in of our own for memory-bank methods", ("y_source",)
    )
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "ridge": Range(0, above=True),
        "max_iter": Range(1, kind=Integral),
        "unit_rows": Flag(),
    }
    _contents: ClassVar[Contents] = BaseSharedHasher._contents | {"bank_": Values("c r", "i")}

    def __init__(
        self,
        n_bits: int = 64,
        ridge: float = 1.0,
        max_iter: int = 10,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.max_iter = max_iter
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        X_s, y_s = data.labelled_source("PrototypeBank")
        rows = StackedDomains.build(X_s, data.X_target, unit_rows=self.unit_rows)
        H, n = rows.X, rows.n_source
        c = int(y_s.max()) + 1
        bank = np.empty((c, self.n_bits), np.int8)
        bank[outward(class_means(H[:n], y_s, c))] = class_codes(c, self.n_bits, rng)
        for i in range(self.max_iter):
            y_t, weight = predict_classes(H[:n], y_s, H[n:])
            if i > 0:
                bank = bank_step(H[:n], y_s, H[n:], y_t)
            P = regression_step(rows.X, np.append(y_s, y_t), bank, weight, self.ridge)
            H = rows.X @ P
        self.bank_ = bank
        self.n_iter_ = self.max_iter
        return rows.encoder(P)


def predict_classes(H_s: Array, y_s: Ids, H_t: Array) -> tuple[Ids, Array]:
    """Return the class of each target row by clusters, and its weight: the margin of cosines."""
    Z_s, Z_t = unit_rows(H_s), unit_rows(H_t)
    means = unit_rows(class_means(Z_s, y_s, int(y_s.max()) + 1))
    cosines = Z_t @ unit_rows(target_clusters(Z_t, means)).T
    second, best = np.partition(cosines, -2, axis=1)[:, -2:].T
    return cosines.argmax(axis=1), best - second


def bank_step(H_s: Array, y_s: Ids, H_t: Array, y_t: Ids) -> NDArray[np.int8]:
    """Return the signs of the mean projections per class; both domains have equal weight."""
    c = int(y_s.max()) + 1
    return signs(class_means(H_s, y_s, c) + class_means(H_t, y_t, c))


def regression_step(X: Array, y: Ids, bank: NDArray[np.int8], weight: Array, ridge: float) -> Array:
    """Regress the prototypes on the rows; `weight` is of the last rows, the others have one."""
    root = np.ones(len(X), dtype=X.dtype)
    root[len(X) - len(weight) :] = np.sqrt(weight)
    return RidgeSolver(root[:, None] * X, ridge)(root[:, None] * bank[y])
