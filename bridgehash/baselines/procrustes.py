"""An orthogonal map between two spaces, then ITQ."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from .._core.linalg import Array, procrustes
from .._core.validation import Flag, Range, Rules
from ..codes import MAX_BITS
from ..models.base import About
from ._pair_map import BasePairedMap


class Procrustes(BasePairedMap):
    """Rows of the target turned onto their partners in the source, then coded by its ITQ.

    min ‖X_t Q - X_s‖² over the pairs, Q with orthonormal columns, or rows where the target is the
    narrower: the best rotation, with nothing to tune. For spaces of different widths this is no
    longer the exact minimiser but the maximiser of tr(QᵀX_tᵀX_s), our choice; so is to drop
    directions in which the pairs do not differ.

    Parameters
    ----------
    n_bits : int, default=64
    max_iter : int, default=50
        Rounds of ITQ.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first rotation of ITQ.
    """

    about: ClassVar = About("paired", "Schönemann, Psychometrika 31(1), 1966, then ITQ", ("pairs",))
    _rules: ClassVar[Rules] = {
        "n_bits": Range(1, MAX_BITS, Integral),
        "max_iter": Range(0, kind=Integral),
        "unit_rows": Flag(),
    }

    def __init__(
        self,
        n_bits: int = 64,
        max_iter: int = 50,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.max_iter = max_iter
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _map_between(self, X: Array, Y: Array) -> Array:
        return procrustes(X.T @ Y, within_rank=True)
