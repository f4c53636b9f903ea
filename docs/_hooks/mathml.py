"""Convert $...$ and $$...$$ to MathML when the site is built: no scripts, no other sites."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_BOX = '<div style="margin: 1em 0; overflow-x: auto; overflow-y: hidden">'
_INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]+?)\$(?![\w$])")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert the formulas of a page, except in code."""
    parts = _CODE.split(markdown)
    return "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def _formulas(text: str) -> str:
    text = _DISPLAY.sub(lambda match: f"\n\n{_BOX}{_mathml(match[1], 'block')}</div>\n\n", text)
    # Markdown treats a line that begins with <math> as a block; a <span> stays in its paragraph.
    return _INLINE.sub(lambda match: f"<span>{_mathml(match[1], 'inline')}</span>", text)


def _mathml(latex: str, display: str) -> str:
    return convert(latex.strip(), display=display)
