"""A matrix that is never held whole does all that the one in memory does, with the same result."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from bridgehash.ath.fit import Features
from bridgehash.models.feature_maps import UnitRows
from bridgehash.neighbors.graphs import KNNGraph, label_graph, laplacian
from bridgehash.neighbors.search import nearest_others
from bridgehash.streaming import tasks as row_tasks
from bridgehash.streaming.blocks import as_blocks
from bridgehash.streaming.operator import BlockRows

N, M, R = 61, 7, 3
CLOSE = {np.float64: 1e-10, np.float32: 2e-5}  # of the largest value
CUTS = {
    "one row each": range(N + 1),
    "uneven": [0, 1, 20, 22, 53, N],
    "one block": [0, N],
}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def data(kind, dtype):
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
    """The matrix as ATH makes it."""
    Z = UnitRows().fit_transform(X) if unit_rows else X
    return Features.of(Z, Z.mean(axis=0, dtype=np.float64).astype(Z.dtype), [], "X")


def close(found, expected, dtype=np.float64):
    assert found.shape == expected.shape
    assert found.dtype == dtype
    tolerance = CLOSE[dtype] * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.fixture(params=CUTS)
def cuts(request):
    return CUTS[request.param]


@pytest.fixture(params=["plain", "far from zero", "zero rows"])
def kind(request):
    return request.param


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["unit rows", "rows as they are"])
def both(request, cuts, kind, dtype):
    """The matrix in blocks and the same in memory."""
    X = data(kind, dtype)
    return BlockRows.standardised(cut(X, cuts), request.param), in_memory(X, request.param).X


@pytest.fixture
def pair(cuts):
    X = data("plain", np.float64)
    return BlockRows.standardised(cut(X, cuts), True), in_memory(X, True).X


# --- equal to the matrix in memory


@pytest.mark.parametrize("unit_rows", [True, False])
def test_mean_and_scale_are_those_of_the_whole(cuts, kind, dtype, unit_rows):
    X = data(kind, dtype)
    rows, expected = BlockRows.standardised(cut(X, cuts), unit_rows), in_memory(X, unit_rows)
    close(rows.mean, expected.mean, dtype)
    assert rows.scale == pytest.approx(expected.scale, rel=CLOSE[dtype])
    assert (len(rows), rows.ndim, rows.shape, rows.dtype) == (N, 2, (N, M), dtype)


def test_blocks_are_those_of_the_standardised_matrix(both, dtype):
    rows, X = both
    close(np.vstack([rows.block(i) for i in range(rows.n_blocks)]), X, dtype)
    wanted = [60, 0, 20, 21, 21, 3]
    close(rows.take(wanted), X[wanted], dtype)
    assert rows.take([]).shape == (0, M)


def test_products_are_those_of_the_standardised_matrix(both, dtype, rng):
    rows, X = both
    A, B = rng.normal(size=(M, R)).astype(dtype), rng.normal(size=(N, R)).astype(dtype)
    close(rows @ A, X @ A, dtype)
    close(rows.T @ B, X.T @ B, dtype)
    assert (rows.T.shape, rows.T.ndim, rows.T.dtype, rows.T.T) == ((M, N), 2, dtype, rows)


def test_gram_matrices_are_those_of_the_standardised_matrix(both, dtype, rng):
    rows, X = both
    assert rows.gram().dtype == rows.row_squares().dtype == np.float64
    close(rows.gram().astype(dtype), X.T @ X, dtype)
    for w in (rng.uniform(size=N), rng.normal(size=N)):
        close(rows.gram(w).astype(dtype), X.T @ (w.astype(dtype)[:, None] * X), dtype)
    assert (rows.gram() == rows.gram().T).all()
    close(rows.row_squares().astype(dtype), (X * X).sum(axis=1), dtype)


def test_the_laplacian_is_that_of_the_whole_graph(both, dtype):
    rows, X = both
    graph = KNNGraph(n_neighbors=3).build(X)
    close(rows.laplacian_gram(graph.matrix, graph.degrees), X.T @ laplacian(graph, X), dtype)


def test_weights_and_loops_of_a_graph_count(pair, rng):
    rows, X = pair
    W = csr_array(np.where(rng.random((N, N)) < 0.1, rng.random((N, N)), 0.0))
    W = (W + W.T).tocsr()
    W.setdiag(rng.random(N))
    d = rng.random(N)
    close(rows.laplacian_gram(W, d), X.T @ (d[:, None] * X - W @ X))
    close(rows.laplacian_gram(csr_array((N, N)), d), rows.gram(d))


def test_a_graph_inside_the_blocks_needs_no_other_block(monkeypatch):
    X = data("plain", np.float64)
    rows = BlockRows.standardised(cut(X, [0, 20, 40, N]), True, cache_bytes=0)
    W = np.kron(np.eye(3), np.ones((20, 20)))
    W = csr_array(np.pad(W, (0, 1)))
    read = []
    real = row_tasks.Reader.rows
    monkeypatch.setattr(
        row_tasks.Reader, "rows", lambda self, i, inside: read.append(i) or real(self, i, inside)
    )
    rows.laplacian_gram(W, np.asarray(W.sum(axis=1)))
    assert sorted(set(read)) == [0, 1, 2]
    assert len(read) == 3


def test_sparse_memberships_may_stand_on_the_right(pair):
    rows, X = pair
    graph = label_graph(np.arange(N) % 4, np.arange(N) % 4)
    close(rows.T @ graph.left, X.T @ graph.left.toarray())


def test_principal_directions_come_from_the_gram_matrix(pair):
    rows, X = pair
    found, expected = np.linalg.eigvalsh(rows.gram()), np.linalg.svd(X, compute_uv=False) ** 2
    close(found[::-1], expected)


@pytest.mark.parametrize("k", [1, 5, N - 1])
def test_nearest_rows_are_those_of_the_whole(both, dtype, k):
    rows, X = both
    F, columns = rows.nearest_others(k)
    expected, _ = nearest_others(X.astype(np.float64), k)
    close(F, expected, dtype)
    assert columns.dtype == np.intp
    exact = ((X[columns] - X[:, None].astype(np.float64)) ** 2).sum(axis=2)
    np.testing.assert_allclose(exact, expected, rtol=0, atol=CLOSE[dtype] * expected.max())
    assert (columns != np.arange(N)[:, None]).all()
    assert all(len(set(row)) == k for row in columns.tolist())


def test_nearest_rows_have_the_places_of_the_whole(pair):
    rows, X = pair
    np.testing.assert_array_equal(rows.nearest_others(6)[1], nearest_others(X, 6)[1])


@pytest.mark.parametrize("k", [1, 4, 30])
def test_equally_near_rows_go_by_number(cuts, rng, k, monkeypatch):
    monkeypatch.setattr(row_tasks, "_TILE_ROWS", 7)
    monkeypatch.setattr(row_tasks, "_TILE_COLUMNS", 9)
    X = rng.integers(-1, 2, size=(N, 2)).astype(np.float64)  # whole numbers: distances are exact
    reader = row_tasks.Reader(cut(X, cuts), unit_rows=False, mean=np.zeros(2))
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    columns = np.argsort(D, axis=1, kind="stable")[:, :k]
    found = [row_tasks.nearest(reader, k, i) for i in range(reader.blocks.n_blocks)]
    np.testing.assert_array_equal(np.vstack([c for _, c in found]), columns)
    F = np.take_along_axis(D, columns, axis=1)
    np.testing.assert_array_equal(np.vstack([f for f, _ in found]), F)


# --- standardising


def test_a_large_mean_does_not_cancel():
    X = data("plain", np.float64)
    far = BlockRows.standardised(cut(X + 1e8, [0, 20, 40, N]), False)
    near = BlockRows.standardised(cut(X, [0, 20, 40, N]), False)
    assert far.scale == pytest.approx(near.scale, rel=1e-7)  # 1e8 leaves eight digits
    assert np.sqrt((far.block(0) ** 2).sum(axis=1)).max() < 10


def test_a_given_mean_is_the_centre_and_counts_for_the_scale(cuts, dtype, rng):
    X, mean = data("plain", dtype), rng.normal(size=M).astype(dtype)
    expected = Features.of(X, mean, [], "X")
    own = BlockRows.standardised(cut(X, cuts), False)
    for rows in (BlockRows.standardised(cut(X, cuts), False, mean), own.recentred(mean)):
        close(rows.take(range(N)), expected.X, dtype)
        assert rows.scale == pytest.approx(expected.scale, rel=CLOSE[dtype])
    assert own.moments.n == N


def test_the_data_is_never_changed(cuts, dtype):
    X = data("zero rows", dtype)
    before = X.copy()
    for unit_rows in (True, False):
        rows = BlockRows.standardised(cut(X, cuts), unit_rows)
        rows.gram()
        rows.nearest_others(2)
    np.testing.assert_array_equal(X, before)
    assert X.flags.writeable


def test_rows_that_cannot_be_told_apart_are_refused():
    equal = as_blocks([np.ones((4, 3)), np.ones((2, 3))])
    with pytest.raises(ValueError, match="all rows of X_source are equal"):
        BlockRows.standardised(equal, True, name="X_source")
    large = as_blocks(np.array([[1e200], [-1e200]]))
    with pytest.raises(ValueError, match="too large to be squared"):
        BlockRows.standardised(large, False)
    assert BlockRows.standardised(large, True).scale == pytest.approx(1.0)
    with pytest.raises(ValueError, match="X has 1 rows; at least two"):
        BlockRows.standardised(as_blocks(np.ones((1, 3))), True)


def test_shapes_that_do_not_fit_are_refused(pair):
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
    with pytest.raises(ValueError, match="k=61 is not allowed"):
        rows.nearest_others(N)
    with pytest.raises(TypeError):
        np.ones((2, N)) @ rows


def test_a_directed_graph_is_refused(pair):
    W = csr_array(([1.0], ([3], [5])), shape=(N, N))
    with pytest.raises(ValueError, match="not symmetric"):
        pair[0].laplacian_gram(W, np.ones(N))


# --- mappers, pickles, kept blocks


def all_results(rows):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(M, R)), rng.normal(size=(N, R))
    graph = KNNGraph(n_neighbors=3).build(rows.take(range(N)))
    yield from (rows.mean, rows.scale, rows @ A, rows.T @ B, rows.gram(), rows.gram(B[:, 0]))
    yield from (rows.laplacian_gram(graph.matrix, graph.degrees), rows.row_squares())
    yield from (rows.take([5, 3]), *rows.nearest_others(4))


class Elsewhere:
    """A mapper that sends everything through pickle, as a cluster does, and works backwards."""

    def __call__(self, function, arguments, shared=()):
        calls = [pickle.dumps((function, shared, each)) for each in arguments]
        found = []
        for call in reversed(calls):
            function, shared, each = pickle.loads(call)
            found.append(function(*shared, *each))
        return iter(found[::-1])


def test_work_done_elsewhere_gives_the_same_bits(tmp_path, cuts, dtype):
    X = data("zero rows", dtype)
    np.save(tmp_path / "x.npy", X)
    for blocks in (cut(X, cuts), as_blocks(tmp_path / "x.npy", 5 * X[0].nbytes)):
        one = BlockRows.standardised(blocks, True)
        other = BlockRows.standardised(blocks, True, mapper=Elsewhere(), cache_bytes=0)
        for a, b in zip(all_results(one), all_results(other), strict=True):
            np.testing.assert_array_equal(a, b)


def test_pickled_rows_give_the_same_bits(pair):
    rows, _ = pair
    for a, b in zip(all_results(rows), all_results(pickle.loads(pickle.dumps(rows))), strict=True):
        np.testing.assert_array_equal(a, b)


def test_as_many_blocks_are_kept_as_fit(monkeypatch):
    X = data("plain", np.float64)
    blocks = cut(X, range(N + 1))
    rows = BlockRows.standardised(blocks, True, cache_bytes=10 * X[0].nbytes)
    rows.gram()
    assert len(pickle.dumps(rows)) < len(pickle.dumps(blocks)) + 2000  # kept blocks stay here
    read = []
    real = blocks.read
    monkeypatch.setattr(blocks, "read", lambda i: read.append(i) or real(i))
    rows.gram()
    assert read == list(range(10, N))
    with pytest.raises(ValueError, match="read-only"):
        rows.block(0)[:] = 0.0


def test_few_rows_of_a_mapped_file_are_read_without_the_others(tmp_path, monkeypatch):
    X = data("plain", np.float64)
    np.save(tmp_path / "x.npy", X)
    blocks = as_blocks(tmp_path / "x.npy")
    rows = BlockRows.standardised(blocks, True, cache_bytes=0)
    expected = rows.block(0)[[50, 2]]
    monkeypatch.setattr(blocks, "read", None)
    np.testing.assert_array_equal(rows.take([50, 2]), expected)


# --- memory

BIG = (200_000, 256)  # float32: 205 MB
BLOCK, CACHE = 4 << 20, 8 << 20


@pytest.fixture(scope="module")
def big_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("big") / "x.npy"
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, BIG)
    part = np.random.default_rng(0).normal(size=(1000, BIG[1])).astype(np.float32)
    for i in range(0, BIG[0], 1000):
        mapped[i : i + 1000] = np.roll(part, i // 1000, axis=1)
    mapped.flush()
    del mapped
    yield path
    path.unlink()


def use_all(path, mapper=None):
    """All that a fit does but the search for neighbours, whose work is quadratic."""
    blocks = as_blocks(path, BLOCK)
    rows = BlockRows.standardised(blocks, True, mapper=mapper, cache_bytes=CACHE)
    A = np.random.default_rng(0).normal(size=(BIG[1], 8)).astype(np.float32)
    H = rows @ A
    rows.gram(np.ones(BIG[0]))
    ring = np.arange(BIG[0])
    W = csr_array((np.ones(BIG[0], np.float32), (ring, (ring + 777) % BIG[0])), shape=(BIG[0],) * 2)
    rows.laplacian_gram((W + W.T).tocsr(), np.full(BIG[0], 2.0))
    return rows.T @ H


def test_a_matrix_larger_than_the_memory_it_may_take(big_file):
    tracemalloc.start()
    try:
        use_all(big_file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60e6 < big_file.stat().st_size / 3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_pages_of_a_mapped_file_are_given_back(big_file):
    """Seen from outside: what the process holds at most, mapped pages included."""
    script = f"""
from pathlib import Path
import re
from tests.test_rows import use_all

def held():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

before = held()
use_all({str(big_file)!r})
print(held() - before)
"""
    root = Path(__file__).resolve().parents[1]
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 100e6
