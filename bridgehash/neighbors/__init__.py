"""Nearest neighbours, and graphs as linear operators."""

from .graphs import FactoredGraph, Graph, KNNGraph, LabelGraph, NoGraph, SparseGraph

__all__ = ["FactoredGraph", "Graph", "KNNGraph", "LabelGraph", "NoGraph", "SparseGraph"]
