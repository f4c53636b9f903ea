"""One fit of ATH, from validated data to the encoders of all domains.

`learn` is the whole story: complete labels or pairs, standardise features, begin, run Algorithm 1,
return encoders. The first domain is the hub, unless another one is named: the others are completed
and begin relative to it. A frozen domain takes its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state

from .._core.arrays import array_namespace, empty_on, like
from .._core.errors import InputError
from .._core.linalg import Array, in_memory
from .._core.progress import requested
from .._core.validation import Flag, Rules, Size
from ..models.encoder import LinearEncoder
from ..models.rejector import Rejector
from ..models.training import TWO, Domains, Inputs, TrainingData, check_rows
from ..streaming.blocks import BLOCK_BYTES, CACHE_BYTES, Blocks, as_blocks
from ..streaming.mappers import cluster_mapper
from .abstaining import Comparison, compared
from .class_codes import signs
from .features import features_of, same_space
from .frozen import Frozen, FrozenInput
from .memory import check_in_blocks, plan_memory
from .presets import BOTH_WAYS, part, preset
from .private import rejectors
from .problem import Problem, begun, chosen_lam, comparable
from .propagation import Projecting
from .solver import Solution
from .steps import Objective


@dataclass(frozen=True)
class RuntimeOptions:
    """How a fit runs; not saved with the model."""

    device: str | None = None
    memory_limit: int | str | None = None
    verbose: bool = False

    _rules: ClassVar[Rules] = {"memory_limit": Size(), "verbose": Flag()}


@dataclass(frozen=True)
class FitResult:
    """The hash functions, and the record of the fit."""

    encoders: list[LinearEncoder | None]  # by domain; None for given codes
    codes: list[Array]  # of the training rows; their signs count
    solution: Solution
    agreement: float | None
    objective: NDArray[np.void]  # one record per iteration
    completed: Domains  # with the labels and pairs that were estimated
    compared: tuple[Comparison, ...] | None  # of two domains, if rows may abstain

    @property
    def tested(self) -> list[str]:
        """Names of the domains in memory for which rejectors can be learned."""
        names, found = self.completed.names, self.compared or ()
        abstaining = [k for k, each in enumerate(found) if each.limit is not None]
        known = {*self.completed.private, *abstaining}
        return [names[k] for k in sorted(known) if in_memory(self.completed.X[k])]

    def rejectors(self, rows: Mapping[str, Any]) -> dict[str, Rejector]:
        """Learn what tells rows without a counterpart.

        Parameters
        ----------
        rows : mapping from names of tested domains to arrays of shape (n, d)
            What a rejector sees of the training rows: their features, or their codes.
        """
        learned = rejectors(self.completed, rows)
        for name, found in zip(self.completed.names, self.compared or (), strict=False):
            if name in rows and (rejector := found.rejector(rows[name])) is not None:
                learned[name] = rejector
        return learned


def open_domains(
    ath: Any, inputs: Inputs, frozen: Mapping[int, FrozenInput], options: RuntimeOptions
) -> tuple[Any, ...]:
    """Return all domains as arrays, or in blocks if a memory limit or a cluster requires it.

    The codes of a frozen domain without rows stand for its rows.
    """
    names, X = inputs.arguments("X"), list(inputs.X)
    for k, given in frozen.items():
        if X[k] is None and given.codes is not None:
            X[k] = given.codes.astype(np.float32)
    if options.memory_limit is None and cluster_mapper.get() is None:
        rows = check_rows(X, names)
        _check_frozen(frozen, rows, names)
        return rows
    if frozen:
        raise InputError("cannot be used with memory_limit or on a cluster", "frozen")
    blocks = [as_blocks(each, name=name) for each, name in zip(X, names, strict=True)]
    sizes: tuple[int, int] | None = BLOCK_BYTES, CACHE_BYTES
    if options.memory_limit is not None:
        sizes = plan_memory(options.memory_limit, blocks, ath.n_bits)
    if sizes is None:
        return check_rows(blocks, names)
    check_in_blocks(ath, options.device)
    block, cache = sizes[0], sizes[1] // len(blocks)
    return tuple(each.in_blocks_of(block, cache) for each in blocks)


def _check_frozen(
    frozen: Mapping[int, FrozenInput], rows: Sequence[Any], names: Sequence[str]
) -> None:
    for k, given in frozen.items():
        n, width = rows[k].shape
        if given.codes is not None and len(given.codes) != n:
            raise InputError(f"{n} rows, but {len(given.codes)} frozen codes", names[k])
        if given.encoder is not None and given.encoder.n_features_in_ != width:
            takes = given.encoder.n_features_in_
            raise InputError(f"{width} columns, but its frozen encoder takes {takes}", names[k])


def learn(
    ath: Any,
    data: Domains,
    options: RuntimeOptions,
    frozen: Mapping[int, FrozenInput] | None = None,
    hub: int | None = None,
    initial: Mapping[int, LinearEncoder] | None = None,
) -> FitResult:
    """Fit an `ATH` to validated data; the encoders are on the device of the data.

    With a `hub`, the other domains are bridged to it alone, otherwise each to each. Domains with an
    `initial` encoder begin at its projections.
    """
    rng = check_random_state(ath.random_state)
    home = data.X[0]
    if options.device is not None and isinstance(home, np.ndarray):
        data = data.like(empty_on(options.device))
    held = _frozen(frozen or {}, data)
    earlier = {k: _projections(e, data.X[k]) for k, e in (initial or {}).items() if k not in held}
    with requested(options.verbose):
        data = _completed(ath, data, held, hub or 0, rng)
    n = len(data.X)
    data = replace(
        data,
        codes=tuple(held[k].B if k in held else None for k in range(n)),
        earlier=tuple(signs(earlier[k]) if k in earlier else None for k in range(n)),
    )
    features = features_of(ath, data, [k for k in range(n) if k not in held], rng)
    with requested(options.verbose):
        problem = begun(ath, data, features, held, hub, rng, earlier)
    lam = chosen_lam(problem) if ath.lam == "auto" else ath.lam
    solution = problem.solver(options.verbose)(lam)
    encoders = _encoders(problem, solution)
    if not isinstance(home, Blocks):
        encoders = [encoder and encoder.like(home) for encoder in encoders]
    if ath.tol > 0 and not solution.converged:
        warnings.warn(
            f"not converged: the objective still changed by more than tol={ath.tol:g} after "
            f"max_iter={ath.max_iter} iterations; increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    fields = [(name, np.float64) for name in ("total", *Objective._fields)]
    record = np.array([(terms.total, *terms) for terms in solution.history], dtype=fields)
    codes = solution.B
    if problem.centre is not None:
        codes = [B + problem.centre for B in codes]
    found = None
    if n == 2 and problem.may_abstain(0, 1):
        found = compared(*problem.start.H)
    return FitResult(encoders, codes, solution, problem.start.agreement, record, data, found)


def _frozen(frozen: Mapping[int, FrozenInput], data: Domains) -> dict[int, Frozen]:
    if not frozen:
        return {}
    if not all(isinstance(X, np.ndarray) for X in data.X):
        raise InputError("needs NumPy arrays, and no device", "frozen")
    dtype = np.result_type(*data.X)
    return {k: Frozen.of(given, data.X[k], dtype) for k, given in frozen.items()}


def _projections(encoder: LinearEncoder, X: Any) -> Array:
    """Return the projections of an earlier encoder, of mean magnitude one."""
    if isinstance(X, Blocks):
        raise InputError("cannot be used with memory_limit or on a cluster", "initial")
    H = encoder.decision_function(X)
    xp = array_namespace(H)
    return H / max(float(xp.mean(xp.abs(H))), 1e-30)


def _completed(
    ath: Any, data: Domains, held: Mapping[int, Frozen], hub: int, rng: np.random.RandomState
) -> Domains:
    """Estimate labels or partners of rows that have none, if `completion` is set.

    Each domain is completed together with the hub, or with the first frozen one.
    """
    if ath.completion is None:
        return data
    base = next(iter(held), hub)
    for k in range(len(data.X)):
        if k in held or k == base:
            continue
        i, j = min(base, k), max(base, k)
        same = comparable(ath, data, held, i, j)
        home, host = data.X[i], data.two(i, j).like(np.empty(0))
        completed: TrainingData = part(ath, "completion").complete(
            host,
            same_space=same,
            rng=rng,
            bridge=lambda some, state, home=home: _bridged(ath, some.like(home), state),
        )
        for y, n in ((completed.y_source, i), (completed.y_target, j)):
            if y is not None and len(np.unique(y[y >= 0])) < 2:
                raise InputError(
                    f"label propagation found a single class among the {data.names[n]} rows; "
                    "label more rows, of at least two classes"
                )
        data = data.with_two(i, j, completed)
    return data


_BRIDGE_BITS = 64


def _bridged(ath: Any, data: TrainingData, rng: np.random.RandomState) -> Projecting:
    """Join the domains by a fit; return what projects rows of both into that space, in NumPy.

    The fit runs where the rows are, and learns from labels if one domain has labels of all rows.
    """
    complete = [y is not None and bool((y >= 0).all()) for y in (data.y_source, data.y_target)]
    swapped = complete[1] and not complete[0]
    if swapped:
        data = TrainingData(data.X_target, data.X_source, data.y_target)
    # All rows take part: which ones have no counterpart is tested after this fit.
    parameters = {"random_state": rng, "unit_rows": ath.unit_rows, "bipartite": BOTH_WAYS}
    chosen = preset("semi_supervised" if any(complete) else "unsupervised", parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        domains = Domains(TWO, (data.X_source, data.X_target), (data.y_source, data.y_target))
        fitted = learn(type(ath)(_BRIDGE_BITS, **chosen), domains, RuntimeOptions())
    encoders = [encoder for encoder in fitted.encoders if encoder is not None]
    first, second = encoders[::-1] if swapped else encoders

    def project(X: Array, Y: Array) -> tuple[Array, Array]:
        H, G = (
            np.tanh(like(encoder.decision_function(like(rows, data.X_source)), np.empty(0)))
            for encoder, rows in ((first, X), (second, Y))
        )
        return H, G

    return project


def _encoders(problem: Problem, solution: Solution) -> list[LinearEncoder | None]:
    """Return the hash functions of all domains; that of given codes is not known."""
    ath, data = problem.ath, problem.data
    encoders: list[LinearEncoder | None] = []
    for k, A in enumerate(solution.A):
        if A is None:
            encoders.append(problem.held[k].encoder)
        else:
            encoders.append(problem.features[k].encoder(A, problem.shift(k, A)))
    of_target = ath.source_encoder == "target" or (
        ath.source_encoder == "auto" and same_space(ath, data)
    )
    if of_target and not problem.held:
        return [encoders[-1]] * len(encoders)
    return encoders
