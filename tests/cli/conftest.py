"""Small inputs on disk, and the console entry point called in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bridgehash import ATH, ITQ, save
from bridgehash.cli.main import main


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def _inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    y_s, y_t = np.arange(60) % 3, np.arange(50) % 3
    centres = 3 * rng.normal(size=(3, 5))
    X_s = (centres[y_s] + rng.normal(size=(60, 5))) @ rng.normal(size=(5, 8))
    X_t = centres[y_t] + rng.normal(size=(50, 5))
    names = np.array(["ant", "bee", "cat"])
    np.save(folder / "source.npy", X_s)
    np.save(folder / "target.npy", X_t)
    np.save(folder / "pairs.npy", np.column_stack([np.arange(30), np.arange(30)]))
    np.save(folder / "wrong.npy", np.array([[0, 1], [2, 50]]))
    np.savez(folder / "labels.npz", source=names[y_s], target=names[y_t], numbers=y_s)
    hasher = ATH.supervised(n_bits=12, random_state=0).fit(X_s, X_t, y_source=y_s, y_target=y_t)
    save(hasher, folder / "model.bh")
    save(hasher.target_encoder_, folder / "encoder.bh")
    save(ITQ(n_bits=4, random_state=0).fit(X_s), folder / "itq.bh")
    return folder


@pytest.fixture
def folder(_inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the inputs, as the current directory: names on the line are short."""
    shutil.copytree(_inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("info model.bh")`: exit code and output of a command line, split at blanks."""
    for name in ("FORCE_COLOR", "COLUMNS", "BRIDGEHASH_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(line: str) -> Ended:
        capsys.readouterr()
        code = main(line.split())
        return Ended(code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(run: Run, folder: Path) -> Callable[[str], str]:
    """`refused(line)`: the one line that says why; nothing else was printed or left behind."""

    def call(line: str, code: int = 2) -> str:
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        ended = run(line)
        assert ended.code == code, ended
        assert ended.out == ""
        assert ended.err.startswith("error: ")
        assert ended.err.endswith("\n")
        assert ended.err.count("\n") == 1
        assert "Traceback" not in ended.err
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
        return ended.err.removeprefix("error: ").rstrip("\n")

    return call
