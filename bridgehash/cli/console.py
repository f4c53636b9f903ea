"""Output of the commands: results on stdout, everything else on stderr.

On a terminal, values are wrapped beside their names. Elsewhere there are no colours and no
wrapping, so that one record is one line. File names, labels and the contents of files may hold
control characters, which could change the terminal. They are always shown as escapes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from bridgehash.models.bridge_report import BridgeReport

_UNWRAPPED = 10_000  # columns: wider than any result


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit by itself

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            lines = [printable(line) for line in text.split("\n")]
            yield Segment(text if control else "\n".join(lines), style, control)


def results() -> Console:
    """Return a console for standard output."""
    return _wide_unless_terminal(_Console(highlight=False))


def messages() -> Console:
    """Return a console for standard error."""
    return _wide_unless_terminal(_Console(stderr=True, highlight=False))


def _wide_unless_terminal(console: Console) -> Console:
    if not console.is_terminal:
        console.width = _UNWRAPPED
    return console


def say(line: str, name: str = "", style: str = "") -> None:
    """Print one line on stderr, with a name such as `error:` before it."""
    flat = printable(" ".join(part.strip() for part in line.splitlines()))
    text = Text.assemble((f"{name}: ", style), flat) if name else Text(flat)
    messages().print(text, soft_wrap=True)


def note(line: str) -> None:
    """Print something the user should know that is not an error."""
    say(line, "note", "yellow")


def may_animate() -> bool:
    """Whether stderr is a terminal, where a progress bar can be shown."""
    return sys.stderr is not None and sys.stderr.isatty()


def show_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line, values aligned."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(Text(printable(name)), Text(printable(value)))
    _print_trimmed(grid)


def show_verdict(report: BridgeReport | None) -> None:
    """Print how good a model is expected to be, in its colour, after the word for the colour."""
    if report is None:
        return
    console = results()
    words = Text.assemble((f"{report.verdict}:", f"bold {report.verdict}"), f" {report}")
    console.print(words, soft_wrap=True)


def show_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], numbers: str = "") -> None:
    """Print a table of text; the column called `numbers` is aligned to the right."""
    console = results()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for name in header:
        table.add_column(name, justify="right" if name == numbers else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _print_trimmed(table)


def _print_trimmed(table: Table) -> None:
    """Print a table without trailing blanks."""
    console = results()
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def printable(text: str) -> str:
    """Return the text with control characters, line ends included, as escapes.

    >>> print(printable("a\x1b[2J.npy"))
    a\\x1b[2J.npy
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, in the singular for one.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1200 rows')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
