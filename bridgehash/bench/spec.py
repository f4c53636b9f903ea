"""Suites: which methods run on which tasks, read from TOML and checked before a run.

Unknown keys, methods and parameters are refused with the nearest known name. Which labels a method
sees (none, those of the source, those of both domains) is part of the suite, not of the method.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, Literal

from .._core.errors import SuiteError, named, unknown
from ..codes import MAX_BITS
from ..datasets import TaskSpec, parse_task
from ..models.base import BaseTransferHasher
from ..registry import METHODS, inner_estimator
from .extras import EXTRAS

Labels = Literal["none", "source", "both", "one", "three"]
SearchSide = Literal["cross", "single"]
SEEN: dict[str, tuple[str, ...]] = {
    "none": (),
    "source": ("y_source",),
    "both": ("y_source", "y_target"),
    "one": ("y_source", "y_target"),
    "three": ("y_source", "y_target"),
}
FEW = {"one": 1, "three": 3}  # labels per class and domain
METRICS = ("radius_pr_area", "mean_average_precision")
REJECTION = "rejection_auroc"  # of the search in the source, on tasks whose target has more classes
QUICK_BITS, QUICK_SEEDS = (16,), 1  # a first look at any suite


@dataclass(frozen=True)
class MethodSpec:
    """A method of a suite: registered name, label, parameters and the labels it sees."""

    label: str
    use: str
    labels: Labels = "none"
    params: Mapping[str, Any] = field(default_factory=dict)
    point: Mapping[str, Any] = field(default_factory=dict)  # the swept parameters

    @property
    def series(self) -> str:
        """Return the label without the swept parameters."""
        return self.label.removesuffix(f", {_point_text(self.point)}") if self.point else self.label

    @cached_property
    def settings(self) -> dict[str, str]:
        """Return every parameter, with defaults and presets, except code length and seed.

        Parameters that are None are left out, so that records stay valid when a method gets a new
        optional parameter.
        """
        parameters = inner_estimator(self.build(n_bits=1, seed=0)).get_params(deep=True)
        return {
            name: _text(value)
            for name, value in sorted(parameters.items())
            if name not in ("n_bits", "random_state") and value is not None
        }

    def build(self, n_bits: int, seed: int) -> BaseTransferHasher:
        """Return an unfitted hasher."""
        return METHODS[self.use].prepared(n_bits, seed, **self.params)


def _text(value: object) -> str:
    """Return a parameter as text; 1 and 1.0 are the same."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return repr(float(value)) if whole else repr(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Suite:
    """What to run, and what to show in the report."""

    name: str
    title: str
    tasks: tuple[TaskSpec, ...]
    methods: tuple[MethodSpec, ...]
    n_bits: tuple[int, ...] = (64,)
    seeds: int = 10
    sides: tuple[SearchSide, ...] = ("cross", "single")
    metrics: tuple[str, ...] = METRICS
    extras: tuple[str, ...] = ()
    figure: str | None = None  # drawn in the report, next to the tables
    paper: str | None = None  # file of published numbers
    note: str = ""
    minutes: float | None = None  # about, on one core; benchmarks/suite_times.py measures them

    def metrics_of(self, side: str) -> tuple[str, ...]:
        """Return the metrics that a side has."""
        return tuple(name for name in self.metrics if side == "cross" or name != REJECTION)


FIGURES = ("pr", "bars", "iterations", "grid", "tsne", "samples")
_NEEDED: dict[str, tuple[str, Callable[[Suite], bool]]] = {  # what a figure needs
    "iterations": (
        "a sweep over max_iter",
        lambda s: all("max_iter" in m.point for m in s.methods),
    ),
    "grid": (
        "a sweep over one or two parameters",
        lambda s: all(len(m.point) in (1, 2) for m in s.methods),
    ),
    "tsne": ('extras = ["embedding"]', lambda s: "embedding" in s.extras),
    "samples": ("tasks with @N at the end", lambda s: any(t.n_train is not None for t in s.tasks)),
}
_LISTS = ("tasks", "method", "n_bits", "sides", "metrics", "extras")
_TOP = {f.name for f in fields(Suite)} - {"name", "methods"} | {"method"}
_METHOD = {f.name for f in fields(MethodSpec)} - {"point"} | {"sweep"}
_GIVEN = {"n_bits", "random_state"}  # set by the suite, the same for all methods


