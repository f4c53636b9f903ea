"""A matrix in blocks equals the matrix, wherever its rows are stored; errors name the input."""

from __future__ import annotations

import gc
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash.streaming.blocks import Blocks, as_blocks, read_all
from bridgehash.streaming.operator import BlockRows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, M = 23, 4
X = np.random.default_rng(0).normal(size=(N, M))
ROWS = [22, 0, 7, 7, 13]


def joined(blocks: Blocks) -> np.ndarray:
    return np.vstack([blocks.read(i) for i in range(blocks.n_blocks)])


def same(blocks: Blocks, expected: np.ndarray) -> None:
    """Check all rows, read in order, in reverse order and one by one."""
    assert blocks.shape == expected.shape
    assert blocks.dtype == expected.dtype
    np.testing.assert_array_equal(joined(blocks), expected)
    for i in reversed(range(blocks.n_blocks)):
        start, stop = blocks.bounds(i)
        block = blocks.read(i)
        assert block.dtype == expected.dtype
        assert block.flags.c_contiguous
        np.testing.assert_array_equal(block, expected[start:stop])
    np.testing.assert_array_equal(blocks.take(ROWS), expected[ROWS])


def refused(data: Any, **options: Any) -> str:
    """Return the one-line message of the error raised when data is opened or first read."""
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        BlockRows.standardised(as_blocks(data, **options), unit_rows=False)
    return str(caught.value)


# --- where rows can be stored


def vectors(path: Path, X: np.ndarray, **options: Any) -> Path:
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"id": np.arange(len(X)), "x": column}), path, **options)
    return path


def lists(path: Path, X: np.ndarray, **options: Any) -> Path:
    pq.write_table(pa.table({"x": list(X)}), path, **options)
    return path


def columns(path: Path, X: np.ndarray, **options: Any) -> Path:
    named = {f"f{j}": X[:, j] for j in range(X.shape[1])}
    pq.write_table(pa.table({**named, "label": ["a"] * len(X)}), path, **options)
    return path


def npy(path: Path, X: np.ndarray) -> Path:
    np.save(path, X)
    return path


class Again:
    """An iterable of blocks that starts again each time."""

    def __init__(self, *blocks: Any) -> None:
        self.blocks, self.runs = blocks, 0

    def __iter__(self) -> Iterator[Any]:
        self.runs += 1
        return iter(self.blocks)


PLACES: dict[str, Callable[[Path, np.ndarray], Any]] = {
    "array": lambda folder, X: X,
    "fortran array": lambda folder, X: np.asfortranarray(X),
    "npy": lambda folder, X: npy(folder / "x.npy", X),
    "npy as text": lambda folder, X: str(npy(folder / "x.npy", X)),
    "fortran npy": lambda folder, X: npy(folder / "x.npy", np.asfortranarray(X)),
    "memory map": lambda folder, X: np.load(npy(folder / "x.npy", X), mmap_mode="r"),
    "vectors": lambda folder, X: vectors(folder / "x.parquet", X),
    "small row groups": lambda folder, X: vectors(folder / "x.parquet", X, row_group_size=5),
    "lists": lambda folder, X: lists(folder / "x.parquet", X, row_group_size=11),
    "columns": lambda folder, X: columns(folder / "x.parquet", X, row_group_size=9),
    "arrays": lambda folder, X: [X[:5], X[5:6], X[6:]],
    "iterable": lambda folder, X: Again(X[:5], X[5:6], X[6:]),
    "iterator": lambda folder, X: iter([X[:5], X[5:6], X[6:]]),
}


