"""FSDH, fast supervised discrete hashing (Gui, Liu, Sun, Tao & Tan, TPAMI 40(2), 2018)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.linalg import Array
from ..codes import signs
from ..models.base import About
from ..models.training import Ids
from ._classes import class_codes
from .sdh import SDH, ClassifierTerm


class FSDH(SDH):
    """SDH with codes regressed on labels instead of labels on codes: all bits in one step.

    min ‖B - YW‖² + λ‖W‖² + ν (‖B - φP‖² + ρ‖P‖²) over signs B, weights W and P, so that
    B = sign(YW + νφP) in one step. Objective and steps follow the paper; the constants follow a
    public port (single-modal-supervised-hashing-baseline-for-image-retrieval). In the port every
    row starts at random signs, and for so small a ν their majority within a class stays the code
    of the class. Here the codes of the classes are drawn directly, and far apart, which is ours.

    Not the method of the same name in arXiv 1611.10017. Rows without a label are not used.

    Parameters
    ----------
    n_bits, n_anchors, sigma, unit_rows, fit_weight, label_ridge, ridge, max_iter, tol
        As for `SDH`.
    random_state : int, RandomState or None
        Draws the anchors and the codes of the classes.

    Attributes
    ----------
    objective_, n_iter_
        As for `SDH`.
    """

    about: ClassVar = About(
        "supervised", "Gui, Liu, Sun, Tao & Tan, TPAMI 40(2):490-496, 2018", ("y",)
    )

    def _term(self, y: Ids) -> ClassCodeTerm:
        return ClassCodeTerm(y, self.label_ridge)

    def _start(self, y: Ids, rng: np.random.RandomState) -> Array:
        # Number the classes by their first row: the draw does not depend on their names.
        _, first = np.unique(y, return_index=True)
        number = np.argsort(np.argsort(first))
        return class_codes(len(first), self.n_bits, rng)[number[y]]


class ClassCodeTerm(ClassifierTerm):
    """‖B - YW‖² + λ‖W‖²: codes regressed on one-hot labels, one shrunken mean per class."""

    def __init__(self, y: Ids, ridge: float) -> None:
        super().__init__(y, ridge)
        self._sizes = np.bincount(y)

    def weights(self, B: Array) -> Array:
        """Return (YᵀY + λI)⁻¹ YᵀB, of shape (c, r)."""
        W: Array = (self._Y_T @ B) / (self._sizes + self._ridge)[:, None]
        return W

    def codes(self, B: Array, W: Array, pull: Array) -> Array:
        """Return the best codes for given W and pull; B sets only the type."""
        return signs(W[self._y] + pull).astype(B.dtype)

    def loss(self, B: Array, W: Array) -> float:
        """Return the value of the term."""
        error = B - W[self._y]
        return float(np.vdot(error, error) + self._ridge * np.vdot(W, W))
