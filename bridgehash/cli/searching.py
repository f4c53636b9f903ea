"""`bridgehash index` and `bridgehash search`: an index on disk, and questions to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.filesize import decimal

from bridgehash import ModelFileError, load
from bridgehash._files import atomic_write
from bridgehash.index import HammingIndex

from .console import counted, show_fields, show_table
from .failures import writing
from .models import Domain, encode_blocks, encoder_of, read_row_labels, read_rows
from .tables import InputError, check_output, read_codes, read_labels

_SUFFIXES = (".bhi",)
_SHOWN = 20  # queries on the terminal

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

IndexFile = Annotated[Path, typer.Argument(metavar="INDEX", help="A file that `build` wrote.")]
Rows = Annotated[
    str, typer.Argument(metavar="DATA", help="Packed codes; with --model, features to encode.")
]
IndexOut = Annotated[Path, typer.Option("--out", help="Index to write: *.bhi.")]
ModelFile = Annotated[Path | None, typer.Option("--model", help="Encode DATA with this model.")]
OneDomain = Annotated[Domain | None, typer.Option(help="Domain of DATA in a model of two.")]
Ids = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Whole numbers, one a row; 0, 1, ... without.")
]
Bits = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Length of the codes, if not whole bytes.")
]
K = Annotated[int, typer.Option("-k", min=1, help="How many codes to find.")]
Rerank = Annotated[
    bool, typer.Option("--rerank", help="Order them by the queries' projections; needs --model.")
]
ResultsOut = Annotated[
    Path | None, typer.Option("--out", help="File to write: *.npz, *.parquet or *.json.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def index() -> None:
    """Keep codes in an index: build it, add, remove, look.

    \b
    Example:
      bridgehash index build photos.npy --model model.bh --domain source --out photos.bhi
    """


@app.command()
def build(
    data: Rows,
    out: IndexOut,
    model: ModelFile = None,
    domain: OneDomain = None,
    ids: Ids = None,
    bits: Bits = None,
) -> None:
    """Make an index of codes, or of features that a model encodes.

    \b
    Example:
      bridgehash index build photos.npy --model model.bh --domain source --out photos.bhi
      bridgehash index build codes.npy --out photos.bhi
    """
    path = check_output(out, _SUFFIXES)
    codes, about, n_bits = _codes(data, model, domain, bits)
    made = HammingIndex(n_bits)
    made.about = about
    with _explained():
        made.add(codes, _ids(ids, len(codes), data))
    _write(made, path)


@app.command()
def add(
    index: IndexFile,
    data: Rows,
    model: ModelFile = None,
    domain: OneDomain = None,
    ids: Ids = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace codes whose ids are there already.")
    ] = False,
) -> None:
    """Add codes to an index.

    \b
    Example:
      bridgehash index add photos.bhi more.npy --model model.bh --domain source
    """
    found = HammingIndex.load(index)
    codes, about, _ = _codes(data, model, domain, found.n_bits)
    _check_same_model(found, about, index, model)
    wanted = _ids(ids, len(codes), data)
    if replace and wanted is None:
        raise InputError("--replace: has no ids to go by; give --ids")
    with _explained():
        if replace:
            found.upsert(codes, wanted)  # type: ignore[arg-type]
        else:
            found.add(codes, wanted)
    _write(found, index)


@app.command()
def remove(
    index: IndexFile, ids: Annotated[str, typer.Option(metavar="SPEC", help="Ids to forget.")]
) -> None:
    """Remove codes from an index by their ids.

    \b
    Example:
      bridgehash index remove photos.bhi --ids gone.npy
    """
    found = HammingIndex.load(index)
    n = found.remove(_whole(read_labels(ids), ids))
    _write(found, index)
    show_fields([("removed", counted(n, "code"))])


@app.command()
def info(index: IndexFile, as_json: Json = False) -> None:
    """Tell what an index holds.

    \b
    Example:
      bridgehash index info photos.bhi
    """
    found = HammingIndex.load(index, memory_map=True)
    record = {
        "file": str(index),
        "file_size": index.stat().st_size,
        "codes": len(found),
        "n_bits": found.n_bits,
        **found.about,
    }
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        show_fields([(name, str(value)) for name, value in record.items()])


def search(
    index: IndexFile,
    queries: Annotated[
        str, typer.Argument(metavar="QUERIES", help="Packed codes; with --model, features.")
    ],
    model: ModelFile = None,
    domain: OneDomain = None,
    k: K = 10,
    rerank: Rerank = False,
    out: ResultsOut = None,
    as_json: Json = False,
) -> None:
    """Find the nearest codes of an index.

    \b
    Example:
      bridgehash search photos.bhi sketches.npy --model model.bh --domain target -k 5
    """
    path = None if out is None else check_output(out, (".npz", ".parquet", ".json"))
    if rerank and model is None:
        raise InputError("--rerank: needs the queries' projections; give --model and features")
    found = HammingIndex.load(index, memory_map=True)
    codes, about, _ = _codes(queries, model, domain, found.n_bits)
    _check_same_model(found, about, index, model)
    H = _projections(queries, model, domain) if rerank and model is not None else None
    started = perf_counter()
    distances, ids = found.search(codes, k, rerank=H)
    seconds = perf_counter() - started
    if as_json:
        print(json.dumps(_records(distances, ids), indent=2))
    elif path is None:
        rows = [
            (str(i), " ".join(f"{id_}:{d}" for id_, d in zip(*pair, strict=True) if id_ >= 0))
            for i, pair in enumerate(zip(ids[:_SHOWN], distances[:_SHOWN], strict=True))
        ]
        show_table(("query", "id:distance, nearest first"), rows)
    if path is not None:
        with writing(path):
            _write_results(path, distances, ids)
        speed = f"{seconds:.2f} s, {len(codes) / max(seconds, 1e-9):.0f} queries/s"
        show_fields([("queries", str(len(codes))), ("time", speed), ("written", str(path))])


def _codes(
    data: str, model: Path | None, domain: Domain | None, bits: int | None
) -> tuple[NDArray[np.uint8], dict[str, str], int]:
    """Packed codes, what is known of where they come from, and their length."""
    if model is None:
        if domain is not None:
            raise InputError("--domain: belongs to --model; packed codes have none")
        codes = read_codes(data)
        return codes, {}, bits or 8 * codes.shape[1]
    encoder = encoder_of(load(model), model, domain, "--domain")
    if bits is not None and bits != encoder.n_bits:
        raise InputError(f"{model}: makes codes of {encoder.n_bits} bits, not {bits}")
    codes = encode_blocks(encoder, read_rows(data, encoder, model), "encode")
    with model.open("rb") as file:
        about = {"model": hashlib.file_digest(file, "sha256").hexdigest()}
    return codes, about | ({"domain": str(domain)} if domain else {}), encoder.n_bits


def _projections(data: str, model: Path, domain: Domain | None) -> NDArray[Any]:
    encoder = encoder_of(load(model), model, domain, "--domain")
    return encoder.decision_function(read_rows(data, encoder, model))


def _check_same_model(
    index: HammingIndex, about: dict[str, str], path: Path, model: Path | None
) -> None:
    """Codes of two models have nothing to do with each other."""
    if "model" in index.about and "model" in about and index.about["model"] != about["model"]:
        raise InputError(
            f"{path}: holds codes of another model than {model}; use the model it was built with"
        )


def _ids(spec: str | None, n: int, data: str) -> NDArray[np.int64] | None:
    return None if spec is None else _whole(read_row_labels(spec, n, data, "id"), spec)


def _whole(ids: NDArray[Any], spec: str) -> NDArray[np.int64]:
    if ids.dtype.kind not in "iu":
        raise InputError(f"{spec}: holds text; ids of an index are whole numbers")
    return ids.astype(np.int64)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ModelFileError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def _write(index: HammingIndex, path: Path) -> None:
    with writing(path):
        index.save(path)
    show_fields(
        [
            ("codes", f"{len(index)} of {counted(index.n_bits, 'bit')}"),
            ("written", f"{path} ({decimal(path.stat().st_size)})"),
        ]
    )


def _records(distances: NDArray[np.int32], ids: NDArray[np.int64]) -> list[dict[str, list[int]]]:
    return [
        {"ids": i[i >= 0].tolist(), "distances": d[i >= 0].tolist()}
        for d, i in zip(distances, ids, strict=True)
    ]


def _write_results(path: Path, distances: NDArray[np.int32], ids: NDArray[np.int64]) -> None:
    suffix = path.suffix.lower()
    with atomic_write(path) as temporary:
        if suffix == ".json":
            temporary.write_text(json.dumps(_records(distances, ids)), encoding="utf-8")
        elif suffix == ".npz":
            with open(temporary, "wb") as file:
                np.savez(file, ids=ids, distances=distances)
        else:
            import pyarrow as pa
            import pyarrow.parquet

            columns = {
                "query": np.repeat(np.arange(len(ids)), ids.shape[1]),
                "id": ids.ravel(),
                "distance": distances.ravel(),
            }
            pa.parquet.write_table(pa.table(columns).filter(pa.array(ids.ravel() >= 0)), temporary)
