"""All two-domain methods with small data, for the checks that every method must pass."""

import functools
import inspect
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import ortho_group

from bridgehash import (
    ATH,
    CCAITQ,
    CMFH,
    DPLM,
    FSDH,
    FSH,
    GTH,
    ITQ,
    KSH,
    LSH,
    PCAH,
    PSCA,
    PWCF,
    SCDH,
    SCM,
    SCRATCH,
    SDH,
    SH,
    SHSR,
    SP,
    ITQPlus,
    Procrustes,
    PrototypeBank,
    RidgeMap,
    Shared,
    StructuralStart,
)
from bridgehash.models.base import BaseHasher

N_BITS = 12


@dataclass(frozen=True)
class Data:
    """Two labelled domains, and target rows that were not used in training."""

    X_source: np.ndarray
    X_target: np.ndarray
    X_query: np.ndarray
    y_source: np.ndarray
    y_target: np.ndarray

    def changed(self, **arrays):
        return replace(self, **arrays)

    def each(self, change):
        """Apply `change` to all features; the labels stay."""
        return self.changed(
            X_source=change(self.X_source),
            X_target=change(self.X_target),
            X_query=change(self.X_query),
        )


@dataclass(frozen=True)
class Method:
    """How to build an estimator, the inputs it needs, and which changes of the data affect it."""

    make: Callable[..., Any]
    labels: tuple[str, ...] = ()  # labels that it needs
    optional: tuple[str, ...] = ()  # labels that it uses if they are given
    constant_bits: bool = False  # may a bit be the same for all rows?
    separate_rotations: bool = True  # may each domain be rotated by itself?
    sees_single_features: bool = False  # then a rotation of the features changes the codes
    pairs: bool = False  # does it learn from paired rows?
    one_domain_enough: bool = False  # labels of one domain instead of both
    rounding_decides: bool = False  # between equally good matches of random rows
    keeps_scale: bool = False  # rows are not normalised, so constants depend on their scale

    def fit(self, data, **parameters):
        return self.make(**parameters).fit(data.X_source, data.X_target, **self.needed(data))

    def fit_with_optional(self, data, **parameters):
        """Fit with all labels that the method uses: without, a domain may be left out."""
        given = self.needed(data) | {name: getattr(data, name) for name in self.optional}
        return self.make(**parameters).fit(data.X_source, data.X_target, **given)

    def needed(self, data):
        given = {name: getattr(data, name) for name in self.labels}
        return given | ({"pairs": paired_rows(data)} if self.pairs else {})


