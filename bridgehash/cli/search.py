"""`bridgehash search`: find the nearest codes of an index."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from bridgehash._core.errors import InputError, named
from bridgehash._core.files import atomic_write
from bridgehash.cli import options as opt
from bridgehash.cli.console import note, show_fields, show_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridgehash.cli.index import CodeRows
    from bridgehash.index import HammingIndex
    from bridgehash.index.servers import EngineIndex

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
Hamming = Annotated[
    bool,
    typer.Option(
        "--hamming",
        help="Rank by Hamming distance. With --model the default is the estimated distance.",
    ),
]
NCandidates = Annotated[
    Any,
    typer.Option(
        "--candidates",
        parser=lambda text: text if text == "auto" else opt.whole(1)(text),
        metavar="N|auto",
        help="Estimate distances of the N nearest codes by Hamming distance only; auto measures "
        "how many are needed. Default: all codes of a file; on a server 3000, or 10 k if that is "
        "more.",
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
    hamming: Hamming = False,
    candidates: NCandidates = None,
    engine: opt.Engine = None,
    search: ServerSearch = None,
    out: ResultsOut = None,
    as_json: opt.Json = False,
) -> None:
    """Find the nearest codes of an index.

    With --model, each bit counts as much as the features of the query say, and with corrections in
    the index the score of a code estimates the distance of the rows. Packed codes are ranked by
    Hamming distance.

    \b
    Example:
      bridgehash search digits.bhi demo/digits.npz:query --model model.bh --domain target -k 5
      bridgehash search photos sketches.npy --model model.bh --domain target \\
        --engine postgresql://localhost/shop --tag shoes --tag red --match all
    """
    from bridgehash.cli.index import load_codes, open_for
    from bridgehash.cli.io import check_output
    from bridgehash.index.ids import is_id
    from bridgehash.models.provenance import check_same_space

    path = None if out is None else check_output(out, (".npz", ".parquet", ".json"))
    if domain is not None and model is None:
        raise InputError("needs --model; packed codes have no domain", "--domain")
    if candidates is not None and (hamming or model is None):
        why = "does not work with --hamming" if hamming else "needs --model and features"
        raise InputError(f"{why}; Hamming distances are exact", "--candidates")
    if search and engine is None:
        raise InputError("needs --engine; an index file is always searched exactly", "--search")
    with open_for(index, engine, search) as opened:
        ranked = model is not None and not hamming
        query = load_codes(
            queries, model, domain, opened.n_bits, corrections=False, with_weights=ranked
        )
        check_same_space(opened.about, query.about, index)
        n = len(opened)
        k = max(1, min(k, n))  # room for more would stay empty
        if query.by_projections and opened.has_corrections:
            problem = f"{model} was fitted by an earlier version and cannot use the corrections of "
            if candidates is not None:
                raise InputError(f"{problem}{index}; fit the model again", "--candidates")
            note(f"{problem}{index}; codes are ranked by Hamming distance, fit the model again")
            query = query._replace(weights=None)
        if ranked and query.suit_corrections and n and not opened.has_corrections:
            note(f"{index} has no corrections; codes are ranked by their agreement with the query")
        started = perf_counter()
        filters: Any = {"tags": tag or None, "match": match.value, "domain": in_domain}
        result = _search(opened, query, k, candidates, filters)
        seconds = perf_counter() - started
    ids = result.ids
    if n == 0:
        note(f"{index} holds no codes")
    elif not is_id(ids).any():
        note(f"no code of {index} {_wanted(tag, match, in_domain)}")
    if as_json:
        print(json.dumps(_records(result), indent=2))
    elif path is None and is_id(ids).any():
        _show(result)
    if path is not None:
        with named(path, writing=True):
            _write(path, result)
        speed = f"{seconds:.2f} s, {len(ids) / max(seconds, 1e-9):.0f} queries/s"
        show_fields([("queries", str(len(ids))), ("time", speed), ("written", str(path))])


class Found(NamedTuple):
    """Results of a search, shape (n_queries, k), nearest first."""

    ids: NDArray[Any]
    distances: NDArray[Any]  # by Hamming
    scores: NDArray[Any] | None = None  # by which codes are ranked, if not by distances


def _search(
    opened: HammingIndex | EngineIndex,
    query: CodeRows,
    k: int,
    n_candidates: int | Literal["auto"] | None,
    filters: Any,
) -> Found:
    """Search with weights if there are some, else by Hamming distance."""
    from bridgehash.index import HammingIndex

    if query.weights is None:
        distances, ids = opened.search(query.codes, k, **filters)
        return Found(ids, distances)
    if isinstance(opened, HammingIndex):
        scores, ids = opened.search(
            query.codes, k, weights=query.weights, n_candidates=n_candidates, **filters
        )
        return Found(ids, _distances(opened, query.codes, ids), scores)
    ranked = opened.rank(query.codes, query.weights, k, n_candidates, **filters)
    return Found(ranked.ids, ranked.distances, ranked.scores)


def _distances(index: HammingIndex, codes: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Return Hamming distances of codes that were found."""
    import numpy as np

    from bridgehash.index.ids import is_id

    distances = np.full(ids.shape, index.n_bits + 1, np.int32)
    for query, row, D in zip(codes, ids, distances, strict=True):
        found = is_id(row)
        D[found] = np.bitwise_count(index.get(row[found]).codes ^ query).sum(axis=1)
    return distances


