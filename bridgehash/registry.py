"""All methods by name, and the automatic choice of a preset.

A name is the same in `bridgehash fit --method NAME`, in benchmark suites and in tables. ATH has one
name per preset: `ath-unsupervised` is `ATH.unsupervised`. `Shared` wraps one-domain methods. Facts
about a method (kind, inputs, citation) are stored with its class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator

from . import baselines
from ._core.errors import InputError, unknown
from .ath import ATH
from .ath.presets import AUTHORS, PUBLISHED, Published
from .baselines import Shared
from .baselines.itq_plus import LAPITQ_PLUS
from .models.base import About, BaseHasher, BaseTransferHasher


@dataclass(frozen=True)
class Method:
    """A method under a name."""

    make: Callable[..., BaseTransferHasher]
    about: About
    title: str  # first line of the docstring

    def prepared(self, n_bits: int, seed: int, **parameters: Any) -> BaseTransferHasher:
        """Return an unfitted hasher with this code length and, if it is random, this seed."""
        hasher = self.make(**parameters)
        estimator = inner_estimator(hasher)
        wanted = {"n_bits": n_bits, "random_state": seed}
        known = estimator.get_params()
        estimator.set_params(**{key: value for key, value in wanted.items() if key in known})
        return hasher

    @property
    def inputs(self) -> str:
        """What `fit` needs, in words."""
        needs = self.about.needs
        both = {"y_source", "y_target"} <= set(needs)
        words = ["labels of both domains"] if both else [_IN_WORDS[need] for need in needs]
        optional = [f"{_IN_WORDS[use]} (optional)" for use in self.about.uses]
        return ", ".join(["features", *words, *optional])


_IN_WORDS = {
    "y": "labels of the source or of both domains",
    "y_source": "labels of the source",
    "y_target": "labels of the target",
    "pairs": "pairs",
}


def inner_estimator(hasher: BaseTransferHasher) -> BaseEstimator:
    """Return the estimator that has the parameters: the method inside `Shared`, or itself."""
    return hasher.hasher if isinstance(hasher, Shared) else hasher


def _method(cls: Any, **fixed: Any) -> Method:
    """Register a class, with some parameters fixed by the name."""

    def make(**parameters: Any) -> BaseTransferHasher:
        hasher = cls(**(fixed | parameters))
        return Shared(hasher) if isinstance(hasher, BaseHasher) else hasher

    return Method(make, cls.about, cls.__doc__.splitlines()[0])


_PAPER = "Lu, Zhou, Chen, Pedrycz & Hung, TCYB 2023"
_OURS = "this package"
_ATH: dict[str, About] = {
    "unsupervised": About("unsupervised", _PAPER),
    "semi_supervised": About("semi-supervised", _PAPER, ("y_source",)),
    "supervised": About("supervised", _PAPER, ("y_source", "y_target")),
    "kernel": About("supervised", _PAPER, ("y_source", "y_target")),
    "propagated": About("semi-supervised", _OURS, ("y_source",)),
    "adopted": About("semi-supervised", _OURS, ("y_source",)),
    "paired": About("paired", _OURS, ("pairs",)),
    "structural": About("unsupervised", _OURS),
}
_PUBLISHED: dict[Published, tuple[Collection[str], str]] = {
    True: (PUBLISHED, "as the paper prints it"),
    "authors": (AUTHORS, "as in the script of the authors"),
}


def _ath_methods() -> dict[str, Method]:
    methods = {}
    for preset, about in _ATH.items():
        make = getattr(ATH, preset)
        title = make.__doc__.splitlines()[0]
        methods[ath_name(preset)] = Method(make, about, title)
        for published, (known, words) in _PUBLISHED.items():
            if preset in known:
                variant = Method(
                    partial(make, published=published), about, f"{title[:-1]}; {words}."
                )
                methods[ath_name(preset, published=published)] = variant
    return methods


def ath_name(preset: str, *, published: Published = False) -> str:
    """Return the name of a preset of ATH.

    >>> ath_name("semi_supervised", published=True)
    'ath-semi-supervised-published'
    >>> ath_name("unsupervised", published="authors")
    'ath-unsupervised-authors'
    """
    suffix = {False: "", True: "-published", "authors": "-authors"}[published]
    return f"ath-{preset.replace('_', '-')}{suffix}"


METHODS: dict[str, Method] = {  # one line per method
    **_ath_methods(),
    "lsh": _method(baselines.LSH),
    "pcah": _method(baselines.PCAH),
    "sh": _method(baselines.SH),
    "itq": _method(baselines.ITQ),
    "sp": _method(baselines.SP),
    "shsr": _method(baselines.SHSR),
    "dplm": _method(baselines.DPLM),
    "itq+": _method(baselines.ITQPlus),
    "lapitq+": _method(baselines.ITQPlus, **LAPITQ_PLUS),
    "gth-g": _method(baselines.GTH),
    "gth-h": _method(baselines.GTH, weights="half_quadratic"),
    "pwcf": _method(baselines.PWCF),
    "prototype-bank": _method(baselines.PrototypeBank),
    "psca": _method(baselines.PSCA),
    "ksh": _method(baselines.KSH),
    "sdh": _method(baselines.SDH),
    "fsdh": _method(baselines.FSDH),
    "scdh": _method(baselines.SCDH),
    "ridge-map": _method(baselines.RidgeMap),
    "procrustes": _method(baselines.Procrustes),
    "cca-itq": _method(baselines.CCAITQ),
    "cmfh": _method(baselines.CMFH),
    "fsh": _method(baselines.FSH),
    "scm": _method(baselines.SCM),
    "scratch": _method(baselines.SCRATCH),
}


def find_method(name: str) -> Method:
    """Return a method by name; an unknown name is an `InputError` that suggests the nearest one."""
    if name not in METHODS:
        raise InputError(unknown("method", name, METHODS), "method")
    return METHODS[name]
