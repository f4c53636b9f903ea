"""Suites are data: what cannot be run is refused, and all that come with the package can be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridgehash import InputError, SuiteError
from bridgehash.bench.spec import (
    METRICS,
    SEEN,
    Suite,
    load_suite,
    load_suites,
    parse_suite,
    suite_names,
)
from bridgehash.bench.tables import published
from bridgehash.registry import METHODS, inner_estimator

OURS = {  # names in the paper, and here; others differ in upper case only
    "GTH": "gth-g",
    "ATH_U": "ath-unsupervised",
    "ATH_M": "ath-semi-supervised",
    "ATH_S": "ath-supervised",
    "ATH_K": "ath-kernel",
    "T1+T2": "T1+T2",
    "T1+T3": "T1+T3",
}
SMALL = """
title = "T"
tasks = ["own/a.f-b.g"]

[[method]]
use = "itq"
"""


def test_a_small_suite_has_defaults() -> None:
    suite = parse_suite("small", SMALL)
    assert (suite.name, suite.title, [str(task) for task in suite.tasks]) == (
        "small",
        "T",
        ["own/a.f-b.g"],
    )
    assert suite.n_bits == (64,)
    assert suite.sides == ("cross", "single")
    assert suite.metrics == METRICS
    assert [(m.label, m.use, m.labels, m.params) for m in suite.methods] == [
        ("itq", "itq", "none", {})
    ]


def test_patterns_name_suites_each_once() -> None:
    names = [suite.name for suite in load_suites(["table7-twin", "table*-twin", "table1"])]
    twins = [f"table{i}-twin" for i in (1, 2, 3, 4, 5, 6, 8)]
    assert names == ["table7-twin", *twins, "table1"]


def test_a_pattern_that_fits_nothing_is_refused() -> None:
    with pytest.raises(SuiteError, match=r"nothing\*: no suite matches"):
        load_suites(["nothing*"])


def test_every_suite_can_be_built() -> None:
    for suite in map(load_suite, suite_names()):
        assert suite.title
        assert len(set(suite.tasks)) == len(suite.tasks)
        for method in suite.methods:
            parameters = inner_estimator(method.build(12, seed=3)).get_params()
            assert parameters["n_bits"] == 12
            assert {key: parameters[key] for key in method.params} == method.params
            needs = set(METHODS[method.use].about.needs) - {"y"}
            assert needs <= set(SEEN[method.labels])


def test_suites_of_tables_have_the_methods_of_the_paper_under_our_names() -> None:
    for suite in map(load_suite, suite_names()):
        if suite.paper is None:
            continue
        table = published(suite.paper)
        names = {OURS.get(name, name.lower()) for name in table.rows} - {"dhling"}  # not public
        assert names <= {method.label for method in suite.methods}, suite.name
        assert {bits for _, _, bits in table.columns} == set(suite.n_bits)


def test_suites_of_the_paper_have_its_tasks() -> None:
    """Two subtasks of Table VI share their tasks: one is searched in both domains."""
    for number in range(1, 9):
        table = published(f"table_{number}.csv")
        n_tasks = len({task for _, task, _ in table.columns})
        assert len(load_suite(f"table{number}").tasks) == n_tasks


def test_figures_of_the_paper_have_its_panels_and_twins() -> None:
    """Figures 3 to 6: three tasks, one side, 64 bits, the methods of Tables II to VI."""
    methods = [
        {OURS.get(name, name.lower()) for name in published(f"table_{i}.csv").rows} for i in (2, 6)
    ]
    for number, side in ((3, "single"), (4, "cross"), (5, "single"), (6, "cross")):
        for suite in load_suites([f"figure{number}", f"figure{number}-twin"]):
            assert (suite.figure, suite.sides, suite.n_bits) == ("pr", (side,), (64,))
            assert {method.label for method in suite.methods} == methods[0] | methods[1]
            assert len(suite.tasks) == 3
        table = load_suite(f"table{number - 1}-twin")  # so that both share their fits
        assert table.tasks == suite.tasks
        assert (table.seeds, table.sides) == (suite.seeds, suite.sides)
    figures = {name.removesuffix("-twin") for name in suite_names() if name.startswith("figure")}
    assert all({name, f"{name}-twin"} <= set(suite_names()) for name in figures)
    assert len(figures) == 9  # Figure 8 has two


def test_the_ablation_has_every_sum_of_terms_at_both_kinds_of_constants() -> None:
    for suite in load_suites(["table8", "table8-twin"]):
        terms: dict[str, set[tuple[bool, bool]]] = {}
        for method in suite.methods:
            parameters = method.build(8, seed=0).get_params()
            graphs = parameters["beta_source"] > 0 and parameters["beta_target"] > 0
            terms.setdefault(method.use, set()).add((parameters["lam"] != 0, graphs))
        every = {(bridge, graphs) for bridge in (False, True) for graphs in (False, True)}
        assert terms == {"ath-unsupervised": every, "ath-unsupervised-published": every}


def test_twins_show_the_paper_as_printed_and_the_script() -> None:
    for number in range(1, 6):
        labels = [method.label for method in load_suite(f"table{number}-twin").methods]
        assert {"ath-unsupervised-published", "ath-unsupervised-authors"} <= set(labels)
    assert [str(task) for task in load_suite("table1-twin").tasks] == ["cifar10/all.gist512"]


def test_suites_of_class_selections_differ_in_the_classes_only() -> None:
    closed, *others = load_suites(["closed", "partial", "open", "universal"])
    for suite in others:
        draws = [f"{task}@classes={suite.name}" for task in closed.tasks]
        assert [str(task) for task in suite.tasks] == draws
        assert (suite.methods, suite.n_bits) == (closed.methods, closed.n_bits)
        assert suite.metrics_of("single") == closed.metrics
        has_unknown = suite.name in ("open", "universal")
        assert ("rejection_auroc" in suite.metrics_of("cross")) == has_unknown


MISTAKES = [
    ("title", "titel", r"unknown key 'titel'; did you mean 'title'\?"),
    ('title = "T"', "", "the key 'title' is missing"),
    ("[[method]]", "[[methods]]", "unknown key 'methods'; did you mean 'method'"),
    ("[[method]]", "[method]", "method must be a list"),
    ("use =", "label =", "has no key 'use'"),
    ('"itq"', '"itk"', r"unknown method 'itk'; did you mean 'itq'\?"),
    ('use = "itq"', 'use = "itq"\nparam = {}', "unknown key of a method 'param'; did you mean"),
    ('"itq"', '"itq"\nparams = { max_it = 3 }', "unknown parameter of itq 'max_it'; did you mean"),
    ('"itq"', '"itq"\nparams = { n_bits = 3 }', "unknown parameter of itq 'n_bits'"),
    ('"itq"', '"itq"\nsweep = { n_iters = [3] }', "unknown parameter of itq 'n_iters'"),
    (
        '"itq"',
        '"ath-supervised"',
        "ath-supervised needs features, labels of both domains, but labels = 'none'",
    ),
    ('"itq"', '"itq"\nlabels = "some"', "unknown kind of labels 'some'"),
    ('"itq"', '"itq"\n[[method]]\nuse = "itq"', "two methods have the same label"),
    ("own/", "mine/", "unknown data set 'mine'"),
    ("own/a.f-b.g", "own/a", "is not a task"),
    ("title", "n_bits = 16\ntitle", "n_bits must be a list"),
    ("title", "n_bits = []\ntitle", "n_bits must be a list"),
    ("title", "n_bits = [0]\ntitle", "integers from 1 to"),
    ("title", "seeds = 0\ntitle", "seeds=0 is not allowed"),
    ("title", 'sides = ["both"]\ntitle', "unknown side 'both'"),
    ("title", 'metrics = ["map"]\ntitle', "unknown metric 'map'"),
    ("title", 'metrics = ["rejection_auroc"]\ntitle', "only, which side 'single' does not have"),
    ("own/a.f-b.g", "own/a.f-b.g@classes=part", "'part' does not select classes; write partial"),
    ("title", 'extras = ["objectiv"]\ntitle', "did you mean 'objective'"),
    ("title", 'figure = "pie"\ntitle', "unknown figure 'pie'"),
    ("title", 'figure = "tsne"\ntitle', 'needs extras = \\["embedding"\\]'),
    ("title", 'figure = "grid"\ntitle', "needs a sweep over one or two"),
    ("title", 'figure = "iterations"\ntitle', "needs a sweep over max_iter"),
    ("title", 'figure = "samples"\ntitle', "needs tasks with @N"),
    ("title", 'paper = "table_9.csv"\ntitle', "unknown published table 'table_9.csv'"),
    ("title =", "title", "suite small: "),
]


def test_a_suite_that_cannot_be_run_is_refused() -> None:
    for old, new, reason in MISTAKES:
        assert old in SMALL
        with pytest.raises(SuiteError, match="suite small: ") as caught:
            parse_suite("small", SMALL.replace(old, new, 1))
        assert re.search(reason, str(caught.value)), str(caught.value)


def test_a_sweep_is_one_method_for_every_point() -> None:
    sweep = 'use = "ath-unsupervised"\nlabel = "A, B"\nparams = { tol = 0 }\n'
    sweep += 'sweep = { lam = [0.1, 1], start = ["pca", "itq"] }'
    methods = parse_suite("small", SMALL.replace('use = "itq"', sweep)).methods
    assert [method.label for method in methods] == [
        "A, B, lam=0.1, start=pca",
        "A, B, lam=0.1, start=itq",
        "A, B, lam=1, start=pca",
        "A, B, lam=1, start=itq",
    ]
    assert {method.series for method in methods} == {"A, B"}
    assert methods[0].point == {"lam": 0.1, "start": "pca"}
    assert methods[0].params == {"tol": 0, "lam": 0.1, "start": "pca"}


def test_suites_come_by_name_or_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(SMALL)
    assert isinstance(load_suite("mine.toml"), Suite)
    assert load_suite("mine.toml").name == "mine"
    with pytest.raises(InputError, match=r"theirs\.toml: file not found"):
        load_suite("theirs.toml")
    with pytest.raises(SuiteError, match="did you mean 'table5-twin'"):
        load_suite("table5twin")


def test_the_time_of_every_suite_on_included_data_is_known() -> None:
    included = {"office-caltech10", "pacs", "mnist-usps", "cifar10"}
    for name in suite_names():
        suite = load_suite(name)
        on_paper_data = name.startswith(("table", "figure")) and not name.endswith("-twin")
        assert on_paper_data == (suite.minutes is None), name
        assert on_paper_data or {task.dataset for task in suite.tasks} <= included


@pytest.mark.parametrize("minutes", ["0", "-3", "true", '"long"'])
def test_a_time_that_is_no_positive_number_is_refused(minutes: str) -> None:
    with pytest.raises(SuiteError, match=r"minutes=.* give a number above 0"):
        parse_suite("small", f"minutes = {minutes}\n{SMALL}")
