"""Transfer tasks: source, target and queries, given as arrays, as files or by name.

A task by name is two views of a data set. In
`office-caltech10/caltech10.surf800-amazon.effnet_lite0` the source is Caltech's images as SURF
histograms and the target Amazon's as EfficientNet embeddings. `cifar10/all.gist512` names one view:
its training rows are both source and target.
`office-caltech10/amazon.mobilenet_v1-amazon.effnet_lite0` is one domain seen by two models: a
random half of its rows is the source, the other half the target. `@500` at the end keeps 500
training rows per domain. `@classes=partial` after it drops classes of the target, and
`@classes=dog+horse+house/dog+person` names those that source and target keep: see `classes.py`.
`own/photos.vgg16-sketches.gist` reads the user's feature files `own/photos.vgg16.npz` and
`own/sketches.gist.npz`.

Of one domain seen by two models, `load_pairs` returns all rows instead, as known pairs, and the
official test rows as queries: `parse_task("wiki/train.sift128-train.lda10").load_pairs()`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError, unknown
from .._core.files import StrPath
from .._core.linalg import Array
from .._core.validation import UNKNOWN, check_domain, check_labels, class_ids
from ..models.feature_maps import UnitRows
from .classes import ClassSelection, selected_rows
from .dataset import DataSet, DataView, Rows, read_extracted
from .registry import DATASETS

_TASK = re.compile(
    r"(?P<dataset>[\w-]+)/(?P<s_domain>\w+)\.(?P<s_feature>\w+)"
    r"(?:-(?P<t_domain>\w+)\.(?P<t_feature>\w+))?(?:@(?P<n_train>[0-9]+))?"
    r"(?:@classes=(?P<classes>.*))?",
    re.ASCII,
)


@dataclass(frozen=True)
class TransferTask:
    """One split: training rows of both domains, and queries drawn from the target.

    Cross-domain retrieval searches the source with the queries, single-domain retrieval the
    training rows of the target. Labels define what is relevant. Which labels a method sees in
    training is not part of the task. Source and target may have classes that the other one lacks.

    Arrays are not copied if a whole domain is kept, so they may be read-only.
    """

    X_source: Array
    X_target: Array
    X_query: Array
    y_source: NDArray[np.intp]
    y_target: NDArray[np.intp]
    y_query: NDArray[np.intp]

    @classmethod
    def split(
        cls,
        X_source: ArrayLike,
        y_source: ArrayLike,
        X_target: ArrayLike,
        y_target: ArrayLike,
        *,
        n_queries: int = 500,
        n_train: int | None = None,
        source_classes: Collection[Any] | None = None,
        target_classes: Collection[Any] | None = None,
        seed: int = 0,
    ) -> TransferTask:
        """Draw queries from the target uniformly, without replacement; the rest is for training.

        `n_train` keeps that many random training rows per domain, or all if there are fewer. With
        the same seed, the queries do not depend on `n_train`, and the rows of a smaller `n_train`
        are the first rows of a larger one.

        `source_classes` and `target_classes` are the labels that a domain keeps; the default is
        all. The queries are those of the whole target whose class is kept, so there are fewer
        than `n_queries`. Class ids are those of all labels, whichever are kept.

        >>> X, y = np.arange(24.0).reshape(12, 2), ["cat", "dog", "emu"] * 4
        >>> task = TransferTask.split(X, y, X, y, n_queries=6, target_classes=["cat", "emu"])
        >>> np.unique(task.y_source), np.unique(task.y_target)
        (array([0, 1, 2]), array([0, 2]))
        """
        X_s, X_t = check_domain(X_source, "X_source"), check_domain(X_target, "X_target")
        labels_s = check_labels(y_source, len(X_s), "y_source")
        labels_t = check_labels(y_target, len(X_t), "y_target")
        y_s, y_t = class_ids(labels_s, labels_t)
        assert labels_s is not None
        assert labels_t is not None
        assert y_s is not None
        assert y_t is not None
        _check_sizes(n_queries, n_train, len(X_t), len(X_s), "target rows")
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X_t))
        query, train = order[:n_queries], order[n_queries:]
        source = np.arange(len(X_s))
        if n_train is not None:
            source = rng.permutation(len(X_s))  # drawn last: the queries stay the same
        if source_classes is not None or target_classes is not None:
            in_s, in_t = selected_rows(labels_s, labels_t, source_classes, target_classes)
            query, train, source = query[in_t[query]], train[in_t[train]], source[in_s[source]]
            _check_selected(len(query), len(train), len(source))
        train, source = train[:n_train], source[:n_train]
        if n_train is not None or len(source) < len(X_s):
            X_s, y_s = X_s[source], y_s[source]
        return cls(X_s, X_t[train], X_t[query], y_s, y_t[train], y_t[query])

    @classmethod
    def single(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_queries: int,
        n_train: int | None = None,
        seed: int = 0,
    ) -> TransferTask:
        """Draw queries from one data set; all other rows are both source and target.

        The paper reports such sets and does not say how one set becomes two domains. This is the
        simplest choice: all rows are used, and searching the source is searching the target.
        `X_source` and `X_target` are the same array.

        Each class gives the same number of queries if `n_queries` is a multiple of the number of
        classes and every class has more rows than that (CIFAR-10: 100 per class, 1,000 in all,
        and 59,000 training rows). Otherwise queries are drawn uniformly. `n_train` keeps that many
        of the other rows, nested as in `split`.

        >>> X, y = np.arange(12.0).reshape(6, 2), ["a", "a", "a", "b", "b", "b"]
        >>> task = TransferTask.single(X, y, n_queries=2, seed=0)
        >>> np.bincount(task.y_query), len(task.X_target), task.X_source is task.X_target
        (array([1, 1]), 4, True)
        """
        X = check_domain(X, "X")
        (ids,) = class_ids(check_labels(y, len(X), "y"))
        assert ids is not None
        _check_sizes(n_queries, n_train, len(X))
        order = np.random.default_rng(seed).permutation(len(X))
        asks = _first_of_each_class(ids[order], n_queries)
        query, train = order[asks], order[~asks][:n_train]
        X_train, y_train = X[train], ids[train]
        return cls(X_train, X_train, X[query], y_train, y_train, ids[query])


@dataclass(frozen=True)
class PairedTask:
    """Items described by two views: row i of X and row i of Z are the same item.

    X is the first view of the task, Z the second. The queries are the official test rows of the
    data set. A set without an official split has none: the arrays have no rows.
    """

    X_train: Array
    Z_train: Array
    y_train: NDArray[np.intp]
    X_query: Array
    Z_query: Array
    y_query: NDArray[np.intp]


@dataclass(frozen=True)
class TaskSpec:
    """A task by name: views of a data set, the number of training rows, and the classes."""

    dataset: str
    source: DataView
    target: DataView
    n_train: int | None = None
    classes: ClassSelection | None = None

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            raise InputError(unknown("data set", self.dataset, DATASETS))
        for view in (self.source, self.target):
            self._set.check(view)
        if self.n_train is not None and self.n_train < 2:
            raise InputError(f"{self}: at least 2 training rows are needed")
        if self.classes is not None:
            if self.alone:
                raise InputError(
                    f"{self}: source and target are one view, so they have the same classes; "
                    "remove @classes=, or name two views"
                )
            self._set.check_classes((*self.classes.source, *self.classes.target))

    @property
    def alone(self) -> bool:
        """Return whether one view is both source and target."""
        return self.source == self.target

    def __str__(self) -> str:
        views = str(self.source) if self.alone else f"{self.source}-{self.target}"
        rows = "" if self.n_train is None else f"@{self.n_train}"
        classes = "" if self.classes is None else f"@classes={self.classes}"
        return f"{self.dataset}/{views}{rows}{classes}"

    def load(
        self, seed: int, folder: StrPath | None = None, *, unit_rows: bool = False
    ) -> TransferTask:
        """Return one split of the data.

        Parameters
        ----------
        seed : int
            Draws the queries, the training rows if `n_train` limits them, and the classes if they
            are not named.
        folder : path, optional
            Where to look for the files first.
        unit_rows : bool
            Divide every row by its norm. Arrays may be read-only.
        """
        X_t, y_t = self._set.load(self.target, folder, unit_rows=unit_rows)
        n_queries = self._set.n_queries or default_n_queries(len(X_t))
        if self.alone:
            return TransferTask.single(
                X_t, y_t, n_queries=n_queries, n_train=self.n_train, seed=seed
            )
        X_s, y_s = self._set.load(self.source, folder, unit_rows=unit_rows)
        if self.source.domain == self.target.domain:
            if len(X_s) != len(X_t):
                raise InputError(
                    f"{self}: {len(X_s)} and {len(X_t)} rows; both views of one domain need the "
                    "same rows"
                )
            order = np.random.default_rng(seed).permutation(len(X_s))
            source, target = np.array_split(order, 2)
            X_s, y_s, X_t, y_t = X_s[source], y_s[source], X_t[target], y_t[target]
            n_queries = default_n_queries(len(X_t))
        return _split(
            (X_s, y_s),
            (X_t, y_t),
            self.classes,
            self._set.class_names,
            n_queries=n_queries,
            n_train=self.n_train,
            seed=seed,
        )

    def load_pairs(self, folder: StrPath | None = None, *, unit_rows: bool = False) -> PairedTask:
        """Return all rows of one domain in both views, as pairs; `n_train` is not used.

        The domain `train` comes with the rows of `test` as queries. Arrays may be read-only.
        """
        if self.source.domain != self.target.domain:
            raise InputError(
                f"{self}: the rows of {self.source.domain} and {self.target.domain} are not "
                "pairs; name two features of one domain"
            )
        if self.classes is not None:
            raise InputError(f"{self}: both rows of a pair have one class; remove @classes=")
        X, Z, y = self._pairs_of(self.source.domain, folder, unit_rows)
        X_query, Z_query, y_query = X[:0], Z[:0], y[:0]
        if (
            self.source.domain == "train"
            and DataView("test", self.source.feature) in self._set.views
        ):
            X_query, Z_query, y_query = self._pairs_of("test", folder, unit_rows)
        ids, query_ids = class_ids(
            check_labels(y, len(X), "y"), check_labels(y_query, len(X_query), "y")
        )
        assert ids is not None
        assert query_ids is not None
        return PairedTask(X, Z, ids, X_query, Z_query, query_ids)

    def _pairs_of(
        self, domain: str, folder: StrPath | None, unit_rows: bool
    ) -> tuple[Array, Array, NDArray[Any]]:
        views = (DataView(domain, view.feature) for view in (self.source, self.target))
        (X, y), (Z, y_other) = (self._set.load(view, folder, unit_rows=unit_rows) for view in views)
        if not np.array_equal(y, y_other):
            raise InputError(f"{self}: the labels of both views differ, so rows are not pairs")
        return X, Z, y

    def checksums(self, folder: StrPath | None = None) -> dict[str, str]:
        """Return the SHA-256 of the files that `load` reads, by name."""
        source, target = (self._set.checksums(view, folder) for view in (self.source, self.target))
        return source | target

    def is_present(self, folder: StrPath | None = None) -> bool:
        """Whether the files that `load` reads are on this machine; nothing is downloaded."""
        return all(self._set.is_present(view, folder) for view in (self.source, self.target))

    @property
    def _set(self) -> DataSet:
        return DATASETS[self.dataset]


def parse_task(text: str) -> TaskSpec:
    """Return the task with this name.

    >>> task = parse_task("pacs/photo.gist512-sketch.effnet_lite0@500")
    >>> str(task.target), task.n_train, task.alone
    ('sketch.effnet_lite0', 500, False)
    >>> str(task)
    'pacs/photo.gist512-sketch.effnet_lite0@500'
    >>> parse_task("pacs/photo.gist512-sketch.gist512@classes=dog+horse/dog+house").classes.source
    ('dog', 'horse')
    """
    if (match := _TASK.fullmatch(text)) is None:
        raise InputError(
            f"{text!r} is not a task; write DATASET/DOMAIN.FEATURE-DOMAIN.FEATURE, or "
            "DATASET/DOMAIN.FEATURE for one view, with @500 at the end for 500 training rows, and "
            "@classes=partial, open, universal or dog+horse/dog+house after it to select classes"
        )
    source = DataView(match["s_domain"], match["s_feature"])
    target = DataView(match["t_domain"], match["t_feature"]) if match["t_domain"] else source
    n_train = match["n_train"]
    rows = None if n_train is None else int(n_train)
    classes = None if match["classes"] is None else ClassSelection.parse(match["classes"])
    return TaskSpec(match["dataset"], source, target, rows, classes)


def task_from_files(
    source: StrPath,
    target: StrPath | None = None,
    *,
    n_queries: int | None = None,
    n_train: int | None = None,
    classes: str | None = None,
    seed: int = 0,
    unit_rows: bool = False,
) -> TransferTask:
    """Return a task from two feature files, or from one.

    Parameters
    ----------
    source, target : path
        Files with rows and labels, .npz or .parquet. Without a target the rows of the source are
        used as in `TransferTask.single`.
    n_queries : int, optional
        Rows of the target to use as queries; by default a tenth, at most 500.
    n_train : int, optional
        Training rows to keep per domain.
    classes : str, optional
        Classes to keep, as after `@classes=` in the name of a task: "partial", "open",
        "universal", or labels such as "dog+horse/dog+house".
    seed : int
        Draws the queries, the training rows, and the classes if they are not named.
    unit_rows : bool
        Divide every row by its norm.
    """

    def read(path: StrPath) -> Rows:
        X, y = read_extracted(path)
        return (UnitRows().fit_transform(X) if unit_rows else X), y

    X_t, y_t = read(source if target is None else target)
    n = default_n_queries(len(X_t)) if n_queries is None else n_queries
    selection = None if classes is None else ClassSelection.parse(classes)
    if target is None:
        if selection is not None:
            raise InputError("one file has one set of classes; give a target, too", "classes")
        return TransferTask.single(X_t, y_t, n_queries=n, n_train=n_train, seed=seed)
    return _split(read(source), (X_t, y_t), selection, n_queries=n, n_train=n_train, seed=seed)


def _split(
    source: Rows,
    target: Rows,
    selection: ClassSelection | None,
    names: Sequence[str] = (),
    *,
    n_queries: int,
    n_train: int | None,
    seed: int,
) -> TransferTask:
    """Return a split of two domains with the selected classes."""
    kept: tuple[Collection[Any] | None, Collection[Any] | None] = None, None
    if selection is not None:
        kept = selection.choose(source[1], target[1], names, seed=seed)
    return TransferTask.split(
        *source,
        *target,
        n_queries=n_queries,
        n_train=n_train,
        source_classes=kept[0],
        target_classes=kept[1],
        seed=seed,
    )


def default_n_queries(n: int) -> int:
    """Return how many of n rows are queries if nothing else is said: a tenth, at most 500.

    >>> default_n_queries(300), default_n_queries(9_298)
    (30, 500)
    """
    return max(1, min(500, n // 10))


def _first_of_each_class(y: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    """Mark n rows: the first of each class in equal numbers if possible, else the first n."""
    classes, counts = np.unique(y[y != UNKNOWN], return_counts=True)
    if len(classes) == 0 or n % len(classes) or counts.min() <= n // len(classes):
        return np.arange(len(y)) < n
    marked = np.zeros(len(y), dtype=bool)
    for k in classes:
        marked[np.flatnonzero(y == k)[: n // len(classes)]] = True
    return marked


def _check_sizes(
    n_queries: int, n_train: int | None, n: int, n_source: int = 0, what: str = "rows"
) -> None:
    if not 1 <= n_queries <= n - 2:
        raise InputError(
            f"n_queries={n_queries} of {n} {what}; "
            f"give 1 to {n - 2}, so that two training rows are left"
        )
    most = max(n_source, n - n_queries)
    if n_train is not None and not 2 <= n_train <= most:
        raise InputError(f"n_train={n_train} is not allowed: give 2 to {most}, or None for all")


def _check_selected(n_queries: int, n_target: int, n_source: int) -> None:
    if n_queries < 1 or min(n_target, n_source) < 2:
        raise InputError(
            f"the selected classes have {n_queries} queries, {n_target} training rows of the "
            f"target and {n_source} of the source; 1, 2 and 2 are needed: keep more classes, or "
            "change n_queries"
        )
