"""The examples run, print what the pages say, and fail with one line without data."""

from __future__ import annotations

import io
import re
import runpy
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Run = Callable[[str], str]
Pack = Callable[[str], Any]
NEW_MODEL = "new_model_old_index --pairs 60 --queries 120 --bits 32"
SKETCH = "sketch_finds_photo --queries 60 --sketches 400 --bits 16 --few 3"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("name --option value")` returns what the script prints."""

    def call(line: str) -> str:
        name, *options = line.split()
        monkeypatch.setattr("sys.argv", [name, *options])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return call


@pytest.fixture(scope="module")
def new_model(data_pack: Pack, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the example of a new model prints, and the folder of its arrays."""
    data_pack("pacs")
    folder, printed = tmp_path_factory.mktemp("new_model"), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(printed):
        patched.setattr("sys.argv", [*NEW_MODEL.split(), "--write", str(folder)])
        runpy.run_path(str(EXAMPLES / "new_model_old_index.py"), run_name="__main__")
    return printed.getvalue(), folder


def scores(text: str) -> dict[str, list[float]]:
    """Return the lines of the table: a title, then numbers, separated by two or more blanks."""
    lines = [line.split("  ") for line in text.splitlines() if re.search(r"  [01]\.\d", line)]
    return {cells[0]: [float(cell) for cell in cells[1:] if cell.strip()] for cells in lines}


def test_new_queries_find_the_old_neighbours(new_model: tuple[str, Path]) -> None:
    printed = scores(new_model[0])
    assert len(printed) == 4
    recall, right = printed["new queries, bridged index"]
    assert 0.15 < recall < printed["old queries, bridged index"][0]
    assert right > 0.9


def test_three_models_share_an_index(data_pack: Pack, run: Run) -> None:
    data_pack("pacs")
    text = run("three_models_one_index --pairs 100 --bits 32")
    assert "codes of the catalogue unchanged: True" in text
    assert "{'Lite0': 334, 'Lite2': 334, 'MobileNet': 668}" in text
    printed = scores(text)
    assert min(right for _, right in printed.values()) > 0.85
    assert min(recall for recall, _ in printed.values()) > 0.12


def test_the_saved_arrays_work_with_the_command_line(
    new_model: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_model[1]
    pair = f"{folder}/catalogue_old.npy {folder}/some_new.npy --pairs {folder}/pairs.npy"
    assert main(f"fit {pair} --out {tmp_path}/bridge.bh".split()) == 0
    assert "paired (pairs given)" in capsys.readouterr().out


@pytest.fixture
def drawn_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Photos and sketches drawn at random: clear classes, but sketches are turned and moved."""
    rng = np.random.default_rng(0)
    y_photos, y_sketches = np.arange(250) % 7, np.arange(360) % 7
    centres = rng.normal(size=(7, 60))
    turn = np.linalg.qr(np.eye(60) + rng.normal(size=(60, 60)) / np.sqrt(60))[0]
    turn *= np.sign(np.diag(turn))
    photos, sketches = (centres[y] + rng.normal(size=(len(y), 60)) for y in (y_photos, y_sketches))
    np.savez(
        tmp_path / "pacs.npz",
        photo_effnet_lite0=photos,
        photo_y=y_photos,
        sketch_effnet_lite0=sketches @ turn + rng.normal(size=60),
        sketch_y=y_sketches,
        class_names=np.array(list("abcdefg")),
    )
    monkeypatch.setenv("BRIDGEHASH_DATA", str(tmp_path))


def test_sketches_find_photos(drawn_pack: None, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    text = run(f"{SKETCH} --sketches 300 --write {folder}")
    precision = {title: values[0] for title, values in scores(text).items()}
    assert len(precision) == 5
    assert precision["ATH.propagated"] > precision["ITQ, shared"] + 0.05
    assert precision["ATH.kernel, labels of all sketches"] >= precision["ATH.propagated"]
    assert text.count(" finds ") == 3
    labels = np.load(folder / "labels.npz")
    assert (labels["few3"] >= 0).sum() == 21
    assert len(np.load(folder / "sketches.npy")) == len(labels["few3"]) == 300


@pytest.mark.slow
def test_sketches_of_the_data_pack_find_photos(data_pack: Pack, run: Run) -> None:
    data_pack("pacs")
    precision = {title: values[0] for title, values in scores(run(SKETCH)).items()}
    assert precision["ATH.propagated"] > precision["ITQ, shared"] + 0.05
    assert precision["ATH.kernel, labels of all sketches"] > precision["ATH.propagated"]


@pytest.mark.slow
def test_results_can_be_drawn(data_pack: Pack, run: Run, tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    data_pack("pacs")
    run(f"{SKETCH} --picture {tmp_path}/found.png")
    with Image.open(tmp_path / "found.png") as picture:
        assert picture.size[0] > 400


def test_without_data_one_line_says_what_to_do(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BRIDGEHASH_DATA", str(tmp_path))
    for line in (NEW_MODEL, SKETCH, f"{SKETCH} --picture found.png", "three_models_one_index"):
        with pytest.raises(SystemExit) as ended:
            run(line)
        printed = capsys.readouterr()
        assert ended.value.code == 2
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        assert "pacs.npz: file not found; set BRIDGEHASH_DATA" in printed.err


def test_drawings_find_pictures_that_are_all_drawn(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("skimage", reason="HOG needs scikit-image")
    figure = tmp_path / "drawings.png"
    printed = scores(run(f"drawing_finds_picture --each 12 --bits 32 --picture {figure}"))
    bridged, ordinary = (
        printed[name][0] for name in ("Bridged codes (ATH.kernel)", "Ordinary codes (ITQ)")
    )
    assert bridged > 0.9
    assert ordinary < 0.4
    assert figure.read_bytes().startswith(b"\x89PNG")
