"""The page in a real browser: the system's Chromium, against services on loopback.

The browser is $BRIDGEHASH_CHROMIUM or one that is on the path. Screenshots are saved in
`artifacts/browser`, which git ignores.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="no service: pip install 'bridgehash[serve]'")
pytest.importorskip("playwright", reason="no Playwright: pip install 'bridgehash[browser]'")

from playwright.sync_api import expect, sync_playwright

from tests.browser.places import make_places, options
from tests.service.process import Served, launch, running, stopped

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "artifacts" / "browser"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 60_000  # milliseconds; a busy machine is not a failure
expect.set_options(timeout=PATIENCE)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _chromium() -> str:
    given = os.environ.get("BRIDGEHASH_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on the path: set BRIDGEHASH_CHROMIUM")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser per file of tests: while it runs, no other event loop can."""
    path = _chromium()
    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder of catalogues, and the options that serve it."""
    folder = tmp_path_factory.mktemp("places") / "data"
    folder.mkdir()
    return folder, options(make_places(folder))


@pytest.fixture(scope="session")
def served(places: tuple[Path, list[str]]) -> Iterator[Served]:
    """One service for all tests that do not end it."""
    folder, words = places
    with running(folder, *words, key=None) as service:
        yield service


@pytest.fixture
def keyed(places: tuple[Path, list[str]]) -> Iterator[Served]:
    """A service that requires its key for everything."""
    line = [sys.executable, "-m", "tests.browser.keyed", str(places[0])]
    served = launch([*line, "digits-ath-64", "digits-itq-64"], ROOT, places[0].parent)
    with stopped(served):
        yield served


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, served: Served) -> Iterator[Open]:
    """`open_page("#a=...", width=390)`: a new page, checked for errors at the end.

    It must send requests to the service only, and log no error unless `quiet=False`.
    """
    contexts, faults = [], []

    def call(
        where: str = "",
        *,
        url: str | None = None,
        width: int = 1280,
        height: int = 900,
        quiet: bool = True,
        **more: Any,
    ) -> Any:
        base = url or served.url
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.on(
            "console",
            lambda line: faults.append(line.text) if quiet and line.type == "error" else None,
        )
        page.on("request", lambda request: _check_home(request.url, base, faults))
        page.goto(f"{base}/{where}")
        return page

    yield call
    for context in contexts:
        context.close()
    assert faults == []


def _check_home(address: str, base: str, faults: list[str]) -> None:
    parts = urlsplit(address)
    if parts.scheme in ("http", "https") and not address.startswith(base):
        faults.append(f"asked for {address}")


@pytest.fixture
def keep() -> Callable[[Any, str], None]:
    """`keep(page, name)`: save a screenshot of the whole page."""

    def call(page: Any, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)

    return call
