"""How well a catalogue retrieves, measured on what is loaded: tags are the classes."""

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
from .errors import Refused

_QUERIES = 1_000
_PAIRS = 100_000_000  # distances looked at


def measure(catalogue: Catalogue) -> dict[str, Any]:
    """Curve and scores of queries of the other domain, or else of the items themselves."""
    asking, searched = catalogue.query_domain, catalogue.index_domain
    if catalogue.sides[asking].store is None:
        asking = searched
    n_items = len(catalogue.store.index)
    most = max(1, min(_QUERIES, _PAIRS // max(n_items, 1)))
    queries, query_tags = _some(catalogue.items_of(asking)[2], most)
    items, tags = _some(catalogue.items_of(searched)[2], n_items)
    names = {name: i for i, name in enumerate(sorted({*query_tags, *tags} - {""}))}
    known = {"": -1, **names}
    y_queries, y_items = ([known[tag] for tag in some] for some in (query_tags, tags))
    if len(names) < 2 or not set(y_queries) & set(y_items) - {-1}:
        raise Refused(404, "figures: need items and queries with tags of two kinds or more")
    histogram = distance_histogram(queries, items, y_queries, y_items, n_bits=catalogue.n_bits)
    recall, precision = radius_pr_curve(histogram, include_max_radius=True)
    return {
        "catalogue": catalogue.name,
        "queries_from": asking,
        "n_queries": len(queries),
        "n_items": len(items),
        "radius_pr_area": radius_pr_area(histogram),
        "mean_average_precision": float(mean_average_precision(histogram)),
        "precision_at_10": float(precision_at(histogram, 10)),
        "recall": recall.tolist(),
        "precision": precision.tolist(),
    }


def _some(index: HammingIndex, most: int) -> tuple[NDArray[np.uint8], list[str]]:
    """Codes and tags of items, evenly from all of them where there are too many."""
    ids, n = index.page(0, len(index))
    if n == 0:
        raise Refused(404, "figures: nothing is loaded to measure")
    return index.get(ids[np.linspace(0, n - 1, min(n, most)).astype(int)])
