"""The command `bridgehash`: the app, its entry point and its exit codes.

Commands raise exceptions. `main` alone turns them into one line on stderr and an exit code; the
codes are listed in `EXIT_CODES`. Command modules import typer and rich only, and load everything
else when they run: so `--help` is fast.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from bridgehash import __version__
from bridgehash._core.errors import BridgehashError, InputError
from bridgehash.cli import (
    bench,
    demo,
    encode,
    evaluate,
    export,
    extract,
    fit,
    index,
    info,
    join,
    methods,
    search,
    serve,
    tune,
)
from bridgehash.cli.console import note, say
from bridgehash.cli.options import TYPED

EXIT_CODES = {
    0: "success",
    1: "internal error (a bug in bridgehash)",
    2: "an error that the user can fix: input, option, file, server",
    130: "interrupted by Ctrl-C",
    141: "the output pipe was closed",
}
_DEBUG = "BRIDGEHASH_DEBUG"

_ORDER = (  # of use
    "demo",
    "extract",
    "methods",
    "fit",
    "tune",
    "info",
    "evaluate",
    "join",
    "encode",
    "index",
    "search",
    "serve",
    "export",
    "bench",
)


class _InOrder(TyperGroup):
    """List the commands in the order of use."""

    def list_commands(self, context: Any) -> list[str]:
        return list(_ORDER)


app = typer.Typer(
    cls=_InOrder,
    add_completion=False,
    rich_markup_mode=None,
    epilog="Exit codes: " + "; ".join(f"{code} {what}" for code, what in EXIT_CODES.items()) + ".",
)
app.command()(fit.fit)
app.command()(tune.tune)
app.command()(join.join)
app.command()(encode.encode)
app.command()(export.export)
app.command()(evaluate.evaluate)
app.add_typer(index.app, name="index")
app.command()(search.search)
app.command()(serve.serve)
app.command()(extract.extract)
app.add_typer(bench.app, name="bench")
app.command()(info.info)
app.command()(methods.methods)
app.command()(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bridgehash {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def bridgehash(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Learn short binary codes that match across two domains, and search with them.

    `fit` learns one hash function per domain, `encode` turns features into codes, `index` and
    `search` find the nearest codes. `demo` shows all of it on data that comes with the package.

    \b
    Example:
      bridgehash demo
      bridgehash fit demo/digits.npz:source demo/digits.npz:target --out model.bh \\
        --labels-source demo/digits.npz:y_source --labels-target demo/digits.npz:y_target
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments. Default: those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # characters the terminal cannot show are escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        with _warnings_as_notes():
            code = _invoke(sys.argv[1:] if argv is None else list(argv))
        _flush()
    except (KeyboardInterrupt, typer.Abort) as error:
        return _fail(error, "interrupted; no incomplete file was left", 130)
    except BrokenPipeError:
        _discard(sys.stdout)
        return 141
    except Exception as error:
        return _fail(error, *explain(error))
    return code


def _invoke(arguments: list[str]) -> int:
    """Call the command directly: typer's own entry point prints errors and exits by itself."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("bridgehash", arguments) as context:
            command.invoke(context)
    except typer.Exit as done:
        return int(done.exit_code)
    return 0


def explain(error: Exception) -> tuple[str, int]:
    """Return the message for an exception, in one line, and the exit code."""
    text = str(error) or type(error).__name__
    if hasattr(error, "format_message"):  # a usage error of typer or click
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "bridgehash"
        return f"{str(error.format_message()).rstrip('.')}; see {command} --help", 2
    if isinstance(error, InputError):
        argument = TYPED.get(error.argument, error.argument)
        return f"{argument}: {error.problem}" if argument else error.problem, 2
    if isinstance(error, MemoryError):
        return f"not enough memory ({text}); use fewer rows or columns, or float32 features", 2
    if type(error).__name__ == "LinAlgError":
        return f"the equations cannot be solved ({text}); check for extreme feature values", 2
    if isinstance(error, OSError) and error.errno is not None:
        place = error.filename or "the output"
        return f"{place}: {error.strerror}; check the path, its permissions and free space", 2
    if isinstance(error, BridgehashError | ValueError | OSError | ImportError):
        return text, 2
    return f"{type(error).__name__}: {text}; run with {_DEBUG}=1 for the traceback", 1


def _fail(error: BaseException, line: str, code: int) -> int:
    with suppress(OSError):
        _flush()
    if os.environ.get(_DEBUG):
        traceback.print_exception(error)
    with suppress(BrokenPipeError):
        say(line, "error", "bold red")
    return code


def _flush() -> None:
    """Write buffered output now; at interpreter exit a failure could not be reported."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
        raise


def _discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that the interpreter does not flush it again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print warnings as notes on stderr, one line each."""

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        plain = issubclass(category, UserWarning)
        note(str(message) if plain else f"{category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
