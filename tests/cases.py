"""The one list of two-domain methods that the common checks run on, and small data for it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import ortho_group

from bridgehash import ATH, ITQ, Shared

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
    blind_to_own_rotation: bool = True  # may each domain be rotated by itself?

    def fit(self, data, **parameters):
        return self.make(**parameters).fit(data.X_source, data.X_target, **self.needed(data))

    def needed(self, data):
        return {name: getattr(data, name) for name in self.labels}


def _ath(constructor, labels=()):
    """A few rounds, always as many: neither a warning nor the stopping test plays a part."""
    fixed = {"n_bits": N_BITS, "max_iter": 6, "tol": 0.0, "random_state": 0}
    return Method(lambda **parameters: constructor(**(fixed | parameters)), labels)


def _published(realisation, labels=()):
    return _ath(lambda **parameters: ATH.published(realisation, **parameters), labels)


def _shared_itq(n_bits=N_BITS, random_state=0, **parameters):
    return Shared(ITQ(n_bits, random_state=random_state, **parameters))


BOTH = ("y_source", "y_target")
METHODS = {
    "unsupervised": _ath(ATH.unsupervised),
    "semi_supervised": _ath(ATH.semi_supervised, ("y_source",)),
    "supervised": _ath(ATH.supervised, BOTH),
    "kernel": _ath(ATH.kernel, BOTH),
    "published unsupervised": _published("unsupervised"),
    "published semi_supervised": _published("semi_supervised", ("y_source",)),
    "published supervised": _published("supervised", BOTH),
    "published kernel": _published("kernel", BOTH),
    "Shared(ITQ)": Method(_shared_itq, blind_to_own_rotation=False),
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
