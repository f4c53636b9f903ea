"""Each command does what its help says and prints nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import __version__, load
from bridgehash.cli.io import read_codes, read_labels
from bridgehash.cli.main import EXIT_CODES, app
from bridgehash.metrics import distance_histogram
from bridgehash.metrics.evaluate import Scores
from bridgehash.registry import METHODS

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]

EVALUATE = (
    "evaluate model.bh --queries target.npy --labels-queries labels.npz:target "
    "--database source.npy --labels-database labels.npz:source"
)
INDEX = "index build source.npy --model model.bh --domain source --out new.bhi"


def loaded(code: str, names: set[str]) -> set[str]:
    """Which of these packages are loaded after running some code in a new process."""
    end = f"print(*({names} & {{name.partition('.')[0] for name in sys.modules}}))"
    line = [sys.executable, "-c", f"import sys\n{code}\n{end}"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_no_library() -> None:
    assert loaded("import bridgehash", {"numpy", "scipy", "sklearn", "typer", "rich"}) == set()


def test_help_loads_no_numerical_library() -> None:
    heavy = {"numpy", "scipy", "sklearn", "safetensors", "threadpoolctl", "jinja2", "matplotlib"}
    lines = ([], ["fit"], ["index", "build"], ["search"], ["bench", "run"], ["demo"])
    calls = "\n".join(f"assert main({[*line, '--help']}) == 0" for line in lines)
    assert loaded(f"from bridgehash.cli.main import main\n{calls}", heavy) == set()


def test_every_help_has_an_example_of_its_command(run: Run) -> None:
    commands = ["fit", "encode", "evaluate", "search", "serve", "extract", "info", "methods"]
    commands += ["demo", "join", "export"]
    commands += [f"index {name}" for name in ("build", "add", "upsert", "remove", "info")]
    commands += [f"bench {name}" for name in ("list", "run", "show", "report")]
    for command in ("", *commands):
        ended = run(f"{command} --help")
        assert (ended.code, ended.err) == (0, "")
        assert f"bridgehash {command}".rstrip() in ended.out.partition("Example:")[2]
    top = " ".join(run("--help").out.split())
    assert all(f"{code} {meaning}" in top for code, meaning in EXIT_CODES.items())
    assert run("") == run("--help")
    page = (ROOT / "docs" / "howto" / "command-line.md").read_text(encoding="utf-8")
    assert all(f"| {code} | {meaning} |" in page for code, meaning in EXIT_CODES.items())


def _listed(run: Run, command: str = "") -> list[str]:
    """Commands, or sub-commands of a command, in the order of the help."""
    lines = run(f"{command} --help").out.partition("Commands:\n")[2].splitlines()
    return [line.split()[0] for line in lines[: lines.index("") if "" in lines else None]]


def _examples(run: Run) -> list[str]:
    """The command lines of all helps, in their order."""
    found: list[str] = []
    for command in _listed(run):
        for name in (command, *(f"{command} {sub}" for sub in _listed(run, command))):
            text = run(f"{name} --help").out.partition("Example:\n")[2].partition("\n\n")[0]
            found += [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    return list(dict.fromkeys(found))


def test_commands_are_in_the_order_of_use(run: Run) -> None:
    order = _listed(run)
    assert order[0] == "demo"
    use = ["fit", "evaluate", "encode", "index", "search", "serve"]
    assert [name for name in order if name in use] == use
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert set(order) == names | {group.name for group in app.registered_groups}


NEED_MORE = (
    "postgresql:",
    "serve",
    "extract photos",
    "extract sketches",
    "items.csv",
    "photos.npz",
)


def test_examples_of_the_help_run_one_after_the_other(run: Run) -> None:
    """Those that start a service, or need images, a server or the data of a suite, are left out."""
    examples = _examples(run)
    left_out = [line for line in examples if any(word in line for word in NEED_MORE)]
    benchmarks = [line for line in examples if "bench" in line.split() and "list" not in line]
    ran = [line for line in examples if line not in left_out + benchmarks + ["bridgehash demo"]]
    assert len(ran) > 15
    assert len(left_out) < 10
    for line in ran:
        if "export" in line and not find_spec("onnx"):
            continue
        ended = run(" ".join(line.split()[1:]))
        assert ended.code == 0, (line, ended.err)


def test_export_writes_an_encoder(run: Run) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    ended = run("export model.bh --domain target --onnx new.onnx")
    assert (ended.code, ended.err) == (0, "")
    assert "reads    features, float32, 5 columns\n" in ended.out
    X = np.load("target.npy").astype(np.float32)
    session = runtime.InferenceSession("new.onnx", providers=["CPUExecutionProvider"])
    found = session.run(["codes"], {"features": X})[0]
    assert np.array_equal(found, load("model.bh").encode(X, "target"))
    words = session.get_modelmeta().custom_metadata_map
    assert words["domain"] == "target"
    assert words["code_space"] == load("model.bh").code_space()
    assert "choose one: --domain source" in run("export model.bh --onnx new.onnx").err
    assert "must end in .onnx" in run("export model.bh --domain target --onnx new.npy").err


def test_version(run: Run) -> None:
    ended = run("--version")
    assert (ended.code, ended.out) == (0, f"bridgehash {__version__}\n")


def test_methods_are_listed_with_what_they_need(run: Run) -> None:
    lines = run("methods").out.splitlines()
    assert lines[0].split() == ["method", "kind", "learns", "from"]
    assert [line.split()[0] for line in lines[1:]] == list(METHODS)
    assert all(len(line) < 80 for line in lines)
    assert lines[1 + list(METHODS).index("scratch")].endswith("labels: source, pairs")
    cited = run("methods --citations").out.splitlines()[1:]
    assert all(METHODS[line.split()[0]].about.citation in line for line in cited)
    records = json.loads(run("methods --json").out)
    assert [record["method"] for record in records] == list(METHODS)
    assert all(record["citation"] and record["title"] for record in records)


def test_encode_writes_the_codes_of_the_library(run: Run) -> None:
    ended = run("encode model.bh source.npy --domain source --out codes.npy")
    assert (ended.code, ended.err) == (0, "")
    assert "60 rows of 8 columns" in ended.out
    assert "12 bits, 2 bytes per row" in ended.out
    assert "rows/s" in ended.out
    expected = load("model.bh").encode(np.load("source.npy"), "source")
    np.testing.assert_array_equal(np.load("codes.npy"), expected)
    for model, data in (("encoder", "target"), ("itq", "source")):  # no domain to choose
        assert run(f"encode {model}.bh {data}.npy --out codes.npy").code == 0
        expected = load(f"{model}.bh").encode(np.load(f"{data}.npy"))
        np.testing.assert_array_equal(np.load("codes.npy"), expected)


def test_encode_writes_ids_beside_the_codes(run: Run) -> None:
    pytest.importorskip("pyarrow")
    line = "encode model.bh source.npy --domain source --out codes.parquet --ids labels.npz:source"
    assert run(line).code == 0
    expected = load("model.bh").encode(np.load("source.npy"), "source")
    np.testing.assert_array_equal(read_codes("codes.parquet:code"), expected)
    labels = np.load("labels.npz")["source"]
    np.testing.assert_array_equal(read_labels("codes.parquet:id"), labels)


def test_evaluate_gives_the_scores_of_the_library(run: Run) -> None:
    ended = run(EVALUATE + " --json")
    assert (ended.code, ended.err) == (0, "")
    record = json.loads(ended.out)
    model = load("model.bh")
    codes = (
        model.encode(np.load("target.npy"), "target"),
        model.encode(np.load("source.npy"), "source"),
    )
    hist = distance_histogram(*codes, np.arange(50) % 3, np.arange(60) % 3, n_bits=12)
    scores = Scores.of(hist)
    for name in ("radius_pr_area", "mean_average_precision", "precision_at_10", "recall_at_100"):
        assert record[name] == getattr(scores, name)
    assert record["lookup_precision"] == scores.lookup_precision
    assert (record["n_queries"], record["n_database"], record["n_bits"]) == (50, 60, 12)
    lines = run(EVALUATE).out.splitlines()
    assert lines[0] == "50 target queries against 60 source rows, 12 bits"
    shown = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert shown["radius_pr_area"] == f"{100 * record['radius_pr_area']:.1f}"
    assert shown["mean_average_precision"] == f"{100 * record['mean_average_precision']:.1f}"
    assert {"precision@10", "recall@100", "lookup_precision"} < set(shown)


def test_evaluate_inside_one_domain(run: Run) -> None:
    line = (
        "evaluate {} --queries target.npy --labels-queries labels.npz:target "
        "--database target.npy --labels-database labels.npz:target --json "
    )
    inside = run(line.format("model.bh") + "--domain-database target")
    assert inside.code == 0
    assert inside.out == run(line.format("encoder.bh")).out


def test_queries_of_an_unknown_class_are_a_note(run: Run) -> None:
    labels = np.load("labels.npz")["target"]
    labels[:4] = "emu"
    np.save("some.npy", labels)
    ended = run(EVALUATE.replace("labels.npz:target", "some.npy") + " --json")
    assert ended.code == 0
    assert ended.err == "note: 4 of 50 queries have a class that no database row has\n"
    assert json.loads(ended.out)["n_queries_without_relevant"] == 4


def test_info_describes_a_model(run: Run) -> None:
    record = json.loads(run("info model.bh --json").out)
    model = load("model.bh")
    assert (record["kind"], record["method"], record["n_bits"]) == ("2 domains", "ATH", 12)
    assert record["encoders"]["source"]["n_features"] == 8
    assert record["encoders"]["target"]["n_features"] == 5
    assert record["encoders"]["target"]["maps"] == [{"class": "UnitRows"}]
    assert record["parameters"]["ridge"] == model.ridge
    assert record["n_iter"] == model.n_iter_
    assert record["objective"]["last"] == model.objective_["total"][-1]
    Path("model.bh").rename("[red]:bee:é.bh")  # names are printed as they are
    ended = run("info [red]:bee:é.bh")
    assert ended.err == ""
    assert "[red]:bee:é.bh (" in ended.out
    assert "8 columns; feature maps: UnitRows()" in ended.out
    assert "\x1b" not in ended.out
    for name, kind, method in (
        ("encoder", "encoder", "LinearEncoder"),
        ("itq", "one-domain hasher", "ITQ"),
    ):
        record = json.loads(run(f"info {name}.bh --json").out)
        assert (record["kind"], record["method"]) == (kind, method)
        assert "source" not in record
        assert record["encoders"]["encoder"]["n_features"] == (5 if name == "encoder" else 8)
        assert run(f"info {name}.bh").code == 0


def test_info_shows_parts_and_shared_methods(run: Run) -> None:
    fit = "fit source.npy target.npy --out new.bh --bits 6 -q --set max_iter=2 "
    assert run(fit + "--preset unsupervised").code == 0
    assert "KNNGraph(mutual=True, n_neighbors=auto" in run("info new.bh").out
    assert run(fit + "--method itq").code == 0
    assert json.loads(run("info new.bh --json").out)["method"] == "Shared(ITQ)"


def test_info_describes_an_index(run: Run) -> None:
    assert run(INDEX).code == 0
    ended = run("info new.bhi")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == run("index info new.bhi").out
    assert json.loads(run("info new.bhi --json").out)["codes"] == 60
