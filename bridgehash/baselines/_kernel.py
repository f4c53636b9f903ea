"""Hash functions of similarities to anchors: the common parts of KSH, SDH, FSDH and SCDH.

SDH, FSDH and SCDH learn codes B of labelled rows. A ridge regression P of the codes on [φ(x), 1]
encodes new rows; φ(x) are the similarities of a row to the anchors.
"""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array
from .._core.validation import Flag, Range, Rules
from ..models.base import N_BITS, BaseLabelHasher
from ..models.encoder import LinearEncoder
from ..models.feature_maps import AnchorKernel, outward, unit_row_map
from ..models.training import Ids
from ..neighbors.graphs import FactoredGraph

_TILE = 1024  # rows mapped at a time


class BaseKernelHasher(BaseLabelHasher):
    """A method whose hash function is sign([φ(x), 1] P).

    Subclasses implement `_learn_projection(phi, y, rng)`, which returns P.
    """

    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
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
        maps, X = unit_row_map(X, self.unit_rows)
        order = outward(X)  # draws per row then do not depend on the order of the samples
        X, y = X[order], y[order]
        P = self._learn_projection(with_constant(kernel.fit(X), X), y, rng).astype(X.dtype)
        return LinearEncoder(
            P[:-1], np.zeros(len(P) - 1, X.dtype), maps=[*maps, kernel], intercept=P[-1]
        )

    @abstractmethod
    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        """Return P of shape (m + 1, n_bits) for rows [φ(x), 1] of classes y."""


def with_constant(kernel: AnchorKernel, X: Array) -> Array:
    """Return [φ(x), 1] of each row, computed in tiles to save memory.

    The result is float64 for any X: the small ridges of these methods would be lost in float32.
    """
    phi = np.ones((len(X), len(kernel.anchors_) + 1))
    for rows in gen_batches(len(X), _TILE):
        phi[rows, :-1] = kernel.transform(X[rows])
    return phi


def label_contrast(graph: FactoredGraph, H: Array) -> Array:
    """Return S H with S = 2 W - 11ᵀ for a label graph W: +1 inside a class, -1 across classes.

    >>> from bridgehash.neighbors.graphs import label_graph
    >>> y = np.array([0, 0, 1])
    >>> label_contrast(label_graph(y, y), np.eye(3))
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    SH = 2.0 * (graph @ H)
    SH -= H.sum(axis=0)
    return SH
