"""`ATH`: one estimator for all variants, and the named constructors.

The variants of the paper differ in three choices only: the graph of each domain, the bipartite
graph between the domains, and the feature map. Any combination of them is valid.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Set
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import to_numpy
from .._core.errors import InputError, unknown
from .._core.validation import Flag, OneOf, Range, Rules, check_parameters
from ..codes import MAX_BITS, pack, unpack
from ..models.base import About, BaseTransferHasher
from ..models.bridge_report import report_of, warn_of_bridge
from ..models.contents import Contents, Digest, Entries, Maybe, Named, Number, Values
from ..models.decoder import with_decoders, with_words
from ..models.training import Inputs
from ..neighbors.graphs import Graph, on_host
from ..streaming.blocks import column_names
from .abstaining import warn_of_abstaining
from .checks import checked_inputs
from .class_codes import ClassCodes
from .fit import FitResult, RuntimeOptions, learn, open_domains
from .frozen import frozen_inputs
from .joining import (
    adopted_space,
    changed_bits,
    class_codes,
    initial_encoders,
    learn_to_join,
    read_rows,
)
from .partial import RowSums, add_rows, begin_sums, check_settings
from .presets import NAMED_PARTS, PRESETS, Published, part, preset
from .private import Counterparts, warn_of_private


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
    `propagated`, `adopted`, `structural` or `paired`. Each accepts every parameter below. The first
    four also accept `published=True` for the settings of the paper, and `unsupervised` accepts
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
        wrong bits in source rows and in target rows that are left out one at a time. Each of more
        than two domains has a ridge of its own.
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
        Whether the columns of both domains mean the same. "auto": if there are equally many,
        they correspond as those of one model do, and no feature map is set.
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
    encoders_ : dict of LinearEncoder
        The hash functions by domain: "source" and "target", or the names given to `fit`.
    bipartite_graph_ : Graph
        W_st over the training rows of the first two domains, an operator with `@`, `.T` and
        `.degrees`. Not saved.
    training_codes_ : dict of uint8 arrays of shape (n, ceil(n_bits / 8))
        Packed codes B that the fit assigned to the training rows, from their labels or pairs if it
        uses them. `encode` gives other codes to the same rows. Not saved.
    classes_ : list of str or int, or None
        The classes of all domains.
    class_codes_ : uint8 array of shape (n_classes, ceil(n_bits / 8)), or None
        The code of each class: the majority of each bit in the codes of its training rows.
    shared_classes_ : list, or None
        Classes that at least two domains have, by given or estimated labels; None: not known. Not
        saved.
    private_classes_ : dict of lists
        Classes that no other domain has, by domain. Not saved.
    new_share_ : dict of float
        Share of the training rows that resemble no class of the other domain, by domain; without
        labels, of the rows that abstain. Not saved.
    doubtful_domains_ : list of str
        Domains whose classes may be others: two ways to estimate their labels disagree. Not saved.
    rejectors_ : dict of Rejector, or None
        What tells rows without a counterpart, by domain, if it was tested: see `rejection_score`.
    code_rejectors_ : dict of Rejector, or None
        The same for codes: see `code_rejection_score`. None once `partial_fit` changes them.
    code_space_ : str or None
        A digest of what was frozen; see `code_space`.
    changed_bits_ : dict of float
        Share of the bits of the training rows that differ from those of the `initial` model, or of
        the model before `partial_fit`, by domain; empty without one. Not saved.
    lam_ : float
        The weight of T2 that was used.
    agreement_ : float or None
        Agreement of independent searches, for a start that searches: 1 is full agreement.
    bridge_report_ : BridgeReport or None
        How good cross-domain search is expected to be, for the worst pair of the first domain with
        another one; `fit` warns with `BridgeWarning` if it is no better than chance. None if a
        domain has codes only. Not saved.
    objective_ : structured array of shape (n_iter_,)
        Fields total, quantisation (T1), bridge (T2), structure (T3), ridge.
    ridges_ : dict of float
        The ridge that was used, by domain. Not saved.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_source, X_target = rng.normal(size=(60, 8)), rng.normal(size=(40, 8))
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
        "classes_": Maybe(Entries("c")),
        "class_codes_": Maybe(Values("c b", "u")),
        "rejectors_": Maybe(Named("Rejector")),
        "code_rejectors_": Maybe(Named("Rejector")),
        "code_space_": Maybe(Digest()),
        "lam_": Number(Range(0)),
        "agreement_": Maybe(Number(Range(-np.inf))),
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
    def adopted(cls, n_bits: int = 64, **parameters: Unpack[ATHParameters]) -> Self:
        """For frozen codes: rows of a known or estimated class adopt the codes of their class."""
        return cls(n_bits, **preset("adopted", parameters))

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
        X_target: Any = None,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        y: Mapping[str, ArrayLike] | None = None,
        pairs: Any = None,
        frozen: Mapping[str, Any] | None = None,
        hub: str | None = None,
        initial: BaseTransferHasher | None = None,
        device: str | None = None,
        memory_limit: int | str | None = None,
        verbose: bool = False,
    ) -> Self:
        """Learn the hash functions of all domains.

        Parameters
        ----------
        X_source : array of shape (n_source, d_source), or a mapping from names to such arrays
            Features of the source, or of two or more domains with names of their own. Also a
            DataFrame, a path, a zarr array or blocks of rows: see `bridgehash.as_blocks`.
        X_target : array of shape (n_target, d_target)
        y_source, y_target : array of class ids or names, optional
            -1 marks an unknown class. Ignored by variants that do not use labels.
        y : mapping from names of domains to labels, optional
            In place of y_source and y_target, if the domains have names.
        pairs : array of shape (p, 2), optional
            Row numbers of the source and of the target that show the same thing. Of more than two
            domains: one column per domain, -1 where it has no such row; or a mapping from two names
            to pairs of their rows. Ignored by variants that do not use pairs.
        frozen : mapping from names of domains, optional
            Domains whose codes must not change: an encoder, a fitted model, packed codes made by
            any method, or a pair of encoder and codes. The others learn to match them. Rows of a
            domain of which only codes are known are None.
        hub : str, optional
            A domain that the others are bridged to. None: each to each, which costs more if there
            are many. Its parameters are those of the source.
        initial : a fitted model, optional
            Stay close to it, for more rows or better labels: domains that it has begin at its
            projections, and classes keep their words. `changed_bits_` tells how many bits changed.
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
        inputs = Inputs.of(X_source, X_target, y_source, y_target, y, pairs)
        held = frozen_inputs(frozen, inputs, self.n_bits)
        if hub is not None and hub not in inputs.names:
            raise InputError(unknown("domain", hub, inputs.names), "hub")
        data = inputs.checked(open_domains(self, inputs, held, options))
        number = None if hub is None else inputs.names.index(hub)
        before = initial_encoders(initial, data, self.n_bits)
        for k, encoder in before.items():
            encoder.check_names(inputs.X[k], inputs.argument("X", k))
        without_rows = [k for k, X in enumerate(inputs.X) if X is None]
        data = checked_inputs(
            self, data, without_rows=without_rows, frozen=bool(held), initial=bool(before)
        )
        result = learn(self, data, options, held, number, before)
        encoders = {
            name: encoder
            for name, encoder in zip(inputs.names, result.encoders, strict=True)
            if encoder is not None
        }
        given = dict(zip(inputs.names, inputs.X, strict=True))
        self._keep_encoders(encoders, dict(zip(data.names, data.X, strict=True)), given)
        self.training_codes_ = {
            name: pack(to_numpy(B)) for name, B in zip(inputs.names, result.codes, strict=True)
        }
        self.classes_, self.class_codes_ = class_codes(data, result.codes)
        warn_of_private(result.completed)
        found = Counterparts.of(result.completed)
        self.shared_classes_ = None if found is None else found.shared
        self.private_classes_ = {} if found is None else found.private
        self.new_share_ = {} if found is None else found.new
        self.doubtful_domains_ = [] if found is None else found.doubtful
        if result.compared is not None:
            shares = [each.abstaining for each in result.compared]
            self.new_share_ = dict(zip(inputs.names, shares, strict=True))
            warn_of_abstaining(self.new_share_)
        self._keep_rejectors(result, dict(zip(data.names, data.X, strict=True)))
        self._keep_words()
        self.code_space_ = adopted_space(frozen)
        self.bipartite_graph_: Graph = on_host(result.solution.W[0])
        self.changed_bits_ = {
            data.names[k]: changed_bits(encoder, self.encoders_[data.names[k]], data.X[k])
            for k, encoder in before.items()
        }
        self.lam_ = float(result.solution.lam)
        self.ridges_ = dict(zip(inputs.names, map(float, result.solution.ridges), strict=True))
        self._sums: dict[str, RowSums] | None = None
        self.agreement_ = result.agreement
        self.objective_ = result.objective
        self.n_iter_ = len(result.objective)
        self.converged_ = result.solution.converged
        first = number or 0
        reports = [
            report_of(
                self, data, first, k, completed=result.completed.y, frozen=bool(held or before)
            )
            for k, name in enumerate(data.names)
            if k != first and {name, data.names[first]} <= set(encoders)
        ]
        self.bridge_report_ = min(reports, key=lambda each: each.expected, default=None)
        warn_of_bridge(self.bridge_report_, checked=True)
        return self

    def partial_fit(
        self,
        X_source: Any = None,
        X_target: Any = None,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        y: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Learn from further labelled rows, without the earlier ones.

        For `supervised` and `kernel`, whose hash functions follow from sums over the rows. The
        first call is a `fit` of all domains; later ones take rows of one or more of them. Classes
        keep their words, and a new class gets one that is far from the others. Anchors, scaling
        and ridge stay those of the first call. The sums are not saved with the model.

        Parameters
        ----------
        X_source, X_target, y_source, y_target, y
            As for `fit`. A domain without new rows is None, or not in the mapping.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(60) % 3
        >>> X, Z = rng.normal(size=(60, 8)) + y[:, None], rng.normal(size=(60, 5)) + y[:, None]
        >>> model = ATH.supervised(16, random_state=0)
        >>> model = model.partial_fit(X[:30], Z[:30], y_source=y[:30], y_target=y[:30])
        >>> list(model.partial_fit(X[30:], y_source=y[30:]).changed_bits_)
        ['source']
        """
        rows, labels = X_source, y or {}
        if not isinstance(X_source, Mapping):
            given = {"source": (X_source, y_source), "target": (X_target, y_target)}
            rows = {name: X for name, (X, _) in given.items() if X is not None}
            labels = {name: each for name, (_, each) in given.items() if each is not None}
        if not hasattr(self, "encoders_"):
            check_settings(self)
            self.fit(rows, y=labels)
            self._sums = begin_sums(self, rows, labels)
            return self
        sums: dict[str, RowSums] | None = getattr(self, "_sums", None)
        if sums is None:
            raise InputError(
                "this model has no sums: it was loaded, or learned by fit; call fit(..., "
                "initial=model) with all rows, or begin with partial_fit"
            )
        self.changed_bits_ = add_rows(self, sums, rows, labels)
        self.code_rejectors_ = None
        self._keep_words()
        return self

    def code_space(self) -> str:
        """Return a digest that tells whose codes can be compared with those of this model.

        It is that of the frozen domain, or else of the first one, and stays when others join.
        """
        return super().code_space() if self.code_space_ is None else self.code_space_

    def join(
        self,
        name: str,
        X: Any,
        *,
        to: str | None = None,
        X_to: Any = None,
        codes_to: ArrayLike | None = None,
        y: ArrayLike | None = None,
        y_to: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        method: ATH | None = None,
        verbose: bool = False,
    ) -> Self:
        """Add a domain to a fitted model; no code of the other domains changes.

        Parameters
        ----------
        name : str
            Name of the new domain.
        X : array of shape (n, d)
            Its rows.
        to : str, optional
            The domain whose codes the new ones have to match; the first one by default.
        X_to : array of shape (n_to, d_to), optional
            Rows of that domain.
        codes_to : uint8 array of shape (n_to, ceil(n_bits / 8)), optional
            Packed codes of that domain, if its rows are gone. Give both if the codes of these rows
            were made by another domain: they come from an index that is older than `to`. Labels
            alone need neither: the model keeps a code for each class that it learned.
        y, y_to : array of class ids or names, optional
            Labels of X, and of X_to or codes_to; -1 marks an unknown class.
        pairs : array of shape (p, 2), optional
            Row numbers of X_to or codes_to and of X that show the same thing.
        method : ATH, optional
            What learns the new hash function. By default a preset that suits the data.
        verbose : bool, default=False
            Show a progress bar.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(60) % 3
        >>> photos, sketches = rng.normal(size=(60, 8)) + y[:, None], rng.normal(size=(60, 5))
        >>> sketches += 2.0 * (y[:, None] == np.arange(5))
        >>> model = ATH.supervised(16, random_state=0).fit(
        ...     {"photo": photos, "cartoon": photos[::2]}, y={"photo": y, "cartoon": y[::2]}
        ... )
        >>> model.join("sketch", sketches, y=y).encode(sketches[:3], domain="sketch").shape
        (3, 2)
        """
        check_is_fitted(self, "encoders_")
        names, X = column_names(X), read_rows(X, "X")
        joined = learn_to_join(
            self, name, X, to, X_to, codes_to, y=y, y_to=y_to, pairs=pairs, method=method,
            verbose=verbose,
        )  # fmt: skip
        known = next(iter(self.encoders_.values())).decoder_
        (encoder,) = with_decoders([joined.encoders_[name]], [X], known)
        self.encoders_ = {**self.encoders_, name: encoder.with_names(names)}
        if joined.classes_ is not None:
            self.classes_, self.class_codes_ = joined.classes_, joined.class_codes_
        self._keep_words()
        self.bridge_report_ = joined.bridge_report_
        return self

    def _keep_rejectors(self, result: FitResult, rows: Mapping[str, Any]) -> None:
        """Learn which rows, and which codes, of the tested domains have no counterpart."""
        X = {name: rows[name] for name in result.tested if name in self.encoders_}
        codes = {name: self.transform(each, name) for name, each in X.items()}
        self.rejectors_ = result.rejectors(X) or None
        self.code_rejectors_ = result.rejectors(codes) or None

    def _keep_words(self) -> None:
        """Let the weights of queries lean to the words of the classes, if codes are words."""
        if self.class_codes_ is not None and isinstance(part(self, "codes"), ClassCodes):
            words = unpack(self.class_codes_, self.n_bits)
            self.encoders_ = {
                name: with_words(encoder, words) for name, encoder in self.encoders_.items()
            }

    def _learned_from_labels(self) -> bool:
        return self.classes_ is not None

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