def suite_names() -> list[str]:
    """Return the names of the suites of the package: tables, then figures."""
    names = [name.removesuffix(".toml") for name in _files("suites", ".toml")]
    return sorted(names, key=lambda name: (not name.startswith("table"), _in_order(name)))


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers by value.

    >>> sorted(["figure10", "figure9-twin", "figure9"], key=_in_order)
    ['figure9', 'figure9-twin', 'figure10']
    """
    return [(int(part or 0), rest) for part, rest in re.findall(r"(\d*)(\D*)", name)]


def _files(folder: str, suffix: str) -> list[str]:
    """Return the names of data files of the package."""
    items = (resources.files("bridgehash.bench") / folder).iterdir()
    return sorted(item.name for item in items if item.name.endswith(suffix))


def _tables_of_the_paper() -> list[str]:
    return [name for name in _files("paper", ".csv") if name.startswith("table_")]


def load_suite(name: str) -> Suite:
    """Return a suite of the package by name, or one from a TOML file."""
    if name.endswith(".toml"):
        with named(name):
            text = Path(name).read_text(encoding="utf-8")
        return parse_suite(Path(name).stem, text)
    if name not in suite_names():
        raise SuiteError(unknown("suite", name, suite_names()))
    file = resources.files("bridgehash.bench") / "suites" / f"{name}.toml"
    return parse_suite(name, file.read_text(encoding="utf-8"))


def load_suites(names: Iterable[str]) -> list[Suite]:
    """Return suites by name, each once; a name may be a pattern such as `*-twin`."""
    suites: dict[str, Suite] = {}
    for name in names:
        matches = fnmatch.filter(suite_names(), name) if "*" in name else [name]
        if not matches:
            raise SuiteError(f"{name}: no suite matches; see `bridgehash bench list`")
        for match in matches:
            suites.setdefault(match, load_suite(match))
    return list(suites.values())


def parse_suite(name: str, text: str) -> Suite:
    """Return the suite in a TOML text."""
    try:
        return _suite(name, tomllib.loads(text))
    except (ValueError, TypeError) as error:
        raise SuiteError(f"suite {name}: {error}") from error


def _suite(name: str, data: dict[str, Any]) -> Suite:
    _check_keys(data, _TOP, "key")
    for needed in ("title", "tasks", "method"):
        if needed not in data:
            raise SuiteError(f"the key {needed!r} is missing")
    for key in _LISTS:
        if not data.get(key, ["something"]) or not isinstance(data.get(key, []), list):
            raise SuiteError(f"{key} must be a list with at least one entry")
    lines = data.pop("method")
    tasks = tuple(parse_task(task) for task in data.pop("tasks"))
    lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    suite = Suite(
        name=name,
        tasks=tasks,
        methods=tuple(spec for line in lines for spec in _methods(line)),
        **(data | lists),
    )
    _check_choices(suite)
    return suite


def _methods(line: dict[str, Any]) -> Iterator[MethodSpec]:
    """Yield the method of an entry, once for every point of its sweep."""
    _check_keys(line, _METHOD, "key of a method")
    if "use" not in line:
        raise SuiteError("a method has no key 'use', its name in `bridgehash methods`")
    sweep = dict(line.pop("sweep", {}))
    for values in product(*sweep.values()):
        point = dict(zip(sweep, values, strict=True))
        params = dict(line.get("params", {})) | point
        label = ", ".join(filter(None, [line.get("label", line["use"]), _point_text(point)]))
        spec = MethodSpec(**(line | {"label": label, "params": params}), point=point)
        _check_method(spec)
        yield spec


def _point_text(point: Mapping[str, Any]) -> str:
    """Return swept parameters as text.

    >>> _point_text({"lam": 0.0001, "start": "itq"})
    'lam=0.0001, start=itq'
    """
    shown = {k: f"{v:g}" if isinstance(v, int | float) else str(v) for k, v in point.items()}
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def _check_method(spec: MethodSpec) -> None:
    if spec.use not in METHODS:
        raise SuiteError(unknown("method", str(spec.use), METHODS))
    if spec.labels not in SEEN:
        raise SuiteError(unknown("kind of labels", str(spec.labels), SEEN))
    known = inner_estimator(METHODS[spec.use].make()).get_params(deep=False)
    _check_keys(spec.params, set(known) - _GIVEN, f"parameter of {spec.use}")
    needs = METHODS[spec.use].about.needs
    given = {"y", *SEEN[spec.labels]} if SEEN[spec.labels] else set()
    if not set(needs) <= given:
        raise SuiteError(
            f"{spec.label} needs {METHODS[spec.use].inputs}, but labels = {spec.labels!r}"
        )


def _check_choices(suite: Suite) -> None:
    labels = [method.label for method in suite.methods]
    if len(set(labels)) < len(labels):
        raise SuiteError("two methods have the same label; give each a label of its own")
    if not all(isinstance(bits, int) and 1 <= bits <= MAX_BITS for bits in suite.n_bits):
        raise SuiteError(f"n_bits must be integers from 1 to {MAX_BITS}")
    if not isinstance(suite.seeds, int) or suite.seeds < 1:
        raise SuiteError(f"seeds={suite.seeds!r} is not allowed: give an integer of at least 1")
    if suite.minutes is not None and not _is_positive(suite.minutes):
        raise SuiteError(f"minutes={suite.minutes!r} is not allowed: give a number above 0")
    for kind, chosen, known in (
        ("side", suite.sides, ("cross", "single")),
        ("metric", suite.metrics, (*METRICS, REJECTION)),
        ("extra", suite.extras, EXTRAS),
        ("figure", (suite.figure,) if suite.figure else (), FIGURES),
        ("published table", (suite.paper,) if suite.paper else (), _tables_of_the_paper()),
    ):
        for name in chosen:
            if name not in known:
                raise SuiteError(unknown(kind, str(name), known))
    for side in suite.sides:
        if not suite.metrics_of(side):
            raise SuiteError(f"metrics has {REJECTION} only, which side {side!r} does not have")
    words, has = _NEEDED.get(str(suite.figure), ("", lambda suite: True))
    if not has(suite):
        raise SuiteError(f"figure = {suite.figure!r} needs {words}")


def _is_positive(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value > 0  # type: ignore[operator]


def _check_keys(given: Collection[str], known: Collection[str], kind: str) -> None:
    for key in given:
        if key not in known:
            raise SuiteError(unknown(kind, key, sorted(known)))
