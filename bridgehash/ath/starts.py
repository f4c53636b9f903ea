"""Starts: the first projections of the alternation, which the paper leaves open.

They decide the result. A start is any object with a method `begin(context)`, which takes a
`StartContext` and returns a `Start`: projections of both domains and, if it knows one, the first
bipartite graph. For frozen codes, and for a third domain, it also has `follow(context, known)`: the
projections of the source are known, and those of the target agree with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from .._core.arrays import array_namespace, column_means, like, take_rows, to_numpy
from .._core.errors import InputError
from .._core.linalg import (
    Array,
    SPDSolver,
    in_memory,
    itq_rotation,
    principal,
    project_sample,
    random_orthonormal,
)
from .._core.progress import waiting
from .._core.validation import OneOf, Range, Rules
from ..models.contents import Contents, Given
from ..neighbors.graphs import Graph, one_hot, operator
from .bipartite import as_graph
from .matching import match
from .spreading import Rows

_TINY = 1e-30
_NEIGHBORS = 10  # in the graph of the target rows
ITQ_ROWS = 100_000  # that determine a rotation


@dataclass(frozen=True)
class StartContext:
    """Inputs available to a start."""

    X_s: Array  # (n_s, m_s) centred features on their stated scale
    X_t: Array  # (n_t, m_t)
    y_s: NDArray[np.intp] | None  # class ids, -1 where unknown; None without labels
    y_t: NDArray[np.intp] | None
    same_space: bool  # the columns of X_s and X_t mean the same
    n_bits: int
    ridge: float
    rng: np.random.RandomState
    raw: tuple[Array, Array] | None = None  # rows of both domains as given to fit
    joint_mean: bool = False  # both domains together have mean zero, not each of them
    pairs: NDArray[np.intp] | None = None  # (p, 2) row numbers in X_s and in X_t


@dataclass(frozen=True)
class Start:
    """First projections, and the first bipartite graph if the start provides one."""

    H_s: Array
    H_t: Array
    W: Graph | None = None
    A_s: Array | None = None  # with H_s = X_s A_s, if the start is linear
    A_t: Array | None = None
    agreement: float | None = None  # of independent searches, if the start searches

    def scaled(self, size: float | None) -> Start:
        """Return the start with projections of mean magnitude `size` in each domain.

        None: the start as it is.
        """
        if size is None:
            return self
        changed: dict[str, Any] = {}
        for H, A, domain in ((self.H_s, self.A_s, "s"), (self.H_t, self.A_t, "t")):
            xp = array_namespace(H)
            factor = size / max(float(xp.mean(xp.abs(H))), _TINY)
            changed[f"H_{domain}"] = H * factor
            changed[f"A_{domain}"] = None if A is None else A * factor
        return replace(self, **changed)


@dataclass(frozen=True)
class Known:
    """Projections of the source that a target follows."""

    H: Array  # (n_s, n_bits), centred as X_s is
    linear: tuple[Callable[[NDArray[np.intp]], Array], Array] | None = None
    # features φ of some source rows, and A with H = φ A up to a constant, if they are known
    of_target: Callable[[], Array] | None = None
    # projections of the target rows by the hash function of the source; None: another space


class PCAStart(BaseEstimator):
    """Principal components of each domain or of both together, rotated or not.

    Parameters
    ----------
    basis : "domain", "shared" or "auto", default="auto"
        "domain": separate directions for each domain, matched by rank, with signs fixed by the
        third moment. "shared": one basis for both domains, which needs one feature space. "auto":
        shared if there is one feature space.
    rotation : None or "itq", default="itq"
        "itq" rotates both domains alike to minimise the quantisation error (iterative
        quantisation), which evens out the unequal variances of principal components.

    Notes
    -----
    If there are more bits than dimensions, a random matrix with orthonormal rows distributes the
    components over the bits before the rotation.
    """

    _rules: ClassVar[Rules] = {
        "basis": OneOf(("domain", "shared", "auto")),
        "rotation": OneOf((None, "itq")),
    }

    def __init__(
        self,
        basis: Literal["domain", "shared", "auto"] = "auto",
        rotation: Literal["itq"] | None = "itq",
    ) -> None:
        self.basis = basis
        self.rotation = rotation

    def begin(self, context: StartContext) -> Start:
        """Project on the components; the solver learns the bipartite graph."""
        X_s, X_t = context.X_s, context.X_t
        P_s, P_t = self._components(context)
        p, r = P_s.shape[1], context.n_bits
        if self.rotation is not None or p != r:
            R = like(random_orthonormal(p, r, context.rng), P_s)
            if self.rotation == "itq":
                R = itq_rotation(project_sample([(X_s, P_s), (X_t, P_t)], ITQ_ROWS), R)
            P_s, P_t = P_s @ R, P_t @ R
        xp = array_namespace(P_s, P_t)
        A_s, A_t = (xp.astype(P, X.dtype, copy=False) for P, X in ((P_s, X_s), (P_t, X_t)))
        return Start(X_s @ A_s, X_t @ A_t, A_s=A_s, A_t=A_t)

    def follow(self, context: StartContext, known: Known) -> Start:
        """Project the target by the hash function of the source, about its own mean."""
        if known.of_target is None:
            raise InputError(
                "nothing connects the domains: their features differ; give labels or pairs, or use "
                "ATH.structural",
                "start",
            )
        H_t = known.of_target()
        return Start(known.H, H_t - column_means(H_t))

    def _components(self, context: StartContext) -> tuple[Array, Array]:
        """Directions of both domains, equally many, in float64."""
        X_s, X_t, r = context.X_s, context.X_t, context.n_bits
        if self.basis == "shared" and not context.same_space:
            raise InputError(
                "a shared PCA needs one feature space, but the domains have "
                f"{X_s.shape[1]} and {X_t.shape[1]} separate features; use 'pca' or 'itq'",
                "start",
            )
        if self.basis != "domain" and context.same_space:
            P = principal(X_s, r, X_t)
            return P, P
        if context.joint_mean:
            X_s, X_t = _about_own_mean(X_s), _about_own_mean(X_t)
        P_s, P_t = principal(X_s, r), principal(X_t, r)
        p = min(P_s.shape[1], P_t.shape[1])
        return P_s[:, :p], P_t[:, :p]


def _about_own_mean(X: Any) -> Any:
    return X - column_means(X) if in_memory(X) else X.recentred(X.moments.mean)


class LabelStart(BaseEstimator):
    """Class means: every class starts at the mean of its target samples on principal components.

    A class without labelled target samples starts at the mean of its source samples. Samples
    without a label start at their principal components.

    Parameters
    ----------
    rotation : None or "itq", default=None
        Of the principal components; see `PCAStart`. Class words are assigned by all bits alike
        only if they have similar variances, which the rotation provides.
    mixing : float, default=0.0
        How far a class that the source lacks starts from its own mean, towards the classes of its
        neighbours in the target: 0 is its own mean, values below 1 are allowed. Such a class may be
        a group of new rows that is only a part of a class; its code is then near the other parts.
    """

    needs_labels = True
    _rules: ClassVar[Rules] = {"rotation": OneOf((None, "itq")), "mixing": Range(0, 0.99)}

    def __init__(self, rotation: Literal["itq"] | None = None, mixing: float = 0.0) -> None:
        self.rotation = rotation
        self.mixing = mixing

    def begin(self, context: StartContext) -> Start:
        """Use class means where a label is known, principal components elsewhere."""
        start = PCAStart("auto", self.rotation).begin(context)
        domains = (start.H_s, context.y_s), (start.H_t, context.y_t)
        means, _ = _class_means(*domains)  # those of the target replace those of the source
        if self.mixing:
            means = _mixed(means, context, self.mixing)
        means -= means.mean(axis=0)
        H_s, H_t = (_placed(H, y, means) for H, y in domains)
        return Start(H_s, H_t)

    def follow(self, context: StartContext, known: Known) -> Start:
        """Use the class means of the source; rows without a label follow by ridge regression."""
        means, has_mean = _class_means((known.H, context.y_s))
        y = np.full(context.X_t.shape[0], -1) if context.y_t is None else context.y_t.copy()
        y[y >= len(means)] = -1
        y[y >= 0] = np.where(has_mean[y[y >= 0]], y[y >= 0], -1)
        seen = np.flatnonzero(y >= 0)
        if not len(seen):
            raise InputError("the domains have no class in common; check the labels", "y")
        wanted = like(means[y[seen]], context.X_t, context.X_t.dtype)
        if len(seen) == len(y):
            return Start(known.H, wanted)
        return Start(known.H, _placed(_regressed(context, seen, wanted), y, means))


def _class_means(
    *domains: tuple[Array, NDArray[np.intp] | None],
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the mean projection of each class, and which classes have one; the last domain counts.

    Each domain is its projections and its labels.
    """
    known = [y for _, y in domains if y is not None and y.max() >= 0]
    if not known:
        raise InputError("'labels' needs y_source or y_target", "start")
    n_classes = 1 + max(int(y.max()) for y in known)
    means: Array = np.zeros((n_classes, domains[0][0].shape[1]))
    has_mean = np.zeros(n_classes, dtype=bool)
    for H, y in domains:
        if y is not None:
            members = one_hot(y, n_classes).T.tocsr()
            counts = np.asarray(members.sum(axis=1)).ravel()
            sums = to_numpy(operator(members) @ H)
            means[counts > 0] = sums[counts > 0] / counts[counts > 0, None]
            has_mean |= counts > 0
    return means, has_mean


