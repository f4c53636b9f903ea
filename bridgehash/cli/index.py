"""`bridgehash index`: build and change an index of codes, in a file or on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.filesize import decimal

from bridgehash._core.errors import EngineError, InputError, named
from bridgehash._core.progress import countdown
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, may_animate, note, show_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bridgehash.index import HammingIndex
    from bridgehash.index.servers import EngineIndex

_SUFFIXES = (".bhi",)
_BATCH = 100_000  # codes per transaction
_LOADING = "_loading"  # suffix of the name of an incomplete index

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Rows = Annotated[
    str, typer.Argument(metavar="DATA", help="Packed codes; with --model, features to encode.")
]
IndexOut = Annotated[
    str,
    typer.Option("--out", help="Index to write: *.bhi; with --engine, a table or collection."),
]
Ids = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Whole numbers, one per row. Default: 0, 1, ...")
]
ReplacedIds = Annotated[
    str, typer.Option("--ids", metavar="SPEC", help="Whole numbers, one per row.")
]
RemovedIds = Annotated[str, typer.Option("--ids", metavar="SPEC", help="Ids to remove.")]
Tags = Annotated[
    str | None, typer.Option(metavar="SPEC", help="A text or number per row, to filter searches.")
]
IndexBits = Annotated[
    int | None,
    typer.Option(
        parser=opt.whole(1, opt.MAX_BITS), metavar="N", help="Code length, if not whole bytes."
    ),
]
BuildSearch = Annotated[
    opt.SearchKind,
    typer.Option(
        "--search",
        help="How the index is searched; approximate needs --engine (HNSW in PostgreSQL, IVF in "
        "Milvus).",
    ),
]
ReplaceIndex = Annotated[bool, typer.Option("--replace", help="Overwrite an existing index.")]


@app.callback()
def index() -> None:
    """Build an index of codes; add, replace and remove codes.

    \b
    Example:
      bridgehash index build photos.npy --model model.bh --domain source --out photos.bhi
    """


@app.command()
def build(
    data: Rows,
    out: IndexOut,
    model: opt.ModelFile = None,
    domain: opt.OneDomain = None,
    ids: Ids = None,
    tags: Tags = None,
    bits: IndexBits = None,
    engine: opt.Engine = None,
    search: BuildSearch = opt.SearchKind.exact,
    replace: ReplaceIndex = False,
) -> None:
    """Build an index of codes, or of features that a model encodes.

    \b
    Example:
      bridgehash index build photos.npy --model model.bh --domain source --out photos.bhi
      bridgehash index build codes.npy --out photos.bhi
      bridgehash index build codes.npy --out photos --engine postgresql://localhost/shop
    """
    from bridgehash.cli.io import check_output
    from bridgehash.index import HammingIndex

    if engine is not None:
        _check_free(engine, out, replace=replace)
    elif search is opt.SearchKind.approximate:
        raise InputError(
            "approximate needs --engine; an index file is searched exactly", "--search"
        )
    elif check_output(out, _SUFFIXES).exists() and not replace:
        raise InputError("exists already; use --replace to overwrite it, or another --out", out)
    codes = load_codes(data, model, domain, bits, ids, tags)
    if engine is None:
        index = HammingIndex(codes.n_bits).add(codes.codes, codes.ids, tags=codes.tags)
        index.about = codes.about
        _write(index, out)
        return
    with _build_on_server(engine, out, codes, search=search, replace=replace) as made:
        _write(made, out)


@app.command()
def add(
    index: opt.IndexName,
    data: Rows,
    model: opt.ModelFile = None,
    domain: opt.OneDomain = None,
    ids: Ids = None,
    tags: Tags = None,
    engine: opt.Engine = None,
) -> None:
    """Add codes to an index; ids that exist are refused (see `upsert`).

    \b
    Example:
      bridgehash index add photos.bhi more.npy --model model.bh --domain source
    """
    _change(index, engine, data, model, domain, ids, tags, replace=False)


@app.command()
def upsert(
    index: opt.IndexName,
    data: Rows,
    ids: ReplacedIds,
    model: opt.ModelFile = None,
    domain: opt.OneDomain = None,
    tags: Tags = None,
    engine: opt.Engine = None,
) -> None:
    """Add codes to an index; codes whose ids exist are replaced.

    \b
    Example:
      bridgehash index upsert photos.bhi new.npy --ids ids.npy --model model.bh --domain source
    """
    _change(index, engine, data, model, domain, ids, tags, replace=True)


@app.command()
def remove(index: opt.IndexName, ids: RemovedIds, engine: opt.Engine = None) -> None:
    """Remove codes from an index by their ids.

    \b
    Example:
      bridgehash index remove photos.bhi --ids gone.npy
    """
    from bridgehash.cli.io import read_labels

    with open_for(index, engine) as opened:
        n = opened.remove(_whole_numbers(read_labels(ids), ids))
        _write(opened, index)
    show_fields([("removed", counted(n, "code"))])


@app.command()
def info(index: opt.IndexName, engine: opt.Engine = None, as_json: opt.Json = False) -> None:
    """Describe an index.

    \b
    Example:
      bridgehash index info photos.bhi
    """
    record = index_record(index, engine)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        show_fields(index_fields(record))


def index_fields(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return an `index_record` as names and values to print."""
    shown = {name: str(value) for name, value in record.items() if name != "file_size"}
    if "file" in record:
        shown["file"] += f" ({decimal(record['file_size'])})"
    return list(shown.items())


