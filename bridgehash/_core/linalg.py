"""Linear algebra and k-means used by more than one method.

Results do not depend on the order of the samples or on a rotation of the features (signs of
principal directions follow the projected samples, not the loadings), so everything built from these
functions has both properties.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import (
    cholesky,
    eigh,
    get_blas_funcs,
    get_lapack_funcs,
    qr,
    solve_triangular,
)
from threadpoolctl import threadpool_info, threadpool_limits

from .arrays import (
    array_namespace,
    astype,
    is_array_api_obj,
    is_foreign,
    kth_smallest,
    like,
    row_squares,
    singular,
    spd_solver,
    take_rows,
    to_numpy,
)

Array = NDArray[np.floating]

_BLOCKS = 8  # blocks of columns in a symmetric product: (8 + 1) / 16 of the work
_WELL_APART = 1e-6  # smallest squared share of a row not explained by its predecessors
_MANY, _SOME = 2048, 1024  # with more rows and features, PCA uses a sample of rows
_INERTIA = 1e-12  # relative
_TINY = 1e-30
_LARGE = 1 << 28  # bytes; larger matrices are processed in parts
_DENSE_EIGH = 0.25  # above this share of eigenvalues a full decomposition is faster


def pca(X: Array, n_components: int, *others: Array) -> Array:
    """Return principal directions of centred rows, by decreasing variance; at most the rank.

    With more than 2,048 rows of more than 2,048 features, a sample of 1,024 rows is used (or eight
    per direction), spread evenly over the distances from the mean.

    The sign of a direction is chosen so that the third moment of its projections is positive.
    Unlike a rule on the loadings this does not change when the features are rotated, and it
    tends to agree between two domains that show the same things.

    Parameters
    ----------
    X : array of shape (n, d)
        Centred samples.
    n_components : int
        Number of directions.
    others : arrays of shape (n', d)
        More samples of the same space.

    Returns
    -------
    P : array of shape (d, p)
        Orthonormal columns, p = min(n_components, rank of X).

    Examples
    --------
    >>> pca(np.array([[-1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]]), n_components=2)
    array([[1.],
           [0.]])
    """
    return astype(principal(X, n_components, *others), X.dtype)


def principal(X: Array, n_components: int, *others: Array) -> Array:
    """`pca` in float64 for rows of any dtype: later steps may depend on single signs."""
    parts = [X, *others]
    n = sum(part.shape[0] for part in parts)
    if in_memory(X) and min(n, X.shape[1]) > _MANY:
        share = max(_SOME, 8 * n_components) / n
        parts = [sample_by_norm(part, round(share * part.shape[0])) for part in parts]
        n = sum(part.shape[0] for part in parts)
    if n < X.shape[1]:
        rows = as_double(array_namespace(*parts).concat(parts, axis=0))
        values, vectors = leading(rows @ rows.T, n_components)
        P = rows.T @ vectors / values**0.5
        return P * majority_sign(rows @ P)
    C = gram(parts[0])
    for part in parts[1:]:
        C = C + gram(part)
    P = leading(C, n_components)[1]
    return P * majority_sign(*(V for part in parts for V in _projections(part, P)))


def in_memory(X: Any) -> bool:
    """Whether X is an array, rather than rows that are read in blocks."""
    return bool(is_array_api_obj(X))


def as_double(X: Array) -> Array:
    """Return X in float64."""
    return astype(X, array_namespace(X).float64)


def gram(X: Any) -> Array:
    """Return XᵀX in float64."""
    if not in_memory(X):
        return as_double(X.gram())
    C: Any = 0.0
    for part in row_parts(X):
        rows = as_double(X[part, :])
        C = rows.T @ rows + C
    return C


def _projections(X: Any, P: Array) -> Iterator[Array]:
    if not in_memory(X):
        yield as_double(X @ P)
        return
    for part in row_parts(X):
        yield as_double(X[part, :]) @ P


def leading(C: Array, k: int) -> tuple[Array, Array]:
    """Return the k largest eigenvalues (at most the rank) and their vectors."""
    m = C.shape[0]
    k = min(k, m)
    subset = (m - k, m - 1) if k < _DENSE_EIGH * m else None
    values, vectors = eigh(to_numpy(C), subset_by_index=subset, check_finite=False)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    keep = values > values[:1] * m * np.finfo(values.dtype).eps
    return like(values[keep], C), like(vectors[:, keep], C)


def rows_by_norm(X: Any, n: int) -> NDArray[np.intp]:
    """Return the numbers of n rows spread evenly over the norms, or of all rows, by norm.

    The order of the rows does not matter. Norms are compared in float64, so float32 and float64
    rows give the same sample.
    """
    squares = (
        [row_squares(as_double(X[part, :])) for part in row_parts(X)] if in_memory(X) else None
    )
    norms = X.row_squares() if squares is None else np.concatenate([*map(to_numpy, squares)])
    order = np.argsort(norms, kind="stable")
    return order[np.linspace(0, len(order) - 1, min(n, len(order))).round().astype(int)]


def sample_by_norm(X: Any, n: int) -> Array:
    """Return n rows spread evenly over the norms."""
    numbers = rows_by_norm(X, n)
    return take_rows(X, numbers) if in_memory(X) else X.take(numbers)


def project_sample(domains: Sequence[tuple[Any, Array]], n: int) -> Array:
    """Return X P of all domains (X, P), or of a sample of n of their rows, in float64.

    A single different sign changes where ITQ ends, and rounding to float32 can cause one.
    """
    share = min(1.0, n / sum(X.shape[0] for X, _ in domains))
    parts = []
    for X, P in domains:
        rows = X if share == 1.0 and in_memory(X) else sample_by_norm(X, round(share * X.shape[0]))
        parts.append(as_double(rows) @ P)
    return array_namespace(*parts).concat(parts, axis=0)


def majority_sign(*parts: Array) -> Array:
    """Return the sign of the third moment of each column; independent of the order of the rows."""
    xp = array_namespace(*parts)
    moments = sum(xp.sum(V**3, axis=0) for V in parts)
    return xp.where(moments < 0, -xp.ones_like(moments), xp.ones_like(moments))


def unit_rows(X: Array) -> Array:
    """Divide each row by its norm; zero rows stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    xp = array_namespace(X)
    limits = xp.finfo(X.dtype)
    with np.errstate(over="ignore", under="ignore"):
        squares = row_squares(X)
    odd = ~xp.isfinite(squares) | (squares < float(limits.smallest_normal / limits.eps))
    if bool(xp.any(odd)):  # rows so large or so small that their squares overflow or vanish
        largest = xp.max(xp.abs(X), axis=1)
        X = X / xp.where(odd & (largest > 0), largest, xp.ones_like(largest))[:, None]
        squares = row_squares(X)
    return X * (1.0 / xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares))))[:, None]


