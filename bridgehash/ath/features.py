"""What the solver sees of a domain: mapped, centred, on a stated scale, in as few dimensions as
its rows span; and the way back to an encoder for raw rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._xp import array_namespace, is_foreign, like
from ..encoder import LinearEncoder
from ..feature_maps import UnitRows
from ..linalg import Array, mean_square, row_space
from ..rows import BlockRows


@dataclass(frozen=True)
class Features:
    """One domain, ready for the solver: rows of mean zero and root-mean-square norm one."""

    X: Any  # (n, m) centred and scaled φ(x): an array, or a BlockRows
    Z: Any  # (n, min(n, m)) the same rows in the space that they span
    back: Callable[[Array], Array]  # from a projection of Z to that of X
    mean: Array
    scale: float
    maps: Sequence[Any]

    @classmethod
    def of(cls, X: Array, mean: Array, maps: Sequence[Any], name: str) -> Features:
        """Centre mapped rows by `mean` and bring them to scale."""
        if maps:  # these rows are nobody else's
            X -= mean
        else:
            X = X - mean
        scale = mean_square(X) ** 0.5
        if not np.isfinite(scale):
            raise ValueError(f"{name} holds values too large to be squared; scale it down")
        xp = array_namespace(X)
        if scale <= 100 * float(xp.finfo(X.dtype).eps) * float(xp.max(xp.abs(mean))):
            raise ValueError(f"all rows of {name} are equal; there is nothing to tell apart")
        X *= 1.0 / scale
        return cls(X, *row_space(X), mean, scale, maps)

    @classmethod
    def of_blocks(cls, X: BlockRows, unit_rows: bool) -> Features:
        """Rows that are read in blocks, which are standardised already."""
        maps = [UnitRows().fit(X.take([0]))] if unit_rows else []
        return cls(X, X, lambda A: A, X.mean, X.scale, maps)

    @property
    def n_features_in(self) -> int:
        """Width of the raw rows."""
        return int(self.maps[0].n_features_in_ if self.maps else self.X.shape[1])

    def inside(self, A: Array) -> Array:
        """A projection of the rows of X as one of the rows of Z."""
        if self.Z is self.X:
            return A
        return self.back(like(np.eye(self.Z.shape[1]), A, A.dtype)).T @ A

    def encoder(self, A: Array) -> LinearEncoder:
        """The hash function over raw rows, from a projection of the rows of Z."""
        projection = self.back(A)
        if not is_foreign(projection):
            projection = np.ascontiguousarray(projection)
        return LinearEncoder(projection, self.mean, self.scale, self.maps)