def index_record(index: str, engine: str | None) -> dict[str, Any]:
    """Return what is known about an index, as JSON values."""
    from bridgehash.index import HammingIndex

    with open_for(index, engine, memory_map=True) as opened:
        place: dict[str, Any]
        if isinstance(opened, HammingIndex):
            place = {"file": index, "file_size": Path(index).stat().st_size}
        else:
            place = {"engine": opened.place, "name": index, "search": opened.search_mode}
        return {**place, "codes": len(opened), "n_bits": opened.n_bits, **opened.about}


class CodeRows(NamedTuple):
    """Codes to add or to search with."""

    codes: NDArray[np.uint8]
    n_bits: int
    about: dict[str, str]  # model and domain, if known
    ids: NDArray[np.int64] | None = None
    tags: NDArray[Any] | None = None
    projections: NDArray[Any] | None = None  # before the sign


def load_codes(
    data: str,
    model: Path | None,
    domain: opt.DomainOption | None,
    bits: int | None,
    ids: str | None = None,
    tags: str | None = None,
    *,
    with_projections: bool = False,
) -> CodeRows:
    """Read packed codes, or features to encode with a model, and their ids and tags."""
    from bridgehash import load
    from bridgehash.cli.io import encode_rows, read_codes, read_features, read_row_labels
    from bridgehash.models.provenance import encoder_of, origin

    projections = None
    if model is None:
        if domain is not None:
            raise InputError("needs --model; packed codes have no domain", "--domain")
        codes = read_codes(data)
        n_bits, about = bits or 8 * codes.shape[1], {}
    else:
        encoder = encoder_of(load(model), model, domain, "--domain")
        n_bits, about = encoder.n_bits, origin(model, domain)
        if bits is not None and bits != n_bits:
            raise InputError(f"makes codes of {n_bits} bits, not {bits}", str(model))
        X = read_features(data, encoder, model)
        codes = encode_rows(encoder, X, "encode")
        projections = encoder.decision_function(X) if with_projections else None
    n = len(codes)
    numbers = None if ids is None else _whole_numbers(read_row_labels(ids, n, data, "id"), ids)
    texts = None
    if tags is not None:
        texts = read_row_labels(tags, n, data, "tag").astype(str).astype(object)
    return CodeRows(codes, n_bits, about, numbers, texts, projections)


def _whole_numbers(ids: NDArray[Any], spec: str) -> NDArray[np.int64]:
    if ids.dtype.kind not in "iu":
        raise InputError("holds text; ids of an index are whole numbers", spec)
    return ids.astype("int64")


