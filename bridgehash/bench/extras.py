"""Values that a suite can record in addition to scores, such as the objective per iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..datasets import TransferTask
from ..models.base import BaseTransferHasher
from ..neighbors.search import nearest

_SHOWN = 250  # rows per domain in a figure


def objective_course(model: Any) -> list[float]:
    """Return the objective of a fitted model after each iteration; empty if it has none."""
    values: Any = getattr(getattr(model, "hasher_", model), "objective_", np.empty(0))
    return [float(value) for value in (values["total"] if values.dtype.names else values)]


def transfer(hasher: BaseTransferHasher, task: TransferTask) -> float:
    """Return the share of target rows whose nearest projected source row has the same class."""
    H_s = hasher.decision_function(task.X_source, "source")
    H_t = hasher.decision_function(task.X_target, "target")
    _, rows = nearest(H_t, H_s, 1)
    return float((task.y_source[rows[:, 0]] == task.y_target).mean())


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
    "embedding": embedding,
}
