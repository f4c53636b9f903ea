"""One fit of ATH, from validated data to two encoders.

`learn` is the whole story: complete labels or pairs, standardise features, begin, build graphs, run
Algorithm 1, return encoders. Each step is one function below, in this order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state

from .._core.arrays import array_namespace, column_means, empty_on, like, take_rows
from .._core.errors import InputError
from .._core.linalg import (
    Array,
    in_memory,
    mean_square,
    principal,
    product,
    row_space,
    rows_by_norm,
)
from .._core.progress import progress
from .._core.validation import Flag, Rules, Size
from ..models.base import TrainingData, check_rows
from ..models.encoder import LinearEncoder
from ..models.feature_maps import RowsAndKernel, UnitRows
from ..neighbors.graphs import neighbors_for
from ..streaming.blocks import BLOCK_BYTES, CACHE_BYTES, Blocks, as_blocks
from ..streaming.mappers import cluster_mapper, use_mapper
from ..streaming.operator import BlockRows
from .class_codes import Codes, class_weights
from .presets import NAMED_PARTS, preset
from .ridge import chosen_ridge
from .selection import FIRST_LAM, WEAK_LAM, CycleConsistency, best_lam
from .solver import Solution, solve
from .starts import LabelStart, PCAStart, Start, StartContext
from .steps import Domain, Objective

_FIRST_RIDGE = 0.1  # of a start that needs one before ridge="auto" is decided


@dataclass(frozen=True)
class RuntimeOptions:
    """How a fit runs; not saved with the model."""

    device: str | None = None
    memory_limit: int | str | None = None
    verbose: bool = False

    _rules: ClassVar[Rules] = {"memory_limit": Size(), "verbose": Flag()}


@dataclass(frozen=True)
class FitResult:
    """Two hash functions, and the record of the fit."""

    encoders: tuple[LinearEncoder, LinearEncoder]  # of source and target
    solution: Solution
    agreement: float | None
    objective: NDArray[np.void]  # one record per iteration


def part(ath: Any, parameter: str) -> Any:
    """Return the object behind a parameter that may be a name."""
    choice = getattr(ath, parameter)
    return NAMED_PARTS[parameter][choice] if isinstance(choice, str) else choice


def open_domains(
    ath: Any, X_source: Any, X_target: Any, options: RuntimeOptions
) -> tuple[Any, Any]:
    """Return both domains as arrays, or in blocks if a memory limit or a cluster requires it."""
    if options.memory_limit is None and cluster_mapper.get() is None:
        return check_rows(X_source, X_target)
    source, target = as_blocks(X_source, name="X_source"), as_blocks(X_target, name="X_target")
    sizes: tuple[int, int] | None = BLOCK_BYTES, CACHE_BYTES
    if options.memory_limit is not None:
        sizes = plan_memory(options.memory_limit, (source, target), ath.n_bits)
    if sizes is None:
        return check_rows(source, target)
    check_in_blocks(ath, options.device)
    block, cache = sizes[0], sizes[1] // 2
    return source.in_blocks_of(block, cache), target.in_blocks_of(block, cache)


def learn(ath: Any, data: TrainingData, options: RuntimeOptions) -> FitResult:
    """Fit an `ATH` to validated data; the encoders are on the device of the data."""
    rng = check_random_state(ath.random_state)
    home = data.X_source
    reference = None if options.device is None else empty_on(options.device)
    if reference is not None and isinstance(home, np.ndarray):
        data = data.like(reference)
    data = _completed(ath, data, rng)
    source, target = _features(ath, data, rng)
    start = _start(ath, source, target, data, rng)
    problem = (ath, source, target, data, start, rng)
    lam = _chosen_lam(*problem) if ath.lam == "auto" else ath.lam
    solution = _problem(*problem, options.verbose)(lam)
    target_encoder = target.encoder(solution.A_t)
    of_target = ath.source_encoder == "target" or (
        ath.source_encoder == "auto" and _same_space(ath, data)
    )
    encoders = (target_encoder if of_target else source.encoder(solution.A_s), target_encoder)
    if not isinstance(home, Blocks):
        encoders = encoders[0].like(home), encoders[1].like(home)
    if ath.tol > 0 and not solution.converged:
        warnings.warn(
            f"not converged: the objective still changed by more than tol={ath.tol:g} after "
            f"max_iter={ath.max_iter} iterations; increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    fields = [(name, np.float64) for name in ("total", *Objective._fields)]
    record = np.array([(terms.total, *terms) for terms in solution.history], dtype=fields)
    return FitResult(encoders, solution, start.agreement, record)


def _completed(ath: Any, data: TrainingData, rng: np.random.RandomState) -> TrainingData:
    """Estimate labels or partners of rows that have none, if `completion` is set."""
    if ath.completion is None:
        return data
    comparable = ath.feature_space != "separate"
    same = comparable and data.X_source.shape[1] == data.X_target.shape[1]
    host = data.like(np.empty(0))
    completed: TrainingData = part(ath, "completion").complete(
        host, same_space=same, rng=rng, bridge=lambda: _bridged(ath, host, rng)
    )
    for y, domain in ((completed.y_source, "source"), (completed.y_target, "target")):
        if y is not None and len(np.unique(y[y >= 0])) < 2:
            raise InputError(
                f"label propagation found a single class among the {domain} rows; label more rows, "
                "of at least two classes"
            )
    return completed.like(data.X_source)


_BRIDGE_BITS = 64


def _bridged(ath: Any, data: TrainingData, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Return the rows of both domains in a space where a fit has joined them.

    The fit learns from labels if one domain has labels of all rows.
    """
    complete = [y is not None and bool((y >= 0).all()) for y in (data.y_source, data.y_target)]
    swapped = complete[1] and not complete[0]
    if swapped:
        data = TrainingData(data.X_target, data.X_source, data.y_target)
    parameters = {"random_state": rng, "unit_rows": ath.unit_rows}
    chosen = preset("semi_supervised" if any(complete) else "unsupervised", parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = learn(type(ath)(_BRIDGE_BITS, **chosen), data, RuntimeOptions())
    domains = zip(fitted.encoders, (data.X_source, data.X_target), strict=True)
    first, second = (np.tanh(encoder.decision_function(X)) for encoder, X in domains)
    return (second, first) if swapped else (first, second)


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

    def encoder(self, A: Array) -> LinearEncoder:
        """Return the hash function over raw rows, from a projection of the rows of Z."""
        projection, mean, maps, intercept = self.back(A), self.mean, self.maps, None
        if maps and isinstance(maps[-1], RowsAndKernel):
            intercept = -(mean @ projection) / self.scale
            mean = array_namespace(mean).zeros_like(mean)
            last, projection = maps[-1].folded(projection)
            maps = [*maps[:-1], last]
        if isinstance(projection, np.ndarray):
            projection = np.ascontiguousarray(projection)
        return LinearEncoder(projection, mean, self.scale, maps, intercept)


def _features(
    ath: Any, data: TrainingData, rng: np.random.RandomState
) -> tuple[Features, Features]:
    """Map, centre and scale both domains, in one floating type."""
    X_s, X_t = data.X_source, data.X_target
    joint = _joint_mean(ath, data)
    if isinstance(X_s, Blocks):
        return _features_in_blocks(ath, data, joint=joint)
    xp = array_namespace(X_s, X_t)
    dtype = xp.result_type(X_s, X_t)
    maps_s, Z_s = _mapped(ath, xp.astype(X_s, dtype, copy=False), rng)
    maps_t, Z_t = _mapped(ath, xp.astype(X_t, dtype, copy=False), rng)
    if ath.center == "classes":
        labels = (data.y_source, "source"), (data.y_target, "target")
        means = [_class_mean(Z, *known) for Z, known in zip((Z_s, Z_t), labels, strict=True)]
    elif ath.center == "pairs":
        if data.pairs is None:
            raise InputError("missing; center='pairs' needs it", "pairs")
        means = [
            column_means(take_rows(Z_s, data.pairs[:, 0])),
            column_means(take_rows(Z_t, data.pairs[:, 1])),
        ]
    else:
        means = [column_means(Z_s), column_means(Z_t)]
    if joint:
        n_s, n_t = Z_s.shape[0], Z_t.shape[0]
        means = [(n_s * means[0] + n_t * means[1]) / (n_s + n_t)] * 2
    return (
        Features.standardised(Z_s, means[0], maps_s, "X_source", ath.unit_scale),
        Features.standardised(Z_t, means[1], maps_t, "X_target", ath.unit_scale),
    )


def _class_mean(Z: Any, y: NDArray[np.intp] | None, name: str) -> Array:
    """Return the mean of the class means; rows without a label do not count."""
    if y is None or not (y >= 0).any():
        raise InputError(f"missing; center='classes' needs labels of the {name}", f"y_{name}")
    weights = class_weights(y)[:, None] / np.count_nonzero(y >= 0)
    if not isinstance(Z, BlockRows):
        weights = like(weights, Z, Z.dtype)
    return (Z.T @ weights)[:, 0]


def _features_in_blocks(ath: Any, data: TrainingData, *, joint: bool) -> tuple[Features, Features]:
    """The same for rows that are read in blocks."""
    domains = data.X_source, data.X_target
    dtype = np.result_type(*(blocks.dtype for blocks in domains))
    rows = [
        BlockRows.standardised(blocks.astype(dtype), ath.unit_rows, name=name)
        for blocks, name in zip(domains, ("X_source", "X_target"), strict=True)
    ]
    if joint:
        mean = (rows[0].moments | rows[1].moments).mean
        rows = [X.recentred(mean) for X in rows]
    if ath.center == "classes":
        labels = (data.y_source, "source"), (data.y_target, "target")
        rows = [
            X.recentred(X.mean + X.scale * _class_mean(X, *known))
            for X, known in zip(rows, labels, strict=True)
        ]
    if not ath.unit_scale:
        rows = [X.unscaled() for X in rows]
    features = []
    for X in rows:
        maps = [UnitRows().fit(X.take([0]))] if ath.unit_rows else []
        features.append(Features(X, X, lambda A: A, X.mean, X.scale, maps))
    return features[0], features[1]


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


def _same_space(ath: Any, data: TrainingData) -> bool:
    """Whether the columns of both domains mean the same."""
    d_s, d_t = data.X_source.shape[1], data.X_target.shape[1]
    possible = d_s == d_t and ath.feature_map is None
    wanted = {"auto": possible, "same": True, "separate": False}[ath.feature_space]
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


def _joint_mean(ath: Any, data: TrainingData) -> bool:
    return _same_space(ath, data) and ath.center in ("joint", "auto")


def _start(
    ath: Any, source: Features, target: Features, data: TrainingData, rng: np.random.RandomState
) -> Start:
    """Return the first projections, at their stated scale."""
    same = _same_space(ath, data)
    X_s, X_t = (source.X, target.X) if same else (source.Z, target.Z)
    labels, raw = (data.y_source, data.y_target), (data.X_source, data.X_target)
    joint = _joint_mean(ath, data)
    ridge = _FIRST_RIDGE if ath.ridge == "auto" else ath.ridge
    context = StartContext(X_s, X_t, *labels, same, ath.n_bits, ridge, rng, raw, joint, data.pairs)
    start: Start = part(ath, "start").begin(context).scaled(ath.start_scale)
    if same and start.A_s is not None and start.A_t is not None:
        return replace(start, A_s=source.inside(start.A_s), A_t=target.inside(start.A_t))
    return start


# λ is chosen on a smaller problem, which has nearly the same best value.
_FEW_ROWS, _SHARE, _MANY_ROWS = 1000, 0.05, 2000  # per domain
_SOME_DIRECTIONS = 256


def _chosen_lam(
    ath: Any,
    source: Features,
    target: Features,
    data: TrainingData,
    start: Start,
    rng: np.random.RandomState,
) -> float:
    """Choose λ by cycle consistency, or return a fixed value where that means nothing.

    With two feature spaces and no first graph, a bridge is as consistent as it is arbitrary, so it
    stays weak.
    """
    if not _same_space(ath, data) and start.W is None:
        return WEAK_LAM
    graphs = [part(ath, name) for name in ("source_graph", "target_graph", "bipartite")]
    given = not all(getattr(graph, "for_any_rows", False) for graph in graphs)
    if given or ath.ridge_towards is not None:
        return FIRST_LAM
    rows_s, rows_t = (
        rows_by_norm(domain.Z, int(np.clip(_SHARE * domain.Z.shape[0], _FEW_ROWS, _MANY_ROWS)))
        for domain in (source, target)
    )
    labels = (data.y_source, rows_s), (data.y_target, rows_t)
    for graph, (y, rows) in zip(graphs, labels, strict=False):
        if y is None or not getattr(graph, "needs_labels", False):
            continue
        if len(set(y[rows].tolist()) - {-1}) < 2:  # the few labels are outside the sample
            return FIRST_LAM
    source, target = (
        source.reduced(rows_s, _SOME_DIRECTIONS),
        target.reduced(rows_t, _SOME_DIRECTIONS),
    )
    data = replace(
        data,
        X_source=source.Z,
        X_target=target.Z,
        y_source=None if data.y_source is None else data.y_source[rows_s],
        y_target=None if data.y_target is None else data.y_target[rows_t],
    )
    H_s, H_t = take_rows(start.H_s, rows_s), take_rows(start.H_t, rows_t)
    with use_mapper(None):  # too small to be worth a cluster
        run = _problem(ath, source, target, data, Start(H_s, H_t), rng)
        consistency = CycleConsistency(source.Z, target.Z)

        def score(lam: float) -> float:
            solution = run(lam)
            return consistency(product(source.Z, solution.A_s), product(target.Z, solution.A_t))

        return best_lam(score)


def _problem(
    ath: Any,
    source: Features,
    target: Features,
    data: TrainingData,
    start: Start,
    rng: np.random.RandomState,
    verbose: bool = False,
) -> Callable[[float], Solution]:
    """Build the graphs; return Algorithm 1 as a function of λ."""
    codes = part(ath, "codes").begin(data, ath.n_bits, (ath.alpha_source, ath.alpha_target), rng)
    domains = (
        _domain(ath, "source", source, data.y_source, codes.weights[0]),
        _domain(ath, "target", target, data.y_target, codes.weights[1]),
    )
    rule = part(ath, "bipartite").rule(data)
    if ath.ridge_towards == "start":
        A_s, A_t = start.projections()
        domains = replace(domains[0], held=A_s), replace(domains[1], held=A_t)
    ridge = _automatic_ridge(codes, domains, start, rng) if ath.ridge == "auto" else ath.ridge
    names = ("ridge_target", "step_order", "max_iter", "tol")
    settings: dict[str, Any] = {"ridge": ridge} | {name: getattr(ath, name) for name in names}

    def run(lam: float) -> Solution:
        bar: AbstractContextManager[Callable[[str], None]] = nullcontext(lambda note: None)
        if verbose:
            bar = progress(f"ATH, λ = {lam:g}", ath.max_iter, visible=True)
        with bar as advance:

            def show(terms: Objective) -> None:
                advance(f"objective {terms.total:.6g}")

            return solve(*domains, rule, codes, start, lam=lam, **settings, on_iteration=show)

    return run


def _automatic_ridge(
    codes: Codes, domains: tuple[Domain, Domain], start: Start, rng: np.random.RandomState
) -> float:
    if codes.weights[0] is None:
        raise InputError("'auto' needs codes='classes'; give a number", "ridge")
    return chosen_ridge(*domains, codes.first(start.H_s, start.H_t), rng)


def _domain(
    ath: Any, name: str, features: Features, y: NDArray[np.intp] | None, row_weights: Array | None
) -> Domain:
    graph = part(ath, f"{name}_graph")
    if getattr(graph, "needs_labels", False):
        if y is None:
            raise InputError(f"missing; {name}_graph='labels' needs it", f"y_{name}")
        if len(np.unique(y[y >= 0])) < 2:
            raise InputError("fewer than two classes; at least two are needed", f"y_{name}")
    weights = getattr(ath, f"alpha_{name}"), getattr(ath, f"beta_{name}")
    lower = features.Z is not features.X
    built = graph.build(features.Z, y)
    return Domain(features.Z, built, *weights, lower=lower, weights=row_weights)


# Memory. Projections, codes and graphs are always held; they grow with rows and bits. The rows are
# held if there is room, and read in blocks otherwise. Counted is what a fit uses beyond its inputs;
# docs/howto/scale.md has the measurements behind the constants.
_STATE = 7  # arrays of rows x bits at one time: H, B, W H and temporaries
_EDGES = 5  # 8-byte numbers per row and neighbour in the graphs
_SEARCHED = 7.5  # the same while a k-NN graph is built
_SEARCH = 64 << 20  # bytes used by a search itself
_LIBRARIES = 100 << 20  # bytes of libraries loaded during a fit
_WORK = 6  # blocks held at one time while one is processed
_LEAST_BLOCK = 1 << 20


def plan_memory(
    limit: int | str, domains: tuple[Blocks, Blocks], n_bits: int
) -> tuple[int, int] | None:
    """Return the bytes of a block and of the cache that stay below the limit; None: all rows fit.

    Raises `InputError` if the limit is too small for any block.
    """
    n, width = sum(len(X) for X in domains), max(X.shape[1] for X in domains)
    item = max(X.dtype.itemsize for X in domains)
    rows = max(len(X) * X.shape[1] * item for X in domains)  # held while a graph is searched
    neighbours = n * neighbors_for(max(len(X) for X in domains))
    searching = int(neighbours * _SEARCHED) * 8 + rows
    solving = n * n_bits * item * _STATE + neighbours * _EDGES * 8
    always = max(searching, solving) + 4 * width**2 * 8 + _SEARCH + _LIBRARIES
    room = Size.n_bytes(limit) - always
    if room > 2 * sum(len(X) * X.shape[1] * item for X in domains):
        return None
    block = min(BLOCK_BYTES, room // (2 * _WORK))
    if block < _LEAST_BLOCK:
        least = always + 2 * _WORK * _LEAST_BLOCK
        raise InputError(
            f"{limit!r} is too small for {n:,} rows and {n_bits} bits; about "
            f"{least / 2**30:.1f} GiB are needed beyond the inputs",
            "memory_limit",
        )
    return block, room - _WORK * block


def check_in_blocks(ath: Any, device: str | None = None) -> None:
    """Refuse settings that need all rows in memory."""
    given = {
        name: getattr(ath, name)
        for name in ("feature_map", "completion")
        if getattr(ath, name) is not None
    }
    if device is not None:
        given["device"] = device
    if ath.center == "pairs":
        given["center"] = ath.center
    if not isinstance(part(ath, "start"), PCAStart | LabelStart):
        given["start"] = ath.start
    if given:
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise InputError(
            f"rows cannot be read in blocks with {shown}; increase memory_limit or drop it, or "
            "leave these parameters at their defaults"
        )
