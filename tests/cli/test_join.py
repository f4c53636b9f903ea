"""Named domains, frozen codes and `join` on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from bridgehash import ATH, HammingIndex, load
from tests.cli.conftest import Run

CLASSES = 3


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three domains of the same items, their labels, and pairs."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(90) % CLASSES
    items = 3.0 * rng.normal(size=(CLASSES, 4))[y] + rng.normal(size=(90, 4))
    for name, width in (("photo", 8), ("sketch", 6), ("art", 9)):
        np.save(f"{name}.npy", items @ rng.normal(size=(4, width)))
    np.save("y.npy", y)
    np.savetxt("names.csv", np.array(["cat", "dog", "emu"])[y], fmt="%s")
    np.save("pairs.npy", np.column_stack([np.arange(60)] * 2))
    return tmp_path


FIT = "fit photo=photo.npy sketch=sketch.npy --out model.bh --bits 16 --seed 0"
BOTH = " --labels photo=y.npy --labels sketch=y.npy"


def test_named_domains_are_fitted_encoded_and_described(run: Run, files: Path) -> None:
    ended = run(f"{FIT}{BOTH} --set max_iter=5")
    assert ended.code == 0, ended.err
    assert "photo       90 rows, 8 columns, labelled" in ended.out
    model = load("model.bh")
    assert list(model.encoders_) == ["photo", "sketch"]
    assert run("encode model.bh sketch.npy --domain sketch --out codes.npy").code == 0
    expected = model.encode(np.load("sketch.npy"), "sketch")
    np.testing.assert_array_equal(np.load("codes.npy"), expected)
    record = json.loads(run("info model.bh --json").out)
    assert record["kind"] == "2 domains"
    assert record["encoders"]["sketch"]["n_features"] == 6


def test_three_domains_by_the_command_line_are_those_of_python(run: Run, files: Path) -> None:
    ended = run(f"{FIT.replace('--out', 'art=art.npy --out')} --labels art=y.npy{BOTH} --hub photo")
    assert ended.code == 0, ended.err
    names = ("photo", "sketch", "art")
    X, y = {name: np.load(f"{name}.npy") for name in names}, np.load("y.npy")
    expected = ATH.kernel(16, random_state=0).fit(X, y=dict.fromkeys(names, y), hub="photo")
    for name in names:
        found = load("model.bh").encode(X[name], name)
        np.testing.assert_array_equal(found, expected.encode(X[name], name))


@pytest.mark.parametrize(
    "options",
    [
        "--labels y.npy",
        "--labels y.npy --to photo=photo.npy --labels-to y.npy",
        "--to sketch=sketch.npy --pairs pairs.npy",
        "--codes codes.npy --pairs pairs.npy --out joined.bh",
    ],
)
def test_join_adds_a_domain_and_changes_no_code(run: Run, files: Path, options: str) -> None:
    run(f"{FIT}{BOTH}")
    run("encode model.bh photo.npy --domain photo --out codes.npy")
    before = Path("model.bh").read_bytes()
    ended = run(f"join model.bh art=art.npy {options}")
    assert ended.code == 0, ended.err
    assert "domains        photo, sketch, art" in ended.out
    kept = "--out" in options
    assert (Path("model.bh").read_bytes() == before) == kept
    joined = load("joined.bh" if kept else "model.bh")
    np.testing.assert_array_equal(
        joined.encode(np.load("photo.npy"), "photo"), np.load("codes.npy")
    )
    y = np.load("y.npy")
    index = HammingIndex(16).add(np.load("codes.npy"))
    _, ids = index.search(joined.encode(np.load("art.npy"), "art"), 5)
    assert (y[ids] == y[:, None]).mean() > 0.7  # chance: 0.33


def test_one_index_takes_all_domains_of_a_model_and_no_other_codes(run: Run, files: Path) -> None:
    run(f"{FIT}{BOTH}")
    assert run("index build photo.npy --model model.bh --domain photo --out all.bhi").code == 0
    assert run("join model.bh art=art.npy --labels y.npy").code == 0
    assert run("index add all.bhi sketch.npy --model model.bh --domain sketch").code == 0
    run("encode model.bh art.npy --domain art --out art_codes.parquet")
    ended = run("index add all.bhi art_codes.parquet")
    assert ended.code == 0, ended.err
    assert HammingIndex.load("all.bhi").domains == {"photo": 90, "sketch": 90, "art": 90}
    found = run("search all.bhi art.npy --model model.bh --domain art --in-domain photo --json")
    ids = [record["ids"][0] for record in json.loads(found.out)]
    assert max(ids) < 90
    run(f"{FIT}{BOTH} --seed 1 --out other.bh")
    for suffix in ("npy", "parquet"):
        run(f"encode other.bh art.npy --domain photo --out other.{suffix}".replace("art", "photo"))
        for line in (f"index add all.bhi other.{suffix}", f"search all.bhi other.{suffix}"):
            refused = run(line)
            assert refused.code == 2, line
            assert "all.bhi: holds codes of another model" in refused.err


def test_codes_that_were_replaced_lose_their_origin(run: Run, files: Path) -> None:
    run(f"{FIT}{BOTH}")
    run("encode model.bh photo.npy --domain photo --out codes.npy")
    run("index build codes.npy --out all.bhi --bits 16")
    codes = np.load("codes.npy")
    np.save("codes.npy", codes[::-1])
    ended = run("index add all.bhi codes.npy")
    assert ended.code == 2
    assert "codes.npy: has changed since codes.npy.origin.json was written" in ended.err
    Path("codes.npy.origin.json").unlink()
    assert run("index add all.bhi codes.npy").code == 0


def test_a_refit_tells_how_many_bits_changed(run: Run, files: Path) -> None:
    run(f"{FIT}{BOTH}")
    ended = run(f"{FIT.replace('model.bh', 'new.bh')}{BOTH} --initial model.bh --seed 5")
    assert ended.code == 0, ended.err
    assert "bits changed  0.0 % of photo, 0.0 % of sketch" in ended.out


def test_codes_of_unknown_origin_can_be_frozen(run: Run, files: Path) -> None:
    rng = np.random.default_rng(1)
    words = rng.integers(256, size=(CLASSES, 2)).astype(np.uint8)
    np.save("foreign.npy", words[np.load("y.npy")])
    line = "fit photo= sketch=sketch.npy --frozen photo=foreign.npy --out new.bh --bits 16"
    ended = run(f"{line}{BOTH}")
    assert ended.code == 0, ended.err
    assert "photo       codes only, labelled, frozen" in ended.out
    model = load("new.bh")
    assert list(model.encoders_) == ["sketch"]
    found = model.encode(np.load("sketch.npy"), "sketch")
    assert (found == np.load("foreign.npy")).all(axis=1).mean() > 0.9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit photo=photo.npy sketch.npy --out new.bh", "sketch.npy: has no name, unlike others"),
        ("fit photo=photo.npy photo=art.npy --out new.bh", "two domains have the same name"),
        (f"{FIT} --labels music=y.npy", "--labels: unknown domain 'music'"),
        (f"{FIT} --frozen music=y.npy", "--frozen: unknown domain 'music'"),
        (f"{FIT} --hub music", "--hub: unknown domain 'music'"),
        ("fit photo= sketch=sketch.npy --out new.bh", "photo= names no rows"),
        (f"{FIT} --method itq --hub photo", "use an ath method"),
        ("join model.bh art.npy --labels y.npy", "'art.npy' is not of the form NAME=VALUE"),
        ("join model.bh photo=art.npy --labels y.npy", "'photo' is a domain of this model"),
        ("join model.bh art=art.npy", "--to: missing; no labels of art need rows"),
        ("join model.bh art=art.npy --to music --labels y.npy", "--to: unknown domain 'music'"),
        ("join model.bh art=art.npy --labels names.csv:1", "labels of all domains must be text"),
        ("encode model.bh art.npy --domain art --out c.npy", "has no domain 'art'; choose one"),
    ],
)
def test_wrong_names_are_refused(run: Run, files: Path, line: str, message: str) -> None:
    run(f"{FIT}{BOTH} --set max_iter=2")
    ended = run(line)
    assert ended.code == 2
    assert message in ended.err
    assert not Path("new.bh").exists()
