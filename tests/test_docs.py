"""The documentation builds, stands alone, and does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

from bridgehash.datasets import digit_domains

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built pages; mkdocs' own warnings are errors."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_site_builds_with_every_page_of_the_menu(site):
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    for page in pages:
        built = page.with_suffix("") if page.name != "index.md" else page.parent
        assert (site / built / "index.html").is_file(), page


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_formulas_are_mathml_and_no_dollar_is_left(site):
    html = (site / "maths" / "index.html").read_text()
    assert html.count("<math") > 20
    body = re.sub(r"<(script|style|code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert "$" not in body


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_tutorial_runs_as_printed(tmp_path, monkeypatch, capsys):
    task = digit_domains(600, n_queries=50).heterogeneous()
    (tmp_path / "demo").mkdir()
    np.savez(
        tmp_path / "demo" / "digits.npz",
        source=task.X_source,
        target=task.X_target,
        query=task.X_query,
        y_source=task.y_source,
        y_target=task.y_target,
        y_query=task.y_query,
    )
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("tutorial.md", "python"):
        exec(block, names)
    area, precision = map(float, capsys.readouterr().out.splitlines()[-1].split())
    assert 0.5 < area <= 1.0
    assert 0.5 < precision <= 1.0


def test_equations_name_functions_that_exist():
    import importlib

    text = (ROOT / "docs" / "maths.md").read_text()
    names = set(
        re.findall(r"`((?:ath|linalg|graphs|codes|metrics|neighbors|feature_maps)\.[\w.]+)`", text)
    )
    assert len(names) > 15
    for name in names:
        module, _, attribute = f"bridgehash.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_method_has_an_entry():
    from bridgehash.registry import METHODS

    page = (ROOT / "docs" / "methods.md").read_text()
    described = set(re.findall(r"\*\*([\w+-]+)\*\*", page))
    assert described == {name for name in METHODS if not name.startswith("ath-")}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_reference_shows_every_public_name(site):
    import bridgehash

    html = "".join(path.read_text() for path in (site / "reference").rglob("*.html"))
    shown = set(re.findall(r'<h[34] id="bridgehash\.([\w.]+)"', html))
    assert set(bridgehash.__all__) - {"__version__"} <= shown
    assert {"ATH.fit", "ATH.encode", "index.HammingIndex.search"} <= shown


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_changelog_tells_every_change(site):
    html = (site / "changelog" / "index.html").read_text()
    assert html.count("<li><strong>") == len(list((ROOT / "changes").glob("*.md")))
