"""Progress bars on stderr, shown only if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_requested: ContextVar[bool] = ContextVar("progress_requested", default=False)


@contextmanager
def requested(visible: bool) -> Iterator[None]:
    """Show or hide the bars of `waiting` inside."""
    token = _requested.set(visible)
    try:
        yield
    finally:
        _requested.reset(token)


@contextmanager
def waiting(title: str) -> Iterator[Callable[[float], None]]:
    """Yield `reach(share)`, which moves a bar for one long step; only inside `requested(True)`."""
    if not _requested.get():
        yield lambda share: None
        return
    with _bar(counted=False) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def progress(title: str, total: int, *, visible: bool) -> Iterator[Callable[[str], None]]:
    """Yield `advance(note)`, which moves the bar by one and shows a note next to it."""
    if not visible:
        yield lambda note: None
        return
    from rich.progress import TextColumn

    with _bar(TextColumn("{task.fields[note]}")) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda note: bar.update(task, advance=1, note=note)


@contextmanager
def countdown(title: str, *, visible: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield `reach(done, total)`, which moves the bar there and shows the time left.

    Work that was done before the first call does not count for the speed.
    """
    if not visible:
        yield lambda done, total: None
        return
    from rich.progress import TextColumn, TimeRemainingColumn

    with _bar(TextColumn("left"), TimeRemainingColumn()) as bar:

        def reach(done: int, total: int) -> None:
            if not bar.task_ids:
                bar.add_task(title, total=total, completed=done)
            bar.update(bar.task_ids[0], completed=done)

        yield reach


def _bar(*more: Any, counted: bool = True) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *([MofNCompleteColumn()] if counted else []),
        TimeElapsedColumn(),
        *more,
        console=Console(stderr=True),
        speed_estimate_period=600.0,  # seconds: a step may take a minute
    )
