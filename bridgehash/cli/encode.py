"""`bridgehash encode`: turn features into packed codes, from one file or from a folder of files.

Of a folder, each file of codes gets its name when it is complete. A manifest, written first,
records the model and the state of the inputs. So a stopped run can be continued, and codes of
another model or of changed inputs are never mixed in.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.filesize import decimal

from bridgehash._core.errors import InputError, named
from bridgehash._core.files import atomic_write
from bridgehash._core.progress import countdown
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, may_animate, note, show_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bridgehash.models.encoder import LinearEncoder

MANIFEST = "_bridgehash.json"  # readers of a folder skip names that begin with _
_SUFFIXES = (".npy", ".parquet")
_LISTED = 10  # bad shards that are named
_WITH_CORRECTIONS = "corrections"  # in the manifest, if they are written

About = dict[str, str]  # code space, n_bits and, if there are some, domain and corrections
Stamps = dict[str, list[int]]  # size and modification time of each input, by its name

Features = Annotated[
    str, typer.Argument(metavar="DATA", help="Features to encode, or a folder of such files.")
]
CodesOut = Annotated[
    Path,
    typer.Option("--out", help="File to write: *.npy or *.parquet; a folder if DATA is one."),
]
IdsBeside = Annotated[
    str | None,
    typer.Option(metavar="SPEC", help="Ids to write beside the codes (*.parquet only)."),
]
WithCorrections = Annotated[
    bool,
    typer.Option(
        "--corrections",
        help="Also write two numbers per code that estimate distances of rows; `index` reads them.",
    ),
]
ReplaceCodes = Annotated[
    bool, typer.Option("--replace", help="Encode all files of a folder again, not only new ones.")
]


def encode(
    model: opt.Model,
    data: Features,
    out: CodesOut,
    domain: opt.OneDomain = None,
    ids: IdsBeside = None,
    scheduler: opt.Scheduler = None,
    replace: ReplaceCodes = False,
    corrections: WithCorrections = False,
) -> None:
    """Turn features into packed binary codes.

    A .npy file holds an array of shape (rows, bytes), 8 bits per byte; a .parquet file holds a
    column `code` and, with --ids, a column `id`. With --corrections, a .parquet file also has the
    columns `offset` and `slope`; beside codes.npy they are in codes.corrections.npy. For a folder
    of .npy or .parquet files, OUT is a folder with one file of codes per file. Finished files are
    skipped, so a stopped run can be continued by the same command.

    \b
    Example:
      bridgehash encode model.bh demo/digits.npz:source --domain source --out codes.npy
    """
    from bridgehash import load
    from bridgehash.cli.fit import on_cluster
    from bridgehash.cli.io import (
        check_decoder,
        check_not_an_input,
        check_output,
        corrections_path,
        encode_corrected_rows,
        encode_rows,
        read_features,
        read_row_labels,
        write_codes,
    )
    from bridgehash.models.provenance import encoder_of, origin

    if Path(data).is_dir() and Path(data).suffix.lower() != ".zarr":
        if ids is not None:
            raise InputError("works with one file; files of a folder may have a column id", "--ids")
        _check_folders(Path(data), out)
        loaded = load(model)
        encoder = encoder_of(loaded, model, domain, "--domain")
        if corrections:
            check_decoder(encoder, model)
        about = origin(loaded, domain) | {"n_bits": str(encoder.n_bits)}
        with on_cluster(scheduler):
            encode_folder(encoder, about, Path(data), out, replace=replace, corrections=corrections)
        return
    if scheduler or replace:
        option = "--scheduler" if scheduler else "--replace"
        raise InputError(f"works with a folder of files, but {data} is a file; drop it", option)
    if ids is not None and out.suffix.lower() != ".parquet":
        raise InputError("needs an output that ends in .parquet", "--ids")
    path = check_output(out)
    check_not_an_input(path, data, ids or "")
    if corrections and path.suffix.lower() == ".npy":
        check_not_an_input(corrections_path(path), data, ids or "")
    loaded = load(model)
    encoder = encoder_of(loaded, model, domain, "--domain")
    if corrections:
        check_decoder(encoder, model)
    X = read_features(data, encoder, model)
    names = None if ids is None else read_row_labels(ids, len(X), data, "id")
    started = perf_counter()
    numbers = None
    if corrections:
        codes, numbers = encode_corrected_rows(encoder, X, "encode", data)
    else:
        codes = encode_rows(encoder, X, "encode", data)
    seconds = perf_counter() - started
    about = origin(loaded, domain) | {"n_bits": str(encoder.n_bits)}
    write_codes(path, codes, names, about, numbers)
    written = f"{path} ({decimal(path.stat().st_size)})"
    if corrections and path.suffix.lower() == ".npy":
        written += f", {corrections_path(path).name}"
    show_fields(_fields(encoder, len(X), written, seconds))


def _fields(
    encoder: LinearEncoder, n_rows: int, written: str, seconds: float, shards: str = ""
) -> list[tuple[str, str]]:
    columns, bits = counted(encoder.n_features_in_, "column"), encoder.n_bits
    return [
        ("encoded", f"{counted(n_rows, 'row')} of {columns}"),
        *([("shards", shards)] if shards else []),
        ("codes", f"{counted(bits, 'bit')}, {counted(-(-bits // 8), 'byte')} per row"),
        ("written", written),
        ("time", f"{seconds:.2f} s, {n_rows / max(seconds, 1e-9):.0f} rows/s"),
    ]


class ShardResult(NamedTuple):
    """The number of rows of an encoded shard, or what is wrong with it."""

    rows: int
    problem: str = ""


def encode_folder(
    encoder: LinearEncoder,
    about: About,
    folder: Path,
    out: Path,
    *,
    replace: bool,
    corrections: bool = False,
) -> None:
    """Make all codes that are missing; bad shards are skipped and named."""
    started = perf_counter()
    shards = _shards(folder)
    if corrections:
        about |= {_WITH_CORRECTIONS: "yes"}
        for shard in shards:
            if shard.name.endswith(".corrections.npy"):
                raise InputError(
                    "has the name of a file of corrections; rename it, or leave out --corrections",
                    str(shard),
                )
    with named(out, writing=True):
        todo = _plan(shards, out, about, replace=replace)
    rows, problems = _encode_all(encoder, about, todo, out)
    made = f"{len(todo) - len(problems)} encoded, {len(shards) - len(todo)} already done"
    show_fields(_fields(encoder, rows, str(out), perf_counter() - started, made))
    for line in problems[:_LISTED]:
        note(line)
    if problems:
        raise InputError(
            f"{len(problems)} of {counted(len(shards), 'shard')} could not be encoded, the others "
            "are done; fix what the notes say and run the command again",
            str(folder),
        )


def _check_folders(folder: Path, out: Path) -> None:
    """Refuse an output folder that cannot be used, before any work."""
    if out.exists() and not out.is_dir():
        raise InputError("is a file, but the output for a folder is a folder", str(out))
    if not out.parent.is_dir():
        raise InputError(f"the directory {out.parent} does not exist; create it first", str(out))
    if out.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"is inside the input {folder}; choose another place", str(out))


def _shards(folder: Path) -> list[Path]:
    """Return the files of a folder by name; names that begin with . or _ are not data."""
    shards = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    for path in shards:
        if path.suffix.lower() not in _SUFFIXES or not path.is_file():
            raise InputError(f"only {' and '.join(_SUFFIXES)} files can be encoded", str(path))
    if not shards:
        raise InputError(f"the folder has no {' or '.join(_SUFFIXES)} file", str(folder))
    return shards


def _plan(shards: list[Path], out: Path, about: About, *, replace: bool) -> dict[Path, list[int]]:
    """Return the shards without codes, and write the manifest."""
    out.mkdir(exist_ok=True)
    stamps: Stamps = {shard.name: _stamp(shard) for shard in shards}
    manifest = _manifest(out)
    known: Stamps = manifest.get("shards", {})
    done = {name for name in {*known, *stamps} if (out / name).exists()}
    for name in sorted(done - set(known)):
        raise InputError("was not made by this command; use another folder", str(out / name))
    if replace:
        for name in done:  # first: old codes must not be taken for new ones if this run stops
            (out / name).unlink()
        done = set()
    elif manifest:
        _check_same_origin(manifest["about"], about, out)
    for name in sorted(done):
        if name not in stamps:
            raise InputError("its input is gone; remove these codes", str(out / name))
        if known[name] != stamps[name]:
            raise InputError(
                f"has changed since it was encoded; remove {out / name} to encode it again, or "
                "all with --replace",
                str(shards[0].with_name(name)),
            )
    with atomic_write(out / MANIFEST) as temporary:
        text = json.dumps({"about": about, "shards": stamps}, indent=1)
        temporary.write_text(text, encoding="utf-8")
    return {shard: stamps[shard.name] for shard in shards if shard.name not in done}


def _check_same_origin(known: About, about: About, out: Path) -> None:
    """Refuse codes of two models, or of two domains, in one folder."""
    kinds = {
        "code_space": "of another model",
        "domain": f"of the {known.get('domain')} domain",
        "n_bits": "of another model",
        _WITH_CORRECTIONS: f"with{'' if _WITH_CORRECTIONS in known else 'out'} corrections",
    }
    for name, what in kinds.items():
        if known.get(name) != about.get(name):
            raise InputError(
                f"holds codes {what}; use another folder, or encode all again with --replace",
                str(out),
            )


def _manifest(out: Path) -> dict[str, Any]:
    """Return the manifest of a folder of codes; empty if there is none."""
    path = out / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        about, shards = dict(manifest["about"]), dict(manifest["shards"])
        if any(os.path.basename(name) != name for name in shards):
            raise ValueError("a path outside the folder")
        return {"about": about, "shards": shards}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"is damaged ({error}); use another folder", str(path)) from error


def _stamp(path: Path) -> list[int]:
    """Return size and modification time of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _encode_all(
    encoder: LinearEncoder, about: About, todo: dict[Path, list[int]], out: Path
) -> tuple[int, list[str]]:
    """Return the number of rows encoded, and what is wrong with the shards that were not."""
    from bridgehash.streaming.mappers import current_mapper

    rows, problems = 0, []
    here = Path.cwd()  # a worker may have another working directory
    tasks = ((here / shard, here / out / shard.name, stamp) for shard, stamp in todo.items())
    try:
        with countdown("encode", visible=may_animate() and len(todo) > 1) as reach:
            results = current_mapper()(encode_shard, tasks, (encoder, about))
            for done, (shard, result) in enumerate(zip(todo, results, strict=True), 1):
                reach(done, len(todo))
                rows += result.rows
                if result.problem:
                    problems.append(result.problem)
                elif not (out / shard.name).exists():
                    problems.append(
                        f"{out / shard.name}: was written by a worker, but is not visible here; "
                        "all machines must see the same folders"
                    )
    except KeyboardInterrupt:
        note("finished shards are kept; run the same command to continue")
        raise
    return rows, problems


