"""Columns of tables on the command line: which are features, and that they stay the same."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from bridgehash import load
from tests.cli.conftest import Run

NAMES = ["height", "width", "weight", "age", "speed"]


def write(name: str, X: np.ndarray, names: list[str], **more: np.ndarray) -> None:
    """Write a table with features and, before them, other columns."""
    with open(name, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*more, *names])
        for i, row in enumerate(X):
            writer.writerow([*(column[i] for column in more.values()), *row.tolist()])


@pytest.fixture
def tables(folder: Path) -> np.ndarray:
    X = np.load("target.npy")
    y = np.load("labels.npz")["target"]
    numbers = np.unique(y, return_inverse=True)[1]
    write("table.csv", X, NAMES, id=np.arange(1000, 1050), kind=numbers)
    write("turned.csv", X[:, ::-1], NAMES[::-1], id=np.arange(50))
    write("renamed.csv", X, [*NAMES[:-1], "pace"])
    return X


FIT = (
    "fit table.csv source.npy --out new.bh --bits 8 --preset supervised "
    "--labels-source table.csv:kind --labels-target labels.npz:numbers"
)


def test_ids_and_labels_are_no_features(run: Run, tables: np.ndarray) -> None:
    ended = run(FIT)
    assert ended.code == 0
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "source 50 rows, 5 columns, labelled" in lines
    assert "columns of source height, width, weight, age, speed; not used: id, kind" in lines
    assert "classes 3 / 3, common 3" in lines
    assert "checks passed" in lines
    assert load("new.bh").encoder("source").feature_names_in_ == NAMES


def test_columns_are_found_by_name(run: Run, tables: np.ndarray) -> None:
    assert run(FIT).code == 0
    right = load("new.bh").encode(tables, "source")
    for table in ("table.csv", "turned.csv"):  # with a label, without one, in another order
        assert run(f"encode new.bh {table} --domain source --out codes.npy").code == 0
        np.testing.assert_array_equal(np.load("codes.npy"), right)


def test_columns_of_other_names_are_refused(run: Run, tables: np.ndarray) -> None:
    assert run(FIT).code == 0
    ended = run("encode new.bh renamed.csv --domain source --out codes.npy")
    assert ended.code == 2
    assert "renamed.csv: lacks the column 'speed' of the fit; rename" in ended.err


def test_a_domain_that_joins_has_names_too(run: Run, tables: np.ndarray) -> None:
    assert run(FIT).code == 0
    assert run("join new.bh more=turned.csv --labels table.csv:kind").code == 0
    assert load("new.bh").encoder("more").feature_names_in_ == NAMES[::-1]


def test_a_table_without_features_is_refused(run: Run, tables: np.ndarray) -> None:
    write("ids.csv", np.arange(50.0)[:, None], ["id"], photo_id=np.arange(50))
    ended = run(FIT.replace("fit table.csv", "fit ids.csv"))
    assert ended.code == 2
    assert "ids.csv: photo_id, id: ids or labels, no features" in ended.err


def test_labels_in_another_spelling_are_a_note(run: Run, folder: Path) -> None:
    names = np.load("labels.npz")["source"]
    np.save("upper.npy", np.char.upper(names))
    line = (
        "fit source.npy target.npy --out new.bh --bits 8 --preset supervised "
        "--labels-source upper.npy --labels-target labels.npz:target"
    )
    strict = run(f"{line} --strict")
    assert (strict.code, strict.out, Path("new.bh").exists()) == (2, "", False)
    assert strict.err.startswith("error: --strict: the labels of source and target have no class")
    ended = run(line)
    assert ended.code == 0
    assert ended.err.startswith("note: the labels of source and target have no class in common")
    assert "'ANT' and 'ant': write them alike" in ended.err
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "classes 3 / 3, common 0" in lines
    assert "checks 1 warning" in lines
