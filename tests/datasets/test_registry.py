"""Every data set resolves: its views are in its file, its features can be made, its words exist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bridgehash.datasets import DATASETS, DataFile, DataSet, MissingData, View, parse_task
from bridgehash.datasets.dataset import BACKBONES, MEMORY
from bridgehash.datasets.memory import Memory
from bridgehash.features import BACKBONES as EXTRACTED

NAMED = [dataset for dataset in DATASETS.values() if dataset.file is not None]
VIEWS = [(dataset, view) for dataset in NAMED for view in dataset.views]
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
    "all": 60_000,
}


@pytest.fixture(autouse=True)
def empty(nowhere: Path) -> None:
    """Only the folder that a test names is looked into."""


@pytest.mark.parametrize(("dataset", "view"), VIEWS, ids=lambda x: getattr(x, "name", str(x)))
def test_every_view_can_be_loaded(dataset: DataSet, view: View, pack_folder: Path) -> None:
    assert dataset.file is not None
    if dataset.file.locate(pack_folder) is None:
        pytest.skip(f"no {dataset.file.name} in the data pack: set BRIDGEHASH_DATA")
    X, y = dataset.load(view, pack_folder)
    assert X.dtype == np.float64
    assert len(X) == len(y) == SIZES[view.domain]
    assert np.isfinite(X).all()
    assert np.array_equal(np.unique(y), np.arange(7 if dataset.name == "pacs" else 10))
    assert not X.flags.writeable
    assert not y.flags.writeable


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_set_says_what_it_is(dataset: DataSet) -> None:
    assert DATASETS[dataset.name] is dataset
    assert dataset.title
    assert dataset.licence
    assert len(set(dataset.views)) == len(dataset.views)
    for view in dataset.views:
        task = parse_task(f"{dataset.name}/{view}")
        assert (task.source, task.target, str(task)) == (view, view, f"{dataset.name}/{view}")
    if dataset.file is not None:
        assert dataset.citation
        assert dataset.file.hint


def test_features_that_can_be_made_have_a_backbone() -> None:
    assert set(BACKBONES.values()) <= set(EXTRACTED)


@pytest.mark.parametrize(
    ("dataset", "view"),
    [(dataset, view) for dataset, view in VIEWS if view not in dataset.public],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_missing_data_say_how_to_get_them(dataset: DataSet, view: View, nowhere: Path) -> None:
    with pytest.raises(MissingData) as caught:
        dataset.load(view)
    assert dataset.file is not None
    assert str(caught.value).startswith(dataset.file.name)
    assert str(nowhere) in str(caught.value)
    assert f"{dataset.name}/{view}.npz" in str(caught.value)


def test_stored_scales_are_applied(pack_folder: Path) -> None:
    path = pack_folder / "pacs.npz"
    if not path.is_file():
        pytest.skip("data pack not found: set BRIDGEHASH_DATA")
    X, _ = DATASETS["pacs"].load(View("photo", "mobilenet_v1"), pack_folder)
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
    views = (View("a", "f"), View("all", "g"), View("b", "f"))
    return DataSet("toy", "A toy", "nobody", "free", views, DataFile("toy.npz", hint="Build it."))


def test_arrays_are_found_by_name(toy: DataSet, tmp_path: Path) -> None:
    X, y = toy.load(View("a", "f"), tmp_path)
    assert X.tolist() == [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5], [3.0, 3.5]]
    assert y.tolist() == [0, 1, 2, 3]
    assert toy.load(View("all", "g"), tmp_path)[0].shape == (4, 3)


def test_an_array_that_is_not_there_is_named(toy: DataSet, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"toy.npz: b_f is not .*; it holds a_f, a_y, f_scale"):
        toy.load(View("b", "f"), tmp_path)


def test_a_view_in_a_file_of_its_own_goes_first(toy: DataSet, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    np.savez(tmp_path / "toy" / "a.f.npz", x=np.eye(3), y=["p", "q", "p"])
    X, y = toy.load(View("a", "f"), tmp_path)
    assert X.shape == (3, 3)
    assert y.tolist() == ["p", "q", "p"]
    assert list(toy.checksums(View("a", "f"), tmp_path)) == ["toy/a.f.npz"]
    assert list(toy.checksums(View("all", "g"), tmp_path)) == ["toy.npz"]


def test_rows_stay_in_memory_until_the_file_changes(toy: DataSet, tmp_path: Path) -> None:
    view = View("a", "f")
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


def test_memory_has_a_bound() -> None:
    memory = Memory(max_bytes=1000)
    made: list[str] = []

    def get(key: str, n: int) -> None:
        def make() -> tuple[np.ndarray, np.ndarray]:
            made.append(key)
            return np.zeros((n, 1)), np.zeros(0)

        memory.get(key, make)

    for key, n in (("a", 60), ("b", 60), ("a", 60), ("c", 60), ("huge", 200), ("a", 60)):
        get(key, n)
        assert memory.n_bytes <= 1000
    assert made == ["a", "b", "c", "huge"]  # "b" made room for "c", nothing for what is too big
    get("b", 60)
    assert made[-1] == "b"
    assert 0 < MEMORY.max_bytes <= 2**30


def test_a_view_of_its_own_is_not_looked_for_in_the_common_file(
    toy: DataSet, tmp_path: Path
) -> None:
    apart = View("a", "h")
    more = replace(toy, own_views=(apart,))
    with pytest.raises(MissingData, match=r"toy/a\.h\.npz is not on this machine"):
        more.load(apart, tmp_path)
    (tmp_path / "toy").mkdir()
    np.savez(tmp_path / "toy" / "a.h.npz", x=np.eye(3), y=[0, 1, 0])
    assert more.load(apart, tmp_path)[0].shape == (3, 3)
    with pytest.raises(ValueError, match=r"did you mean 'a\.h'"):
        more.check(View("a", "hh"))