@pytest.mark.parametrize("place", PLACES)
def test_rows_are_read_in_blocks_of_any_size_and_type(tmp_path, place):
    for dtype in (np.float64, np.float32):
        expected = X.astype(dtype)
        for rows in (1, 3, 8, 100):
            blocks = as_blocks(PLACES[place](tmp_path, expected), rows * expected[0].nbytes)
            same(blocks, expected)
            assert max(np.diff([blocks.bounds(i) for i in range(blocks.n_blocks)])) <= rows
    same(pickle.loads(pickle.dumps(blocks)), expected)
    whole = np.arange(N * M).reshape(N, M)
    for given, read in (("f2", "f4"), ("i1", "f4"), ("?", "f4"), ("i4", "f8"), ("u1", "f4")):
        numbers = whole.astype(given)
        same(as_blocks(PLACES[place](tmp_path, numbers), 40), numbers.astype(read))


@pytest.mark.parametrize("place", PLACES)
def test_values_that_are_not_finite_are_named_with_their_row(tmp_path, place):
    for value in (np.nan, np.inf, -np.inf):
        bad = X.copy()
        bad[17, 2] = value
        message = refused(PLACES[place](tmp_path, bad), block_bytes=3 * X[0].nbytes)
        in_block = place in ("arrays", "iterator")  # rows are counted within a block
        row = 11 if in_block else 17
        assert f"the first in row {row}, column 2 (counted from 0): {value}; fill" in message
        suffix = ".parquet" if (tmp_path / "x.parquet").exists() else ".npy"
        named = (tmp_path / f"x{suffix}").exists() and place != "memory map"
        assert message.startswith(f"{tmp_path}/x{suffix}: " if named else "X: ")
        assert ("block 2" in message) == in_block


def test_files_are_pickled_as_paths(tmp_path):
    big = np.zeros((1000, M))
    for data in (npy(tmp_path / "x.npy", big), vectors(tmp_path / "x.parquet", big)):
        assert len(pickle.dumps(as_blocks(data))) < 2000
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert len(pickle.dumps(as_blocks(mapped[10:]))) < 2000


def test_a_path_may_be_relative_to_where_it_was_given(tmp_path, monkeypatch):
    npy(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    blocks = as_blocks("x.npy")
    monkeypatch.chdir("/")
    same(blocks, X)


def test_part_of_a_memory_map_is_that_part(tmp_path):
    mapped = np.load(npy(tmp_path / "x.npy", X), mmap_mode="r")
    blocks = as_blocks(mapped[2:21], 5 * X[0].nbytes)
    np.testing.assert_array_equal(joined(blocks), X[2:21])
    np.testing.assert_array_equal(joined(as_blocks(mapped[::2])), X[::2])
    np.testing.assert_array_equal(joined(as_blocks(mapped[:, 1:3])), X[:, 1:3])
    np.testing.assert_array_equal(joined(as_blocks(mapped[[3, 1]])), X[[3, 1]])
    far = np.memmap(tmp_path / "x.npy", np.float64, "r", offset=128 + 8 * M, shape=(N - 1, M))
    np.testing.assert_array_equal(joined(as_blocks(far[1:])), X[2:])


def test_changes_of_a_private_map_are_seen(tmp_path):
    mapped = np.load(npy(tmp_path / "x.npy", X), mmap_mode="c")
    mapped[0] = 5.0
    assert (as_blocks(mapped).read(0)[0] == 5.0).all()


def test_a_folder_is_read_by_name_with_a_block_for_each_file(tmp_path):
    vectors(tmp_path / "part-1.parquet", X[10:])
    npy(tmp_path / "part-0.npy", X[:10].astype(np.float32))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.crc").touch()
    blocks = as_blocks(tmp_path)
    assert blocks.n_blocks == 2
    assert blocks.dtype == np.float64
    np.testing.assert_array_equal(joined(blocks)[10:], X[10:])
    np.testing.assert_allclose(joined(blocks)[:10], X[:10], rtol=1e-6)


def test_a_folder_may_end_in_parquet(tmp_path):
    folder = tmp_path / "x.parquet"
    folder.mkdir()
    vectors(folder / "a.parquet", X)
    same(as_blocks(folder), X)


def test_paths_may_be_listed(tmp_path):
    paths = [npy(tmp_path / "b.npy", X[:9]), vectors(tmp_path / "a.parquet", X[9:])]
    same(as_blocks(paths), X)


def test_a_column_is_selected_after_the_path(tmp_path):
    table = {"a": list(X), "b": list(2 * X)}
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    same(as_blocks(f"{tmp_path}/x.parquet:b"), 2 * X)
    assert "several fit" in refused(tmp_path / "x.parquet")
    message = refused(f"{tmp_path}/x.parquet:bb")
    assert message.endswith("unknown array or column 'bb'; did you mean 'b'? Choose from: a, b")
    columns(tmp_path / "wide.parquet", np.ones((2, 500)))
    message = refused(f"{tmp_path}/wide.parquet:lable")
    assert "did you mean 'label'? Choose from: f0, f1, " in message
    assert message.endswith(", f39 and 461 more")


def test_blocks_end_at_row_groups(tmp_path):
    blocks = as_blocks(vectors(tmp_path / "x.parquet", X, row_group_size=5), 12 * X[0].nbytes)
    assert [blocks.bounds(i) for i in range(blocks.n_blocks)] == [(0, 10), (10, 20), (20, 23)]


def test_a_parquet_file_is_run_through_once_for_a_pass(tmp_path, monkeypatch):
    opened = []
    real = pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda *a, **k: opened.append(a) or real(*a, **k))
    blocks = as_blocks(vectors(tmp_path / "x.parquet", X), 2 * X[0].nbytes)
    opened.clear()
    for _ in range(2):
        joined(blocks)
    assert len(opened) == 2


