"""Products of sparse matrices on a GPU equal those of SciPy and are reproducible."""

import numpy as np
import pytest
from scipy.sparse import csr_array

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'bridgehash[gpu]'")

from bridgehash.neighbors.cuda.sparse import SparseMatrix, joined  # noqa: E402
from bridgehash.neighbors.cuda.sparse import row_shares as sparse_row_shares  # noqa: E402
from bridgehash.neighbors.graphs import KNNGraph, from_rows, row_shares  # noqa: E402
from bridgehash.neighbors.search import nearest_others  # noqa: E402

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def edges(rng, n, m, n_edges, dtype, hub=False):
    rows, columns = rng.integers(n, size=n_edges), rng.integers(m, size=n_edges)
    if hub:
        rows[rng.random(n_edges) < 0.5] = n // 2
        rows[rng.random(n_edges) < 0.1] = n - 1
    return rows, columns, rng.normal(size=n_edges).astype(dtype)


def both(rows, columns, weights, shape, device):
    """The matrix here, in float64, and there."""
    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows[order], np.arange(shape[0] + 1))
    parts = (starts, columns[order].astype(np.int32), weights[order])
    there = SparseMatrix(*(torch.from_numpy(part).to(device) for part in parts), shape)
    return csr_array((weights.astype(np.float64), (rows, columns)), shape=shape), there


def assert_equal_products(here, there, H, device):
    """H is in the type of the product."""
    product = there @ torch.from_numpy(H).to(device)
    assert product.dtype == torch.from_numpy(H).dtype
    tolerance = TOLERANCE[H.dtype.type]
    expected, size = here @ H.astype(np.float64), abs(here) @ abs(H).astype(np.float64) + 1
    np.testing.assert_array_less(abs(product.cpu().numpy() - expected), tolerance * size)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("d", [1, 3, 16, 64, 65, 512, 700])
def test_a_product_is_that_of_scipy(device, rng, dtype, d):
    here, there = both(*edges(rng, 300, 200, 3000, dtype), (300, 200), device)
    H, G = (rng.normal(size=(n, d)).astype(dtype) for n in (200, 300))
    assert_equal_products(here, there, H, device)
    assert_equal_products(here.T, there.T, G, device)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("d", [1, 64, 300])
def test_rows_with_very_many_entries_are_added_up(device, rng, dtype, d):
    here, there = both(*edges(rng, 500, 400, 60_000, dtype, hub=True), (500, 400), device)
    H, G = (rng.normal(size=(n, d)).astype(dtype) for n in (400, 500))
    assert int(there.starts.diff().max()) > 20_000
    assert_equal_products(here, there, H, device)
    assert_equal_products(here.T, there.T, G, device)


@pytest.mark.parametrize("length", [511, 512, 513, 1024, 1025])
def test_rows_around_the_length_of_a_piece_are_added_up(device, rng, length):
    rows = np.repeat(np.arange(3), [length, 5, length])
    columns, weights = rng.integers(50, size=len(rows)), np.ones(len(rows), np.float32)
    here, there = both(rows, columns, weights, (4, 50), device)
    H = rng.integers(9, size=(50, 20)).astype(np.float32)
    product = (there @ torch.from_numpy(H).to(device)).cpu().numpy()
    np.testing.assert_array_equal(product, here @ H)  # whole numbers: exact


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_product_has_the_same_bits_every_time(device, rng, dtype):
    _, there = both(*edges(rng, 500, 400, 60_000, dtype, hub=True), (500, 400), device)
    H = torch.from_numpy(rng.normal(size=(400, 64)).astype(dtype)).to(device)
    first = there @ H
    assert all(torch.equal(there @ H, first) for _ in range(5))


def test_the_order_of_the_edges_does_not_matter(device, rng):
    keys = rng.choice(300 * 200, 3000, replace=False)
    rows, columns, weights = keys // 200, keys % 200, rng.normal(size=3000)
    order = rng.permutation(3000)
    H = torch.from_numpy(rng.normal(size=(200, 64))).to(device)
    _, one = both(rows, columns, weights, (300, 200), device)
    _, other = both(rows[order], columns[order], weights[order], (300, 200), device)
    assert torch.equal(one @ H, other @ H)


