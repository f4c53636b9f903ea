"""Numbers of tables are aligned and the best are marked; bold letters of formulas stay bold."""

from __future__ import annotations

import doctest

import pytest
from markdown import markdown

from tests.docs.conftest import load

TABLE = """\
<!-- record: toy.json | keys: 2{best} -->

| data | method | area | seconds | ref |
| --- | --- | --- | --- | --- |
| a | one | 9.5 ± 1.0 / .20 | 3 s | 99 |
| a | two | 10.1 ± 0.9 / .10 | 2 s | 98 |
| b | one | - | 1,000 s | |
| b | two | 7.0 ± 0.2 / .30 | slow | |
"""


@pytest.fixture(scope="module")
def tables():
    return load("docs/_hooks/tables.py")


def built(tables, best):
    html = markdown(TABLE.replace("{best}", best), extensions=["tables"])
    return tables.on_page_content(html)


def test_columns_of_numbers_are_aligned(tables):
    html = built(tables, "")
    assert '<th class="number">area</th>' in html
    assert '<td class="number">9.5 ± 1.0 / .20</td>' in html
    assert '<th class="number">ref</th>' in html
    assert "<th>seconds</th>" in html  # one cell is a word
    assert "<strong>" not in html


def test_the_best_of_a_column_is_marked(tables):
    html = built(tables, " | best: column")
    assert "9.5 ± 1.0 / .20" in html
    assert "<strong>10.1 ± 0.9</strong> / .10" in html
    assert "7.0 ± 0.2 / <strong>.30</strong>" in html
    assert html.count("<strong>") == 2  # not in columns of others, and not in words
    assert "the best of the column." in html


def test_the_best_of_each_group_is_marked(tables):
    html = built(tables, " | best: group")
    assert "9.5 ± 1.0 / <strong>.20</strong>" in html
    assert "<strong>10.1 ± 0.9</strong> / .10" in html
    assert "<strong>7.0 ± 0.2</strong> / <strong>.30</strong>" in html


def test_examples_run(tables):
    result = doctest.testmod(tables)
    assert (result.failed, result.attempted > 0) == (0, True)


def test_bold_letters_are_characters_of_their_own():
    formulas = load("docs/_hooks/mathml.py").on_page_markdown(
        r"$\mathbf{1}$ $\mathbf{Ax}$ `$\mathbf{b}$`"
    )
    assert all(letter in formulas for letter in "𝟏𝐀𝐱")
    assert "mathvariant" not in formulas
    assert r"`$\mathbf{b}$`" in formulas
