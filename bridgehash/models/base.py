"""Base classes of all methods: hashers for one domain and for two.

Learning may involve two domains; the result is always ordinary encoders, one per domain.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.arrays import is_foreign
from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import (
    FLOATS,
    Range,
    check_labels,
    check_magnitude,
    check_parameters,
    class_ids,
)
from ..codes import MAX_BITS, pack
from ..streaming.blocks import column_names, needs_reading
from .bridge_report import BridgeReport, report_of, warn_of_bridge
from .contents import Contents, Course, Maybe, Named, Number, Part, Width
from .decoder import CorrectedCodes, with_decoders
from .encoder import LinearEncoder, SaveMixin
from .rejector import Rejector
from .training import TWO, Ids, Inputs, TrainingData, check_rows

FitInput = Literal["y", "y_source", "y_target", "pairs"]
N_BITS = Range(1, MAX_BITS, Integral)  # the rule of every `n_bits`
_RECORD: Contents = {  # of a fit, if the method keeps one
    "objective_": Maybe(Course()),
    "n_iter_": Maybe(Number(Range(0, kind=Integral))),
}


def _check_record(model: BaseEstimator) -> None:
    if hasattr(model, "objective_") and not isinstance(getattr(model, "n_iter_", None), int):
        raise ValueError("objective_ has no n_iter_")


@dataclass(frozen=True)
class About:
    """Facts about a method: its kind, its reference, and what `fit` needs besides features."""

    kind: Literal["unsupervised", "semi-supervised", "supervised", "paired"]
    citation: str
    needs: tuple[FitInput, ...] = ()  # "y": labels of either domain
    uses: tuple[FitInput, ...] = ()  # optional


def _learns_from_labels(about: About) -> bool:
    return about.kind in ("semi-supervised", "supervised")


class BaseHasher(SaveMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A method for one domain: `fit(X, y=None)`, then codes of rows of the same width.

    Subclasses implement `_learn(X, y)`, which returns a `LinearEncoder`.
    """

    about: ClassVar[About]
    _contents: ClassVar[Contents] = _RECORD | {
        "n_features_in_": Width("d"),
        "encoder_": Part("LinearEncoder"),
    }
    n_bits: int
    encoder_: LinearEncoder

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the hash function from the rows of X."""
        check_parameters(self)
        rows: Array = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        check_magnitude(rows, "X")
        encoder = self._learn(rows, check_labels(y, len(rows), "y"))
        (encoder,) = with_decoders([encoder], [rows])
        self.encoder_ = encoder.with_names(column_names(X))
        return self

    @abstractmethod
    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        """Return the hash function for validated rows."""

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the projections before the sign, shape (n, n_bits)."""
        return self._checked_encoder(X).decision_function(X)

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Return the codes as ±1, shape (n, n_bits)."""
        return self._checked_encoder(X).transform(X)

    def encode(self, X: Any) -> NDArray[np.uint8]:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        return self._checked_encoder(X).encode(X)

    def encode_corrected(self, X: Any, *, codes: ArrayLike | None = None) -> CorrectedCodes:
        """Return packed codes and their corrections (see `LinearEncoder.encode_corrected`)."""
        return self._checked_encoder(X).encode_corrected(X, codes=codes)

    def query_weights(self, X: Any) -> NDArray[np.float32]:
        """Return what each bit counts for queries X, for `HammingIndex.search(weights=)`."""
        return self._checked_encoder(X).query_weights(X)

    @property
    def stores_corrections(self) -> bool:
        """Whether an index of items of this model should store corrections.

        Not if it learned from labels: such codes follow classes better than distances do. Nor if it
        was fitted by an earlier version, which learned no decoder.
        """
        check_is_fitted(self)
        return not _learns_from_labels(self.about) and self.encoder_.decoder_ is not None

    def _checked_encoder(self, X: Any) -> LinearEncoder:
        """The encoder, once X has the columns of the training data."""
        check_is_fitted(self)
        if not is_foreign(X) and not needs_reading(X):
            validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        return self.encoder_

    def _check_loaded(self) -> None:
        """Refuse a model whose parts do not fit together; run when it is loaded."""
        found = (self.encoder_.n_features_in_, self.encoder_.n_bits)
        if found != (self.n_features_in_, self.n_bits):
            raise ValueError(
                f"encoder_ has (columns, bits) {found}, the model "
                f"{(self.n_features_in_, self.n_bits)}"
            )
        _check_record(self)

    @property
    def _n_features_out(self) -> int:
        return self.n_bits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are always int8
        return tags


class BaseLabelHasher(BaseHasher):
    """A one-domain method that learns from labels; rows labelled -1 (unknown) are left out.

    Subclasses implement `_learn_classes(X, y)`.
    """

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        name = type(self).__name__
        if y is None:
            raise InputError(f"{name} requires y to be passed, but the target y is None")
        (ids,) = class_ids(y)
        assert ids is not None
        known = ids >= 0
        if len(np.unique(ids[known])) < 2:
            raise InputError(f"fewer than two classes; {name} needs at least two", "y")
        return self._learn_classes(X[known], ids[known])

    @abstractmethod
    def _learn_classes(self, X: Array, y: Ids) -> LinearEncoder:
        """Return the hash function for rows of known classes 0 to c - 1."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class BaseTransferHasher(SaveMixin, BaseEstimator, ABC):
    """A method for several domains: `fit(X_source, X_target)`, then codes of rows of any."""

    about: ClassVar[About]
    _contents: ClassVar[Contents] = _RECORD | {"encoders_": Named("LinearEncoder")}
    encoders_: dict[str, LinearEncoder]  # by domain
    rejectors_: dict[str, Rejector] | None = None  # by domain
    bridge_report_: BridgeReport | None = None  # of the last fit; not saved

    fit: Any  # fit(X_source, X_target, *, y_source, y_target, y, pairs)

    def _check_loaded(self) -> None:
        """Refuse a model whose parts do not fit together; run when it is loaded."""
        found = {encoder.n_bits for encoder in self.encoders_.values()}
        if len(found) != 1 or found != {getattr(self, "n_bits", *found)}:
            raise ValueError(f"the encoders have {sorted(found)} bits, unlike n_bits")
        _check_record(self)

    def used_inputs(self) -> Set[str]:
        """Which of y_source, y_target and pairs this method learns from, if they are given."""
        used: set[str] = {*self.about.needs, *self.about.uses}
        return used - {"y"} | ({"y_source", "y_target"} if "y" in used else set())

    def _check_caller(self) -> None:
        """Refuse a call by scikit-learn itself, which would pass labels as X_target."""
        if sys._getframe(2).f_globals.get("__name__", "").startswith("sklearn."):
            raise InputError(
                f"{type(self).__name__} learns from two domains and cannot be a step of a "
                "scikit-learn Pipeline or search: fit it by itself, then use source_encoder_ and "
                "target_encoder_, which can"
            )

    def encoder(self, domain: str) -> LinearEncoder:
        """Return the fitted encoder of a domain."""
        check_is_fitted(self, "encoders_")
        if domain not in self.encoders_:
            listed = " or ".join(map(repr, self.encoders_))
            raise InputError(f"{domain!r} is not allowed; use {listed}", "domain")
        return self.encoders_[domain]

    def code_space(self) -> str:
        """Return a digest that tells whose codes can be compared with those of this model.

        It is that of the first encoder, so it stays the same when further domains join.
        """
        check_is_fitted(self, "encoders_")
        return next(iter(self.encoders_.values())).fingerprint()

    @property
    def source_encoder_(self) -> LinearEncoder:
        """The encoder of the domain "source"."""
        return self.encoder("source")

    @property
    def target_encoder_(self) -> LinearEncoder:
        """The encoder of the domain "target"."""
        return self.encoder("target")

    def decision_function(self, X: Any, domain: str) -> Array:
        """Return the projections before the sign, shape (n, n_bits)."""
        return self.encoder(domain).decision_function(X)

    def transform(self, X: Any, domain: str) -> NDArray[np.int8]:
        """Return the codes as ±1, shape (n, n_bits)."""
        return self.encoder(domain).transform(X)

    def encode(self, X: Any, domain: str) -> NDArray[np.uint8]:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        return self.encoder(domain).encode(X)

    def encode_corrected(
        self, X: Any, domain: str, *, codes: ArrayLike | None = None
    ) -> CorrectedCodes:
        """Return packed codes and their corrections (see `LinearEncoder.encode_corrected`)."""
        return self.encoder(domain).encode_corrected(X, codes=codes)

    def query_weights(self, X: Any, domain: str) -> NDArray[np.float32]:
        """Return what each bit counts for queries X, for `HammingIndex.search(weights=)`."""
        return self.encoder(domain).query_weights(X)

    def rejection_score(self, X: Any, domain: str = "target") -> NDArray[np.float64]:
        """Return how likely rows have no counterpart in the other domains, shape (n,).

        About 0 for rows as like a class of the others as rows usually are, about 1 for rows that
        are like none. `ATH.propagated` learns it if the other domain has labels of all rows and the
        same features, `ATH.unsupervised` for a domain with rows that abstain.
        """
        return self._rejector(domain).scores(self.encoder(domain)._checked(X))

    def rejects(self, X: Any, domain: str = "target") -> NDArray[np.bool_]:
        """Mark rows that seem to have no counterpart in the other domains."""
        return self._rejector(domain).rejects(self.encoder(domain)._checked(X))

    def _rejector(self, domain: str) -> Rejector:
        self.encoder(domain)  # refuses unknown domains
        known = self.rejectors_ or {}
        if domain not in known:
            raise InputError(
                f"this model cannot tell which rows of {domain!r} have no counterpart; fit "
                "ATH.propagated with labels of the other domain, in one feature space",
                "domain",
            )
        return known[domain]

    @property
    def stores_corrections(self) -> bool:
        """Whether an index of items of this model should store corrections.

        Not if it learned from labels: such codes follow classes better than distances do. Nor if a
        domain was fitted by an earlier version, which learned no decoder.
        """
        check_is_fitted(self, "encoders_")
        decoders = [encoder.decoder_ for encoder in self.encoders_.values()]
        return not self._learned_from_labels() and None not in decoders

    def _learned_from_labels(self) -> bool:
        return _learns_from_labels(self.about)

    def _keep_encoders(
        self,
        encoders: Mapping[str, LinearEncoder],
        rows: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> None:
        """Keep the encoders of a fit, with one decoder: that of frozen codes, if it is known.

        `rows` are the rows as arrays or blocks, `given` as the user gave them: with column names.
        """
        known = (each.decoder_ for each in encoders.values() if each.decoder_ is not None)
        shared = with_decoders(
            list(encoders.values()), [rows[name] for name in encoders], next(known, None)
        )
        self.encoders_ = {
            name: encoder.with_names(column_names(given[name]))
            for name, encoder in zip(encoders, shared, strict=True)
        }

    def encode_both(self, X_source: Any, X_target: Any = None) -> NDArray[np.uint8]:
        """Return packed codes of items that are known in several feature spaces.

        The code of an item is the signs of the summed projections of its rows, so the domain with
        the larger projections decides more bits: that of the surer prediction, if the method
        predicts codes.

        Parameters
        ----------
        X_source : array of shape (n, d_source), or a mapping from names of domains to such arrays
        X_target : array of shape (n, d_target)
            Row i shows the same item as row i of X_source.
        """
        rows = X_source
        if not isinstance(X_source, Mapping):
            rows = dict(zip(TWO, (X_source, X_target), strict=True))
        if not rows:
            raise InputError("no domain given", "X_source")
        total: Any = 0.0
        for name, X in rows.items():
            H = self.decision_function(X, name)
            if np.ndim(total) and H.shape != total.shape:
                raise InputError(
                    f"{H.shape[0]} rows, but {next(iter(rows))} has {total.shape[0]}; row i of "
                    "all domains must show the same item",
                    f"X_{name}",
                )
            total = H + total
        return pack(total)


class BaseTwoDomainHasher(BaseTransferHasher):
    """A method for two domains.

    Subclasses implement `_learn(data)`, which returns the encoders of source and target.
    """

    def fit(
        self,
        X_source: Any,
        X_target: Any = None,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        y: Mapping[str, ArrayLike] | None = None,
        pairs: ArrayLike | None = None,
    ) -> Self:
        """Learn the hash functions of both domains.

        Parameters
        ----------
        X_source : array of shape (n_source, d_source), or a mapping from names to two such arrays
            Features. Also a DataFrame, a path, a zarr array or blocks of rows: see
            `bridgehash.as_blocks`.
        X_target : array of shape (n_target, d_target)
        y_source, y_target : array of class ids or names, optional
            -1 marks an unknown class. Ignored by methods that do not use labels.
        y : mapping from names of domains to labels, optional
            In place of y_source and y_target, if the domains have names.
        pairs : array of shape (p, 2), optional
            Row numbers of the source and of the target that show the same thing. Ignored by
            methods that do not use pairs.
        """
        self._check_caller()
        check_parameters(self)
        inputs = Inputs.of(X_source, X_target, y_source, y_target, y, pairs)
        if len(inputs.names) != 2:
            raise InputError(
                f"{len(inputs.names)} domains; {type(self).__name__} learns from two: use ATH", "X"
            )
        rows = check_rows(inputs.X, inputs.arguments("X"))
        data = inputs.checked(rows)
        encoders = self._learn(data.two())
        named = dict(zip(inputs.names, encoders, strict=True))
        given = dict(zip(inputs.names, inputs.X, strict=True))
        self._keep_encoders(named, dict(zip(inputs.names, rows, strict=True)), given)
        self.bridge_report_ = report_of(self, data)
        warn_of_bridge(self.bridge_report_)
        return self

    @abstractmethod
    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        """Return the encoders of source and target."""
