"""`bridgehash encode` over a folder: a shard of codes for each shard of features, of its name.

A shard of codes gets its name when it is complete. Before the first one is begun, a manifest beside
them says which model makes them, and of what state of the inputs. So a run that was stopped
goes on where it was, and codes of another model or of other inputs are never taken for these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridgehash._core.errors import InputError
from bridgehash._core.files import atomic_write
from bridgehash._core.progress import countdown
from bridgehash.cli.console import counted, may_animate, note, show_fields
from bridgehash.cli.failures import writing
from bridgehash.cli.io import write_codes
from bridgehash.models.encoder import LinearEncoder
from bridgehash.streaming.blocks import as_blocks
from bridgehash.streaming.formats import arrow
from bridgehash.streaming.mappers import current_mapper

MANIFEST = "_bridgehash.json"  # a name that readers of a folder pass over
_SUFFIXES = (".npy", ".parquet")
_TOLD = 10  # bad shards that are named

About = dict[str, str]  # model, n_bits and, where there are two, domain
Stamps = dict[str, list[int]]  # size and time of the last change of each input, by its name


class Encoded(NamedTuple):
    """What became of a shard: its rows, or what is wrong with it."""

    rows: int
    problem: str = ""


def encode_folder(
    encoder: LinearEncoder, about: About, folder: Path, out: Path, *, replace: bool
) -> None:
    """Make all codes that are not there yet, and tell of it; bad shards are left out and named."""
    started = perf_counter()
    shards = _shards(folder)
    with writing(out):
        todo = _planned(shards, out, about, replace=replace)
    rows, problems = _encode_all(encoder, about, todo, out)
    seconds = perf_counter() - started
    made = len(todo) - len(problems)
    show_fields(
        [
            ("encoded", f"{counted(rows, 'row')} of {counted(encoder.n_features_in_, 'column')}"),
            ("shards", f"{made} made, {len(shards) - len(todo)} were there"),
            ("codes", f"{encoder.n_bits} bits, {-(-encoder.n_bits // 8)} bytes a row"),
            ("written", str(out)),
            ("time", f"{seconds:.2f} s, {rows / max(seconds, 1e-9):.0f} rows/s"),
        ]
    )
    for line in problems[:_TOLD]:
        note(line)
    if problems:
        raise InputError(
            f"{folder}: {len(problems)} of {counted(len(shards), 'shard')} could not be encoded, "
            "the others are done; put right what the notes say and run it again"
        )


def check_folders(folder: Path, out: Path) -> None:
    """Refuse places that cannot hold the codes: worth asking before anything is done."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, but the codes of a folder are a folder; rename it")
    if not out.parent.is_dir():
        raise InputError(f"{out}: the directory {out.parent} does not exist; create it first")
    if out.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{out}: lies in the input {folder}; choose another place")


def encode_shard(
    encoder: LinearEncoder, about: About, shard: Path, out: Path, stamp: list[int]
) -> Encoded:
    """The task for one shard: write its codes, whole or not at all."""
    try:
        codes = _codes(encoder, shard, stamp)
        if _manifest(out.parent).get("about") != about:
            raise InputError(f"{out.parent}: another model writes its codes there; run it again")
        with writing(out):
            write_codes(out, codes, _ids(shard))
    except (ValueError, OSError) as error:
        return Encoded(0, str(error))
    return Encoded(len(codes))


def _encode_all(
    encoder: LinearEncoder, about: About, todo: dict[Path, list[int]], out: Path
) -> tuple[int, list[str]]:
    """The number of rows encoded, and what is wrong with the shards that were not."""
    rows, problems = 0, []
    here = Path.cwd()  # a worker may be elsewhere
    tasks = ((here / shard, here / out / shard.name, stamp) for shard, stamp in todo.items())
    with countdown("encode", visible=may_animate() and len(todo) > 1) as reach, _kept():
        found = current_mapper()(encode_shard, tasks, (encoder, about))
        for done, (shard, encoded) in enumerate(zip(todo, found, strict=True), 1):
            reach(done, len(todo))
            rows += encoded.rows
            if encoded.problem:
                problems.append(encoded.problem)
            elif not (out / shard.name).exists():
                where = "was written by a worker, but is not here"
                problems.append(f"{out / shard.name}: {where}; all must see the same folders")
    return rows, problems


