"""Graphs as linear operators: the solver needs `@`, `.T` and `.degrees`.

`KNNGraph`, `LabelGraph` and `NoGraph` are choices with parameters; `build` turns one into an
operator for given samples. Neighbours are stored as a sparse matrix, of SciPy on the host and of
`neighbors.cuda` on a GPU. Labels are stored in factored form: two samples of one class are joined,
so W = Y Yᵀ with Y the one-hot labels, and W is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from .._core.arrays import array_namespace, is_on_gpu, like, to_numpy
from .._core.errors import InputError
from .._core.linalg import Array, mean_square
from .._core.validation import Flag, OneOf, Range, Rules
from .search import N_PROBE, NProbe, find_other_neighbors


class HostMatrix:
    """A SciPy matrix that multiplies arrays of any library; copied to a GPU once."""

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix
        self._copies: dict[Any, Any] = {}

    def __matmul__(self, H: Any) -> Any:
        if not is_on_gpu(H):
            return like(self.matrix @ to_numpy(H), H, H.dtype)
        where = H.device, H.dtype
        if where not in self._copies:
            from .cuda.sparse import SparseMatrix

            starts = like(self.matrix.indptr.astype(np.int64), H)
            columns = like(self.matrix.indices.astype(np.int32), H)
            weights = like(self.matrix.data, H, H.dtype)
            self._copies[where] = SparseMatrix(starts, columns, weights, self.matrix.shape)
        return self._copies[where] @ H


def operator(matrix: Any) -> Any:
    """Return an object that multiplies arrays by a sparse matrix of either kind."""
    return HostMatrix(matrix) if isinstance(matrix, csr_array) else matrix


def from_rows(weights: Any, columns: Any, width: int) -> Any:
    """Build a matrix with k entries per row from (n, k) weights and their columns."""
    if is_on_gpu(weights):
        from .cuda.sparse import SparseMatrix

        return SparseMatrix.from_rows(weights, columns, width)
    data, places = to_numpy(weights), to_numpy(columns)
    n, k = data.shape
    starts = np.arange(0, n * k + 1, k)
    return csr_array((data.ravel(), places.ravel(), starts), shape=(n, width))


def joined(columns: Any, edge: Any, *, mutual: bool, kind: Any) -> Any:
    """Build a symmetric 0/1 matrix that joins i and j if `columns` of one contains the other.

    `edge` marks the entries of `columns` that count; with `mutual` both rows must contain each
    other. The values have the type of the array `kind`.
    """
    if is_on_gpu(columns):
        from .cuda import sparse

        return sparse.joined(columns, edge, mutual=mutual, dtype=kind.dtype)
    places, counts = to_numpy(columns), to_numpy(edge)
    n = len(places)
    rows = np.broadcast_to(np.arange(n)[:, None], places.shape)[counts]
    ones = np.ones(len(rows), dtype=to_numpy(kind[:0, :]).dtype)
    near = csr_array((ones, (rows, places[counts])), shape=(n, n))
    return (near.minimum if mutual else near.maximum)(near.T).tocsr()


_SMALLEST_SUM = 1e-30  # of the weights of a row that is divided by it


def row_shares(A: Any, B: Any) -> Any:
    """Return A + Bᵀ with each row divided by its sum, for matrices made by `from_rows`.

    A row without weights stays so.

    >>> A, B = csr_array([[1.0, 0.0]]), csr_array([[1.0], [1.0]])
    >>> row_shares(A, B).toarray()
    array([[0.66666667, 0.33333333]])
    """
    if not isinstance(A, csr_array):
        from .cuda import sparse

        return sparse.row_shares(A, B)
    total = (A + B.T).tocsr()
    sums = np.maximum(np.asarray(total.sum(axis=1)).ravel(), _SMALLEST_SUM)
    total.data /= np.repeat(sums, np.diff(total.indptr))
    return total


_TIE = 1e-9  # relative; distances this close count as equal


class Graph(Protocol):
    """Non-negative weights between rows and columns, used as a linear operator."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def degrees(self) -> Array:
        """Sum of the weights of each row."""

    @property
    def penalty(self) -> float:
        """Σ γ_i ‖w_i‖² / λ of Eq. 6 for a learned bipartite graph, otherwise zero."""

    @property
    def T(self) -> Graph: ...

    def __matmul__(self, H: Array) -> Array: ...

    def products(self, H: Array, parts: list[slice]) -> Iterator[Array]:
        """Yield the rows of W H, part by part."""

    def smoothness(self, X: Any) -> Array:
        """Return XᵀLX for rows that are read in blocks."""


