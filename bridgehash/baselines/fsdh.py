"""FSDH, fast supervised discrete hashing (Gui, Liu, Sun, Tao & Tan, TPAMI 40(2), 2018)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.linalg import Array
from ..codes import signs
from ..models.base import About, Ids
from ..neighbors.graphs import one_hot
from ._class_codes import class_words
from ._kernel import BaseRegressionHasher


class FSDH(BaseRegressionHasher):
    """SDH with the regression turned round, from labels to codes: no bit waits for another.

    min ‖B - YW‖² + λ‖W‖² + ν (‖B - φP‖² + ρ‖P‖²) over signs B, weights W and P, so that
    B = sign(YW + νφP) in one step. Objective and steps are the paper's; the constants are those of
    a public port (single-modal-supervised-hashing-baseline-for-image-retrieval), in which
    every row starts at random signs. Their majority within each class is the code of the class for
    good when ν is as small as here. So the words of the classes are drawn at once, and far apart,
    which is ours (see `bridgehash.baselines._class_codes`).

    Not the method of the same name in arXiv 1611.10017. Labelled rows alone are seen.

    Parameters
    ----------
    n_bits, n_anchors, sigma, unit_rows, fit_weight, label_ridge, ridge, max_iter, tol
        As for `SDH`.
    random_state : int, RandomState or None
        Draws the anchors and the words of the classes.

    Attributes
    ----------
    objective_ : array of shape (n_iter_,)
        After each round.
    n_iter_ : int
    """

    about: ClassVar = About(
        "supervised", "Gui, Liu, Sun, Tao & Tan, TPAMI 40(2):490-496, 2018", ("y",)
    )

    def _term(self, y: Ids) -> CodewordTerm:
        return CodewordTerm(y, self.label_ridge)

    def _start(self, y: Ids, rng: np.random.RandomState) -> Array:
        # Classes by their first row: the names of the classes play no part in the draw.
        classes, first = np.unique(y, return_index=True)
        place = np.empty(len(classes), dtype=np.intp)
        place[np.argsort(first)] = np.arange(len(classes))
        return class_words(len(classes), self.n_bits, rng)[place[y]]


class CodewordTerm:
    """‖B - YW‖² + λ‖W‖², the regression of codes on one-hot labels: a shrunken mean a class."""

    def __init__(self, y: Ids, ridge: float) -> None:
        self._y, self._ridge = y, ridge
        self._Y_T = one_hot(y, int(y.max()) + 1).T.tocsr()
        self._sizes = np.bincount(y)

    def weights(self, B: Array) -> Array:
        """(YᵀY + λI)⁻¹ YᵀB, of shape (c, r)."""
        W: Array = (self._Y_T @ B) / (self._sizes + self._ridge)[:, None]
        return W

    def codes(self, B: Array, W: Array, pull: Array) -> Array:
        """The best for given W and pull, whatever B was."""
        return signs(W[self._y] + pull).astype(B.dtype)

    def loss(self, B: Array, W: Array) -> float:
        """The value of the term."""
        error = B - W[self._y]
        return float(np.vdot(error, error) + self._ridge * np.vdot(W, W))
