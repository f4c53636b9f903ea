"""Records that are kept in a repository: one small compressed file per suite.

A kept record has what the tables and the figure of its suite show, and where the result comes from.
The same records give the same bytes. A fit that was run again with the same result keeps its old
record, so a rerun that changes no result changes no file.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from math import isnan
from pathlib import Path
from typing import Any

from .._core.errors import InputError
from .._core.files import StrPath, atomic_write
from .spec import METRICS, Suite
from .store import Record, record_key
from .tables import CHANCE, Run, runs_of

_IDENTITY = ("task", "use", "labels", "params", "settings", "n_bits", "seed", "extras", "data")
_WHERE = ("commit", "versions", "device", "finished")
_CURVES = ("pairs", "relevant")  # counts by distance, only for precision-recall curves


def kept_path(folder: StrPath, suite: Suite) -> Path:
    """Return the file of a suite."""
    return Path(folder) / f"{suite.name}.jsonl.gz"


def keep_records(suite: Suite, records: Iterable[Record], folder: StrPath) -> int:
    """Add the records of a suite to its file; return how many the file has then.

    Records of fits that no longer belong to the suite, for example with an older default, are
    removed from the file.
    """
    old = {record["key"]: record for record in _read(suite, folder)}
    kept = []
    for run in runs_of(suite, [*old.values(), *records]):
        record = _shortened(suite, run)
        before = old.get(record["key"], record)
        kept.append(before if _result(before) == _result(record) else record)
    if not kept:
        raise InputError("no records of this suite; use `bridgehash bench run` first", suite.name)
    data = "".join(f"{_line(record)}\n" for record in kept).encode()
    path = kept_path(folder, suite)
    if not path.exists() or gzip.decompress(path.read_bytes()) != data:  # zlib versions differ
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_bytes(gzip.compress(data, mtime=0))
    return len(kept)


def kept_records(suites: Iterable[Suite], folder: StrPath) -> list[Record]:
    """Return the kept records of some suites; each belongs to its suite only."""
    return [record | {"suite": suite.name} for suite in suites for record in _read(suite, folder)]


def _read(suite: Suite, folder: StrPath) -> list[Record]:
    """Return the kept records that have what the suite shows; none if there is no file."""
    path = kept_path(folder, suite)
    if not path.exists():
        return []
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        records = [json.loads(line) for line in lines]
        for record in records:
            record["key"] = record_key({name: record[name] for name in _IDENTITY})
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"not a file of kept records ({error}); restore it, or delete it and run "
            "`bridgehash bench keep` again",
            str(path),
        ) from error
    return [record for record in records if "error" in record or _is_complete(suite, record)]


def _is_complete(suite: Suite, record: Record) -> bool:
    return all(_shown(suite) <= set(record.get("scores", {}).get(side, ())) for side in suite.sides)


def _shown(suite: Suite) -> set[str]:
    """Return the names of scores and counts that every record of a suite has."""
    return {*METRICS, *(_CURVES if suite.figure == "pr" else ())}


def _shortened(suite: Suite, run: Run) -> Record:
    """Return a record with what the suite shows; scores and seconds are rounded."""
    full = run.record
    names = ("key", *_IDENTITY, *_WHERE, "rows", "error", *suite.extras)
    record = {name: full[name] for name in names if name in full} | {"label": run.label}
    if run.finished:
        record["scores"] = {
            side: {
                name: _rounded(value)
                for name, value in full["scores"][side].items()
                if name in _shown(suite) or name in (CHANCE, *suite.metrics_of(side))
            }
            for side in suite.sides
        }
        for side, scores in record["scores"].items():
            if not scores.keys() & {*_CURVES, CHANCE} and not isnan(chance := run.chance(side)):
                scores[CHANCE] = _rounded(chance / 100.0)
        record["seconds"] = {name: round(value, 2) for name, value in full["seconds"].items()}
    return record


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _result(record: Record) -> Record:
    """Return a record without what changes from run to run."""
    return {k: v for k, v in record.items() if k not in (*_WHERE, "seconds")}


def _line(record: Record) -> str:
    """Return a record as a line of JSON; its key follows from the rest."""
    contents = {name: value for name, value in record.items() if name != "key"}
    return json.dumps(contents, sort_keys=True, allow_nan=False, separators=(",", ":"))