@contextmanager
def naming(case):
    """Add the name of the method or case to any error inside: many checks are loops."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case: {case}")
        raise


def over_seeds(n):
    """Run a test with the seeds 0 to n - 1, as one case."""

    def decorate(test):
        @functools.wraps(test)
        def loop(**given):
            for seed in range(n):
                with naming(f"seed {seed}"):
                    test(seed=seed, **given)

        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name != "seed"]
        loop.__signature__ = signature.replace(parameters=others)
        return loop

    return decorate


def paired_rows(data):
    """Pair rows by their norms, which neither order nor rotation changes."""
    order_s, order_t = (
        np.argsort((np.asarray(X, dtype=float) ** 2).sum(axis=1), kind="stable")
        for X in (data.X_source, data.X_target)
    )
    n = min(len(order_s), len(order_t))
    return np.column_stack([order_s[:n], order_t[:n]])


def _method(cls, fixed=None, **traits):
    """A method of one space; classes for one domain are wrapped in `Shared`."""
    fixed = {"n_bits": N_BITS} | ({} if cls in (PCAH, SH) else {"random_state": 0}) | (fixed or {})

    def make(**parameters):
        hasher = cls(**(fixed | parameters))
        return Shared(hasher) if isinstance(hasher, BaseHasher) else hasher

    return Method(make, separate_rotations=False, **traits)


def _ath(constructor, labels=(), **fixed):
    """A fixed number of rounds: neither a warning nor the stopping test matters."""
    fixed = {"n_bits": N_BITS, "max_iter": 6, "tol": 0.0, "random_state": 0} | fixed
    return Method(lambda **parameters: constructor(**(fixed | parameters)), labels)


def _paired(make):
    """Few rounds: ITQ of 13 rows with 12 bits ends at equal bits, where rounding decides."""
    fixed = {"n_bits": N_BITS, "max_iter": 3, "random_state": 0}
    return Method(lambda **parameters: make(**(fixed | parameters)), pairs=True)


SOURCE, BOTH = ("y_source",), ("y_source", "y_target")
LABELLED = {"labels": SOURCE, "optional": ("y_target",)}
# A heavy graph gives two of ten rows the same code: the rotation is then not determined.
LIGHT_GRAPH = {"laplacian": 1e-4, "pairing": "nearest"}
METHODS = {
    "ath-unsupervised": _ath(ATH.unsupervised),
    "ath-semi-supervised": _ath(ATH.semi_supervised, SOURCE),
    "ath-supervised": _ath(ATH.supervised, BOTH),
    "ath-kernel": _ath(ATH.kernel, BOTH),
    "ath-propagated": replace(_ath(ATH.propagated, BOTH), one_domain_enough=True),
    "ath-adopted": replace(_ath(ATH.adopted, BOTH), one_domain_enough=True),
    "ath-structural": replace(
        _ath(ATH.structural, start=StructuralStart(n_starts=4)), rounding_decides=True
    ),
    "ath-paired": _paired(ATH.paired),
    "ath-unsupervised-published": _ath(ATH.unsupervised, published=True),
    "ath-semi-supervised-published": _ath(ATH.semi_supervised, SOURCE, published=True),
    "ath-supervised-published": _ath(ATH.supervised, BOTH, published=True),
    "ath-kernel-published": _ath(ATH.kernel, BOTH, published=True),
    "ath-unsupervised-authors": replace(
        _ath(ATH.unsupervised, published="authors"), keeps_scale=True
    ),
    "itq": _method(ITQ),
    "lsh": _method(LSH, sees_single_features=True),
    "pcah": _method(PCAH),
    "sh": _method(SH),
    "sp": _method(SP, sees_single_features=True),
    "shsr": _method(SHSR, constant_bits=True),  # a bit may separate the domains
    "dplm": _method(DPLM),
    "dplm with anchors": _method(DPLM, {"oos": "anchor"}),
    "ksh": _method(KSH, **LABELLED),
    "sdh": _method(SDH, constant_bits=True, **LABELLED),  # as the constant of its classifier
    "fsdh": _method(FSDH, **LABELLED),
    "scdh": _method(SCDH, **LABELLED),
    "itq+": _method(ITQPlus),
    "lapitq+": _method(ITQPlus, LIGHT_GRAPH),
    "gth-g": _method(GTH),
    "gth-h": _method(GTH, {"weights": "half_quadratic"}, sees_single_features=True),
    "pwcf": _method(PWCF, {"max_iter": 6}, labels=SOURCE),  # more rounds amplify rounding errors
    "psca": _method(PSCA, labels=SOURCE, sees_single_features=True),  # ‖P‖₂,₁ selects features
    "prototype-bank": _method(PrototypeBank, labels=SOURCE),
    "ridge-map": _paired(RidgeMap),
    "procrustes": _paired(Procrustes),
    "cca-itq": _paired(CCAITQ),
    "cmfh": _paired(CMFH),
    "fsh": _paired(FSH),
    "scm": Method(lambda **parameters: SCM(**({"n_bits": N_BITS} | parameters)), BOTH),
    "scratch": replace(_paired(SCRATCH), labels=SOURCE),
}
# One method per base class and per feature map, for behaviour that comes from these.
REPRESENTATIVES = (
    "ath-unsupervised",
    "ath-kernel",
    "ath-paired",
    "itq",
    "sh",
    "shsr",
    "ksh",
    "sdh",
    "itq+",
    "ridge-map",
)


def two_domains(seed=0, *, n_s=31, n_t=24, d_s=7, d_t=5, n_query=9):
    """Three skewed clusters per domain. If the widths agree, the target is the source, moved."""
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
