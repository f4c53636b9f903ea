"""`bridgehash evaluate`: measure how well queries find rows of their own class."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridgehash._core.errors import InputError
from bridgehash.cli import options as opt
from bridgehash.cli.console import note, results, show_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METRICS = {  # attribute of `Scores` -> name, meaning
    "radius_pr_area": ("radius_pr_area", "called MAP in the field: area of the pooled curve"),
    "mean_average_precision": ("mean_average_precision", "of the ranked list"),
    "precision_at_10": ("precision@10", "among the 10 nearest"),
    "recall_at_100": ("recall@100", "among the 100 nearest"),
    "lookup_precision": ("lookup_precision", "within Hamming radius 2"),
}

Queries = Annotated[str, typer.Option(metavar="SPEC", help="Features of the queries.")]
LabelsQueries = Annotated[str, typer.Option(metavar="SPEC", help="Labels of the queries.")]
Database = Annotated[str, typer.Option(metavar="SPEC", help="Features of the database.")]
LabelsDatabase = Annotated[str, typer.Option(metavar="SPEC", help="Labels of the database.")]
DomainQueries = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Domain of the queries.", show_default="target"),
]
DomainDatabase = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Domain of the database.", show_default="source"),
]


def evaluate(
    model: opt.Model,
    queries: Queries,
    labels_queries: LabelsQueries,
    database: Database,
    labels_database: LabelsDatabase,
    domain_queries: DomainQueries = None,
    domain_database: DomainDatabase = None,
    as_json: opt.Json = False,
) -> None:
    """Measure how well queries find rows of their own class.

    Two scores are called MAP in the literature. Both are shown under different names: the area
    under the precision-recall curve pooled over Hamming radii (radius_pr_area) and the mean
    average precision of the ranked lists (mean_average_precision).

    \b
    Example:
      bridgehash evaluate model.bh \\
        --queries demo/digits.npz:query --labels-queries demo/digits.npz:y_query \\
        --database demo/digits.npz:source --labels-database demo/digits.npz:y_source
    """
    from bridgehash import load
    from bridgehash.cli.io import encode_rows, read_features, read_row_labels
    from bridgehash.metrics import distance_histogram
    from bridgehash.metrics.evaluate import Scores
    from bridgehash.models.base import BaseTransferHasher
    from bridgehash.models.provenance import encoder_of

    loaded = load(model)
    two = isinstance(loaded, BaseTransferHasher)
    sides = {
        "queries": (queries, labels_queries, domain_queries or ("target" if two else None)),
        "database": (database, labels_database, domain_database or ("source" if two else None)),
    }
    rows, labels, encoders = {}, {}, {}
    for side, (spec, y, domain) in sides.items():
        encoders[side] = encoder_of(loaded, model, domain, f"--domain-{side}")
        rows[side] = read_features(spec, encoders[side], model)
        labels[side] = read_row_labels(y, len(rows[side]), spec)
    ids = _class_ids(labels_queries, labels["queries"], labels_database, labels["database"])
    codes = [
        encode_rows(encoders[side], rows[side], side, spec) for side, (spec, *_) in sides.items()
    ]
    n_bits = encoders["queries"].n_bits
    histogram = distance_histogram(codes[0], codes[1], *ids, n_bits=n_bits)
    scores = Scores.of(histogram)
    record: dict[str, Any] = {
        "n_queries": len(codes[0]),
        "n_database": len(codes[1]),
        "n_queries_without_relevant": int((histogram.n_relevant == 0).sum()),
        "n_bits": n_bits,
        **{metric: getattr(scores, metric) for metric in METRICS},
    }
    if as_json:
        print(json.dumps(record, indent=2))
        return
    domains = [f"{domain} " if domain else "" for _, _, domain in sides.values()]
    results().print(
        f"{record['n_queries']} {domains[0]}queries against {record['n_database']} "
        f"{domains[1]}rows, {n_bits} bits"
    )
    shown = [(name, f"{100 * record[key]:.1f}", what) for key, (name, what) in METRICS.items()]
    show_table(("score", "per cent", "meaning"), shown, numbers="per cent")


def _class_ids(
    queries: str, y_queries: NDArray[Any], database: str, y_database: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return class ids common to both sets; refuse labels that make all scores meaningless."""
    import numpy as np

    from bridgehash._core.validation import class_ids
    from bridgehash.cli.io import check_same_kind

    check_same_kind({queries: y_queries, database: y_database})
    ids_q, ids_d = class_ids(y_queries, y_database)
    assert ids_q is not None
    assert ids_d is not None
    alone = ~np.isin(ids_q, ids_d[ids_d >= 0])
    if alone.all():
        raise InputError(
            f"{queries} and {database} have no class in common, so no row is relevant; check that "
            "both use the same class names"
        )
    if len(np.unique(np.concatenate([ids_q, ids_d]))) == 1:
        raise InputError(
            f"{queries} and {database} hold a single class, so every row is relevant; use labels "
            "of at least two classes"
        )
    if alone.any():
        note(f"{alone.sum()} of {len(alone)} queries have a class that no database row has")
    return ids_q, ids_d