def _wanted(tags: list[str] | None, match: MatchKind, domain: str | None) -> str:
    """Return what codes were searched, for a message."""
    joint = " or " if match is MatchKind.any else " and "
    noun = "tag" if len(tags or []) == 1 else "tags"
    parts = [f"has the {noun} {joint.join(map(repr, tags))}"] if tags else []
    return " and ".join([*parts, *([f"is of the domain {domain!r}"] if domain is not None else [])])


def _records(result: Found, most: int | None = None) -> list[dict[str, list[Any]]]:
    """Return one record per query, nearest first, of all queries or of the first ones."""
    from bridgehash.index.ids import is_id

    records = []
    for row, ids in enumerate(result.ids[:most]):
        found = is_id(ids)
        record = {"ids": ids[found].tolist(), "distances": result.distances[row, found].tolist()}
        if result.scores is not None:
            record["scores"] = result.scores[row, found].tolist()
        records.append(record)
    return records


def _show(result: Found) -> None:
    """Print the first queries, one per line."""
    rows = []
    for i, record in enumerate(_records(result, _SHOWN)):
        pairs = zip(record["ids"], record["distances"], strict=True)
        texts = [f"{id_}:{distance}" for id_, distance in pairs]
        if "scores" in record:
            scores = zip(texts, record["scores"], strict=True)
            texts = [f"{text} ({score:.3g})" for text, score in scores]
        rows.append((str(i), " ".join(texts)))
    ranked = result.scores is not None
    what = "id:distance (score), smallest score first" if ranked else "id:distance, nearest first"
    show_table(("query", what), rows)
    if len(result.ids) > _SHOWN:
        note(f"showing {_SHOWN} of {len(result.ids)} queries; use --out or --json for all")


def _write(path: Path, result: Found) -> None:
    """Write all queries, in the format of the file name."""
    import numpy as np

    from bridgehash.index.ids import is_id

    ids, distances, scores = result
    suffix, found = path.suffix.lower(), is_id(ids)
    more: Any = {} if scores is None else {"scores": scores}
    with atomic_write(path) as temporary:
        if suffix == ".json":
            temporary.write_text(json.dumps(_records(result)), encoding="utf-8")
        elif suffix == ".npz":
            plain = ids if ids.dtype != object else np.where(found, ids, "").astype(str)
            with open(temporary, "wb") as file:
                np.savez(file, ids=plain, distances=distances, **more)
        else:
            from bridgehash.streaming.formats import arrow

            pa = arrow()
            columns = {
                "query": np.repeat(np.arange(len(ids)), ids.shape[1]),
                "id": pa.array(ids.ravel()),
                "distance": distances.ravel(),
            }
            if scores is not None:
                columns["score"] = scores.ravel()
            pa.parquet.write_table(pa.table(columns).filter(pa.array(found.ravel())), temporary)
