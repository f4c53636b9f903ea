"""Odd inputs are read right or refused in one clear line: no hang, no crash, no raw escape."""

import io
import os
import socket
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bridgehash import (
    ITQ,
    AnchorKernel,
    HammingIndex,
    InputError,
    LinearEncoder,
    PrincipalMap,
    Shared,
    UnitRows,
    as_blocks,
    save,
)
from bridgehash.cli.console import printable, show_fields, show_table
from bridgehash.cli.io import read_codes, read_labels, read_matrix
from bridgehash.cli.main import main
from bridgehash.models.model_file import load_model, save_model
from tests.cases import METHODS, two_domains

ESCAPE = "a\x1b[2Jb\nc\u202ed"
ESCAPED = r"a\x1b[2Jb\nc\u202ed"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Features, a model and an index, in the current directory."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = Shared(ITQ(n_bits=8, random_state=0)).fit(X, X)
    save(model, "model.bh")
    np.save("rows.npy", X)
    np.savez("labels.npz", y=np.arange(30) % 3)
    codes = model.encode(X, "source")
    np.save("codes.npy", codes)
    HammingIndex(n_bits=8).add(codes).save("index.bhi")
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Run a command line, given as a list; return its exit code and output."""

    def call(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def refused(run):
    """The line that says why a command was refused."""

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        return err

    return call


def npy_bytes(header, version=b"\x01\x00", body=b""):
    text = header.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + body


def with_shape(shape, descr="'<f8'"):
    return npy_bytes(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")


HEADERS = {
    "a truth value": with_shape("(True, 5)") + bytes(40),
    "a negative size": with_shape("(-1, 5)") + bytes(40),
    "two negative sizes": with_shape("(-2, -5)") + bytes(80),
    "a huge size": with_shape(f"({2**62}, 5)"),
    "sizes whose product is zero bytes": with_shape(f"({10**15}, 5)", "'|S0'"),
    "a size of text": with_shape("('5', 5)"),
    "deep brackets": with_shape("(" * 4000 + ")" * 4000),
    "many signs": with_shape("-" * 9000 + "1"),
    "a long header": with_shape("(1, 1)" + " " * 60_000),
    "a huge header": npy_bytes("{'descr': '<f8', 'shape': (1, 1)" + " " * 2**20, b"\x02\x00"),
    "another version": npy_bytes("{}", b"\x09\x00"),
    "no header": b"\x93NUMPY",
    "pickled objects": with_shape("(1, 1)", "'|O'") + bytes(8),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=list(HEADERS))
def test_odd_npy_headers_are_refused(tmp_path, content):
    path = tmp_path / "odd.npy"
    path.write_bytes(content)
    packed = tmp_path / "odd.npz"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.npy", content)
    for read in (read_matrix, read_labels, read_codes, as_blocks):
        with pytest.raises(InputError, match=r"odd\.npy: "):
            read(str(path))
        if read is not as_blocks:
            with pytest.raises(InputError, match=r"odd\.npz: "):
                read(str(packed))


def test_a_manifest_of_deep_json_is_refused(folder, refused):
    (folder / "shards").mkdir()
    np.save(folder / "shards" / "a.npy", np.ones((2, 4)))
    (folder / "out").mkdir()
    (folder / "out" / "_bridgehash.json").write_text("[" * 100_000)
    line = ("encode", "model.bh", "shards", "--domain", "source", "--out", "out")
    assert "_bridgehash.json: is damaged" in refused(*line)


# --- text on the terminal


def test_control_characters_are_shown_as_escapes(capsys):
    assert printable(ESCAPE) == ESCAPED
    show_fields([("name", ESCAPE)])
    show_table((ESCAPE, "n"), [(ESCAPE, "1")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert ESCAPED in out


@pytest.mark.parametrize("command", ["info", "encode", "search", "fit", "evaluate"])
def test_file_names_are_shown_escaped(refused, command):
    name = "\x1b]0;title\x07.bh"
    lines = {
        "info": ("info", name),
        "encode": ("encode", name, "rows.npy", "--out", "out.npy"),
        "search": ("search", "\x1b[2J.bhi", "codes.npy"),
        "fit": ("fit", "\x1b[2J.npy", "rows.npy", "--out", "out.bh"),
        "evaluate": ("evaluate", "model.bh", "--queries", "\x1b[2J.npy", "--labels-queries")
        + ("labels.npz:y", "--database", "rows.npy", "--labels-database", "labels.npz:y"),
    }
    message = refused(*lines[command])
    assert "\x1b" not in message
    assert "\x07" not in message
    assert r"\x1b" in message


def test_usage_errors_are_shown_escaped(refused):
    assert "\x1b" not in refused("info", "model.bh", "--\x1b[2J")
    assert "\x1b" not in refused("search", "index.bhi", "codes.npy", "-k", "\x1b[2J")
    assert "\x1b" not in refused("\x1b[2J")


def test_written_files_are_named_with_escapes(run):
    line = ("encode", "model.bh", "rows.npy", "--domain", "source", "--out", "\x1b[2J.npy")
    code, out, err = run(*line)
    assert code == 0
    assert "\x1b" not in out + err
    assert r"\x1b[2J.npy" in out


def test_the_header_of_a_model_is_shown_escaped(folder, run):
    file = load_model("model.bh")
    hasher = file.header["parameters"]["hasher"]["parameters"]
    hasher["random_state"] = {"not saved": "\x1b[2J"}
    save_model("odd.bh", file.kind, file.header, file.arrays)
    code, out, err = run("info", "odd.bh")
    assert code == 2
    assert "\x1b" not in out + err
    save_model("odd.bh", "\x1b[2J", file.header, file.arrays)
    code, out, err = run("info", "odd.bh")
    assert code == 2
    assert "\x1b" not in out + err
    assert "x1b" in err


def test_tags_and_labels_are_shown_escaped(folder, run):
    HammingIndex(n_bits=8).add(np.load("codes.npy"), tags=["\x1b[2J"] * 30).save("tagged.bhi")
    for line in ("info tagged.bhi", "index info tagged.bhi", "search tagged.bhi codes.npy"):
        code, out, err = run(*line.split())
        assert code == 0
        assert "\x1b" not in out + err
    _, _, err = run("search", "tagged.bhi", "codes.npy", "--tag", "\x1b[31m")
    assert r"\x1b[31m" in err
    np.savez("odd.npz", **{"\x1b[2J": np.ones((30, 4)), "b": np.ones((30, 4))})
    _, _, err = run("encode", "model.bh", "odd.npz", "--domain", "source", "--out", "out.npy")
    assert r"\x1b[2J" in err
    assert "\x1b" not in err


# --- paths that are not files


def special(folder, kind, suffix):
    """A path of a kind, with a name that a command accepts."""
    path = folder / f"special{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "full device":
        path.symlink_to("/dev/full")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    elif kind == "folder":
        path.mkdir()
    return path.name


INPUTS = {
    "info": ((".bh", ".bhi"), "info {}"),
    "index info": ((".bhi",), "index info {}"),
    "search an index": ((".bhi",), "search {} codes.npy"),
    "search for codes": ((".npy", ".parquet", ".csv"), "search index.bhi {}"),
    "encode with a model": ((".bh",), "encode {} rows.npy --domain source --out out.npy"),
    "encode rows": ((".npy", ".npz"), "encode model.bh {} --domain source --out out.npy"),
    "fit": ((".npy",), "fit {} rows.npy --out out.bh --memory-limit 1GiB"),
    "labels": ((".csv",), "fit rows.npy rows.npy --labels-source {} --out out.bh"),
}
KINDS = ["pipe", "device", "socket", "folder"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", INPUTS)
def test_an_input_that_is_no_file_is_refused(folder, refused, case, kind):
    suffixes, line = INPUTS[case]
    for suffix in suffixes:
        name = special(folder, kind, suffix)
        assert name in refused(*line.format(name).split())


CONTENTS = {"empty": b"", "truncated": b"\x93NUMPY\x01", "text": b"hello\n", "zeros": bytes(99)}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=list(CONTENTS))
@pytest.mark.parametrize("case", [name for name in INPUTS if name != "labels"])
def test_a_file_of_another_format_is_refused(folder, refused, case, content):
    suffixes, line = INPUTS[case]
    for suffix in suffixes:
        path = folder / f"odd{suffix}"
        path.write_bytes(content)
        assert path.name in refused(*line.format(path.name).split())


def test_a_truncated_model_or_index_is_refused(folder, refused):
    for name, lines in {
        "model.bh": ["info {}", "encode {} rows.npy --domain source --out out.npy"],
        "index.bhi": ["info {}", "index info {}", "search {} codes.npy"],
    }.items():
        content = (folder / name).read_bytes()
        for size in (len(content) // 2, len(content) - 1):
            (folder / f"cut-{name}").write_bytes(content[:size])
            for line in lines:
                assert f"cut-{name}" in refused(*line.format(f"cut-{name}").split())


OUTPUTS = {
    "encode": (".npy", "encode model.bh rows.npy --domain source --out {}"),
    "search": (".npz", "search index.bhi codes.npy --out {}"),
    "search as JSON": (".json", "search index.bhi codes.npy --out {}"),
    "fit": (".bh", "fit rows.npy rows.npy --method itq --out {}"),
    "index": (".bhi", "index build codes.npy --bits 8 --out {} --replace"),
}


@pytest.mark.parametrize("kind", [*KINDS, "full device"])
@pytest.mark.parametrize("case", OUTPUTS)
def test_an_output_that_is_no_file_is_refused(folder, refused, case, kind):
    suffix, line = OUTPUTS[case]
    name = special(folder, kind, suffix)
    before = os.lstat(name)
    assert name in refused(*line.format(name).split())
    assert os.lstat(name).st_ino == before.st_ino


def test_results_for_a_full_device_are_an_error(folder):
    with open("/dev/full", "wb") as full:
        line = [sys.executable, "-m", "bridgehash", "search", "index.bhi", "codes.npy"]
        root = Path(__file__).resolve().parents[2]
        environment = os.environ | {"PYTHONPATH": str(root)}
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, env=environment, text=True)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


# --- numbers


def test_a_huge_k_gives_all_codes(folder, run):
    code, _, _ = run("search", "index.bhi", "codes.npy", "-k", 10**9, "--out", "found.npz")
    assert code == 0
    with np.load("found.npz") as found:
        assert found["ids"].shape == (30, 30)
        assert (np.sort(found["ids"], axis=1) == np.arange(30)).all()


ODD_NUMBERS = ["1_0", "٣", " 3", "3 ", "+3", "3.0", "1e1", "0x3", "", "9" * 5000, "-1", "0", "nan"]


@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_odd_whole_numbers_are_refused(refused, text):
    assert "-k" in refused("search", "index.bhi", "codes.npy", "-k", text)
    line = ("fit", "rows.npy", "rows.npy", "--out", "out.bh")
    assert "--bits" in refused(*line, "--bits", text)


@pytest.mark.parametrize("text", ["1_0", "٣", "+3", "0x3", "", "nan", "9" * 5000, "1,5"])
def test_odd_numbers_of_parameters_are_refused(refused, text):
    line = ("fit", "rows.npy", "rows.npy", "--out", "out.bh", "--set", f"lam={text}")
    assert "lam: " in refused(*line)


def test_odd_sizes_are_refused(refused):
    for size in ("٣GiB", "1_0GiB", "GiB", "-1GiB", "nan"):
        assert "--memory-limit" in refused(
            "fit", "rows.npy", "rows.npy", "--out", "out.bh", "--memory-limit", size
        )


@pytest.mark.parametrize("scale", [1e160, 1e-310])
@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].pairs])
def test_features_too_large_or_too_small_to_learn_from_are_refused(name, scale):
    data = two_domains().each(lambda X: X * scale)
    with pytest.raises(InputError, match=r"X_source: the largest value is .*; scale the features"):
        METHODS[name].fit(data)


@pytest.mark.parametrize("scale", [1e160, 1e-310])
@pytest.mark.parametrize("each", [ITQ(), AnchorKernel(), PrincipalMap(2)], ids=repr)
def test_one_domain_too_large_or_too_small_is_refused(each, scale):
    with pytest.raises(InputError, match="X: the largest value is"):
        each.fit(two_domains().X_source * scale)


def test_large_and_small_rows_are_encoded_right_or_refused():
    X = two_domains().X_source
    plain = LinearEncoder(np.eye(7), np.zeros(7))
    unit = LinearEncoder(np.eye(7), np.zeros(7), maps=[UnitRows().fit(X)])
    kernel = AnchorKernel(5, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1e160, 1e-310):
            for encoder in (plain, unit):
                np.testing.assert_array_equal(encoder.encode(X * scale), encoder.encode(X))
        far = LinearEncoder(np.eye(5), np.full(5, 0.1), maps=[kernel])
        with pytest.raises(InputError, match="values are too large to encode: AnchorKernel"):
            far.encode(np.full((1, 7), 1e308))
        np.testing.assert_array_equal(far.encode(X * 1e160), far.encode(X * 1e100))
        near = far.encode(np.zeros((1, 7)))
        np.testing.assert_array_equal(far.encode(X[:1] * 1e-310), near)
        steep = LinearEncoder(np.full((7, 2), 1e200), np.zeros(7))
        with pytest.raises(InputError, match="values are too large to encode: projections"):
            steep.encode(np.abs(X) * 1e160)


@pytest.mark.parametrize("scale", [1e160, 1e-310])
def test_commands_name_the_file_of_values_too_large_or_too_small(folder, run, refused, scale):
    X = np.load("rows.npy") * scale
    np.save("odd.npy", X)
    assert "odd.npy: the largest value is" in refused("fit", "odd.npy", "rows.npy", "--out", "a.bh")
    steep = LinearEncoder(np.full((4, 2), 1e200), np.zeros(4))
    save(steep, "steep.bh")
    encode = ("encode", "steep.bh", "odd.npy", "--out", "out.npy")
    measure = ("evaluate", "steep.bh", "--queries", "odd.npy", "--labels-queries", "labels.npz:y")
    measure += ("--database", "rows.npy", "--labels-database", "labels.npz:y")
    for line in (encode, measure):
        if scale > 1:
            assert "odd.npy: values are too large to encode" in refused(*line)
        else:
            code, _, err = run(*line)
            assert (code, err) == (0, "")


# --- text files


def written(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


SAME = {
    "commas": "1.5,2\n3,4\n",
    "semicolons": "1.5;2\n3;4\n",
    "tabs": "1.5\t2\n3\t4\n",
    "a header": "a;b\n1.5;2\n3;4\n",
    "quotes": '"1.5","2"\n"3","4"\n',
    "quoted semicolons": '"1.5";"2"\n"3";"4"\n',
    "a mark at the start": "\ufeff1.5,2\n3,4\n",
    "Windows line ends": "1.5,2\r\n3,4\r\n",
    "blanks": " 1.5 , 2 \n 3 , 4 \n",
    "exponents": "15e-1,+2\n3.,.4E1\n",
    "blank lines": "\n1.5,2\n\n3,4\n\n",
}


@pytest.mark.parametrize("content", SAME.values(), ids=list(SAME))
def test_tables_that_hold_the_same_numbers(tmp_path, content):
    X = read_matrix(written(tmp_path, content))
    np.testing.assert_array_equal(X, [[1.5, 2], [3, 4]])


WRONG = {
    "decimal commas": ("1,5;2,5\n3,5;4,5\n", "write numbers with a point"),
    "decimal commas and tabs": ("1,5\t2\n3,5\t4\n", "write numbers with a point"),
    "decimal commas below a header": ("a;b\n1,5;2,5\n", "write numbers with a point"),
    "an underscore": ("1.5,2\n1_0,4\n", "line 2: '1_0' is not a number"),
    "an underscore in the first line": ("a,b\n1_0,2\n3,4\n", "line 2: '1_0' is not a number"),
    "other digits": ("1.5,2\n٣,4\n", "line 2: '٣' is not a number"),
    "a hexadecimal number": ("1,2\n0x3,4\n", "line 2: '0x3' is not a number"),
    "a missing number": ("1,2\n3,\n", "line 2: '' is not a number"),
    "no number": ("1,2\nnan,4\n", "not finite"),
    "infinity": ("1,2\n3,-Infinity\n", "not finite"),
    "too large": ("1,2\n3,1e999\n", "not finite"),
    "NUL bytes": (b"1,2\n3,\x004\n", "NUL|not a number"),
    "another encoding": ("1,2\n3,4\n".encode("utf-16"), "cannot be read"),
    "an open quote": ('1,"2\n3,4\n', "cannot be read|cells"),
    "text after a quote": ('"1"x,2\n3,4\n', "cannot be read"),
    "more cells": ("1,2\n3,4,5\n", "line 2 has 3 cells, line 1 has 2"),
    "a cell that is too long": ("1,2\n3," + "4" * 200_000 + "\n", "cannot be read"),
}


@pytest.mark.parametrize(("content", "words"), WRONG.values(), ids=list(WRONG))
def test_tables_that_are_refused(tmp_path, content, words):
    with pytest.raises(InputError, match=words) as caught:
        read_matrix(written(tmp_path, content))
    assert len(str(caught.value)) < 600


def test_a_very_long_line_is_read(tmp_path):
    X = np.arange(200_000).reshape(2, -1)
    content = "\n".join(",".join(map(str, row)) for row in X)
    np.testing.assert_array_equal(read_matrix(written(tmp_path, content)), X)


LABELS = {
    "words": (["nan", "cat", "inf"], ["nan", "cat", "inf"]),
    "blanks": ([" 7 ", "8"], [7, 8]),
    "whole floats": (["7.0", "8"], [7, 8]),
    "exponents": (["1e3", "2e5"], ["1e3", "2e5"]),
    "underscores": (["1_0", "2_0"], ["1_0", "2_0"]),
    "other digits": (["٣", "٤"], ["٣", "٤"]),
    "negative": (["-1", "+2"], [-1, 2]),
    "long": (["1234567890123456789", "1"], [1234567890123456789, 1]),
}


@pytest.mark.parametrize(("cells", "expected"), LABELS.values(), ids=list(LABELS))
def test_labels_are_whole_numbers_or_text(tmp_path, cells, expected):
    y = read_labels(written(tmp_path, "\n".join(["label", *cells])))
    assert y.tolist() == expected


@pytest.mark.parametrize("cells", [["1", "nan"], ["1", "inf"], ["1.5", "2"], ["1", "9" * 25]])
def test_numbers_that_are_no_labels_are_refused(tmp_path, cells):
    with pytest.raises(InputError, match="neither whole nor text"):
        read_labels(written(tmp_path, "\n".join(["label", *cells])))


def test_an_array_in_memory_is_still_read(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 3)))
    path = tmp_path / "x.npy"
    path.write_bytes(buffer.getvalue())
    assert read_matrix(str(path)).shape == as_blocks(path).shape == (2, 3)