def _mixed(means: Array, context: StartContext, part: float) -> Array:
    """Move the means of classes that the source lacks towards those of their neighbours.

    A random walk over the k-NN graph of the target rows, seen as steps between classes, goes on
    with probability `part` until it meets a class of the source. The result is the expected mean of
    the class where it ends.
    """
    y_s, y_t = context.y_s, context.y_t
    if y_s is None or y_t is None or context.raw is None:
        return means
    own = ~np.isin(np.arange(len(means)), y_s) & np.isin(np.arange(len(means)), y_t)
    if not own.any():
        return means
    S = Rows(to_numpy(context.raw[1]), None).graph(_NEIGHBORS)
    Y = one_hot(y_t, len(means))
    steps = (Y.T @ (S @ Y)).toarray()[own]
    steps /= np.maximum(steps.sum(axis=1, keepdims=True), _TINY)
    A = np.eye(len(means))
    A[own] -= part * steps
    ends = np.where(own[:, None], (1.0 - part) * means, means)
    return np.linalg.solve(A, ends)


def _regressed(context: StartContext, rows: NDArray[np.intp], wanted: Array) -> Array:
    """Return projections of all target rows by a ridge regression of some."""
    X = take_rows(context.X_t, rows)
    A_t: Array = SPDSolver(X.T @ X, context.ridge)(X.T @ wanted)
    return context.X_t @ A_t


