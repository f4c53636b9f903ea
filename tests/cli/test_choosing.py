"""`bridgehash fit` chooses by what is given: pairs, labels of all or some rows, or the columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridgehash import ATH, load
from bridgehash.ath import propagation as memberships
from bridgehash.ath.presets import PRESETS, PUBLISHED
from bridgehash.cli.methods import build, choose_preset
from bridgehash.codes import hamming

Run = Callable[..., Any]
Refused = Callable[[str], str]

N_SOURCE, N_TARGET = 70, 60
ALL, NONE = np.arange(N_SOURCE) % 3, None
SOME = np.where(np.arange(N_SOURCE) < 9, ALL, -1)
UNKNOWN = np.full(N_SOURCE, -1)
NAMES = np.array(["ant", "bee", "cat"])[ALL]


def rows(n: int, width: int) -> NDArray[np.float64]:
    """Three clusters of unlike sizes, at corners of unlike distances."""
    rng = np.random.default_rng(n)
    corners = np.array([[9.0, 0.0, 0.0], [6.0, 5.0, 0.0], [-4.0, 0.0, 8.0]])
    X = corners[classes(n)] + 0.4 * rng.normal(size=(n, 3))
    turned = np.linalg.qr(np.random.default_rng(width).normal(size=(width, 3)))[0]
    return X @ turned.T + 0.05 * rng.normal(size=(n, width))


def classes(n: int) -> NDArray[np.intp]:
    return np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3])


@pytest.mark.parametrize(
    ("y_source", "y_target", "pairs", "widths", "preset"),
    [
        (NONE, NONE, False, (5, 5), "unsupervised"),
        (NONE, NONE, False, (8, 5), "structural"),
        (ALL, NONE, False, (5, 5), "propagated"),
        (ALL, NONE, False, (8, 5), "propagated"),
        (NONE, ALL, False, (8, 5), "propagated"),
        (SOME, SOME, False, (8, 5), "propagated"),
        (ALL, SOME, False, (5, 5), "propagated"),
        (ALL, UNKNOWN, False, (5, 5), "propagated"),
        (ALL, ALL, False, (8, 5), "supervised"),
        (NAMES, NAMES, False, (8, 5), "supervised"),
        (NAMES, NONE, False, (8, 5), "propagated"),
        (NONE, NONE, True, (5, 5), "paired"),
        (ALL, ALL, True, (8, 5), "paired"),
    ],
)
def test_what_is_given_chooses(
    y_source: Any, y_target: Any, pairs: bool, widths: tuple[int, int], preset: str
) -> None:
    data = {"X_source": np.ones((N_SOURCE, widths[0])), "X_target": np.ones((N_SOURCE, widths[1]))}
    data |= {} if y_source is None else {"y_source": y_source}
    data |= {} if y_target is None else {"y_target": y_target}
    data |= {"pairs": np.zeros((4, 2), dtype=int)} if pairs else {}
    chosen, title = choose_preset("ath", None, data)
    assert chosen == preset
    assert title.startswith(f"ath, {preset} (")


def test_what_is_named_is_not_chosen() -> None:
    assert choose_preset("ath", "kernel", {}) == ("kernel", "ath, kernel")
    assert choose_preset("itq", None, {}) == (None, "itq")


@pytest.mark.parametrize("known", ["", "y_source", "y_target", "y_source y_target", "pairs"])
def test_every_choice_among_the_published_is_published(known: str) -> None:
    X = np.ones((N_SOURCE, 2))
    for width in (2, 3):
        data = {"X_source": X, "X_target": np.ones((N_SOURCE, width))}
        data |= dict.fromkeys(known.split(), SOME)
        chosen, _ = choose_preset("ath", None, data, published=True)
        assert chosen in PUBLISHED
        build("ath", preset=chosen, published=True, n_bits=4, seed=0)


@pytest.fixture
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two domains that structure alone can match, in one feature space and in two."""
    quick = partial(memberships.match, n_starts=4, n_kept=2)
    monkeypatch.setattr(memberships, "match", quick)
    y_s, y_t = classes(N_SOURCE), classes(N_TARGET)
    np.save("photos.npy", rows(N_SOURCE, 6))
    np.save("sketches.npy", rows(N_TARGET, 6))
    np.save("others.npy", rows(N_TARGET, 9))
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(6, 6)))[0]
    np.save("turned.npy", rows(N_TARGET, 6) @ turn)
    few_s, few_t = (np.where(np.arange(len(y)) % 7 == 0, y, -1) for y in (y_s, y_t))
    np.savez("y.npz", photos=y_s, sketches=y_t, few_photos=few_s, few_sketches=few_t)
    same = [np.flatnonzero(y == c)[:8] for c in range(3) for y in (y_s, y_t)]
    np.save("both.npy", np.column_stack([np.concatenate(same[::2]), np.concatenate(same[1::2])]))
    return folder


