"""Shared by all figures: colours, line styles, plain axes, and SVG for HTML pages.

The colours can be distinguished by colour-blind readers, and lines also differ in dashes and
markers, for prints in grey. Text and grid lines use CSS variables of the page, which may be light
or dark. Matplotlib is an optional dependency, so it is imported inside the functions.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from html import escape
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = "pip install 'bridgehash[plots]'"
INK, SOFT, GRID = "#1c2430", "#586273", "#dde1e7"
_VARIABLES = {INK: "--ink", SOFT: "--soft", GRID: "--line"}
LINES: tuple[tuple[str, Any, str], ...] = (  # colour, dashes, marker; in the order of the table
    ("#6b7280", (0, (4, 2)), "s"),
    ("#cc79a7", (0, (1, 1.2)), "D"),
    ("#d98a00", (0, (6, 1.5, 1, 1.5)), "v"),
    ("#0072b2", "solid", "o"),
    ("#00795c", "solid", "^"),
    ("#c44e00", "solid", "X"),
    ("#56b4e9", (0, (3, 1, 1, 1, 1, 1)), "P"),
    ("#8a63b8", (0, (8, 2)), "<"),
    ("#882255", (0, (2, 1)), ">"),
    ("#8a8a2f", (0, (5, 1)), "*"),
    ("#2f9a8c", (0, (1, 2)), "h"),
    ("#332288", "solid", "d"),
)
CLASSES = (  # alternately light and dark, so that neighbours also differ in grey
    *("#0072b2", "#e69f00", "#00795c", "#cc79a7", "#c44e00"),
    *("#56b4e9", "#7a4fa3", "#a8a23a", "#6b7280", "#44aa99"),
)
_TEXT: Any = {  # text stays text: it can be searched and uses the font of the page
    "svg.fonttype": "none",
    "svg.hashsalt": "bridgehash",
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def matplotlib_is_there() -> bool:
    """Return whether figures can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def page_style() -> AbstractContextManager[None]:
    """Return a context in which text and axes have the colours of the page."""
    from matplotlib import rc_context

    return rc_context(_TEXT)


def new_figure(
    width: float,
    height: float,
    layout: Literal["constrained"] | None = "constrained",
    facecolor: str = "white",
) -> Figure:
    """Return a figure that does not use the global state of pyplot; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout, facecolor=facecolor)


def panel(width: float = 3.5, height: float = 2.7) -> tuple[Figure, Axes]:
    """Return a transparent figure with one pair of axes."""
    figure = new_figure(width, height, facecolor="none")
    return figure, figure.add_subplot(facecolor="none")


def line_style(i: int) -> dict[str, Any]:
    """Return the style of the i-th line; after the last style the first is used again."""
    colour, dashes, marker = LINES[i % len(LINES)]
    line = {"color": colour, "linestyle": dashes, "linewidth": 1.8}
    return line | {"marker": marker, "markersize": 4.5}


def plain(axes: Axes) -> None:
    """Remove the box and add a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def widen(axes: Axes, least: float) -> None:
    """Make the vertical axis span at least this much, so that noise does not look like a trend."""
    low, high = axes.get_ylim()
    if high - low < least:
        middle = (low + high) / 2
        axes.set_ylim(max(0.0, middle - least / 2), max(least, middle + least / 2))


def sample(style: dict[str, Any]) -> Figure:
    """Return a short line with its marker, or a marker alone, for a legend."""
    alone = style.get("linestyle") == "none"
    figure = new_figure(0.14 if alone else 0.45, 0.14, layout=None, facecolor="none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), facecolor="none")
    axes.plot([0, 1], [0.5, 0.5], **(style | {"marker": ""}))
    axes.plot([0.5], [0.5], **(style | {"linestyle": "none"}))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_axis_off()
    return figure


def png(figure: Figure) -> bytes:
    """Return PNG bytes; equal figures give equal bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure, name: str, words: str = "") -> str:
    """Return a figure as an SVG element; equal figures give equal text.

    Parameters
    ----------
    name : str
        Prefix of every id, so that one page can hold several figures.
    words : str
        The content as text, for screen readers; without it the figure is decoration.
    """
    buffer = StringIO()
    with page_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    for unneeded in (r"<metadata>.*?</metadata>\s*", r"<defs>\s*<style.*?</style>\s*</defs>\s*"):
        text = re.sub(unneeded, "", text, flags=re.DOTALL)  # a style would affect the whole page
    text = re.sub(  # two decimals are finer than any screen
        r' (?:d|x|y|transform)="[^"]*"',
        lambda attribute: re.sub(r"(\d\.\d\d)\d+", r"\1", re.sub(r"\s*\n\s*", " ", attribute[0])),
        text,
    )
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable}, {colour})")
    text = re.sub(r'id="(?=\w)', f'id="{name}-', text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    role = f'role="img" aria-label="{escape(words)}"' if words else 'aria-hidden="true"'
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    tag = f"<svg {box[0]} {role}>"
    return re.sub(r"<svg[^>]*>", lambda _: tag, text, count=1)
