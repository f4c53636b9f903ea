"""Add the fragments in `changes/` to the changelog page when the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

MARK = "<!-- changes -->"  # where the fragments go
_KINDS = ("api", "removal", "feature", "speed", "fix")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page with one item per fragment in place of the mark."""
    if page.file.src_uri != "changelog.md":
        return markdown
    if markdown.count(MARK) != 1:
        raise PluginError(f"changelog.md needs the line {MARK} once: fragments go there")
    folder = Path(config.config_file_path).parent / "changes"
    points = [_point(path) for kind in _KINDS for path in sorted(folder.glob(f"*.{kind}.md"))]
    section = "\n".join(["### More changes", "", *points]) if points else ""
    return markdown.replace(MARK, section)


def _point(path: Path) -> str:
    """Return one change without line breaks, after the name of its topic."""
    name = path.name.partition(".")[0].replace("-", " ")
    return f"* **{name}**: {' '.join(path.read_text(encoding='utf-8').split())}"
