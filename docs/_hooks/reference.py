"""Give every class of the reference a page of its own when the site is built.

The pages in `docs/reference` list public names as `::: bridgehash.NAME`. There, a class is replaced
by a line that leads to its page; functions stay.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ENTRY = re.compile(r"^::: (bridgehash\.[\w.]+)$", re.MULTILINE)
_FOLDER = "reference/"


def on_config(config: Any) -> None:
    """Add the pages of the classes to the menu, below the page that lists them."""
    for section in config.nav:
        for title, pages in section.items():
            if title == "Reference":
                section[title] = [_with_classes(page, Path(config.docs_dir)) for page in pages]


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages of the classes to the files of the site."""
    for page in [file for file in files if file.src_uri.startswith(_FOLDER)]:
        for name in _classes(page.content_string):
            text = f"---\ntitle: {_short(name)}\n---\n\n::: {name}\n    options:\n"
            text += "      heading_level: 1\n"
            files.append(File.generated(config, f"{_FOLDER}{_short(name)}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace classes by a list of links."""
    if not page.file.src_uri.startswith(_FOLDER) or page.file.generated_by:
        return markdown
    return _ENTRY.sub(lambda entry: _link(entry[1]) if _is_class(entry[1]) else entry[0], markdown)


def _with_classes(entry: dict[str, str], docs: Path) -> dict[str, Any]:
    [(title, path)] = entry.items()
    names = _classes((docs / path).read_text(encoding="utf-8"))
    if not names:
        return entry
    return {title: [{"Overview": path}, *({_short(n): f"{_FOLDER}{_short(n)}.md"} for n in names)]}


def _classes(markdown: str) -> list[str]:
    return [name for name in _ENTRY.findall(markdown) if _is_class(name)]


def _is_class(name: str) -> bool:
    return inspect.isclass(pkgutil.resolve_name(name))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _link(name: str) -> str:
    summary = (inspect.getdoc(pkgutil.resolve_name(name)) or "").partition("\n\n")[0]
    return f"* [`{name}`]({_short(name)}.md): {' '.join(summary.split())}"
