"""What all pictures share: colours, line styles, plain axes, and a figure as SVG inside a page.

Colours are told apart with any kind of sight, and lines also by dashes and markers, so that a print
in grey can be read. Ink and grid lines become CSS variables of the page, which may be light or
dark. Matplotlib is imported inside, since it is an extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = "pip install 'bridgehash[plots]'"
INK, SOFT, GRID = "#1c2430", "#586273", "#dde1e7"
_VARIABLES = {INK: "--ink", SOFT: "--soft", GRID: "--line"}
LINES: tuple[tuple[str, Any, str], ...] = (  # colour, dashes and marker, in the order of a table
    ("#6b7280", (0, (4, 2)), "s"),
    ("#cc79a7", (0, (1, 1.2)), "D"),
    ("#d98a00", (0, (6, 1.5, 1, 1.5)), "v"),
    ("#0072b2", "solid", "o"),
    ("#00795c", "solid", "^"),
    ("#c44e00", "solid", "X"),
    ("#56b4e9", (0, (3, 1, 1, 1, 1, 1)), "P"),
    ("#8a63b8", (0, (8, 2)), "<"),
)
CLASSES = (  # light and dark ones in turn, so that neighbours differ in grey as well
    "#0072b2",
    "#e69f00",
    "#00795c",
    "#cc79a7",
    "#c44e00",
    "#56b4e9",
    "#7a4fa3",
    "#a8a23a",
    "#6b7280",
    "#44aa99",
)
_TEXT: Any = {  # letters stay letters: they can be searched, and take the font of the page
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
    """Can pictures be drawn?"""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def page_style() -> Iterator[None]:
    """Text and axes drawn inside have the colours of the page."""
    from matplotlib import rc_context

    with rc_context(_TEXT):
        yield


def new_figure(
    width: float,
    height: float,
    layout: Literal["constrained"] | None = "constrained",
    facecolor: str = "white",
) -> Figure:
    """A figure of its own, without the global state of pyplot; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout, facecolor=facecolor)


def panel(
    width: float = 3.5,
    height: float = 2.7,
    layout: Literal["constrained"] | None = "constrained",
) -> tuple[Figure, Axes]:
    """A transparent figure of one pair of axes."""
    figure = new_figure(width, height, layout, facecolor="none")
    return figure, figure.add_subplot(facecolor="none")


def line_style(i: int) -> dict[str, Any]:
    """How the i-th line of a picture is drawn; the styles repeat in the end."""
    colour, dashes, marker = LINES[i % len(LINES)]
    return {
        "color": colour,
        "linestyle": dashes,
        "marker": marker,
        "markersize": 4.5,
        "linewidth": 1.8,
    }


def plain(axes: Axes) -> None:
    """No box around, a faint grid behind."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def widen(axes: Axes, least: float) -> None:
    """Let the vertical axis span that much at least, so that noise does not look like a trend."""
    low, high = axes.get_ylim()
    if high - low < least:
        middle = (low + high) / 2
        axes.set_ylim(max(0.0, middle - least / 2), max(least, middle + least / 2))


def sample(style: dict[str, Any]) -> Figure:
    """A short piece of a line with its marker, or a marker alone, for a legend in words."""
    alone = style.get("linestyle") == "none"
    figure, axes = panel(0.14 if alone else 0.45, 0.14, layout=None)
    axes.set_position((0.0, 0.0, 1.0, 1.0))
    axes.plot([0, 1], [0.5, 0.5], **(style | {"marker": ""}))
    axes.plot([0.5], [0.5], **(style | {"linestyle": "none"}))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_axis_off()
    return figure


def png(figure: Figure) -> bytes:
    """The same bytes for the same picture: no version is written into it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure, name: str, words: str = "") -> str:
    """A figure as an element of a page, equal text for equal pictures.

    Parameters
    ----------
    name : str
        Put before every id inside, so that several pictures can stand in one page.
    words : str
        What there is to see, already escaped; without any it is decoration.
    """
    buffer = StringIO()
    with page_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    for unneeded in (r"<metadata>.*?</metadata>\s*", r"<defs>\s*<style.*?</style>\s*</defs>\s*"):
        text = re.sub(unneeded, "", text, flags=re.DOTALL)  # a style would hold for all the page
    text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _rounded, text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable}, {colour})")
    text = re.sub(r'id="(?=\w)', f'id="{name}-', text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    told = f'role="img" aria-label="{words}"' if words else 'aria-hidden="true"'
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    return re.sub(r"<svg[^>]*>", f"<svg {box[0]} {told}>", text, count=1)


def _rounded(attribute: re.Match[str]) -> str:
    """Two decimals are finer than any screen."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", re.sub(r"\s*\n\s*", " ", attribute[0]))
