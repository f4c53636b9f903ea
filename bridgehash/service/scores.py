"""Retrieval scores of a catalogue, measured on its loaded items with tags as classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..index import HammingIndex
from ..metrics import (
    distance_histogram,
    mean_average_precision,
    precision_at,
    radius_pr_area,
    radius_pr_curve,
)
from .catalogue import Catalogue
from .errors import RequestError

_MAX_QUERIES = 1_000
_MAX_PAIRS = 100_000_000  # distances computed


def measure_scores(catalogue: Catalogue) -> dict[str, Any]:
    """Score queries of the query domain, or items of the index if no queries are loaded."""
    query_domain = catalogue.query_domain
    if catalogue.domains[query_domain].store is None:
        query_domain = catalogue.index_domain
    n_items = len(catalogue.store.index)
    n_queries = max(1, min(_MAX_QUERIES, _MAX_PAIRS // max(n_items, 1)))
    queries, query_tags = _sample(catalogue.items(query_domain)[1], n_queries)
    items, item_tags = _sample(catalogue.items(catalogue.index_domain)[1], n_items)
    classes = sorted({*query_tags, *item_tags} - {""})
    number = {"": -1, **{tag: i for i, tag in enumerate(classes)}}
    y_query, y_item = ([number[tag] for tag in tags] for tags in (query_tags, item_tags))
    if len(classes) < 2 or not set(y_query) & set(y_item) - {-1}:
        raise RequestError(404, "no scores: items and queries need at least two different tags")
    histogram = distance_histogram(queries, items, y_query, y_item, n_bits=catalogue.n_bits)
    recall, precision = radius_pr_curve(histogram, include_max_radius=True)
    return {
        "catalogue": catalogue.name,
        "query_domain": query_domain,
        "n_queries": len(queries),
        "n_items": len(items),
        "radius_pr_area": radius_pr_area(histogram),
        "mean_average_precision": float(mean_average_precision(histogram)),
        "precision_at_10": float(precision_at(histogram, 10)),
        "recall": recall.tolist(),
        "precision": precision.tolist(),
    }


def _sample(index: HammingIndex, n: int) -> tuple[NDArray[np.uint8], list[str]]:
    """Return codes and tags of at most n items, evenly spaced."""
    ids, total = index.page(0, len(index))
    if total == 0:
        raise RequestError(404, "no scores: no items are loaded")
    return index.get(ids[np.linspace(0, total - 1, min(total, n)).astype(int)])
