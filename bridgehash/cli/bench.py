"""`bridgehash bench`: run benchmark suites, print their tables, write their report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from bridgehash._core.errors import InputError, JournalError, MissingDataError, named
from bridgehash._core.progress import countdown
from bridgehash.cli import options as opt
from bridgehash.cli.console import may_animate, note, results, say, show_fields, show_table

if TYPE_CHECKING:
    from bridgehash.bench.runner import SuiteProgress
    from bridgehash.bench.spec import Suite
    from bridgehash.bench.store import Record, ResultStore
    from bridgehash.bench.tables import ResultTable

_AGAIN = "finished fits are kept; run the same command to continue"
_CLEAR = "*: better than the second best on the same splits (Wilcoxon signed-rank test, p < 0.05)"

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SuiteNames = Annotated[
    list[str],
    typer.Argument(
        metavar="SUITE...", help="Names from `bench list`, patterns like '*-twin', or TOML files."
    ),
]
Folder = Annotated[Path, typer.Option("--out", help="Folder of records and reports.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of data files. Default: $BRIDGEHASH_DATA.")
]
Quick = Annotated[bool, typer.Option("--quick", help="One split and 16 bits only.")]
Cores = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        parser=opt.whole(1),
        metavar="N",
        help="Fits at the same time. Default: all cores.",
    ),
]
Records = Annotated[
    Path | None,
    typer.Option("--records", help="Read records that `bench keep` wrote to this folder."),
]
Rerun = Annotated[bool, typer.Option("--rerun", help="Run finished fits again.")]


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Run benchmarks: suites of methods and tasks.

    \b
    Example:
      bridgehash bench run table5-twin --quick
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_suites(data: Data = None) -> None:
    """List the suites that come with the package: their fits, time and data.

    The time is about that of one core. "(missing)" marks data that are not on this machine.

    \b
    Example:
      bridgehash bench list
    """
    from bridgehash.bench.runner import jobs_of
    from bridgehash.bench.spec import load_suite, suite_names

    rows = []
    for name in suite_names():
        suite = load_suite(name)
        n_fits = str(len(jobs_of(suite)))
        rows.append((name, n_fits, _about(suite.minutes), _needed(suite, data), suite.title))
    show_table(("suite", "fits", "time", "data", "title"), rows, numbers="fits")
    note(
        "times are of one core, and --jobs N divides them by up to N; --quick runs one split at "
        "16 bits, in a tenth of the time or less; `bench run` says where to put missing files"
    )


def _about(minutes: float | None) -> str:
    """Return a measured time in rounded words.

    >>> _about(0.3), _about(7.4), _about(135.0), _about(None)
    ('about 1 min', 'about 7 min', 'about 2.2 h', 'not measured')
    """
    if minutes is None:
        return "not measured"
    if minutes < 90:
        return f"about {max(1, round(minutes))} min"
    return f"about {minutes / 60:.1f} h"


def _needed(suite: Suite, folder: Path | None) -> str:
    """Return the data sets of a suite, and which of them are missing."""
    present: dict[str, bool] = {}
    for task in suite.tasks:
        present[task.dataset] = present.get(task.dataset, True) and task.is_present(folder)
    return ", ".join(name if here else f"{name} (missing)" for name, here in present.items())


@app.command()
def run(
    suites: SuiteNames,
    out: Folder = Path("bench"),
    data: Data = None,
    quick: Quick = False,
    jobs: Cores = None,
    rerun: Rerun = False,
) -> None:
    """Run suites; finished fits are skipped, so a stopped run can be continued.

    \b
    Example:
      bridgehash bench run table5-twin --quick
      bridgehash bench run '*-twin' --jobs 2
    """
    from concurrent.futures import BrokenExecutor

    from bridgehash.bench.runner import run_suite
    from bridgehash.bench.spec import load_suites

    store = _store(out)
    n_jobs = jobs or os.cpu_count() or 1
    ran: list[Suite] = []
    without_data: dict[str, str] = {}
    for plan in load_suites(suites):
        try:
            with countdown(plan.name, visible=may_animate()) as reach:
                steps = run_suite(plan, store, quick=quick, rerun=rerun, n_jobs=n_jobs, folder=data)
                failed = _follow(steps, reach)
        except MissingDataError as error:  # of all its tasks
            without_data[plan.name] = str(error)
            continue
        except BrokenExecutor as error:
            raise InputError(
                f"a fit was killed, probably out of memory; {_AGAIN}, with --jobs 1"
            ) from error
        except JournalError as error:
            raise InputError(f"{error}; {_AGAIN}") from error
        except OSError as error:
            with named(error.filename or store.path, _AGAIN, writing=True):
                raise
        except KeyboardInterrupt:
            note(_AGAIN)
            raise
        for record in failed[:10]:
            note(f"{record['label']} on {record['task']} failed: {record['error']}")
        if len(failed) > 10:
            note(f"{len(failed) - 10} more failed; see their records")
        _show(plan, list(store.records().values()))
        ran.append(plan)
    if not ran:
        raise InputError(next(iter(without_data.values())))
    for name, reason in without_data.items():
        note(f"{name} is skipped: {reason}")
    _write_report(ran, list(store.records().values()), store.path, out)


def _follow(steps: Iterable[SuiteProgress], reach: Callable[[int, int], None]) -> list[Record]:
    """Show the progress of a run; return the records of fits that failed."""
    failed = []
    for step in steps:
        reach(step.n_done, step.n_jobs)
        for line in step.missing:
            note(line)
        if step.record is None and step.n_done:
            say(f"{step.n_done} of {step.n_jobs} fits were finished before")
        elif step.record is not None and "error" in step.record:
            failed.append(step.record)
    return failed


@app.command()
def show(suites: SuiteNames, out: Folder = Path("bench"), records: Records = None) -> None:
    """Print the tables of suites from their records.

    \b
    Example:
      bridgehash bench show table5-twin
    """
    from bridgehash.bench.spec import load_suites

    plans = load_suites(suites)
    found = _records(plans, out, records)
    for plan in plans:
        _show(plan, found)


@app.command()
def report(suites: SuiteNames, out: Folder = Path("bench"), records: Records = None) -> None:
    """Write one self-contained page of tables and figures.

    \b
    Example:
      bridgehash bench report '*-twin'
      bridgehash bench report '*-twin' --records docs/results/records --out results
    """
    from bridgehash.bench.spec import load_suites

    plans = load_suites(suites)
    _write_report(plans, _records(plans, out, records), records or _store(out).path, out)


@app.command()
def keep(
    suites: SuiteNames,
    records: Annotated[
        Path, typer.Option("--records", help="Folder of small files to put under version control.")
    ],
    out: Folder = Path("bench"),
) -> None:
    """Write the records of suites to small files, one per suite, for a repository.

    A rerun that changes no result changes no file.

    \b
    Example:
      bridgehash bench keep '*-twin' --records docs/results/records
    """
    from bridgehash.bench.kept import keep_records, kept_path
    from bridgehash.bench.spec import load_suites
    from bridgehash.bench.tables import runs_of

    plans = load_suites(suites)
    found = _records(plans, out, None)
    ran = [plan for plan in plans if runs_of(plan, found)]
    if not ran:
        raise InputError("no records of these suites; use `bridgehash bench run` first", str(out))
    for plan in ran:
        with named(kept_path(records, plan), writing=True):
            n_kept = keep_records(plan, found, records)
        show_fields([("suite", plan.name), ("records", f"{n_kept} kept")])


def _records(plans: list[Suite], out: Path, kept: Path | None) -> list[Record]:
    """Return kept records of some suites, or else all records of a folder."""
    from bridgehash.bench.kept import kept_records

    if kept is not None:
        if not kept.is_dir():
            raise InputError("folder not found; use `bridgehash bench keep` first", str(kept))
        return kept_records(plans, kept)
    store = _store(out)
    if not store.path.is_file():
        raise InputError("no records yet; use `bridgehash bench run` first", str(store.path))
    return list(store.records().values())


def _store(out: Path) -> ResultStore:
    """Return the store of all suites; fits that two suites share are run once."""
    from bridgehash.bench.store import ResultStore

    return ResultStore(out / "records.jsonl")


def _show(suite: Suite, records: list[Record]) -> None:
    from bridgehash.bench.tables import agreements, result_table, runs_of

    results().print(Text(suite.title, "bold"), soft_wrap=True)
    for side in suite.sides:
        for metric in suite.metrics_of(side):
            _print(result_table(suite, records, side, metric))
    for line in agreements(runs_of(suite, records)):
        results().print(Text(line), soft_wrap=True)


def _print(table: ResultTable) -> None:
    """Print one table per task, with one column per code length."""
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
        clear = {place: lead.best for place in places if (lead := table.lead(place)) and lead.clear}
        for label, cells in table.rows.items():
            styles = [{1: "bold", 2: "italic"}.get(rank.get(label, 0), "") for rank in ranks]
            texts = [
                Text(f"{cells[place]}{' *' if clear.get(place) == label else ''}", style)
                for place, style in zip(places, styles, strict=True)
            ]
            shown.add_row(Text(label), *texts)
        console.print(shown)
        if clear:
            console.print(Text(_CLEAR), soft_wrap=True)
    if table.tally:
        console.print(Text(f"{table.side}, {table.metric}, {table.tally}"), soft_wrap=True)


def _write_report(plans: list[Suite], records: list[Record], source: Path, out: Path) -> None:
    from bridgehash.bench.report import write_report

    path = out / f"{plans[0].name if len(plans) == 1 else 'report'}.html"
    with named(path, writing=True):
        out.mkdir(parents=True, exist_ok=True)
        write_report(plans, records, path)
    show_fields([("records", str(source)), ("report", str(path))])