APART, SEPARATE = "fit photos.npy turned.npy", " --set feature_space=separate"
SAME, OTHER = "fit photos.npy sketches.npy", "fit photos.npy others.npy"
QUICK = " --set start__n_starts=4 --set start__n_kept=2"
SPREAD = "propagated (labels of some rows)"
ROWS = {  # one a row of the table in docs/howto/choose.md
    "none, one space": (SAME, "unsupervised (no labels, as many columns in both domains)"),
    "none, two spaces": (OTHER + QUICK, "structural (no labels, different columns)"),
    "source, one space": (SAME + " --labels-source y.npz:photos", SPREAD),
    "source, two spaces": (OTHER + " --labels-source y.npz:photos", SPREAD),
    "target, one space": (SAME + " --labels-target y.npz:sketches", SPREAD),
    "target, two spaces": (OTHER + " --labels-target y.npz:sketches", SPREAD),
    "few of both": (
        OTHER + " --labels-source y.npz:few_photos --labels-target y.npz:few_sketches",
        SPREAD,
    ),
    "all of both": (
        OTHER + " --labels-source y.npz:photos --labels-target y.npz:sketches",
        "supervised (labels of all rows)",
    ),
    "pairs": (OTHER + " --pairs both.npy", "paired (pairs given)"),
    "none, equal widths": (APART + " --preset structural" + SEPARATE + QUICK, "structural"),
    "source, equal widths": (
        APART + " --labels-source y.npz:photos" + SEPARATE,
        SPREAD,
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_table_fits_and_finds_its_like(run: Run, files: Path, row: str) -> None:
    line, method = ROWS[row]
    ended = run(f"{line} --out new.bh --bits 16")
    assert (ended.code, ended.err) == (0, "")
    assert f"ath, {method}\n" in ended.out
    model = load("new.bh")
    preset = method.split()[0]
    expected = getattr(ATH, preset)(n_bits=16, random_state=0)
    if "--set" not in line:
        assert str(model.get_params()) == str(expected.get_params())
    X_t = np.load(line.split()[2])
    D = hamming(model.encode(X_t, "target"), model.encode(np.load("photos.npy"), "source"))
    found = classes(N_SOURCE)[D.argmin(axis=1)]
    assert (found == classes(N_TARGET)).mean() > 0.9


@pytest.mark.parametrize(
    ("given", "preset", "reason"),
    [
        ("", "unsupervised", "no labels of the source"),
        (" --labels-target y.npz:sketches", "unsupervised", "no labels of the source"),
        (" --labels-source y.npz:photos", "semi_supervised", "labels of the source"),
        (
            " --labels-source y.npz:photos --labels-target y.npz:few_sketches",
            "supervised",
            "labels of both domains",
        ),
    ],
)
def test_published_keeps_to_the_paper(
    run: Run, files: Path, given: str, preset: str, reason: str
) -> None:
    ended = run(f"{OTHER} --out new.bh --bits 8 --published{given}")
    assert ended.code == 0
    assert f"ath, {preset} ({reason}), as published\n" in ended.out
    expected = ATH.published(preset, n_bits=8, random_state=0)
    assert str(load("new.bh").get_params()) == str(expected.get_params())


def test_an_unknown_preset_is_refused_with_the_nearest_name(refused: Refused, files: Path) -> None:
    line = refused(f"{SAME} --out new.bh --preset strucural")
    assert "there is no preset 'strucural'; did you mean 'structural'?" in line
    assert all(name in line for name in PRESETS)


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - set(PUBLISHED)))
def test_what_the_paper_has_not_cannot_be_published(
    refused: Refused, files: Path, preset: str
) -> None:
    line = refused(f"{SAME} --out new.bh --preset {preset} --published")
    assert f"there is no published preset {preset!r}" in line


@pytest.mark.parametrize("preset", ["propagated", "paired"])
def test_a_preset_says_which_option_it_lacks(refused: Refused, files: Path, preset: str) -> None:
    line = refused(f"{OTHER} --out new.bh --preset {preset}")
    assert {"propagated": "--labels-source", "paired": "--pairs"}[preset] in line


def agreement_in(text: str) -> float:
    return float(text.partition("searches agree by ")[2].split()[0])


@pytest.mark.filterwarnings("default::bridgehash.BridgeWarning")
def test_a_bridge_no_better_than_chance_is_a_note(run: Run, files: Path) -> None:
    rng = np.random.default_rng(0)
    np.save("noise.npy", rng.normal(size=(80, 30)))
    np.save("other_noise.npy", rng.normal(size=(90, 20)))
    ended = run(f"fit noise.npy other_noise.npy --out new.bh --bits 8{QUICK}")
    assert ended.code == 0
    assert ended.err.startswith("note: the two domains could not be matched by their structure")
    assert "give labels of some rows of both, or pairs" in ended.err
    assert agreement_in(ended.out) < 0.25


def test_a_bridge_that_holds_is_told_without_a_note(run: Run, files: Path) -> None:
    ended = run(f"{OTHER} --out new.bh --bits 8{QUICK}")
    assert ended.err == ""
    assert 0.25 < agreement_in(ended.out) <= 1.0
