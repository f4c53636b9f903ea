"""A progress bar on stderr for loops that may take long; silent unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int, *, visible: bool) -> Iterator[Callable[[str], None]]:
    """`advance(note)` moves the bar by one and shows a note beside it; nothing if not visible."""
    if not visible:
        yield lambda note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda note: bar.update(task, advance=1, note=note)


@contextmanager
def countdown(title: str, *, visible: bool) -> Iterator[Callable[[int, int], None]]:
    """`reach(done, total)` moves the bar there and tells the time left; nothing if not visible.

    What was done at the first call is taken as given and does not count as speed.
    """
    if not visible:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    window = 600.0  # seconds over which speed is averaged: a step may take a minute
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=window) as bar:

        def reach(done: int, total: int) -> None:
            if not bar.task_ids:
                bar.add_task(title, total=total, completed=done)
            bar.update(bar.task_ids[0], completed=done)

        yield reach