class SparseGraph:
    """A sparse matrix of weights.

    Parameters
    ----------
    matrix : sparse array of shape (n_rows, n_columns)
        Non-negative weights.
    degrees : array of shape (n_rows,), optional
        Row sums, if known exactly.
    penalty : float, default=0.0
        See `Graph.penalty`.
    """

    def __init__(self, matrix: Any, degrees: Array | None = None, penalty: float = 0.0) -> None:
        self.matrix = matrix
        if degrees is None and isinstance(matrix, csr_array):
            degrees = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
        self.degrees: Array = matrix.row_sums() if degrees is None else degrees
        self.penalty = penalty
        self._operator = operator(matrix)

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns

    @cached_property
    def T(self) -> SparseGraph:
        T = self.matrix.T
        return SparseGraph(T.tocsr() if isinstance(self.matrix, csr_array) else T)

    def __matmul__(self, H: Array) -> Array:
        return self._operator @ H

    def products(self, H: Array, parts: list[slice]) -> Iterator[Array]:
        """Yield the rows of W H, part by part."""
        for part in parts:
            yield operator(self.matrix[part]) @ H

    def smoothness(self, X: Any) -> Array:
        """Return XᵀLX for rows that are read in blocks."""
        return X.laplacian_gram(self.matrix, self.degrees)


class FactoredGraph:
    """A graph in factored form: W = left @ right.T, each of shape (rows, classes)."""

    penalty = 0.0

    def __init__(self, left: csr_array, right: csr_array) -> None:
        self.left, self.right = left, right
        self._left, self._right_T = operator(left), operator(right.T.tocsr())
        self.degrees: Array = left @ np.asarray(right.sum(axis=0)).ravel()

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[0]

    @cached_property
    def T(self) -> FactoredGraph:
        return FactoredGraph(self.right, self.left)

    def __matmul__(self, H: Array) -> Array:
        return self._left @ (self._right_T @ H)

    def products(self, H: Array, parts: list[slice]) -> Iterator[Array]:
        """Yield the rows of W H, part by part."""
        inner = self._right_T @ H
        for part in parts:
            yield operator(self.left[part]) @ inner

    def smoothness(self, X: Any) -> Array:
        """Return XᵀLX for rows that are read in blocks."""
        return X.gram(self.degrees) - (X.T @ self.left) @ (X.T @ self.right).T


def on_host(graph: Graph) -> Graph:
    """Return the graph with its weights in a SciPy matrix; other graphs are unchanged."""
    if not isinstance(graph, SparseGraph):
        return graph
    W = graph.matrix if isinstance(graph.matrix, csr_array) else graph.matrix.to_scipy()
    return SparseGraph(W, to_numpy(graph.degrees), graph.penalty)


def laplacian(graph: Graph, H: Array) -> Array:
    """Return L H with L = D - W, the Laplacian of a domain's graph; L is never stored.

    >>> path = SparseGraph(csr_array([[0.0, 1.0], [1.0, 0.0]]))
    >>> laplacian(path, np.array([[1.0], [3.0]]))
    array([[-2.],
           [ 2.]])
    """
    LH = like(graph.degrees, H, H.dtype)[:, None] * H
    LH -= graph @ H
    return LH


def one_hot(y: NDArray[np.intp], n_classes: int) -> csr_array:
    """Return the one-hot memberships of class ids; a negative id belongs to no class."""
    rows = np.flatnonzero(y >= 0)
    ones: Array = np.ones(len(rows))
    return csr_array((ones, (rows, y[rows])), shape=(len(y), n_classes))


