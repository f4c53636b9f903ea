"""Texts in files: which rows, ids and labels they have, and which files are refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bridgehash import InputError
from bridgehash.features.texts import Texts, read_texts, split_source

ROWS = [
    {"title": "Bücher, gebraucht", "kind": "books", "key": "b7"},
    {"title": 'two\nlines and a "quote"', "kind": "", "key": "a1"},
    {"title": " ", "kind": "toys", "key": "c"},
]
EXPECTED = Texts(
    ["b7", "a1", "c"],
    ["Bücher, gebraucht", 'two\nlines and a "quote"', None],
    ["books", "", "toys"],
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def as_csv(path: Path) -> Path:
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def test_csv_and_jsonl_give_the_same_rows(tmp_path: Path) -> None:
    lines = "\n\n".join(json.dumps(row) for row in ROWS)
    for path in (as_csv(tmp_path / "t.csv"), write(tmp_path / "t.JSONL", lines)):
        assert read_texts(path, "title", "kind", "key") == EXPECTED
        assert read_texts(path, "title") == Texts(["0", "1", "2"], EXPECTED.texts, [""] * 3)


def test_a_line_is_a_text(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", "one\r\n\ntwo \u2028 still two\nlast")
    texts = ["one", None, "two \u2028 still two", "last"]
    assert read_texts(path, "") == Texts(["0", "1", "2", "3"], texts, [""] * 4)


def test_what_is_not_a_text_is_kept_as_unreadable(tmp_path: Path) -> None:
    rows = [{"t": 1}, {"t": None}, {"other": "x"}, {"t": ["a"]}, {"t": "yes"}]
    path = write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_texts(path, "t").texts == [None] * 4 + ["yes"]
    short = write(tmp_path / "t.csv", "t,u\na,b\nc\n")
    assert read_texts(short, "u").texts == ["b", None]


def test_a_long_cell_is_read_and_the_limit_restored(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = write(tmp_path / "t.csv", "t\n" + "word " * 50_000)
    (text,) = read_texts(path, "t").texts
    assert text is not None
    assert len(text) == 250_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("t.csv", b"a,b\n1,2\n", "c", r"has no column 'c'; its columns are a, b"),
        ("t.csv", b"a,b\n1,2\n", "", r"which column holds the texts\? Give it as t\.csv:COLUMN"),
        ("t.csv", b"a,b\n1,2,3\n", "c", r"has no column 'c'; its columns are a, b$"),
        ("t.csv", b"a,b\n", "a", "has no rows; give at least one text"),
        ("t.csv", b'a\n"open', "a", r"cannot be read \(unexpected end of data\); give a file of"),
        ("t.txt", b"", "", "has no rows"),
        ("t.txt", b"a\n", "a", r"a \.txt file has no column 'a'; omit it"),
        ("t.txt", "Bücher".encode("latin-1"), "", "is not UTF-8 .*; convert it to UTF-8"),
        ("t.jsonl", b'{"a": "x"}\n{"a": \n', "a", "line 2 is not JSON"),
        ("t.jsonl", b"[" * 100_000, "a", "line 1 is not JSON"),
        ("t.jsonl", b'"x"\n', "a", "line 1 is not a JSON object"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, name: str, content: bytes, column: str, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: .*{message}"):
        read_texts(tmp_path / name, column)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nope\.txt: file not found"):
        read_texts(tmp_path / "nope.txt", "")


@pytest.mark.parametrize(
    ("keys", "message"), [("x\nx", "row 1 has the id 'x' again"), ("x\n", "row 1 has no id")]
)
def test_ids_must_be_unique(tmp_path: Path, keys: str, message: str) -> None:
    rows = "\n".join(f"t,{key}" for key in keys.split("\n"))
    path = write(tmp_path / "t.csv", f"text,key\n{rows}\n")
    with pytest.raises(InputError, match=f"{message} in column 'key'; make ids unique"):
        read_texts(path, "text", ids_column="key")


def test_a_path_may_contain_colons(tmp_path: Path) -> None:
    odd = write(tmp_path / "a.csv:b.csv", "t\nx\n")
    assert split_source(str(odd)) == (odd, "")
    assert split_source(f"{odd}:t") == (odd, "t")
    assert split_source("C:/folder") == (Path("C:/folder"), "")
