"""A matrix in blocks does what the matrix in memory does, with the same results."""

from __future__ import annotations

import pickle
import re
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from bridgehash.ath.features import Features
from bridgehash.models.feature_maps import UnitRows
from bridgehash.neighbors.graphs import KNNGraph, label_graph, laplacian
from bridgehash.neighbors.search import nearest_others
from bridgehash.streaming import tasks
from bridgehash.streaming.blocks import as_blocks
from bridgehash.streaming.mappers import current_mapper, map_serially, use_mapper
from bridgehash.streaming.operator import BlockRows

N, M, R = 61, 7, 3
CLOSE = {np.float64: 1e-10, np.float32: 2e-5}  # relative to the largest value
CUTS = ([*range(0, N, 3), N], [0, 1, 20, 22, 53, N], [0, N])  # small, uneven, one block
KINDS = ("plain", "far from zero", "zero rows")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def data(kind="plain", dtype=np.float64):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, M)) * rng.uniform(0.5, 2.0, size=M)
    if kind == "far from zero":
        X += 1e4 * rng.normal(size=M)
    elif kind == "zero rows":
        X[[0, 21, 40]] = 0.0
    return X.astype(dtype)


def cut(X, cuts):
    return as_blocks([X[a:b] for a, b in pairwise(cuts)])


def in_memory(X, unit_rows):
    """Standardise X as ATH does."""
    Z = UnitRows().fit_transform(X) if unit_rows else X
    return Features.standardised(Z, Z.mean(axis=0, dtype=np.float64).astype(Z.dtype), [], "X")


def close(result, expected, dtype=np.float64):
    assert result.shape == expected.shape
    assert result.dtype == dtype
    tolerance = CLOSE[dtype] * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


def cached(blocks, n_bytes):
    blocks.cache_bytes = n_bytes
    return blocks


def pairs():
    """Yield a matrix in blocks and the same in memory, for each way to cut it."""
    X = data()
    for cuts in CUTS:
        yield BlockRows.standardised(cut(X, cuts), True), in_memory(X, True).X


@pytest.fixture
def pair():
    return list(pairs())[1]


# --- equal to the matrix in memory


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", CLOSE)
def test_all_results_are_those_of_the_matrix_in_memory(kind, dtype, rng):
    raw = data(kind, dtype)
    A, B = rng.normal(size=(M, R)).astype(dtype), rng.normal(size=(N, R)).astype(dtype)
    rows_taken = [60, 0, 20, 21, 21, 3]
    for unit_rows in (True, False):
        expected = in_memory(raw, unit_rows)
        X = expected.X
        graph = KNNGraph(n_neighbors=3).build(X)
        for cuts in CUTS:
            rows = BlockRows.standardised(cut(raw, cuts), unit_rows)
            close(rows.mean, expected.mean, dtype)
            assert rows.scale == pytest.approx(expected.scale, rel=CLOSE[dtype])
            assert (len(rows), rows.ndim, rows.shape, rows.dtype) == (N, 2, (N, M), dtype)
            close(rows.to_array(), X, dtype)
            close(rows.take(rows_taken), X[rows_taken], dtype)
            assert rows.take([]).shape == (0, M)
            close(rows @ A, X @ A, dtype)
            close(rows.T @ B, X.T @ B, dtype)
            assert rows.T.T is rows
            assert rows.gram().dtype == rows.row_squares().dtype == np.float64
            close(rows.gram().astype(dtype), X.T @ X, dtype)
            for w in (rng.uniform(size=N), rng.normal(size=N)):
                close(rows.gram(w).astype(dtype), X.T @ (w.astype(dtype)[:, None] * X), dtype)
            assert (rows.gram() == rows.gram().T).all()
            close(rows.row_squares().astype(dtype), (X * X).sum(axis=1), dtype)
            L = rows.laplacian_gram(graph.matrix, graph.degrees)
            close(L, X.T @ laplacian(graph, X), dtype)
            check_nearest(rows, X, dtype)


def check_nearest(rows, X, dtype):
    for k in (1, 5, N - 1) if rows.n_blocks < N else (5,):
        F, columns = rows.nearest_others(k)
        expected, _ = nearest_others(X.astype(np.float64), k)
        close(F, expected, dtype)
        assert columns.dtype == np.intp
        exact = ((X[columns] - X[:, None].astype(np.float64)) ** 2).sum(axis=2)
        np.testing.assert_allclose(exact, expected, rtol=0, atol=CLOSE[dtype] * expected.max())
        assert (columns != np.arange(N)[:, None]).all()
        assert all(len(set(row)) == k for row in columns.tolist())


