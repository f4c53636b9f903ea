"""The documentation builds, needs no other site, and its code runs."""

import pkgutil
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from bridgehash import ATH
from bridgehash.ath.presets import PUBLISHED
from bridgehash.datasets import digit_domains

ROOT = Path(__file__).resolve().parents[1]
builds_site = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the built site; warnings of mkdocs are errors."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def text_of(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def run_page(page, folder):
    """Run the Python blocks of a page as one script."""
    script = folder / "page.py"
    blocks = re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL)
    script.write_text("\n".join(blocks), encoding="utf-8")
    runpy.run_path(str(script), run_name="page")


@builds_site
def test_every_page_is_in_the_menu(site):
    home = (site / "index.html").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs")
        built = page.with_suffix("") if page.name != "index.md" else page.parent
        assert (site / built / "index.html").is_file(), page
        assert page.name == "index.md" or f'href="{built}/"' in home, page


@builds_site
def test_formulas_are_mathml(site):
    html = (site / "maths" / "index.html").read_text()
    assert html.count("<math") > 20
    body = re.sub(r"<(script|style|code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert "$" not in body


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
    run_page("tutorial.md", tmp_path)
    area, precision = map(float, capsys.readouterr().out.splitlines()[-1].split())
    assert 0.5 < area <= 1.0
    assert 0.5 < precision <= 1.0


def test_the_parts_page_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page("howto/parts.md", tmp_path)
    refused, placeholder = capsys.readouterr().out.splitlines()
    assert "SquareRoots cannot be saved" in refused
    assert placeholder == "<RandomStart: not saved with the model>"


def test_equations_name_functions_that_exist():
    rooms = "_core|ath|baselines|codes|metrics|models|neighbors|streaming"
    names = set(re.findall(rf"`((?:{rooms})\.[\w.]+)`", text_of("maths.md")))
    assert len(names) > 20
    for name in names:
        assert pkgutil.resolve_name(f"bridgehash.{name}"), name


def test_every_departure_from_the_paper_is_listed():
    section = text_of("maths.md").partition("## Where the defaults depart from the paper")[2]
    listed = set(re.findall(r"`(\w+)`", section.partition("\n## ")[0]))
    for name in PUBLISHED:
        ours, theirs = (getattr(ATH, name)(published=p).get_params(False) for p in (False, True))
        changed = {key for key in ours if repr(ours[key]) != repr(theirs[key])}
        assert changed <= listed, name


def test_every_method_has_an_entry():
    from bridgehash.registry import METHODS

    described = set(re.findall(r"\*\*([\w+-]+)\*\*", text_of("methods.md")))
    assert described == {name for name in METHODS if not name.startswith("ath-")}


@builds_site
def test_the_reference_shows_every_public_name(site):
    import bridgehash

    html = "".join(path.read_text() for path in (site / "reference").rglob("*.html"))
    shown = set(re.findall(r'<h[34] id="bridgehash\.(?:_core\.errors\.)?([\w.]+)"', html))
    assert set(bridgehash.__all__) - {"__version__"} <= shown
    assert {"ATH.fit", "ATH.encode", "HammingIndex.search"} <= shown


@builds_site
def test_the_changelog_lists_every_change(site):
    html = (site / "changelog" / "index.html").read_text()
    assert html.count("<li><strong>") == len(list((ROOT / "changes").glob("*.md")))
