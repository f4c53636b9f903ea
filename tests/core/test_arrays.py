"""Products of rows: the same alone and in a batch, whatever the kernels of the BLAS do."""

import numpy as np
import pytest

from bridgehash._core import arrays


@pytest.mark.parametrize("kernel", [(1, np.float32), (64, np.float32), (64, np.float64)])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200, 1003])
def test_rows_are_multiplied_in_full_groups_or_another_type(monkeypatch, kernel, n):
    monkeypatch.setattr(arrays, "_exact_kernel", lambda dtype: (kernel[0], np.dtype(kernel[1])))
    rng = np.random.default_rng(0)
    Z, P = (rng.normal(size=shape).astype(np.float32) for shape in ((n, 512), (512, 64)))
    H = arrays.rows_product(Z, P)
    assert H.dtype == np.float32
    np.testing.assert_allclose(H, Z.astype(float) @ P.astype(float), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_place_of_a_row_does_not_change_its_product(dtype):
    rng = np.random.default_rng(0)
    x, P = rng.normal(size=(1, 300)).astype(dtype), rng.normal(size=(300, 40)).astype(dtype)
    with arrays.one_blas_thread():
        alone = arrays.rows_product(x, P)
        for n in (2, 67, 130, 1003):
            H = arrays.rows_product(np.repeat(x, n, axis=0), P)
            np.testing.assert_array_equal(H, np.repeat(alone, n, axis=0))
