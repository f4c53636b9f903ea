"""Which array library an input belongs to, and the few verbs that the array API lacks.

The numerical code is written once, over the array API: NumPy, torch, array-api-strict. Where a
library needs something of its own, it is said here and nowhere else. Labels, sparse matrices
and searches live on the host unless the data is on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.externals.array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)

__all__ = ["array_namespace", "is_foreign", "is_on_gpu", "like", "row_squares", "to_numpy"]


def is_foreign(x: Any) -> bool:
    """Is x an array of another library than NumPy?"""
    return bool(is_array_api_obj(x)) and not is_numpy_array(x)


def is_on_gpu(x: Any) -> bool:
    """Is x a torch tensor in the memory of a CUDA device?"""
    return bool(is_torch_array(x)) and x.is_cuda


def to_numpy(x: Any) -> NDArray[Any]:
    """The values of x on the host; a NumPy array stands for itself."""
    if is_torch_array(x):
        x = x.detach().cpu().numpy()
    return np.asarray(x)


def like(x: Any, reference: Any, dtype: Any = None) -> Any:
    """x in the library, and on the device, of another array; without a copy where it is there.

    The type of the values stays unless `dtype` is given.

    >>> like([1, 2], np.zeros(1), np.float32)
    array([1., 2.], dtype=float32)
    """
    xp = array_namespace(reference)
    if is_numpy_array(reference):
        return np.asarray(to_numpy(x), dtype=dtype)
    if not is_array_api_obj(x) or array_namespace(x) is not xp:
        x = xp.asarray(np.ascontiguousarray(to_numpy(x)), device=device(reference))
    elif device(x) != device(reference):
        x = x.to(device(reference))
    return x if dtype is None or x.dtype == dtype else xp.astype(x, dtype)


def row_squares(X: Any) -> Any:
    """Squared norm of each row, without a temporary as large as X where the library can.

    >>> row_squares(np.array([[3.0, 4.0]]))
    array([25.])
    """
    if is_numpy_array(X):
        return np.einsum("ij,ij->i", X, X)
    return array_namespace(X).linalg.vecdot(X, X)
