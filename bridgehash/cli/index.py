"""`bridgehash index`: build and change an index of codes, in a file or on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.filesize import decimal

from bridgehash._core.errors import InputError, named
from bridgehash._core.progress import countdown
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, may_animate, note, show_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bridgehash.index import HammingIndex, IndexStore
    from bridgehash.index.servers import EngineIndex

_SUFFIXES = (".bhi",)
_MANY = 100_000  # codes: from here on a progress bar shows that they are sent
_WAIT = 5.0  # seconds for another process that changes the same index file

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Rows = Annotated[
    str, typer.Argument(metavar="DATA", help="Packed codes; with --model, features to encode.")
]
IndexOut = Annotated[
    str,
    typer.Option("--out", help="Index to write: *.bhi; with --engine, a table or collection."),
]
Ids = Annotated[
    str | None,
    typer.Option(metavar="SPEC", help="Whole numbers or texts, one per row. Default: 0, 1, ..."),
]
ReplacedIds = Annotated[
    str | None,
    typer.Option(
        "--ids",
        metavar="SPEC",
        help="Whole numbers or texts, one per row; an exported index has ids.",
    ),
]
RemovedIds = Annotated[str, typer.Option("--ids", metavar="SPEC", help="Ids to remove.")]
Tags = Annotated[
    list[str] | None,
    typer.Option(metavar="SPEC", help="A text or number per row, to filter searches; repeatable."),
]
RowsDomain = Annotated[
    str | None,
    typer.Option(
        "--domain",
        metavar="NAME",
        help="Domain of the rows, stored with each code. Of a two-domain model: source or target.",
    ),
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
ParquetOut = Annotated[
    Path, typer.Argument(metavar="FILE", help="File to write: *.parquet; an old one is replaced.")
]
ReplaceIndex = Annotated[bool, typer.Option("--replace", help="Overwrite an existing index.")]


@app.callback()
def index() -> None:
    """Build an index of codes; add, replace and remove codes.

    \b
    Example:
      bridgehash index build demo/digits.npz:source --model model.bh --domain source \\
        --out digits.bhi
    """


@app.command()
def build(
    data: Rows,
    out: IndexOut,
    model: opt.ModelFile = None,
    domain: RowsDomain = None,
    ids: Ids = None,
    tags: Tags = None,
    bits: IndexBits = None,
    engine: opt.Engine = None,
    search: BuildSearch = opt.SearchKind.exact,
    replace: ReplaceIndex = False,
    corrections: opt.Corrections = None,
) -> None:
    """Build an index of codes, or of features that a model encodes.

    \b
    Example:
      bridgehash index build demo/digits.npz:source --model model.bh --domain source \\
        --out digits.bhi
      bridgehash index build codes.npy --out plain.bhi
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
    elif not replace and _has_content(check_output(out, _SUFFIXES)):
        raise InputError("exists already; use --replace to overwrite it, or another --out", out)
    if engine is None:
        options = (model, domain, ids, tags, bits, corrections)
        if _is_exported(data) and not any(option is not None for option in options):
            index = HammingIndex.from_parquet(data)
        else:
            codes = load_codes(data, model, domain, bits, ids, tags, corrections=corrections)
            index = codes.as_index()
        with named(out, writing=True):
            index.save(out, overwrite=replace)
        _show_written(index, out)
        return
    codes = load_codes(data, model, domain, bits, ids, tags, corrections=corrections)
    with _build_on_server(engine, out, codes, search=search, replace=replace) as made:
        _show_written(made, out)


@app.command()
def add(
    index: opt.IndexName,
    data: Rows,
    model: opt.ModelFile = None,
    domain: RowsDomain = None,
    ids: Ids = None,
    tags: Tags = None,
    engine: opt.Engine = None,
    corrections: opt.Corrections = None,
) -> None:
    """Add codes to an index; ids that exist are refused (see `upsert`).

    \b
    Example:
      bridgehash index add digits.bhi demo/digits.npz:target --model model.bh --domain target
    """
    _change(index, engine, data, model, domain, ids, tags, corrections, replace=False)


