"""`bridgehash fit` learns what the library learns, and chooses a method by what is given."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridgehash import ATH, ITQ, InputError, Shared, load
from bridgehash.ath import propagation
from bridgehash.ath.presets import PRESETS, PUBLISHED
from bridgehash.cli import options
from bridgehash.cli.fit import method_name
from bridgehash.codes import MAX_BITS, hamming
from bridgehash.registry import METHODS, ath_name

Run = Callable[..., Any]
Refused = Callable[..., str]

FIT = "fit source.npy target.npy --out new.bh --bits 6"
LABELS = " --labels-source labels.npz:source --labels-target labels.npz:target"
N_SOURCE, N_TARGET = 70, 60


def fields(text: str) -> dict[str, str]:
    """Name and value of each line."""
    lines = (line.strip().partition("  ") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def same_parameters(model: Any, expected: Any) -> bool:
    return str(model.get_params()) == str(expected.get_params())


def test_fit_is_the_fit_of_the_library(run: Run) -> None:
    assert run(FIT + LABELS + " --preset kernel --seed 3 --set max_iter=4 --quiet").code == 0
    X_s, X_t = np.load("source.npy"), np.load("target.npy")
    labels = np.load("labels.npz")
    expected = ATH.kernel(n_bits=6, random_state=3, max_iter=4, tol=0.0)
    expected.fit(X_s, X_t, y_source=labels["source"], y_target=labels["target"])
    saved = load("new.bh")
    sides: list[tuple[str, Any]] = [("source", X_s), ("target", X_t)]
    for domain, X in sides:
        np.testing.assert_array_equal(saved.encode(X, domain), expected.encode(X, domain))


def test_folders_and_runtime_options_give_the_same_model(run: Run) -> None:
    for side in ("source", "target"):
        Path(side).mkdir()
        for number, part in enumerate(np.array_split(np.load(f"{side}.npy"), 3)):
            np.save(Path(side) / f"{number}.npy", part)
    line = FIT + LABELS + " --preset supervised"
    assert run(line).code == 0
    expected = Path("new.bh").read_bytes()
    in_folders = line.replace("source.npy", "source").replace("target.npy", "target/")
    ended = run(in_folders)
    assert (ended.code, ended.err) == (0, "")
    assert "60 rows, 8 columns, labelled" in ended.out
    assert Path("new.bh").read_bytes() == expected
    for option in (" --memory-limit 4GiB", " --device auto"):
        assert run(in_folders + option + " --quiet").code == 0
        assert Path("new.bh").read_bytes() == expected


def test_a_kernel_is_not_chosen_if_rows_may_be_read_in_blocks(run: Run) -> None:
    ended = run(FIT + LABELS + " --memory-limit 4GiB")
    reason = "all rows are labelled; a kernel cannot read rows in blocks"
    assert fields(ended.out)["method"] == f"ath-supervised ({reason})"
    many, y = np.broadcast_to(1.0, (60_000, 2)), np.arange(60_000) % 2
    name, reason = method_name(
        "ath",
        None,
        False,
        {
            "X_source": dict.fromkeys(("source", "target"), many),
            "y": dict.fromkeys(("source", "target"), y),
        },
    )
    assert (name, reason) == ("ath-supervised", "all rows are labelled; more than 100,000 of them")


def test_the_result_is_printed(run: Run) -> None:
    ended = run(FIT + LABELS)
    assert ended.err == ""
    shown = fields(ended.out)
    model = load("new.bh")
    first, last = model.objective_["total"][[0, -1]]
    assert shown["method"] == "ath-kernel (all rows are labelled)"
    assert shown["source"] == "60 rows, 8 columns, labelled"
    assert shown["target"] == "50 rows, 5 columns, labelled"
    assert shown["bits"] == "6"
    assert shown["iterations"] == f"{model.n_iter_}, converged"
    assert shown["objective"] == f"{first:.6g} -> {last:.6g}"
    assert shown["written"].startswith("new.bh (")
    assert shown["time"].endswith(" s")


def test_an_unfinished_fit_is_a_note_unless_quiet(run: Run) -> None:
    still_moving = FIT + " --preset unsupervised --set max_iter=1 --set tol=1e-9"
    ended = run(still_moving)
    assert (ended.code, ended.err.count("\n")) == (0, 2)
    notes = ended.err.splitlines()
    assert notes[0].startswith("note: source and target have different feature spaces")
    assert notes[1].startswith("note: ")
    assert "max_iter=1" in notes[1]
    assert "1, not converged" in ended.out
    quiet = run(still_moving + " -q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    silent = Path("new.bh").read_bytes()
    verbose = run(still_moving + " -v")
    assert verbose.err.startswith("reading source.npy and target.npy\nfitting\n")
    assert Path("new.bh").read_bytes() == silent


def test_unused_labels_and_pairs_are_a_note(run: Run) -> None:
    for choice in ("--method itq", "--preset unsupervised"):
        ended = run(f"{FIT} {choice} {LABELS}")
        assert ended.code == 0
        assert "does not use labels of the source; ignored" in ended.err
        assert "does not use labels of the target; ignored" in ended.err
    assert "itq does not use pairs" in run(f"{FIT} --method itq --pairs pairs.npy").err
    assert run(f"{FIT} --method itq --pairs pairs.npy -q").err == ""
    ended = run(f"{FIT} --method ridge-map --pairs pairs.npy")
    assert ended.err == ""
    assert fields(ended.out)["pairs"] == "30"
    assert run(f"{FIT} --method itq+ --pairs pairs.npy").err == ""


def test_itq_is_shared(run: Run) -> None:
    ended = run(FIT + " --method itq --set max_iter=7 --seed 2")
    assert ended.code == 0
    assert "objective" not in ended.out
    assert same_parameters(load("new.bh"), Shared(ITQ(n_bits=6, max_iter=7, random_state=2)))


def test_settings_are_json_or_text_and_reach_into_parts(run: Run) -> None:
    settings = (
        "bipartite__n_neighbors=3 target_graph__n_neighbors=4 feature_map=anchors tol=1e-2 "
        "unit_rows=false feature_map__n_anchors=20 start=pca"
    )
    line = FIT + "".join(f" --set {setting}" for setting in settings.split())
    assert run(line).code == 0
    model = load("new.bh")
    assert (model.tol, model.unit_rows, model.start) == (1e-2, False, "pca")
    assert model.bipartite.n_neighbors == 3
    assert model.target_graph.n_neighbors == 4
    assert model.feature_map.n_anchors == 20
    assert ATH.unsupervised().target_graph.n_neighbors == "auto"  # the preset is unchanged
    assert model.source_graph.n_neighbors == "auto"
    for text in ("null", "None"):
        assert run(FIT + f" --preset kernel {LABELS} --set feature_map={text}").code == 0
        assert load("new.bh").feature_map is None


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_encodes_and_demands_what_it_lists(run: Run, method: str) -> None:
    quick = QUICK if method == "ath-structural" else ""
    ended = run(f"{FIT} --method {method} {LABELS} --pairs pairs.npy --set n_bits=6{quick}")
    assert ended.code == 0, ended.err
    assert run("encode new.bh source.npy --domain source --out codes.npy").code == 0
    assert np.load("codes.npy").shape == (60, 1)
    needs = METHODS[method].about.needs
    if needs:
        ended = run(f"{FIT} --method {method}")
        assert ended.code == 2
        assert ("pairs" if "pairs" in needs else "label") in ended.err
    ended = run(f"{FIT} --method {method} --set n_bit=4")
    assert (ended.code, "did you mean 'n_bits'?" in ended.err) == (2, True)


def test_names_in_the_help_are_those_of_the_library() -> None:
    assert [ath_name(preset) for preset in options.PRESETS] == [
        name
        for name in METHODS
        if name.startswith("ath-") and not name.endswith(("-published", "-authors"))
    ]
    assert {preset.replace("-", "_") for preset in options.PRESETS} == set(PRESETS)
    assert options.MAX_BITS == MAX_BITS


def test_a_preset_has_one_name_in_every_spelling(run: Run) -> None:
    for words in (
        "--method ath --preset semi-supervised",
        "--method ath --preset semi_supervised",
        "--method ath-semi-supervised",
        "--method ath_semi_supervised",
    ):
        ended = run(f"{FIT} {words} --labels-source labels.npz:source --set max_iter=2")
        assert ended.code == 0, ended.err
        assert "method      ath-semi-supervised\n" in ended.out
    for words in ("--preset kernel --published", "--method ath-kernel --published"):
        assert method_name(*_words(words), {}) == ("ath-kernel-published", "")
    assert method_name("ath-kernel-published", None, True, {}) == ("ath-kernel-published", "")


def _words(line: str) -> tuple[str, str | None, bool]:
    words = line.split()
    found = {
        name: words[words.index(name) + 1] for name in ("--method", "--preset") if name in words
    }
    return found.get("--method", "ath"), found.get("--preset"), "--published" in words


def test_every_automatic_choice_among_the_published_is_published() -> None:
    some = np.where(np.arange(N_SOURCE) < 9, 1, -1)
    for known in ("", "y_source", "y_target", "y_source y_target", "pairs"):
        for width in (2, 3):
            X = {"source": np.ones((N_SOURCE, 2)), "target": np.ones((N_SOURCE, width))}
            y = {name: some for name in X if f"y_{name}" in known}
            data = {"X_source": X, "y": y, "pairs": some if known == "pairs" else None}
            name, reason = method_name("ath", None, True, data)
            assert name.endswith("-published")
            assert reason
    for preset in sorted(set(PRESETS) - set(PUBLISHED)):
        with pytest.raises(InputError, match="unknown published preset"):
            method_name("ath", preset, True, {})


def rows(n: int, width: int) -> NDArray[np.float64]:
    """Three clusters of different sizes and distances."""
    rng = np.random.default_rng(n)
    corners = np.array([[9.0, 0.0, 0.0], [6.0, 5.0, 0.0], [-4.0, 0.0, 8.0]])
    X = corners[classes(n)] + 0.4 * rng.normal(size=(n, 3))
    turned = np.linalg.qr(np.random.default_rng(width).normal(size=(width, 3)))[0]
    return X @ turned.T + 0.05 * rng.normal(size=(n, width))


def classes(n: int) -> NDArray[np.intp]:
    return np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3])


@pytest.fixture
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two domains that can be matched by structure, in one feature space and in two."""
    quick = partial(propagation.match, n_starts=4)
    monkeypatch.setattr(propagation, "match", quick)
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
QUICK = " --set start__n_starts=4"
SOME = "propagated (some rows are labelled)"
FEW = " --labels-source y.npz:few_photos --labels-target y.npz:few_sketches"
CHOICES = (  # the rows of the table in docs/howto/choose.md
    (SAME, "unsupervised (no labels, equal numbers of columns)"),
    (OTHER + QUICK, "structural (no labels, different columns)"),
    (SAME + " --labels-source y.npz:photos", SOME),
    (OTHER + " --labels-source y.npz:photos", SOME),
    (SAME + " --labels-target y.npz:sketches", SOME),
    (OTHER + " --labels-target y.npz:sketches", SOME),
    (OTHER + FEW, SOME),
    (
        OTHER + " --labels-source y.npz:photos --labels-target y.npz:sketches",
        "kernel (all rows are labelled)",
    ),
    (OTHER + " --pairs both.npy", "paired (pairs given)"),
    (APART + " --preset structural" + SEPARATE + QUICK, "structural"),
    (APART + " --labels-source y.npz:photos" + SEPARATE, SOME),
)


