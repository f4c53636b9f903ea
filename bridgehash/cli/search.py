"""`bridgehash search`: find the nearest codes of an index."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridgehash._core.errors import InputError, named
from bridgehash._core.files import atomic_write
from bridgehash.cli import options as opt
from bridgehash.cli.console import note, show_fields, show_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHOWN = 20  # queries on the terminal

QueryRows = Annotated[
    str, typer.Argument(metavar="QUERIES", help="Packed codes; with --model, features to encode.")
]
K = Annotated[
    int,
    typer.Option(
        "-k",
        parser=opt.whole(1),
        metavar="N",
        help="Number of nearest codes per query, at most all.",
    ),
]
TagsWanted = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TEXT", help="Search codes with this tag only; repeatable."),
]


class MatchKind(StrEnum):
    """How several tags are matched."""

    any = "any"
    all = "all"


MatchWanted = Annotated[
    MatchKind, typer.Option("--match", help="Codes must have any of the tags, or all.")
]
InDomain = Annotated[
    str | None,
    typer.Option("--in-domain", metavar="NAME", help="Search codes of this domain only."),
]
Rerank = Annotated[
    bool,
    typer.Option(
        "--rerank", help="Rank by real-valued queries, not by Hamming distance; needs --model"
    ),
]
ServerSearch = Annotated[
    opt.SearchKind | None,
    typer.Option(
        "--search",
        help="exact searches an approximate index exactly; needs --engine. Default: as built.",
    ),
]
ResultsOut = Annotated[
    Path | None, typer.Option("--out", help="File to write: *.npz, *.parquet or *.json")
]


def search(
    index: opt.IndexName,
    queries: QueryRows,
    model: opt.ModelFile = None,
    domain: opt.OneDomain = None,
    k: K = 10,
    tag: TagsWanted = None,
    match: MatchWanted = MatchKind.any,
    in_domain: InDomain = None,
    rerank: Rerank = False,
    engine: opt.Engine = None,
    search: ServerSearch = None,
    out: ResultsOut = None,
    as_json: opt.Json = False,
) -> None:
    """Find the nearest codes of an index.

    \b
    Example:
      bridgehash search photos.bhi sketches.npy --model model.bh --domain target -k 5
      bridgehash search photos sketches.npy --model model.bh --domain target \\
        --engine postgresql://localhost/shop --tag shoes --tag red --match all
    """
    from bridgehash.cli.index import load_codes, open_for
    from bridgehash.cli.io import check_output
    from bridgehash.index import HammingIndex
    from bridgehash.index.ids import is_id
    from bridgehash.models.provenance import check_same_space

    path = None if out is None else check_output(out, (".npz", ".parquet", ".json"))
    if domain is not None and model is None:
        raise InputError("needs --model; packed codes have no domain", "--domain")
    if rerank and model is None:
        raise InputError("needs --model and features, to compute projections", "--rerank")
    if rerank and engine is not None:
        raise InputError("works with an index file only; drop it or --engine", "--rerank")
    if search and engine is None:
        raise InputError("needs --engine; an index file is always searched exactly", "--search")
    with open_for(index, engine, search) as opened:
        query = load_codes(queries, model, domain, opened.n_bits, with_weights=rerank)
        check_same_space(opened.about, query.about, index)
        n = len(opened)
        k = max(1, min(k, n))  # room for more would stay empty
        started = perf_counter()
        result: tuple[NDArray[Any], NDArray[Any]]
        filters: Any = {"tags": tag or None, "match": match.value, "domain": in_domain}
        if isinstance(opened, HammingIndex):
            result = opened.search(query.codes, k, **filters, weights=query.weights)
        else:
            result = opened.search(query.codes, k, **filters)
        seconds = perf_counter() - started
    distances, ids = result
    if n == 0:
        note(f"{index} holds no codes")
    elif not is_id(ids).any():
        note(f"no code of {index} {_wanted(tag, match, in_domain)}")
    if as_json:
        print(json.dumps(_records(distances, ids), indent=2))
    elif path is None and is_id(ids).any():
        _show(distances, ids)
    if path is not None:
        with named(path, writing=True):
            _write(path, distances, ids)
        speed = f"{seconds:.2f} s, {len(ids) / max(seconds, 1e-9):.0f} queries/s"
        show_fields([("queries", str(len(ids))), ("time", speed), ("written", str(path))])


def _wanted(tags: list[str] | None, match: MatchKind, domain: str | None) -> str:
    """Return what codes were searched, for a message."""
    joint = " or " if match is MatchKind.any else " and "
    noun = "tag" if len(tags or []) == 1 else "tags"
    parts = [f"has the {noun} {joint.join(map(repr, tags))}"] if tags else []
    return " and ".join([*parts, *([f"is of the domain {domain!r}"] if domain is not None else [])])


def _records(distances: NDArray[Any], ids: NDArray[Any]) -> list[dict[str, list[Any]]]:
    """Return one record per query, nearest first."""
    from bridgehash.index.ids import is_id

    return [
        {"ids": i[is_id(i)].tolist(), "distances": d[is_id(i)].tolist()}
        for d, i in zip(distances, ids, strict=True)
    ]


def _show(distances: NDArray[Any], ids: NDArray[Any]) -> None:
    """Print the first queries, one per line."""
    rows = []
    for i, record in enumerate(_records(distances[:_SHOWN], ids[:_SHOWN])):
        pairs = zip(record["ids"], record["distances"], strict=True)
        rows.append((str(i), " ".join(f"{id_}:{distance:g}" for id_, distance in pairs)))
    show_table(("query", "id:distance, nearest first"), rows)
    if len(ids) > _SHOWN:
        note(f"showing {_SHOWN} of {len(ids)} queries; use --out or --json for all")


def _write(path: Path, distances: NDArray[Any], ids: NDArray[Any]) -> None:
    """Write all queries, in the format of the file name."""
    import numpy as np

    from bridgehash.index.ids import is_id

    suffix, found = path.suffix.lower(), is_id(ids)
    with atomic_write(path) as temporary:
        if suffix == ".json":
            temporary.write_text(json.dumps(_records(distances, ids)), encoding="utf-8")
        elif suffix == ".npz":
            plain = ids if ids.dtype != object else np.where(found, ids, "").astype(str)
            with open(temporary, "wb") as file:
                np.savez(file, ids=plain, distances=distances)
        else:
            from bridgehash.streaming.formats import arrow

            pa = arrow()
            columns = {
                "query": np.repeat(np.arange(len(ids)), ids.shape[1]),
                "id": pa.array(ids.ravel()),
                "distance": distances.ravel(),
            }
            pa.parquet.write_table(pa.table(columns).filter(pa.array(found.ravel())), temporary)
