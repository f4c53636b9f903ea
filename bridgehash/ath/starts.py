"""How the alternation begins: the choice that the paper leaves open and that decides the result.

A start is a choice with its parameters; `begin(scene)` gives the first projections of both
domains and, where the start knows one, the first bipartite graph. Any object with such a
method is a start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._validation import OneOf, Rules
from .._xp import array_namespace, astype, like, take_rows, to_numpy
from ..graphs import Graph, one_hot
from ..linalg import (
    Array,
    SPDSolver,
    in_double,
    is_held,
    itq_rotation,
    principal,
    random_orthonormal,
    spread,
)
from ..sparse import operator
from .bipartite import as_graph, check_shape

_TINY = 1e-30
_ITQ_ROWS = 100_000  # from which a rotation is found


@dataclass(frozen=True)
class Scene:
    """All that a start may look at."""

    X_s: Array  # (n_s, m_s) centred features on their stated scale
    X_t: Array  # (n_t, m_t)
    y_s: NDArray[np.intp] | None  # class ids, -1 where unknown; None without labels
    y_t: NDArray[np.intp] | None
    same_space: bool  # do the columns of X_s and X_t mean the same?
    n_bits: int
    ridge: float
    rng: np.random.RandomState
    raw: tuple[Array, Array] | None = None  # rows of both domains as they came


@dataclass(frozen=True)
class Start:
    """Projections to begin with, and the bipartite graph where the start knows one."""

    H_s: Array
    H_t: Array
    W: Graph | None = None
    A_s: Array | None = None  # with H_s = X_s A_s, where the start has a projection
    A_t: Array | None = None
    agreement: float | None = None  # of independent searches, where the start is found by search

    def projections(self) -> tuple[Array, Array]:
        """A_s and A_t, of a start that has them."""
        if self.A_s is None or self.A_t is None:
            raise ValueError("ridge_towards='start' needs a start with projections: LocalStart()")
        return self.A_s, self.A_t

    def scaled(self, size: float) -> Start:
        """The same start with projections of mean magnitude `size`, each domain by itself."""
        H_s, A_s = _scaled(self.H_s, self.A_s, size)
        H_t, A_t = _scaled(self.H_t, self.A_t, size)
        return replace(self, H_s=H_s, H_t=H_t, A_s=A_s, A_t=A_t)


def _scaled(H: Array, A: Array | None, size: float) -> tuple[Array, Array | None]:
    xp = array_namespace(H)
    factor = size / max(float(xp.mean(xp.abs(H))), _TINY)
    return H * factor, None if A is None else A * factor


class PCAStart(BaseEstimator):
    """Principal components, of each domain or of both together, turned or not.

    Parameters
    ----------
    basis : "domain", "shared" or "auto", default="auto"
        "domain": each domain its own directions, matched by rank, signs by the third moment
        (`linalg.pca`). "shared": one basis for both, which needs one feature space. "auto": shared
        where there is one feature space.
    rotation : None or "itq", default="itq"
        "itq" turns both alike so that their signs lose least (iterative quantisation),
        which evens out the very unequal variances of principal components.

    Notes
    -----
    With more bits than the data has dimensions, the components are spread over the bits by a
    random matrix with orthonormal rows (and then turned, if asked for).
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

    def begin(self, scene: Scene) -> Start:
        """Projections on the components; the bipartite graph is left to the solver."""
        X_s, X_t = scene.X_s, scene.X_t
        P_s, P_t = self._components(scene)
        p, r = P_s.shape[1], scene.n_bits
        if self.rotation is not None or p != r:
            R = like(random_orthonormal(p, r, scene.rng), P_s)
            if self.rotation == "itq":
                R = itq_rotation(_projected_together((X_s, P_s), (X_t, P_t)), R)
            P_s, P_t = P_s @ R, P_t @ R
        return Start(X_s @ astype(P_s, X_s.dtype), X_t @ astype(P_t, X_t.dtype))

    def _components(self, scene: Scene) -> tuple[Array, Array]:
        """Directions of both domains, equally many, in float64: see `linalg.principal`."""
        X_s, X_t, r = scene.X_s, scene.X_t, scene.n_bits
        if self.basis == "shared" and not scene.same_space:
            raise ValueError(
                "a shared PCA needs one feature space, but the domains have "
                f"{X_s.shape[1]} and {X_t.shape[1]} features of their own; use start='pca' or 'itq'"
            )
        if self.basis != "domain" and scene.same_space:
            P = principal(X_s, r, X_t)
            return P, P
        P_s, P_t = principal(X_s, r), principal(X_t, r)
        p = min(P_s.shape[1], P_t.shape[1])
        return P_s[:, :p], P_t[:, :p]


