"""Arrays of the command line are read and written exactly, or refused in one clear line."""

from __future__ import annotations

import builtins
import errno
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import InputError
from bridgehash.cli import io as tables
from bridgehash.cli.io import check_output, read_codes, read_labels, read_matrix, write_codes

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

X = np.array([[0.5, -1.0, 2.0], [3.0, 4.25, -6.0]])


def refused(read: Callable[[str], Any], spec: Path | str) -> str:
    """The one-line message of a refusal, which begins with the input's name."""
    with pytest.raises(InputError) as caught:
        read(str(spec))
    message = str(caught.value)
    assert message.startswith(f"{spec}: ")
    assert "\n" not in message
    return message.removeprefix(f"{spec}: ")


def npy(path: Path, array: Any) -> Path:
    np.save(path, np.asarray(array))
    return path


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def vectors(array: Any, type_: Any) -> Any:
    return pa.array(np.asarray(array).tolist(), type=type_)


# --- matrices


def test_numbers_take_the_smallest_exact_float(tmp_path: Path) -> None:
    for dtype, expected in [
        *((name, "float32") for name in ("bool", "int8", "uint8", "int16", "uint16", "float16")),
        *((name, "float64") for name in ("int32", "uint32", "int64", "uint64", "float64")),
        ("float32", "float32"),
        (">f4", "float32"),
        (">f8", "float64"),
    ]:
        array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
        loaded = read_matrix(str(npy(tmp_path / "x.npy", array)))
        assert loaded.dtype == np.dtype(expected)
        assert loaded.dtype.isnative
        np.testing.assert_array_equal(loaded, array)


def test_fortran_order_comes_back_in_c_order(tmp_path: Path) -> None:
    loaded = read_matrix(str(npy(tmp_path / "x.npy", np.asfortranarray(X))))
    assert loaded.flags.c_contiguous
    np.testing.assert_array_equal(loaded, X)


def test_npz_needs_a_key_only_if_several_fit(tmp_path: Path) -> None:
    for save in [np.savez, np.savez_compressed]:
        path = tmp_path / "x.npz"
        save(path, X=X, y=np.arange(2))
        np.testing.assert_array_equal(read_matrix(str(path)), X)
        np.testing.assert_array_equal(read_matrix(f"{path}:X"), X)
        np.testing.assert_array_equal(read_labels(str(path)), [0, 1])
        save(path, train=X, test=X[:1])
        message = refused(read_matrix, path)
        assert "train (2, 3) float64, test (1, 3) float64" in message
        assert f"{path}:train" in message


def test_a_vector_column_is_a_matrix(tmp_path: Path) -> None:
    for type_ in [
        pa.list_(pa.float32()),
        pa.list_(pa.float32(), 3),
        pa.large_list(pa.float64()),
        pa.list_(pa.float16(), 3),
    ]:
        path = parquet(tmp_path / "x.parquet", id=[7, 8], v=vectors(X, type_), name=["a", "b"])
        np.testing.assert_array_equal(read_matrix(str(path)), X)
        np.testing.assert_array_equal(read_matrix(f"{path}:v"), X)


def test_vector_columns_span_row_groups(tmp_path: Path) -> None:
    array = np.arange(30.0).reshape(10, 3)
    table = pa.table({"v": vectors(array, pa.list_(pa.float64()))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=3)
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "x.parquet")), array)


def test_numeric_columns_stand_side_by_side(tmp_path: Path) -> None:
    columns = {"a.b": [1, 2], "name": ["x", "y"], "c": [0.5, 1.5], "d": [True, False]}
    path = parquet(tmp_path / "x.parquet", **columns)
    np.testing.assert_array_equal(read_matrix(str(path)), [[1, 0.5, 1], [2, 1.5, 0]])


def test_two_vector_columns_need_a_name(tmp_path: Path) -> None:
    v = vectors(X, pa.list_(pa.float32()))
    path = parquet(tmp_path / "x.parquet", v=v, w=v, id=[1, 2])
    assert "several fit: v list<" in refused(read_matrix, path)


