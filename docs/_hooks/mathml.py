"""Convert $...$ and $$...$$ to MathML when the site is built: no scripts, no other sites."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_BOX = '<div class="formula" tabindex="0">'  # a wide formula scrolls by keyboard, too
_INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]+?)\$(?![\w$])")
_BOLD = re.compile(r'<(m[in]) mathvariant="bold">([A-Za-z0-9])</m[in]>')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert the formulas of a page, except in code."""
    parts = _CODE.split(markdown)
    return "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def _formulas(text: str) -> str:
    text = _DISPLAY.sub(lambda match: f"\n\n{_BOX}{_mathml(match[1], 'block')}</div>\n\n", text)
    # Markdown treats a line that begins with <math> as a block; a <span> stays in its paragraph.
    return _INLINE.sub(lambda match: f"<span>{_mathml(match[1], 'inline')}</span>", text)


def _mathml(latex: str, display: str) -> str:
    return _BOLD.sub(_bold, convert(latex.strip(), display=display))


def _bold(match: re.Match[str]) -> str:
    """Return a bold letter or digit as the character it has; browsers ignore `mathvariant`."""
    tag, letter = match.groups()
    first, bold = next(pair for pair in (("a", "𝐚"), ("A", "𝐀"), ("0", "𝟎")) if letter >= pair[0])
    return f"<{tag}>{chr(ord(bold) + ord(letter) - ord(first))}</{tag}>"
