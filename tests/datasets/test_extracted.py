"""Feature files: what they must hold, and the tasks made from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.datasets import TransferTask, read_extracted, task_from_files
from bridgehash.features import extract

RNG = np.random.default_rng(0)
X = RNG.random((30, 4), dtype=np.float32)
Y = np.array(["cat", "dog", "emu"])[np.arange(30) % 3]


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    return tmp_path / "a.npz"


def test_npz_gives_rows_in_double_precision(npz: Path) -> None:
    x, y = read_extracted(npz)
    assert x.dtype == np.float64
    assert np.array_equal(x, X)
    assert np.array_equal(y, Y)


def test_parquet_gives_the_same(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    for labels in (Y.tolist(), list(range(30))):
        pq.write_table(pa.table({"y": labels, "x": list(X), "more": labels}), path)
        x, y = read_extracted(path)
        assert np.array_equal(x, X)
        assert y.tolist() == labels


def test_parquet_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns: list[tuple[dict[str, Any], str]] = [
        ({"x": [[1.0], [2.0]]}, "no column y; it holds x"),
        ({"x": [[1.0], [2.0, 3.0]], "y": [0, 1]}, "vectors of one length"),
        ({"x": [[1.0], None], "y": [0, None]}, "1 rows have no x and 1 have no y"),
        ({"x": [1.0, 2.0], "y": [0, 1]}, "x must be a matrix"),
    ]
    for table, message in columns:
        pq.write_table(pa.table(table), path)
        with pytest.raises(InputError, match=rf"a\.parquet: .*{message}"):
            read_extracted(path)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install 'bridgehash\[parquet\]'"):
        read_extracted(tmp_path / "a.parquet")


def test_npz_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x": X}, r"y is not a file in the archive; it holds x"),
        ({"x": X, "y": Y[:-1]}, r"y has shape \(29,\)"),
        ({"x": X[0], "y": Y[:4]}, "x must be a matrix"),
        ({"x": X.astype(str), "y": Y}, "x must be a matrix"),
        ({"x": X[:3], "y": ["cat", "", "dog"]}, "1 of 3 rows have no label"),
    ]
    for arrays, message in cases:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(InputError, match=rf"a\.npz: .*{message}"):
            read_extracted(tmp_path / "a.npz")


def test_damage_and_foreign_files_are_named(npz: Path, tmp_path: Path) -> None:
    content = npz.read_bytes()
    for broken in (content[: len(content) // 2], b"", content.replace(X.tobytes()[:8], b"x" * 8)):
        npz.write_bytes(broken)
        with pytest.raises(ValueError, match=r"a\.npz: (is|cannot) .*copy it again"):
            read_extracted(npz)
    with pytest.raises(ValueError, match=r"must end in .npz or .parquet"):
        read_extracted(tmp_path / "a.mat")
    with pytest.raises(InputError, match=r"absent\.npz: file not found"):
        read_extracted(tmp_path / "absent.npz")


def test_two_files_make_a_task(npz: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "b.npz", x=X[:, :2], y=Y)
    task = task_from_files(npz, tmp_path / "b.npz", n_queries=5, n_train=12, seed=1)
    expected = TransferTask.split(
        X.astype(float), Y, X[:, :2].astype(float), Y, n_queries=5, n_train=12, seed=1
    )
    for part in vars(expected):
        np.testing.assert_array_equal(getattr(task, part), getattr(expected, part))
    assert len(task_from_files(npz, tmp_path / "b.npz").X_query) == 3  # a tenth


def test_one_file_is_a_set_alone(npz: Path) -> None:
    task = task_from_files(npz, n_queries=6, unit_rows=True)
    assert task.X_source is task.X_target
    assert np.bincount(task.y_query).tolist() == [2, 2, 2]
    np.testing.assert_allclose(np.linalg.norm(task.X_target, axis=1), 1.0)


def test_files_of_extract_are_read(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    for i in range(4):
        folder = tmp_path / "images" / ("cat" if i % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = RNG.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    extract(tmp_path / "images", "gist", tmp_path / "a.npz")
    x, y = read_extracted(tmp_path / "a.npz")
    assert x.shape == (4, 512)
    assert sorted(y) == ["cat", "cat", "dog", "dog"]
