"""The similarity matrix of classes, as an operator."""

from __future__ import annotations

from .._core.linalg import Array
from ..neighbors.graphs import FactoredGraph


def label_contrast(graph: FactoredGraph, H: Array) -> Array:
    """Return S H with S = 2 W - 11ᵀ for a label graph W: +1 inside a class, -1 across classes.

    >>> import numpy as np
    >>> from bridgehash.neighbors.graphs import label_graph
    >>> y = np.array([0, 0, 1])
    >>> label_contrast(label_graph(y, y), np.eye(3))
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    SH = 2.0 * (graph @ H)
    SH -= H.sum(axis=0)
    return SH