def test_of_a_large_row_group_little_is_held(tmp_path):
    large = np.random.default_rng(0).normal(size=(10_000, 400))  # 32 MB
    blocks = as_blocks(vectors(tmp_path / "x.parquet", large), 1 << 20)
    before = pa.total_allocated_bytes()
    for i in range(blocks.n_blocks):
        blocks.read(i)
        assert pa.total_allocated_bytes() - before < large.nbytes / 2


def test_an_iterable_is_run_through_once_for_a_pass():
    data = Again(X[:5], X[5:])
    blocks = as_blocks(data, 2 * X[0].nbytes)
    assert data.runs == 1
    joined(blocks)
    joined(blocks)
    assert data.runs == 3


def test_another_byte_order_is_converted(tmp_path):
    for place in ("array", "npy", "memory map", "iterable", "iterator"):
        same(as_blocks(PLACES[place](tmp_path, X.astype(">f4")), 40), X.astype(np.float32))


def test_parts_of_two_types_are_read_in_the_wider():
    blocks = as_blocks([X[:5], X[5:].astype(np.float32)])
    assert blocks.dtype == blocks.read(1).dtype == np.float64
    narrow = blocks.astype(np.float32)
    assert narrow.dtype == narrow.read(0).dtype == narrow.take([0]).dtype == np.float32
    assert blocks.dtype == np.float64


def test_any_object_with_a_shape_and_slices_is_read():
    class Table:
        shape = X.shape

        def __getitem__(self, key: slice) -> list[list[float]]:
            return X[key].tolist() or np.empty((0, M)).tolist()

    same(as_blocks(Table(), 3 * X[0].nbytes), X)


def test_blocks_are_not_cut_again():
    blocks = as_blocks(X)
    assert as_blocks(blocks) is blocks
    assert repr(blocks) == "Blocks(shape=(23, 4), dtype=float64, n_blocks=1)"


def test_rows_in_files_are_read_into_one_array_and_arrays_stay(tmp_path):
    path = npy(tmp_path / "x.npy", X)
    for data in (path, [path], as_blocks(path, 100), iter([X])):
        np.testing.assert_array_equal(read_all(data), X)
    for data in (X, [X], []):
        assert read_all(data) is data


