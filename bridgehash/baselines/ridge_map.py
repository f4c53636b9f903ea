"""A ridge regression between two spaces, then ITQ."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from .._core.linalg import Array, RidgeSolver
from .._core.validation import Flag, Range, Rules
from ..codes import MAX_BITS
from ..models.base import About
from ._pair_map import BasePairedMap


class RidgeMap(BasePairedMap):
    """Rows of the target regressed on their partners in the source, then coded by its ITQ.

    min ‖X_t M - X_s‖² + ridge ‖M‖² over the pairs. The plain thing to do when an embedding model
    is replaced; a method of engineers rather than of a paper, so all choices are ours.

    Parameters
    ----------
    n_bits : int, default=64
    ridge : float, default=0.1
        For rows of unit norm: about what leave-one-out validation chose at 20 to 50 pairs of
        image embeddings; more pairs bear less shrinkage of classes and prefer 1.
    max_iter : int, default=50
        Rounds of ITQ.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first rotation of ITQ.
    """

    about: ClassVar = About("paired", "ridge regression between spaces, then ITQ", ("pairs",))
    _rules: ClassVar[Rules] = {
        "n_bits": Range(1, MAX_BITS, Integral),
        "ridge": Range(0, above=True),
        "max_iter": Range(0, kind=Integral),
        "unit_rows": Flag(),
    }

    def __init__(
        self,
        n_bits: int = 64,
        ridge: float = 0.1,
        max_iter: int = 50,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.max_iter = max_iter
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _map_between(self, X: Array, Y: Array) -> Array:
        return RidgeSolver(X, self.ridge)(Y)
