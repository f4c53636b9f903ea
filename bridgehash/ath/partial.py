"""Learn from further labelled rows without the earlier ones.

With one word per class and T1 alone, the A-step is a ridge regression of words on rows, so a domain
is determined by two weighted sums over its rows. They are updated, and the words of the classes
stay. A row has the weight that its class has when the row arrives: all classes count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import to_numpy
from .._core.errors import InputError, unknown
from .._core.linalg import Array, SPDSolver
from .._core.validation import UNKNOWN, check_labels, classes_of
from ..codes import pack, unpack
from ..models.encoder import LinearEncoder
from ..models.feature_maps import RowsAndKernel
from .class_codes import ClassCodes, further_words
from .joining import changed_bits, read_rows
from .presets import part

Words = dict[Any, Array]  # by class, ±1


@dataclass
class RowSums:
    """Sums over the rows (1, z) of a domain and the words b of their classes."""

    ridge: float  # relative to the weight of T1
    counts: dict[Any, int] = field(default_factory=dict)  # rows by class
    rows: Any = 0.0  # (m + 1, m + 1): Σ w (1, z)ᵀ (1, z)
    words: Any = 0.0  # (m + 1, n_bits): Σ w (1, z)ᵀ b

    def add(self, encoder: LinearEncoder, X: Array, y: NDArray[Any], words: Words) -> None:
        """Add labelled rows."""
        classes, ids, counts = np.unique(y, return_inverse=True, return_counts=True)
        for c, n in zip(classes.tolist(), counts.tolist(), strict=True):
            self.counts[c] = self.counts.get(c, 0) + n
        share = sum(self.counts.values()) / len(self.counts)
        w = np.array([share / self.counts[c] for c in classes.tolist()])[ids]
        Z: Any = X
        for feature_map in encoder.maps:
            Z = feature_map.transform(Z)
        rows = np.column_stack([np.ones(len(Z)), to_numpy(Z).astype(np.float64)])
        B = np.array([words[c] for c in classes.tolist()])[ids]
        self.rows = self.rows + rows.T @ (w[:, None] * rows)
        self.words = self.words + rows.T @ (w[:, None] * B)

    def encoder(self, before: LinearEncoder) -> LinearEncoder:
        """Return the hash function of all rows so far, on the scale of the one before."""
        weight, scale = self.rows[0, 0], before.scale
        mean = self.rows[0, 1:] / weight
        gram = self.rows[1:, 1:] - weight * np.outer(mean, mean)
        right = self.words[1:] - np.outer(mean, self.words[0])
        A = SPDSolver(gram / scale**2, self.ridge)(right / scale)
        dtype = before.projection.dtype
        after = LinearEncoder(A.astype(dtype), mean.astype(dtype), scale, before.maps)
        after.decoder_ = before.decoder_
        return after.with_names(before.feature_names_in_)


def check_settings(ath: Any) -> None:
    """Raise `InputError` if sums over rows do not determine a fit with these settings."""
    alone = (ath.lam, ath.beta_source, ath.beta_target) == (0.0, 0.0, 0.0)
    if not (alone and isinstance(part(ath, "codes"), ClassCodes) and ath.center == "classes"):
        raise InputError(
            "partial_fit needs a fit by class words alone, such as ATH.supervised or ATH.kernel; "
            "use fit(..., initial=model) to stay close to an earlier model"
        )
    if ath.feature_map is not None and isinstance(part(ath, "feature_map"), RowsAndKernel):
        raise InputError("RowsAndKernel cannot be used with partial_fit", "feature_map")


def begin_sums(ath: Any, X: Mapping[str, Any], y: Mapping[str, Any]) -> dict[str, RowSums]:
    """Return the sums of a fit."""
    words = class_words(ath)
    sums = {}
    for name, encoder in ath.encoders_.items():
        alpha = ath.alpha_source if name == next(iter(ath.encoders_)) else ath.alpha_target
        sums[name] = RowSums(ath.ridges_[name] / alpha)
        sums[name].add(encoder, *labelled(X[name], y[name], name), words)
    return sums


def add_rows(
    ath: Any, sums: Mapping[str, RowSums], X: Mapping[str, Any], y: Mapping[str, Any]
) -> dict[str, float]:
    """Add rows to the sums and update the model; return the share of their bits that changed."""
    for name in X:
        if name not in sums:
            raise InputError(unknown("domain", str(name), list(sums)), "X")
    for name, rows in X.items():
        ath.encoders_[name].check_names(rows, f"X[{name!r}]")
    given = {name: labelled(rows, y.get(name), name) for name, rows in X.items()}
    for name, (rows, _) in given.items():  # before anything changes
        wanted = ath.encoders_[name].n_features_in_
        if rows.shape[1] != wanted:
            raise InputError(f"{rows.shape[1]} columns; {name} has {wanted}", f"X[{name!r}]")
    _add_classes(ath, given)
    words, changed, encoders = class_words(ath), {}, dict(ath.encoders_)
    for name, (rows, labels) in given.items():
        before = encoders[name]
        sums[name].add(before, rows, labels, words)
        encoders[name] = sums[name].encoder(before)
        changed[name] = changed_bits(before, encoders[name], rows)
    ath.encoders_ = encoders
    return changed


def class_words(ath: Any) -> Words:
    """Return the words of the classes of a model."""
    words = unpack(ath.class_codes_, ath.n_bits).astype(np.float64)
    return dict(zip(ath.classes_, words, strict=True))


def labelled(X: Any, y: Any, name: str) -> tuple[Array, NDArray[Any]]:
    """Return the rows of known class, and their classes."""
    rows = read_rows(X, f"X[{name!r}]")
    if y is None:
        raise InputError(f"missing; partial_fit needs labels of {name}", f"y[{name!r}]")
    labels = check_labels(y, len(rows), f"y[{name!r}]")
    assert labels is not None
    known = np.ones(len(rows), bool) if labels.dtype.kind in "US" else labels != UNKNOWN
    if not known.any():
        raise InputError("no row has a label", f"y[{name!r}]")
    return rows[known], labels[known]


def _add_classes(ath: Any, given: Mapping[str, tuple[Array, NDArray[Any]]]) -> None:
    """Give words to classes that the model does not have, far from the others."""
    found = classes_of(*(labels for _, labels in given.values()))
    assert found is not None
    fresh = [c for c in found.tolist() if c not in ath.classes_]
    if not fresh:
        return
    if {type(c) for c in fresh} != {type(ath.classes_[0])}:
        raise InputError(f"{fresh[0]!r} is no class like {ath.classes_[0]!r}", "y")
    words = class_words(ath)
    rng = np.random.RandomState(len(words))
    more = further_words(np.array(list(words.values())), len(fresh), rng)
    words |= dict(zip(fresh, more, strict=True))
    ath.classes_ = sorted(words)
    ath.class_codes_ = pack(np.array([words[c] for c in ath.classes_]))