def test_weights_and_loops_of_a_graph_count(rng):
    W = csr_array(np.where(rng.random((N, N)) < 0.1, rng.random((N, N)), 0.0))
    W = (W + W.T).tocsr()
    W.setdiag(rng.random(N))
    d = rng.random(N)
    for rows, X in pairs():
        close(rows.laplacian_gram(W, d), X.T @ (d[:, None] * X - W @ X))
        close(rows.laplacian_gram(csr_array((N, N)), d), rows.gram(d))


def test_sparse_matrices_can_be_multiplied():
    graph = label_graph(np.arange(N) % 4, np.arange(N) % 4)
    for rows, X in pairs():
        close(rows.T @ graph.left, X.T @ graph.left.toarray())


def test_a_graph_within_the_blocks_needs_no_other_block(monkeypatch):
    rows = BlockRows.standardised(cached(cut(data(), [0, 20, 40, N]), 0), True)
    W = np.kron(np.eye(3), np.ones((20, 20)))
    W = csr_array(np.pad(W, (0, 1)))
    read = []
    real = tasks.BlockReader.rows
    monkeypatch.setattr(
        tasks.BlockReader, "rows", lambda self, i, inside: read.append(i) or real(self, i, inside)
    )
    rows.laplacian_gram(W, np.asarray(W.sum(axis=1)))
    assert read == [0, 1, 2]


def test_nearest_rows_have_the_positions_of_the_matrix_in_memory():
    for rows, X in pairs():
        np.testing.assert_array_equal(rows.nearest_others(6)[1], nearest_others(X, 6)[1])


def test_equal_distances_are_ordered_by_number(rng, monkeypatch):
    monkeypatch.setattr(tasks, "_TILE_ROWS", 7)
    monkeypatch.setattr(tasks, "_TILE_COLUMNS", 9)
    X = rng.integers(-1, 2, size=(N, 2)).astype(np.float64)  # integers: distances are exact
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    for cuts, k in product(CUTS, (1, 4, 30)):
        reader = tasks.BlockReader(cut(X, cuts), unit_rows=False, mean=np.zeros(2))
        columns = np.argsort(D, axis=1, kind="stable")[:, :k]
        results = [tasks.nearest(reader, k, i) for i in range(reader.blocks.n_blocks)]
        np.testing.assert_array_equal(np.vstack([c for _, c in results]), columns)
        F = np.take_along_axis(D, columns, axis=1)
        np.testing.assert_array_equal(np.vstack([f for f, _ in results]), F)


# --- standardising


def test_a_large_mean_does_not_cancel():
    X = data()
    far = BlockRows.standardised(cut(X + 1e8, [0, 20, 40, N]), False)
    near = BlockRows.standardised(cut(X, [0, 20, 40, N]), False)
    assert far.scale == pytest.approx(near.scale, rel=1e-7)  # 1e8 leaves eight digits
    assert np.sqrt((far.to_array() ** 2).sum(axis=1)).max() < 10


@pytest.mark.parametrize("dtype", CLOSE)
def test_a_given_mean_is_the_centre_and_counts_for_the_scale(dtype, rng):
    X, mean = data(dtype=dtype), rng.normal(size=M).astype(dtype)
    expected = Features.standardised(X, mean, [], "X")
    for cuts in CUTS:
        rows = BlockRows.standardised(cut(X, cuts), False).recentred(mean)
        close(rows.take(range(N)), expected.X, dtype)
        assert rows.scale == pytest.approx(expected.scale, rel=CLOSE[dtype])
        assert rows.moments.n == N


def test_the_data_is_never_changed():
    for cuts, dtype, unit_rows in product(CUTS, CLOSE, (True, False)):
        X = data("zero rows", dtype)
        before = X.copy()
        rows = BlockRows.standardised(cut(X, cuts), unit_rows)
        rows.gram()
        rows.nearest_others(2)
        np.testing.assert_array_equal(X, before)
        assert X.flags.writeable


def test_rows_that_cannot_be_learned_from_are_refused():
    equal = as_blocks([np.ones((4, 3)), np.ones((2, 3))])
    with pytest.raises(ValueError, match=r"^X_source: all rows are equal"):
        BlockRows.standardised(equal, True, name="X_source")
    large = as_blocks(np.array([[1e200], [-1e200]]))
    with pytest.raises(ValueError, match=r"^X: values too large to be squared"):
        BlockRows.standardised(large, False)
    assert BlockRows.standardised(large, True).scale == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"^X: 1 row; at least 2 are needed"):
        BlockRows.standardised(as_blocks(np.ones((1, 3))), True)


