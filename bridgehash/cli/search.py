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
_USUAL = 0.05  # part of the queries; fewer may be rejected by mistake

QueryRows = Annotated[
    str,
    typer.Argument(
        metavar="QUERIES",
        help="Packed codes; with --model, features to encode, or codes that `encode` wrote.",
    ),
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
Reject = Annotated[
    bool,
    typer.Option(
        "--reject",
        help="Return nothing for queries that seem to have no counterpart in the other domain. "
        "Needs a model that tested this: `fit` prints the line `counterparts`.",
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
    reject: Reject = False,
    engine: opt.Engine = None,
    search: ServerSearch = None,
    out: ResultsOut = None,
    as_json: opt.Json = False,
) -> None:
    """Find the nearest codes of an index.

    With --model, each bit counts as much as the features of the query say, and with corrections in
    the index the score of a code estimates the distance of the rows. Packed codes are ranked by
    Hamming distance; with --model they are also tested for counterparts (--reject).

    \b
    Example:
      bridgehash search digits.bhi demo/digits.npz:query --model model.bh --domain target -k 5
      bridgehash search photos sketches.npy --model model.bh --domain target \\
        --engine postgresql://localhost/shop --tag shoes --tag red --match all
    """
    from bridgehash.cli.index import codes_origin, load_codes, open_for
    from bridgehash.cli.io import check_output
    from bridgehash.index.ids import is_id
    from bridgehash.models.provenance import check_same_space

    path = None if out is None else check_output(out, (".npz", ".parquet", ".json"))
    if domain is not None and model is None:
        raise InputError("needs --model; packed codes have no domain", "--domain")
    origin = None if model is None else codes_origin(queries)
    has_features = model is not None and origin is None
    if candidates is not None and (hamming or not has_features):
        why = "does not work with --hamming" if hamming else "needs --model and features"
        raise InputError(f"{why}; Hamming distances are exact", "--candidates")
    if reject and model is None:
        raise InputError("needs --model; without it packed codes are not enough", "--reject")
    if search and engine is None:
        raise InputError("needs --engine; an index file is always searched exactly", "--search")
    if origin is not None:
        domain = _domain_of(origin, domain, queries)
    with open_for(index, engine, search) as opened:
        ranked = has_features and not hamming
        searched = in_domain or opened.about.get("domain")
        inside = domain is not None and searched == domain
        if reject and inside:
            raise InputError(
                f"{index} is searched for codes of {domain!r}, where all queries of {domain!r} "
                "have counterparts; search codes of another domain, or drop it",
                "--reject",
            )
        query = load_codes(
            queries,
            model if has_features else None,
            domain if has_features else None,
            opened.n_bits,
            corrections=False,
            with_weights=ranked,
            with_rejection=not inside,
        )
        if model is not None and origin is not None and not inside:
            query = _marked(query, model, domain, queries)
        if reject and query.rejected is None:
            raise InputError(
                f"{model} cannot tell which queries have no counterpart; fit it with --preset "
                "propagated, labels of one domain, and one feature space",
                "--reject",
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
    some = is_id(ids).any()
    if n == 0:
        note(f"{index} holds no codes")
    elif not some:
        note(f"no code of {index} {_wanted(tag, match, in_domain)}")
    if query.rejected is not None:
        result = result._replace(rejected=query.rejected)
        n_rejected = int(query.rejected.sum())
        if reject:
            result = _without_rejected(result, query.n_bits)
        elif n_rejected > _USUAL * len(ids):
            note(
                f"{n_rejected} of {len(ids)} queries seem to have no "
                f"counterpart in {_article(searched)}; --reject returns nothing for them"
            )
    if as_json:
        print(json.dumps(_records(result), indent=2))
    elif path is None and some:
        _show(result, f"nothing like this in {_article(searched)}" if reject else "")
    if path is not None:
        with named(path, writing=True):
            _write(path, result)
        speed = f"{seconds:.2f} s, {len(ids) / max(seconds, 1e-9):.0f} queries/s"
        left_out = [("rejected", str(n_rejected))] if reject else []
        show_fields(
            [("queries", str(len(ids))), *left_out, ("time", speed), ("written", str(path))]
        )


class Found(NamedTuple):
    """Results of a search, shape (n_queries, k), nearest first."""

    ids: NDArray[Any]
    distances: NDArray[Any]  # by Hamming
    scores: NDArray[Any] | None = None  # by which codes are ranked, if not by distances
    rejected: NDArray[Any] | None = None  # (n_queries,) without a counterpart, if known


def _domain_of(origin: dict[str, str], domain: str | None, queries: str) -> str | None:
    """Return the domain of codes, by their file or as given."""
    own = origin.get("domain", domain)
    if domain not in (None, own):
        raise InputError(f"{queries} holds codes of {own!r}, not of {domain!r}", "--domain")
    return own


def _marked(query: CodeRows, model: Path, domain: str | None, queries: str) -> CodeRows:
    """Return packed codes with those that have no counterpart, if the model can tell."""
    from bridgehash import load
    from bridgehash.models.provenance import check_same_space, encoder_of, origin

    loaded = load(model)
    encoder_of(loaded, model, domain, "--domain")  # refuses unknown domains
    check_same_space(query.about, origin(loaded, domain), queries)
    if domain not in (getattr(loaded, "code_rejectors_", None) or {}):
        return query
    return query._replace(rejected=loaded.rejects_codes(query.codes, domain))


def _without_rejected(result: Found, n_bits: int) -> Found:
    """Return the results without those of rejected queries."""
    from bridgehash.index.ids import kind_of, no_ids

    ids, distances, scores, rejected = result
    assert rejected is not None
    ids, distances = ids.copy(), distances.copy()
    ids[rejected] = no_ids(int(rejected.sum()), ids.shape[1], kind_of(ids))
    distances[rejected] = n_bits + 1
    if scores is not None:
        scores = scores.copy()
        scores[rejected] = float("inf")
    return Found(ids, distances, scores, rejected)


def _article(domain: str | None) -> str:
    """Return a domain in words; the default names are nouns."""
    if domain is None:
        return "the other domain"
    return f"the {domain}" if domain in ("source", "target") else domain


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


def _records(result: Found, most: int | None = None) -> list[dict[str, Any]]:
    """Return one record per query, nearest first, of all queries or of the first ones."""
    from bridgehash.index.ids import is_id

    records = []
    for row, ids in enumerate(result.ids[:most]):
        found = is_id(ids)
        record: dict[str, Any] = {
            "ids": ids[found].tolist(),
            "distances": result.distances[row, found].tolist(),
        }
        if result.scores is not None:
            record["scores"] = result.scores[row, found].tolist()
        if result.rejected is not None:
            record["rejected"] = bool(result.rejected[row])
        records.append(record)
    return records


def _show(result: Found, instead: str = "") -> None:
    """Print the first queries, one per line, and a text instead of results for rejected ones."""
    rows = []
    for i, record in enumerate(_records(result, _SHOWN)):
        pairs = zip(record["ids"], record["distances"], strict=True)
        texts = [f"{id_}:{distance}" for id_, distance in pairs]
        if "scores" in record:
            scores = zip(texts, record["scores"], strict=True)
            texts = [f"{text} ({score:.3g})" for text, score in scores]
        rows.append((str(i), instead if instead and record["rejected"] else " ".join(texts)))
    ranked = result.scores is not None
    what = "id:distance (score), smallest score first" if ranked else "id:distance, nearest first"
    show_table(("query", what), rows)
    if len(result.ids) > _SHOWN:
        note(f"showing {_SHOWN} of {len(result.ids)} queries; use --out or --json for all")


def _write(path: Path, result: Found) -> None:
    """Write all queries, in the format of the file name."""
    import numpy as np

    from bridgehash.index.ids import is_id

    ids, distances, scores, rejected = result
    suffix, found = path.suffix.lower(), is_id(ids)
    more: Any = {} if scores is None else {"scores": scores}
    if rejected is not None:
        more["rejected"] = rejected
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
            if rejected is not None:
                columns["rejected"] = np.repeat(rejected, ids.shape[1])
            pa.parquet.write_table(pa.table(columns).filter(pa.array(found.ravel())), temporary)