@contextmanager
def open_for(
    index: str,
    engine: str | None,
    *,
    memory_map: bool = False,
    search: opt.SearchKind | None = None,
) -> Iterator[HammingIndex | EngineIndex]:
    """Open the index of a file or of a server; close it at the end."""
    from bridgehash.index import HammingIndex
    from bridgehash.index.servers import open_index

    if engine is None:
        yield HammingIndex.load(index, memory_map=memory_map)
        return
    with open_index(engine, index, search=search.value if search else None) as opened:
        yield opened


def _change(
    index: str,
    engine: str | None,
    data: str,
    model: Path | None,
    domain: opt.DomainOption | None,
    ids: str | None,
    tags: str | None,
    *,
    replace: bool,
) -> None:
    """Add or upsert codes of the same model and domain."""
    from bridgehash.index import HammingIndex
    from bridgehash.models.provenance import check_same_domain, check_same_model

    with open_for(index, engine) as opened:
        codes = load_codes(data, model, domain, opened.n_bits, ids, tags)
        check_same_model(opened.about, codes.about, index, model)
        check_same_domain(opened.about, codes.about, index)
        if not isinstance(opened, HammingIndex):
            _load_in_batches(opened, codes, replace=replace)
        elif replace and codes.ids is not None:
            opened.upsert(codes.codes, codes.ids, tags=codes.tags)
        else:
            opened.add(codes.codes, codes.ids, tags=codes.tags)
        if "model" in opened.about and not codes.about:
            note(f"{data}: packed codes do not name their model; assuming the model of {index}")
        _write(opened, index)


def _write(index: HammingIndex | EngineIndex, name: str) -> None:
    """Save an index file, and print what was written."""
    from bridgehash.index import HammingIndex

    if isinstance(index, HammingIndex):
        with named(name, writing=True):
            index.save(name)
        place = f"{name} ({decimal(Path(name).stat().st_size)})"
    else:
        place = f"{name} at {index.place}"
    show_fields([("codes", f"{len(index)} of {counted(index.n_bits, 'bit')}"), ("written", place)])


def _check_free(url: str, name: str, *, replace: bool) -> None:
    """Refuse the name of an existing index, before any work."""
    from bridgehash.index.servers import index_exists
    from bridgehash.index.servers.base import check_name, parse_url

    check_name(name + _LOADING)
    if index_exists(url, name) and not replace:
        raise InputError(
            f"exists already at {parse_url(url).shown}; use --replace to overwrite it, or another "
            "--out",
            name,
        )


def _build_on_server(
    url: str, name: str, codes: CodeRows, *, search: opt.SearchKind, replace: bool
) -> EngineIndex:
    """Build an index under a temporary name, and rename it when it is complete.

    The next build drops what a killed build has left.
    """
    from bridgehash.index.servers import create_index

    index = create_index(
        url,
        name + _LOADING,
        codes.n_bits,
        search=search.value,
        about=codes.about,
        replace=True,
    )
    try:
        _load_in_batches(index, codes)
        index.finish()
        index.rename(name, replace=replace)
    except BaseException:
        with index, suppress(EngineError):  # report the first failure
            index.drop()
        raise
    return index


def _load_in_batches(index: EngineIndex, codes: CodeRows, *, replace: bool = False) -> None:
    """Add or upsert codes; after a failure the index is restored if possible."""
    from bridgehash.index.batch import checked_batch

    first = index.next_id() if codes.ids is None else 0
    batch = checked_batch(codes.codes, codes.ids, codes.tags, index.n_bits, first)
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
    """Remove the codes of a load that failed, or report what was loaded."""
    loaded = f"{error}; {len(ids)} of {n} codes were loaded"
    if replaced:
        raise InputError(f"{loaded}: run the same command again for the rest") from error
    try:
        index.remove(ids)
    except EngineError:
        raise InputError(
            f"{loaded}, ids {ids[0]} to {ids[-1]}: remove them, or use `index upsert` with --ids"
        ) from error
