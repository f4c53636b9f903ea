"""ATH: one estimator, whose parts are named choices, and the settings that have names.

The realisations of the paper differ in three choices only: the graph of each domain, the
bipartite graph, and the feature map. They are four points of a grid all of which is usable.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state

from .._validation import Flag, OneOf, Range, Rules
from ..base import BaseTransferHasher, TrainingData
from ..blocks import as_blocks
from ..codes import MAX_BITS
from ..encoder import LinearEncoder
from ..graphs import Graph, on_host
from ..mappers import Serial, current_mapper
from .learning import Learning, check_in_blocks
from .memory import Plan, memory_plan
from .parts import BIPARTITES, CARRIES, COMPLETIONS, FEATURE_MAPS, GRAPHS, STARTS
from .presets import preset
from .solver import Solution
from .steps import Objective


class ATH(BaseTransferHasher):
    """Asymmetric transfer hashing with a bipartite graph between the domains.

    Use one of the named constructors `unsupervised`, `semi_supervised`, `supervised`, `kernel`,
    `propagated`, `paired`, `structural`, or `published` for the constants of the paper; every
    parameter can be overridden there.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, 1 to 4096. More bits than the data has dimensions are allowed.
    source_graph, target_graph : "knn", "labels", "none" or an object with `build`, default="knn"
        Affinity inside a domain (Eqs. 7-8, 11, 13).
    bipartite : "adaptive", "labels", "pairs" or an object with `rule`, default="adaptive"
        Affinity between the domains: learned (Eqs. 21, 28), from labels (Eq. 12) or from pairs.
    feature_map : None, "anchors" or a transformer, default=None
        φ, fitted on each domain by itself.
    completion : None, "propagated" or an object with `complete`, default=None
        How classes that are not known are found before anything else; see
        `bridgehash.memberships`.
    carry : None, "pairs" or an object with `carry`, default=None
        How rows of the target are brought into the space of the source before the alternation;
        see `bridgehash.pairing`.
    start : str or an object with `begin`, default="itq"
        Where the alternation begins: "pca", "shared_pca", "itq", "labels" or "structural"; see
        `bridgehash.ath.starts`.
    alpha_source, alpha_target : float, default=1.0
        Weight of the quantisation error T1.
    beta_source, beta_target : float, default=1e-3, 1e-1
        Weight of the structure T3.
    lam : float, default=0.2
        Weight of the bridge T2.
    ridge : float, default=1.5
        Added to the diagonal of Φ; features are on a scale of root-mean-square row norm one.
    ridge_towards : None or "start", default=None
        What the ridge pulls the projections to: zero, or where they began.
    unit_rows : bool, default=True
        Divide each row of the input by its norm first.
    center : "domain" or "joint", default="domain"
        Subtract each domain's own mean, or that of both together (in one feature space).
    feature_space : "auto", "same" or "separate", default="auto"
        Do the columns of both domains mean the same? "auto": if they are equally many and no
        feature map is set.
    start_scale : float, default=1.0
        Mean magnitude of the first projections, compared with codes of ±1.
    source_encoder : "own" or "target", default="own"
        Which hash function serves the source; "target" needs one feature space.
    max_iter : int, default=100
        Cap on the rounds of Algorithm 1.
    tol : float, default=1e-3
        Stop when the objective changes by less than this part of itself.
    device : None, "auto" or a name that torch knows ("cuda", "cuda:1", "cpu"), default=None
        Where NumPy input is worked on: on the host by NumPy, or by torch on a device; "auto" is a
        GPU where torch finds one and the host otherwise. Results are NumPy arrays again. Input
        of another library stays where it is.
    memory_limit : int, str or None, default=None
        What the fit may take on top of its inputs: bytes, or a size like "4GiB". Rows that do not
        fit are read in blocks, again and again; see `bridgehash.as_blocks` for what may hold them.
    random_state : int, RandomState or None
        Draws rotations and anchors.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    source_encoder_, target_encoder_ : LinearEncoder
        The two hash functions.
    bipartite_graph_ : Graph
        W_st over the training rows, an operator with `@`, `.T` and `.degrees`; on the host
        wherever the fit ran. Not saved.
    agreement_ : float or None
        How far independent searches for the start agree, where it is searched for: 1 is fully.
        Near 0 the bridge is no better than chance, and `fit` gives a `BridgeWarning`.
    objective_ : structured array of shape (n_iter_,)
        Fields total, quantisation (T1), bridge (T2), structure (T3), ridge.
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

    _rules: ClassVar[Rules] = {
        "n_bits": Range(1, MAX_BITS, Integral),
        "source_graph": OneOf(tuple(GRAPHS), "build"),
        "target_graph": OneOf(tuple(GRAPHS), "build"),
        "bipartite": OneOf(tuple(BIPARTITES), "rule"),
        "feature_map": OneOf((None, *FEATURE_MAPS), "fit_transform"),
        "completion": OneOf((None, *COMPLETIONS), "complete"),
        "carry": OneOf((None, *CARRIES), "carry"),
        "start": OneOf(tuple(STARTS), "begin"),
        "alpha_source": Range(0),
        "alpha_target": Range(0),
        "beta_source": Range(0),
        "beta_target": Range(0),
        "lam": Range(0),
        "ridge": Range(0, above=True),
        "ridge_towards": OneOf((None, "start")),
        "unit_rows": Flag(),
        "center": OneOf(("domain", "joint")),
        "feature_space": OneOf(("auto", "same", "separate")),
        "start_scale": Range(0, above=True),
        "source_encoder": OneOf(("own", "target")),
        "max_iter": Range(1, kind=Integral),
        "tol": Range(0),
        "verbose": Flag(),
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
        carry: Any = None,
        start: Any = "itq",
        alpha_source: float = 1.0,
        alpha_target: float = 1.0,
        beta_source: float = 1e-3,
        beta_target: float = 1e-1,
        lam: float = 0.2,
        ridge: float = 1.5,
        ridge_towards: Literal["start"] | None = None,
        unit_rows: bool = True,
        center: Literal["domain", "joint"] = "domain",
        feature_space: Literal["auto", "same", "separate"] = "auto",
        start_scale: float = 1.0,
        source_encoder: Literal["own", "target"] = "own",
        max_iter: int = 100,
        tol: float = 1e-3,
        device: str | None = None,
        memory_limit: int | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.source_graph = source_graph
        self.target_graph = target_graph
        self.bipartite = bipartite
        self.feature_map = feature_map
        self.completion = completion
        self.carry = carry
        self.start = start
        self.alpha_source = alpha_source
        self.alpha_target = alpha_target
        self.beta_source = beta_source
        self.beta_target = beta_target
        self.lam = lam
        self.ridge = ridge
        self.ridge_towards = ridge_towards
        self.unit_rows = unit_rows
        self.center = center
        self.feature_space = feature_space
        self.start_scale = start_scale
        self.source_encoder = source_encoder
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def unsupervised(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """ATH_U: no labels; k-NN graphs and a learned bipartite graph."""
        return cls(n_bits, **(preset("unsupervised") | parameters))

    @classmethod
    def semi_supervised(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """ATH_M: labels of the source; a learned bipartite graph."""
        return cls(n_bits, **(preset("semi_supervised") | parameters))

    @classmethod
    def supervised(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """ATH_S: labels of both domains in all three graphs."""
        return cls(n_bits, **(preset("supervised") | parameters))

    @classmethod
    def kernel(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """ATH_K: ATH_S on Gaussian similarities to anchors."""
        return cls(n_bits, **(preset("kernel") | parameters))

    @classmethod
    def propagated(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """ATH_P: labels of the source, or a few of either domain, spread to all rows first."""
        return cls(n_bits, **(preset("propagated") | parameters))

    @classmethod
    def structural(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """No labels, no pairs, no common features: rows are matched by their structure first."""
        return cls(n_bits, **(preset("structural") | parameters))

    @classmethod
    def paired(cls, n_bits: int = 64, **parameters: Any) -> Self:
        """Pairs of rows that show the same thing carry the target into the source's space."""
        return cls(n_bits, **(preset("paired") | parameters))

    @classmethod
    def published(cls, realisation: str, n_bits: int = 64, **parameters: Any) -> Self:
        """A realisation with the constants and the PCA start that the paper prints."""
        return cls(n_bits, **(preset(realisation, published=True) | parameters))

    def _opened(self, X_source: Any, X_target: Any) -> tuple[Any, Any]:
        """The rows as arrays, or in blocks where a limit on memory or a cluster asks for it."""
        if self.memory_limit is None and isinstance(current_mapper(), Serial):
            return super()._opened(X_source, X_target)
        source, target = as_blocks(X_source, name="X_source"), as_blocks(X_target, name="X_target")
        plan = Plan(in_blocks=True)
        if self.memory_limit is not None:
            plan = memory_plan(self.memory_limit, (source, target), self.n_bits)
        if not plan.in_blocks:
            return super()._opened(source, target)
        check_in_blocks(self)
        sizes = plan.block_bytes, plan.cache_bytes // 2
        return source.in_blocks_of(*sizes), target.in_blocks_of(*sizes)

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        learned = Learning(self, check_random_state(self.random_state)).learn(data)
        self.agreement_ = learned.agreement
        self._keep(learned.solution)
        return learned.source, learned.target

    def _keep(self, solution: Solution) -> None:
        """Leave the record of the fit; warn if it ran out of rounds."""
        self.bipartite_graph_: Graph = on_host(solution.W)
        self.objective_ = _as_record(solution.history)
        self.n_iter_ = len(solution.history)
        self.converged_ = solution.converged
        if self.tol > 0 and not solution.converged:
            warnings.warn(
                f"the objective still moved by more than tol={self.tol:g} after "
                f"max_iter={self.max_iter} rounds; raise either",
                ConvergenceWarning,
                stacklevel=4,
            )


def _as_record(history: list[Objective]) -> NDArray[np.void]:
    """The objective per iteration, with a field for each term."""
    fields = [(name, np.float64) for name in ("total", *Objective._fields)]
    return np.array([(terms.total, *terms) for terms in history], dtype=fields)
