"""Tasks written as text.

A data set has domains, seen through features. In
`office-caltech10/caltech10.surf800-amazon.effnet_lite0` the source is Caltech's images as SURF
histograms and the target Amazon's as EfficientNet embeddings. `cifar10/all.gist512` names one view
alone: its training rows are source and target at once. `office-caltech10/amazon.mobilenet_v1-
amazon.effnet_lite0` is one domain seen by two models: half of its rows, drawn at random, are the
source, the others the target. `@500` at the end keeps 500 training rows
of each domain. `own/photos.vgg16-sketches.gist` reads `own/photos.vgg16.npz` and
`own/sketches.gist.npz`, files of features that were made by oneself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .._core.errors import unknown
from .._core.files import StrPath
from .dataset import DataSet, View
from .extracted import queries_of
from .registry import DATASETS
from .task import TransferTask

_TASK = re.compile(
    r"(?P<dataset>[\w-]+)/(?P<s_domain>\w+)\.(?P<s_feature>\w+)"
    r"(?:-(?P<t_domain>\w+)\.(?P<t_feature>\w+))?(?:@(?P<n_train>[0-9]+))?",
    re.ASCII,
)


@dataclass(frozen=True)
class TaskSpec:
    """A task by name: two views of a data set, or one, and how many rows train."""

    dataset: str
    source: View
    target: View
    n_train: int | None = None

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            raise ValueError(unknown("data set", self.dataset, DATASETS))
        for view in (self.source, self.target):
            self._set.check(view)
        if self.n_train is not None and self.n_train < 2:
            raise ValueError(f"{self}: at least two rows are needed to train on")

    @property
    def alone(self) -> bool:
        """Is it one view, source and target at once?"""
        return self.source == self.target

    def __str__(self) -> str:
        views = str(self.source) if self.alone else f"{self.source}-{self.target}"
        return f"{self.dataset}/{views}" + ("" if self.n_train is None else f"@{self.n_train}")

    def load(
        self, seed: int, folder: StrPath | None = None, *, unit_rows: bool = False
    ) -> TransferTask:
        """One split: queries drawn from the target, the rest trains.

        Parameters
        ----------
        seed : int
            Draws the queries, and the training rows where `n_train` limits them.
        folder : path, optional
            Where to look for the files first.
        unit_rows : bool
            Divide every row by its norm; rows are as stored otherwise. Arrays may be read-only.
        """
        X_t, y_t = self._set.load(self.target, folder, unit_rows=unit_rows)
        n_queries = self._set.n_queries or queries_of(len(X_t))
        if self.alone:
            return TransferTask.single(
                X_t, y_t, n_queries=n_queries, n_train=self.n_train, seed=seed
            )
        X_s, y_s = self._set.load(self.source, folder, unit_rows=unit_rows)
        if self.source.domain == self.target.domain:
            if len(X_s) != len(X_t):
                raise ValueError(
                    f"{self}: {len(X_s)} and {len(X_t)} rows; they are not the same things"
                )
            cut = np.random.default_rng(seed).permutation(len(X_s))
            source, target = np.array_split(cut, 2)
            X_s, y_s, X_t, y_t = X_s[source], y_s[source], X_t[target], y_t[target]
            n_queries = queries_of(len(X_t))
        return TransferTask.split(
            X_s, y_s, X_t, y_t, n_queries=n_queries, n_train=self.n_train, seed=seed
        )

    def checksums(self, folder: StrPath | None = None) -> dict[str, str]:
        """SHA-256 of the files that `load` reads, by name."""
        found = [self._set.checksums(view, folder) for view in (self.source, self.target)]
        return found[0] | found[1]

    @property
    def _set(self) -> DataSet:
        return DATASETS[self.dataset]


def parse_task(text: str) -> TaskSpec:
    """The task that a text names.

    >>> task = parse_task("pacs/photo.gist512-sketch.effnet_lite0@500")
    >>> str(task.target), task.n_train, task.alone
    ('sketch.effnet_lite0', 500, False)
    >>> str(task)
    'pacs/photo.gist512-sketch.effnet_lite0@500'
    """
    match = _TASK.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a task; write DATASET/DOMAIN.FEATURE-DOMAIN.FEATURE, or "
            "DATASET/DOMAIN.FEATURE for one view alone, with @500 at the end for 500 training rows"
        )
    source = View(match["s_domain"], match["s_feature"])
    target = View(match["t_domain"], match["t_feature"]) if match["t_domain"] else source
    n_train = match["n_train"]
    return TaskSpec(match["dataset"], source, target, None if n_train is None else int(n_train))
