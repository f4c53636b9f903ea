"""Rejection of queries of unknown class, by hand and with ties; which queries a report counts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bridgehash import ITQ, InputError, Shared, evaluate, rejection_auroc
from bridgehash.codes import hamming
from bridgehash.datasets import TransferTask
from bridgehash.metrics import DistanceHistogram, nearest_distance


def test_the_area_is_the_share_of_pairs_in_order_and_ties_count_half() -> None:
    scores, unknown = [5, 2, 2, 1, 2, 0], [True, True, False, False, False, True]
    # 5 is above all three; 2 is above 1 and ties with two; 0 is below all three
    assert rejection_auroc(scores, unknown) == pytest.approx((3 + (1 + 0.5 + 0.5) + 0) / 9)
    assert rejection_auroc([1, 1, 1], [True, False, False]) == 0.5
    assert rejection_auroc([2, 1], [True, False]) == 1.0
    assert rejection_auroc([1, 2], [True, False]) == 0.0
    assert rejection_auroc([np.inf, 2], [True, False]) == 1.0


def test_the_area_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    unknown = rng.random(200) < 0.3
    scores = rng.integers(0, 9, 200) + unknown
    assert rejection_auroc(scores, unknown) == pytest.approx(roc_auc_score(unknown, scores))


@pytest.mark.parametrize(
    ("scores", "unknown", "message"),
    [
        ([1.0, 2.0], [False, False], "unknown: 0 of 2 queries are unknown; at least one"),
        ([1.0, 2.0], [True, True], "unknown: 2 of 2 queries are unknown; at least one"),
        ([1.0], [True, False], r"scores: shape \(1,\); \(2,\) is needed"),
        ([1.0, np.nan], [True, False], "scores: contains NaN"),
        ([1.0, 2.0], [1, 0], "unknown: .* type int64; one boolean per query"),
    ],
)
def test_useless_input_is_refused(scores: Any, unknown: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rejection_auroc(scores, unknown)


def test_the_nearest_items_are_counted_by_distance() -> None:
    total = np.array([[2, 3, 5], [0, 0, 4]])
    hist = DistanceHistogram(total, np.zeros_like(total))
    assert nearest_distance(hist, k=4).tolist() == [(0 + 0 + 1 + 1) / 4, 2.0]
    assert nearest_distance(hist).tolist() == [1.3, 2.0]  # the second has four items only


@pytest.fixture
def task() -> TransferTask:
    """Six classes; the source lacks 4 and 5, the target 0 and 1."""
    rng = np.random.default_rng(0)
    y = np.arange(180) % 6
    X = rng.normal(size=(6, 8))[y] * 3 + rng.normal(size=(180, 8))
    classes = {"source_classes": [0, 1, 2, 3], "target_classes": [2, 3, 4, 5]}
    return TransferTask.split(X, y, X + 0.1, y, n_queries=60, **classes)


def without(task: TransferTask, queries: Any) -> TransferTask:
    return replace(task, X_query=task.X_query[~queries], y_query=task.y_query[~queries])


def test_cross_counts_queries_of_known_class_and_single_counts_all(task: TransferTask) -> None:
    hasher = Shared(ITQ(16)).fit(task.X_source, task.X_target)
    report, unknown = evaluate(hasher, task), task.y_query >= 4
    known = evaluate(hasher, without(task, unknown))
    assert 0 < unknown.sum() < len(unknown)
    assert report.cross.radius_pr_area == known.cross.radius_pr_area
    assert report.cross.mean_average_precision == known.cross.mean_average_precision
    assert len(report.cross.histogram.total) == (~unknown).sum()
    assert len(report.single.histogram.total) == len(unknown)
    assert known.rejection_auroc is None


def test_a_hasher_without_a_score_rejects_by_the_ten_nearest_codes(task: TransferTask) -> None:
    fitted = Shared(ITQ(16)).fit(task.X_source, task.X_target)
    hasher: Any = SimpleNamespace(encode=fitted.encode, encoder=fitted.encoder)  # and no more
    codes = [hasher.encode(task.X_query, "target"), hasher.encode(task.X_source, "source")]
    nearest = np.sort(hamming(*codes), axis=1)[:, :10].mean(axis=1)
    expected = roc_auc_score(task.y_query >= 4, nearest)
    assert evaluate(hasher, task).rejection_auroc == pytest.approx(expected)


def test_the_score_of_the_hasher_is_used_if_it_has_one(task: TransferTask) -> None:
    class Rejecting(Shared):
        def rejection_score(self, X: Any, domain: str) -> Any:
            assert domain == "target"
            assert X is task.X_query
            return np.where(task.y_query == 4, 1.0, 0.0)

    hasher = Rejecting(ITQ(16)).fit(task.X_source, task.X_target)
    shares = np.mean(task.y_query[task.y_query >= 4] == 4)
    assert evaluate(hasher, task).rejection_auroc == pytest.approx(shares + (1 - shares) / 2)


def test_queries_without_a_label_are_neither_known_nor_unknown(task: TransferTask) -> None:
    hasher = Shared(ITQ(16)).fit(task.X_source, task.X_target)
    some = np.arange(len(task.y_query)) < 5
    hidden = replace(task, y_query=np.where(some, -1, task.y_query))
    report, fewer = evaluate(hasher, hidden), evaluate(hasher, without(task, some))
    assert report.rejection_auroc == fewer.rejection_auroc
    assert report.cross.radius_pr_area == fewer.cross.radius_pr_area
    assert len(report.single.histogram.total) == len(some)
    with pytest.raises(InputError, match="task: no query has a class of the source; use a task"):
        evaluate(hasher, replace(task, y_query=np.full_like(task.y_query, -1)))
