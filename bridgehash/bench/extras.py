"""What a suite may ask for beside scores: the course of a fit, transfer, a picture of the space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.manifold import TSNE

from ..datasets import TransferTask
from ..models.base import BaseTransferHasher
from ..neighbors.search import nearest

_SHOWN = 250  # rows of a domain in a picture


def objective_course(model: Any) -> list[float]:
    """The objective of a fitted model after each round, empty where a method has none."""
    values: Any = getattr(getattr(model, "hasher_", model), "objective_", np.empty(0))
    return [float(value) for value in (values["total"] if values.dtype.names else values)]


def objective(hasher: BaseTransferHasher, task: TransferTask) -> list[float]:
    """The objective after each round."""
    return objective_course(hasher)


def transfer(hasher: BaseTransferHasher, task: TransferTask) -> float:
    """Share of target rows whose nearest projected source row has their class: 1-NN accuracy."""
    H_s = hasher.decision_function(task.X_source, "source")
    H_t = hasher.decision_function(task.X_target, "target")
    _, rows = nearest(H_t, H_s, 1)
    return float((task.y_source[rows[:, 0]] == task.y_target).mean())


def agreement(hasher: BaseTransferHasher, task: TransferTask) -> float | None:
    """How far independent searches for the bridge agree, where it was searched for."""
    found = getattr(hasher, "agreement_", None)
    return None if found is None else float(found)


def embedding(hasher: BaseTransferHasher, task: TransferTask) -> dict[str, Any]:
    """Projections of some rows of both domains in the plane, by t-SNE, with their classes."""
    rng = np.random.default_rng(0)
    picked = [rng.permutation(len(X))[:_SHOWN] for X in (task.X_source, task.X_target)]
    H = np.vstack(
        [
            hasher.decision_function(task.X_source[picked[0]], "source"),
            hasher.decision_function(task.X_target[picked[1]], "target"),
        ]
    )
    perplexity = min(30.0, (len(H) - 1) / 3)
    plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(H)
    y = np.concatenate([task.y_source[picked[0]], task.y_target[picked[1]]])
    return {
        "x": np.round(plane[:, 0], 2).tolist(),
        "y": np.round(plane[:, 1], 2).tolist(),
        "class": y.tolist(),
        "n_source": len(picked[0]),
    }


EXTRAS: dict[str, Callable[[BaseTransferHasher, TransferTask], Any]] = {
    "agreement": agreement,
    "objective": objective,
    "transfer": transfer,
    "embedding": embedding,
}
