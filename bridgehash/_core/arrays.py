"""The array library of an input, and the few operations that the array API lacks.

The numerical code is written once, over the array API: NumPy, torch, array-api-strict. Code for a
single library is here and nowhere else. Labels, sparse matrices and searches are on the host unless
the data is on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
from array_api_compat import device as device
from array_api_compat import is_array_api_obj as is_array_api_obj
from array_api_compat import is_numpy_array, is_torch_array
from numpy.typing import NDArray

from .errors import InputError
from .threads import one_blas_thread

_SMALL = 1_000_000  # OpenBLAS sums smaller products in another order
_FULL = 64  # a multiple of the rows that kernels of OpenBLAS take at a time
_IN_CACHE = 1 << 19  # values per block of rows, but at least _ROWS rows: benchmarks/encode.py
_ROWS, _ROWS_ON_DEVICE = 1024, 1 << 18


def array_namespace(*arrays: Any) -> Any:
    """Return the functions of the library of some arrays, for NumPy without a search.

    >>> array_namespace(np.zeros(1)).__name__
    'array_api_compat.numpy'
    """
    if all(type(x) is np.ndarray for x in arrays):
        return array_api_compat.numpy
    return array_api_compat.array_namespace(*arrays)


def is_foreign(x: Any) -> bool:
    """Whether x is an array of a library other than NumPy."""
    if type(x) is np.ndarray:
        return False
    return bool(is_array_api_obj(x)) and not is_numpy_array(x)


def is_on_gpu(x: Any) -> bool:
    """Whether x is a torch tensor on a CUDA device."""
    return bool(is_torch_array(x)) and x.is_cuda


def to_numpy(x: Any) -> NDArray[Any]:
    """Return the values of x as a NumPy array."""
    if is_torch_array(x):
        x = x.detach().cpu().numpy()
    return np.asarray(x)


def like(x: Any, reference: Any, dtype: Any = None) -> Any:
    """Return x in the library, and on the device, of another array; copied only if needed.

    The dtype is kept unless `dtype` is given.

    >>> like([1, 2], np.zeros(1), np.float32)
    array([1., 2.], dtype=float32)
    """
    xp = array_namespace(reference)
    if is_numpy_array(reference):
        return np.asarray(to_numpy(x), dtype=dtype)
    if not is_array_api_obj(x) or array_namespace(x) is not xp:
        values = np.require(to_numpy(x), requirements=["C", "W"])  # torch warns of read-only ones
        x = xp.asarray(values, device=device(reference))
    elif device(x) != device(reference):
        x = x.to(device(reference))
    return x if dtype is None or x.dtype == dtype else xp.astype(x, dtype)


def place(x: Any) -> tuple[str, str]:
    """Return the names of the library and of the device of an array."""
    return array_namespace(x).__name__, str(device(x))


def is_half(x: Any) -> bool:
    """Whether x is a torch tensor of 16-bit floats."""
    return bool(is_torch_array(x)) and x.is_floating_point() and x.dtype.itemsize == 2


def block_rows(X: Any, P: Any) -> int:
    """Return how many rows of X to multiply with P at a time, so that they fit the cache."""
    if not is_numpy_array(X):
        return _ROWS_ON_DEVICE
    return max(_ROWS, _IN_CACHE // max(1, X.shape[1]), _least_rows(P))


def rows_product(Z: Any, P: Any) -> Any:
    """Return Z @ P; a row has the same product alone and in a batch. float32 for 16-bit Z.

    OpenBLAS adds the terms of a small product in another order than those of a large one, so a
    small Z is padded with zero rows. With the kernels of some processors the order also depends on
    the place of a row: see `_exact_kernel`. It always depends on the number of threads: see
    `one_blas_thread`. Other libraries are used as they are.

    >>> rows_product(np.ones((1, 2)), np.eye(2))
    array([[1., 1.]])
    """
    if is_numpy_array(Z):
        step, dtype = _exact_kernel(Z.dtype)
        n = len(Z)
        if dtype != Z.dtype:
            P, H = P.astype(dtype), np.empty((n, P.shape[1]), dtype=Z.dtype)
            size = max(_ROWS, _least_rows(P))
            for some in (slice(start, start + size) for start in range(0, n, size)):
                H[some] = rows_product(Z[some].astype(dtype), P)
            return H
        full = n - n % step
        if full < (least := _least_rows(P)):
            full = 0
        if full == n:
            return Z @ P
        rest = np.zeros((-(-max(n - full, least) // step) * step, Z.shape[1]), dtype=Z.dtype)
        rest[: n - full] = Z[full:]
        product = (rest @ P)[: n - full]
        return product if full == 0 else np.concatenate([Z[:full] @ P, product])
    if not is_half(Z):
        return Z @ P
    xp = array_namespace(Z)
    if Z.is_cuda:  # float32 sums: the threshold would be lost in 16 bits
        return xp.mm(Z, P.to(Z.dtype), out_dtype=xp.float32)
    return Z.to(xp.float32) @ P.to(xp.float32)


@cache
def _exact_kernel(dtype: Any) -> tuple[int, Any]:
    """Return how rows must be multiplied so that their place does not change their product.

    A number of rows, of which each product has a multiple, and a type. AVX2 kernels of OpenBLAS
    add the terms of all rows in one order if there are full groups of rows, but not in float32.
    """
    rng = np.random.default_rng(0)
    x, P = rng.normal(size=(1, 512)).astype(dtype), rng.normal(size=(512, 64)).astype(dtype)
    with one_blas_thread():
        for step, n in ((1, 1003), (_FULL, 16 * _FULL)):
            H = np.repeat(x, n, axis=0) @ P
            if (H[0] == H).all():
                return step, dtype
    return _exact_kernel(np.dtype(np.float64)) if dtype == np.float32 else (1, dtype)


def _least_rows(P: Any) -> int:
    return int(_SMALL // max(1, P.shape[0] * P.shape[1]) + 1)


def by_rows(x: Any) -> Any:
    """Return x in row-major order, which decides how products are rounded."""
    if is_torch_array(x):
        return x.contiguous()
    return np.ascontiguousarray(x) if is_numpy_array(x) else x


def row_norms(X: Any) -> Any:
    """Return the norm of each row, in float32 for 16-bit X.

    >>> row_norms(np.array([[3.0, 4.0]]))
    array([5.])
    """
    xp = array_namespace(X)
    if is_torch_array(X):
        return X.norm(dim=1, dtype=xp.float32 if is_half(X) else None)
    return xp.sqrt(xp.linalg.vecdot(X, X))


def row_squares(X: Any) -> Any:
    """Return the squared norm of each row, in NumPy without a temporary as large as X.

    >>> row_squares(np.array([[3.0, 4.0]]))
    array([25.])
    """
    if is_numpy_array(X):
        return np.einsum("ij,ij->i", X, X)
    return array_namespace(X).linalg.vecdot(X, X)


def spd_solver(Phi: Any, ridge: float) -> Callable[[Any], Any]:
    """Return b ↦ (Φ + ρI)⁻¹ b, for a library other than NumPy."""
    xp = array_namespace(Phi)
    Phi = Phi + ridge * xp.eye(Phi.shape[0], dtype=Phi.dtype, device=device(Phi))
    if is_torch_array(Phi):
        import torch

        L, info = torch.linalg.cholesky_ex(Phi)
        if int(info) != 0:
            raise singular(ridge)
        return lambda b: torch.cholesky_solve(b, L)
    return lambda b: xp.linalg.solve(Phi, b)


def singular(ridge: float) -> np.linalg.LinAlgError:
    """Return the error for a Φ that cannot be factored."""
    return np.linalg.LinAlgError(
        f"the normal matrix is singular at ridge={ridge:g}; increase ridge"
    )


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows of X by number."""
    if is_numpy_array(X):
        return X[rows]
    return array_namespace(X).take(X, like(rows, X), axis=0)