def label_graph(y_rows: NDArray[np.intp], y_columns: NDArray[np.intp]) -> FactoredGraph:
    """Join rows and columns of the same class with weight one (Eqs. 11-13)."""
    n_classes = 1 + max(y_rows.max(initial=-1), y_columns.max(initial=-1))
    return FactoredGraph(one_hot(y_rows, n_classes), one_hot(y_columns, n_classes))


class KNNGraph(BaseEstimator):
    """Symmetric k-NN graph of a domain with weights 0 and 1 (Eqs. 7-8).

    Samples tied with the last neighbour are neighbours too (at most twice as many), so that neither
    the order of the samples nor rounding decides.

    Parameters
    ----------
    n_neighbors : int or "auto", default=10
        η_k of the paper, at most n - 1. "auto": 20 up to 2,000 rows, then in proportion to the
        cube root of their number, at most 60.
    mutual : bool, default=False
        False: join two samples if either is a neighbour of the other, as in the paper. True: only
        if both are, which leaves out the hubs of noisy features.
    n_probe : int, "auto" or None, default="auto"
        None compares all pairs of rows. A number searches this many cells of an inverted file.
        "auto" compares all pairs up to 50,000 rows, and otherwise chooses a number of cells that
        finds 90 % of the neighbours.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [3.0]])
    >>> KNNGraph(n_neighbors=1).build(line).matrix.toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    >>> KNNGraph(n_neighbors=1, mutual=True).build(line).degrees
    array([1., 1., 0.])
    """

    for_any_rows = True  # `build` works for a part of the rows too
    _rules: ClassVar[Rules] = {
        "n_neighbors": OneOf(("auto",), number=Range(1, kind=Integral)),
        "mutual": Flag(),
        "n_probe": N_PROBE,
    }

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = 10,
        mutual: bool = False,
        n_probe: NProbe = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mutual = mutual
        self.n_probe = n_probe

    def build(self, X: Array, y: NDArray[np.intp] | None = None) -> SparseGraph:
        """Build the graph over the rows of X; labels are ignored."""
        n = X.shape[0]
        wanted = neighbors_for(n) if isinstance(self.n_neighbors, str) else self.n_neighbors
        k = min(wanted, n - 1)
        F, columns = find_other_neighbors(X, min(2 * k, n - 1), self.n_probe)
        eps = float(array_namespace(F).finfo(F.dtype).eps)
        reach = F[:, k - 1 : k] * (1 + _TIE) + eps * mean_square(X)
        return SparseGraph(joined(columns, reach >= F, mutual=self.mutual, kind=F))


def neighbors_for(n: int) -> int:
    """Return the number of neighbours for n rows: a denser sample allows more of them.

    >>> [neighbors_for(n) for n in (100, 2000, 20_000, 10**6)]
    [20, 20, 43, 60]
    """
    return min(60, max(20, round(20.0 * (n / 2000.0) ** (1.0 / 3.0))))


class NoGraph(BaseEstimator):
    """No edges: for a domain whose structure term is switched off."""

    for_any_rows = True

    def build(self, X: Array, y: NDArray[np.intp] | None = None) -> SparseGraph:
        """Build a graph over the rows of X without edges."""
        n = X.shape[0]
        return SparseGraph(csr_array((n, n)))


class LabelGraph(BaseEstimator):
    """Join samples of one class (Eqs. 11, 13).

    Parameters
    ----------
    normalize : bool, default=False
        False: weight one, as in the paper. True: one divided by the size of the class, so that
        neither the number of rows nor large classes outweigh the other terms.
    """

    needs_labels = True
    for_any_rows = True
    _rules: ClassVar[Rules] = {"normalize": Flag()}

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def build(self, X: Array, y: NDArray[np.intp] | None) -> FactoredGraph:
        """Build the graph over the rows of X with class ids y (negative: unknown, no edges)."""
        if y is None:
            raise InputError("missing; a label graph needs labels", "y")
        graph = label_graph(y, y)
        if not self.normalize:
            return graph
        sizes = np.maximum(np.asarray(graph.right.sum(axis=0)).ravel(), 1.0)
        return FactoredGraph(csr_array(graph.left / sizes), graph.right)
