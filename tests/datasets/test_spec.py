"""Tasks by name, and the data they load."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from bridgehash import InputError, MissingDataError
from bridgehash.datasets import (
    DATASETS,
    DataView,
    TaskSpec,
    TransferTask,
    parse_task,
    task_from_files,
)
from bridgehash.models.feature_maps import UnitRows

OFFICE = "office-caltech10/caltech10.surf800-amazon.effnet_lite0"


@pytest.fixture(autouse=True)
def empty(nowhere: Path) -> None:
    """Only the folder given by a test is searched."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with two feature files."""
    rng = np.random.default_rng(0)
    (tmp_path / "own").mkdir()
    for name, n, d in (("photos.f", 40, 5), ("sketches.g", 60, 3)):
        y = np.array(["cat", "dog"])[np.arange(n) % 2]
        np.savez(tmp_path / "own" / f"{name}.npz", x=rng.random((n, d), np.float32), y=y)
    return tmp_path


def test_text_survives_the_round_trip() -> None:
    for text in (
        OFFICE,
        f"{OFFICE}@500",
        "cifar10/all.gist512",
        "cifar10/all.gist512@5000",
        "office-home/art.vgg16-real_world.vgg16",
        "own/photos.vgg16-sketches.gist",
        f"{OFFICE}@classes=partial",
        f"{OFFICE}@500@classes=universal",
        f"{OFFICE}@classes=mug+bike/mug+7",
    ):
        task = parse_task(text)
        assert str(task) == text
        assert parse_task(str(task)) == task
        assert task.alone == ("-" not in text.split("/")[1])


def test_a_pair_of_equal_views_is_one_view_alone() -> None:
    text = "pacs/photo.gist512"
    assert str(parse_task(f"{text}-photo.gist512")) == text


def test_a_wrong_name_is_refused_with_the_nearest() -> None:
    for text, message in (
        ("office-caltech/amazon.surf800", "did you mean 'office-caltech10'"),
        ("pacs/foto.gist512-sketch.gist512", "view of pacs 'foto.gist512'; did you mean 'photo"),
        ("pacs/photo.gist512-sketch.gist", "did you mean 'sketch.gist512'"),
        ("pacs/photo", "is not a task; write DATASET/DOMAIN.FEATURE"),
        ("pacs", "is not a task"),
        ("pacs/photo.gist512@", "is not a task"),
        ("pacs/photo.gist512@1", "at least 2 training rows"),
        ("../x/photo.gist512", "is not a task"),
        (f"{OFFICE}@classes=partial@500", "does not select classes; write partial, open"),
        (f"{OFFICE}@classes=", "'' does not select classes"),
        (f"{OFFICE}@classes=mug+/mug", "does not select classes"),
        (f"{OFFICE}@classes=mug+bike", "does not select classes"),
        (
            f"{OFFICE}@classes=mug+bikes/mug",
            "class of office-caltech10 'bikes'; did you mean 'bike'",
        ),
        (f"{OFFICE}@classes=mug+bike/10", "unknown class of office-caltech10 '10'"),
        ("pacs/photo.gist512@classes=open", "one view, so they have the same classes; remove"),
    ):
        with pytest.raises(InputError, match=message):
            parse_task(text)
    with pytest.raises(InputError, match="unknown data set 'pac'; did you mean 'pacs'"):
        TaskSpec("pac", DataView("photo", "gist512"), DataView("sketch", "gist512"))


def test_own_files_make_a_task(own: Path) -> None:
    spec = parse_task("own/photos.f-sketches.g")
    task = spec.load(0, own)
    assert task.X_source.shape == (40, 5)
    assert task.X_query.shape == (6, 3)  # a tenth
    assert task.X_target.shape == (54, 3)
    assert task.y_source.tolist() == [0, 1] * 20
    assert set(spec.checksums(own)) == {"own/photos.f.npz", "own/sketches.g.npz"}
    few = parse_task("own/photos.f-sketches.g@7").load(0, own)
    assert (len(few.X_source), len(few.X_target)) == (7, 7)


