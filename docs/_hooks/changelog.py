"""Puts the fragments of `changes/` into the page of the changelog while the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TITLES = {"feature": "New", "fix": "Mended", "removal": "Gone"}


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page with a section for each kind of change, a point for each file."""
    if page.file.src_uri != "changelog.md":
        return markdown
    folder = Path(config.config_file_path).parent / "changes"
    parts = [markdown]
    for kind, title in _TITLES.items():
        points = [_point(path) for path in sorted(folder.glob(f"*.{kind}.md"))]
        if points:
            parts += [f"### {title}", "\n".join(points)]
    return "\n\n".join(parts)


def _point(path: Path) -> str:
    """One change, without line breaks, under the name of its part."""
    name = path.name.partition(".")[0].replace("-", " ")
    return f"* **{name}**: {' '.join(path.read_text(encoding='utf-8').split())}"