def test_the_data_choose_a_preset_that_matches_the_domains(run: Run, files: Path) -> None:
    for line, method in CHOICES:
        ended = run(f"{line} --out new.bh --bits 16")
        assert (ended.code, ended.err) == (0, ""), line
        assert f"ath-{method}\n" in ended.out
        model = load("new.bh")
        if "--set" not in line:
            preset = method.split()[0]
            assert same_parameters(model, getattr(ATH, preset)(n_bits=16, random_state=0))
        X_t = np.load(line.split()[2])
        D = hamming(model.encode(X_t, "target"), model.encode(np.load("photos.npy"), "source"))
        right = classes(N_SOURCE)[D.argmin(axis=1)] == classes(N_TARGET)
        assert right.mean() > 0.9, line


def test_published_uses_the_variants_and_constants_of_the_paper(run: Run, files: Path) -> None:
    source = " --labels-source y.npz:photos"
    for given, preset, reason in (
        ("", "unsupervised", " (no labels of the source)"),
        (" --labels-target y.npz:sketches", "unsupervised", " (no labels of the source)"),
        (source, "semi_supervised", " (labels of the source)"),
        (
            source + " --labels-target y.npz:few_sketches",
            "supervised",
            " (labels of both domains)",
        ),
        (" --preset unsupervised", "unsupervised", ""),
    ):
        ended = run(f"{OTHER} --out new.bh --bits 8 --published{given}")
        assert ended.code == 0
        assert f"{ath_name(preset, published=True)}{reason}\n" in ended.out
        expected = getattr(ATH, preset)(n_bits=8, random_state=0, published=True)
        assert same_parameters(load("new.bh"), expected)


@pytest.mark.filterwarnings("default::bridgehash.BridgeWarning")
def test_domains_matched_by_chance_are_a_note(run: Run, files: Path) -> None:
    ended = run(f"{OTHER} --out new.bh --bits 8{QUICK}")
    assert ended.err == ""
    assert 0.25 < float(fields(ended.out)["agreement"].split()[0]) <= 1.0
    rng = np.random.default_rng(0)
    np.save("noise.npy", rng.normal(size=(80, 30)))
    np.save("other_noise.npy", rng.normal(size=(90, 20)))
    ended = run(f"fit noise.npy other_noise.npy --out new.bh --bits 8{QUICK}")
    assert ended.code == 0
    assert ended.err.startswith("note: ")
    assert "pairs" in ended.err
    assert float(fields(ended.out)["agreement"].split()[0]) < 0.25


def test_a_device_without_torch_is_an_error_with_every_method(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def no_torch(name: str, *rest: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    for inputs in ("--pairs pairs.npy", "--preset unsupervised"):
        message = refused(f"{FIT} --device cuda {inputs} -q")
        assert message == "--device: 'cuda' needs torch; pip install 'bridgehash[gpu]'"