def test_classes_of_own_files_are_named_by_their_labels(own: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.array(["cat", "dog", "emu"])[np.arange(90) % 3]
    for name in ("a.f", "b.f"):
        np.savez(own / "own" / f"{name}.npz", x=rng.random((90, 4)), y=y)
    task = parse_task("own/a.f-b.f@20@classes=cat+emu/dog+emu").load(0, own)
    assert (set(task.y_source), set(task.y_target)) == ({0, 2}, {1, 2})
    assert (len(task.X_source), len(task.X_target)) == (20, 20)
    files = [own / "own" / f"{name}.npz" for name in ("a.f", "b.f")]
    same = task_from_files(*files, n_train=20, classes="cat+emu/dog+emu")
    for part in vars(task):
        np.testing.assert_array_equal(getattr(task, part), getattr(same, part))
    with pytest.raises(InputError, match="target_classes: unknown class 'eel'"):
        parse_task("own/a.f-b.f@classes=cat+emu/eel").load(0, own)
    with pytest.raises(InputError, match="classes: one file has one set of classes"):
        task_from_files(files[0], classes="open")
    with pytest.raises(InputError, match="both rows of a pair have one class; remove @classes="):
        parse_task("own/a.f-a.g@classes=partial").load_pairs(own)


def test_own_files_that_are_missing_are_named(own: Path) -> None:
    with pytest.raises(MissingDataError, match=rf"own/photos.vgg16.npz .*put it into {own}"):
        parse_task("own/photos.vgg16-sketches.g").load(0, own)


def test_one_view_alone_shares_its_rows(own: Path) -> None:
    for unit_rows in (False, True):
        task = parse_task("own/sketches.g").load(0, own, unit_rows=unit_rows)
        assert task.X_source is task.X_target
        assert len(task.X_query) == 6


def test_one_domain_in_two_features_is_two_halves_of_its_rows(own: Path) -> None:
    rng = np.random.default_rng(1)
    y, mark = np.arange(61) % 2, np.arange(61.0)
    for name, d in (("f", 5), ("g", 3)):
        rows = np.column_stack([mark, rng.random((61, d - 1))])
        np.savez(own / "own" / f"photos.{name}.npz", x=rows, y=y)
    task = parse_task("own/photos.f-photos.g").load(0, own)
    parts = [X[:, 0].astype(int).tolist() for X in (task.X_source, task.X_target, task.X_query)]
    assert [len(part) for part in parts] == [31, 27, 3]
    assert sorted(chain(*parts)) == list(range(61))
    assert task.y_source.tolist() == [y[i] for i in parts[0]]
    assert task.y_query.tolist() == [y[i] for i in parts[2]]
    other = parse_task("own/photos.f-photos.g").load(1, own)
    assert other.X_source[:, 0].tolist() != task.X_source[:, 0].tolist()


def test_halves_need_the_same_rows_in_both_features(own: Path) -> None:
    np.savez(own / "own" / "photos.g.npz", x=np.ones((41, 3)), y=np.arange(41) % 2)
    with pytest.raises(InputError, match="40 and 41 rows; both views of one domain need"):
        parse_task("own/photos.f-photos.g").load(0, own)


def test_unit_rows_are_those_of_the_split(own: Path) -> None:
    spec = parse_task("own/photos.f-sketches.g")
    plain, unit = spec.load(3, own), spec.load(3, own, unit_rows=True)
    for part in ("X_source", "X_target", "X_query"):
        expected = UnitRows().fit_transform(getattr(plain, part))
        np.testing.assert_array_equal(getattr(unit, part), expected)


def test_the_pack_gives_the_split_of_its_arrays(pack_folder: Path) -> None:
    path = pack_folder / "office_caltech10.npz"
    if not path.is_file():
        pytest.skip("data pack not found: set BRIDGEHASH_DATA")
    spec = parse_task(OFFICE)
    task = spec.load(4, pack_folder)
    with np.load(path) as arrays:
        expected = TransferTask.split(
            arrays["caltech10_surf800"].astype(float),
            arrays["caltech10_y"],
            arrays["amazon_effnet_lite0"].astype(float),
            arrays["amazon_y"],
            n_queries=500,
            seed=4,
        )
    for part in vars(expected):
        np.testing.assert_array_equal(getattr(task, part), getattr(expected, part))
    assert spec.load(5, pack_folder).X_source is task.X_source  # read once
    assert set(spec.checksums(pack_folder)) == {"office_caltech10.npz"}


def test_classes_of_the_pack_have_the_names_of_its_files(pack_folder: Path) -> None:
    for name, file in (("office-caltech10", "office_caltech10.npz"), ("pacs", "pacs.npz")):
        if not (pack_folder / file).is_file():
            pytest.skip("data pack not found: set BRIDGEHASH_DATA")
        with np.load(pack_folder / file) as arrays:
            assert DATASETS[name].class_names == tuple(arrays["class_names"].tolist())


def test_names_and_numbers_of_the_pack_select_the_same_classes(pack_folder: Path) -> None:
    if not (pack_folder / "office_caltech10.npz").is_file():
        pytest.skip("data pack not found: set BRIDGEHASH_DATA")
    named, numbered = (
        parse_task(f"{OFFICE}@classes={classes}").load(0, pack_folder)
        for classes in ("bike+mug+mouse/mug+laptop", "1+8+7/8+5")
    )
    assert (set(named.y_source), set(named.y_query)) == ({1, 7, 8}, {5, 8})
    np.testing.assert_array_equal(named.X_source, numbered.X_source)
    np.testing.assert_array_equal(named.X_query, numbered.X_query)
