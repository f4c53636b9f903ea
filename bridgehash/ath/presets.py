"""Named parts and named settings of ATH.

`PRESETS` holds the settings of the named constructors: the paper's graphs, and its constants where
they do well; docs/choices.md has the measurements behind each departure. `PUBLISHED` replaces
entries of a preset with what the paper prints, including the PCA start of its Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from .._core.errors import InputError, unknown
from ..models.feature_maps import AnchorKernel
from ..neighbors.graphs import KNNGraph, LabelGraph, NoGraph
from .bipartite import AdaptiveBipartite, LabelBipartite, PairBipartite
from .class_codes import BalancedCodes, ClassCodes
from .pair_map import PairMap
from .propagation import Propagation
from .starts import LabelStart, LocalStart, PCAStart, StructuralStart

_GRAPHS = {"knn": KNNGraph(), "labels": LabelGraph(), "none": NoGraph()}
STARTS = {
    "pca": PCAStart("domain", None),
    "shared_pca": PCAStart("shared", None),
    "itq": PCAStart("auto", "itq"),
    "labels": LabelStart(),
    "structural": StructuralStart(),
}
NAMED_PARTS: dict[str, dict[str, Any]] = {  # by parameter of ATH
    "source_graph": _GRAPHS,
    "target_graph": _GRAPHS,
    "bipartite": {
        "adaptive": AdaptiveBipartite(),
        "labels": LabelBipartite(),
        "pairs": PairBipartite(),
    },
    "feature_map": {"anchors": AnchorKernel()},
    "completion": {"propagated": Propagation()},
    "target_map": {"pairs": PairMap()},
    "codes": {"balanced": BalancedCodes(), "classes": ClassCodes()},
    "start": STARTS,
}
_WEIGHTS = ("alpha_source", "alpha_target", "beta_source", "beta_target", "lam")


def _constants(*values: float) -> dict[str, float]:
    return dict(zip(_WEIGHTS, values, strict=True))


_SUPERVISED = {"source_graph": "labels", "target_graph": "labels", "bipartite": "labels"}
_WORDS = {  # T1 alone: the words connect the domains
    **_constants(1.0, 1.0, 0.0, 0.0, 0.0),
    **_SUPERVISED,
    "codes": "classes",
    "center": "classes",
    "start": LabelStart(rotation="itq"),
}
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
    "supervised": _WORDS | {"ridge": "auto"},
    "kernel": _WORDS
    | {"ridge": 1e-3, "feature_map": AnchorKernel(n_anchors="auto", bandwidth="half-median")},
    "propagated": {  # balanced codes forgive wrong estimates of a class
        **_constants(1e-2, 1.0, 1e-3, 1e-3, 1e-2),
        **_SUPERVISED,
        "start": "labels",
        "ridge": 3e-2,
        "feature_map": "anchors",
        "completion": "propagated",
    },
}
PRESETS["structural"] = PRESETS["unsupervised"] | {"start": "structural", "lam": 1.0}
PRESETS["paired"] = {
    **_constants(1.0, 1.0, 0.0, 0.0, 0.2),
    "source_graph": "none",
    "target_graph": "none",
    "bipartite": "pairs",
    "target_map": "pairs",
    "center": "joint",
    "start": LocalStart(),
    "ridge": 10.0,
    "ridge_towards": "start",
    "max_iter": 3,
    "tol": 0.0,
}

_WITHOUT_WORDS = {"codes": "balanced", "center": "domain"}

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
    "supervised": {
        **_constants(1e-3, 1e-1, 1e-2, 1e-2, 1e-2),
        **_FROM_PCA,
        **_WITHOUT_WORDS,
        "start_scale": 10.0,
    },
    "kernel": {
        **_constants(1e-2, 1.0, 1e-3, 1e-3, 1e-2),
        **_FROM_PCA,
        **_WITHOUT_WORDS,
        "start_scale": 10.0,
        "feature_map": "anchors",
    },
}


def preset(
    name: str, parameters: Mapping[str, Any] | None = None, published: bool = False
) -> dict[str, Any]:
    """Return the parameters of a preset, with the constants of the paper if `published`.

    `parameters` replace those of the preset.
    """
    known = PUBLISHED if published else PRESETS
    if name not in known:
        kind = "published preset" if published else "preset"
        raise InputError(unknown(kind, name, known), "preset")
    chosen = PRESETS[name] | (PUBLISHED[name] if published else {})
    return {key: deepcopy(value) for key, value in chosen.items()} | dict(parameters or {})
