"""HTML pages from the templates of this folder: each is one file that loads nothing else."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from .._version import __version__


def render(template: str, **values: Any) -> str:
    """Return a page as text. Values are escaped."""
    return str(_environment().get_template(template).render(version=__version__, **values))


def frame(*, title: str, kicker: str, heading: str, lead: str, body: str, style: str = "") -> str:
    """Return a page around HTML.

    Parameters
    ----------
    title, kicker, heading, lead : str
        Plain text for the top of the page.
    body : str
        HTML.
    style : str
        CSS rules for this page, after the common ones.
    """
    from markupsafe import Markup

    words = {"title": title, "kicker": kicker, "heading": heading, "lead": lead}
    return render("page.html", **words, body=Markup(body), style=Markup(style))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    from .drawing import svg

    def breakable(text: str) -> Markup:
        """Allow a line break after each dot and slash of a long name."""
        shown = str(escape(text.replace("->", " → "))).replace(" → ", " →\N{NO-BREAK SPACE}")
        return Markup(re.sub(r"([./])(?=\w)", r"\1<wbr>", shown))

    environment = Environment(
        loader=PackageLoader("bridgehash.bench"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters["breakable"] = breakable
    environment.filters["svg"] = lambda *arguments: Markup(svg(*arguments))
    return environment
