"""Public sets of paired rows: official splits, masks and prefixes of the arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.datasets import DATASETS, parse_task

ROWS = np.arange(12.0).reshape(6, 2)
Y = np.array([4, 4, 7, 7, 9, 9])


@pytest.fixture(autouse=True)
def empty(nowhere: Path) -> None:
    """Only the folder given by a test is searched."""


def save(folder: Path, name: str, **arrays: Any) -> Path:
    """Write a small file in the layout of a public set."""
    (folder / "external").mkdir(exist_ok=True)
    np.savez(folder / "external" / f"{name}.npz", **arrays)
    return folder


def wiki(folder: Path, **changes: Any) -> Path:
    arrays = {"train_sift128": ROWS[:4], "train_lda10": -ROWS[:4, :1], "train_y": Y[:4]}
    arrays |= {"test_sift128": ROWS[4:], "test_lda10": -ROWS[4:, :1], "test_y": Y[[3, 4]]}
    return save(folder, "wiki", **(arrays | changes))


@pytest.mark.filterwarnings("ignore:.*sha256")
def test_pairs_come_with_the_official_split_and_one_numbering_of_classes(tmp_path: Path) -> None:
    task = parse_task("wiki/train.sift128-train.lda10").load_pairs(wiki(tmp_path))
    np.testing.assert_array_equal(task.X_train, ROWS[:4])
    np.testing.assert_array_equal(task.Z_train, -ROWS[:4, :1])
    np.testing.assert_array_equal(task.X_query, ROWS[4:])
    np.testing.assert_array_equal(task.Z_query, -ROWS[4:, :1])
    assert (task.y_train.tolist(), task.y_query.tolist()) == ([0, 0, 1, 1], [1, 2])


@pytest.mark.filterwarnings("ignore:.*sha256")
def test_a_set_without_a_split_has_pairs_and_no_queries(tmp_path: Path) -> None:
    save(tmp_path, "scgem", expression34=ROWS, methylation27=ROWS[:, :1], y=Y)
    task = parse_task("scgem/all.expression34-all.methylation27").load_pairs(
        tmp_path, unit_rows=True
    )
    np.testing.assert_allclose(np.linalg.norm(task.X_train, axis=1), 1.0)
    assert (task.Z_train.shape, task.X_query.shape, task.Z_query.shape) == ((6, 1), (0, 2), (0, 1))
    assert len(task.y_query) == 0


@pytest.mark.filterwarnings("ignore:.*sha256")
def test_a_mask_tells_training_from_test_texts(tmp_path: Path) -> None:
    mask = np.array([0, 1, 0, 0, 1, 0], dtype=bool)
    save(tmp_path, "banking77", use512=ROWS.astype(np.float16), y=Y, is_test=mask)
    task = parse_task("banking77/train.use512").load_pairs(tmp_path)
    np.testing.assert_array_equal(task.X_train, ROWS[~mask])
    np.testing.assert_array_equal(task.Z_query, ROWS[mask])
    assert task.y_query.tolist() == [0, 2]


@pytest.mark.filterwarnings("ignore:.*sha256")
def test_all_rows_of_a_set_with_several_domains_keep_their_prefix(tmp_path: Path) -> None:
    save(tmp_path, "uci_digits", all_zernike47=ROWS, all_y=Y, train_fourier76=-ROWS, train_y=Y)
    (X, y), (train, _) = (
        DATASETS["mfeat"].load(parse_task(f"mfeat/{view}").source, tmp_path)
        for view in ("all.zernike47", "train.fourier76")
    )
    np.testing.assert_array_equal(X, ROWS)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(train, -ROWS)


@pytest.mark.filterwarnings("ignore:.*sha256")
def test_rows_that_are_not_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows of train and test are not pairs; name two features"):
        parse_task("wiki/train.sift128-test.lda10").load_pairs(tmp_path)
    (tmp_path / "wiki").mkdir()
    np.savez(tmp_path / "wiki" / "train.lda10.npz", x=ROWS[:4], y=Y[[0, 0, 0, 0]])
    with pytest.raises(InputError, match="labels of both views differ"):
        parse_task("wiki/train.sift128-train.lda10").load_pairs(wiki(tmp_path))


def test_pairs_of_the_public_files_have_the_official_sizes(pack_folder: Path) -> None:
    for text, name, sizes in (
        ("wiki/train.sift128-train.lda10", "wiki", (2173, 693)),
        ("mfeat/train.fourier76-train.karhunen64", "uci_digits", (1500, 500)),
        ("snare/all.atac19-all.rna10", "snare_seq", (1047, 0)),
        ("banking77/train.wordllama256-train.use512", "banking77", (10_003, 3080)),
    ):
        if not (pack_folder / "external" / f"{name}.npz").is_file():
            pytest.skip(f"no external/{name}.npz in the data pack: set BRIDGEHASH_DATA")
        task = parse_task(text).load_pairs(pack_folder)
        assert (len(task.X_train), len(task.Z_query)) == sizes
        assert len(np.unique(task.y_train)) == task.y_train.max() + 1
