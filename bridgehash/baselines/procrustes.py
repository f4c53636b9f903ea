"""An orthogonal map between two spaces, then ITQ."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.linalg import Array, procrustes
from ..models.base import About
from ._pair_map import BaseMappedITQ


class Procrustes(BaseMappedITQ):
    """Target rows rotated onto their partners in the source, then ITQ.

    min ‖X_t Q - X_s‖² over the pairs. Q has orthonormal columns, or orthonormal rows if the target
    has fewer features. There is nothing to tune. Two choices are ours. For spaces of different
    widths Q maximises tr(QᵀX_tᵀX_s), which is then not the exact minimiser. Directions in which the
    pairs do not differ are dropped.

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

    def _learn_map(self, X: Array, Y: Array) -> Array:
        return procrustes(X.T @ Y, within_rank=True)
