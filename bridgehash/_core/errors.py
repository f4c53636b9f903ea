"""The exceptions of the package, and the one way to add a name to an error.

Every exception raised on purpose is a `BridgehashError`. One about an argument is an `InputError`
and knows which: `error.argument` is its name, `error.problem` the message without it, so that a
caller can use a name of its own (the command line says `--labels-source` for `y_source`).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class BridgehashError(Exception):
    """Base class of all exceptions that bridgehash raises on purpose."""


class InputError(BridgehashError, ValueError):
    """An argument, a file or a value that cannot be used.

    Parameters
    ----------
    problem : str
        What is wrong and how to fix it.
    argument : str, optional
        Name of the argument or file. It is put before the problem in the message.

    Examples
    --------
    >>> error = InputError("1 row; at least 2 are needed", "X_source")
    >>> str(error), error.argument
    ('X_source: 1 row; at least 2 are needed', 'X_source')
    """

    def __init__(self, problem: str, argument: str = "") -> None:
        super().__init__(f"{argument}: {problem}" if argument else problem)
        self.problem = problem
        self.argument = argument


class ModelFileError(InputError):
    """A model or index file that cannot be used."""


class IdExistsError(InputError):
    """An id to add that is in the index already."""

    id: object = None


class MissingDataError(InputError):
    """A data file that is not on this machine; the message says how to get or make it."""


class SuiteError(InputError):
    """A benchmark suite that cannot be run."""


class EngineError(BridgehashError, RuntimeError):
    """A database server that cannot do what it was asked."""


class ClusterError(BridgehashError, ConnectionError):
    """A Dask cluster that cannot do the work."""


class JournalError(BridgehashError, RuntimeError):
    """A change that could not be written to disk; nothing was changed."""


class LostChangesWarning(UserWarning):
    """Changes of an index that were acknowledged and cannot be read any more."""


class DecoderWarning(UserWarning):
    """A model that has no decoder, with an index of corrections: Hamming distances rank items."""


class BridgeWarning(UserWarning):
    """Cross-domain search will not work, or worse than it could; base of all such warnings.

    Of this class itself: by its own estimate (`bridge_report_`), a fit will hardly work.
    """


class ClassesWarning(BridgeWarning):
    """The labels of the domains have no class in common, or few."""


class FewLabelsWarning(BridgeWarning):
    """Most rows have no label, and the method does not estimate labels."""


class FeatureSpaceWarning(BridgeWarning):
    """The columns of the domains do not mean the same, and the method needs that they do."""


class PairsWarning(BridgeWarning):
    """The pairs are too few, or some of them are wrong."""


class CounterpartWarning(BridgeWarning):
    """A domain seems to have classes that the other one lacks."""


@contextmanager
def named(
    name: str | os.PathLike[str], remedy: str = "", *, writing: bool = False
) -> Iterator[None]:
    """Put a name before errors about what is read or written inside.

    An `InputError` without an argument gets this one. An `OSError`, and whatever else a parser
    raises for a broken file, becomes an `InputError` that ends with the remedy. With `writing`
    only an `OSError` does.

    >>> with named("a.npy"):
    ...     raise InputError("is empty")
    Traceback (most recent call last):
    ...
    bridgehash._core.errors.InputError: a.npy: is empty
    """
    name = os.fspath(name)
    try:
        yield
    except InputError as error:
        if error.argument == name:
            raise
        problem = str(error)
        raise type(error)(problem, name) from error.__cause__
    except (BridgehashError, MemoryError):
        raise
    except Exception as error:
        if writing and not isinstance(error, OSError):
            raise
        if isinstance(error, FileNotFoundError) and not writing:
            raise InputError("file not found", name) from error
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        text = " ".join(reason.split())[:200]
        action = "written" if writing else "read"
        remedy = remedy or (
            "free some space or choose another place" if writing else "check the file"
        )
        raise InputError(f"cannot be {action} ({text}); {remedy}", name) from error


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Message for an unknown name, with the nearest known one.

    >>> unknown("start", "pac", ["pca", "itq"])
    "unknown start 'pac'; did you mean 'pca'? Choose from: pca, itq"
    """
    nearest = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
    more = f" and {len(known) - 40} more" if len(known) > 40 else ""
    return f"unknown {kind} {name!r}{hint} Choose from: {', '.join(list(known)[:40])}{more}"