def test_codes_with_ids_are_no_matrix(tmp_path: Path) -> None:
    write_codes(tmp_path / "c.parquet", np.ones((2, 2), np.uint8), ids=[1, 2])
    assert "a matrix has two dimensions" in refused(read_matrix, tmp_path / "c.parquet")


def test_csv_gives_its_numeric_columns(tmp_path: Path) -> None:
    for content, expected in [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        ('"a","b"\r\n1,2\r\n3,4', [[1, 2], [3, 4]]),
        ("\ufeffa,b\n\n1, 2 \n3,4\n\n", [[1, 2], [3, 4]]),
        ("a,b,class\n1,2,cat\n3,4,dog\n", [[1, 2], [3, 4]]),
        ("cat,1,2\ndog,3,4\n", [[1, 2], [3, 4]]),
        ("a\n1e3\n-.5\n", [[1000], [-0.5]]),
        (",a,b\n0,1,2\n1,3,4\n", [[1, 2], [3, 4]]),  # the index that pandas writes
        (",0,1\n0,1.5,2.0\n1,3.0,4.0\n", [[1.5, 2], [3, 4]]),  # and its names of columns
        ("0,1\n1.5,2.0\n3.0,4.0\n", [[1.5, 2], [3, 4]]),
        ("0,1\n2,3\n", [[0, 1], [2, 3]]),
        ("0,1\n", [[0, 1]]),
    ]:
        np.testing.assert_array_equal(read_matrix(str(text(tmp_path / "x.csv", content))), expected)