def test_rows_that_are_not_there_are_refused():
    for rows in ([N], [-1], [[0]]):
        with pytest.raises(ValueError, match=r"rows: must be a list of row numbers in 0\.\.22"):
            as_blocks(X).take(rows)
    assert as_blocks(X).take([]).shape == (0, M)


# --- zarr and h5py


def test_zarr_arrays_are_read_by_chunks(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    array = zarr.open_array(
        f"{tmp_path}/x.zarr", mode="w", shape=X.shape, chunks=(5, M), dtype="f8"
    )
    array[:] = X
    for data in (tmp_path / "x.zarr", array):
        blocks = as_blocks(data, 12 * X[0].nbytes)
        assert blocks.bounds(0) == (0, 10)
        same(blocks, X)
        same(pickle.loads(pickle.dumps(blocks)), X)
    same(as_blocks(tmp_path / "x.zarr", X[0].nbytes), X)
    flat = zarr.open_array(f"{tmp_path}/y.zarr", mode="w", shape=(3,), dtype="f8")
    flat[:] = 1.0
    message = refused(tmp_path / "y.zarr")
    assert message.startswith(f"{tmp_path}/y.zarr: a matrix has two dimensions")


def test_h5py_datasets_are_read(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        same(as_blocks(file.create_dataset("x", data=X), 3 * X[0].nbytes), X)
        same(as_blocks(file.create_dataset("y", data=X, chunks=(4, M)), 9 * X[0].nbytes), X)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.zarr").mkdir()
    vectors(tmp_path / "x.parquet", X)
    for package, suffix in (("zarr", "zarr"), ("pyarrow.parquet", "parquet")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            assert f"pip install 'bridgehash[{suffix}]'" in refused(tmp_path / f"x.{suffix}")


# --- iterators


@pytest.fixture
def spool(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: list(tmp_path.glob("bridgehash-*.npy"))


def test_the_temporary_file_of_an_iterator_is_deleted_with_its_blocks(spool):
    blocks = as_blocks((X[i : i + 5] for i in range(0, N, 5)), 3 * X[0].nbytes)
    same(blocks, X)
    (path,) = spool()
    np.testing.assert_array_equal(np.load(path), X)
    del blocks
    gc.collect()
    assert spool() == []


def test_one_buffer_may_serve_all_blocks(spool):
    def fill() -> Iterator[np.ndarray]:
        buffer = np.empty((1, M))
        for row in X:
            buffer[:] = row
            yield buffer

    same(as_blocks(fill()), X)


def test_an_iterator_that_fails_leaves_no_file(spool):
    def fail() -> Iterator[np.ndarray]:
        yield X
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        as_blocks(fail())
    assert spool() == []


def test_an_iterator_keeps_to_the_type_it_began_with(spool):
    same(as_blocks(iter([X[:5], X[5:].astype(np.int8)])), np.vstack([X[:5], np.trunc(X[5:])]))
    message = refused(iter([X[:5].astype(np.float32), X[5:]]))
    assert message == "X: block 1: is float64, block 0 is float32; use one type"


# --- refusals


def test_nothing_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"a": pa.array([], pa.float32())}), tmp_path / "x.parquet")
    assert "the folder is empty" in refused(tmp_path / "folder")
    for data in (X[:0], X[:, :0], npy(tmp_path / "x.npy", X[:0]), tmp_path / "x.parquet"):
        assert "is empty" in refused(data)
    for data in ([], Again(), iter([]), [X, X[:0]], Again(X, X[:0]), iter([X, X[:0]])):
        assert "is empty" in refused(data)


def test_widths_that_differ_are_refused(tmp_path):
    wide = np.zeros((2, 5))
    assert refused([X, wide]).startswith("X: block 1: has 5 columns, X: block 0 has 4")
    for data in (Again(X, wide), iter([X, wide])):
        assert refused(data).startswith("X: block 1: has 5 columns, block 0 has 4")
    first, second = npy(tmp_path / "a.npy", X), npy(tmp_path / "b.npy", wide)
    assert refused(tmp_path) == f"{second}: has 5 columns, {first} has 4; use equal widths"


def test_missing_values_of_a_parquet_file_are_refused_with_their_row(tmp_path):
    gap = {"a": [1.0, 2.0, None], "b": [1, 2, 3]}
    pq.write_table(pa.table(gap), tmp_path / "a.parquet")
    assert "row 2, column 0" in refused(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [[1.0, 2.0]] * 7 + [None, [1.0, 2.0]]}), tmp_path / "b.parquet")
    assert "row 7 (counted from 0) has 0 values" in refused(tmp_path / "b.parquet")
    pq.write_table(
        pa.table({"x": [[1.0, 2.0]] * 7 + [[1.0]]}), tmp_path / "c.parquet", row_group_size=7
    )
    assert "row 7 (counted from 0) has 1 values, row 0 has 2" in refused(tmp_path / "c.parquet")


