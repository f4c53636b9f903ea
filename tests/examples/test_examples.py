"""The examples run, print what the pages say, and fail with one line without data."""

from __future__ import annotations

import runpy
from collections.abc import Callable
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


def scores(text: str) -> dict[str, list[float]]:
    """Return the lines of the table: a title, then numbers, separated by two or more blanks."""
    lines = [line.split("  ") for line in text.splitlines() if "  0." in line]
    return {cells[0]: [float(cell) for cell in cells[1:] if cell.strip()] for cells in lines}


def test_new_queries_find_the_old_neighbours(data_pack: Pack, run: Run) -> None:
    data_pack("pacs")
    printed = scores(run(NEW_MODEL))
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
    data_pack: Pack, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_pack("pacs")
    run(f"{NEW_MODEL} --write {tmp_path}")
    pair = f"{tmp_path}/catalogue_old.npy {tmp_path}/some_new.npy --pairs {tmp_path}/pairs.npy"
    capsys.readouterr()
    assert main(f"fit {pair} --out {tmp_path}/bridge.bh".split()) == 0
    assert "paired (pairs given)" in capsys.readouterr().out


def test_sketches_find_photos(data_pack: Pack, run: Run, tmp_path: Path) -> None:
    data_pack("pacs")
    text = run(f"{SKETCH} --write {tmp_path}")
    precision = {title: values[0] for title, values in scores(text).items()}
    assert len(precision) == 5
    assert precision["ATH.propagated"] > precision["ITQ, shared"] + 0.05
    assert precision["ATH.kernel, labels of all sketches"] > precision["ATH.propagated"]
    assert text.count(" finds ") == 3
    labels = np.load(tmp_path / "labels.npz")
    assert (labels["few3"] >= 0).sum() == 21
    assert len(np.load(tmp_path / "sketches.npy")) == len(labels["few3"]) == 400


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
