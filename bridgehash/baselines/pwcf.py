"""PWCF, probability weighted compact feature (Huang, Zhang, Yang & Zhou, CVPR 2020)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import lcm
from numbers import Integral
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_random_state

from .._core.linalg import (
    Array,
    RidgeSolver,
    SPDSolver,
    pca,
    random_orthonormal,
    row_space,
    symmetric_product,
)
from .._core.validation import Flag, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.encoder import LinearEncoder
from ..models.feature_maps import outward
from ..models.training import Ids, TrainingData
from ..neighbors.graphs import SparseGraph, laplacian, one_hot
from ..neighbors.search import nearest, nearest_others
from ._stiefel import Objective, minimise
from .shared import BaseSharedHasher, StackedDomains

_DISTANCES = 1 << 22  # computed at a time: 32 MB


class PWCF(BaseSharedHasher):
    """Orthogonal projections that separate classes and keep similar neighbourhoods together.

    Target rows get the class of the nearest source row. The histogram of the classes among the
    neighbours of a row in its own domain is a feature (HFON) that both domains share. Then

    min Σ ω (‖Wᵀ(x - p)‖² - ‖Wᵀ(x - n)‖²) + θₛ ‖Bₛ - XₛW‖² + θₜ ‖Bₜ - XₜW‖²
        + μ tr(WᵀXᵀLXW) + ν ‖Y - BₛA‖² + ρ ‖A‖²

    over WᵀW = I, signs B and a classifier A. p is the farthest row of the class of x and n the
    nearest of another: inside the source, inside the target, and from target to source by HFON.
    ω = (1 - e⁻ᶻ)² with z = ‖Wᵀ(x - p)‖ - ‖Wᵀ(x - n)‖ + margin, or zero for z < 0, is computed in
    each round. L is the Laplacian of a k-NN graph of HFON features with heat kernel weights.

    Objective, steps and constants follow the paper and its public script, PWCF; the squared norms
    in the triplets follow the gradient of the script. Where the script differs from the paper
    (negatives of the same class, the sign of the gradient of the triplets, sums that are never
    reset), the paper is followed. Ours: edges between equal histograms; ties between distances of
    histograms are resolved by the distance of rows from the mean, so that the order of the samples
    does not matter; source rows without a label are not used; codes longer than the rank of the
    data, for which the rows of W are orthonormal, in the space of the principal directions. All
    computations are in float64.

    Parameters
    ----------
    n_bits : int, default=64
    n_neighbors : int, default=50
        Neighbours per histogram, at most n - 1.
    graph_neighbors : int, default=500
        Neighbours per row in the graph of histograms.
    sigma : float, default=0.4
        Width of the heat kernel exp(-g / 2σ²) with g = (distance / largest distance)⁴.
    margin : float, default=0.3
    quantisation_source, quantisation_target : float, default=10
        θₛ and θₜ.
    manifold : float, default=1
        μ.
    classification : float, default=10
        ν.
    ridge : float, default=1e4
        ρ.
    max_iter : int, default=50
        Number of rounds; there is no stopping test.
    inner_iter : int, default=10
        Steps of the search for W per round.
    keep_zero : bool, default=True
        Join rows with equal histograms. The script drops these edges.
    unit_rows : bool, default=True
        Divide each row by its norm first. Otherwise all rows are divided by the root of their mean
        squared distance from the mean.
    random_state : int, RandomState or None
        Draws the first signs, and the first W if codes are longer than the rank.

    Attributes
    ----------
    objective_ : array of shape (n_iter_,)
        After each round, with the ω of that round. It may rise: the search for W is not
        monotone, and the signs of the source come from a relaxed solution.
    n_iter_ : int
    """

    about: ClassVar = About(
        "semi-supervised", "Huang, Zhang, Yang & Zhou, CVPR 2020", ("y_source",)
    )
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_neighbors": Range(1, kind=Integral),
        "graph_neighbors": Range(1, kind=Integral),
        "sigma": Range(0, above=True),
        "margin": Range(0),
        "quantisation_source": Range(0, above=True),
        "quantisation_target": Range(0),
        "manifold": Range(0),
        "classification": Range(0, above=True),
        "ridge": Range(0, above=True),
        "max_iter": Range(0, kind=Integral),
        "inner_iter": Range(1, kind=Integral),
        "keep_zero": Flag(),
        "unit_rows": Flag(),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_neighbors: int = 50,
        graph_neighbors: int = 500,
        sigma: float = 0.4,
        margin: float = 0.3,
        quantisation_source: float = 10.0,
        quantisation_target: float = 10.0,
        manifold: float = 1.0,
        classification: float = 10.0,
        ridge: float = 1e4,
        max_iter: int = 50,
        inner_iter: int = 10,
        keep_zero: bool = True,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_neighbors = n_neighbors
        self.graph_neighbors = graph_neighbors
        self.sigma = sigma
        self.margin = margin
        self.quantisation_source = quantisation_source
        self.quantisation_target = quantisation_target
        self.manifold = manifold
        self.classification = classification
        self.ridge = ridge
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.keep_zero = keep_zero
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        X_s, y = data.labelled_source("PWCF")
        order = outward(X_s)
        y, X_s, X_t = y[order], X_s[order], data.X_target[outward(data.X_target)]
        rows = StackedDomains.build(X_s, X_t, unit_rows=self.unit_rows, scaled=not self.unit_rows)
        X, back = row_space(rows.X.astype(np.float64))
        P = W = pca(X, self.n_bits)
        long = P.shape[1] < self.n_bits
        if long:  # solve in the space of the principal directions
            X, W = X @ P, random_orthonormal(P.shape[1], self.n_bits, rng)
        B = signs(rng.standard_normal((len(X), self.n_bits))).astype(np.float64)
        problem = self._problem(X, y)
        result = solve(problem, W, B, max_iter=self.max_iter, inner_iter=self.inner_iter)
        self.objective_ = result.objective
        self.n_iter_ = self.max_iter
        W = P @ result.W if long else result.W
        return rows.encoder(np.ascontiguousarray(back(W), rows.X.dtype))

    def _problem(self, X: Array, y: Ids) -> PWCFProblem:
        """Build the problem: classes, histograms, triplets and graph of the rows."""
        X_s, X_t = X[: len(y)], X[len(y) :]
        y_t = y[nearest(X_t, X_s, 1)[1][:, 0]]
        H_s, H_t = histograms(X_s, y, X_t, y_t, self.n_neighbors)
        graph = manifold_graph(
            np.vstack([H_s, H_t]), self.graph_neighbors, self.sigma, self.keep_zero
        )
        theta = np.full(len(X), float(self.quantisation_target))
        theta[: len(y)] = self.quantisation_source
        fixed = symmetric_product(X, theta[:, None] * X)
        fixed += self.manifold * symmetric_product(X, laplacian(graph, X))
        triplets = mine_triplets(X_s, y, H_s, X_t, y_t, H_t)
        weights = self.margin, self.classification, self.ridge
        return PWCFProblem(X, y, theta, fixed, triplets, *weights)


class Triplets(NamedTuple):
    """Row numbers of anchors, of positives (same class) and of negatives (another class)."""

    anchor: Ids
    positive: Ids
    negative: Ids


class PWCFProblem(NamedTuple):
    """Inputs of the solver; source rows come first."""

    X: Array  # (n, d)
    y: Ids  # classes of the source rows
    theta: Array  # (n,) quantisation weight of each row
    fixed: Array  # (d, d) XᵀΘX + μ XᵀLX
    triplets: Triplets
    margin: float
    classification: float
    ridge: float


class PWCFSolution(NamedTuple):
    """Result of the solver; the objective is after each round."""

    W: Array
    B: Array
    A: Array
    objective: Array


def histograms(X_s: Array, y_s: Ids, X_t: Array, y_t: Ids, k: int) -> tuple[Array, Array]:
    """Return HFON: the classes among the k nearest other rows of the same domain, per row.

    Shares of classes, multiplied by a common factor so that they are whole numbers in both domains.
    """
    n_classes = int(y_s.max()) + 1
    classes = [y[nearest_others(X, min(k, len(X) - 1))[1]] for X, y in ((X_s, y_s), (X_t, y_t))]
    unit = lcm(*(near.shape[1] for near in classes))
    H_s, H_t = (
        np.stack([(near == c).sum(axis=1) for c in range(n_classes)], 1) * (unit / near.shape[1])
        for near in classes
    )
    return H_s, H_t


def manifold_graph(H: Array, k: int, sigma: float, keep_zero: bool) -> SparseGraph:
    """Build the k-NN graph of histograms with heat kernel weights.

    Two rows are joined if either is among the k nearest of the other. The weight is exp(-g / 2σ²)
    with g = (d / d_max)⁴, d the distance of the rows and d_max the longest edge.
    """
    n = len(H)
    k = min(k, n - 1)
    F, columns = nearest_histograms(H, k)
    F += 1  # sparse matrices drop stored zeros
    near = csr_array((F.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    edges = near.maximum(near.T.tocsr())
    edges.data -= 1
    if not keep_zero:
        edges.eliminate_zeros()
    longest = max(float(edges.data.max(initial=0.0)), 1.0)
    edges.data = np.exp((edges.data / longest) ** 2 / (-2 * sigma**2))
    return SparseGraph(edges)


def mine_triplets(X_s: Array, y_s: Ids, H_s: Array, X_t: Array, y_t: Ids, H_t: Array) -> Triplets:
    """Mine triplets inside the source, inside the target, and from target to source by histograms.

    A row alone in its class is its own positive. A set of rows of one class gives no triplets.
    """
    n_s, parts = len(X_s), []
    for first, queries, y, first_row, rows, y_rows in (
        (0, X_s, y_s, 0, X_s, y_s),
        (n_s, X_t, y_t, n_s, X_t, y_t),
        (n_s, H_t, y_t, 0, H_s, y_s),
    ):
        if len(np.unique(y_rows)) > 1:
            positive, negative = hardest_rows(queries, y, rows, y_rows)
            anchor = first + np.arange(len(queries))
            parts.append((anchor, first_row + positive, first_row + negative))
    return Triplets(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def focal_weights(H: Array, triplets: Triplets, margin: float) -> Array:
    """Return ω of each triplet for projections H: large if the positive is the farther one."""
    anchors = H[triplets.anchor]
    far = np.linalg.norm(anchors - H[triplets.positive], axis=1)
    near = np.linalg.norm(anchors - H[triplets.negative], axis=1)
    return np.expm1(-np.maximum(far - near + margin, 0.0)) ** 2


def triplet_matrix(X: Array, triplets: Triplets, omega: Array) -> Array:
    """Return Σ ω [(x - p)(x - p)ᵀ - (x - n)(x - n)ᵀ]: XᵀLX of a graph with weights ω and -ω."""
    x, p, n = triplets
    ends = (np.concatenate([x, p, x, n]), np.concatenate([p, x, n, x]))
    weights = np.concatenate([omega, omega, -omega, -omega])
    graph = SparseGraph(csr_array((weights, ends), shape=(len(X), len(X))))
    return symmetric_product(X, laplacian(graph, X))


def projection_objective(Q: Array, C: Array, constant: float) -> Objective:
    """Return tr(WᵀQW) - 2 tr(WᵀC) + constant as a function of W, with its gradient."""

    def value_and_gradient(W: Array) -> tuple[float, Array]:
        QW = Q @ W
        return float(np.vdot(W, QW) - 2.0 * np.vdot(W, C)) + constant, 2.0 * (QW - C)

    return value_and_gradient


def class_step(B_s: Array, y: Ids, classification: float, ridge: float) -> Array:
    """A-step: ridge regression of one-hot classes on the codes of the source."""
    Y = one_hot(y, int(y.max()) + 1).toarray()
    return RidgeSolver(B_s, ridge / classification)(Y)


def source_code_step(
    H_s: Array, A: Array, y: Ids, classification: float, quantisation: float
) -> Array:
    """B-step of the source: signs of the best real matrix, (νYAᵀ + θH)(νAAᵀ + θI)⁻¹."""
    wanted = classification * A.T[y] + quantisation * H_s
    relaxed = SPDSolver(classification * (A @ A.T), quantisation)(wanted.T).T
    return signs(relaxed).astype(np.float64)


def solve(
    problem: PWCFProblem, W: Array, B: Array, *, max_iter: int, inner_iter: int
) -> PWCFSolution:
    """Alternate ω, W, A and B, from given projections and signs."""
    X, y, theta, fixed, triplets, margin, classification, ridge = problem
    constant = float(theta.sum()) * B.shape[1]
    A: Array = np.zeros((B.shape[1], int(y.max()) + 1))
    H, C = X @ W, X.T @ (theta[:, None] * B)
    values = []
    for _ in range(max_iter):
        Q = fixed + triplet_matrix(X, triplets, focal_weights(H, triplets, margin))
        W = minimise(projection_objective(Q, C, constant), W, max_iter=inner_iter)
        H = X @ W
        A = class_step(B[: len(y)], y, classification, ridge)
        B = signs(H).astype(np.float64)
        B[: len(y)] = source_code_step(H[: len(y)], A, y, classification, float(theta[0]))
        C = X.T @ (theta[:, None] * B)
        values.append(
            projection_objective(Q, C, constant)(W)[0]
            + class_loss(B[: len(y)], A, y, classification, ridge)
        )
    return PWCFSolution(W, B, A, np.array(values))


def class_loss(B_s: Array, A: Array, y: Ids, classification: float, ridge: float) -> float:
    """Return ν ‖Y - BₛA‖² + ρ ‖A‖²."""
    error = B_s @ A
    error[np.arange(len(y)), y] -= 1.0
    return float(classification * np.vdot(error, error) + ridge * np.vdot(A, A))


def nearest_histograms(H: Array, k: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the k nearest other rows of each row, unordered; ties go to the lower row number.

    The rows hold whole numbers, so squared distances F are exact, and so is the key n F + j by
    which row j is chosen. Results use four bytes each, because k may be large.

    >>> nearest_histograms(np.array([[0.0], [5.0], [1.0], [1.0]]), k=1)[1]
    array([[2],
           [2],
           [3],
           [2]], dtype=int32)
    """
    n, squares = len(H), np.einsum("ij,ij->i", H, H)
    F, columns = np.empty((n, k), np.float32), np.empty((n, k), np.int32)
    step = max(1, _DISTANCES // n)

    def select(start: int) -> None:
        part, own = slice(start, start + step), np.arange(n)[start : start + step]
        D = squares + squares[part, None] - 2.0 * H[part] @ H.T
        key = n * D + np.arange(n)
        key[np.arange(len(own)), own] = np.inf
        columns[part] = np.argpartition(key, k - 1, axis=1)[:, :k]
        F[part] = np.take_along_axis(D, columns[part], axis=1)

    with ThreadPoolExecutor() as pool:  # argpartition releases the GIL
        list(pool.map(select, range(0, n, step)))
    return F, columns


def hardest_rows(queries: Array, y: Ids, rows: Array, y_rows: Ids) -> tuple[Ids, Ids]:
    """Return the farthest row of the class of each query, and the nearest row of another class.

    Such rows must exist. Ties go to the lower row number.

    >>> line, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 0, 1])
    >>> hardest_rows(line[:2], y[:2], line, y)
    (array([2, 2]), array([3, 3]))
    """
    far, near = np.empty(len(y), np.intp), np.empty(len(y), np.intp)
    squares = np.einsum("ij,ij->i", rows, rows)
    step = max(1, _DISTANCES // len(rows))
    for c in np.unique(y):
        members, same = np.flatnonzero(y == c), np.flatnonzero(y_rows == c)
        for start in range(0, len(members), step):
            part = members[start : start + step]
            F = squares - 2.0 * queries[part] @ rows.T
            far[part] = same[F[:, same].argmax(axis=1)]
            F[:, same] = np.inf
            near[part] = F.argmin(axis=1)
    return far, near
