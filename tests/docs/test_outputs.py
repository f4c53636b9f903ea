"""What the pages of the documentation show as output is what their code prints."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.docs.conftest import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in load("docs/_hooks/outputs.py").pages() if page.is_run]

TEXT = """\
<!-- outputs: run -->
<!-- setup
n = 3
print("not shown")
-->

```python
print("n is", n)
for i in range(5):
    print(i / 3)
```

```text
n is 3
0.0
...
```

<!-- not run: a reason -->

```python
raise ValueError
```

```console
$ echo one \\
    two
one two
$ echo 10.5 rows; echo "time  3 s"
10.5 rows
```
"""


def marked(page):
    marks = [pytest.mark.slow] if page.is_slow else []
    return pytest.param(page, marks=marks, id=page.name)


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_outputs_are_as_printed(page):
    if missing := page.missing():
        pytest.skip(f"{page.name} needs {', '.join(missing)} of the data pack")
    _, problems = page.rerun()
    assert problems == [], "run `make docs-outputs`"
    assert page.shown <= page.drawn.keys()
    assert all((ROOT / "docs" / "pictures" / name).is_file() for name in page.shown)


def test_pages_with_outputs_say_how_they_are_run(outputs):
    pages = list(outputs.pages())
    assert [page.name for page in pages if page.has_outputs and not page.is_declared] == []
    assert {"README.md", "tutorial.md", "howto/parts.md"} <= {
        page.name for page in PAGES if not page.is_slow
    }


@pytest.fixture
def page(outputs, tmp_path, monkeypatch):
    """A page from a text."""

    def made(text):
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        return outputs.Page(path)

    return made


def test_a_right_page_stays_as_it_is(page):
    assert page(TEXT).has_outputs
    assert page(TEXT).rerun() == (TEXT, [])


@pytest.mark.parametrize(
    ("right", "wrong", "n_problems"),
    [
        ("n is 3\n", "n is 4\n", 0),  # one in the last digit
        ("n is 3\n", "n is 5\n", 1),
        ("n is 3\n", "m is 3\n", 1),
        ("0.0\n...\n", "0.0\n", 4),
        ("\n10.5 rows", "\n10.69 rows", 0),  # below two per cent
        ("\n10.5 rows", "\n10.8 rows", 1),
        ("one two\n", "", 1),
        ("one two\n", "one two\nthree\n", 1),
        ("```text\nn is 3\n0.0\n...\n```\n\n", "", 6),  # printed, but not shown
    ],
)
def test_other_outputs_are_found_and_mended(page, right, wrong, n_problems):
    assert right in TEXT
    text, problems = page(TEXT.replace(right, wrong)).rerun()
    assert len(problems) == n_problems
    assert "n is 3\n" in text
    assert "one two\n" in text
    assert page(text).rerun() == (text, [])


def test_examples_of_the_tools_run(outputs, measured):
    for module in (outputs, measured):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 0) == (0, True)


def test_options_of_a_page(page):
    slow = page("<!-- outputs: run, slow, needs a.npz, needs b.npz -->")
    assert (slow.is_run, slow.is_slow, slow.missing()) == (True, True, ["a.npz", "b.npz"])
    never = page("<!-- outputs: not run, needs servers -->\n\n```console\n$ ls\na\n```\n")
    assert (never.is_run, never.is_declared, never.has_outputs) == (False, True, True)
    assert not page("```console\n$ ls\n```\n").has_outputs


def test_code_that_fails_is_an_error(page):
    with pytest.raises(RuntimeError, match="no-such-command"):
        page(TEXT.replace("echo one", "no-such-command")).rerun()
    with pytest.raises(NameError):
        page(TEXT.replace('"n is", n', "unknown")).rerun()
