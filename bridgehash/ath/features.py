"""The rows of a domain as the solver sees them: mapped, centred, scaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._core.arrays import array_namespace, column_means, like, take_rows
from .._core.errors import InputError
from .._core.linalg import Array, in_memory, mean_square, principal, row_space
from ..models.encoder import LinearEncoder
from ..models.feature_maps import RowsAndKernel, UnitRows
from ..models.training import Domains, Ids
from ..streaming.blocks import Blocks
from ..streaming.operator import BlockRows
from .class_codes import class_weights
from .presets import part


@dataclass(frozen=True)
class Features:
    """One domain as the solver sees it: centred rows, by default of root-mean-square norm one."""

    X: Any  # (n, m) centred and scaled φ(x): an array, or a BlockRows
    Z: Any  # (n, min(n, m)) the same rows in the space they span
    back: Callable[[Array], Array]  # from a projection of Z to one of X
    mean: Array
    scale: float
    maps: Sequence[Any]

    @classmethod
    def standardised(
        cls, X: Array, mean: Array, maps: Sequence[Any], name: str, unit_scale: bool = True
    ) -> Features:
        """Centre mapped rows by `mean` and, if wanted, scale them."""
        if maps:  # a new array, made by the maps
            X -= mean
        else:
            X = X - mean
        scale = mean_square(X) ** 0.5
        if not np.isfinite(scale):
            raise InputError("values too large to be squared; scale them down", name)
        xp = array_namespace(X)
        if scale <= 100 * float(xp.finfo(X.dtype).eps) * float(xp.max(xp.abs(mean))):
            raise InputError("all rows are equal; nothing can be learned from them", name)
        if unit_scale:
            X *= 1.0 / scale
        else:
            scale = 1.0
        return cls(X, *row_space(X), mean, scale, maps)

    def reduced(self, numbers: NDArray[np.intp], n_directions: int) -> Features:
        """Return some rows on their leading directions: enough to compare solutions."""
        Z = take_rows(self.Z, numbers) if in_memory(self.Z) else self.Z.take(numbers)
        if Z.shape[1] > n_directions:
            P = principal(Z, n_directions)
            Z = Z @ array_namespace(P).astype(P, Z.dtype, copy=False)
        return replace(self, X=Z, Z=Z)

    def inside(self, A: Array) -> Array:
        """Return a projection of the rows of X as one of the rows of Z."""
        if self.Z is self.X:
            return A
        return self.back(like(np.eye(self.Z.shape[1]), A, A.dtype)).T @ A

    def encoder(self, A: Array, shift: Array | None = None) -> LinearEncoder:
        """Return the hash function over raw rows, from a projection of the rows of Z.

        `shift` is added to the projections.
        """
        projection, mean, maps, intercept = self.back(A), self.mean, self.maps, shift
        if maps and isinstance(maps[-1], RowsAndKernel):
            intercept = -(mean @ projection) / self.scale + (0.0 if shift is None else shift)
            mean = array_namespace(mean).zeros_like(mean)
            last, projection = maps[-1].folded(projection)
            maps = [*maps[:-1], last]
        if isinstance(projection, np.ndarray):
            projection = np.ascontiguousarray(projection)
        return LinearEncoder(projection, mean, self.scale, maps, intercept)


def same_space(ath: Any, data: Domains, i: int = 0, j: int = 1) -> bool:
    """Whether the columns of two domains mean the same."""
    d_s, d_t = data.X[i].shape[1], data.X[j].shape[1]
    possible = d_s == d_t and ath.feature_map is None
    automatic = possible and data.alike(i, j)
    wanted = {"auto": automatic, "same": True, "separate": False}[ath.feature_space]
    if not wanted:
        for parameter, value in (("center", "joint"), ("source_encoder", "target")):
            if getattr(ath, parameter) == value:
                raise InputError(
                    f"{value!r} needs one feature space without a feature map", parameter
                )
    if wanted and not possible:
        raise InputError(
            f"'same', but the domains have {d_s} and {d_t} features and feature_map is "
            f"{ath.feature_map!r}",
            "feature_space",
        )
    return wanted


def has_joint_mean(ath: Any, data: Domains) -> bool:
    """Whether all domains are centred by one mean."""
    if any(B is not None for B in data.codes):
        return False
    same = all(same_space(ath, data, 0, k) for k in range(1, len(data.X)))
    return same and ath.center in ("joint", "auto")


def features_of(
    ath: Any, data: Domains, which: Sequence[int], rng: np.random.RandomState
) -> dict[int, Features]:
    """Map, centre and scale some of the domains, in one floating type."""
    joint = has_joint_mean(ath, data)
    rows = [data.X[k] for k in which]
    names = [f"X_{data.names[k]}" for k in which]
    if isinstance(rows[0], Blocks):
        return _in_blocks(ath, data, which, names, joint=joint)
    xp = array_namespace(*rows)
    dtype = xp.result_type(*rows)
    mapped = [_mapped(ath, xp.astype(X, dtype, copy=False), rng) for X in rows]
    means = [centre_of(ath, data, k, Z) for k, (_, Z) in zip(which, mapped, strict=True)]
    if joint:
        sizes = [Z.shape[0] for _, Z in mapped]
        total = sum(n * mean for n, mean in zip(sizes, means, strict=True))
        means = [total / sum(sizes)] * len(means)
    return {
        k: Features.standardised(Z, mean, maps, name, ath.unit_scale)
        for k, (maps, Z), mean, name in zip(which, mapped, means, names, strict=True)
    }


def centre_of(ath: Any, data: Domains, k: int, Z: Array) -> Array:
    """Return the centre of rows or projections of a domain: of all, of its classes, or of pairs."""
    if ath.center == "classes":
        return class_mean(Z, data.y[k], data.names[k])
    if ath.center != "pairs":
        return column_means(Z)
    if data.pairs is None:
        raise InputError("missing; center='pairs' needs it", "pairs")
    rows = data.pairs[:, k]
    return column_means(take_rows(Z, rows[rows >= 0]))


def class_mean(Z: Any, y: Ids | None, name: str) -> Array:
    """Return the mean of the class means; rows without a label do not count."""
    if y is None or not (y >= 0).any():
        raise InputError(f"missing; center='classes' needs labels of the {name}", f"y_{name}")
    weights = class_weights(y)[:, None] / np.count_nonzero(y >= 0)
    if not isinstance(Z, BlockRows):
        weights = like(weights, Z, Z.dtype)
    return (Z.T @ weights)[:, 0]


def _in_blocks(
    ath: Any, data: Domains, which: Sequence[int], names: Sequence[str], *, joint: bool
) -> dict[int, Features]:
    """The same for rows that are read in blocks."""
    domains = [data.X[k] for k in which]
    dtype = np.result_type(*(blocks.dtype for blocks in domains))
    rows = [
        BlockRows.standardised(blocks.astype(dtype), ath.unit_rows, name=name)
        for blocks, name in zip(domains, names, strict=True)
    ]
    if joint:
        moments = rows[0].moments
        for X in rows[1:]:
            moments = moments | X.moments
        rows = [X.recentred(moments.mean) for X in rows]
    if ath.center == "classes":
        rows = [
            X.recentred(X.mean + X.scale * class_mean(X, data.y[k], data.names[k]))
            for X, k in zip(rows, which, strict=True)
        ]
    if not ath.unit_scale:
        rows = [X.unscaled() for X in rows]
    features = {}
    for k, X in zip(which, rows, strict=True):
        maps = [UnitRows().fit(X.take([0]))] if ath.unit_rows else []
        features[k] = Features(X, X, lambda A: A, X.mean, X.scale, maps)
    return features


def _mapped(ath: Any, X: Array, rng: np.random.RandomState) -> tuple[list[Any], Array]:
    """Fit the feature maps of a domain; return them and the mapped rows."""
    maps: list[Any] = [UnitRows()] if ath.unit_rows else []
    if ath.feature_map is not None:
        maps.append(clone(part(ath, "feature_map")))
    for feature_map in maps:
        if getattr(feature_map, "random_state", 0) is None:
            feature_map.set_params(random_state=int(rng.randint(2**31 - 1)))
        X = feature_map.fit_transform(X)
    return maps, X
