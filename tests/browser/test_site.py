"""The documentation, built and clicked through: scripts, small screens, both schemes, search."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytest.importorskip("axe_playwright_python")
pytest.importorskip("material", reason="no theme: pip install 'bridgehash[docs]'")
from tests.browser.test_accessibility import faults

ROOT = Path(__file__).resolve().parents[2]
SEARCHED = {  # a word, and the page that it has to find
    "license": "License and citation",
    "install": "Install",
    "sketches": "Search photos with sketches",
    "BridgeWarning": "If you see BridgeWarning",
    "HammingIndex": "HammingIndex",
    "onnx": "Deploy without Python",
    "postgresql": "Store codes on a server",
    "popcount": "bridgehash",
    "glossary": "Glossary",
    "radius_pr_area": "radius_pr_area",
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Address of the built site, and the pages it has."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    pages = sorted(path.parent.relative_to(folder) for path in folder.rglob("index.html"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", [f"{page}/" for page in pages]
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_site(open_page, site):
    """`open_site("maths/", width=390)`: a page of the site, whose scripts have run."""

    def call(where="", **more):
        page = open_page(where, url=site[0], reduced_motion="reduce", **more)
        expect(page.locator("html.js")).to_be_attached()
        return page

    return call


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_no_page_scrolls_sideways_on_a_phone(open_site, site, keep):
    page = open_site(width=390, height=844)
    assert len(site[1]) > 30
    wide = []
    for where in site[1]:
        page.goto(f"{site[0]}/{where}")
        for details in page.locator("article details").all():
            details.evaluate("e => e.open = true")
        width = page.evaluate("document.documentElement.scrollWidth")
        wide += [(where, width)] if width > 390 else []
    assert wide == []
    keep(page, "site-phone")


def test_the_switch_changes_the_scheme_and_stays(open_site, site):
    page = open_site(color_scheme="light")
    light = background(page)
    page.get_by_title("Switch to dark mode").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    dark = background(page)
    assert dark != light
    page.goto(f"{site[0]}/maths/")
    assert background(page) == dark
    page.get_by_title("Switch to light mode").click()
    assert background(page) == light


def test_the_scheme_of_the_system_comes_first(open_site):
    light, dark = (background(open_site(color_scheme=scheme)) for scheme in ("light", "dark"))
    assert light != dark


def search(page, word):
    """Type a word into the search, which listens to keys."""
    box = page.get_by_role("textbox", name="Search")
    box.click()
    expect(page.locator(".md-search-result__meta")).not_to_have_text("Initializing search")
    box.press("Control+a")
    box.press_sequentially(word)


def test_search_finds(open_site):
    page = open_site()
    for word, title in SEARCHED.items():
        search(page, word)
        results = page.locator(".md-search-result__item h1, .md-search-result__item h2")
        expect(results.filter(has_text=title).first).to_be_attached()
    search(page, "license")
    page.locator(".md-search-result__item a", has_text="License and citation").first.click()
    expect(page.locator("#license-and-citation")).to_be_in_viewport()


def test_search_finds_nothing_for_a_word_that_is_not_there(open_site):
    page = open_site()
    search(page, "xylophone")
    expect(page.locator(".md-search-result__meta")).to_have_text("No matching documents")


def test_code_is_copied(open_site, site):
    page = open_site("install/")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site[0])
    page.locator(".md-code__button, .md-clipboard").first.click()
    page.wait_for_function("navigator.clipboard.readText().then(t => t.startsWith('pip install'))")


def test_the_menu_leads_to_every_section(open_site):
    page = open_site()
    for name in ("Guides", "Gallery", "Concepts", "Benchmarks", "Reference"):
        page.locator(".md-tabs").get_by_role("link", name=name).click()
        expect(page.locator(".md-tabs__item--active")).to_contain_text(name)
        expect(page.locator("article h1")).to_be_visible()


def test_answers_are_folded_until_asked_for(open_site):
    page = open_site("howto/choose/")
    table = page.locator("details table").first
    expect(table).to_be_hidden()
    page.locator("summary").first.click()
    expect(table).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_site(open_site, site, width, scheme, keep):
    page = open_site(width=width, color_scheme=scheme)
    found = {}
    for where in ("./", "tutorial/", "howto/choose/", "gallery/", "methods/", "reference/scores/"):
        page.goto(f"{site[0]}/{where}")
        expect(page.locator("article h1")).to_be_visible()
        found |= {where: fault} if (fault := faults(page)) else {}
        keep(page, f"site-{where.strip('./').replace('/', '-') or 'home'}-{scheme}-{width}")
    assert found == {}