def test_a_matrix_and_its_transpose_are_converted_to_scipy(device, rng):
    here, there = both(*edges(rng, 30, 20, 100, np.float32), (30, 20), device)
    np.testing.assert_allclose(there.to_scipy().toarray(), here.toarray(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(there.T.to_scipy().toarray(), here.T.toarray(), atol=1e-6)
    assert there.T.T is there
    assert there.T is there.T
    assert (there.shape, there.T.shape) == ((30, 20), (20, 30))


def test_rows_of_one_length_need_no_edges(device, rng):
    weights, columns = rng.random((40, 3)), rng.integers(25, size=(40, 3))
    there = SparseMatrix.from_rows(
        torch.from_numpy(weights).to(device), torch.from_numpy(columns).to(device), 25
    )
    here = csr_array((weights.ravel(), (np.arange(40).repeat(3), columns.ravel())), shape=(40, 25))
    assert_equal_products(here, there, rng.normal(size=(25, 7)), device)
    assert_equal_products(here.T, there.T, rng.normal(size=(40, 7)), device)


def test_weights_in_float32_multiply_a_matrix_in_float64(device, rng):
    here, there = both(*edges(rng, 30, 20, 100, np.float32), (30, 20), device)
    assert_equal_products(here, there, rng.normal(size=(20, 5)), device)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_row_sums_are_those_of_scipy(device, rng, dtype):
    here, there = both(*edges(rng, 300, 200, 3000, dtype, hub=True), (300, 200), device)
    sums = there.row_sums()
    assert sums.shape == (300,)
    np.testing.assert_allclose(sums.cpu().numpy(), here.sum(axis=1), rtol=1e-5, atol=1e-4)


def test_a_matrix_without_entries_is_zero(device):
    starts = torch.zeros(5, dtype=torch.int64, device=device)
    W = SparseMatrix(starts, starts[:0].int(), starts[:0].float(), (4, 3))
    assert not (W @ torch.ones(3, 2, device=device)).any()
    assert not W.T.row_sums().any()
    assert W.to_scipy().nnz == 0


def test_a_vector_is_a_factor_too(device, rng):
    here, there = both(*edges(rng, 30, 20, 100, np.float64), (30, 20), device)
    h = rng.normal(size=20)
    product = there @ torch.from_numpy(h).to(device)
    np.testing.assert_allclose(product.cpu().numpy(), here @ h, atol=1e-12)


def test_a_factor_of_another_size_is_refused(device, rng):
    _, there = both(*edges(rng, 30, 20, 100, np.float64), (30, 20), device)
    with pytest.raises(ValueError, match="do not match"):
        there @ torch.ones(21, 2, device=device)


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_joined_rows_are_those_of_the_graph_of_neighbours(device, rng, mutual, dtype):
    X = rng.integers(4, size=(300, 3)).astype(dtype)  # with ties
    k, n = 5, len(X)
    F, columns = nearest_others(X, 2 * k)
    edge = F[:, k - 1 : k] * (1 + 1e-9) + np.finfo(dtype).eps * (X**2).sum() / n >= F
    expected = KNNGraph(k, mutual=mutual).build(X).matrix.toarray()
    parts = (torch.from_numpy(np.asarray(part)).to(device) for part in (columns, edge))
    W = joined(*parts, mutual=mutual)
    np.testing.assert_array_equal(W.to_scipy().toarray(), expected)
    assert W.weights.dtype == torch.float32


def test_row_shares_are_those_of_scipy(device, rng):
    n, m, k = 300, 200, 7
    A, B = rng.random((n, k)), rng.random((m, k))
    to_m, to_n = (rng.integers(0, width, size=(rows, k)) for rows, width in ((n, m), (m, n)))
    A[5], to_n[to_n == 5] = 0.0, 6  # a row without weights
    expected = row_shares(from_rows(A, to_m, m), from_rows(B, to_n, n)).toarray()
    tensors = [torch.tensor(x, device=device) for x in (A, to_m, B, to_n)]
    W = SparseMatrix.from_rows(*tensors[:2], m)
    V = SparseMatrix.from_rows(*tensors[2:], n)
    shares = sparse_row_shares(W, V)
    np.testing.assert_allclose(shares.to_scipy().toarray(), expected, rtol=1e-12)
    np.testing.assert_allclose(shares.row_sums().cpu(), np.arange(n) != 5)


def test_a_row_that_names_itself_is_joined_to_itself(device):
    columns = torch.tensor([[0, 1], [0, 1]], device=device)
    edge = torch.tensor([[True, False], [True, False]], device=device)
    for mutual, expected in ((False, [[1, 1], [1, 0]]), (True, [[1, 0], [0, 0]])):
        np.testing.assert_array_equal(joined(columns, edge, mutual).to_scipy().toarray(), expected)
