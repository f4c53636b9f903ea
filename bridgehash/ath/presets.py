"""The settings that have a name: graphs, feature map and constants of each realisation.

`PRESETS` is what the named constructors use: the paper's graphs, and its constants where they
were found to do well; docs/choices.md has the measurements behind each departure. `PUBLISHED` is
laid over a preset to get what the paper prints, started from PCA as its Algorithm 1 says.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ..graphs import KNNGraph
from .local_start import LocalStart
from .starts import PCAStart


def _constants(
    alpha_s: float, alpha_t: float, beta_s: float, beta_t: float, lam: float
) -> dict[str, float]:
    return {
        "alpha_source": alpha_s,
        "alpha_target": alpha_t,
        "beta_source": beta_s,
        "beta_target": beta_t,
        "lam": lam,
    }


_SUPERVISED = {"source_graph": "labels", "target_graph": "labels", "bipartite": "labels"}
_MUTUAL = KNNGraph(n_neighbors=20, mutual=True)
_FROM_PCA = {
    "start": PCAStart(rotation=None),
    "start_scale": 1.0,
    "ridge": 1e-2,
    "max_iter": 10,
    "tol": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {  #    α_s   α_t   β_s   β_t   λ
    "unsupervised": {
        **_constants(1.0, 1.0, 1e-3, 1e-1, 0.2),
        "source_graph": _MUTUAL,
        "target_graph": _MUTUAL,
        "start_scale": 10.0,
    },
    "semi_supervised": {
        **_constants(1.0, 1.0, 1e-3, 1e-1, 0.2),
        "source_graph": "labels",
        "target_graph": _MUTUAL,
        "start_scale": 10.0,
    },
    "supervised": {
        **_constants(1e-3, 1e-1, 1e-2, 1e-2, 1e-2),
        **_SUPERVISED,
        "start": "labels",
        "ridge": 0.1,
    },
    "kernel": {
        **_constants(1e-2, 1.0, 1e-3, 1e-3, 1e-2),
        **_SUPERVISED,
        "start": "labels",
        "ridge": 1e-2,
        "feature_map": "anchors",
    },
}
PRESETS["propagated"] = PRESETS["kernel"] | {"completion": "propagated", "ridge": 3e-2}
PRESETS["structural"] = PRESETS["unsupervised"] | {"start": "structural", "lam": 1.0}
PRESETS["paired"] = {
    **_constants(1.0, 1.0, 0.0, 0.0, 0.2),
    "source_graph": "none",
    "target_graph": "none",
    "bipartite": "pairs",
    "carry": "pairs",
    "center": "joint",
    "start": LocalStart(),
    "ridge": 10.0,
    "ridge_towards": "start",
    "max_iter": 3,
    "tol": 0.0,
}

PUBLISHED: dict[str, dict[str, Any]] = {
    "unsupervised": {
        **_constants(1e-2, 1e-1, 1e-3, 1e-1, 1.0),
        **_FROM_PCA,
        "source_graph": "knn",
        "target_graph": "knn",
    },
    "semi_supervised": {
        **_constants(1e-1, 1e-1, 1e3, 1e-2, 1.0),
        **_FROM_PCA,
        "target_graph": "knn",
    },
    "supervised": {**_FROM_PCA, "start_scale": 10.0},
    "kernel": {**_FROM_PCA, "start_scale": 10.0},
}


def preset(realisation: str, *, published: bool = False) -> dict[str, Any]:
    """Parameters of a realisation by name, free to be changed by the caller."""
    known = PUBLISHED if published else PRESETS
    if realisation not in known:
        raise ValueError(f"unknown realisation {realisation!r}: give one of {', '.join(known)}")
    parameters = PRESETS[realisation] | (PUBLISHED[realisation] if published else {})
    return {name: deepcopy(value) for name, value in parameters.items()}
