"""Add the fragments in `changes/` to the changelog page when the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TITLES = {
    "api": "Changed names and arguments",
    "feature": "New",
    "speed": "Faster",
    "fix": "Fixed",
    "removal": "Removed",
}


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page with one section per kind of change and one item per file."""
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
    """Return one change without line breaks, after the name of its topic."""
    name = path.name.partition(".")[0].replace("-", " ")
    return f"* **{name}**: {' '.join(path.read_text(encoding='utf-8').split())}"
