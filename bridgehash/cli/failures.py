"""How a command may end: one place turns every failure into one line and an exit code.

0 done, 1 a fault of ours, 2 something the user can put right, 130 Ctrl-C, 141 a closed pipe (what
a shell reports for any tool that `head` has cut short). With BRIDGEHASH_DEBUG=1 the traceback is
shown as well.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from bridgehash._core.errors import EngineError, InputError
from bridgehash._core.files import StrPath
from bridgehash.cli.console import note, say

_DEBUG = "BRIDGEHASH_DEBUG"


def guarded(command: Callable[[], int]) -> int:
    """The exit code of a command, whatever happens to it."""
    try:
        with _warnings_as_notes():
            code = command()
        _flush_results()
    except (KeyboardInterrupt, typer.Abort) as error:
        return _fail(error, "interrupted; no half-written file is left", 130)
    except BrokenPipeError:
        _discard(sys.stdout)
        return 141
    except Exception as error:
        return _fail(error, *_explained(error))
    return code


@contextmanager
def writing(path: StrPath) -> Iterator[None]:
    """Name the output, and the way out, when it cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            f"{os.fspath(path)}: cannot be written ({reason}); "
            "free some space or choose another place; nothing was changed"
        ) from error


def _explained(error: Exception) -> tuple[str, int]:
    """One line that names the rule, the value and the way out; and the exit code."""
    text = str(error) or type(error).__name__
    if hasattr(error, "format_message"):  # a usage error of typer, or of click below it
        return _usage(error), 2
    if isinstance(error, MemoryError):
        return f"not enough memory ({text}); give fewer rows or columns, or float32 features", 2
    if isinstance(error, np.linalg.LinAlgError):
        return f"the equations cannot be solved ({text}); look for extreme features", 2
    if isinstance(error, OSError) and error.errno is not None:
        place = "the output" if error.filename is None else error.filename
        return f"{place}: {error.strerror}; check the path, its permissions and free space", 2
    if isinstance(error, ValueError | OSError | EngineError):
        return text, 2
    name = type(error).__name__
    return f"{name}: {text}; run with {_DEBUG}=1 for the traceback", 1


def _usage(error: Exception) -> str:
    message = str(error.format_message())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "bridgehash"
    return f"{message.rstrip('.')}; see {command} --help"


def _fail(error: BaseException, line: str, code: int) -> int:
    with suppress(OSError):
        _flush_results()
    if os.environ.get(_DEBUG):
        traceback.print_exception(error)
    with suppress(BrokenPipeError):
        say(line, "error", "bold red")
    return code


def _flush_results() -> None:
    """Write what is buffered now: at exit it would be too late to report a failure."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
        raise


def _discard(stream: TextIO) -> None:
    """Send what is left in a stream nowhere, so that the interpreter finds nothing to flush."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        plain = issubclass(category, UserWarning)
        note(str(message) if plain else f"{category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.showwarning = show
        yield
