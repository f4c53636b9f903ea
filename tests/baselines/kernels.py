"""Stored runs of methods over similarities to anchors: their features, with their anchors."""

from bridgehash import AnchorKernel
from bridgehash.baselines._kernel import with_constant


def anchored(run, X_source, bandwidth=2 * 0.4**2, kernel="gaussian"):
    """The kernel of a stored run, its anchors in the stored order."""
    feature_map = AnchorKernel(len(run["anchor_idx"]), bandwidth, 0, kernel).fit(X_source)
    feature_map.anchors_ = X_source[run["anchor_idx"]]
    return feature_map


def projector(kernel, P):
    """Rows to [φ(x), 1] P."""
    return lambda X: with_constant(kernel, X) @ P