def _placed(H: Array, y: NDArray[np.intp] | None, means: Array) -> Array:
    if y is None:
        return H
    known = like(y >= 0, H)[:, None]
    return array_namespace(H).where(known, take_rows(like(means, H, H.dtype), y), H)


class GivenStart(BaseEstimator):
    """A bipartite graph given by the user: pairs, memberships, a match of another method.

    The target starts at its own ITQ projections H_t, the source at the ridge regression of
    D⁻¹ W H_t; the first A-step uses W itself.

    Parameters
    ----------
    W : sparse or dense array of shape (n_source, n_target), or a Graph
        Non-negative weights; only their proportions within a row matter.
    """

    _contents: ClassVar[Contents] = {"W": Given("n_source n_target")}

    def __init__(self, W: Any) -> None:
        self.W = W

    def begin(self, context: StartContext) -> Start:
        """Return projections that agree with W, and W."""
        X_s, X_t = context.X_s, context.X_t
        W = as_graph(self.W, (X_s.shape[0], X_t.shape[0]))
        target_alone = replace(context, X_s=X_t, same_space=True)
        H_t = PCAStart("domain", "itq").begin(target_alone).H_t
        seen = np.flatnonzero(to_numpy(W.degrees) > 0)
        degrees = take_rows(like(W.degrees, H_t, H_t.dtype), seen)
        X, wanted = take_rows(X_s, seen), take_rows(W @ H_t, seen) / degrees[:, None]
        A_s = SPDSolver(X.T @ X, context.ridge)(X.T @ wanted)
        return Start(X_s @ A_s, H_t, W)

    def follow(self, context: StartContext, known: Known) -> Start:
        """Return target projections that agree with W, and W."""
        W = as_graph(self.W, (known.H.shape[0], context.X_t.shape[0]))
        seen = np.flatnonzero(to_numpy(W.T.degrees) > 0)
        degrees = take_rows(like(W.T.degrees, known.H, known.H.dtype), seen)
        wanted = take_rows(W.T @ known.H, seen) / degrees[:, None]
        wanted = like(wanted, context.X_t, context.X_t.dtype)
        return Start(known.H, _regressed(context, seen, wanted), W)


class StructuralStart(BaseEstimator):
    """Match rows by the structure of their domain: no labels, no pairs, no common features.

    The number of classes need not be known. The agreement of independent searches is stored in
    the start and, after a fit, in `ATH.agreement_`. See `bridgehash.ath.matching`.

    Parameters
    ----------
    n_starts : int, default=88
        Clusterings that are matched.
    max_rows : int, default=1200
        Rows per domain that are matched, drawn at random. The others follow through the hash
        functions.
    """

    _rules: ClassVar[Rules] = {
        "n_starts": Range(1, kind=Integral),
        "max_rows": Range(2, kind=Integral),
    }

    def __init__(self, n_starts: int = 88, max_rows: int = 1200) -> None:
        self.n_starts = n_starts
        self.max_rows = max_rows

    def begin(self, context: StartContext) -> Start:
        """Return projections that agree with the match, and the match as the first graph."""
        W, agreement = self._matched(context)
        return replace(GivenStart(W).begin(context), agreement=agreement)

    def follow(self, context: StartContext, known: Known) -> Start:
        """Return target projections that agree with the match, and the match."""
        W, agreement = self._matched(context)
        return replace(GivenStart(W).follow(context, known), agreement=agreement)

    def _matched(self, context: StartContext) -> tuple[csr_array, float]:
        """Match the rows of both domains; return the graph and the agreement of the searches."""
        X_s, X_t = context.raw or (context.X_s, context.X_t)
        with waiting("match by structure") as reach:
            result = match(
                to_numpy(X_s),
                to_numpy(X_t),
                context.rng,
                n_starts=self.n_starts,
                max_rows=self.max_rows,
                progress=reach,
            )
        shares = result.plan / result.plan.sum(axis=1, keepdims=True)
        rows, columns = np.meshgrid(result.rows_s, result.rows_t, indexing="ij")
        shape = (X_s.shape[0], X_t.shape[0])
        W = csr_array((shares.ravel(), (rows.ravel(), columns.ravel())), shape=shape)
        return W, result.agreement
