"""Offer every page of the gallery as a notebook when the site is built.

A notebook has the text, code and commands of its page in their order, and no outputs: running it
makes them. `outputs.py` runs the same code in the tests.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mkdocs.structure.files import File, Files

_FOLDER = "gallery/"
_PART = re.compile(
    r"^```(?P<kind>python|console)\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")  # addresses hold on the site only
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)", re.MULTILINE)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add one notebook per page to the files of the site."""
    for page in [file for file in files if _is_example(file)]:
        content = json.dumps(notebook(page.content_string), indent=1)
        files.append(File.generated(config, _address(page), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add a link to the notebook below the title."""
    if not _is_example(page.file):
        return markdown
    title, _, text = markdown.partition("\n")
    name = _address(page.file).removeprefix(_FOLDER)
    return f'{title}\n\n[Download as a notebook]({name}){{ download="{name}" }}\n{text}'


def _is_example(file: File) -> bool:
    name = file.src_uri
    return name.startswith(_FOLDER) and name.endswith(".md") and not name.endswith("index.md")


def _address(file: File) -> str:
    return f"{file.src_uri.removesuffix('.md')}.ipynb"


def notebook(markdown: str) -> dict[str, Any]:
    """Return the cells of a page in the format of Jupyter."""
    text = _COMMENT.sub("", markdown)
    cells, end = [], 0
    for part in _PART.finditer(text):
        cells += _text_cell(text[end : part.start()])
        code = part["code"]
        if part["kind"] == "console":
            code = "\n".join(f"!{command}" for command in _COMMAND.findall(code))
        cells.append({"cell_type": "code", "source": code.rstrip("\n")})
        end = part.end()
    cells += _text_cell(text[end:])
    for i, cell in enumerate(cells):
        is_code = cell["cell_type"] == "code"
        cell |= {"id": f"cell-{i}", "metadata": {}}
        cell |= {"execution_count": None, "outputs": []} if is_code else {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _text_cell(markdown: str) -> list[dict[str, Any]]:
    pictures = re.sub(r"^!\[.*\n", "", markdown, flags=re.MULTILINE)  # the code draws them
    text = _LINK.sub(r"\1", pictures).strip()
    return [{"cell_type": "markdown", "source": text}] if text else []