def test_what_is_no_matrix_of_numbers_is_refused(tmp_path):
    rule = "a matrix has two dimensions of real numbers"
    text = np.array([["a", "b"]])
    for data in (text, X[0], X.astype(complex), np.array(1.0), X.astype(object)):
        assert refused(data).startswith(f"X: {rule}")
    for data in (5, None):
        assert refused(data, name="X_source").startswith(f"X_source: {rule}")
    assert refused([X, text]).startswith(f"X: block 1: {rule}")
    for data in (Again(X, text), iter([X, X[0]])):
        assert refused(data).startswith(f"X: block 1: {rule}")
    assert refused([[1.0, 2.0]]) == "X: block 0: is of type list; pass arrays or paths"
    for name, array in (("t.npy", text), ("v.npy", X[0]), ("c.npy", X.astype(complex))):
        assert refused(npy(tmp_path / name, array)).startswith(f"{tmp_path / name}: {rule}")
    pq.write_table(pa.table({"a": ["b"]}), tmp_path / "t.parquet")
    assert rule in refused(tmp_path / "t.parquet")


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}]], dtype=object))
    assert "pickled objects, refused because they can run code" in refused(tmp_path / "x.npy")


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n")
    missing = tmp_path / "none.npy"
    assert refused(missing) == f"File not found: {missing}"
    for data in (tmp_path, tmp_path / "x.csv"):
        assert "x.csv: unknown kind of file '.csv'; use .npy, .parquet, .zarr" in refused(data)
    (tmp_path / "y.npy").write_bytes(b"no array")
    (tmp_path / "y.parquet").write_bytes(b"no table")
    for path in (tmp_path / "y.npy", tmp_path / "y.parquet"):
        assert refused(path).startswith(f"{path}: cannot be read (")
    whole = npy(tmp_path / "z.npy", X).read_bytes()
    (tmp_path / "z.npy").write_bytes(whole[:-8])
    assert "is truncated" in refused(tmp_path / "z.npy")


def test_a_file_that_has_gone_is_named(tmp_path):
    blocks = as_blocks(npy(tmp_path / "x.npy", X))
    (tmp_path / "x.npy").unlink()
    with pytest.raises(ValueError, match=r"x\.npy: file not found"):
        blocks.read(0)


def test_an_iterable_that_gives_less_the_second_time_is_refused():
    data = Again(X[:5], X[5:])
    blocks = as_blocks(data)
    data.blocks = (X[:5],)
    for _ in range(2):
        with pytest.raises(ValueError, match="X: had fewer than 23 rows when read again"):
            blocks.read(0)
    data.blocks = (X[:, :1],)
    with pytest.raises(ValueError, match=r"row 0 \(counted from 0\) has 1 values, row 0 has 4"):
        blocks.read(0)
    data.blocks = (X,)
    same(blocks, X)
