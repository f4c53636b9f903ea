"""What `bridgehash evaluate` measures and how it is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridgehash._core.errors import InputError
from bridgehash._core.validation import class_ids
from bridgehash.cli.console import counted, note
from bridgehash.cli.models import check_one_kind
from bridgehash.metrics import distance_histogram
from bridgehash.metrics.evaluate import Scores

SHOWN = (  # attribute of `Scores`, name, what it is
    ("radius_pr_area", "radius_pr_area", "the field's MAP: area of the pooled curve"),
    ("mean_average_precision", "mean_average_precision", "over the ranked list"),
    ("precision_at_10", "precision@10", "among the 10 nearest"),
    ("recall_at_100", "recall@100", "among the 100 nearest"),
    ("lookup_precision", "lookup_precision", "within Hamming radius 2"),
)


def join_labels(
    queries: str, y_queries: NDArray[Any], database: str, y_database: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Class ids over both sets, if they can tell right from wrong."""
    check_one_kind({queries: y_queries, database: y_database})
    ids_q, ids_d = class_ids(y_queries, y_database)
    assert ids_q is not None
    assert ids_d is not None
    alone = ~np.isin(ids_q, ids_d[ids_d >= 0])
    if alone.all():
        raise InputError(
            f"labels of {queries} and {database} have no class in common, so nothing is relevant; "
            "check that both use the same names"
        )
    if len(np.unique(np.concatenate([ids_q, ids_d]))) == 1:
        raise InputError(
            f"labels of {queries} and {database} hold a single class, so everything is relevant; "
            "give labels of two classes or more"
        )
    if alone.any():
        note(f"{alone.sum()} of {counted(len(alone), 'query label')} occur in no database row")
    return ids_q, ids_d


def score(
    codes: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    labels: tuple[NDArray[np.intp], NDArray[np.intp]],
    n_bits: int,
) -> dict[str, Any]:
    """All scores as fractions, with the sizes they belong to."""
    histogram = distance_histogram(*codes, *labels, n_bits=n_bits)
    scores = Scores.of(histogram)
    return {
        "n_queries": len(codes[0]),
        "n_database": len(codes[1]),
        "n_queries_without_relevant": int((histogram.n_relevant == 0).sum()),
        "n_bits": n_bits,
        **{attribute: getattr(scores, attribute) for attribute, _, _ in SHOWN},
    }


def score_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """Name, value in per cent and meaning of each score."""
    return [(name, f"{100 * record[key]:.1f}", what) for key, name, what in SHOWN]
