"""Turns $...$ and $$...$$ into MathML while the site is built: no script, no outside address."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_BOX = '<div style="margin: 1em 0; overflow-x: auto; overflow-y: hidden">'
_INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]+?)\$(?![\w$])")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert the formulas of a page, leaving code alone."""
    parts = _CODE.split(markdown)
    return "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def _formulas(text: str) -> str:
    text = _DISPLAY.sub(lambda found: f"\n\n{_BOX}{_mathml(found[1], 'block')}</div>\n\n", text)
    # A line that begins with <math> would be taken for a paragraph of its own; <span> is not.
    return _INLINE.sub(lambda found: f"<span>{_mathml(found[1], 'inline')}</span>", text)


def _mathml(latex: str, display: str) -> str:
    return convert(latex.strip(), display=display)