def empty_on(device: str) -> Any:
    """Return an empty array on a torch device; "auto": on a GPU, or of NumPy if there is none."""
    try:
        import torch
    except ImportError as error:
        if device == "auto":
            return np.empty(0)
        raise InputError(
            f"{device!r} needs torch; pip install 'bridgehash[gpu]'", "device"
        ) from error
    if device == "auto":
        return torch.empty(0, device="cuda") if torch.cuda.is_available() else np.empty(0)
    try:
        return torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{device!r} is not available: {reason}", "device") from error


def astype(X: Any, dtype: Any) -> Any:
    """Return X with another dtype; X itself if it has it."""
    return array_namespace(X).astype(X, dtype, copy=False)


def column_means(X: Any) -> Any:
    """Return the mean row, summed in float64."""
    xp = array_namespace(X)
    return astype(xp.sum(X, axis=0, dtype=xp.float64) / X.shape[0], X.dtype)


def kth_smallest(X: Any, k: int) -> Any:
    """Return the k-th smallest value of each row, as a column.

    >>> kth_smallest(np.array([[3.0, 1.0, 2.0]]), 2)
    array([[2.]])
    """
    if is_numpy_array(X):
        return np.partition(X, k - 1, axis=1)[:, k - 1 : k]
    return array_namespace(X).sort(X, axis=1)[:, k - 1 : k]


def balanced_signs(H: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return +1 for the larger half of each column and -1 for the rest, in the dtype of H.

    With an odd number of rows one more is -1; ties go by position.

    >>> balanced_signs(np.array([[0.1], [0.9], [0.4]]))
    array([[-1.],
           [ 1.],
           [-1.]])
    """
    xp, n = array_namespace(H), H.shape[0]
    if n < 2:
        return xp.full_like(H, -1.0)
    k = n - n // 2  # the smallest value of the larger half, in each column
    if is_numpy_array(H):
        cut = np.partition(np.ascontiguousarray(H.T), k, axis=1)[:, k]
    else:
        cut = xp.sort(H, axis=0)[k, :]
    above, equal = cut < H, cut == H
    wanted = n // 2 - xp.count_nonzero(above, axis=0)
    if bool(xp.any(xp.count_nonzero(equal, axis=0) != wanted)):  # ties: the last ones are +1
        from_the_end = xp.flip(
            xp.cumulative_sum(xp.flip(xp.astype(equal, xp.int64), axis=0), axis=0), axis=0
        )
        equal = equal & (from_the_end <= wanted)
    return 2.0 * xp.astype(above | equal, H.dtype) - 1.0