def mean_square(X: Any) -> float:
    """Return the mean squared norm of the rows.

    >>> mean_square(np.array([[3.0, 4.0], [0.0, 0.0]]))
    12.5
    """
    squares = row_squares(X) if in_memory(X) else X.row_squares()
    xp = array_namespace(squares)
    return float(xp.sum(squares, dtype=xp.float64)) / X.shape[0]


def random_orthonormal(p: int, r: int, rng: np.random.RandomState) -> Array:
    """Draw a p × r matrix uniformly among those with orthonormal columns (rows if p < r).

    >>> Q = random_orthonormal(2, 3, np.random.RandomState(0))
    >>> np.allclose(Q @ Q.T, np.eye(2))
    True
    """
    Q, R = np.linalg.qr(rng.standard_normal((max(p, r), min(p, r))))
    Q = Q * np.sign(np.diag(R))
    return Q if p >= r else Q.T


def procrustes(C: Array, *, within_rank: bool = False) -> Array:
    """Return the matrix with orthonormal columns (or rows) closest to C: argmax tr(QᵀC).

    If C is rank deficient, its null space is filled arbitrarily, or mapped to zero if
    `within_rank`.

    >>> procrustes(np.diag([2.0, 5.0]))
    array([[1., 0.],
           [0., 1.]])
    """
    U, values, Vt = np.linalg.svd(to_numpy(C), full_matrices=False)  # small: on the host
    if within_rank:
        keep = values > values[:1] * max(C.shape) * np.finfo(values.dtype).eps
        U, Vt = U[:, keep], Vt[keep]
    return like(U @ Vt, C)


