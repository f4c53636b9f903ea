"""One fit of ATH: from checked data to two encoders, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._progress import progress
from .._xp import array_namespace, column_means, empty_on
from ..base import TrainingData
from ..blocks import Blocks
from ..encoder import LinearEncoder
from ..feature_maps import UnitRows
from ..linalg import Array, is_held
from ..pairing import Carried
from ..rows import BlockRows
from .bipartite import rule_for
from .features import Features
from .parts import BIPARTITES, CARRIES, COMPLETIONS, FEATURE_MAPS, GRAPHS, STARTS, resolve
from .solver import Solution, solve
from .starts import LabelStart, PCAStart, Scene
from .steps import Domain


@dataclass(frozen=True)
class Learned:
    """Two hash functions, and how they were found."""

    source: LinearEncoder
    target: LinearEncoder
    solution: Solution
    agreement: float | None


class Learning:
    """The steps of a fit with the settings of an `ATH`."""

    def __init__(self, ath: Any, rng: np.random.RandomState) -> None:
        self.ath, self.rng = ath, rng

    def learn(self, data: TrainingData) -> Learned:
        """All steps; the encoders are where the data was."""
        home, data = data.X_source, self._moved(data)
        data = self._completed(data)
        carried = self._carried(data)
        data = data if carried is None else carried.data
        source, target = self._features(data)
        solution, agreement = self._solved(source, target, data)
        target_encoder = target.encoder(solution.A_t)
        own = self.ath.source_encoder == "own"
        encoders = (source.encoder(solution.A_s) if own else target_encoder, target_encoder)
        if carried is not None:
            encoders = carried.encoders(*encoders)
        if is_held(home):
            encoders = encoders[0].like(home), encoders[1].like(home)
        return Learned(*encoders, solution, agreement)

    def _moved(self, data: TrainingData) -> TrainingData:
        """The data where it is worked on."""
        if self.ath.carry is not None:
            return data.like(np.empty(0))  # what a carry does is small: the host does it
        if self.ath.device is None or not isinstance(data.X_source, np.ndarray):
            return data
        return data.like(empty_on(self.ath.device))

    def _completed(self, data: TrainingData) -> TrainingData:
        """The data with classes found for rows that have none, where that is asked for."""
        if self.ath.completion is None:
            return data
        completion = resolve(self.ath.completion, COMPLETIONS)
        comparable = self.ath.feature_space != "separate"
        same = comparable and data.X_source.shape[1] == data.X_target.shape[1]
        host = data.like(np.empty(0))
        completed: TrainingData = completion.complete(host, same_space=same, rng=self.rng)
        return completed.like(data.X_source)

    def _carried(self, data: TrainingData) -> Carried | None:
        """Both domains in the space of the source, where that is asked for."""
        if self.ath.carry is None:
            return None
        if self.ath.feature_map is not None:
            raise ValueError("carry makes one feature space of two; set feature_map=None")
        carry = resolve(self.ath.carry, CARRIES)
        carried: Carried = carry.carry(data, unit_rows=self.ath.unit_rows, rng=self.rng)
        return carried

    def _features(self, data: TrainingData) -> tuple[Features, Features]:
        """Both domains mapped, centred and on scale, in one floating type."""
        X_s, X_t = data.X_source, data.X_target
        if isinstance(X_s, Blocks):
            return self._features_in_blocks(X_s, X_t)
        xp = array_namespace(X_s, X_t)
        dtype = xp.result_type(X_s, X_t)
        maps_s, Z_s = self._mapped(xp.astype(X_s, dtype, copy=False))
        maps_t, Z_t = self._mapped(xp.astype(X_t, dtype, copy=False))
        means = [column_means(Z_s), column_means(Z_t)]
        self._same_space(X_s.shape[1], X_t.shape[1])
        if self.ath.center == "joint":
            n_s, n_t = Z_s.shape[0], Z_t.shape[0]
            joint = (n_s * means[0] + n_t * means[1]) / (n_s + n_t)
            means = [joint, joint]
        return (
            Features.of(Z_s, means[0], maps_s, "X_source"),
            Features.of(Z_t, means[1], maps_t, "X_target"),
        )

    def _features_in_blocks(self, *domains: Blocks) -> tuple[Features, Features]:
        """The same without ever holding a domain."""
        ath = self.ath
        self._same_space(domains[0].shape[1], domains[1].shape[1])
        dtype = np.result_type(*(blocks.dtype for blocks in domains))
        rows = [
            BlockRows.standardised(blocks.astype(dtype), ath.unit_rows, name=name)
            for blocks, name in zip(domains, ("X_source", "X_target"), strict=True)
        ]
        if ath.center == "joint":
            joint = (rows[0].moments | rows[1].moments).mean
            rows = [X.recentred(joint) for X in rows]
        return Features.of_blocks(rows[0], ath.unit_rows), Features.of_blocks(
            rows[1], ath.unit_rows
        )

    def _mapped(self, X: Array) -> tuple[list[Any], Array]:
        """The maps of a domain, fitted, and its rows behind them."""
        maps: list[Any] = [UnitRows()] if self.ath.unit_rows and self.ath.carry is None else []
        if self.ath.feature_map is not None:
            maps.append(clone(resolve(self.ath.feature_map, FEATURE_MAPS)))
        for feature_map in maps:
            if getattr(feature_map, "random_state", 0) is None:
                feature_map.set_params(random_state=int(self.rng.randint(2**31 - 1)))
            X = feature_map.fit_transform(X)
        return maps, X

    def _same_space(self, d_s: int, d_t: int) -> bool:
        """Do the columns of both domains mean the same?"""
        possible = d_s == d_t and self.ath.feature_map is None
        wanted = {"auto": possible, "same": True, "separate": False}[self.ath.feature_space]
        wanted = wanted or self.ath.carry is not None
        if not wanted and (self.ath.center == "joint" or self.ath.source_encoder == "target"):
            choice = "center='joint'" if self.ath.center == "joint" else "source_encoder='target'"
            raise ValueError(f"{choice} needs one feature space without a feature map")
        if wanted and not possible:
            raise ValueError(
                f"feature_space='same', but the domains have {d_s} and {d_t} features "
                f"and feature_map is {self.ath.feature_map!r}"
            )
        return wanted

    def _solved(
        self, source: Features, target: Features, data: TrainingData
    ) -> tuple[Solution, float | None]:
        """Graphs, start, Algorithm 1; how far searches for the start agree."""
        ath = self.ath
        y_s, y_t = data.y_source, data.y_target
        domains = (
            self._domain("source", source, y_s, ath.alpha_source, ath.beta_source),
            self._domain("target", target, y_t, ath.alpha_target, ath.beta_target),
        )
        rule = rule_for(resolve(ath.bipartite, BIPARTITES), data)
        same = self._same_space(source.n_features_in, target.n_features_in)
        X_s, X_t = (source.X, target.X) if same else (source.Z, target.Z)
        raw = (data.X_source, data.X_target)
        scene = Scene(X_s, X_t, y_s, y_t, same, ath.n_bits, ath.ridge, self.rng, raw)
        start = resolve(ath.start, STARTS).begin(scene).scaled(ath.start_scale)
        if ath.ridge_towards == "start":
            A_s, A_t = start.projections()
            domains = (
                replace(domains[0], held=source.inside(A_s)),
                replace(domains[1], held=target.inside(A_t)),
            )
        with progress("ATH", ath.max_iter, visible=ath.verbose) as advance:
            solution = solve(
                *domains,
                rule,
                start,
                lam=ath.lam,
                ridge=ath.ridge,
                max_iter=ath.max_iter,
                tol=ath.tol,
                on_iteration=lambda terms: advance(f"objective {terms.total:.6g}"),
            )
        return solution, start.agreement

    def _domain(
        self, name: str, features: Features, y: NDArray[np.intp] | None, alpha: float, beta: float
    ) -> Domain:
        graph = resolve(getattr(self.ath, f"{name}_graph"), GRAPHS)
        if getattr(graph, "needs_labels", False):
            if y is None:
                raise ValueError(f"{name}_graph='labels' needs y_{name}")
            if y.max() == y.min() or len(np.unique(y[y >= 0])) < 2:
                raise ValueError(f"y_{name} holds a single class; labels tell at least two apart")
        lower = features.Z is not features.X
        return Domain(features.Z, graph.build(features.Z, y), alpha, beta, lower=lower)


def check_in_blocks(ath: Any) -> None:
    """Refuse settings whose parts need all rows in memory."""
    parts = [
        name for name in ("feature_map", "completion", "carry", "device") if getattr(ath, name)
    ]
    if not isinstance(resolve(ath.start, STARTS), PCAStart | LabelStart):
        parts.append("start")
    if parts:
        named = ", ".join(f"{name}={getattr(ath, name)!r}" for name in parts)
        raise ValueError(
            f"rows that are read in blocks do not go with {named}; give a larger memory_limit, or "
            "none, or leave these at their defaults"
        )
