"""`bridgehash tune`, and the verdict at the end of `bridgehash fit`."""

from pathlib import Path

import numpy as np
import pytest

from bridgehash import load
from tests.cli.conftest import Run

LABELS = " --labels-source labels.npz:source --labels-target labels.npz:target"


def test_tune_lists_candidates_and_writes_the_best(run: Run, folder: Path) -> None:
    ended = run(
        f"tune source.npy target.npy --out best.bh --bits 8 --bits 12{LABELS} "
        "--method ath-supervised --try ridge=[0.1]"
    )
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].split() == ["method", "bits", "settings", "expected", "seconds"]
    assert sum("ath-supervised" in line and "%" in line for line in lines) == 4
    assert any(line.split()[:2] == ["judged", "by"] for line in lines)
    assert lines[-1].split(":")[0] in ("green", "yellow", "red")
    assert load("best.bh").n_bits in (8, 12)


@pytest.mark.parametrize("text", ["ridge", "ridge=", "ridge=0.1", "ridge=[", "=[1]", "ridge=[]"])
def test_values_to_try_are_a_list(run: Run, folder: Path, text: str) -> None:
    ended = run(f"tune source.npy target.npy --out best.bh --try {text}")
    assert ended.code == 2
    assert "--try" in ended.err
    assert not Path("best.bh").exists()


def test_fit_ends_with_a_verdict(run: Run, folder: Path) -> None:
    ended = run(f"fit source.npy target.npy --out new.bh --bits 16{LABELS}")
    assert ended.code == 0, ended.err
    verdict = ended.out.splitlines()[-1]
    assert verdict.split(":")[0] in ("green", "yellow")
    assert "of the first ten items right; learned from labels of both domains" in verdict
    assert run(f"fit source.npy target.npy --out new.bh --bits 16{LABELS} -q").out == ""


@pytest.mark.filterwarnings("default::bridgehash.BridgeWarning")
def test_a_red_verdict_is_an_error_if_strict(run: Run, folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save("noise.npy", rng.normal(size=(150, 6)))
    np.save("noise_too.npy", rng.normal(size=(150, 9)))
    np.save("y.npy", np.arange(150) % 5)
    fit = "fit noise.npy noise_too.npy --labels-source y.npy --labels-target y.npy --bits 16 --out "
    ended = run(f"{fit}new.bh")
    assert ended.code == 0
    assert "cross-domain search will hardly work" in ended.err
    assert ended.out.splitlines()[-1].startswith("red: ")
    ended = run(f"{fit}strict.bh --strict")
    assert ended.code == 2
    assert "--strict" in ended.err
    assert not Path("strict.bh").exists()
