"""How queries and training rows are drawn from two sets, or from one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bridgehash import InputError
from bridgehash.datasets import TransferTask

Domain = tuple[NDArray[np.float64], NDArray[np.int64]]


def domain(n: int, n_classes: int, start: int = 0) -> Domain:
    """Rows that carry their own number, and labels that follow from it."""
    numbers = np.arange(start, start + n)
    return numbers[:, None] * np.ones(3), numbers % n_classes


def numbers(X: NDArray[np.float64]) -> list[int]:
    return [int(x) for x in X[:, 0]]


def test_a_split_without_n_train_keeps_all_rows_in_the_order_of_the_seed() -> None:
    (X_s, y_s), (X_t, y_t) = domain(20, 3), domain(30, 3, start=100)
    task = TransferTask.split(X_s, y_s, X_t, y_t, n_queries=5, seed=7)
    order = np.random.default_rng(7).permutation(30)
    assert task.X_source is X_s
    assert np.array_equal(task.X_query, X_t[order[:5]])
    assert np.array_equal(task.X_target, X_t[order[5:]])
    assert np.array_equal(task.y_query, y_t[order[:5]])


def test_more_training_rows_begin_with_the_fewer() -> None:
    seed = 1
    args = (*domain(20, 3), *domain(30, 3, start=100))
    whole = TransferTask.split(*args, n_queries=5, seed=seed)
    tasks = [TransferTask.split(*args, n_queries=5, n_train=n, seed=seed) for n in (4, 12, 20)]
    for fewer, more in zip(tasks, [*tasks[1:], None], strict=True):
        assert np.array_equal(fewer.X_query, whole.X_query)
        assert len(fewer.X_source) == len(fewer.X_target)
        assert numbers(fewer.X_target) == numbers(whole.X_target)[: len(fewer.X_target)]
        assert [n % 3 for n in numbers(fewer.X_source)] == list(fewer.y_source)
        if more is not None:
            assert numbers(fewer.X_source) == numbers(more.X_source)[: len(fewer.X_source)]
    assert sorted(numbers(tasks[-1].X_source)) == list(range(20))
    assert numbers(tasks[0].X_source) != [0, 1, 2, 3]


def test_a_smaller_domain_keeps_all_its_rows() -> None:
    task = TransferTask.split(*domain(8, 2), *domain(30, 2), n_queries=5, n_train=15)
    assert (len(task.X_source), len(task.X_target)) == (8, 15)


def test_impossible_numbers_of_rows_are_refused() -> None:
    for n_train in (0, 1, 26):
        with pytest.raises(InputError, match=rf"n_train={n_train} .* give 2 to 25"):
            TransferTask.split(*domain(20, 3), *domain(30, 3), n_queries=5, n_train=n_train)
        with pytest.raises(InputError, match=rf"n_train={n_train} .* give 2 to 25"):
            TransferTask.single(*domain(30, 3), n_queries=5, n_train=n_train)
    for n_queries in (0, 29):
        with pytest.raises(InputError, match=rf"n_queries={n_queries} of 30 rows; give 1 to 28"):
            TransferTask.single(*domain(30, 3), n_queries=n_queries)


def test_one_set_alone_is_source_and_target_in_one_memory() -> None:
    task = TransferTask.single(*domain(40, 4), n_queries=8, seed=1)
    assert task.X_source is task.X_target
    assert task.y_source is task.y_target
    rows = numbers(task.X_query) + numbers(task.X_target)
    assert sorted(rows) == list(range(40))
    assert [n % 4 for n in rows] == [*task.y_query, *task.y_target]


def test_queries_alone_are_as_many_of_each_class() -> None:
    X, y = domain(1000, 10)
    y[: 900 - 100] = 0  # very unequal classes
    task = TransferTask.single(X, y, n_queries=100, seed=3)
    assert np.bincount(task.y_query).tolist() == [10] * 10
    assert len(np.unique(np.diff(task.y_query))) > 1  # not class by class


def test_queries_alone_are_uniform_elsewhere() -> None:
    X, y = domain(100, 4)
    y[np.flatnonzero(y == 3)[5:]] = 0
    order = np.random.default_rng(0).permutation(100)
    for n_queries, why in ((7, "not a multiple"), (20, "too few of class 3")):
        task = TransferTask.single(X, y, n_queries=n_queries, seed=0)
        assert numbers(task.X_query) == order[:n_queries].tolist(), why
        assert numbers(task.X_target) == order[n_queries:].tolist()


def test_unknown_labels_are_no_class_of_queries() -> None:
    X, y = domain(40, 4)
    y[y == 3] = -1
    task = TransferTask.single(X, y, n_queries=9, seed=0)
    assert np.bincount(task.y_query).tolist() == [3, 3, 3]
    assert np.sum(task.y_target == -1) == 10


def test_training_rows_alone_are_nested() -> None:
    fewer, more = (
        TransferTask.single(*domain(60, 5), n_queries=10, n_train=n, seed=2) for n in (9, 30)
    )
    assert np.array_equal(fewer.X_query, more.X_query)
    assert numbers(fewer.X_target) == numbers(more.X_target)[:9]
