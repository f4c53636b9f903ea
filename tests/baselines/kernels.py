"""Features of stored runs, with the stored anchors."""

from bridgehash import AnchorKernel
from bridgehash.baselines._kernel import with_constant


def anchored(run, X_source, bandwidth=2 * 0.4**2, kernel="gaussian"):
    """Return the kernel of a stored run, with its anchors in the stored order."""
    feature_map = AnchorKernel(len(run["anchor_idx"]), bandwidth, 0, kernel).fit(X_source)
    feature_map.anchors_ = X_source[run["anchor_idx"]]
    return feature_map


def projector(kernel, P):
    """Return a function of rows: [φ(x), 1] P."""
    return lambda X: with_constant(kernel, X) @ P
