"""Keyboard use, small screens, dark mode, reduced motion, and the checks of axe."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.places import LONG
from tests.browser.test_search import DIGITS, settle

pytest.importorskip("axe_playwright_python")
from axe_playwright_python.sync_playwright import Axe


def active(page):
    return page.evaluate(
        "() => { const e = document.activeElement;"
        " return [e.closest('[id]')?.id, e.dataset.id ?? e.id]; }"
    )


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_the_keyboard_alone_is_enough(open_page):
    page = open_page(DIGITS)
    settle(page)
    press(page, "Tab")
    assert active(page)[1] == "skip"
    while active(page)[0] != "gallery":
        press(page, "Tab")
    assert active(page) == ["gallery", "0"]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    press(page, "ArrowRight", "ArrowDown")
    row = page.locator("#gallery").evaluate(
        "e => getComputedStyle(e).gridTemplateColumns.split(' ').length"
    )
    assert active(page) == ["gallery", str(1 + row)]
    press(page, "End", "Home", "ArrowLeft", "ArrowRight", "Enter")
    expect(page.locator("#query")).to_contain_text("scans, item 1")
    expect(page.locator("#status")).to_contain_text("12 items found")
    settle(page)
    while active(page)[0] != "columns":
        press(page, "Tab")
    press(page, "ArrowRight", "ArrowRight")
    expect(page.locator(".column-a .codes")).to_contain_text("of 64 bits differ")
    press(page, "Enter")
    expect(page).to_have_url(re.compile("pin=a"))
    expect(page.locator('.column-a [aria-selected="true"]')).to_be_focused()
    press(page, "Escape")
    expect(page).not_to_have_url(re.compile("pin="))
    press(page, "Escape")
    assert active(page) == ["gallery", "1"]


@pytest.mark.slow
def test_the_skip_link_leads_to_the_results(open_page):
    page = open_page(DIGITS)
    settle(page)
    before = page.url
    press(page, "Tab", "Enter")
    expect(page.locator("#results")).to_be_focused()
    assert page.url == before


def test_a_phone_scrolls_down_only(open_page, keep):
    page = open_page(DIGITS, width=390, height=844, has_touch=True, is_mobile=True)
    settle(page)
    expect(page.locator("#scores table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator("#gallery [role=option]").nth(2).tap()
    expect(page.locator("#query")).to_contain_text("item 2")
    settle(page)
    page.locator(".column-b .hit").nth(1).tap()
    expect(page.locator(".column-b .codes")).to_contain_text("bits differ")
    small = page.locator("button:visible, select:visible").evaluate_all(
        "all => all.filter(e => e.getBoundingClientRect().height < 24).map(e => e.outerHTML)"
    )
    assert small == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    keep(page, "phone")


def test_nothing_covers_anything_at_any_width(open_page):
    page = open_page(DIGITS + "&k=24")
    settle(page)
    expect(page.locator("#scores table")).to_be_visible()
    page.locator(".column-b .hit").nth(1).click()
    for width in (320, 700, 1000, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        queries, figures = (page.locator(s).bounding_box() for s in (".queries", ".scores"))
        assert queries["y"] + queries["height"] <= figures["y"]
    page.locator(".column-a .hit").last.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")  # upwards, towards the codes that stay in sight
    focused = page.locator(":focus").bounding_box()
    codes = page.locator(".column-a .codes").bounding_box()
    assert focused["y"] >= codes["y"] + codes["height"]


def test_long_names_fit_at_any_width(open_page, keep):
    page = open_page("#a=long")
    settle(page)
    expect(page.locator("#query")).to_contain_text(f"{LONG[1]}, item 0")
    expect(page.locator("#scores")).to_contain_text(f"Searched: 40 {LONG[0]}.")
    for width in (320, 390, 700, 1000, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for part in ("h1", ".queries", "#choose-from", "#query p", "#scores p"):
            box = page.locator(part).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        keep(page, f"long-names-{width}")


def test_dark_mode_is_dark(open_page, keep):
    page = open_page(DIGITS, color_scheme="dark")
    settle(page)
    expect(page.locator("#scores table")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
    keep(page, "dark")


def test_less_motion_is_none(open_page):
    moving = "getComputedStyle(document.querySelector('.hit')).transitionDuration"
    page = open_page(DIGITS, reduced_motion="reduce")
    settle(page)
    assert page.evaluate(moving) == "0s"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) != "0s"


def faults(page):
    """Return what axe calls serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        (fault["id"], [node["html"] for node in fault["nodes"]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(open_page, width, keep):
    page = open_page(DIGITS, width=width, reduced_motion="reduce")
    settle(page)
    expect(page.locator("#scores table")).to_be_visible()
    page.locator(".column-a .hit").nth(1).click()
    page.get_by_text("Keyboard shortcuts").click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert faults(page) == []
        keep(page, f"axe-{scheme}-{width}")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("where", ["#a=bare", "#a=shapes-16", "#a=digits-ath-16&b=-"])
def test_axe_finds_nothing_serious_elsewhere(open_page, scheme, where):
    page = open_page(where, color_scheme=scheme, reduced_motion="reduce")
    settle(page)
    expect(page.locator("#scores")).to_have_attribute("aria-busy", "false")
    assert faults(page) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_in_the_choice_of_ranking(open_page, places, width):
    page = open_page("#a=shapes-16", width=width, reduced_motion="reduce")
    settle(page)
    assert faults(page) == []
    page.set_input_files("#file", places[0] / "other.png")
    expect(page.locator(".column-a .changes")).to_contain_text("Ranking by bits")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert faults(page) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_in_the_drawing(open_page, width, keep):
    page = open_page("#a=shapes-16", width=width, reduced_motion="reduce")
    settle(page)
    page.get_by_role("button", name="Draw").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert faults(page) == []
        keep(page, f"drawing-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_names_of_catalogues_are_not_cut_on_a_phone(open_page):
    page = open_page(DIGITS, width=390, height=844)
    settle(page)
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".choices select")].flatMap((select) => {
          const style = getComputedStyle(select);
          const pen = document.createElement("canvas").getContext("2d");
          pen.font = style.font;
          const arrow = 20;
          const room = select.clientWidth - parseFloat(style.paddingLeft) - arrow;
          return [...select.options].map((option) => option.text).filter(
            (text) => pen.measureText(text.replace("digits", "sketches")).width > room);
        })"""
    )
    assert cut == []
