"""Values that a suite can record in addition to scores, such as the objective per iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.linalg import Array, pca
from ..datasets import TransferTask
from ..models.base import BaseTransferHasher
from ..neighbors.search import nearest
from ..registry import inner_estimator

_SHOWN = 250  # rows per domain in a figure


def objective_course(model: Any) -> list[float]:
    """Return the objective of a fitted model after each iteration; empty if it has none."""
    values: Any = getattr(getattr(model, "hasher_", model), "objective_", np.empty(0))
    return [float(value) for value in (values["total"] if values.dtype.names else values)]


def transfer(hasher: BaseTransferHasher, task: TransferTask) -> float:
    """Return the share of target rows whose nearest projected source row has the same class."""
    H_s = hasher.decision_function(task.X_source, "source")
    H_t = hasher.decision_function(task.X_target, "target")
    return _accuracy(H_s, H_t, task)


def transfer_before(hasher: BaseTransferHasher, task: TransferTask) -> float:
    """Return the same share before any learning, as in the paper.

    Rows are compared as they are if both domains have the same width, otherwise on one PCA per
    domain with as many components as the hasher has bits.
    """
    X_s, X_t = task.X_source, task.X_target
    if X_s.shape[1] != X_t.shape[1]:
        n_bits = inner_estimator(hasher).get_params()["n_bits"]
        X_s, X_t = (X - X.mean(axis=0) for X in (X_s, X_t))
        X_s, X_t = X_s @ pca(X_s, n_bits), X_t @ pca(X_t, n_bits)
    width = min(X_s.shape[1], X_t.shape[1])  # a domain may have fewer components than bits
    return _accuracy(X_s[:, :width], X_t[:, :width], task)


def _accuracy(rows_source: Array, rows_target: Array, task: TransferTask) -> float:
    _, found = nearest(rows_target, rows_source, 1)
    return float((task.y_source[found[:, 0]] == task.y_target).mean())


def embedding(hasher: BaseTransferHasher, task: TransferTask) -> dict[str, Any]:
    """Return projections of some rows of both domains in the plane (t-SNE), with their classes."""
    from sklearn.manifold import TSNE

    rng = np.random.default_rng(0)
    source, target = (rng.permutation(len(X))[:_SHOWN] for X in (task.X_source, task.X_target))
    H_s = hasher.decision_function(task.X_source[source], "source")
    H = np.vstack([H_s, hasher.decision_function(task.X_target[target], "target")])
    perplexity = min(30.0, (len(H) - 1) / 3)
    plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(H)
    return {
        "x": np.round(plane[:, 0], 2).tolist(),
        "y": np.round(plane[:, 1], 2).tolist(),
        "class": np.concatenate([task.y_source[source], task.y_target[target]]).tolist(),
        "n_source": len(source),
    }


EXTRAS: dict[str, Callable[[BaseTransferHasher, TransferTask], Any]] = {
    "agreement": lambda hasher, task: getattr(hasher, "agreement_", None),
    "objective": lambda hasher, task: objective_course(hasher),
    "transfer": transfer,
    "transfer_before": transfer_before,
    "embedding": embedding,
}
