"""Methods for one feature space, applied to two domains of different widths.

As in the paper, the domain with more features is first projected on its principal components: as
many as the other domain has features.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from .._core.errors import InputError
from .._core.linalg import Array, mean_square
from .._core.validation import UNKNOWN
from ..models.base import About, BaseHasher, BaseTwoDomainHasher
from ..models.contents import Contents, Part
from ..models.encoder import LinearEncoder
from ..models.feature_maps import PrincipalMap, unit_row_map
from ..models.training import TrainingData


class BaseSharedHasher(BaseTwoDomainHasher):
    """A method that learns one hash function for both domains; the wider one is reduced first.

    Subclasses implement `_learn_shared(data)`.
    """

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        width = min(data.X_source.shape[1], data.X_target.shape[1])
        dtype = np.result_type(data.X_source, data.X_target)
        maps_s, Z_s = _reduce(data.X_source.astype(dtype, copy=False), width)
        maps_t, Z_t = _reduce(data.X_target.astype(dtype, copy=False), width)
        source = self._learn_shared(replace(data, X_source=Z_s, X_target=Z_t))
        target = clone(source)
        source.maps, target.maps = [*maps_s, *source.maps], [*maps_t, *target.maps]
        return source, target

    @abstractmethod
    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        """Return the encoder for domains of equal width."""


@dataclass(frozen=True)
class StackedDomains:
    """Rows of both domains in one matrix, source first, centred by their common mean."""

    X: Array
    n_source: int
    mean: Array
    scale: float
    maps: Sequence[Any]

    @classmethod
    def build(
        cls, X_source: Array, X_target: Array, *, unit_rows: bool = False, scaled: bool = False
    ) -> StackedDomains:
        """Stack the rows.

        With `unit_rows` each row is first divided by its norm. With `scaled` all rows are last
        divided by their root-mean-square norm.
        """
        maps, X = unit_row_map(np.vstack([X_source, X_target]), unit_rows)
        Z, mean, scale = standardised(X)
        if unit_rows and scale <= 100 * np.finfo(X.dtype).eps:
            raise InputError("all rows have the same direction; use unit_rows=False", "unit_rows")
        if not scaled:
            Z, scale = np.subtract(X, mean, out=Z), 1.0
        return cls(Z, len(X_source), mean, scale, maps)

    @property
    def domains(self) -> tuple[Array, Array]:
        """The rows of the source and of the target."""
        return self.X[: self.n_source], self.X[self.n_source :]

    def encoder(self, projection: Array) -> LinearEncoder:
        """Return the encoder of raw rows for a projection of the stacked ones."""
        return LinearEncoder(projection, self.mean, self.scale, self.maps)


def standardised(X: Array) -> tuple[Array, Array, float]:
    """Return rows of mean zero and root-mean-square norm one, with that mean and that norm.

    >>> standardised(np.array([[1.0], [5.0]]))
    (array([[-1.],
           [ 1.]]), array([3.]), 2.0)
    """
    mean = X.mean(axis=0)
    X = X - mean
    scale = mean_square(X) ** 0.5 or 1.0
    X *= 1.0 / scale
    return X, mean, scale


def _reduce(X: Array, width: int) -> tuple[list[PrincipalMap], Array]:
    """Return the rows of a domain in `width` columns, and the map if one was needed."""
    if X.shape[1] == width:
        return [], X
    reduction = PrincipalMap(width).fit(X)
    return [reduction], reduction.transform(X)


class Shared(BaseSharedHasher):
    """A one-domain method for two domains: one hash function, learned on the rows of both.

    A method that learns from labels uses the labelled rows only, of one domain or of both.

    Parameters
    ----------
    hasher : BaseHasher
        The method, for example `ITQ(n_bits=64)`.

    Examples
    --------
    >>> from bridgehash.baselines import ITQ
    >>> rng = np.random.default_rng(0)
    >>> shared = Shared(ITQ(n_bits=4, random_state=0))
    >>> shared.fit(rng.normal(size=(20, 6)), rng.normal(size=(30, 5)))
    Shared(hasher=ITQ(n_bits=4, random_state=0))
    >>> shared.encode(rng.normal(size=(2, 6)), domain="source").shape
    (2, 1)
    """

    _contents: ClassVar[Contents] = BaseSharedHasher._contents | {
        "hasher": Part("BaseHasher"),
        "hasher_": Part("BaseHasher"),
    }

    def __init__(self, hasher: BaseHasher) -> None:
        self.hasher = hasher

    def _check_loaded(self) -> None:
        super()._check_loaded()
        found = {encoder.n_bits for encoder in self.encoders_.values()}
        if {self.hasher_.n_bits, self.hasher.n_bits} != found:
            raise ValueError("the codes of hasher, hasher_ and encoders_ differ in length")

    @property
    def about(self) -> About:  # type: ignore[override]
        """Facts about the method inside."""
        return self.hasher.about

    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        y = None
        if data.y_source is not None or data.y_target is not None:
            domains = ((data.X_source, data.y_source), (data.X_target, data.y_target))
            y = np.concatenate([np.full(len(X), UNKNOWN) if y is None else y for X, y in domains])
        if get_tags(self.hasher).target_tags.required:
            name = type(self.hasher).__name__
            if y is None:
                raise InputError(f"missing; {name} needs labels of at least one domain", "y_source")
            if len(np.unique(y[y != UNKNOWN])) < 2:
                problem = f"fewer than two classes, y_target included; {name} needs at least two"
                raise InputError(problem, "y_source")
        self.hasher_ = clone(self.hasher).fit(np.vstack([data.X_source, data.X_target]), y)
        return clone(self.hasher_.encoder_)
