"""A ridge regression between two spaces, then ITQ."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.linalg import Array, RidgeSolver
from .._core.validation import Range, Rules
from ..models.base import About
from ._pair_map import BaseMappedITQ


class RidgeMap(BaseMappedITQ):
    """Target rows mapped into the source space by a ridge regression on pairs, then ITQ.

    min ‖X_t M - X_s‖² + ridge ‖M‖² over the pairs. This is common practice when an embedding model
    is replaced, not a published method: all choices are ours.

    Parameters
    ----------
    n_bits : int, default=64
    ridge : float, default=0.1
        For rows of unit norm. Leave-one-out validation chose about this value at 20 to 50 pairs of
        image embeddings. With more pairs, use 1.
    max_iter : int, default=50
        Rounds of ITQ.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first rotation of ITQ.
    """

    about: ClassVar = About("paired", "ridge regression between spaces, then ITQ", ("pairs",))
    _rules: ClassVar[Rules] = {**BaseMappedITQ._rules, "ridge": Range(0, above=True)}

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

    def _learn_map(self, X: Array, Y: Array) -> Array:
        return RidgeSolver(X, self.ridge)(Y)
