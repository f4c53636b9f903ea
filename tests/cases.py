"""The one list of two-domain methods that the common checks run on, and small data for it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import ortho_group
from sklearn.base import clone

from bridgehash import (
    ATH,
    DPLM,
    FSDH,
    GTH,
    ITQ,
    KSH,
    LSH,
    PCAH,
    PSCA,
    PWCF,
    SCDH,
    SDH,
    SH,
    SHSR,
    SP,
    THPI,
    Procrustes,
    PrototypeBank,
    RidgeMap,
    Shared,
    StructuralStart,
)

N_BITS = 12


@dataclass(frozen=True)
class Data:
    """Two labelled domains and some rows of the target that were not trained on."""

    X_source: np.ndarray
    X_target: np.ndarray
    X_query: np.ndarray
    y_source: np.ndarray
    y_target: np.ndarray

    def changed(self, **arrays):
        return replace(self, **arrays)

    def each(self, change):
        """`change` applied to all features; the labels stay."""
        return self.changed(
            X_source=change(self.X_source),
            X_target=change(self.X_target),
            X_query=change(self.X_query),
        )


@dataclass(frozen=True)
class Method:
    """How to make an estimator, which labels it cannot do without, and what moves it."""

    make: Callable[..., Any]
    labels: tuple[str, ...] = ()
    welcome: tuple[str, ...] = ()  # labels that it uses where they are given
    idle_bits: bool = False  # may a bit be the same for all rows?
    blind_to_own_rotation: bool = True  # may each domain be rotated by itself?
    sees_single_features: bool = False  # then a rotation of the features is another problem
    pairs: bool = False  # does it learn from paired rows?
    either_will_do: bool = False  # labels of one domain instead of both
    rounding_decides: bool = False  # between matches of random rows that are as good

    def fit(self, data, **parameters):
        return self.make(**parameters).fit(data.X_source, data.X_target, **self.needed(data))

    def fit_to_all(self, data, **parameters):
        """With all labels it has a use for: a domain without labels may be left unseen."""
        welcome = {name: getattr(data, name) for name in self.welcome}
        given = self.needed(data) | welcome
        return self.make(**parameters).fit(data.X_source, data.X_target, **given)

    def needed(self, data):
        given = {name: getattr(data, name) for name in self.labels}
        return given | ({"pairs": paired_rows(data)} if self.pairs else {})


def paired_rows(data):
    """Rows paired by their norms, which neither order nor rotation changes."""
    order_s, order_t = (
        np.argsort((np.asarray(X, dtype=float) ** 2).sum(axis=1), kind="stable")
        for X in (data.X_source, data.X_target)
    )
    n = min(len(order_s), len(order_t))
    return np.column_stack([order_s[:n], order_t[:n]])


def _ath(constructor, labels=()):
    """A few rounds, always as many: neither a warning nor the stopping test plays a part."""
    fixed = {"n_bits": N_BITS, "max_iter": 6, "tol": 0.0, "random_state": 0}
    return Method(lambda **parameters: constructor(**(fixed | parameters)), labels)


def _published(realisation, labels=()):
    return _ath(lambda **parameters: ATH.published(realisation, **parameters), labels)


def _shared_itq(n_bits=N_BITS, random_state=0, **parameters):
    return Shared(ITQ(n_bits, random_state=random_state, **parameters))


def _shared(hasher, **what_moves_it):
    """A method for one domain that learns without labels, lifted to two."""
    return Method(
        lambda **parameters: Shared(clone(hasher).set_params(**parameters)),
        blind_to_own_rotation=False,
        **what_moves_it,
    )


def _unlabelled(make, fixed=None, **what_moves_it):
    fixed = {"n_bits": N_BITS, "random_state": 0} | (fixed or {})
    return Method(
        lambda **parameters: make(**(fixed | parameters)),
        blind_to_own_rotation=False,
        **what_moves_it,
    )


def _from_source(make, **what_moves_it):
    fixed = {"n_bits": N_BITS, "random_state": 0}
    return Method(
        lambda **parameters: make(**(fixed | parameters)),
        labels=("y_source",),
        blind_to_own_rotation=False,
        **what_moves_it,
    )


def _paired(make):
    """Few rounds: ITQ of 13 rows for 12 bits ends at copies of a bit, where rounding decides."""
    fixed = {"n_bits": N_BITS, "max_iter": 3, "random_state": 0}
    return Method(lambda **parameters: make(**(fixed | parameters)), pairs=True)


def _labelled(method, **traits):
    """A method for one domain that learns from all rows with a label, and from no others."""
    fixed = {"n_bits": N_BITS, "random_state": 0}
    return Method(
        lambda **parameters: Shared(method(**(fixed | parameters))),
        labels=("y_source",),
        welcome=("y_target",),
        blind_to_own_rotation=False,
        **traits,
    )


# A heavy graph gives one code to two rows of ten: the rotation is not determined then.
LIGHT_GRAPH = {"laplacian": 1e-4, "pairing": "nearest"}
BOTH = ("y_source", "y_target")
METHODS = {
    "unsupervised": _ath(ATH.unsupervised),
    "semi_supervised": _ath(ATH.semi_supervised, ("y_source",)),
    "supervised": _ath(ATH.supervised, BOTH),
    "kernel": _ath(ATH.kernel, BOTH),
    "propagated": replace(_ath(ATH.propagated, BOTH), either_will_do=True),
    "structural": replace(
        _ath(partial(ATH.structural, start=StructuralStart(n_starts=5, n_kept=2))),
        rounding_decides=True,
    ),
    "published unsupervised": _published("unsupervised"),
    "published semi_supervised": _published("semi_supervised", ("y_source",)),
    "published supervised": _published("supervised", BOTH),
    "published kernel": _published("kernel", BOTH),
    "Shared(ITQ)": Method(_shared_itq, blind_to_own_rotation=False),
    "Shared(LSH)": _shared(LSH(N_BITS, random_state=0), sees_single_features=True),
    "Shared(PCAH)": _shared(PCAH(N_BITS)),
    "Shared(SH)": _shared(SH(N_BITS)),
    "Shared(SP)": _shared(SP(N_BITS, random_state=0), sees_single_features=True),
    "Shared(SHSR)": _shared(SHSR(N_BITS, random_state=0), idle_bits=True),  # may tell domains apart
    "Shared(DPLM)": _shared(DPLM(N_BITS, random_state=0)),
    "Shared(DPLM), anchors": _shared(DPLM(N_BITS, oos="anchor", random_state=0)),
    "Shared(KSH)": _labelled(KSH),
    "Shared(SDH)": _labelled(SDH, idle_bits=True),  # as the constant of its classifier
    "Shared(FSDH)": _labelled(FSDH),
    "Shared(SCDH)": _labelled(SCDH),
    "THPI": _unlabelled(THPI),
    "THPI with a graph": _unlabelled(THPI, LIGHT_GRAPH),
    "GTH-g": _unlabelled(GTH),
    "GTH-h": _unlabelled(GTH, {"weights": "half_quadratic"}, sees_single_features=True),
    "PWCF": _from_source(partial(PWCF, max_iter=6)),  # more rounds make much of rounding
    "PSCA": _from_source(PSCA, sees_single_features=True),  # its ‖P‖₂,₁ switches them off
    "PrototypeBank": _from_source(PrototypeBank),
    "RidgeMap": _paired(RidgeMap),
    "Procrustes": _paired(Procrustes),
    "paired": _paired(ATH.paired),
}


def two_domains(seed=0, *, n_s=31, n_t=24, d_s=7, d_t=5, n_query=9):
    """Three skewed clusters a domain. Where widths agree, the target is the source, moved."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(3, d_s))
    turned = centres @ ortho_group.rvs(d_s, random_state=seed)[:, :d_t] if d_t < d_s else centres
    turned = turned if d_t <= d_s else np.pad(centres, ((0, 0), (0, d_t - d_s)))

    def rows(places, n):
        y = rng.permutation(np.arange(n) % 3)
        return places[y] + rng.exponential(size=(n, places.shape[1])), y

    X_s, y_s = rows(centres, n_s)
    X_t, y_t = rows(turned + 0.3, n_t + n_query)
    return Data(X_s, X_t[:n_t], X_t[n_t:], y_s, y_t[:n_t])
