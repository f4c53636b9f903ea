"""What the solver sees of a domain: mapped, centred, on a stated scale, in as few dimensions as
its rows span; and the way back to an encoder for raw rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..encoder import LinearEncoder
from ..linalg import Array, row_space


@dataclass(frozen=True)
class Features:
    """One domain, ready for the solver: rows of mean zero and root-mean-square norm one."""

    X: Array  # (n, m) centred and scaled φ(x)
    Z: Array  # (n, min(n, m)) the same rows in the space that they span
    back: Callable[[Array], Array]  # from a projection of Z to that of X
    mean: Array
    scale: float
    maps: Sequence[Any]

    @classmethod
    def of(cls, X: Array, mean: Array, maps: Sequence[Any], name: str) -> Features:
        """Centre mapped rows by `mean` and bring them to scale."""
        X = X - mean
        scale = float(np.sqrt(np.vdot(X, X) / len(X)))
        if not np.isfinite(scale):
            raise ValueError(f"{name} holds values too large to be squared; scale it down")
        if scale <= 100 * np.finfo(X.dtype).eps * float(np.abs(mean).max(initial=0.0)):
            raise ValueError(f"all rows of {name} are equal; there is nothing to tell apart")
        X *= 1.0 / scale
        return cls(X, *row_space(X), mean, scale, maps)

    @property
    def n_features_in(self) -> int:
        """Width of the raw rows."""
        return int(self.maps[0].n_features_in_ if self.maps else self.X.shape[1])

    def inside(self, A: Array) -> Array:
        """A projection of the rows of X as one of the rows of Z."""
        if self.Z is self.X:
            return A
        return self.back(np.eye(self.Z.shape[1], dtype=A.dtype)).T @ A

    def encoder(self, A: Array) -> LinearEncoder:
        """The hash function over raw rows, from a projection of the rows of Z."""
        projection = np.ascontiguousarray(self.back(A))
        return LinearEncoder(projection, self.mean, self.scale, self.maps)
