"""The documentation builds, needs no other site, and names what exists."""

import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from bridgehash import ATH
from bridgehash.ath.presets import PUBLISHED

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


@builds_site
def test_every_page_is_in_the_menu(site):
    home = (site / "index.html").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs")
        built = page.with_suffix("") if page.name != "index.md" else page.parent
        assert (site / built / "index.html").is_file(), page
        assert page.name == "index.md" or f'href="{built}/"' in home, page


@builds_site
def test_pages_load_nothing_from_other_sites(site):
    loaded = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="((?:https?:)?//[^"]+)"')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert {address for page in pages for address in loaded.findall(page.read_text())} == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?(?:https?:)?//", styles)


@builds_site
def test_the_page_of_results_is_built_from_kept_records(site):
    from bridgehash.bench.spec import suite_names

    html = (site / "results" / "report.html").read_text()
    assert 'href="report.html"' in (site / "results" / "index.html").read_text()
    for name in suite_names():
        is_shown = name.endswith("-twin") or name.startswith("bridge-")
        assert (f">{name}</a>" in html) == is_shown, name
    kept = list((ROOT / "docs" / "results" / "records").glob("*.jsonl.gz"))
    assert 0 < sum(path.stat().st_size for path in kept) < 1e6
    assert html.count("Not run yet.") == html.count("not run</td>")


@builds_site
def test_formulas_are_mathml(site):
    html = (site / "maths" / "index.html").read_text()
    assert html.count("<math") > 20
    body = re.sub(r"<(script|style|code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert "$" not in body


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
    shown = set(re.findall(r'<h[1-4] id="bridgehash\.(?:_core\.errors\.)?([\w.]+)"', html))
    assert set(bridgehash.__all__) - {"__version__"} <= shown
    assert {"ATH.fit", "ATH.encode", "HammingIndex.search"} <= shown


@builds_site
def test_every_class_has_a_page_with_its_import_path(site):
    import bridgehash

    home = (site / "reference" / "estimators" / "index.html").read_text()
    classes = {name for name in bridgehash.__all__ if inspect.isclass(getattr(bridgehash, name))}
    shown = classes - {name for name in classes if name.endswith(("Error", "Warning"))}
    assert {"ATH", "HammingIndex", "AnchorKernel"} <= shown
    for name in shown:
        html = (site / "reference" / name / "index.html").read_text()
        assert re.search(rf'<h1 id="bridgehash\.{name}"', html), name
        assert f"bridgehash.{name}</span>" in html, name
        assert f'href="../{name}/"' in home, name


@builds_site
def test_the_changelog_lists_every_change(site):
    html = (site / "changelog" / "index.html").read_text()
    assert html.count("<li><strong>") == len(list((ROOT / "changes").glob("*.*.md")))


def test_one_version_everywhere():
    from bridgehash import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+)", text_of("changelog.md"), re.MULTILINE)[1] == __version__
