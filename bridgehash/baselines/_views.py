"""Paired rows of two domains: the common parts of CCA-ITQ, CMFH, SCRATCH and FSH.

In cross-modal retrieval every training item is known in both feature spaces: an image and its text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, as_double, row_space
from ..codes import n_bytes, pack
from ..models.base import BaseTwoDomainHasher
from ..models.contents import Contents, Values
from ..models.encoder import LinearEncoder
from ..models.feature_maps import BaseFeatureMap, UnitRows, outward
from ..models.training import Ids, TrainingData

Views = tuple[Array, Array]  # centred rows of the pairs in the source and in the target


@dataclass(frozen=True)
class View:
    """Rows of one domain after its feature maps, centred, in float64."""

    X: Array
    mean: Array  # in the dtype of the rows
    maps: Sequence[BaseFeatureMap]

    @classmethod
    def build(cls, X: Array, maps: Sequence[BaseFeatureMap]) -> View:
        """Fit the maps one after the other, and apply them."""
        dtype = X.dtype
        for feature_map in maps:
            X = feature_map.fit_transform(X)
        X = as_double(X)
        mean = X.mean(axis=0)
        return cls(X - mean, mean.astype(dtype), maps)

    def encoder(self, projection: Array) -> LinearEncoder:
        """Return the encoder of raw rows for a projection of these rows."""
        return LinearEncoder(projection.astype(self.mean.dtype), self.mean, maps=self.maps)


def unit_maps(wanted: bool) -> list[BaseFeatureMap]:
    """Return the feature maps for `unit_rows=wanted`, not yet fitted."""
    return [UnitRows()] if wanted else []


def whitened(X: Array, ridge: float) -> tuple[Array, Callable[[Array], Array]]:
    """Return Z = X W with Wᵀ(XᵀX + ρI)W = I, and the function that maps A to W A.

    Z A are then the projections of X on W A. Rows fewer than features are first written in the
    space that they span.
    """
    X, back = row_space(X)
    C = X.T @ X
    C.flat[:: len(C) + 1] += ridge
    L = cholesky(C, lower=True, overwrite_a=True, check_finite=False)

    def unwhitened(A: Array) -> Array:
        return back(solve_triangular(L, A, lower=True, trans="T", check_finite=False))

    return solve_triangular(L, X.T, lower=True, check_finite=False).T, unwhitened


def squared_norm(A: Array) -> float:
    """Return the sum of the squared entries."""
    return float(np.vdot(A, A))


class Learned(NamedTuple):
    """What a method learns from pairs of centred rows."""

    P_source: Array  # projections of the source
    P_target: Array
    B: Array  # one code per pair, positive or not
    objective: list[float]  # after each round


class BasePairedHasher(BaseTwoDomainHasher):
    """A method that learns a code for each pair; rows without a partner are not used.

    Subclasses implement `_learn_codes(X, Y, y, rng)`.
    """

    _contents: ClassVar[Contents] = BaseTwoDomainHasher._contents | {"codes_": Values("p b", "u")}
    n_bits: int
    unit_rows: bool
    random_state: int | np.random.RandomState | None
    codes_: NDArray[np.uint8]

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        rows = data.paired_rows(type(self).__name__)
        rng = check_random_state(self.random_state)
        # Draws per row then depend neither on the order of the samples nor on that of the pairs.
        order = outward(np.hstack(rows))
        source, target = (View.build(X[order], self._feature_maps(rng)) for X in rows)
        y = None
        if data.y_source is not None and data.pairs is not None:
            y = data.y_source[data.pairs[order, 0]]
        learned = self._learn_codes(source.X, target.X, y, rng)
        self.objective_ = np.array(learned.objective)
        self.n_iter_ = len(learned.objective)
        self.codes_ = np.empty((len(order), n_bytes(self.n_bits)), np.uint8)
        self.codes_[order] = pack(learned.B)
        return source.encoder(learned.P_source), target.encoder(learned.P_target)

    def _feature_maps(self, rng: np.random.RandomState) -> list[BaseFeatureMap]:
        """Return the maps of one domain, not yet fitted."""
        return unit_maps(self.unit_rows)

    @abstractmethod
    def _learn_codes(
        self, X: Array, Y: Array, y: Ids | None, rng: np.random.RandomState
    ) -> Learned:
        """Learn from centred rows of source and target; y are the classes of the source rows."""

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.codes_.shape[1] != n_bytes(self.n_bits):
            raise ValueError(f"codes_ has {self.codes_.shape[1]} bytes per row, unlike n_bits")
