"""Fits and codes by the workers of a Dask cluster: `pip install 'bridgehash[dask]'`."""

from .connection import cluster, quiet
from .mapper import ClusterError, DaskMapper

__all__ = ["ClusterError", "DaskMapper", "cluster", "quiet"]
