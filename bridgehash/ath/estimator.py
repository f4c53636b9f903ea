"""`ATH`: one estimator for all variants, and the named constructors.

The variants of the paper differ in three choices only: the graph of each domain, the bipartite
graph between the domains, and the feature map. Any combination of them is valid.
"""

from __future__ import annotations

import inspect
from collections.abc import Set
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from .._core.arrays import to_numpy
from .._core.validation import Flag, OneOf, Range, Rules, check_parameters
from ..codes import MAX_BITS, pack
from ..models.base import About, BaseTransferHasher, TrainingData
from ..models.contents import Contents, Maybe, Number
from ..models.encoder import LinearEncoder
from ..neighbors.graphs import Graph, on_host
from .fit import RuntimeOptions, learn, open_domains, part
from .presets import NAMED_PARTS, PRESETS, Published, preset


class ATHParameters(TypedDict, total=False):
    """Parameters of `ATH` by keyword."""

    source_graph: Any
    target_graph: Any
    bipartite: Any
    feature_map: Any
    completion: Any
    codes: Any
    start: Any
    alpha_source: float
    alpha_target: float
    beta_source: float
    beta_target: float
    lam: float | Literal["auto"]
    ridge: float | Literal["auto"]
    ridge_target: float | None
    ridge_towards: Literal["start"] | None
    unit_rows: bool
    unit_scale: bool
    center: Literal["domain", "joint", "auto", "classes", "pairs"]
    feature_space: Literal["auto", "same", "separate"]
    start_scale: float | None
    source_encoder: Literal["own", "target", "auto"]
    step_order: Literal["ABW", "BWA"]
    max_iter: int
    tol: float
    random_state: int | np.random.RandomState | None