def test_csv_faults_name_the_line(tmp_path: Path) -> None:
    for content, problem in [
        ("", "is empty"),
        ("a,b\n", "is empty"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, line 1 has 2"),
        ("1,2\n3,4,5\n", "line 2 has 3 cells, line 1 has 2"),
        ("a,b\n1,2\n3,none\n", "line 3: 'none' is not a number"),
        ("a,b\n1,2\n3,\n", "line 3: '' is not a number"),
        ("a,b\n1,nan\n3,4\n", "1 of 4 values are not finite, the first in row 0, column 1"),
        ("a,b\nx,y\nz,w\n", "a matrix has two dimensions of real numbers"),
    ]:
        assert problem in refused(read_matrix, text(tmp_path / "x.csv", content))


def test_csv_must_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,\xff\n1,2\n")
    assert "utf-8" in refused(read_matrix, tmp_path / "x.csv")


def test_what_is_no_matrix_is_refused(tmp_path: Path) -> None:
    for array, problem in [
        (np.ones(3), "this is (3,)"),
        (np.ones((2, 2, 2)), "this is (2, 2, 2) float64"),
        (np.float64(1), "this is () float64"),
        (np.ones((0, 3)), "is empty (shape (0, 3))"),
        (np.ones((3, 0)), "is empty (shape (3, 0))"),
        (np.ones((2, 2), complex), "this is (2, 2) complex128"),
        (np.array([["a", "b"]]), "this is (1, 2) <U1"),
        (np.ones((2, 2), "M8[s]"), "datetime64"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "this is (1,)"),
        (
            np.array([[1.0, np.nan], [np.inf, 2.0]]),
            "2 of 4 values are not finite, the first in row 0, column 1 (counted from 0): nan",
        ),
        (np.array([[1.0, np.inf]]), "row 0, column 1 (counted from 0): inf"),
        (np.array([[1, 2], [3, -np.inf]], np.float32), "row 1, column 1 (counted from 0): -inf"),
    ]:
        assert problem in refused(read_matrix, npy(tmp_path / "x.npy", array))


def test_pickled_arrays_are_refused_unread(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (pytest.fail, ("the file was executed",))

    bomb = np.array([[Bomb()]], dtype=object)
    np.save(tmp_path / "x.npy", bomb, allow_pickle=True)
    np.savez(tmp_path / "x.npz", bomb=bomb, X=X)
    assert "pickled objects, refused" in refused(read_matrix, tmp_path / "x.npy")
    assert "pickled objects, refused" in refused(read_matrix, f"{tmp_path}/x.npz:bomb")
    np.testing.assert_array_equal(read_matrix(f"{tmp_path}/x.npz"), X)


def test_faulty_parquet_columns_are_refused(tmp_path: Path) -> None:
    for column, problem in [
        (pa.array([[1.0, 2.0], [3.0]]), "row 1 (counted from 0) has 1 values, row 0 has 2"),
        (pa.array([[1.0, 2.0], None]), "row 1 (counted from 0) has 0 values, row 0 has 2"),
        (pa.array([[1.0, 2.0], [None, 3.0]]), "1 of 4 values are not finite, the first in row 1"),
        (pa.array([[1, None], [2, 3]]), "the first in row 0, column 1"),
        (pa.array([[True, None], [False, True]]), "the first in row 0, column 1"),
        (pa.array([1, None]), "1 of 2 values are not finite, the first in row 1, column 0"),
        (pa.array([True, None]), "1 of 2 values are not finite"),
        (pa.array([[], []], type=pa.list_(pa.float32())), "is empty"),
        (pa.array([], type=pa.list_(pa.float32())), "is empty"),
        (pa.array([None, None], type=pa.list_(pa.float32())), "is empty"),
        (pa.array([["a"], ["b"]]), "this is v list<"),
        (pa.array([{"a": 1}]), "this is v struct<"),
    ]:
        assert problem in refused(read_matrix, parquet(tmp_path / "x.parquet", v=column))


# --- labels


def test_labels_are_integers_or_text(tmp_path: Path) -> None:
    for labels, expected in [
        (np.array([3, 1], np.int16), np.array([3, 1], np.int16)),
        (np.array([3.0, -1.0]), np.array([3, -1])),
        (np.array([True, False]), np.array([1, 0])),
        (np.array(["é", "dog"]), np.array(["é", "dog"])),
        (np.array(["1", "2"]), np.array(["1", "2"])),
        (np.array(["é".encode(), b"dog"]), np.array(["é", "dog"])),
    ]:
        loaded = read_labels(str(npy(tmp_path / "y.npy", labels)))
        assert loaded.dtype == expected.dtype
        np.testing.assert_array_equal(loaded, expected)


def test_csv_labels(tmp_path: Path) -> None:
    for content, key, expected in [
        ("label\ncat\ndog\ncat\n", "", ["cat", "dog", "cat"]),
        ("cat\ndog\ncat\n", "", ["cat", "dog", "cat"]),
        ("3\n1\n", "", [3, 1]),
        ("y\n3\n1\n", "", [3, 1]),
        ("y\n3.0\n1\n", "", [3, 1]),
        ("y\n3\ncat\n", "", ["3", "cat"]),
        ("a,label\n0.5,cat\n1,dog\n", ":label", ["cat", "dog"]),
        ("0.5,cat\n1,dog\n", ":2", ["cat", "dog"]),
        ("\ufefflabel,a\ncat,1\ndog,2\n", ":label", ["cat", "dog"]),
        ('a,label\n0.5,"cat, big"\n1,"dog\n"\n', ":label", ["cat, big", "dog"]),
    ]:
        loaded = read_labels(f"{text(tmp_path / 'y.csv', content)}{key}")
        assert loaded.tolist() == expected


def test_csv_with_several_columns_asks_for_one(tmp_path: Path) -> None:
    path = text(tmp_path / "y.csv", "a,label\n0.5,cat\n1,dog\n")
    assert refused(read_labels, path) == f"several fit: a number, label text; name one: {path}:a"


def test_parquet_labels(tmp_path: Path) -> None:
    columns = {
        "n": pa.array([1, 2]),
        "f": pa.array([1.0, 2.0]),
        "s": pa.array(["a", "b"]),
        "d": pa.array(["a", "b"]).dictionary_encode(),
        "b": pa.array([True, False]),
        "none": pa.array(["a", None]),
        "hole": pa.array([1, None]),
        "v": vectors(X, pa.list_(pa.float32())),
        "day": pa.array([1, 2], type=pa.date32()),
    }
    path = parquet(tmp_path / "y.parquet", **columns)
    found = {key: read_labels(f"{path}:{key}").tolist() for key in "nfsdb"}
    assert found == {"n": [1, 2], "f": [1, 2], "s": ["a", "b"], "d": ["a", "b"], "b": [1, 0]}
    assert "row 1 (counted from 0): ''" in refused(read_labels, f"{path}:none")
    assert "row 1 (counted from 0): nan" in refused(read_labels, f"{path}:hole")
    assert "this is v list<" in refused(read_labels, f"{path}:v")
    assert "this is day date32" in refused(read_labels, f"{path}:day")
    assert "n int64, f double, s string" in refused(read_labels, path)


def test_what_is_no_label_is_refused(tmp_path: Path) -> None:
    for labels, problem in [
        ([1.0, 2.5, 3.5], "2 labels are neither whole nor text, the first in row 1"),
        ([1.0, np.nan], "row 1 (counted from 0): nan"),
        ([np.inf], "row 0 (counted from 0): inf"),
        ([1e300], "1e+300"),
        (["a", ""], "row 1 (counted from 0): ''"),
        ([], "is empty"),
        ([[1, 2]], "labels have one dimension of whole numbers or text; this is (1, 2) int64"),
        ([1j], "complex128"),
    ]:
        assert problem in refused(read_labels, npy(tmp_path / "y.npy", labels))


# --- names of inputs


def test_an_existing_file_may_have_colons(tmp_path: Path) -> None:
    for name in ("a:b.npz", "x.npz:y.npz"):
        path = npz(tmp_path / name, X=X, y=np.arange(2))
        np.testing.assert_array_equal(read_matrix(str(path)), X)
        np.testing.assert_array_equal(read_labels(f"{path}:y"), [0, 1])


def test_a_key_may_have_colons(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", **{"a:b": X, "c.npy": X + 1})
    np.testing.assert_array_equal(read_matrix(f"{path}:a:b"), X)
    np.testing.assert_array_equal(read_matrix(f"{path}:c.npy"), X + 1)


def test_an_unknown_key_suggests_the_nearest(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", labels=np.arange(2), X=X)
    message = refused(read_labels, f"{path}:lables")
    assert "'lables'; did you mean 'labels'?" in message
    assert "labels, X" in message
    assert "did you mean" not in refused(read_labels, f"{path}:zzz")


def test_long_listings_are_cut(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", **{f"a{i}": X for i in range(30)})
    assert "a7 (2, 3) float64 and 22 more" in refused(read_matrix, path)


def test_a_single_array_has_no_key(tmp_path: Path) -> None:
    path = npy(tmp_path / "x.npy", X)
    assert "drop ':X'" in refused(read_matrix, f"{path}:X")


def test_a_key_of_the_wrong_shape_is_explained(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", X=X, y=np.arange(2))
    assert "this is y (2,) int64" in refused(read_matrix, f"{path}:y")


def test_upper_case_extensions_are_known(tmp_path: Path) -> None:
    text(tmp_path / "X.CSV", "1,2\n")
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "X.CSV")), [[1, 2]])


def test_missing_files_directories_and_kinds_are_refused(tmp_path: Path) -> None:
    for read in [read_matrix, read_labels, read_codes]:
        for spec, path in (("no.npy", "no.npy"), ("no.npz:X", "no.npz")):
            with pytest.raises(InputError, match=f"^File not found: {tmp_path}/{path}$"):
                read(f"{tmp_path}/{spec}")
        (tmp_path / "dir.npy").mkdir(exist_ok=True)
        assert "is a directory" in refused(read, tmp_path / "dir.npy")
        assert "is a directory" in refused(read, tmp_path)
        path = text(tmp_path / "x.txt", "1 2")
        assert refused(read, path) == "unknown file type '.txt'; use .npy, .npz, .parquet, .csv"


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_damage_is_refused_or_harmless(tmp_path: Path, suffix: str) -> None:
    """Cut anywhere, or of another kind, a file is refused; nothing but `InputError` escapes."""
    path = tmp_path / f"x{suffix}"
    if suffix == ".parquet":
        parquet(path, v=vectors(X, pa.list_(pa.float64())))
    else:
        {".npy": np.save, ".npz": np.savez_compressed}[suffix](path, X)
    data = path.read_bytes()
    for length in range(0, len(data), 1 + len(data) // 150):
        path.write_bytes(data[:length])
        refused(read_matrix, path)
    for other in (b"PK\x03\x04nonsense", b"PAR1", b"\x93NUMPY\x07\x00", b"once upon a time" * 9):
        path.write_bytes(other)
        refused(read_matrix, path)
    rng = np.random.default_rng(0)
    for i in rng.integers(len(data), size=150):
        path.write_bytes(data[:i] + bytes([data[i] ^ int(rng.integers(1, 256))]) + data[i + 1 :])
        try:
            read_matrix(str(path))
        except InputError:
            continue


def test_a_damaged_member_of_an_npz_fails_its_checksum(tmp_path: Path) -> None:
    for save in [np.savez, np.savez_compressed]:
        path = tmp_path / "x.npz"
        save(path, X=X)
        with zipfile.ZipFile(path) as archive:
            stored = archive.getinfo("X.npy").CRC.to_bytes(4, "little")
        path.write_bytes(path.read_bytes().replace(stored, bytes(4)))
        assert "CRC" in refused(read_matrix, path)


def test_a_header_cannot_ask_for_more_memory_than_the_file_has(tmp_path: Path) -> None:
    path = npy(tmp_path / "x.npy", X)
    data = path.read_bytes()
    huge = data.replace(b"(2, 3), }          ", b"(2, 30000000000), }")
    assert len(huge) == len(data)
    path.write_bytes(huge)
    assert "is truncated: (2, 30000000000) float64" in refused(read_matrix, path)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", huge)
    assert "is truncated" in refused(read_matrix, tmp_path / "x.npz")


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = npy(tmp_path / "x.npy", X)
    monkeypatch.setattr(tables, "open", deny, raising=False)
    assert "cannot be read (Permission denied)" in refused(read_matrix, path)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "x.parquet", a=[1.0])
    real_import = builtins.__import__

    def no_pyarrow(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    assert "pip install 'bridgehash[parquet]'" in refused(read_matrix, path)
    assert "pip install 'bridgehash[parquet]'" in refused(check_output, tmp_path / "c.parquet")
    check_output(tmp_path / "c.npy")


# --- codes

CODES = np.random.default_rng(0).integers(0, 256, size=(7, 3), dtype=np.uint8)


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".PARQUET"])
@pytest.mark.parametrize("n_bytes", [1, 3, 8])
def test_codes_come_back_as_written(tmp_path: Path, suffix: str, n_bytes: int) -> None:
    codes = np.random.default_rng(1).integers(0, 256, size=(5, 2 * n_bytes), dtype=np.uint8)[:, ::2]
    codes[:, -1] = 0  # bytes that a string would lose
    path = tmp_path / f"c{suffix}"
    write_codes(path, codes)
    loaded = read_codes(str(path))
    assert loaded.dtype == np.uint8
    assert loaded.flags.c_contiguous
    assert loaded.flags.writeable
    np.testing.assert_array_equal(loaded, codes)
    assert os.listdir(tmp_path) == [path.name]


def test_ids_travel_with_the_codes(tmp_path: Path) -> None:
    for ids in [np.arange(7) * 10, [f"é{i}" for i in range(7)]]:
        path = tmp_path / "c.parquet"
        write_codes(path, CODES, ids)
        assert pq.read_schema(path).names == ["id", "code"]
        assert pq.read_schema(path).field("code").type == pa.binary(3)
        np.testing.assert_array_equal(read_codes(str(path)), CODES)
        np.testing.assert_array_equal(read_codes(f"{path}:code"), CODES)
        np.testing.assert_array_equal(read_labels(f"{path}:id"), ids)


def test_codes_from_npz_and_foreign_parquet(tmp_path: Path) -> None:
    path = npz(tmp_path / "c.npz", codes=CODES, X=X)
    np.testing.assert_array_equal(read_codes(str(path)), CODES)
    rows = [row.tobytes() for row in CODES]
    for type_ in (pa.binary(), pa.large_binary(), pa.binary(3)):
        table = pa.table({"code": pa.array(rows, type=type_), "x": CODES[:, 0].astype(float)})
        pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
        np.testing.assert_array_equal(read_codes(f"{tmp_path}/c.parquet"), CODES)
    parquet(tmp_path / "c.parquet", code=vectors(CODES, pa.list_(pa.uint8())))
    np.testing.assert_array_equal(read_codes(f"{tmp_path}/c.parquet"), CODES)


def test_what_is_no_code_is_refused(tmp_path: Path) -> None:
    rule = "codes have two dimensions of packed bytes (uint8); this is"
    assert rule in refused(read_codes, npy(tmp_path / "c.npy", CODES.astype(int)))
    assert rule in refused(read_codes, npy(tmp_path / "c.npy", CODES[0]))
    assert rule in refused(read_codes, text(tmp_path / "c.csv", "1,2\n3,4\n"))
    assert "is empty" in refused(read_codes, npy(tmp_path / "c.npy", CODES[:0]))
    ragged = parquet(tmp_path / "c.parquet", code=pa.array([b"ab", b"c"]))
    assert "row 1 (counted from 0) has 1 values, row 0 has 2" in refused(read_codes, ragged)
    listed = parquet(tmp_path / "c.parquet", code=pa.array([[b"ab"], [b"cd"]]))
    assert rule in refused(read_codes, listed)
    none = parquet(tmp_path / "c.parquet", code=pa.array([], type=pa.binary(2)))
    assert "is empty" in refused(read_codes, none)


def test_outputs_are_checked_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_output(str(tmp_path / "c.npy")) == tmp_path / "c.npy"
    message = refused(check_output, tmp_path / "c.txt")
    assert message == "must end in .npy or .parquet, not '.txt'"
    assert "nowhere does not exist" in refused(check_output, tmp_path / "nowhere" / "c.npy")
    (tmp_path / "d.npy").mkdir()
    assert "is a directory" in refused(check_output, tmp_path / "d.npy")
    check_output(tmp_path / "m.safetensors", suffixes=[".safetensors"])
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "is not writable" in refused(check_output, tmp_path / "c.npy")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "is not writable" in refused(check_output, tmp_path / "locked" / "c.npy")


def test_wrong_codes_and_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.parquet"):
        write_codes(tmp_path / "c.npy", CODES, ids=range(7))
    with pytest.raises(InputError, match=r"ids of shape \(3,\) do not match 7 codes"):
        write_codes(tmp_path / "c.parquet", CODES, ids=range(3))
    with pytest.raises(ValueError, match="codes must be uint8"):
        write_codes(tmp_path / "c.npy", CODES.astype(int))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_failed_write_leaves_the_old_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / f"c{suffix}"
    write_codes(path, CODES)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left"):
        write_codes(path, CODES[:2])
    np.testing.assert_array_equal(read_codes(str(path)), CODES)
    assert os.listdir(tmp_path) == [path.name]
