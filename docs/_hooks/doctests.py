"""Show examples in docstrings as code, in any section."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>>.*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Put fences around every paragraph that begins with a prompt."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(lambda match: f"```\n{match[0]}\n```", text)