def _projected_together(*domains: tuple[Array, Array]) -> Array:
    """XP of all domains, or of rows enough to find a rotation by; in float64.

    One sign that comes out otherwise changes where ITQ ends, and all that follows: rounding to
    float32 is enough for that.
    """
    share = min(1.0, _ITQ_ROWS / sum(X.shape[0] for X, _ in domains))
    parts = []
    for X, P in domains:
        rows = X if share == 1.0 and is_held(X) else spread(X, round(share * X.shape[0]))
        parts.append(in_double(rows) @ P)
    return array_namespace(*parts).concat(parts, axis=0)


class LabelStart(BaseEstimator):
    """Every class begins at one point: the mean of its target samples on principal components.

    Classes without labelled target samples take the mean of their source samples. Samples
    without a label begin where PCA puts them.
    """

    def begin(self, scene: Scene) -> Start:
        """Class means where a label is known, principal components elsewhere."""
        start = PCAStart("auto", None).begin(scene)
        known = [y for y in (scene.y_s, scene.y_t) if y is not None and y.max() >= 0]
        if not known:
            raise ValueError("start='labels' needs y_source or y_target")
        n_classes = 1 + max(int(y.max()) for y in known)
        means: Array = np.zeros((n_classes, scene.n_bits))
        both = ((start.H_s, scene.y_s), (start.H_t, scene.y_t))  # the target has the last word
        for H, y in both:
            if y is not None:
                members = one_hot(y, n_classes).T.tocsr()
                counts = np.asarray(members.sum(axis=1)).ravel()
                sums = to_numpy(operator(members) @ H)
                means[counts > 0] = sums[counts > 0] / counts[counts > 0, None]
        means -= means.mean(axis=0)
        return Start(_placed(start.H_s, scene.y_s, means), _placed(start.H_t, scene.y_t, means))


def _placed(H: Array, y: NDArray[np.intp] | None, means: Array) -> Array:
    if y is None:
        return H
    known = like(y >= 0, H)[:, None]
    return array_namespace(H).where(known, take_rows(like(means, H, H.dtype), y), H)


class GivenStart(BaseEstimator):
    """A bipartite graph known beforehand: pairs, memberships, a match found by other means.

    The target begins at its own ITQ projections H_t, the source at the ridge regression of what
    the graph says of it, D⁻¹ W H_t; the first A-step uses W itself.

    Parameters
    ----------
    W : sparse or dense array of shape (n_source, n_target), or a Graph
        Non-negative weights; only their proportions inside a row matter for the start.
    """

    def __init__(self, W: Any) -> None:
        self.W = W

    def begin(self, scene: Scene) -> Start:
        """Projections that agree with W, and W."""
        W, X_s, X_t = as_graph(self.W), scene.X_s, scene.X_t
        check_shape(W, X_s.shape[0], X_t.shape[0])
        H_t = PCAStart("domain", "itq").begin(_target_alone(scene)).H_t
        seen = np.flatnonzero(to_numpy(W.degrees) > 0)
        degrees = take_rows(like(W.degrees, H_t, H_t.dtype), seen)
        X, wanted = take_rows(X_s, seen), take_rows(W @ H_t, seen) / degrees[:, None]
        A_s = SPDSolver(X.T @ X, scene.ridge)(X.T @ wanted)
        return Start(X_s @ A_s, H_t, W)


def _target_alone(scene: Scene) -> Scene:
    return replace(scene, X_s=scene.X_t, same_space=True)


STARTS = {
    "pca": PCAStart("domain", None),
    "shared_pca": PCAStart("shared", None),
    "itq": PCAStart("auto", "itq"),
    "labels": LabelStart(),
}
