"""How the demo looks on a terminal: the table, and digits drawn with block characters."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from bridgehash._core.linalg import Array
from bridgehash.cli.console import counted
from bridgehash.cli.demo_study import N_BITS, SUBTASKS, Nearest, Result, Study

KEY = (
    "Ho: pixels on both sides. He: source as pixels, target as gradient histograms.",
    "SDR: target queries search the target. CDR: target queries search the source.",
    "In per cent: radius_pr_area (mean_average_precision). One split of the images;",
    "another one moves the figures by several points.",
)
_BLOCKS = {False: " ▀▄█", True: " '.:"}  # by what the terminal can show: none, upper, lower, both
_MARKS = {False: ("✗", "✓"), True: ("no", "ok")}


def show_data(console: Console, study: Study) -> None:
    """What is compared, in one paragraph."""
    domains, task = study.domains, study.task
    console.print(
        f"Handwritten digits in two domains. Source: {len(domains.source.y)} images, "
        f"{task.X_source.shape[1]} pixels. Target: {len(domains.target.y)} other images, blurred "
        f"and moved by one pixel, as pixels or as gradient histograms ({task.X_target.shape[1]} "
        f"numbers). {len(domains.query.y)} more of the target ask. Codes of {N_BITS} bits.\n"
    )


def show_scores(console: Console, study: Study, meaning: str) -> None:
    """The table, what its columns are, and what it says."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in ("method", "labels", *SUBTASKS):
        table.add_column(name, no_wrap=True)
    for result in study.results:
        cells = [_cell(study, result, subtask) for subtask in SUBTASKS]
        table.add_row(result.method.name, result.method.labels, *cells)
    chances = [f"{study.chance(subtask):4.1f}" for subtask in SUBTASKS]
    table.add_row("chance", "", *chances, style="dim")
    console.print(table, "")
    for line in KEY:
        console.print(line, style="dim")
    console.print(f"\n{meaning}\n", style="bold")


def _cell(study: Study, result: Result, subtask: str) -> Text:
    style = "bold green" if study.best(subtask) is result else ""
    area, precision = f"{result.area(subtask):4.1f}", f" ({result.precision(subtask):.1f})"
    return Text.assemble((area, style), (precision, "dim"))


def show_nearest(console: Console, study: Study, found: tuple[Nearest, ...]) -> None:
    """A query and the items nearest to it, one row of pictures a method."""
    query = study.domains.query
    console.print(
        f"The first query, a {query.y[0]} of the target seen as gradient histograms, "
        "and the nearest items of the source, seen as pixels:"
    )
    plain = console.options.ascii_only
    for nearest in found:
        grid = Table.grid(padding=(0, 3))
        pictures = (query.images[0], *nearest.images)
        grid.add_row(*(_drawn(image, console) for image in pictures))
        grid.add_row(Text("query", "bold"), *_captions(nearest, plain))
        console.print(f"\n{nearest.name}: {nearest.summary()}", style="bold")
        console.print(grid)
    console.print()


def _captions(nearest: Nearest, plain: bool) -> list[Text]:
    return [
        Text(f"{_MARKS[plain][right]} {counted(bits, 'bit')}", "green" if right else "red")
        for right, bits in zip(nearest.right.tolist(), nearest.distances.tolist(), strict=True)
    ]


def _drawn(image: Array, console: Console) -> Text:
    """An image, two pixels a character: in greys where there are colours, else black on white."""
    upper, lower = image[::2], image[1::2]
    lines = []
    for row, below in zip(upper.tolist(), lower.tolist(), strict=True):
        pairs = zip(row, below, strict=True)
        if console.color_system in ("256", "truecolor") and not console.options.ascii_only:
            lines.append(Text.assemble(*(("▀", _greys(a, b)) for a, b in pairs)))
        else:
            blocks, ink = _BLOCKS[console.options.ascii_only], 0.5 * image.max()
            lines.append(Text("".join(blocks[(a > ink) + 2 * (b > ink)] for a, b in pairs)))
    return Text("\n").join(lines)


def _greys(upper: float, lower: float) -> Style:
    return Style(color=_grey(upper), bgcolor=_grey(lower))


def _grey(ink: float) -> str:
    level = round(255 * (1 - min(max(ink, 0.0), 1.0)))
    return f"rgb({level},{level},{level})"
