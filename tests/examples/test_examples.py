"""The examples run, tell what the pages say of them, and fail in one line without data."""

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
    """`run("name --option value")`: what the script prints."""

    def call(line: str) -> str:
        name, *options = line.split()
        monkeypatch.setattr("sys.argv", [name, *options])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return call


def figures(text: str) -> dict[str, list[float]]:
    """The lines of the table: a title, then numbers, two blanks or more between them."""
    lines = [line.split("  ") for line in text.splitlines() if "  0." in line]
    return {cells[0]: [float(cell) for cell in cells[1:] if cell.strip()] for cells in lines}


def fitted(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What `bridgehash` says on this line."""
    assert main(line.split()) == 0
    return capsys.readouterr().out


def test_new_queries_find_the_old_neighbours(data_pack: Pack, run: Run) -> None:
    data_pack("pacs")
    found = figures(run(NEW_MODEL))
    assert len(found) == 4
    recall, right = found["new queries, bridged index"]
    assert 0.15 < recall < found["old queries, bridged index"][0]
    assert right > 0.9


def test_the_arrays_of_the_new_model_serve_the_command_line(
    data_pack: Pack, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_pack("pacs")
    run(f"{NEW_MODEL} --write {tmp_path}")
    pair = f"{tmp_path}/catalogue_old.npy {tmp_path}/some_new.npy --pairs {tmp_path}/pairs.npy"
    assert "ath, paired (pairs given)" in fitted(capsys, f"fit {pair} --out {tmp_path}/bridge.bh")


def test_sketches_find_photographs(data_pack: Pack, run: Run, tmp_path: Path) -> None:
    data_pack("pacs")
    text = run(f"{SKETCH} --write {tmp_path}")
    found = figures(text)
    assert len(found) == 5
    assert found["ATH.propagated"][0] > found["ITQ, shared"][0] + 0.05
    assert found["ATH.kernel, labels of all sketches"][0] > found["ATH.propagated"][0]
    assert text.count(" finds ") == 3
    labels = np.load(tmp_path / "labels.npz")
    assert (labels["few3"] >= 0).sum() == 21
    assert len(np.load(tmp_path / "sketches.npy")) == len(labels["few3"]) == 400


def test_what_is_found_can_be_drawn(data_pack: Pack, run: Run, tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    data_pack("pacs")
    run(f"{SKETCH} --picture {tmp_path}/found.png")
    with Image.open(tmp_path / "found.png") as picture:
        assert picture.size[0] > 400


@pytest.mark.parametrize("line", [NEW_MODEL, SKETCH, SKETCH + " --picture found.png"])
def test_without_data_one_line_says_what_to_do(
    run: Run,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BRIDGEHASH_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        run(line)
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "pacs.npz: not there; set BRIDGEHASH_DATA" in told.err