@app.command()
def upsert(
    index: opt.IndexName,
    data: Rows,
    ids: ReplacedIds = None,
    model: opt.ModelFile = None,
    domain: RowsDomain = None,
    tags: Tags = None,
    engine: opt.Engine = None,
    corrections: opt.Corrections = None,
) -> None:
    """Add codes to an index; codes whose ids exist are replaced.

    \b
    Example:
      bridgehash index upsert digits.bhi demo/digits.npz:query --ids demo/digits.npz:ids \\
        --model model.bh --domain target
    """
    _change(index, engine, data, model, domain, ids, tags, corrections, replace=True)


@app.command()
def remove(index: opt.IndexName, ids: RemovedIds, engine: opt.Engine = None) -> None:
    """Remove codes from an index by their ids.

    \b
    Example:
      bridgehash index remove digits.bhi --ids demo/digits.npz:ids
    """
    from bridgehash.cli.io import read_ids

    given = _as_ids(read_ids(ids))
    with _open_to_change(index, engine) as opened:
        n = opened.remove(given)
        _show_written(opened, index)
    show_fields([("removed", counted(n, "code"))])


@app.command()
def export(index: opt.IndexName, out: ParquetOut) -> None:
    """Write an index file to Parquet, for other programs; `build` reads it back.

    \b
    Example:
      bridgehash index export digits.bhi digits.parquet
      bridgehash index build digits.parquet --out copy.bhi
    """
    from bridgehash.cli.io import check_output
    from bridgehash.index import HammingIndex

    path = check_output(out, (".parquet",))
    opened = HammingIndex.load(index, memory_map=True)
    opened.to_parquet(path)
    _show_written(opened, str(path))


@app.command()
def info(index: opt.IndexName, engine: opt.Engine = None, as_json: opt.Json = False) -> None:
    """Describe an index.

    \b
    Example:
      bridgehash index info digits.bhi
    """
    record = index_record(index, engine)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        show_fields(index_fields(record))


