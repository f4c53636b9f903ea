"""Named parts and named settings of ATH.

`PRESETS` holds the settings of the named constructors: the paper's graphs, and its constants where
they do well; docs/choices.md has the measurements behind each departure. `PUBLISHED` holds what the
paper prints, including the PCA start of its Algorithm 1, and `AUTHORS` what the public script of
its authors does. Neither takes anything from `PRESETS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Literal

from .._core.errors import InputError, unknown
from .._core.validation import class_ids
from ..models.columns import columns_correspond
from ..models.feature_maps import AnchorKernel, RowsAndKernel
from ..neighbors.graphs import KNNGraph, LabelGraph, NoGraph
from .bipartite import AdaptiveBipartite, AuthorsBipartite, LabelBipartite, PairBipartite
from .class_codes import BalancedCodes, ClassCodes, PairCodes
from .pairs import PairStart, PartnerSearch
from .propagation import Propagation
from .starts import LabelStart, PCAStart, StructuralStart

_GRAPHS = {"knn": KNNGraph(), "labels": LabelGraph(), "none": NoGraph()}
STARTS = {
    "pca": PCAStart("domain", None),
    "shared_pca": PCAStart("shared", None),
    "itq": PCAStart("auto", "itq"),
    "labels": LabelStart(),
    "pairs": PairStart(),
    "structural": StructuralStart(),
}
NAMED_PARTS: dict[str, dict[str, Any]] = {  # by parameter of ATH
    "source_graph": _GRAPHS,
    "target_graph": _GRAPHS,
    "bipartite": {
        "adaptive": AdaptiveBipartite(),
        "authors": AuthorsBipartite(),
        "labels": LabelBipartite(),
        "pairs": PairBipartite(),
    },
    "feature_map": {"anchors": AnchorKernel(), "rows_and_anchors": RowsAndKernel()},
    "completion": {"propagated": Propagation(), "partners": PartnerSearch()},
    "codes": {"balanced": BalancedCodes(), "classes": ClassCodes(), "pairs": PairCodes()},
    "start": STARTS,
}
_WEIGHTS = ("alpha_source", "alpha_target", "beta_source", "beta_target", "lam")


def _constants(*values: float | str) -> dict[str, float | str]:
    return dict(zip(_WEIGHTS, values, strict=True))


_SUPERVISED = {"source_graph": "labels", "target_graph": "labels", "bipartite": "labels"}
_WORDS = {  # T1 alone: the words connect the domains
    **_constants(1.0, 1.0, 0.0, 0.0, 0.0),
    **_SUPERVISED,
    "codes": "classes",
    "center": "classes",
    "start": LabelStart(rotation="itq"),
}
_MUTUAL = KNNGraph(n_neighbors="auto", mutual=True)
BOTH_WAYS = AdaptiveBipartite(metric="cosine", both_ways=True)
_LEARNED = {"source_graph": "knn", "target_graph": "knn", "bipartite": "adaptive"}
_PRINTED = {
    "start": "pca",
    "start_scale": None,
    "ridge": 1e-2,  # the paper gives no value
    "max_iter": 10,
    "tol": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {  #    α_s   α_t   β_s   β_t   λ
    "unsupervised": {
        **_constants(1.0, 1.0, 1e-3, 1e-1, "auto"),
        "source_graph": _MUTUAL,
        "target_graph": _MUTUAL,
        "bipartite": AdaptiveBipartite(metric="cosine", both_ways=True, abstaining=True),
        "codes": BalancedCodes(decorrelation=0.15),
        "start_scale": 10.0,
        "tol": 1e-4,
    },
    "semi_supervised": {
        **_constants(1.0, 1.0, 1.0, 1e-1, "auto"),
        "source_graph": LabelGraph(normalize=True),
        "target_graph": _MUTUAL,
        "bipartite": BOTH_WAYS,
        "codes": BalancedCodes(decorrelation=0.15),
        "start_scale": 10.0,
        "tol": 1e-4,
    },
    "supervised": _WORDS | {"ridge": "auto"},
    "kernel": _WORDS
    | {"ridge": 1e-3, "feature_map": AnchorKernel("auto", "half-median", root="auto")},
    "propagated": {  # words keep classes apart, balanced bits forgive wrong estimates of a class
        **_constants(1e-1, 1.0, 1e-3, 1e-3, 1e-2),
        **_SUPERVISED,
        "start": LabelStart(mixing=0.9),
        "ridge": 3e-2,
        "feature_map": AnchorKernel(root="auto"),
        "codes": BalancedCodes(words=0.5, lacking_weight=0.3),
        "completion": "propagated",
    },
}
PRESETS["adopted"] = _WORDS | {  # the words of frozen codes; estimates of classes may be wrong
    "completion": "propagated",
    "ridge": 30.0,
}
PRESETS["structural"] = PRESETS["unsupervised"] | {
    "start": "structural",
    "lam": 1.0,
    # A match is less certain than common columns: more partners, and directions that count alike.
    "bipartite": AdaptiveBipartite(n_neighbors=20, metric="cosine", both_ways=True),
    "codes": BalancedCodes(decorrelation=0.5),
}
PRESETS["paired"] = {  # T1 alone: pairs have one code
    **_constants(1.0, 1.0, 0.0, 0.0, 0.0),
    "source_graph": "none",
    "target_graph": "none",
    "bipartite": "pairs",
    "completion": "partners",
    "feature_map": "rows_and_anchors",
    "codes": "pairs",
    "center": "pairs",
    "start": "pairs",
    "start_scale": None,
    "ridge": 2.5,
    "ridge_towards": "start",
    "max_iter": 3,
    "tol": 0.0,
}

PUBLISHED: dict[str, dict[str, Any]] = {  # α_s   α_t   β_s   β_t   λ
    "unsupervised": {**_constants(1e-2, 1e-1, 1e-3, 1e-1, 1.0), **_LEARNED, **_PRINTED},
    "semi_supervised": {
        **_constants(1e-1, 1e-1, 1e3, 1e-2, 1.0),
        **_LEARNED,
        **_PRINTED,
        "source_graph": "labels",
    },
    "supervised": {**_constants(1e-3, 1e-1, 1e-2, 1e-2, 1e-2), **_SUPERVISED, **_PRINTED},
    "kernel": {
        **_constants(1e-2, 1.0, 1e-3, 1e-3, 1e-2),
        **_SUPERVISED,
        **_PRINTED,
        "feature_map": "anchors",
    },
}
AUTHORS: dict[str, dict[str, Any]] = {
    "unsupervised": PUBLISHED["unsupervised"]
    | {
        "bipartite": "authors",
        "step_order": "BWA",
        "ridge": 1.0,
        "ridge_target": 1e-2,
        "unit_rows": False,
        "unit_scale": False,
        "center": "auto",
        "source_encoder": "auto",
    }
}

Published = bool | Literal["authors"]
_KNOWN: dict[Published, dict[str, dict[str, Any]]] = {
    False: PRESETS,
    True: PUBLISHED,
    "authors": AUTHORS,
}


def part(ath: Any, parameter: str) -> Any:
    """Return the object behind a parameter that may be a name."""
    choice = getattr(ath, parameter)
    return NAMED_PARTS[parameter][choice] if isinstance(choice, str) else choice


def preset(
    name: str, parameters: Mapping[str, Any] | None = None, published: Published = False
) -> dict[str, Any]:
    """Return the parameters of a preset.

    Parameters
    ----------
    name : str
    parameters : mapping, optional
        Replace those of the preset.
    published : False, True or "authors"
        The settings of this package, of the paper, or of the public script of its authors.
    """
    if not isinstance(published, bool) and published != "authors":
        raise InputError(
            f"{published!r} is not allowed; use False, True (as printed) or 'authors' (their "
            "script)",
            "published",
        )
    known = _KNOWN[published]
    if name not in known:
        if published == "authors":
            raise InputError(
                f"'authors' is not available for {name}; their script has {', '.join(known)} only",
                "published",
            )
        kind = "published preset" if published else "preset"
        raise InputError(unknown(kind, name, known), "preset")
    return {key: deepcopy(value) for key, value in known[name].items()} | dict(parameters or {})


_KERNEL_ROWS = 100_000  # of all domains; similarities to 3,000 anchors then take 2.4 GB


def choose_preset(
    X: Mapping[str, Any],
    y: Mapping[str, Any] | None = None,
    pairs: Any = None,
    *,
    published: bool = False,
    in_blocks: bool = False,
    frozen: bool = False,
) -> tuple[str, str]:
    """Choose the preset of ATH that suits the given data; also return the reason in words.

    Parameters
    ----------
    X : mapping from names of domains to rows, the source first
        None for a domain of which only codes are known.
    y, pairs
        As for `ATH.fit`.
    published : bool
        Choose one of the four variants of the paper.
    in_blocks : bool
        Rows may be read in blocks, which a kernel does not allow.
    frozen : bool
        Codes of one domain must not change.

    Examples
    --------
    >>> import numpy as np
    >>> X = {"source": np.ones((3, 2)), "target": np.ones((3, 2))}
    >>> choose_preset(X, {"source": np.array([0, 1, -1])})
    ('propagated', 'some rows are labelled')
    """
    known = y or {}
    labels = class_ids(*(known.get(name) for name in X))
    if published:
        if labels[0] is None:
            return "unsupervised", "no labels of the source"
        if labels[1] is None:
            return "semi_supervised", "labels of the source"
        return "supervised", "labels of both domains"
    if pairs is not None:
        return "paired", "pairs given"
    rows = [domain for domain in X.values() if domain is not None]
    if any(ids is not None for ids in labels):
        if all(ids is not None and (ids >= 0).all() for ids in labels):
            if in_blocks:
                return "supervised", "all rows are labelled; a kernel cannot read rows in blocks"
            if sum(domain.shape[0] for domain in rows) > _KERNEL_ROWS:
                return "supervised", f"all rows are labelled; more than {_KERNEL_ROWS:,} of them"
            return "kernel", "all rows are labelled"
        if frozen:
            return "adopted", "some rows are labelled, codes are frozen"
        return "propagated", "some rows are labelled"
    if len(rows) == len(X) and len({domain.shape[1] for domain in rows}) == 1:
        first, *others = rows
        if in_blocks or all(columns_correspond(first, domain) for domain in others):
            return "unsupervised", "no labels, equal numbers of columns"
        return "structural", "no labels, columns that do not correspond"
    return "structural", "no labels, different columns"