def test_wrong_shapes_and_directed_graphs_are_refused(pair):
    rows, _ = pair
    for wrong in (
        lambda: rows @ np.ones((M + 1, 2)),
        lambda: rows @ np.ones(M),
        lambda: rows.T @ np.ones((N + 1, 2)),
        lambda: rows.gram(np.ones(N + 1)),
        lambda: rows.laplacian_gram(csr_array((N, N + 1)), np.ones(N)),
        lambda: rows.laplacian_gram(csr_array((N, N)), np.ones(N + 1)),
        lambda: rows.recentred(np.ones(M + 1)),
    ):
        with pytest.raises(ValueError, match=r"has shape .* is needed"):
            wrong()
    with pytest.raises(ValueError, match="k: 61 is not between 1 and 60"):
        rows.nearest_others(N)
    with pytest.raises(TypeError):
        np.ones((2, N)) @ rows
    W = csr_array(([1.0], ([3], [5])), shape=(N, N))
    with pytest.raises(ValueError, match="W: is not symmetric"):
        rows.laplacian_gram(W, np.ones(N))


# --- mappers, pickles, the cache


def all_results(rows):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(M, R)), rng.normal(size=(N, R))
    graph = KNNGraph(n_neighbors=3).build(rows.take(range(N)))
    yield from (rows.mean, rows.scale, rows @ A, rows.T @ B, rows.gram(), rows.gram(B[:, 0]))
    yield from (rows.laplacian_gram(graph.matrix, graph.degrees), rows.row_squares())
    yield from (rows.take([5, 3]), *rows.nearest_others(4))


def assert_same_bits(rows, other):
    for a, b in zip(all_results(rows), all_results(other), strict=True):
        np.testing.assert_array_equal(a, b)


def map_elsewhere(function, arguments, shared=()):
    """Pickle everything, as a cluster does, and run the tasks in reverse order."""
    calls = [pickle.dumps((function, shared, each)) for each in arguments]
    results = []
    for call in reversed(calls):
        function, shared, each = pickle.loads(call)
        results.append(function(*shared, *each))
    return iter(results[::-1])


def test_another_mapper_and_pickled_rows_give_the_same_bits(tmp_path):
    for dtype in CLOSE:
        X = data("zero rows", dtype)
        np.save(tmp_path / "x.npy", X)
        file = as_blocks(tmp_path / "x.npy", 5 * X[0].nbytes)
        for blocks in (file, cut(X, CUTS[1])):
            rows = BlockRows.standardised(blocks, True)
            assert_same_bits(rows, pickle.loads(pickle.dumps(rows)))
            with use_mapper(map_elsewhere):
                assert current_mapper() is map_elsewhere
                assert_same_bits(rows, BlockRows.standardised(cached(blocks, 0), True))
            assert current_mapper() is map_serially


def test_as_many_blocks_are_cached_as_fit(monkeypatch):
    X = data()
    blocks = cut(X, range(N + 1))
    rows = BlockRows.standardised(cached(blocks, 10 * X[0].nbytes), True)
    assert repr(rows) == "BlockRows(shape=(61, 7), dtype=float64, n_blocks=61)"
    rows.gram()
    assert len(pickle.dumps(rows)) < len(pickle.dumps(blocks)) + 2000  # without the cache
    read = []
    real = blocks.read
    monkeypatch.setattr(blocks, "read", lambda i: read.append(i) or real(i))
    rows.gram()
    assert read == list(range(10, N))
    with pytest.raises(ValueError, match="read-only"):
        rows._reader.block(0)[:] = 0.0


def test_few_rows_of_a_mapped_file_are_read_without_the_others(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", data())
    blocks = as_blocks(tmp_path / "x.npy")
    rows = BlockRows.standardised(cached(blocks, 0), True)
    expected = rows.to_array()[[50, 2]]
    monkeypatch.setattr(blocks, "read", None)
    np.testing.assert_array_equal(rows.take([50, 2]), expected)


# --- memory


def memory(field):
    """Return a field of /proc/self/status in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024


def test_a_fit_needs_far_less_memory_than_its_file(tmp_path):
    """Peak resident memory, mapped pages included, of all operations but the quadratic search."""
    n, m = 40_000, 256
    path = tmp_path / "x.npy"
    part = np.random.default_rng(0).normal(size=(1000, m)).astype(np.float32)
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (n, m))
    for i in range(0, n, 1000):
        mapped[i : i + 1000] = np.roll(part, i // 1000, axis=1)
    mapped.flush()
    del mapped
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        pytest.skip("the peak of resident memory cannot be reset on this system")
    before = memory("VmRSS")
    rows = BlockRows.standardised(cached(as_blocks(path, 1 << 20), 2 << 20), True)
    H = rows @ np.ones((m, 8), np.float32)
    rows.gram(np.ones(n))
    ring = np.arange(n)
    W = csr_array((np.ones(n, np.float32), (ring, (ring + 777) % n)), shape=(n, n))
    rows.laplacian_gram((W + W.T).tocsr(), np.full(n, 2.0))
    assert (rows.T @ H).shape == (m, 8)
    assert memory("VmHWM") - before < path.stat().st_size / 2