def itq_rotation(V: Array, R: Array, n_iter: int = 50) -> Array:
    """Return the rotation that minimises the quantisation error ‖sign(VR) - VR‖².

    Iterative quantisation (Gong & Lazebnik 2011), started at R. If V has fewer columns than R, the
    rows of R stay orthonormal instead, so codes may be longer than the rank of the data.
    """
    xp = array_namespace(V)
    for _ in range(n_iter):
        R = turned(R, V.T @ (2.0 * xp.astype(V @ R > 0, V.dtype) - 1.0))
    return R


def turned(R: Array, C: Array) -> Array:
    """Return the rotation closest to C; in the null space of C, R is kept.

    C has a null space if, for example, two bits are equal. Without R, rounding would decide there.
    """
    return procrustes(C + _INERTIA * float(array_namespace(C).max(abs(C))) * R)


def row_space(X: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Return coordinates Z of X in the space its rows span, if that is smaller, and the way back.

    X = Z Qᵀ with Q orthonormal, so norms, distances, principal components and a ridge term are the
    same for Z as for X: solve in n dimensions for Z, then `back(A)` = Q A is the solution for X.
    For n ≥ d, Z is X itself; otherwise Z is zero above its diagonal.
    """
    if X.shape[0] >= X.shape[1]:
        return X, lambda A: A
    if is_foreign(X):
        Q, R = array_namespace(X).linalg.qr(X.T)
        return R.T, lambda A: Q @ A
    coordinates = _row_space_by_cholesky(X)
    if coordinates is not None:
        return coordinates
    Q, R = qr(X.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(R.T), lambda A: Q @ A


def _row_space_by_cholesky(X: Array) -> tuple[Array, Callable[[Array], Array]] | None:
    """`row_space` from XXᵀ in a quarter of the time; None if rows are nearly dependent.

    Rows that sum to zero are spanned by all but the last, X₁. With LLᵀ = X₁X₁ᵀ, Z is L followed by
    the negative sum of its rows, and Q = X₁ᵀL⁻ᵀ.
    """
    n = len(X)
    first = X[:-1]
    G = first @ first.T
    spread = float(np.trace(G)) / n
    if np.abs(X.sum(axis=0)).max() > n * np.finfo(X.dtype).eps * np.sqrt(spread):
        return None
    try:
        L = cholesky(G, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    diagonal = np.square(np.diagonal(L))
    if diagonal.min() < _WELL_APART * diagonal.max():
        return None
    Z = np.vstack([L, -L.sum(axis=0)])

    def back(A: Array) -> Array:
        return first.T @ solve_triangular(L, A, lower=True, trans="T", check_finite=False)

    return Z, back


def product(A: Any, B: Any) -> Any:
    """Return A @ B by SciPy's BLAS, for loops that also use SciPy's LAPACK or scikit-learn.

    NumPy and SciPy load separate BLAS libraries whose idle threads spin for a while after every
    call; alternating between the two halves the speed.

    >>> product(np.eye(2), np.array([[1.0], [2.0]]))
    array([[1.],
           [2.]])
    """
    if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
        return A @ B
    gemm: Any = get_blas_funcs("gemm", (A, B))
    (a, trans_a), (b, trans_b) = (
        (M.T, False) if M.flags.c_contiguous else (M, True) for M in (A, B)
    )
    return gemm(1.0, b, a, trans_a=trans_b, trans_b=trans_a).T  # (AB)ᵀ = BᵀAᵀ, in Fortran order


def row_parts(X: Array) -> list[slice]:
    """Return slices that cover the rows of X, several if X is large.

    >>> row_parts(np.zeros((3, 2)))
    [slice(0, 3, None)]
    """
    n, m = X.shape
    many = isinstance(X, np.ndarray) and X.nbytes > _LARGE
    step = max(1, _LARGE // (8 * m * X.itemsize)) if many else n
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def symmetric_product(X: Array, Y: Array, *, lower: bool = False) -> Array:
    """Return XᵀY, known to be symmetric, at little more than half the cost.

    A quarter of the cost if X is `lower`, that is zero above its diagonal.

    >>> X = np.arange(6.0).reshape(3, 2)
    >>> np.array_equal(symmetric_product(X, 2 * X), 2 * X.T @ X)
    True
    """
    if is_foreign(X):
        return X.T @ Y
    m = X.shape[1]
    C = np.empty((m, m), dtype=np.result_type(X, Y))
    YT = np.ascontiguousarray(Y.T)
    for low, high in pairwise(m * i // _BLOCKS for i in range(_BLOCKS + 1)):
        top = low if lower else 0
        columns = np.ascontiguousarray(X[top:, low:high])
        C[:high, low:high] = product(np.ascontiguousarray(YT[:high, top:]), columns)
        C[low:high, :low] = C[:low, low:high].T
    return C


def sinkhorn(K: Array, p: Array, q: Array, n_iter: int) -> Array:
    """Scale the rows and columns of K so that they sum to p and q; the columns exactly.

    >>> sinkhorn(np.array([[4.0, 1.0], [1.0, 1.0]]), np.ones(2), np.ones(2), 50).round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
    """
    v = np.ones_like(q)
    for _ in range(n_iter):
        u = p / np.maximum(K @ v, _TINY)
        v = q / np.maximum(u @ K, _TINY)
    return u[:, None] * K * v


class SPDSolver:
    """Solve (Φ + ρI) x = b for a symmetric positive definite Φ, which is factored in place."""

    def __init__(self, Phi: Array, ridge: float = 0.0) -> None:
        if is_foreign(Phi):
            self._solve = spd_solver(Phi, ridge)
            return
        Phi.flat[:: len(Phi) + 1] += ridge
        functions: Any = get_lapack_funcs(("potrf", "potrs"), (Phi,))
        potrf, potrs = functions
        # The transpose is the same matrix in Fortran order, so LAPACK copies nothing.
        factor, info = potrf(Phi.T, lower=True, clean=False, overwrite_a=True)
        if info != 0:
            raise singular(ridge)
        self._solve = lambda b: np.ascontiguousarray(potrs(factor, b, lower=True)[0])

    def __call__(self, b: Array) -> Array:
        return self._solve(b)


class RidgeSolver:
    """Solve min ‖XP - Y‖² + ρ‖P‖² for one X and any Y; the smaller of XᵀX and XXᵀ is factored.

    >>> RidgeSolver(np.array([[1.0], [2.0]]), ridge=5.0)(np.array([[2.0], [4.0]]))
    array([[1.]])
    """

    def __init__(self, X: Array, ridge: float) -> None:
        self._X = X
        self._wide = X.shape[0] < X.shape[1]
        self._solver = SPDSolver(X @ X.T if self._wide else X.T @ X, ridge)

    def __call__(self, Y: Array) -> Array:
        if self._wide:
            return self._X.T @ self._solver(Y)
        return self._solver(self._X.T @ Y)


def k_means(X: Array, start: Array, n_iter: int) -> Array:
    """Run k-means from given centres for at most n_iter iterations; return the centres in order."""
    if n_iter == 0:
        return start
    model = _fitted_k_means(X, len(start), 0, init=start, max_iter=n_iter, tol=0.0)
    return model.cluster_centers_


def drawn_clusters(
    X: Array, k: int, rng: np.random.RandomState, n_init: int = 1
) -> NDArray[np.intp]:
    """Return the cluster of each row, numbered from 0 without empty ones (best of n_init tries)."""
    seed = int(rng.randint(2**31 - 1))
    model = _fitted_k_means(X, k, seed, n_init=n_init, max_iter=30)
    return np.unique(model.labels_, return_inverse=True)[1]


def _fitted_k_means(X: Array, k: int, seed: int, n_init: int = 1, **settings: Any) -> Any:
    """Use at most two threads: the partial sums of more are added in a random order."""
    from sklearn.cluster import KMeans  # slow to import, and only a fit needs it
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(k, n_init=n_init, random_state=seed, **settings)
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    with threadpool_limits(min([2, *pools]), user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # empty clusters are fine
        return model.fit(X)


def expected_places(D: Array, k: int) -> Array:
    """Return how many of the k first places each column of a row of distances has in expectation.

    Columns at the k-th distance share the places that the nearer ones leave.

    >>> expected_places(np.array([[0.0, 2.0, 2.0, 4.0]]), 2)
    array([[1. , 0.5, 0.5, 0. ]])
    """
    xp = array_namespace(D)
    dtype = D.dtype if xp.isdtype(D.dtype, "real floating") else xp.float64
    kth = kth_smallest(D, k)
    nearer, tied = (xp.astype(chosen, dtype) for chosen in (kth > D, kth == D))
    left = (k - xp.sum(nearer, axis=1)) / xp.sum(tied, axis=1)
    return nearer + tied * left[:, None]
