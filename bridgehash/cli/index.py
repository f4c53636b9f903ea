"""`bridgehash index` and `bridgehash search`: an index on disk or a server, and questions to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.filesize import decimal

from bridgehash import ModelFileError
from bridgehash import load as load_model
from bridgehash._core.errors import EngineError, InputError
from bridgehash._core.files import atomic_write
from bridgehash._core.progress import countdown
from bridgehash.cli.console import counted, may_animate, note, show_fields, show_table
from bridgehash.cli.failures import writing
from bridgehash.cli.io import check_output, read_codes, read_labels
from bridgehash.cli.models import Domain, encode_rows, read_row_labels, read_rows
from bridgehash.index import HammingIndex
from bridgehash.index.batch import checked_batch
from bridgehash.index.servers import EngineIndex, create_index, index_exists, open_index
from bridgehash.index.servers.base import check_name, parse_url
from bridgehash.models.provenance import check_same_domain, check_same_model, encoder_of, origin

_SUFFIXES = (".bhi",)

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

IndexName = Annotated[
    str,
    typer.Argument(
        metavar="INDEX", help="A file that `build` wrote; with --engine, a table or collection."
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Server: postgresql://... or milvus://... instead of a file."),
]
Rows = Annotated[
    str, typer.Argument(metavar="DATA", help="Packed codes; with --model, features to encode.")
]
IndexOut = Annotated[
    str,
    typer.Option("--out", help="Index to write: *.bhi; with --engine, a table or collection."),
]
ModelFile = Annotated[Path | None, typer.Option("--model", help="Encode DATA with this model.")]
OneDomain = Annotated[Domain | None, typer.Option(help="Domain of DATA in a model of two.")]
Ids = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Whole numbers, one a row; 0, 1, ... without.")
]
Tags = Annotated[
    str | None, typer.Option(metavar="SPEC", help="A text or number a row, to search among later.")
]
Bits = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Length of the codes, if not whole bytes.")
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
    tags: Tags = None,
    bits: Bits = None,
    engine: Engine = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="With --engine: search by HNSW, or by lists.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --engine: in place of an index of this name.")
    ] = False,
) -> None:
    """Make an index of codes, or of features that a model encodes.

    \b
    Example:
      bridgehash index build photos.npy --model model.bh --domain source --out photos.bhi
      bridgehash index build codes.npy --out photos.bhi
      bridgehash index build codes.npy --out photos --engine postgresql://localhost/shop
    """
    if engine is not None:
        check_free(engine, out, replace=replace)
    elif approximate or replace:
        option = "--approximate" if approximate else "--replace"
        raise InputError(f"{option}: belongs to --engine; a file is exact and written anew")
    else:
        check_output(out, _SUFFIXES)
    load = _load(data, model, domain, bits, ids, tags)
    with _explained():
        if engine is None:
            _write(_in_memory(load), out)
            return
        with build_on_server(engine, out, load, approximate=approximate, replace=replace) as made:
            _write(made, out)


@app.command()
def add(
    index: IndexName,
    data: Rows,
    model: ModelFile = None,
    domain: OneDomain = None,
    ids: Ids = None,
    tags: Tags = None,
    engine: Engine = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace codes whose ids are there already.")
    ] = False,
) -> None:
    """Add codes to an index.

    \b
    Example:
      bridgehash index add photos.bhi more.npy --model model.bh --domain source
    """
    if replace and ids is None:
        raise InputError("--replace: has no ids to go by; give --ids")
    with _opened(index, engine) as found:
        load = _load(data, model, domain, found.n_bits, ids, tags)
        check_same_model(found.about, load.about, index, model)
        check_same_domain(found.about, load.about, index)
        with _explained():
            if not isinstance(found, HammingIndex):
                load_codes(found, load, replace=replace)
            elif load.ids is not None and replace:
                found.upsert(load.codes, load.ids, tags=load.tags)
            else:
                found.add(load.codes, load.ids, tags=load.tags)
        if "model" in found.about and not load.about:
            note(f"{data}: taken as codes of the model of {index}, as codes do not tell theirs")
        _write(found, index)


@app.command()
def remove(
    index: IndexName,
    ids: Annotated[str, typer.Option(metavar="SPEC", help="Ids to forget.")],
    engine: Engine = None,
) -> None:
    """Remove codes from an index by their ids.

    \b
    Example:
      bridgehash index remove photos.bhi --ids gone.npy
    """
    with _opened(index, engine) as found:
        n = found.remove(_whole(read_labels(ids), ids))
        _write(found, index)
    show_fields([("removed", counted(n, "code"))])


@app.command()
def info(index: IndexName, engine: Engine = None, as_json: Json = False) -> None:
    """Tell what an index holds.

    \b
    Example:
      bridgehash index info photos.bhi
    """
    with _opened(index, engine, memory_map=True) as found:
        place: dict[str, str | int]
        if isinstance(found, HammingIndex):
            place = {"file": index, "file_size": Path(index).stat().st_size}
        else:
            place = {"engine": found.place, "name": index, "search": found.search_mode}
        record = {**place, "codes": len(found), "n_bits": found.n_bits, **found.about}
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        show_fields([(name, str(value)) for name, value in record.items()])


def search(
    index: IndexName,
    queries: Annotated[
        str, typer.Argument(metavar="QUERIES", help="Packed codes; with --model, features.")
    ],
    model: ModelFile = None,
    domain: OneDomain = None,
    k: K = 10,
    tag: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at codes of this tag only.")
    ] = None,
    rerank: Rerank = False,
    engine: Engine = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Search exactly an index that was built approximate.")
    ] = False,
    out: ResultsOut = None,
    as_json: Json = False,
) -> None:
    """Find the nearest codes of an index.

    \b
    Example:
      bridgehash search photos.bhi sketches.npy --model model.bh --domain target -k 5
      bridgehash search photos sketches.npy --model model.bh --domain target \\
        --engine postgresql://localhost/shop --tag shoes
    """
    path = None if out is None else check_output(out, (".npz", ".parquet", ".json"))
    if rerank and model is None:
        raise InputError("--rerank: needs the queries' projections; give --model and features")
    if exact and engine is None:
        raise InputError("--exact: belongs to --engine; an index file is searched exactly anyway")
    if rerank and engine is not None:
        raise InputError("--rerank: works on an index file only; drop it or --engine")
    with _opened(index, engine, memory_map=True, exact=exact) as found:
        asked = _codes(queries, model, domain, found.n_bits)
        check_same_model(found.about, asked.about, index, model)
        H = _projections(queries, model, domain) if rerank and model is not None else None
        started = perf_counter()
        with _explained():
            if isinstance(found, HammingIndex):
                distances, ids = found.search(asked.codes, k, tag=tag, rerank=H)
            else:
                distances, ids = found.search(asked.codes, k, tag=tag)
        seconds = perf_counter() - started
    if as_json:
        print(json.dumps(records(distances, ids), indent=2))
    elif path is None:
        show_found(distances, ids)
    if path is not None:
        with writing(path):
            write_found(path, distances, ids)
        speed = f"{seconds:.2f} s, {len(ids) / max(seconds, 1e-9):.0f} queries/s"
        show_fields([("queries", str(len(ids))), ("time", speed), ("written", str(path))])


@contextmanager
def _opened(
    index: str, engine: str | None, *, memory_map: bool = False, exact: bool = False
) -> Iterator[HammingIndex | EngineIndex]:
    """The index of a file, or of a server, which is let go at the end."""
    if engine is None:
        yield HammingIndex.load(index, memory_map=memory_map)
        return
    with open_index(engine, index, search="exact" if exact else None) as found:
        yield found


def _load(
    data: str,
    model: Path | None,
    domain: Domain | None,
    bits: int | None,
    ids: str | None,
    tags: str | None,
) -> Load:
    """Codes with their ids and tags."""
    load = _codes(data, model, domain, bits)
    n = len(load.codes)
    numbers = None if ids is None else _whole(read_row_labels(ids, n, data, "id"), ids)
    texts = None if tags is None else read_row_labels(tags, n, data, "tag").astype(str)
    return load._replace(ids=numbers, tags=None if texts is None else texts.astype(object))


def _codes(data: str, model: Path | None, domain: Domain | None, bits: int | None) -> Load:
    """Packed codes, their length, and what is known of where they come from."""
    if model is None:
        if domain is not None:
            raise InputError("--domain: belongs to --model; packed codes have none")
        codes = read_codes(data)
        return Load(codes, bits or 8 * codes.shape[1], {})
    encoder = encoder_of(load_model(model), model, domain, "--domain")
    if bits is not None and bits != encoder.n_bits:
        raise InputError(f"{model}: makes codes of {encoder.n_bits} bits, not {bits}")
    codes = encode_rows(encoder, read_rows(data, encoder, model), "encode")
    return Load(codes, encoder.n_bits, origin(model, domain))


def _projections(data: str, model: Path, domain: Domain | None) -> NDArray[Any]:
    encoder = encoder_of(load_model(model), model, domain, "--domain")
    return encoder.decision_function(read_rows(data, encoder, model))


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


def _in_memory(load: Load) -> HammingIndex:
    index = HammingIndex(load.n_bits).add(load.codes, load.ids, tags=load.tags)
    index.about = load.about
    return index


def _write(index: HammingIndex | EngineIndex, name: str) -> None:
    """Save what is a file, and tell what is where."""
    if isinstance(index, HammingIndex):
        with writing(name):
            index.save(name)
        place = f"{name} ({decimal(Path(name).stat().st_size)})"
    else:
        place = f"{name} at {index.place}"
    codes = f"{len(index)} of {counted(index.n_bits, 'bit')}"
    show_fields([("codes", codes), ("written", place)])


_BATCH = 100_000  # codes in one transaction
_LOADING = "_loading"  # ends the name of an index that is not complete


class Load(NamedTuple):
    """Codes on their way into an index, and what is known of them."""

    codes: NDArray[np.uint8]
    n_bits: int
    about: dict[str, str]
    ids: NDArray[np.int64] | None = None
    tags: NDArray[Any] | None = None


def check_free(url: str, name: str, *, replace: bool) -> None:
    """Refuse a name that is taken, before any work is done."""
    check_name(name + _LOADING)
    if index_exists(url, name) and not replace:
        raise InputError(
            f"{parse_url(url).shown}: {name} is there already; give --replace, or another --out"
        )


def build_on_server(
    url: str, name: str, load: Load, *, approximate: bool, replace: bool
) -> EngineIndex:
    """A new index, which gets its name when it is complete.

    What a build that was killed has left is dropped by the next one.
    """
    index = create_index(
        url,
        name + _LOADING,
        load.n_bits,
        search="approximate" if approximate else "exact",
        about=load.about,
        replace=True,
    )
    try:
        load_codes(index, load)
        index.finish()
        index.rename(name, replace=replace)
    except BaseException:
        with index, suppress(EngineError):  # the first failure is the one to tell
            index.drop()
        raise
    return index


def load_codes(index: EngineIndex, load: Load, *, replace: bool = False) -> None:
    """Add codes, or put them in place of others; all of them, or where possible none."""
    first = index.next_id() if load.ids is None else 0
    batch = checked_batch(load.codes, load.ids, load.tags, index.n_bits, first)
    n, put = len(batch.ids), index.upsert if replace else index.add
    done = 0
    with countdown("load", visible=may_animate() and n > _BATCH) as reach:
        try:
            while done < n:
                rows = slice(done, done + _BATCH)
                tags = None if batch.tags is None else batch.tags[rows]
                put(batch.codes[rows], batch.ids[rows], tags=tags)
                done = min(done + _BATCH, n)
                reach(done, n)
        except BaseException as error:
            if done:
                _take_back(index, batch.ids[:done], n, error, replaced=replace)
            raise


def _take_back(
    index: EngineIndex, ids: NDArray[np.int64], n: int, error: BaseException, *, replaced: bool
) -> None:
    """Leave an index as it was before a load that failed, or say what is in it."""
    if replaced:
        raise InputError(
            f"{error}; {len(ids)} of {n} codes are in the index: the same command does the rest"
        ) from error
    try:
        index.remove(ids)
    except EngineError:
        raise InputError(
            f"{error}; {len(ids)} of {n} codes are in the index, ids {ids[0]} to {ids[-1]}: "
            "remove them, or give --ids and --replace"
        ) from error


_SHOWN = 20  # queries on the terminal

Distances = NDArray[np.int32]


def records(distances: Distances, ids: NDArray[np.int64]) -> list[dict[str, list[int]]]:
    """One record a query, nearest first."""
    return [
        {"ids": i[i >= 0].tolist(), "distances": d[i >= 0].tolist()}
        for d, i in zip(distances, ids, strict=True)
    ]


def show_found(distances: Distances, ids: NDArray[np.int64]) -> None:
    """The first queries, one a line."""
    rows = [
        (str(i), " ".join(f"{id_}:{d}" for id_, d in zip(*pair, strict=True) if id_ >= 0))
        for i, pair in enumerate(zip(ids[:_SHOWN], distances[:_SHOWN], strict=True))
    ]
    show_table(("query", "id:distance, nearest first"), rows)


def write_found(path: Path, distances: Distances, ids: NDArray[np.int64]) -> None:
    """All queries, in the form that the name of the file asks for."""
    suffix = path.suffix.lower()
    with atomic_write(path) as temporary:
        if suffix == ".json":
            temporary.write_text(json.dumps(records(distances, ids)), encoding="utf-8")
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
