"""The files of the page are complete, and safe under the policy they are sent with."""

from __future__ import annotations

import re

from bridgehash.service.routes.site import PAGE_FILES as FILES

SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))


def text(name: str) -> str:
    return FILES[name].decode()


def test_scripts_make_no_markup_of_text_and_import_what_exists():
    for name in SCRIPTS:
        assert text(name).startswith("// ")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text(name)
        assert '"style"' not in text(name)  # the policy forbids style attributes
        for other in re.findall(r'from "\./(\w+\.js)"', text(name)):
            assert other in FILES
        assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text(name))


def test_the_page_loads_nothing_inline_and_nothing_from_outside():
    page = text("index.html")
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert not re.search(r" on\w+=", page)
    for address in re.findall(r'(?:src|href)="([^"#]+)', page):
        assert address.startswith(("/page/", "/docs", "data:,"))
        assert not address.startswith("/page/") or address.removeprefix("/page/") in FILES


def test_the_page_is_served_with_its_policy(client):
    response = client.get("/")
    assert "script-src 'self'" in response.headers["content-security-policy"]
    script = client.get("/page/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.content == FILES["main.js"]
    assert client.get("/page/..%2fapp.py").status_code == 404
