"""Add names that the theme leaves out, for readers who cannot see the page."""

from __future__ import annotations

from typing import Any

_SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'


def on_post_page(output: str, **_: Any) -> str:
    """Name the dialog of the search."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
