"""Methods that know one feature space only, brought to two: the wider domain is reduced first.

As the paper does for the methods it compares with, a domain of more features is projected on its
own principal components, as many as the other domain has features.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from .._core.linalg import Array, standardised
from .._core.validation import UNKNOWN
from ..models.base import About, BaseHasher, BaseTransferHasher, Ids, TrainingData
from ..models.encoder import LinearEncoder
from ..models.feature_maps import PrincipalMap, UnitRows


class CommonSpaceHasher(BaseTransferHasher):
    """A two-domain method for one feature space, made fit for two of different widths.

    A subclass says in `_learn_in_common(data)` what it finds in domains of one width.
    """

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        width = min(data.X_source.shape[1], data.X_target.shape[1])
        dtype = np.result_type(data.X_source, data.X_target)
        map_s, Z_s = _reduced(data.X_source.astype(dtype, copy=False), width)
        map_t, Z_t = _reduced(data.X_target.astype(dtype, copy=False), width)
        source, target = self._learn_in_common(replace(data, X_source=Z_s, X_target=Z_t))
        return _behind(map_s, source), _behind(map_t, target)

    @abstractmethod
    def _learn_in_common(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        """The encoders for domains of one width; may be one and the same."""


@dataclass(frozen=True)
class Stacked:
    """Rows of both domains in one matrix, centred by their common mean."""

    X: Array
    n_source: int
    mean: Array
    scale: float
    maps: Sequence[Any]

    @classmethod
    def of(
        cls, X_source: Array, X_target: Array, *, unit_rows: bool = False, scaled: bool = False
    ) -> Stacked:
        """Source above target: divided by their norms first, by a common scale last, if wanted."""
        X = np.vstack([X_source, X_target])
        maps = [UnitRows().fit(X)] if unit_rows else []
        if unit_rows:
            X = maps[0].transform(X)
        Z, mean, scale = standardised(X)
        if unit_rows and scale <= 100 * np.finfo(X.dtype).eps:
            raise ValueError("rows of unit norm are all equal; give unit_rows=False")
        if not scaled:
            Z, scale = np.subtract(X, mean, out=Z), 1.0
        return cls(Z, len(X_source), mean, scale, maps)

    @property
    def domains(self) -> tuple[Array, Array]:
        """The rows of the source and of the target."""
        return self.X[: self.n_source], self.X[self.n_source :]

    def encoder(self, projection: Array) -> LinearEncoder:
        """The hash function over raw rows, from a projection of the centred ones."""
        return LinearEncoder(projection, self.mean, self.scale, self.maps)


def _reduced(X: Array, width: int) -> tuple[list[PrincipalMap], Array]:
    """The reduction of a domain, where it needs one, and its rows behind it."""
    if X.shape[1] == width:
        return [], X
    reduction = PrincipalMap(width).fit(X)
    return [reduction], reduction.transform(X)


def _behind(maps: list[PrincipalMap], encoder: LinearEncoder) -> LinearEncoder:
    encoder = clone(encoder)
    encoder.maps = [*maps, *encoder.maps]
    return encoder


class Shared(CommonSpaceHasher):
    """A one-domain method lifted to two: one hash function, learned on both domains together.

    A method that learns from labels sees the labelled rows alone, of one domain or of both.

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

    def __init__(self, hasher: BaseHasher) -> None:
        self.hasher = hasher

    @property
    def about(self) -> About:  # type: ignore[override]
        """Facts about the method inside."""
        return self.hasher.about

    def _learn_in_common(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        y = _joint_labels(data)
        if get_tags(self.hasher).target_tags.required:
            self._check_classes(y)
        rows = np.vstack([data.X_source, data.X_target])
        self.hasher_ = clone(self.hasher).fit(rows, y)
        return self.hasher_.encoder_, self.hasher_.encoder_

    def _check_classes(self, y: Ids | None) -> None:
        name = type(self.hasher).__name__
        if y is None:
            raise ValueError(f"{name} learns from labels: give y_source")
        if len(np.unique(y[y != UNKNOWN])) < 2:
            raise ValueError(
                f"y_source and y_target hold fewer than two classes between them; {name} learns "
                "to tell classes apart"
            )


def _joint_labels(data: TrainingData) -> Ids | None:
    """Labels of the stacked rows, unknown where a domain has none; None without any."""
    if data.y_source is None and data.y_target is None:
        return None
    return np.concatenate(
        [
            np.full(len(X), UNKNOWN) if y is None else y
            for X, y in ((data.X_source, data.y_source), (data.X_target, data.y_target))
        ]
    )
