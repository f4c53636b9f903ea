"""README is short, its badges are true, and its links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_begins_with_the_use_and_a_picture(text: str) -> None:
    lines = text.splitlines()
    assert len(lines) < 90
    assert lines[2].startswith("**Search photos with sketches")
    assert text.index("![") < text.index("pip install") < text.index("```python")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in code.splitlines() if line and "import" not in line]) <= 8


def test_badges_are_true(text: str) -> None:
    badges = text.splitlines()[4].split(" · ")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python, packages, typed, licence = badges
    assert f">={python.removeprefix('Python ').removesuffix('+')}" == project["requires-python"]
    needed = {re.split("[>=]", line)[0] for line in project["dependencies"]}
    assert {name.lower() for name in packages.split(", ")} <= needed
    assert (typed, (ROOT / "bridgehash" / "py.typed").is_file()) == ("typed", True)
    assert licence == project["license"]


def test_links_and_commands_exist(text: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert len(links) > 25
    assert [link for link in links if not (ROOT / link).exists()] == []
    targets = (ROOT / "Makefile").read_text()
    for line in re.findall(r"^make (\w+)|`make ([\w ]+)`", text, re.MULTILINE):
        for name in " ".join(line).split():
            assert f"\n{name}:" in targets, name


def test_the_table_has_a_row_for_every_bridge(text: str) -> None:
    table = text.partition("| you have")[2].partition("\n\n")[0]
    names = ("unsupervised", "propagated", "kernel", "supervised", "paired")
    assert all(f"`ATH.{name}`" in table for name in names)
    assert "`ath.join`" in table
