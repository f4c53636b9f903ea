"""What a method learns from: the rows of its domains, their labels, and known pairs.

`Domains` holds any number of named domains. `TrainingData` is the form of two, which most methods
and most parts of ATH work with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import array_namespace, like
from .._core.errors import InputError, unknown
from .._core.linalg import Array
from .._core.validation import (
    check_domain,
    check_labels,
    check_name,
    check_pairs,
    check_same_library,
    class_ids,
    classes_of,
)
from ..streaming.blocks import read_all

Ids = NDArray[np.intp]
TWO = ("source", "target")  # names of the domains of the two-domain form


@dataclass(frozen=True)
class TrainingData:
    """Validated input of a two-domain `fit`."""

    X_source: Any  # an array; Blocks for a method that reads rows in blocks
    X_target: Any
    y_source: Ids | None = None  # class ids common to both domains, -1 where unknown
    y_target: Ids | None = None
    pairs: Ids | None = None  # (p, 2) row numbers in the source and in the target
    private: tuple[Any, ...] = (None, None)  # what has no counterpart: see `ath.private.Private`
    members: tuple[Array | None, ...] = (None, None)  # (n, n_classes) if classes were estimated

    def like(self, reference: Array) -> TrainingData:
        """Return the same rows in the library, and on the device, of another array."""
        X_s, X_t = like(self.X_source, reference), like(self.X_target, reference)
        return replace(self, X_source=X_s, X_target=X_t)

    def paired_rows(self, method: str) -> tuple[Array, Array]:
        """Return the rows of the pairs in the source and in the target."""
        if self.pairs is None or len(self.pairs) < 2:
            n = 0 if self.pairs is None else len(self.pairs)
            raise InputError(f"{n} given; {method} needs at least 2", "pairs")
        return self.X_source[self.pairs[:, 0]], self.X_target[self.pairs[:, 1]]

    def labelled_source(self, method: str) -> tuple[Array, Ids]:
        """Return the source rows of known class, and their classes as ids 0 to c - 1."""
        if self.y_source is None:
            raise InputError(f"missing; {method} needs labels of the source", "y_source")
        known = self.y_source >= 0
        classes, ids = np.unique(self.y_source[known], return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"fewer than two classes; {method} needs at least two", "y_source")
        return self.X_source[known], ids


@dataclass(frozen=True)
class Inputs:
    """The arguments of `fit` by domain, before they are checked."""

    names: tuple[str, ...]
    X: tuple[Any, ...]
    y: tuple[Any, ...]
    pairs: Any
    two_form: bool  # given as X_source and X_target

    @classmethod
    def of(
        cls, X_source: Any, X_target: Any, y_source: Any, y_target: Any, y: Any, pairs: Any
    ) -> Inputs:
        """Read either form: X_source and X_target, or a mapping from names to rows."""
        if not isinstance(X_source, Mapping):
            if y is not None:
                raise InputError("goes with named domains; use y_source and y_target", "y")
            return cls(TWO, (X_source, X_target), (y_source, y_target), pairs, True)
        for value, name in ((X_target, "X_target"), (y_source, "y_source"), (y_target, "y_target")):
            if value is not None:
                raise InputError("goes with X_source alone; name the domains in X and y", name)
        names = tuple(map(check_name, X_source))
        if len(names) < 2:
            raise InputError(f"{len(names)} domain; at least two are needed", "X")
        labels = y or {}
        if not isinstance(labels, Mapping):
            raise InputError("labels of named domains are a mapping from names to labels", "y")
        for name in labels:
            if name not in names:
                raise InputError(unknown("domain", str(name), names), "y")
        rows = tuple(X_source.values())
        return cls(names, rows, tuple(map(labels.get, names)), pairs, False)

    def argument(self, letter: str, k: int) -> str:
        """Return what messages call the rows ("X") or labels ("y") of a domain."""
        return f"{letter}_{self.names[k]}" if self.two_form else f"{letter}[{self.names[k]!r}]"

    def arguments(self, letter: str) -> list[str]:
        """Return what messages call the rows or labels of each domain."""
        return [self.argument(letter, k) for k in range(len(self.names))]

    def checked(self, X: Sequence[Any]) -> Domains:
        """Return validated domains; X are the rows, checked before."""
        sizes = [rows.shape[0] for rows in X]
        labels = [
            check_labels(y, n, name)
            for y, n, name in zip(self.y, sizes, self.arguments("y"), strict=True)
        ]
        pairs = check_pairs(self._pair_table(), sizes, self.names)
        classes = classes_of(*labels)
        return Domains(self.names, tuple(X), class_ids(*labels), pairs, classes)

    def _pair_table(self) -> Any:
        """Return pairs of named domains as one table, with -1 where a pair has no row."""
        if not isinstance(self.pairs, Mapping):
            return self.pairs
        parts = []
        for key, rows in self.pairs.items():
            if not (isinstance(key, tuple) and len(key) == 2 and {*key} <= {*self.names}):
                raise InputError(
                    f"{key!r} is not a pair of domains; use keys such as {self.names[:2]}", "pairs"
                )
            rows = np.asarray(rows)
            if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
                raise InputError("two whole numbers per pair are needed", f"pairs[{key!r}]")
            table = np.full((len(rows), len(self.names)), -1, dtype=np.intp)
            for name, column in zip(key, rows.T, strict=True):
                table[:, self.names.index(name)] = column
            parts.append(table)
        return np.vstack(parts) if parts else None


@dataclass(frozen=True)
class Domains:
    """Validated input of a `fit`, for any number of domains."""

    names: tuple[str, ...]
    X: tuple[Any, ...]
    y: tuple[Ids | None, ...]  # class ids common to all domains, -1 where unknown
    pairs: Ids | None = None  # (p, n_domains) row numbers, -1 where a domain has none
    classes: NDArray[Any] | None = None  # labels by class id
    codes: tuple[Array | None, ...] = ()  # ±1 codes of the domains whose codes are given
    earlier: tuple[Array | None, ...] = ()  # ±1 codes by an earlier model, to stay close to
    private: Mapping[int, Any] = field(default_factory=dict)  # by domain, if it was tested
    members: Mapping[int, Array] = field(default_factory=dict)  # by domain, (n, n_classes)
    spaces: tuple[int, ...] = ()  # domains of one number have the same columns; (): not looked at

    def two(self, i: int = 0, j: int = 1) -> TrainingData:
        """Return two of the domains."""
        pairs = None
        if self.pairs is not None:
            pairs = self.pairs[:, [i, j]]
            pairs = pairs[(pairs >= 0).all(axis=1)]
        return TrainingData(self.X[i], self.X[j], self.y[i], self.y[j], pairs)

    def alike(self, i: int, j: int) -> bool:
        """Whether the columns of two domains may mean the same."""
        equal = bool(self.X[i].shape[1] == self.X[j].shape[1])
        return equal and (not self.spaces or self.spaces[i] == self.spaces[j])

    def with_two(self, i: int, j: int, data: TrainingData) -> Self:
        """Return the domains with the labels and pairs of two of them replaced or extended."""
        y = list(self.y)
        y[i], y[j] = data.y_source, data.y_target
        known, pairs = self.two(i, j).pairs, self.pairs
        if data.pairs is not None and known is not None and self.pairs is not None:
            more = np.full((len(data.pairs) - len(known), len(self.X)), -1, dtype=np.intp)
            more[:, i], more[:, j] = data.pairs[len(known) :].T
            pairs = np.vstack([self.pairs, more])
        tested, members = (
            {k: each for k, each in zip((i, j), found, strict=True) if each is not None}
            for found in (data.private, data.members)
        )
        return replace(
            self,
            y=tuple(y),
            pairs=pairs,
            private={**self.private, **tested},
            members={**self.members, **members},
        )

    def like(self, reference: Array) -> Self:
        """Return the same rows in the library, and on the device, of another array."""
        return replace(self, X=tuple(like(X, reference) for X in self.X))


def check_rows(X: Sequence[Any], names: Sequence[str]) -> tuple[Array, ...]:
    """Return the rows of all domains as validated arrays; files and blocks are read into memory."""
    rows = []
    for given, name in zip(X, names, strict=True):
        checked = check_domain(
            given if isinstance(given, np.ndarray) else read_all(given, name), name
        )
        all_ = array_namespace(checked).all
        first = checked[:1, :]
        if bool(all_(checked[1:2, :] == first)) and bool(all_(checked[1:, :] == first)):
            raise InputError("all rows are equal; nothing can be learned from them", name)
        rows.append(checked)
    check_same_library(rows, names)
    return tuple(rows)
