"""`bridgehash bench`: run a suite, show its tables, write its report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from bridgehash._core.errors import InputError, JournalError, MissingDataError
from bridgehash._core.progress import countdown
from bridgehash.bench.runner import SuiteProgress, run_suite
from bridgehash.bench.spec import Suite, load_suite, load_suites, suite_names
from bridgehash.bench.store import Record, ResultStore
from bridgehash.bench.tables import ResultTable, agreements, result_table, runs_of
from bridgehash.cli.console import may_animate, note, results, say, show_fields, show_table
from bridgehash.cli.failures import writing

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SuiteNames = Annotated[
    list[str],
    typer.Argument(
        metavar="SUITE...", help="Names from `bench list`, patterns as '*-twin', or TOML files."
    ),
]
Folder = Annotated[Path, typer.Option("--out", help="Folder of records and reports.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of data files, before $BRIDGEHASH_DATA.")
]
Quick = Annotated[bool, typer.Option("--quick", help="One split, 16 bits: a first look.")]
Cores = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Fits at a time; all cores if not given.")
]
Rerun = Annotated[bool, typer.Option("--rerun", help="Run finished ones again.")]


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Reproduce experiments: suites of methods and tasks.

    \b
    Example:
      bridgehash bench run table5-twin --quick
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_suites() -> None:
    """List the suites that come with the package.

    \b
    Example:
      bridgehash bench list
    """
    rows = [(name, load_suite(name).title) for name in suite_names()]
    show_table(("suite", "title"), rows)


@app.command()
def run(
    suites: SuiteNames,
    out: Folder = Path("bench"),
    data: Data = None,
    quick: Quick = False,
    jobs: Cores = None,
    rerun: Rerun = False,
) -> None:
    """Run suites: what is finished is skipped, what was stopped goes on.

    \b
    Example:
      bridgehash bench run table5-twin --quick
      bridgehash bench run '*-twin' --jobs 2
    """
    store = _store(out)
    n_jobs = jobs or os.cpu_count() or 1
    ran: list[Suite] = []
    without_data: dict[str, str] = {}
    for plan in load_suites(suites):
        try:
            with countdown(plan.name, visible=may_animate()) as reach, _kept(store.path):
                steps = run_suite(plan, store, quick=quick, rerun=rerun, n_jobs=n_jobs, folder=data)
                failed = _follow(steps, reach)
        except MissingDataError as error:  # of all its tasks
            without_data[plan.name] = str(error)
            continue
        _tell(failed)
        _show(plan, store)
        ran.append(plan)
    if not ran:
        raise InputError(next(iter(without_data.values())))
    for name, lack in without_data.items():
        note(f"{name} is left out: {lack}")
    _write_report(ran, store, out)


def _follow(steps: Iterable[SuiteProgress], reach: Callable[[int, int], None]) -> list[Record]:
    """Tell how far a run has come; the records of what failed."""
    failed = []
    for step in steps:
        reach(step.n_done, step.n_jobs)
        for line in step.missing:
            note(line)
        if step.record is None and step.n_done:
            say(f"{step.n_done} of {step.n_jobs} fits are finished already")
        elif step.record is not None and "error" in step.record:
            failed.append(step.record)
    return failed


def _tell(failed: list[Record]) -> None:
    for record in failed[:10]:
        note(f"{record['label']} on {record['task']} failed: {record['error']}")
    if len(failed) > 10:
        note(f"{len(failed) - 10} more failed; their records say why")


@app.command()
def show(suites: SuiteNames, out: Folder = Path("bench")) -> None:
    """Print the tables of suites from their records.

    \b
    Example:
      bridgehash bench show table5-twin
    """
    for plan in load_suites(suites):
        _show(plan, _filled(out))


@app.command()
def report(suites: SuiteNames, out: Folder = Path("bench")) -> None:
    """Write one self-contained page of tables and figures.

    \b
    Example:
      bridgehash bench report '*-twin'
    """
    _write_report(load_suites(suites), _filled(out), out)


def _store(out: Path) -> ResultStore:
    """One file for all suites: fits that two of them share are run once."""
    return ResultStore(out / "records.jsonl")


def _filled(out: Path) -> ResultStore:
    """The store, where there is one."""
    store = _store(out)
    if not store.path.is_file():
        raise InputError(f"{store.path}: there are no records yet; `bridgehash bench run` first")
    return store


def _show(suite: Suite, store: ResultStore) -> None:
    records = list(store.records().values())
    results().print(Text(suite.title, "bold"), soft_wrap=True)
    for side in suite.sides:
        for metric in suite.metrics:
            _print(result_table(suite, records, side, metric))
    for line in agreements(runs_of(suite, records)):
        results().print(Text(line), soft_wrap=True)


def _print(table: ResultTable) -> None:
    """Tasks below each other, lengths beside each other: fits a terminal."""
    console = results()
    lengths = list(dict.fromkeys(bits for _, bits in table.columns))
    for task in dict.fromkeys(task for task, _ in table.columns):
        line = f"\n{task}, {table.side}, {table.metric} in per cent"
        console.print(Text(line), soft_wrap=True)
        shown = Table("method", box=box.SIMPLE_HEAD if console.is_terminal else None)
        for bits in lengths:
            shown.add_column(f"{bits} bits", justify="right")
        places = [table.columns.index((task, bits)) for bits in lengths]
        ranks = [table.rank(place) for place in places]
        for label, cells in table.rows.items():
            styles = [{1: "bold", 2: "italic"}.get(rank.get(label, 0), "") for rank in ranks]
            texts = [
                Text(str(cells[place]), style) for place, style in zip(places, styles, strict=True)
            ]
            shown.add_row(Text(label), *texts)
        console.print(shown)
    if table.tally:
        console.print(Text(f"{table.side}, {table.metric}, {table.tally}"), soft_wrap=True)


def _write_report(plans: list[Suite], store: ResultStore, out: Path) -> None:
    from bridgehash.bench.report import write_report

    path = out / f"{plans[0].name if len(plans) == 1 else 'report'}.html"
    with writing(path):
        write_report(plans, list(store.records().values()), path)
    show_fields([("records", str(store.path)), ("report", str(path))])


@contextmanager
def _kept(path: Path) -> Iterator[None]:
    """Say what stopped a run, and that what was finished is not lost."""
    again = "finished fits are kept, run it again"
    try:
        yield
    except MissingDataError:
        raise
    except JournalError as error:
        raise InputError(f"{error}; {again}") from error
    except BrokenExecutor as error:
        raise InputError(
            f"a fit was killed, likely for want of memory; {again} with --jobs 1"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            f"{error.filename or path}: cannot be read or written ({reason}); {again}"
        ) from error
    except KeyboardInterrupt:
        note(again)
        raise
