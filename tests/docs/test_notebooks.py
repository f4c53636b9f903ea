"""Notebooks of the gallery have the code of their pages, which `test_outputs` runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.conftest import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in sorted((ROOT / "docs" / "gallery").glob("*.md")) if path.stem != "index"]
NOTEBOOKS = load("docs/_hooks/notebooks.py")


def test_there_are_enough_examples_and_the_overview_shows_them_all():
    overview = (ROOT / "docs" / "gallery" / "index.md").read_text()
    assert len(PAGES) >= 6
    assert all(f"]({path.name})" in overview for path in PAGES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_notebook_has_all_code_of_its_page(path):
    text = path.read_text(encoding="utf-8")
    cells = NOTEBOOKS.notebook(text)["cells"]
    codes = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    python = [code for code in codes if not code.startswith("!")]
    assert python == [code.rstrip() for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    ast.parse("\n".join(python))
    commands = "".join(code for code in codes if code.startswith("!"))
    assert commands.count("!") == len(re.findall(r"^\$ ", text, re.MULTILINE))
    words = "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    assert words.startswith("# ")
    assert "<!--" not in words
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_a_page_shows_a_picture_that_its_code_draws():
    for path in PAGES:
        assert re.search(rf"pictures/{path.stem}-\w+\.png", path.read_text(encoding="utf-8")), path
