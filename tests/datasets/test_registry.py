"""Every data set can be loaded, or says how to get it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from bridgehash import InputError, MissingDataError
from bridgehash.datasets import DATASETS, DataFile, DataSet, DataView, parse_task
from bridgehash.datasets.dataset import BACKBONES, MEMORY, RowCache
from bridgehash.features import BACKBONES as EXTRACTED

NAMED = [dataset for dataset in DATASETS.values() if dataset.file is not None]
SIZES = {
    "amazon": 958,
    "caltech10": 1123,
    "photo": 1670,
    "sketch": 3929,
    "cartoon": 2344,
    "mnist2000": 2000,
    "usps1800": 1800,
    "mnist": 70_000,
    "usps": 9_298,
    "cifar10/all": 60_000,
    "wiki/train": 2173,
    "wiki/test": 693,
    "mfeat/train": 1500,
    "mfeat/test": 500,
    "mfeat/all": 2000,
    "snare/all": 1047,
    "scgem/all": 177,
    "banking77/train": 10_003,
    "banking77/test": 3080,
}
N_CLASSES = {"pacs": 7, "snare": 4, "scgem": 5, "banking77": 77}  # ten in the others


@pytest.fixture(autouse=True)
def empty(nowhere: Path) -> None:
    """Only the folder given by a test is searched."""


@pytest.mark.parametrize("dataset", NAMED, ids=lambda dataset: dataset.name)
def test_every_view_can_be_loaded(dataset: DataSet, pack_folder: Path) -> None:
    assert dataset.file is not None
    if dataset.file.locate(pack_folder) is None:
        pytest.skip(f"no {dataset.file.name} in the data pack: set BRIDGEHASH_DATA")
    for view in dataset.views:
        X, y = dataset.load(view, pack_folder)
        assert X.dtype == np.float64
        place = f"{dataset.name}/{view.domain}"
        assert len(X) == len(y) == SIZES.get(place, SIZES.get(view.domain))
        assert np.isfinite(X).all()
        assert np.array_equal(np.unique(y), np.arange(N_CLASSES.get(dataset.name, 10)))
        assert not X.flags.writeable
        assert not y.flags.writeable
    if dataset.name == "cifar10":  # the same number of queries per class
        task = parse_task("cifar10/all.gist512").load(0, pack_folder)
        assert np.bincount(task.y_query).tolist() == [100] * 10
        assert np.bincount(task.y_target).tolist() == [5900] * 10
        assert task.X_source is task.X_target


def test_every_set_says_what_it_is() -> None:
    for name, dataset in DATASETS.items():
        assert (dataset.name, bool(dataset.title), bool(dataset.licence)) == (name, True, True)
        assert len(set(dataset.views)) == len(dataset.views)
        for view in dataset.views:
            task = parse_task(f"{name}/{view}")
            assert (task.source, task.target, str(task)) == (view, view, f"{name}/{view}")
        if dataset.file is not None:
            assert dataset.citation
            assert dataset.file.hint


def test_features_that_can_be_made_have_a_backbone() -> None:
    assert set(BACKBONES.values()) <= set(EXTRACTED)


def test_missing_data_say_how_to_get_them(nowhere: Path) -> None:
    for dataset in NAMED:
        for view in set(dataset.views) - set(dataset.public):
            with pytest.raises(MissingDataError) as caught:
                dataset.load(view)
            assert dataset.file is not None
            assert str(caught.value).startswith(dataset.file.name)
            assert str(nowhere) in str(caught.value)
            assert f"{dataset.name}/{view}.npz" in str(caught.value)


def test_missing_decaf_features_are_named_with_their_variables(nowhere: Path) -> None:
    for domain, name in (("amazon", "amazon_decaf.mat"), ("caltech10", "caltech_decaf.mat")):
        with pytest.raises(
            MissingDataError, match=rf"^{name} is not on this machine.*feas.*labels"
        ):
            DATASETS["office-caltech10"].load(DataView(domain, "decaf6"))


def save_decaf(path: Path, width: int = 4096, **changes: object) -> None:
    y = np.repeat(np.arange(1, 11), [92, 82, 94, 99, 100, 100, 99, 100, 94, 98])
    arrays = {"feas": np.zeros((len(y), width), dtype=np.uint8), "labels": y[:, None]} | changes
    savemat(path, {key: value for key, value in arrays.items() if value is not None})


def test_decaf_features_are_read_with_the_class_numbers_of_the_set(tmp_path: Path) -> None:
    save_decaf(tmp_path / "amazon_decaf.mat")
    X, y = DATASETS["office-caltech10"].load(DataView("amazon", "decaf6"), tmp_path)
    assert (X.shape, X.dtype) == ((958, 4096), np.float64)
    assert np.bincount(y).tolist() == [92, 82, 94, 99, 100, 100, 99, 100, 94, 98]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 800}, r"feas has shape \(958, 800\); \(958, 4096\) is needed"),
        ({"labels": None}, "has no variable labels"),
        ({"labels": np.tile(np.arange(1, 11), 96)[:958]}, "the classes .* rows; use the file"),
    ],
)
def test_a_decaf_file_of_another_kind_is_refused(tmp_path: Path, changes: Any, words: str) -> None:
    save_decaf(tmp_path / "amazon_decaf.mat", **changes)
    with pytest.raises(InputError, match=rf"amazon_decaf\.mat: {words}"):
        DATASETS["office-caltech10"].load(DataView("amazon", "decaf6"), tmp_path)


def test_a_damaged_decaf_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "amazon_decaf.mat").write_bytes(b"no matlab" * 99)
    with pytest.raises(InputError, match=r"amazon_decaf\.mat: is not a MATLAB file"):
        DATASETS["office-caltech10"].load(DataView("amazon", "decaf6"), tmp_path)


def test_stored_scales_are_applied(pack_folder: Path) -> None:
    path = pack_folder / "pacs.npz"
    if not path.is_file():
        pytest.skip("data pack not found: set BRIDGEHASH_DATA")
    X, _ = DATASETS["pacs"].load(DataView("photo", "mobilenet_v1"), pack_folder)
    with np.load(path) as arrays:
        stored, scale = arrays["photo_mobilenet_v1"], arrays["mobilenet_v1_scale"]
    assert scale < 0.1
    assert np.array_equal(X, stored * np.float64(scale))


def small(n_rows: int = 4) -> dict[str, np.ndarray]:
    return {
        "a_f": np.arange(2 * n_rows, dtype=np.uint8).reshape(n_rows, 2),
        "a_y": np.arange(n_rows),
        "f_scale": np.float32(0.5),
        "g": np.ones((n_rows, 3), dtype=np.float16),
        "y": np.arange(n_rows),
    }


@pytest.fixture
def toy(tmp_path: Path) -> DataSet:
    np.savez(tmp_path / "toy.npz", **small())
    views = (DataView("a", "f"), DataView("all", "g"), DataView("b", "f"))
    return DataSet("toy", "A toy", "nobody", "free", views, DataFile("toy.npz", hint="Build it."))


def test_arrays_are_found_by_name(toy: DataSet, tmp_path: Path) -> None:
    X, y = toy.load(DataView("a", "f"), tmp_path)
    assert X.tolist() == [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5], [3.0, 3.5]]
    assert y.tolist() == [0, 1, 2, 3]
    assert toy.load(DataView("all", "g"), tmp_path)[0].shape == (4, 3)


def test_an_array_that_is_not_there_is_named(toy: DataSet, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"toy.npz: b_f is not .*; it holds a_f, a_y, f_scale"):
        toy.load(DataView("b", "f"), tmp_path)


def test_a_view_in_a_file_of_its_own_goes_first(toy: DataSet, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    np.savez(tmp_path / "toy" / "a.f.npz", x=np.eye(3), y=["p", "q", "p"])
    X, y = toy.load(DataView("a", "f"), tmp_path)
    assert X.shape == (3, 3)
    assert y.tolist() == ["p", "q", "p"]
    assert list(toy.checksums(DataView("a", "f"), tmp_path)) == ["toy/a.f.npz"]
    assert list(toy.checksums(DataView("all", "g"), tmp_path)) == ["toy.npz"]


def test_rows_stay_in_memory_until_the_file_changes(toy: DataSet, tmp_path: Path) -> None:
    view = DataView("a", "f")
    X, y = toy.load(view, tmp_path)
    assert toy.load(view, tmp_path)[0] is X
    unit, _ = toy.load(view, tmp_path, unit_rows=True)
    assert unit is not X
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0)
    assert toy.load(view, tmp_path, unit_rows=True)[0] is unit
    for array in (X, y, unit):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    np.savez(tmp_path / "toy.npz", **small(5))
    assert len(toy.load(view, tmp_path)[0]) == 5


def test_the_cache_has_a_limit() -> None:
    cache = RowCache(max_bytes=1000)
    made: list[str] = []

    def get(key: str, n: int) -> None:
        def make() -> tuple[np.ndarray, np.ndarray]:
            made.append(key)
            return np.zeros((n, 1)), np.zeros(0)

        cache.get(key, make)

    for key, n in (("a", 60), ("b", 60), ("a", 60), ("c", 60), ("huge", 200), ("a", 60)):
        get(key, n)
        assert cache.n_bytes <= 1000
    assert made == ["a", "b", "c", "huge"]  # "b" was dropped for "c"; "huge" was not kept
    get("b", 60)
    assert made[-1] == "b"
    assert 0 < MEMORY.max_bytes <= 2**30


def test_a_view_of_its_own_is_not_looked_for_in_the_common_file(
    toy: DataSet, tmp_path: Path
) -> None:
    apart = DataView("a", "h")
    more = replace(toy, own_views=(apart,))
    with pytest.raises(MissingDataError, match=r"toy/a\.h\.npz is not on this machine"):
        more.load(apart, tmp_path)
    (tmp_path / "toy").mkdir()
    np.savez(tmp_path / "toy" / "a.h.npz", x=np.eye(3), y=[0, 1, 0])
    assert more.load(apart, tmp_path)[0].shape == (3, 3)
    with pytest.raises(ValueError, match=r"did you mean 'a\.h'"):
        more.check(DataView("a", "hh"))
