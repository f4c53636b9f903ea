"""The report of `bridgehash bench` in a browser: both schemes, small screens, and axe."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytest.importorskip("axe_playwright_python")
from bridgehash.bench.report import write_report
from bridgehash.bench.spec import load_suite, parse_suite
from tests.bench.conftest import ALONE, ATH, TEXT, make_record
from tests.browser.test_accessibility import faults

AREAS = {"itq": (0.2, {}), "ath-unsupervised": (0.5, ATH)}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Folder of a report with tables, a figure, a clear lead, a failure, and a suite not run."""
    folder = tmp_path_factory.mktemp("report")
    suite = parse_suite("toy", TEXT.format(more='figure = "pr"').replace("seeds = 3", "seeds = 8"))
    records = [
        make_record(area + 0.01 * seed, seed=seed, n_bits=n_bits, **changes)
        for area, changes in AREAS.values()
        for n_bits in (16, 32)
        for seed in range(8)
    ]
    failed = make_record(task=ALONE, error="MemoryError: 9 GB")
    write_report([suite, load_suite("table7")], [*records, failed], folder / "report.html")
    return folder


@pytest.fixture
def open_report(open_page, report):
    """`open_report(width=390)`: the page, from disk."""

    def call(**more):
        page = open_page("report.html", url=report.as_uri(), reduced_motion="reduce", **more)
        expect(page.locator("h1")).to_be_visible()
        return page

    return call


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_report(open_report, width, scheme, keep):
    page = open_report(width=width, color_scheme=scheme)
    for details in page.locator("details").all():
        details.evaluate("e => e.open = true")
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    keep(page, f"report-{scheme}-{width}")


def test_the_report_follows_the_scheme_of_the_system(open_report):
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_report(color_scheme=s).evaluate(colour) for s in ("light", "dark"))
    assert light != dark


def test_the_contents_lead_to_every_suite(open_report):
    page = open_report()
    for link in page.get_by_role("navigation").first.get_by_role("link").all():
        link.click()
        target = page.locator(link.get_attribute("href"))
        expect(target).to_be_in_viewport()
