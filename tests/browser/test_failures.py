"""A service that dies, hangs or requires a key: a clear message, and a way to go on."""

from __future__ import annotations

import os
import signal

import pytest
from playwright.sync_api import expect

from tests.browser.test_accessibility import faults
from tests.browser.test_search import DIGITS, settle
from tests.service.process import KEY, running, start


def test_a_service_that_dies_is_told_and_tried_again(open_page, places, keep):
    folder, words = places
    served = start(folder, *words, key=None)
    try:
        page = open_page(DIGITS, url=served.url, quiet=False)
        settle(page)
        page.wait_for_load_state("networkidle")  # otherwise pictures are missing, too
        served.process.terminate()
        served.process.wait()
        page.locator("#gallery [role=option]").nth(3).click()
        notice = page.get_by_role("alert")
        expect(notice).to_contain_text("The service does not answer")
        expect(page.locator(".column-a .message")).to_have_text("No response.")
        assert page.locator('[aria-busy="true"]').count() == 0
        assert page.locator(".bits:visible").count() == 0  # nothing of what was found before
        assert faults(page) == []
        keep(page, "dead")
        page.get_by_role("button", name="Try again").click()
        expect(notice).to_contain_text("The service does not answer")
        with running(folder, *words, "--port", str(served.port), key=None):
            page.get_by_role("button", name="Try again").click()
            expect(page.locator("#query")).to_contain_text("scans, item 3")
            settle(page)
            expect(notice).to_be_hidden()
    finally:
        served.process.kill()
        served.process.wait()


def test_errors_go_away_when_a_search_succeeds(open_page):
    page = open_page("#a=shapes-16&b=shapes-24")
    settle(page)
    wrong = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no picture"}
    page.locator("#file").set_input_files(wrong)
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("Unsupported file")
    page.locator("#gallery [role=option]").nth(3).click()
    expect(notice).to_be_hidden()


def test_a_service_that_is_back_is_found_without_a_click(open_page, places):
    folder, words = places
    with running(folder, *words, key=None) as served:
        page = open_page(DIGITS, url=served.url, quiet=False)
        settle(page)
    page.locator("#gallery [role=option]").nth(3).click()
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("The service does not answer")
    with running(folder, *words, "--port", str(served.port), key=None):
        expect(notice).to_be_hidden()
        expect(page.locator("#query")).to_contain_text("scans, item 3")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_service_that_hangs_is_not_waited_for(open_page, places):
    with running(places[0], *places[1], key=None) as served:
        page = open_page(DIGITS, url=served.url, quiet=False)
        settle(page)
        page.clock.install()
        served.process.send_signal(signal.SIGSTOP)
        try:
            page.locator("#gallery [role=option]").nth(3).click()
            expect(page.locator(".column-a")).to_have_attribute("aria-busy", "true")
            page.clock.fast_forward(21_000)
            expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
            expect(page.locator(".column-a")).to_have_attribute("aria-busy", "false")
        finally:
            served.process.send_signal(signal.SIGCONT)
        page.get_by_role("button", name="Try again").click()
        settle(page)


def test_the_key_is_asked_for_until_it_is_right(open_page, keyed, keep):
    page = open_page(DIGITS, url=keyed.url, quiet=False)  # the browser logs each 401
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("requires an API key")
    assert faults(page) == []
    keep(page, "key")
    page.keyboard.type("a-key-that-is-wrong-0000")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The API key was not accepted")
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("requires an API key")
    page.get_by_role("button", name="Enter the key").click()
    page.get_by_label("Key", exact=True).fill(KEY)
    page.get_by_role("button", name="Continue").click()
    settle(page)
    expect(dialog).to_be_hidden()
    picture = page.locator(".column-a .hit .face.loaded img").first
    assert picture.get_attribute("src").startswith(f"blob:{keyed.url}")
    assert KEY not in page.url
    page.reload()
    settle(page)  # kept for this tab
    assert page.evaluate("localStorage.length") == 0
