"""The files of the page: all there, small, and safe under the policy that they are sent with."""

from __future__ import annotations

import re

import pytest

from bridgehash.service.routes.site import page_files

FILES = page_files()
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))
MOST_LINES = 300


def text(name: str) -> str:
    return FILES[name].data.decode()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_says_what_it_is_for(name):
    lines = text(name).splitlines()
    assert len(lines) < MOST_LINES
    assert lines[0].startswith("// ")
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_no_markup_of_text(name):
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text(name)
    assert '"style"' not in text(name)  # as an attribute it would be refused


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_script_imports_is_there(name):
    for other in re.findall(r'from "\./(\w+\.js)"', text(name)):
        assert other in FILES
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text(name))


def test_the_page_brings_nothing_inline_and_nothing_from_outside():
    page = text("index.html")
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert not re.search(r" on\w+=", page)
    for address in re.findall(r'(?:src|href)="([^"#]+)', page):
        assert address.startswith(("/page/", "/docs", "data:,"))
        assert not address.startswith("/page/") or address.removeprefix("/page/") in FILES


def test_the_page_is_served_with_its_policy(client):
    answer = client.get("/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    script = client.get("/page/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.content == FILES["main.js"].data
    assert client.get("/page/..%2fapp.py").status_code == 404
