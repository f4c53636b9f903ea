"""All methods by name: what `bridgehash fit --method NAME` and the benchmarks know.

An entry makes a two-domain hasher from parameters given by keyword; one-domain methods are lifted
by `Shared`. What it tells of itself (kind, needs, citation) stands beside the method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator

from .ath import ATH
from .base import About, BaseHasher, BaseTransferHasher
from .baselines import (
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
)
from .baselines.thpi import LAPITQ_PLUS
from .common_space import Shared


@dataclass(frozen=True)
class Entry:
    """A method under a name: how to make it, and what there is to tell."""

    make: Callable[..., BaseTransferHasher]
    about: About
    title: str  # the first line of the docstring

    def prepared(self, n_bits: int, seed: int, **parameters: Any) -> BaseTransferHasher:
        """An unfitted hasher of this length; the seed is for methods that draw something."""
        hasher = self.make(**parameters)
        set_length_and_seed(hasher, n_bits, seed)
        return hasher

    @property
    def inputs(self) -> str:
        """What `fit` has to be given, in words."""
        needs = self.about.needs
        both = {"y_source", "y_target"} <= set(needs)
        words = ["labels of both"] if both else [_IN_WORDS[need] for need in needs]
        return ", ".join(["features", *words, *(f"{use} if known" for use in self.about.uses)])


def tunable(hasher: BaseTransferHasher) -> BaseEstimator:
    """What the parameters belong to: the method itself, inside `Shared` or not."""
    return hasher.hasher if isinstance(hasher, Shared) else hasher


def set_length_and_seed(hasher: BaseTransferHasher, n_bits: int, seed: int) -> None:
    """Set both, the seed where a method has one."""
    estimator = tunable(hasher)
    wanted = {"n_bits": n_bits, "random_state": seed}
    estimator.set_params(**{k: v for k, v in wanted.items() if k in estimator.get_params()})


_IN_WORDS = {
    "y": "labels of the source or of both",
    "y_source": "labels of the source",
    "y_target": "labels of the target",
    "pairs": "pairs",
}


def _entry(method: Any, **fixed: Any) -> Entry:
    """The entry of a class, with some of its parameters set by the name."""

    def make(**parameters: Any) -> BaseTransferHasher:
        hasher = method(**(fixed | parameters))
        return Shared(hasher) if isinstance(hasher, BaseHasher) else hasher

    return Entry(make, method.about, method.__doc__.splitlines()[0])


def _ath(name: str, realisation: str, kind: Any, *needs: Any) -> dict[str, Entry]:
    """A realisation as it is used here, and with the constants and the start that are printed."""
    about = About(kind, "Lu, Zhou, Chen, Pedrycz & Hung, TCYB 2023", needs)
    constructor = getattr(ATH, realisation)
    entry = Entry(constructor, about, constructor.__doc__.splitlines()[0])
    as_printed = partial(ATH.published, realisation)
    title = f"{entry.title[:-1]}; constants of the paper."
    return {name: entry, f"{name}-published": Entry(as_printed, about, title)}


METHODS: dict[str, Entry] = {  # a further method is one line
    **_ath("ath-u", "unsupervised", "unsupervised"),
    **_ath("ath-m", "semi_supervised", "semi-supervised", "y_source"),
    **_ath("ath-s", "supervised", "supervised", "y_source", "y_target"),
    **_ath("ath-k", "kernel", "supervised", "y_source", "y_target"),
    "ath-p": Entry(
        ATH.propagated,
        About("semi-supervised", "this package", ("y_source",)),
        "ATH_P: known classes spread to all rows of both domains first.",
    ),
    "ath-pairs": Entry(
        ATH.paired,
        About("paired", "this package", ("pairs",)),
        "ATH behind a map that known pairs give: the target is carried to the source first.",
    ),
    "ath-structural": Entry(
        ATH.structural,
        About("unsupervised", "this package"),
        "ATH_U after a match of both domains by their structure, for different features.",
    ),
    "lsh": _entry(LSH),
    "pcah": _entry(PCAH),
    "sh": _entry(SH),
    "itq": _entry(ITQ),
    "sp": _entry(SP),
    "shsr": _entry(SHSR),
    "dplm": _entry(DPLM),
    "itq+": _entry(THPI),
    "lapitq+": _entry(THPI, **LAPITQ_PLUS),
    "gth-g": _entry(GTH),
    "gth-h": _entry(GTH, weights="half_quadratic"),
    "pwcf": _entry(PWCF),
    "prototype-bank": _entry(PrototypeBank),
    "psca": _entry(PSCA),
    "ksh": _entry(KSH),
    "sdh": _entry(SDH),
    "fsdh": _entry(FSDH),
    "scdh": _entry(SCDH),
    "ridge-map": _entry(RidgeMap),
    "procrustes": _entry(Procrustes),
}
