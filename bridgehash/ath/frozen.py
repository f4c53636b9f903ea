"""Domains whose codes stay as they are: a known hash function, or codes of unknown origin.

The solver leaves out the A- and B-steps of such a domain. The others learn to match its codes.
Projections count relative to their centre, as features do; the centre of the frozen ones is added
to the hash functions that follow them. docs/maths.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import like, take_rows, to_numpy
from .._core.errors import InputError, unknown
from .._core.linalg import Array, RidgeSolver, unit_rows
from ..codes import n_bytes, unpack
from ..models.base import BaseHasher, BaseTransferHasher
from ..models.encoder import LinearEncoder
from ..models.feature_maps import UnitRows
from ..models.training import Ids, Inputs
from .class_codes import Codes, signs

_TINY = 1e-30
_RIDGE = 1.0  # of the regression that takes the place of an unknown encoder, for unit rows


@dataclass(frozen=True)
class FrozenInput:
    """What `fit` was given for a frozen domain: an encoder, codes, or both."""

    encoder: LinearEncoder | None
    codes: NDArray[np.int8] | None = None  # ±1
    stands_for_rows: bool = False  # the codes are the only known features of their rows


def frozen_inputs(frozen: Any, inputs: Inputs, n_bits: int) -> dict[int, FrozenInput]:
    """Check the argument `frozen` of `fit`; return what is frozen, by number of the domain."""
    if frozen is None:
        return {}
    if not isinstance(frozen, Mapping):
        raise InputError(
            f"is a mapping from names of domains, such as {{{inputs.names[0]!r}: encoder}}",
            "frozen",
        )
    checked = {}
    for name, given in frozen.items():
        if name not in inputs.names:
            raise InputError(unknown("domain", str(name), inputs.names), "frozen")
        k = inputs.names.index(name)
        argument = f"frozen[{name!r}]"
        given, codes = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        if isinstance(given, BaseTransferHasher):
            given = given.encoder(name)
        elif isinstance(given, BaseHasher):
            given = given.encoder_
        if isinstance(given, LinearEncoder):
            if given.n_bits != n_bits:
                raise InputError(f"has {given.n_bits} bits, but n_bits is {n_bits}", argument)
            if inputs.X[k] is None:
                raise InputError(
                    f"missing; rows of {name} are needed beside its encoder",
                    inputs.argument("X", k),
                )
            given.check_names(inputs.X[k], inputs.argument("X", k))
            both = None if codes is None else _unpacked(codes, n_bits, argument)
            checked[k] = FrozenInput(given, both)
        else:
            codes = _unpacked(given, n_bits, argument)
            checked[k] = FrozenInput(None, codes, inputs.X[k] is None)
    if len(checked) == len(inputs.names):
        raise InputError("all domains are frozen; nothing is left to learn", "frozen")
    return checked


def _unpacked(codes: Any, n_bits: int, argument: str) -> NDArray[np.int8]:
    """Return packed codes as ±1."""
    packed = to_numpy(codes)
    width = n_bytes(n_bits)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width:
        raise InputError(
            f"type {packed.dtype}, shape {packed.shape}; give an encoder, a model, or packed codes "
            f"of {n_bits} bits: uint8 of shape (n, {width})",
            argument,
        )
    spare = 8 * width - n_bits
    if spare and (packed[:, -1] & (2**spare - 1)).any():
        raise InputError(f"has more than {n_bits} bits; set n_bits to their number", argument)
    return unpack(packed, n_bits)


@dataclass(frozen=True)
class Frozen:
    """A frozen domain during a fit."""

    H: Array  # (n, n_bits) projections of mean magnitude one; the codes if they are given
    B: Array  # (n, n_bits) codes, ±1
    X: Array  # raw rows, or the codes if there are none
    encoder: LinearEncoder | None = None
    size: float = 1.0  # mean magnitude of the projections of the encoder
    has_rows: bool = True

    @classmethod
    def of(cls, given: FrozenInput, X: Any, dtype: Any) -> Frozen:
        """Compute the projections and codes of a frozen domain."""
        if given.encoder is None:
            assert given.codes is not None
            B = given.codes.astype(dtype)
            return cls(B, B, X, has_rows=not given.stands_for_rows)
        H = to_numpy(given.encoder.decision_function(X)).astype(dtype, copy=False)
        size = max(float(np.abs(H).mean()), _TINY)
        if given.codes is not None:
            B = given.codes.astype(dtype)
            return cls(B, B, X, given.encoder, size)
        return cls(H / size, signs(H), X, given.encoder, size)

    @cached_property
    def hash_function(self) -> LinearEncoder | None:
        """The encoder or, for codes of known rows, a regression of the codes on the rows."""
        if self.encoder is not None or not self.has_rows:
            return self.encoder
        rows = unit_rows(self.X)
        mean = rows.mean(axis=0)
        A = RidgeSolver(rows - mean, _RIDGE)(self.B - self.B.mean(axis=0))
        return LinearEncoder(A, mean, maps=[UnitRows().fit(self.X)])

    @property
    def linear(self) -> tuple[Callable[[Ids], Array], Array] | None:
        """Features φ of some rows, and A for projections φ A of mean magnitude one."""
        encoder = self.hash_function
        if encoder is None:
            return None
        return partial(_features, encoder, self.X), encoder.projection / (encoder.scale * self.size)

    def project(self, X: Any) -> Array:
        """Return projections of rows of another domain with the same features."""
        assert self.hash_function is not None
        return to_numpy(self.hash_function.decision_function(X)) / self.size


def _features(encoder: LinearEncoder, X: Array, rows: Ids) -> Array:
    Z: Any = take_rows(X, rows)
    for feature_map in encoder.maps:
        Z = feature_map.transform(Z)
    return Z


@dataclass
class FrozenCodes:
    """Codes of a fit with frozen domains, relative to the centre of their projections."""

    codes: Codes
    given: Sequence[Array | None]  # codes of the frozen domains
    centre: Array

    @property
    def weights(self) -> Sequence[Array | None]:
        """Weights of the rows in T1."""
        return self.codes.weights

    def first(self, H: Sequence[Array]) -> list[Array]:
        """Return the codes before the first A-step."""
        return self._relative(self.codes.first(self._moved(H)))

    def step(self, H: Sequence[Array]) -> list[Array]:
        """Return the codes that minimise T1."""
        return self._relative(self.codes.step(self._moved(H)))

    def _moved(self, H: Sequence[Array]) -> list[Array]:
        return [H_k + like(self.centre, H_k, H_k.dtype) for H_k in H]

    def _relative(self, B: list[Array]) -> list[Array]:
        whole = [B_k if given is None else given for B_k, given in zip(B, self.given, strict=True)]
        return [B_k - like(self.centre, B_k, B_k.dtype) for B_k in whole]
