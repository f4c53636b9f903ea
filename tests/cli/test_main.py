"""Each command does what it says, prints it, and prints nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bridgehash import ATH, ITQ, Shared, __version__, load
from bridgehash.cli.io import read_codes, read_labels
from bridgehash.cli.methods import METHODS
from bridgehash.metrics import distance_histogram
from bridgehash.metrics.evaluate import Scores
from bridgehash.models.base import DomainName

Run = Callable[..., Any]

FIT = "fit source.npy target.npy --out new.bh --bits 6"
LABELS = " --labels-source labels.npz:source --labels-target labels.npz:target"
EVALUATE = (
    "evaluate model.bh --queries target.npy --labels-queries labels.npz:target "
    "--database source.npy --labels-database labels.npz:source"
)


def fields(text: str) -> dict[str, str]:
    """The name and the value of each line."""
    return {name: value for name, _, value in (line.partition("  ") for line in text.splitlines())}


def test_fit_is_the_fit_of_the_library(run: Run) -> None:
    assert run(FIT + LABELS + " --preset kernel --seed 3 --set max_iter=4 --quiet").code == 0
    X_s, X_t = np.load("source.npy"), np.load("target.npy")
    labels = np.load("labels.npz")
    expected = ATH.kernel(n_bits=6, random_state=3, max_iter=4, tol=0.0)
    expected.fit(X_s, X_t, y_source=labels["source"], y_target=labels["target"])
    saved = load("new.bh")
    sides: list[tuple[DomainName, Any]] = [("source", X_s), ("target", X_t)]
    for domain, X in sides:
        np.testing.assert_array_equal(saved.encode(X, domain), expected.encode(X, domain))


def test_fit_of_folders_is_that_of_files(run: Run) -> None:
    for side in ("source", "target"):
        Path(side).mkdir()
        for number, part in enumerate(np.array_split(np.load(f"{side}.npy"), 3)):
            np.save(Path(side) / f"{number}.npy", part)
    assert run(FIT + LABELS).code == 0
    expected = Path("new.bh").read_bytes()
    in_folders = (FIT + LABELS).replace("source.npy", "source").replace("target.npy", "target/")
    ended = run(in_folders)
    assert (ended.code, ended.err) == (0, "")
    assert "60 rows, 8 columns, labelled" in ended.out
    assert Path("new.bh").read_bytes() == expected
    assert run(in_folders + " --memory-limit 4GiB --quiet").code == 0
    assert Path("new.bh").read_bytes() == expected  # it had room for all, and is no part of it
    assert run(in_folders + " --device auto --quiet").code == 0
    assert load("new.bh").device is None


def test_published_constants(run: Run) -> None:
    ended = run(FIT + " --preset unsupervised --published")
    assert "ath, unsupervised, as published\n" in ended.out
    expected = ATH.published("unsupervised", n_bits=6, random_state=0)
    assert str(load("new.bh").get_params()) == str(expected.get_params())


def test_fit_tells_what_it_did(run: Run) -> None:
    ended = run(FIT + LABELS)
    assert ended.err == ""
    told = {name: value.strip() for name, value in fields(ended.out).items()}
    model = load("new.bh")
    first, last = model.objective_["total"][[0, -1]]
    assert told["source"] == "60 rows, 8 columns, labelled"
    assert told["target"] == "50 rows, 5 columns, labelled"
    assert told["bits"] == "6"
    assert told["iterations"] == f"{model.n_iter_}, converged"
    assert told["objective"] == f"{first:.6g} -> {last:.6g}"
    assert told["written"].startswith("new.bh (")
    assert told["time"].endswith(" s")


def test_quiet_and_verbose(run: Run) -> None:
    still_moving = FIT + " --set max_iter=1 --set tol=1e-9"
    quiet = run(still_moving + " --quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    silent = Path("new.bh").read_bytes()
    verbose = run(still_moving + " --verbose")
    assert verbose.err.startswith("reading source.npy\nreading target.npy\nfitting\n")
    assert Path("new.bh").read_bytes() == silent  # a bar is no part of a model


def test_unfinished_fit_is_a_note(run: Run) -> None:
    ended = run(FIT + " --set max_iter=1 --set tol=1e-9")
    assert ended.code == 0
    assert ended.err.startswith("note: ")
    assert ended.err.count("\n") == 1
    assert "max_iter=1" in ended.err
    assert "1, not converged" in ended.out


def test_unused_labels_are_a_note(run: Run) -> None:
    for choice in ("--method itq", "--preset unsupervised"):
        ended = run(f"{FIT} {choice} {LABELS}")
        assert ended.code == 0
        assert ended.err.startswith("note: ")
        assert "does not use labels" in ended.err


def test_itq_is_shared(run: Run) -> None:
    ended = run(FIT + " --method itq --set max_iter=7 --seed 2")
    assert ended.code == 0
    assert "objective" not in ended.out
    expected = Shared(ITQ(n_bits=6, max_iter=7, random_state=2))
    assert str(load("new.bh").get_params()) == str(expected.get_params())


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
    assert ATH.unsupervised().target_graph.n_neighbors == 20  # the preset itself is untouched
    assert model.source_graph.n_neighbors == 20


@pytest.mark.parametrize("text", ["null", "None"])
def test_no_feature_map_can_be_asked_for(run: Run, text: str) -> None:
    assert run(FIT + f" --preset kernel {LABELS} --set feature_map={text}").code == 0
    assert load("new.bh").feature_map is None


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_and_encodes(run: Run, method: str) -> None:
    ended = run(f"{FIT} --method {method} {LABELS} --pairs pairs.npy --set n_bits=6")
    assert ended.code == 0, ended.err
    assert run("encode new.bh source.npy --domain source --out codes.npy").code == 0
    assert np.load("codes.npy").shape == (60, 1)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_demands_what_it_lists(run: Run, method: str) -> None:
    ended = run(f"{FIT} --method {method}")
    needed = ["pairs" if "pairs" in METHODS[method].about.needs else "labels"]
    needed = needed if METHODS[method].about.needs else []
    assert ended.code == (2 if needed else 0)
    assert all(f"--{need}" in ended.err for need in needed)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_an_unknown_key_and_names_the_nearest(run: Run, method: str) -> None:
    ended = run(f"{FIT} --method {method} --set n_bit=4")
    assert ended.code == 2
    assert "did you mean 'n_bits'?" in ended.err


def test_methods_are_listed_with_what_they_need(run: Run) -> None:
    lines = run("methods").out.splitlines()
    assert lines[0].split() == ["method", "kind", "inputs", "citation"]
    assert [line.split()[0] for line in lines[1:]] == list(METHODS)
    records = json.loads(run("methods --json").out)
    assert [record["method"] for record in records] == list(METHODS)
    assert all(record["citation"] and record["title"] for record in records)


def test_pairs_are_used_or_a_note(run: Run) -> None:
    ended = run(f"{FIT} --method ridge-map --pairs pairs.npy")
    assert ended.err == ""
    assert fields(ended.out)["pairs"].strip() == "30"
    assert run(f"{FIT} --method itq+ --pairs pairs.npy").err == ""
    assert "itq does not use pairs" in run(f"{FIT} --method itq --pairs pairs.npy").err


def test_encode_writes_the_codes_of_the_library(run: Run) -> None:
    ended = run("encode model.bh source.npy --domain source --out codes.npy")
    assert ended.code == 0
    assert ended.err == ""
    assert "60 rows of 8 columns" in ended.out
    assert "12 bits, 2 bytes a row" in ended.out
    assert "rows/s" in ended.out
    expected = load("model.bh").encode(np.load("source.npy"), "source")
    np.testing.assert_array_equal(np.load("codes.npy"), expected)


def test_encode_writes_ids_beside_the_codes(run: Run) -> None:
    pytest.importorskip("pyarrow")
    line = "encode model.bh source.npy --domain source --out codes.parquet --ids labels.npz:source"
    assert run(line).code == 0
    expected = load("model.bh").encode(np.load("source.npy"), "source")
    np.testing.assert_array_equal(read_codes("codes.parquet:code"), expected)
    labels = np.load("labels.npz")["source"]
    np.testing.assert_array_equal(read_labels("codes.parquet:id"), labels)


@pytest.mark.parametrize(("model", "data"), [("encoder", "target"), ("itq", "source")])
def test_single_encoders_need_no_domain(run: Run, model: str, data: str) -> None:
    assert run(f"encode {model}.bh {data}.npy --out codes.npy").code == 0
    expected = load(f"{model}.bh").encode(np.load(f"{data}.npy"))
    np.testing.assert_array_equal(np.load("codes.npy"), expected)


def test_evaluate_gives_the_scores_of_the_library(run: Run) -> None:
    ended = run(EVALUATE + " --json")
    assert ended.code == 0
    assert ended.err == ""
    record = json.loads(ended.out)
    model = load("model.bh")
    codes = (
        model.encode(np.load("target.npy"), "target"),
        model.encode(np.load("source.npy"), "source"),
    )
    hist = distance_histogram(*codes, np.arange(50) % 3, np.arange(60) % 3, n_bits=12)
    scores = Scores.of(hist)
    assert record["radius_pr_area"] == scores.radius_pr_area
    assert record["mean_average_precision"] == scores.mean_average_precision
    assert record["precision_at_10"] == scores.precision_at_10
    assert record["recall_at_100"] == scores.recall_at_100
    assert record["lookup_precision"] == scores.lookup_precision
    assert (record["n_queries"], record["n_database"], record["n_bits"]) == (50, 60, 12)


def test_evaluate_prints_per_cent(run: Run) -> None:
    record = json.loads(run(EVALUATE + " --json").out)
    ended = run(EVALUATE)
    lines = ended.out.splitlines()
    assert lines[0] == "50 target queries, 60 source rows to find, 12 bits"
    shown = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert shown["radius_pr_area"] == f"{100 * record['radius_pr_area']:.1f}"
    assert shown["mean_average_precision"] == f"{100 * record['mean_average_precision']:.1f}"
    assert {"precision@10", "recall@100", "lookup_precision"} < set(shown)
    assert "the field's MAP" in ended.out


def test_evaluate_inside_one_domain(run: Run) -> None:
    line = (
        "evaluate {} --queries target.npy --labels-queries labels.npz:target "
        "--database target.npy --labels-database labels.npz:target --json "
    )
    inside = run(line.format("model.bh") + "--domain-database target")
    single = run(line.format("encoder.bh"))
    assert inside.code == 0
    assert inside.out == single.out


def test_queries_of_a_class_of_their_own_are_a_note(run: Run, folder: Path) -> None:
    labels = np.load("labels.npz")["target"]
    labels[:4] = "emu"
    np.save("some.npy", labels)
    ended = run(EVALUATE.replace("labels.npz:target", "some.npy") + " --json")
    assert ended.code == 0
    assert ended.err.startswith("note: 4 of 50 ")
    assert json.loads(ended.out)["n_queries_without_relevant"] == 4


def test_info_of_a_model(run: Run) -> None:
    record = json.loads(run("info model.bh --json").out)
    model = load("model.bh")
    assert record["method"] == "ATH"
    assert record["n_bits"] == 12
    assert record["source"]["n_features"] == 8
    assert record["target"]["n_features"] == 5
    assert record["target"]["maps"] == [{"class": "UnitRows"}]
    assert record["parameters"]["ridge"] == model.ridge
    assert record["n_iter"] == model.n_iter_
    assert record["objective"]["last"] == model.objective_["total"][-1]
    assert record["package_version"] == __version__
    assert record["format_version"] == 2
    assert record["file_size"] == Path("model.bh").stat().st_size


def test_info_in_words(run: Run) -> None:
    run(FIT + " --preset unsupervised")
    ended = run("info new.bh")
    told = {name.strip(): value.strip() for name, value in fields(ended.out).items()}
    assert ended.err == ""
    assert told["kind"] == "hasher of two domains"
    assert told["source"] == "8 columns; feature maps: UnitRows()"
    assert "written by bridgehash" in told["format"]
    assert "target_graph    KNNGraph(mutual=True, n_neighbors=20, n_probe=auto)" in ended.out
    assert "\x1b" not in ended.out


@pytest.mark.parametrize(
    ("model", "kind", "method"),
    [("encoder", "encoder", "LinearEncoder"), ("itq", "hasher of one domain", "ITQ")],
)
def test_info_of_single_encoders(run: Run, model: str, kind: str, method: str) -> None:
    record = json.loads(run(f"info {model}.bh --json").out)
    assert (record["kind"], record["method"]) == (kind, method)
    assert "source" not in record
    assert record["encoder"]["n_features"] == (5 if model == "encoder" else 8)
    assert run(f"info {model}.bh").code == 0


def test_demo_is_called_with_the_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    stub = ModuleType("bridgehash.cli.demo")
    stub.run_demo = lambda out, console: called.append(out)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bridgehash.cli.demo", stub)
    assert run("demo").code == 0
    assert run("demo --out elsewhere").code == 0
    assert called == [Path("demo"), Path("elsewhere")]


def test_version(run: Run) -> None:
    ended = run("--version")
    assert (ended.code, ended.out) == (0, f"bridgehash {__version__}\n")


@pytest.mark.parametrize("command", ["", "fit", "encode", "evaluate", "info", "demo"])
def test_help_has_an_example(run: Run, command: str) -> None:
    ended = run(f"{command} --help")
    assert ended.code == 0
    assert ended.err == ""
    assert f"bridgehash {command}".rstrip() in ended.out.partition("Example:")[2]


def test_no_command_is_help(run: Run) -> None:
    assert run("") == run("--help")


def test_names_are_taken_literally(run: Run) -> None:
    Path("model.bh").rename("[red]:bee:é.bh")
    assert "[red]:bee:é.bh (" in run("info [red]:bee:é.bh").out
