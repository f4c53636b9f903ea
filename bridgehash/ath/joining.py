"""Add a domain to a fitted model without changing any of its codes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import to_numpy
from .._core.errors import InputError, unknown
from .._core.linalg import Array
from .._core.validation import check_domain, check_name
from ..codes import pack
from ..models.base import BaseHasher, BaseTransferHasher
from ..models.encoder import LinearEncoder
from ..models.provenance import code_space
from ..models.training import Domains
from ..streaming.blocks import read_all
from .class_codes import group_sums
from .presets import choose_preset, preset

Classes = list[str] | list[int]


def class_codes(
    data: Domains, codes: Sequence[Array]
) -> tuple[Classes | None, NDArray[np.uint8] | None]:
    """Return the classes, and for each the majority of each bit in the codes of its rows."""
    if data.classes is None or not len(data.classes):
        return None, None
    sums: Array = np.zeros((len(data.classes), codes[0].shape[1]))
    for y, B in zip(data.y, codes, strict=True):
        if y is not None:
            sums += group_sums(B, y, len(sums))
    return data.classes.tolist(), pack(sums)


def adopted_space(frozen: Mapping[str, Any] | None) -> str | None:
    """Return the code space of what is frozen; None if nothing is."""
    for given in (frozen or {}).values():
        given = given[0] if isinstance(given, tuple) else given
        if isinstance(given, BaseTransferHasher | BaseHasher | LinearEncoder):
            return code_space(given)
        return hashlib.sha256(to_numpy(given).tobytes()).hexdigest()
    return None


def initial_encoders(model: Any, data: Domains, n_bits: int) -> dict[int, LinearEncoder]:
    """Return the encoders of an earlier model, by number of the domain."""
    if model is None:
        return {}
    if not isinstance(model, BaseTransferHasher):
        raise InputError("is no fitted model of several domains", "initial")
    check_is_fitted(model, "encoders_")
    found = {}
    for k, (name, X) in enumerate(zip(data.names, data.X, strict=True)):
        encoder = model.encoders_.get(name)
        if encoder is None:
            continue
        if (encoder.n_features_in_, encoder.n_bits) != (X.shape[1], n_bits):
            raise InputError(
                f"its encoder of {name} takes {encoder.n_features_in_} columns and has "
                f"{encoder.n_bits} bits, not {X.shape[1]} and {n_bits}",
                "initial",
            )
        found[k] = encoder
    if not found:
        listed = ", ".join(model.encoders_)
        raise InputError(f"has none of these domains, but {listed}; name them alike", "initial")
    return found


def changed_bits(before: LinearEncoder, after: LinearEncoder, X: Any) -> float:
    """Return the share of the bits of some rows that differ between two encoders."""
    return float((before.transform(X) != after.transform(X)).mean())


def learn_to_join(
    model: Any,
    name: str,
    X: Any,
    to: str | None,
    X_to: Any,
    codes_to: Any,
    *,
    y: Any,
    y_to: Any,
    pairs: Any,
    method: Any,
    verbose: bool,
) -> Any:
    """Fit an ATH in which the domain `to` of a model is frozen and the new domain learns."""
    if check_name(name) in model.encoders_:
        raise InputError(f"{name!r} is a domain of this model; choose another name", "name")
    to = next(iter(model.encoders_)) if to is None else to
    if to not in model.encoders_:
        raise InputError(unknown("domain", to, list(model.encoders_)), "to")
    frozen: Any = codes_to
    if X_to is not None:
        model.encoder(to).check_names(X_to, "X_to")
        X_to = read_rows(X_to, "X_to")
        frozen = model.encoder(to) if codes_to is None else (model.encoder(to), codes_to)
    elif codes_to is None:
        if y is None or pairs is not None or y_to is not None:
            what = "pairs" if pairs is not None else "labels" if y_to is not None else "no labels"
            raise InputError(f"missing; {what} of {name} need rows or codes of {to}", "X_to")
        if model.classes_ is None:
            raise InputError(
                f"missing; this model has learned no classes: give rows of {to}", "X_to"
            )
        frozen, y_to = model.class_codes_, np.asarray(model.classes_)
    labels = {to: y_to, name: y}
    if method is None:
        known = {domain: np.asarray(each) for domain, each in labels.items() if each is not None}
        chosen, _ = choose_preset({to: X_to, name: X}, known, pairs, frozen=True)
        method = type(model)(model.n_bits, **preset(chosen), random_state=model.random_state)
    elif method.n_bits != model.n_bits:
        raise InputError(f"has {method.n_bits} bits, the model {model.n_bits}", "method")
    return method.fit(
        {to: X_to, name: X}, y=labels, pairs=pairs, frozen={to: frozen}, verbose=verbose
    )


def read_rows(X: Any, name: str) -> Array:
    """Return the rows of a domain, in any form that `fit` takes, as a validated array."""
    return check_domain(X if isinstance(X, np.ndarray) else read_all(X, name), name)