def index_fields(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return an `index_record` as names and values to print."""
    shown = {name: str(value) for name, value in record.items() if name != "file_size"}
    counts = [f"{name or 'none'} {n}" for name, n in record["domains"].items()]
    shown["domains"] = ", ".join(counts)
    shown["corrections"] = "yes" if record["corrections"] else "no"
    if "file" in record:
        shown["file"] += f" ({decimal(record['file_size'])})"
    return list(shown.items())


def index_record(index: str, engine: str | None) -> dict[str, Any]:
    """Return what is known about an index, as JSON values."""
    from bridgehash.index import HammingIndex

    with open_for(index, engine) as opened:
        place: dict[str, Any]
        if isinstance(opened, HammingIndex):
            place = {"file": index, "file_size": Path(index).stat().st_size}
        else:
            place = {"engine": opened.place, "name": index, "search": opened.search_mode}
        return {
            **place,
            "codes": len(opened),
            "n_bits": opened.n_bits,
            "ids": opened.id_kind,
            "corrections": opened.has_corrections,
            **opened.about,
            "domains": opened.domains,
        }


class CodeRows(NamedTuple):
    """Codes to add or to search with."""

    codes: NDArray[np.uint8]
    n_bits: int
    about: dict[str, str]  # model and domain, if known
    ids: NDArray[Any] | None = None
    tags: list[tuple[str, ...]] | None = None
    domain: str | list[str] | None = None
    weights: NDArray[Any] | None = None  # of bits, for queries
    corrections: NDArray[np.float16] | None = None  # (n, 2), NaN where there are none
    suit_corrections: bool = False  # they are stored by default
    by_projections: bool = False  # weights do not suit corrections: the model is an older one
    rejected: NDArray[np.bool_] | None = None  # (n,) queries without a counterpart, if known

    def misses_some(self) -> bool:
        """Return whether some codes have corrections, but not all."""
        import numpy as np

        return self.corrections is not None and bool(np.isnan(self.corrections).any())

    def as_index(self) -> HammingIndex:
        """Return an index of these codes."""
        from bridgehash.index import HammingIndex
        from bridgehash.index.batch import checked_batch

        index = HammingIndex(self.n_bits)
        batch = checked_batch(
            self.codes,
            self.ids,
            self.tags,
            self.domain,
            self.n_bits,
            corrections=self.corrections,
            may_miss=True,
        )
        index.apply([batch])
        index.about = self.about
        return index


def load_codes(
    data: str,
    model: Path | None,
    domain: str | None,
    bits: int | None,
    ids: str | None = None,
    tags: list[str] | None = None,
    *,
    corrections: bool | None = None,
    as_index_has: bool | None = None,
    with_weights: bool = False,
    with_rejection: bool = False,
) -> CodeRows:
    """Read packed codes, or features to encode with a model, and their ids and tags.

    An index that was exported to Parquet has ids, tags and domains, which options replace.

    Parameters
    ----------
    corrections : bool, optional
        Whether corrections are wanted: they must be there, or are left out. By default, if the
        index to change has some (`as_index_has`); if there is none, as the model or the file says.
    """
    from bridgehash.cli.io import (
        check_decoder,
        encode_corrected_rows,
        encode_rows,
        read_codes,
        read_corrections,
        read_features,
        read_origin,
        read_row_ids,
        read_row_labels,
    )
    from bridgehash.index import HammingIndex

    weights, exported, numbers, suit, by_projections = None, None, None, False, False
    rejected = None
    wanted = as_index_has if corrections is None else corrections
    if model is None and _is_exported(data):
        exported = HammingIndex.from_parquet(data)
        codes, n_bits, about = exported.get(exported.ids).codes, exported.n_bits, exported.about
        if bits is not None and bits != n_bits:
            raise InputError(f"holds codes of {n_bits} bits, not {bits}", data)
        numbers = None if corrections is False else exported.corrections
    elif model is None:
        codes = read_codes(data)
        numbers = None if corrections is False else read_corrections(data, len(codes))
        about = read_origin(data)
        n_bits = bits or int(about.get("n_bits", 8 * codes.shape[1]))
        domain = domain or about.get("domain")
    else:
        from bridgehash import load  # packed codes need no scikit-learn
        from bridgehash.models.provenance import encoder_of, origin

        loaded = load(model)
        encoder = encoder_of(loaded, model, domain, "--domain")
        n_bits, about = encoder.n_bits, origin(loaded, domain)
        if bits is not None and bits != n_bits:
            raise InputError(f"makes codes of {n_bits} bits, not {bits}", str(model))
        X = read_features(data, encoder, model)
        suit = loaded.stores_corrections
        if corrections:
            check_decoder(encoder, model)
        if encoder.decoder_ is not None and (suit if wanted is None else wanted):
            codes, numbers = encode_corrected_rows(encoder, X, "encode")
        else:
            codes = encode_rows(encoder, X, "encode")
        if with_weights:
            by_projections = encoder.decoder_ is None
            weights = encoder.decision_function(X) if by_projections else encoder.query_weights(X)
        if with_rejection and domain in (getattr(loaded, "rejectors_", None) or {}):
            rejected = loaded.rejects(X, domain)
    if corrections and numbers is None:
        raise InputError("has no corrections; encode the rows with --corrections first", data)
    suit = suit or numbers is not None
    if wanted is False:
        numbers = None
    n = len(codes)
    given = None if ids is None else _as_ids(read_row_ids(ids, n, data))
    texts = None
    if tags:
        columns = [read_row_labels(spec, n, data, "tag").astype(str).tolist() for spec in tags]
        texts = list(zip(*columns, strict=True))
    rows = CodeRows(
        codes, n_bits, about, given, texts, domain, weights, numbers, suit, by_projections, rejected
    )
    if exported is None:
        return rows
    _, own_tags, own_domains = exported.get(exported.ids)
    return rows._replace(
        ids=exported.ids if given is None else given,
        tags=own_tags if texts is None else texts,
        domain=own_domains if domain is None else domain,
    )


def codes_origin(data: str) -> dict[str, str] | None:
    """Return where the codes of a file come from; None if it does not say that it holds codes."""
    from bridgehash.cli.io import read_origin
    from bridgehash.index.parquet import read_info

    info = read_info(data) if _is_exported(data) else None
    about = read_origin(data) if info is None else info.about
    return about if "code_space" in about else None


def _is_exported(data: str) -> bool:
    """Return whether a file is an index in Parquet."""
    from bridgehash.index.parquet import read_info

    path = Path(data)
    return path.suffix.lower() == ".parquet" and path.is_file() and read_info(path) is not None


def _as_ids(labels: NDArray[Any]) -> NDArray[Any]:
    return labels.astype("int64" if labels.dtype.kind in "iu" else object)


@contextmanager
def open_for(
    index: str,
    engine: str | None,
    search: opt.SearchKind | None = None,
) -> Iterator[HammingIndex | EngineIndex]:
    """Open the index of a file or of a server for reading; close it at the end."""
    from bridgehash.index import HammingIndex
    from bridgehash.index.servers import open_index

    if engine is None:
        yield HammingIndex.load(index, memory_map=True)
        return
    with open_index(engine, index, search=search.value if search else None) as opened:
        yield opened


def _change(
    index: str,
    engine: str | None,
    data: str,
    model: Path | None,
    domain: str | None,
    ids: str | None,
    tags: list[str] | None,
    corrections: bool | None,
    *,
    replace: bool,
) -> None:
    """Add or upsert codes of the same model, with corrections if the index has some."""
    from bridgehash.models.provenance import check_same_space

    with _open_to_change(index, engine) as opened:
        known = _index_of(opened)
        about, has = known.about, known.has_corrections
        codes = load_codes(
            data,
            model,
            domain,
            known.n_bits,
            ids,
            tags,
            corrections=corrections,
            as_index_has=has if has or engine or len(known) else None,
        )
        check_same_space(about, codes.about, index)
        if codes.misses_some():
            raise InputError(
                "some of its codes have no corrections; build an index from it, or use "
                "--no-corrections",
                data,
            )
        more: Any = {"tags": codes.tags, "domain": codes.domain, "corrections": codes.corrections}
        if replace:
            if codes.ids is None:
                raise InputError("is needed: the ids of the rows to replace or add", "--ids")
            opened.upsert(codes.codes, codes.ids, **more)
        else:
            opened.add(codes.codes, codes.ids, **more)
        if codes.suit_corrections and codes.corrections is None and corrections is None:
            note(f"{index} has no corrections, so none were added; build it again to store them")
        if "code_space" in about and "code_space" not in codes.about:
            note(f"{data}: packed codes do not name their model; assuming the model of {index}")
        _show_written(opened, index)


def _open_to_change(index: str, engine: str | None) -> IndexStore | EngineIndex:
    """Open an index for changes, as its only writer if it is a file."""
    from bridgehash.index import IndexStore
    from bridgehash.index.servers import open_index

    return IndexStore.open(index, wait=_WAIT) if engine is None else open_index(engine, index)


def _index_of(opened: IndexStore | EngineIndex) -> HammingIndex | EngineIndex:
    from bridgehash.index import IndexStore

    return opened.index if isinstance(opened, IndexStore) else opened


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0  # an empty file is a build that was killed


def _show_written(opened: HammingIndex | IndexStore | EngineIndex, name: str) -> None:
    """Print what was written; a store is closed first, which writes its file."""
    from bridgehash.index import HammingIndex, IndexStore

    if isinstance(opened, IndexStore):
        opened.close()
    index = opened.index if isinstance(opened, IndexStore) else opened
    if isinstance(index, HammingIndex):
        place = f"{name} ({decimal(Path(name).stat().st_size)})"
    else:
        place = f"{name} at {index.place}"
    codes = f"{len(index)} of {counted(index.n_bits, 'bit')}"
    if index.has_corrections:
        codes += ", with corrections"
    show_fields([("codes", codes), ("written", place)])


def _check_free(url: str, name: str, *, replace: bool) -> None:
    """Refuse the name of an existing index, before any work."""
    from bridgehash.index.servers import index_exists
    from bridgehash.index.servers.base import parse_url

    if index_exists(url, name) and not replace:
        raise InputError(
            f"exists already at {parse_url(url).shown}; use --replace to overwrite it, or another "
            "--out",
            name,
        )


def _build_on_server(
    url: str, name: str, codes: CodeRows, *, search: opt.SearchKind, replace: bool
) -> EngineIndex:
    """Build an index on a server, with a progress bar if it is large."""
    from bridgehash.index.servers import build_index

    with countdown("load", visible=may_animate() and len(codes.codes) > _MANY) as reach:
        return build_index(
            url,
            name,
            codes.n_bits,
            codes.codes,
            codes.ids,
            tags=codes.tags,
            domain=codes.domain,
            corrections=codes.corrections,
            may_miss=True,
            search=search.value,
            about=codes.about,
            replace=replace,
            reach=reach,
        )
