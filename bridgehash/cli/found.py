"""What a search found: on the terminal, as JSON, in a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bridgehash._files import atomic_write

from .console import show_table

_SHOWN = 20  # queries on the terminal

Distances = NDArray[np.int32]
Ids = NDArray[np.int64]


def records(distances: Distances, ids: Ids) -> list[dict[str, list[int]]]:
    """One record a query, nearest first."""
    return [
        {"ids": i[i >= 0].tolist(), "distances": d[i >= 0].tolist()}
        for d, i in zip(distances, ids, strict=True)
    ]


def show_found(distances: Distances, ids: Ids) -> None:
    """The first queries, one a line."""
    rows = [
        (str(i), " ".join(f"{id_}:{d}" for id_, d in zip(*pair, strict=True) if id_ >= 0))
        for i, pair in enumerate(zip(ids[:_SHOWN], distances[:_SHOWN], strict=True))
    ]
    show_table(("query", "id:distance, nearest first"), rows)


def write_found(path: Path, distances: Distances, ids: Ids) -> None:
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