def encode_shard(
    encoder: LinearEncoder, about: About, shard: Path, out: Path, stamp: list[int]
) -> ShardResult:
    """Encode one shard and write its codes atomically."""
    from bridgehash.cli.io import write_codes

    try:
        codes, corrections = _shard_codes(
            encoder, shard, stamp, corrections=_WITH_CORRECTIONS in about
        )
        if _manifest(out.parent).get("about") != about:
            raise InputError("another model writes codes there; run it again", str(out.parent))
        written = None  # it is in the manifest
        if out.suffix.lower() == ".parquet":
            written = {name: text for name, text in about.items() if name != _WITH_CORRECTIONS}
        write_codes(out, codes, _shard_ids(shard), written, corrections)
    except (ValueError, OSError) as error:
        return ShardResult(0, str(error))
    return ShardResult(len(codes))


def _shard_codes(
    encoder: LinearEncoder, shard: Path, stamp: list[int], *, corrections: bool
) -> tuple[NDArray[np.uint8], NDArray[np.float16] | None]:
    """Return the codes of a file and their corrections, reading one block at a time."""
    import numpy as np

    from bridgehash.cli.io import check_width
    from bridgehash.streaming.blocks import as_blocks

    changed = InputError("has changed since the start; run the command again", str(shard))
    if _stamp(shard) != stamp:
        raise changed
    blocks = as_blocks(shard)
    encoder.check_names(blocks, str(shard))
    check_width(blocks.shape[1], encoder, shard, "this encoder")
    codes, numbers = [], []
    for i in range(blocks.n_blocks):
        if corrections:
            both = encoder.encode_corrected(blocks.read_checked(i))
            codes.append(both.codes)
            numbers.append(both.corrections)
        else:
            codes.append(encoder.encode(blocks.read_checked(i)))
    if _stamp(shard) != stamp:
        raise changed
    return np.concatenate(codes), np.concatenate(numbers) if corrections else None


def _shard_ids(shard: Path) -> Any:
    """Return the column `id` of a Parquet file, or None."""
    from bridgehash.streaming.formats import arrow

    if shard.suffix.lower() != ".parquet" or "id" not in arrow().parquet.read_schema(shard).names:
        return None
    column = arrow().parquet.read_table(shard, columns=["id"]).column("id")
    if column.null_count:
        raise InputError(f"{column.null_count} rows have no id; fill or drop them", str(shard))
    return column.to_numpy()