def _codes(encoder: LinearEncoder, shard: Path, stamp: list[int]) -> NDArray[np.uint8]:
    """Codes of a file, of which a block is held at a time."""
    changed = InputError(f"{shard}: has changed since the start; run it again")
    if _stamp(shard) != stamp:
        raise changed
    blocks = as_blocks(shard)
    if blocks.shape[1] != encoder.n_features_in_:
        raise InputError(
            f"{shard}: has {counted(blocks.shape[1], 'column')}, but this encoder takes "
            f"{encoder.n_features_in_}; is it the right file, and the right domain?"
        )
    parts = [encoder.encode(blocks.read_checked(i)) for i in range(blocks.n_blocks)]
    if _stamp(shard) != stamp:
        raise changed
    return np.concatenate(parts)


def _ids(shard: Path) -> NDArray[Any] | None:
    """The column `id` of a Parquet file that has one."""
    if shard.suffix.lower() != ".parquet" or "id" not in arrow().parquet.read_schema(shard).names:
        return None
    column = arrow().parquet.read_table(shard, columns=["id"]).column("id")
    if column.null_count:
        raise InputError(f"{shard}: {column.null_count} rows have no id; fill or drop them")
    ids: NDArray[Any] = column.to_numpy()
    return ids


def _shards(folder: Path) -> list[Path]:
    """The files of a folder by name; names that begin with . or _ are not data."""
    found = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    for path in found:
        if path.suffix.lower() not in _SUFFIXES or not path.is_file():
            raise InputError(f"{path}: is no shard; leave only {' and '.join(_SUFFIXES)} files")
    if not found:
        raise InputError(f"{folder}: the folder is empty; name one with {_SUFFIXES[0]} files")
    return found


def _planned(
    shards: list[Path], out: Path, about: About, *, replace: bool
) -> dict[Path, list[int]]:
    """The shards that have no codes yet, once the manifest says of what those codes will be."""
    out.mkdir(exist_ok=True)
    stamps: Stamps = {shard.name: _stamp(shard) for shard in shards}
    manifest = _manifest(out)
    known: Stamps = manifest.get("shards", {})
    there = {name for name in {*known, *stamps} if (out / name).exists()}
    if replace:
        _check_ours(there, known, out)
        for name in there:  # first: old codes must not pass for new ones if this run is stopped
            (out / name).unlink()
        there = set()
    elif manifest:
        _check_about(manifest["about"], about, out)
    _check_ours(there, known, out)
    for name in sorted(there):
        if name not in stamps:
            raise InputError(f"{out / name}: the input has no such shard now; remove these codes")
        if known[name] != stamps[name]:
            raise InputError(
                f"{shards[0].with_name(name)}: has changed since its codes were made; remove "
                f"{out / name} to make them again, or all with --replace"
            )
    text = json.dumps({"about": about, "shards": stamps}, indent=1)
    with atomic_write(out / MANIFEST) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return {shard: stamps[shard.name] for shard in shards if shard.name not in there}


def _check_ours(there: set[str], known: Stamps, out: Path) -> None:
    for name in sorted(there - set(known)):
        raise InputError(f"{out / name}: was not made by this command; name another folder")


def _check_about(known: About, about: About, out: Path) -> None:
    """Codes of two models, or of two domains, are not to lie in one folder."""
    for name in ("model", "domain", "n_bits"):
        if known.get(name) != about.get(name):
            what = {"domain": f"the {known.get('domain')} domain"}.get(name, "another model")
            raise InputError(
                f"{out}: holds codes of {what}; name another folder, or make all of them again "
                "with --replace"
            )


def _manifest(out: Path) -> dict[str, Any]:
    """What is in a folder of codes, as far as it is known; empty where there is no manifest."""
    path = out / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        about, shards = dict(found["about"]), dict(found["shards"])
        if any(os.path.basename(name) != name for name in shards):
            raise ValueError("a name of another folder")
        return {"about": about, "shards": shards}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({error}); name another folder") from error


def _stamp(path: Path) -> list[int]:
    """What changes when a file does."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


@contextmanager
def _kept() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        note("finished shards are kept, run it again")
        raise
