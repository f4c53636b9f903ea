"""Graphs as operators: what the solver needs of a graph is `@`, `.T` and `.degrees`.

A `KNNGraph` or `LabelGraph` is a choice with its parameters; `build` turns it into an operator for
given samples. Neighbours are kept as a sparse matrix, labels in factored form: two samples
of one class are joined, so W = Y Yᵀ with Y the one-hot labels, and W is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from ._validation import Flag, Range, Rules
from ._xp import array_namespace, like, to_numpy
from .linalg import Array, mean_square
from .near import N_PROBE, NProbe, near_others
from .sparse import as_scipy, joined, operator, row_sums, transposed

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
        """Rows of W H, some at a time."""

    def smoothness(self, X: Any) -> Array:
        """XᵀLX of rows that are read in blocks."""


class SparseGraph:
    """A graph with few edges: a sparse matrix of weights.

    `degrees` may be given where they are known exactly: one, for the rows of a learned graph.
    """

    def __init__(self, matrix: Any, degrees: Array | None = None, penalty: float = 0.0) -> None:
        self.matrix = matrix
        self.degrees: Array = row_sums(matrix) if degrees is None else degrees
        self.penalty = penalty
        self._operator = operator(matrix)

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns

    @cached_property
    def T(self) -> SparseGraph:
        return SparseGraph(transposed(self.matrix))

    def __matmul__(self, H: Array) -> Array:
        product: Array = self._operator @ H
        return product

    def products(self, H: Array, parts: list[slice]) -> Iterator[Array]:
        """Rows of W H, some at a time."""
        for part in parts:
            yield operator(self.matrix[part]) @ H

    def smoothness(self, X: Any) -> Array:
        """XᵀLX of rows that are read in blocks."""
        gram: Array = X.laplacian_gram(self.matrix, self.degrees)
        return gram


class FactoredGraph:
    """A graph of memberships: W = left @ right.T, each of shape (rows, classes)."""

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
        product: Array = self._left @ (self._right_T @ H)
        return product

    def products(self, H: Array, parts: list[slice]) -> Iterator[Array]:
        """Rows of W H, some at a time."""
        inner = self._right_T @ H
        for part in parts:
            yield operator(self.left[part]) @ inner

    def smoothness(self, X: Any) -> Array:
        """XᵀLX of rows that are read in blocks."""
        gram: Array = X.gram(self.degrees) - (X.T @ self.left) @ (X.T @ self.right).T
        return gram


def on_host(graph: Graph) -> Graph:
    """The same graph with its weights in a SciPy matrix; other kinds are there already."""
    if not isinstance(graph, SparseGraph):
        return graph
    return SparseGraph(as_scipy(graph.matrix), to_numpy(graph.degrees), graph.penalty)


def laplacian(graph: Graph, H: Array) -> Array:
    """L H with L = D - W, the Laplacian of a domain's graph; L itself is never stored.

    >>> path = SparseGraph(csr_array([[0.0, 1.0], [1.0, 0.0]]))
    >>> laplacian(path, np.array([[1.0], [3.0]]))
    array([[-2.],
           [ 2.]])
    """
    LH = like(graph.degrees, H, H.dtype)[:, None] * H
    LH -= graph @ H
    return LH


def one_hot(y: NDArray[np.intp], n_classes: int) -> csr_array:
    """Memberships of class ids 0..n_classes-1; a row whose id is negative belongs to none."""
    rows = np.flatnonzero(y >= 0)
    ones: Array = np.ones(len(rows))
    return csr_array((ones, (rows, y[rows])), shape=(len(y), n_classes))


def label_graph(y_rows: NDArray[np.intp], y_columns: NDArray[np.intp]) -> FactoredGraph:
    """Weight one between a row and a column of the same class (Eqs. 11-13), zero otherwise."""
    n_classes = 1 + max(y_rows.max(initial=-1), y_columns.max(initial=-1))
    return FactoredGraph(one_hot(y_rows, n_classes), one_hot(y_columns, n_classes))


def label_contrast(graph: FactoredGraph, H: Array) -> Array:
    """S H with S = 2 W - 11ᵀ for a label graph W: +1 for rows of one class, -1 for others.

    >>> y = np.array([0, 0, 1])
    >>> label_contrast(label_graph(y, y), np.eye(3))
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    SH = 2.0 * (graph @ H)
    SH -= H.sum(axis=0)
    return SH


class KNNGraph(BaseEstimator):
    """Symmetric k-NN graph of a domain with weights 0 and 1 (Eqs. 7-8).

    Samples tied with the last neighbour are neighbours too (at most as many again), so that
    neither the order of the samples nor rounding decides who is one.

    Parameters
    ----------
    n_neighbors : int, default=10
        η_k of the paper; lowered to n - 1 for fewer samples.
    mutual : bool, default=False
        False: two samples are joined if either is among the nearest of the other, as in the
        paper. True: only if both are, which leaves out the hubs that noisy features have.
    n_probe : int, "auto" or None, default="auto"
        None searches all rows, a number so many cells of an inverted file; "auto" does the first
        up to 50,000 rows and finds a number for 90 % of the neighbours beyond (`bridgehash.near`).

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

    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "mutual": Flag(),
        "n_probe": N_PROBE,
    }

    def __init__(
        self, n_neighbors: int = 10, mutual: bool = False, n_probe: NProbe = "auto"
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mutual = mutual
        self.n_probe = n_probe

    def build(self, X: Array, y: NDArray[np.intp] | None = None) -> SparseGraph:
        """The graph over the rows of X; labels are ignored."""
        n = X.shape[0]
        k = min(self.n_neighbors, n - 1)
        F, columns = near_others(X, min(2 * k, n - 1), self.n_probe)
        eps = float(array_namespace(F).finfo(F.dtype).eps)
        reach = F[:, k - 1 : k] * (1 + _TIE) + eps * mean_square(X)
        return SparseGraph(joined(columns, reach >= F, mutual=self.mutual, kind=F))


class NoGraph(BaseEstimator):
    """A domain without a graph of its own: for large ones whose structure term is switched off."""

    def build(self, X: Array, y: NDArray[np.intp] | None = None) -> SparseGraph:
        """A graph over the rows of X without edges."""
        n = X.shape[0]
        return SparseGraph(csr_array((n, n)))


class LabelGraph(BaseEstimator):
    """Graph of a labelled domain: samples of one class are joined with weight one (Eqs. 11, 13)."""

    needs_labels = True

    def build(self, X: Array, y: NDArray[np.intp] | None) -> FactoredGraph:
        """The graph over the rows of X, whose class ids are y (negative: unknown, no edges)."""
        if y is None:
            raise ValueError("a label graph needs labels")
        return label_graph(y, y)
