"""What the demo measures: five methods on the four retrieval tasks of the paper.

Everything here returns data; `demo_terminal`, `demo_figures` and `demo_page` show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bridgehash import ATH, ITQ, Shared
from bridgehash._core.linalg import Array
from bridgehash.codes import hamming
from bridgehash.datasets import DigitDomains, TransferTask
from bridgehash.metrics.evaluate import Scores, evaluate
from bridgehash.models.base import BaseTransferHasher

N_BITS = 64
N_NEAREST = 5
SUBTASKS = ("HoSDR", "HoCDR", "HeSDR", "HeCDR")  # Ho/He: one or two feature spaces; S/C: search
COMPARED = ("ATH supervised", "ITQ")  # whose nearest items are shown
_NEAR_CHANCE = 2.0  # below so many times chance, a score counts as near it


class Method(NamedTuple):
    """A row of the table; the labels say what the method may see in training."""

    name: str
    labels: Literal["none", "source", "both"]
    build: Callable[[], BaseTransferHasher]


METHODS = (
    Method("ITQ", "none", lambda: Shared(ITQ(N_BITS, random_state=0))),
    Method("ATH unsupervised", "none", lambda: ATH.unsupervised(N_BITS, random_state=0)),
    Method("ATH semi-supervised", "source", lambda: ATH.semi_supervised(N_BITS, random_state=0)),
    Method("ATH supervised", "both", lambda: ATH.supervised(N_BITS, random_state=0)),
    Method("ATH kernel", "both", lambda: ATH.kernel(N_BITS, random_state=0)),
)


@dataclass(frozen=True, eq=False)
class Result:
    """A method, its scores by subtask, and what it learned from two feature spaces."""

    method: Method
    scores: Mapping[str, Scores]
    hasher: BaseTransferHasher

    def area(self, subtask: str) -> float:
        """`radius_pr_area` in per cent."""
        return 100 * self.scores[subtask].radius_pr_area

    def precision(self, subtask: str) -> float:
        """`mean_average_precision` in per cent."""
        return 100 * self.scores[subtask].mean_average_precision


@dataclass(frozen=True, eq=False)
class Study:
    """The data, and the results in the order of the table."""

    domains: DigitDomains
    task: TransferTask  # the one with two feature spaces
    results: tuple[Result, ...]

    def result(self, name: str) -> Result:
        """The result of a method by its name."""
        return next(result for result in self.results if result.method.name == name)

    def best(self, subtask: str) -> Result:
        """The result with the largest area."""
        return max(self.results, key=lambda result: result.area(subtask))

    def chance(self, subtask: str) -> float:
        """Share of relevant pairs in per cent: what codes drawn at random would reach."""
        histogram = self.results[0].scores[subtask].histogram
        return 100 * float(histogram.relevant.sum() / histogram.total.sum())


@dataclass(frozen=True, eq=False)
class Nearest:
    """The source items nearest to a query, by a method; ties in the order of the rows."""

    name: str
    images: Array  # (k, 8, 8)
    y: NDArray[np.intp]
    distances: NDArray[np.intp]  # in bits
    right: NDArray[np.bool_]

    def summary(self) -> str:
        """How many of them are right, in words."""
        return f"{self.right.sum()} of {len(self.right)} right"


def run_study(domains: DigitDomains, advance: Callable[[str], None]) -> Study:
    """Fit and score every method on both tasks; `advance(name)` is called after each fit.

    The matrices are small: threads would spend their time waiting for each other.
    """
    tasks = {"Ho": domains.homogeneous(), "He": domains.heterogeneous()}
    results = []
    with threadpool_limits(limits=1):
        for method in METHODS:
            scores: dict[str, Scores] = {}
            for space, task in tasks.items():
                hasher = _fitted(method, task)
                report = evaluate(hasher, task)
                scores |= {f"{space}SDR": report.single, f"{space}CDR": report.cross}
                advance(method.name)
            results.append(Result(method, scores, hasher))
    return Study(domains, tasks["He"], tuple(results))


def _fitted(method: Method, task: TransferTask) -> BaseTransferHasher:
    """A method that has seen the labels it may see, and no others."""
    labels = {
        "none": {},
        "source": {"y_source": task.y_source},
        "both": {"y_source": task.y_source, "y_target": task.y_target},
    }[method.labels]
    hasher = method.build()
    hasher.fit(task.X_source, task.X_target, **labels)
    return hasher


def nearest(study: Study, name: str, query: int = 0, k: int = N_NEAREST) -> Nearest:
    """The k source items that a method finds for a query, across the feature spaces."""
    hasher, task, source = study.result(name).hasher, study.task, study.domains.source
    asked = hasher.encode(task.X_query[query : query + 1], "target")
    distances = hamming(asked, hasher.encode(task.X_source, "source"))[0].astype(np.intp)
    found = np.argsort(distances, kind="stable")[:k]
    y = source.y[found]
    return Nearest(name, source.images[found], y, distances[found], y == task.y_query[query])


def reading(study: Study) -> str:
    """What the figures say, in a few words that depend on nothing but them."""
    best = study.best("HeCDR")
    leads = f"{best.method.name} is best with {best.area('HeCDR'):.1f}"
    return (
        f"Across feature spaces (HeCDR) {leads}; {_who_is_lost(study)}. "
        f"{_who_leads_unlabelled(study)}."
    )


def _who_is_lost(study: Study) -> str:
    """Who stays near chance across feature spaces, and whether it is all those with few labels."""
    chance = study.chance("HeCDR")
    lost = [result for result in study.results if result.area("HeCDR") < _NEAR_CHANCE * chance]
    if not lost:
        return f"no method stays near chance ({chance:.1f})"
    names = listed([f"{result.method.name} ({result.area('HeCDR'):.1f})" for result in lost])
    verb = "stays" if len(lost) == 1 else "stay"
    without = [result for result in study.results if result.method.labels != "both"]
    why = ", the methods without labels of both domains" if lost == without else ""
    return f"{names} {verb} near chance ({chance:.1f}){why}"


def _who_leads_unlabelled(study: Study) -> str:
    unlabelled = [result for result in study.results if result.method.labels == "none"]
    ranked = sorted(unlabelled, key=lambda result: -result.area("HoCDR"))
    first, *others = [f"{result.method.name} ({result.area('HoCDR'):.1f})" for result in ranked]
    return f"Without any label, in one feature space (HoCDR), {first} leads {listed(others)}"


def listed(names: list[str]) -> str:
    """Names with commas and a last `and`.

    >>> listed(["A"]), listed(["A", "B", "C"])
    ('A', 'A, B and C')
    """
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