class ATH(BaseTransferHasher):
    """Asymmetric transfer hashing with a bipartite graph between the domains.

    Use a named constructor: `unsupervised`, `semi_supervised`, `supervised`, `kernel`,
    `propagated`, `structural` or `paired`. Each accepts every parameter below. The first four
    also accept `published=True` for the settings of the paper, and `unsupervised` accepts
    `published="authors"` for those of the authors' public script.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, 1 to 4096. May exceed the number of features.
    source_graph, target_graph : "knn", "labels", "none" or an object with `build`, default="knn"
        Affinity inside a domain (Eqs. 7-8, 11, 13).
    bipartite : str or an object with `rule`, default="adaptive"
        Affinity between the domains: "adaptive" (learned, Eqs. 21, 28), "authors" (learned as in
        the authors' script), "labels" (Eq. 12) or "pairs".
    feature_map : None, "anchors", "rows_and_anchors" or a transformer, default=None
        φ, fitted on each domain separately; see `AnchorKernel` and `RowsAndKernel`.
    completion : None, "propagated", "partners" or an object with `complete`, default=None
        How unknown labels or partners are estimated before anything else; see `Propagation` and
        `PartnerSearch`.
    codes : "balanced", "classes", "pairs" or an object with `begin`, default="balanced"
        Codes of the training rows: balanced signs (Eq. 19), one word per class, the same in
        both domains, or one code per pair; see `ClassCodes` and `PairCodes`.
    start : str or an object with `begin`, default="itq"
        First projections of the alternation: "pca", "shared_pca", "itq", "labels", "pairs" or
        "structural"; see `PCAStart`, `LabelStart`, `PairStart`, `StructuralStart`.
    alpha_source, alpha_target : float, default=1.0
        Weight of the quantisation error T1.
    beta_source, beta_target : float, default=1e-3, 1e-1
        Weight of the structure term T3.
    lam : float or "auto", default="auto"
        Weight of the bridge term T2. "auto" chooses it without labels by cycle consistency,
        on a part of the rows; see `bridgehash.ath.selection`. It is 0.7 if a graph is given, and
        0.2 with two feature spaces if the start knows no graph: that bridge is arbitrary.
    ridge : float or "auto", default=5.0
        Added to the diagonal of Φ. "auto" needs codes="classes" and chooses from 0.03 to 10: fewest
        wrong bits in source rows and in target rows that are left out one at a time.
    ridge_target : float or None, default=None
        Ridge of the target; None: that of the source.
    ridge_towards : None or "start", default=None
        What the ridge pulls the projections towards: zero, or the first projections.
    unit_rows : bool, default=True
        Divide each row of the input by its norm first.
    unit_scale : bool, default=True
        Divide the centred rows of each domain by their root-mean-square norm.
    center : "domain", "joint", "auto", "classes" or "pairs", default="domain"
        Subtract the mean of each domain, the mean of both (needs one feature space), or the mean
        of the class means of each domain (needs labels): classes may then have other shares in
        the source than in the target. "pairs": the mean of the paired rows of each domain.
        "auto": joint if there is one feature space.
    feature_space : "auto", "same" or "separate", default="auto"
        Whether the columns of both domains mean the same. "auto": if there are equally many and
        no feature map is set.
    start_scale : float or None, default=1.0
        Mean magnitude of the first projections, compared with codes of ±1. None: as they are.
    source_encoder : "own", "target" or "auto", default="own"
        Which hash function encodes the source; "target" needs one feature space. "auto": that of
        the target if there is one feature space.
    step_order : "ABW" or "BWA", default="ABW"
        Order of the steps in an iteration: that of Algorithm 1, or that of the authors' script.
    max_iter : int, default=300
        Maximum number of iterations of Algorithm 1.
    tol : float, default=1e-3
        Stop when the relative change of the objective is smaller.
    random_state : int, RandomState or None
        Seed of rotations and anchors.

    Attributes
    ----------
    source_encoder_, target_encoder_ : LinearEncoder
        The two hash functions.
    bipartite_graph_ : Graph
        W_st over the training rows, an operator with `@`, `.T` and `.degrees`. Not saved.
    source_codes_, target_codes_ : uint8 arrays of shape (n, ceil(n_bits / 8))
        Packed codes B that the fit assigned to the training rows, from their labels or pairs if it
        uses them. `encode` gives other codes to the same rows. Not saved.
    lam_ : float
        The weight of T2 that was used.
    agreement_ : float or None
        Agreement of independent searches, for a start that searches: 1 is full agreement. Near 0
        the bridge is no better than chance, and `fit` warns with `BridgeWarning`.
    objective_ : structured array of shape (n_iter_,)
        Fields total, quantisation (T1), bridge (T2), structure (T3), ridge.
    ridge_ : float
        The ridge that was used.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_source, X_target = rng.normal(size=(60, 8)), rng.normal(size=(40, 5))
    >>> ath = ATH.unsupervised(n_bits=16, random_state=0).fit(X_source, X_target)
    >>> ath.encode(X_target[:3], domain="target").shape
    (3, 2)
    """

    about: ClassVar[About] = About("unsupervised", "Lu, Zhou, Chen, Pedrycz & Hung, TCYB 2023")
    _rules: ClassVar[Rules] = {
        "n_bits": Range(1, MAX_BITS, Integral),
        "source_graph": OneOf(tuple(NAMED_PARTS["source_graph"]), "build"),
        "target_graph": OneOf(tuple(NAMED_PARTS["target_graph"]), "build"),
        "bipartite": OneOf(tuple(NAMED_PARTS["bipartite"]), "rule"),
        "feature_map": OneOf((None, *NAMED_PARTS["feature_map"]), "fit_transform"),
        "completion": OneOf((None, *NAMED_PARTS["completion"]), "complete"),
        "codes": OneOf(tuple(NAMED_PARTS["codes"]), "begin"),
        "start": OneOf(tuple(NAMED_PARTS["start"]), "begin"),
        "alpha_source": Range(0),
        "alpha_target": Range(0),
        "beta_source": Range(0),
        "beta_target": Range(0),
        "lam": OneOf(("auto",), number=Range(0)),
        "ridge": OneOf(("auto",), number=Range(0, above=True)),
        "ridge_target": OneOf((None,), number=Range(0, above=True)),
        "ridge_towards": OneOf((None, "start")),
        "unit_rows": Flag(),
        "unit_scale": Flag(),
        "center": OneOf(("domain", "joint", "auto", "classes", "pairs")),
        "feature_space": OneOf(("auto", "same", "separate")),
        "start_scale": OneOf((None,), number=Range(0, above=True)),
        "source_encoder": OneOf(("own", "target", "auto")),
        "step_order": OneOf(("ABW", "BWA")),
        "max_iter": Range(1, kind=Integral),
        "tol": Range(0),
    }
    _contents: ClassVar[Contents] = BaseTransferHasher._contents | {
        "lam_": Number(Range(0)),
        "agreement_": Maybe(Number(Range(-np.inf))),
        "ridge_": Number(Range(0, above=True)),
        "converged_": Number(Flag()),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        source_graph: Any = "knn",
        target_graph: Any = "knn",
        bipartite: Any = "adaptive",
        feature_map: Any = None,
        completion: Any = None,
        codes: Any = "balanced",
        start: Any = "itq",
        alpha_source: float = 1.0,
        alpha_target: float = 1.0,
        beta_source: float = 1e-3,
        beta_target: float = 1e-1,
        lam: float | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = 5.0,
        ridge_target: float | None = None,
        ridge_towards: Literal["start"] | None = None,
        unit_rows: bool = True,
        unit_scale: bool = True,
        center: Literal["domain", "joint", "auto", "classes", "pairs"] = "domain",
        feature_space: Literal["auto", "same", "separate"] = "auto",
        start_scale: float | None = 1.0,
        source_encoder: Literal["own", "target", "auto"] = "own",
        step_order: Literal["ABW", "BWA"] = "ABW",
        max_iter: int = 300,
        tol: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.source_graph = source_graph
        self.target_graph = target_graph
        self.bipartite = bipartite
        self.feature_map = feature_map
        self.completion = completion
        self.codes = codes
        self.start = start
        self.alpha_source = alpha_source
        self.alpha_target = alpha_target
        self.beta_source = beta_source
        self.beta_target = beta_target
        self.lam = lam
        self.ridge = ridge
        self.ridge_target = ridge_target
        self.ridge_towards = ridge_towards
        self.unit_rows = unit_rows
        self.unit_scale = unit_scale
        self.center = center
        self.feature_space = feature_space
        self.start_scale = start_scale
        self.source_encoder = source_encoder
        self.step_order = step_order
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @classmethod
    def unsupervised(
        cls, n_bits: int = 64, *, published: Published = False, **parameters: Unpack[ATHParameters]
    ) -> Self:
        """ATH_U: no labels; k-NN graphs and a learned bipartite graph."""
        return cls(n_bits, **preset("unsupervised", parameters, published))

    @classmethod
    def semi_supervised(
        cls, n_bits: int = 64, *, published: Published = False, **parameters: Unpack[ATHParameters]
    ) -> Self:
        """ATH_M: labels of the source; a learned bipartite graph."""
        return cls(n_bits, **preset("semi_supervised", parameters, published))

    @classmethod
    def supervised(
        cls, n_bits: int = 64, *, published: Published = False, **parameters: Unpack[ATHParameters]
    ) -> Self:
        """ATH_S: labels of both domains; one code word per class."""
        return cls(n_bits, **preset("supervised", parameters, published))

    @classmethod
    def kernel(
        cls, n_bits: int = 64, *, published: Published = False, **parameters: Unpack[ATHParameters]
    ) -> Self:
        """ATH_K: ATH_S on Gaussian similarities to anchors."""
        return cls(n_bits, **preset("kernel", parameters, published))

    @classmethod
    def propagated(cls, n_bits: int = 64, **parameters: Unpack[ATHParameters]) -> Self:
        """ATH_P: labels of the source, or a few of either domain, propagated to all rows first."""
        return cls(n_bits, **preset("propagated", parameters))

    @classmethod
    def structural(cls, n_bits: int = 64, **parameters: Unpack[ATHParameters]) -> Self:
        """No labels, pairs or common features: rows are first matched by their structure."""
        return cls(n_bits, **preset("structural", parameters))

    @classmethod
    def paired(cls, n_bits: int = 64, **parameters: Unpack[ATHParameters]) -> Self:
        """Pairs of rows that show the same thing; no labels."""
        return cls(n_bits, **preset("paired", parameters))

    def fit(
        self,
        X_source: Any,
        X_target: Any,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        device: str | None = None,
        memory_limit: int | str | None = None,
        verbose: bool = False,
    ) -> Self:
        """Learn the hash functions of both domains.

        Parameters
        ----------
        X_source : array of shape (n_source, d_source)
            Features. Also a DataFrame, a path, a zarr array or blocks of rows: see
            `bridgehash.as_blocks`.
        X_target : array of shape (n_target, d_target)
        y_source, y_target : array of class ids or names, optional
            -1 marks an unknown class. Ignored by variants that do not use labels.
        pairs : array of shape (p, 2), optional
            Row numbers of the source and of the target that show the same thing. Ignored by
            variants that do not use pairs.
        device : None, "auto" or a torch device ("cuda", "cuda:1", "cpu"), default=None
            Where NumPy input is processed: by NumPy, or by torch on a device; "auto" uses a GPU
            if torch finds one. Results are NumPy arrays. Input of another library stays where it
            is. Not part of the model.
        memory_limit : int, str or None, default=None
            Memory the fit may use beyond its inputs: bytes, or a size like "4GiB". Rows that do
            not fit are read in blocks, several times. Not part of the model.
        verbose : bool, default=False
            Show a progress bar. Not part of the model.
        """
        self._check_caller()
        check_parameters(self)
        options = RuntimeOptions(device, memory_limit, verbose)
        check_parameters(options)
        X_s, X_t = open_domains(self, X_source, X_target, options)
        data = TrainingData.checked(X_s, X_t, y_source, y_target, pairs)
        result = learn(self, data, options)
        self.source_encoder_, self.target_encoder_ = result.encoders
        self.bipartite_graph_: Graph = on_host(result.solution.W)
        self.source_codes_ = pack(to_numpy(result.solution.B_s))
        self.target_codes_ = pack(to_numpy(result.solution.B_t))
        self.lam_ = float(result.solution.lam)
        self.ridge_ = float(result.solution.ridge)
        self.agreement_ = result.agreement
        self.objective_ = result.objective
        self.n_iter_ = len(result.objective)
        self.converged_ = result.solution.converged
        return self

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        return learn(self, data, RuntimeOptions()).encoders

    def used_inputs(self) -> Set[str]:
        """Which of y_source, y_target and pairs these settings learn from."""
        used: set[str] = set()
        for parameter in NAMED_PARTS:
            chosen = part(self, parameter)
            if getattr(chosen, "needs_labels", False):
                domain = parameter.removesuffix("_graph")
                used |= {f"y_{domain}"} if domain != parameter else {"y_source", "y_target"}
            if getattr(chosen, "needs_pairs", False):
                used.add("pairs")
        return used


def _show_preset_in_signature(name: str) -> None:
    """Let `help` and completion show all parameters of a named constructor with its defaults."""
    constructor = getattr(ATH, name).__func__
    defaults = PRESETS[name]
    given = inspect.signature(constructor).parameters
    shown = [p for p in given.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    for parameter in list(inspect.signature(ATH.__init__).parameters.values())[2:]:
        shown.append(parameter.replace(default=defaults.get(parameter.name, parameter.default)))
    constructor.__signature__ = inspect.Signature(shown, return_annotation="Self")


for _name in PRESETS:
    _show_preset_in_signature(_name)
