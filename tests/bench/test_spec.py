"""Suites are data: what cannot be run is refused, and all that come with the package can be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridgehash.bench.spec import (
    METRICS,
    SEEN,
    Suite,
    SuiteError,
    load_suite,
    load_suites,
    parse_suite,
    suite_names,
    tunable,
)
from bridgehash.bench.tables import published
from bridgehash.registry import METHODS

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
    with pytest.raises(SuiteError, match=r"nothing\*: no suite has such a name"):
        load_suites(["nothing*"])


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_can_be_built(name: str) -> None:
    suite = load_suite(name)
    assert suite.title
    assert len(set(suite.tasks)) == len(suite.tasks)
    for method in suite.methods:
        hasher = method.build(12, seed=3)
        parameters = tunable(hasher).get_params()
        assert parameters["n_bits"] == 12
        assert {key: parameters[key] for key in method.params} == method.params
        needs = set(METHODS[method.use].about.needs) - {"y"}
        assert needs <= set(SEEN[method.labels])


@pytest.mark.parametrize("name", [name for name in suite_names() if load_suite(name).paper])
def test_suites_of_tables_hold_the_methods_of_the_paper(name: str) -> None:
    suite = load_suite(name)
    table = published(str(suite.paper))
    ours = {method.label for method in suite.methods}
    assert set(table.rows) - {"DHLing"} <= ours  # quoted in the paper, and not public
    assert {bits for _, _, bits in table.columns} == set(suite.n_bits)


@pytest.mark.parametrize("number", range(1, 9))
def test_the_paper_has_as_many_tasks_as_its_suite_or_more(number: int) -> None:
    """Two subtasks of Table VI share their tasks: one is searched in both domains."""
    suite = load_suite(f"table{number}")
    table = published(f"table_{number}.csv")
    assert len(suite.tasks) == len({task for _, task, _ in table.columns})


def test_the_paper_s_constants_are_those_of_the_package() -> None:
    from bridgehash.ath.presets import preset

    for table, label, realisation in (
        ("table2", "ATH_U", "unsupervised"),
        ("table7", "ATH_M", "semi_supervised"),
        ("table6", "ATH_S", "supervised"),
        ("table6", "ATH_K", "kernel"),
    ):
        methods = {method.label: method for method in load_suite(table).methods}
        built = methods[f"{label}, constants of the paper"].build(8, 0).get_params(deep=False)
        wanted = preset(realisation, published=True)
        wanted["start"] = "pca"  # the same start by its name
        assert {key: built[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("title", "titel", r"there is no key 'titel'; did you mean 'title'\?"),
        ('title = "T"', "", "the key 'title' is missing"),
        ("[[method]]", "[[methods]]", "no key 'methods'; did you mean 'method'"),
        ("[[method]]", "[method]", "method has to be a list"),
        ("use =", "label =", "lacks the key 'use'"),
        ('"itq"', '"itk"', r"no method 'itk'; did you mean 'itq'\?"),
        ('use = "itq"', 'use = "itq"\nparam = {}', "no key of a method 'param'; did you mean"),
        ('"itq"', '"itq"\nparams = { max_it = 3 }', "no parameter of itq 'max_it'; did you mean"),
        ('"itq"', '"itq"\nparams = { n_bits = 3 }', "no parameter of itq 'n_bits'"),
        ('"itq"', '"itq"\nsweep = { n_iters = [3] }', "no parameter of itq 'n_iters'"),
        (
            '"itq"',
            '"ath-supervised"',
            "ath-supervised needs features, labels of both, but labels = 'none'",
        ),
        ('"itq"', '"itq"\nlabels = "some"', "no kind of labels 'some'"),
        ('"itq"', '"itq"\n[[method]]\nuse = "itq"', "two methods have one label"),
        ("own/", "mine/", "no data set 'mine'"),
        ("own/a.f-b.g", "own/a", "is not a task"),
        ("title", "n_bits = 16\ntitle", "n_bits has to be a list"),
        ("title", "n_bits = []\ntitle", "n_bits has to be a list"),
        ("title", "n_bits = [0]\ntitle", "whole numbers of 1 to"),
        ("title", "seeds = 0\ntitle", "seeds=0: give"),
        ("title", 'sides = ["both"]\ntitle', "no side 'both'"),
        ("title", 'metrics = ["map"]\ntitle', "no metric 'map'"),
        ("title", 'extras = ["objectiv"]\ntitle', "did you mean 'objective'"),
        ("title", 'figure = "pie"\ntitle', "no figure 'pie'"),
        ("title", 'figure = "tsne"\ntitle', 'needs extras = \\["embedding"\\]'),
        ("title", 'figure = "grid"\ntitle', "needs a sweep over one or two"),
        ("title", 'figure = "iterations"\ntitle', "needs a sweep over max_iter"),
        ("title", 'figure = "samples"\ntitle', "needs tasks with @N"),
        ("title", 'paper = "table_9.csv"\ntitle', "no published table 'table_9.csv'"),
        ("title =", "title", "suite small: "),
    ],
)
def test_what_cannot_be_run_is_refused(old: str, new: str, reason: str) -> None:
    assert old in SMALL
    with pytest.raises(SuiteError, match=re.escape("suite small: ")) as caught:
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
    with pytest.raises(SuiteError, match=r"theirs\.toml: there is no such file"):
        load_suite("theirs.toml")
    with pytest.raises(SuiteError, match="did you mean 'table5-twin'"):
        load_suite("table5twin")
