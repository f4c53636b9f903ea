"""Which classes source and target keep, by name or drawn by a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.datasets import ClassSelection, TransferTask, draw_classes
from bridgehash.datasets.classes import DRAWS

Y = np.arange(120) % 10
X = np.arange(120.0)[:, None] * np.ones(2)


def split(**options: Any) -> TransferTask:
    return TransferTask.split(X, Y, X + 1000, Y, n_queries=60, seed=3, **options)


@pytest.mark.parametrize(
    ("draw", "n", "sizes"),  # classes of the source, of the target, of both
    [
        ("partial", 7, (7, 4, 4)),
        ("partial", 10, (10, 5, 5)),
        ("open", 7, (4, 7, 4)),
        ("open", 10, (5, 10, 5)),
        ("universal", 3, (2, 2, 1)),
        ("universal", 7, (5, 5, 3)),
        ("universal", 9, (7, 6, 4)),
        ("universal", 10, (7, 7, 4)),
    ],
)
def test_a_draw_has_the_sizes_of_its_kind(draw: Any, n: int, sizes: tuple[int, int, int]) -> None:
    for seed in range(5):
        source, target = (set(kept) for kept in draw_classes(draw, Y[:n], Y[:n], seed=seed))
        assert (len(source), len(target), len(source & target)) == sizes
        assert source | target == set(range(n))


def test_draws_follow_from_the_seed() -> None:
    for draw in ("partial", "open", "universal"):
        draws = [draw_classes(draw, Y, Y, seed=seed) for seed in range(10)]
        assert len({tuple(map(tuple, kept)) for kept in draws}) > 5
        np.testing.assert_array_equal(draw_classes(draw, Y, Y, seed=4)[0], draws[4][0])
    _, target = draw_classes("partial", Y, Y, seed=2)
    source, _ = draw_classes("open", Y, Y, seed=2)
    np.testing.assert_array_equal(source, target)  # the same classes are private


def test_only_classes_of_both_domains_are_drawn() -> None:
    source, target = draw_classes("open", list("abcdex"), list("abcdeyz"), seed=0)
    assert set(source) < set(target) == set("abcde")
    source, target = draw_classes("partial", [-1, 1, 2, 3], [1, 2, 3, -1, 9], seed=0)
    assert set(target) < set(source) == {1, 2, 3}


def test_an_impossible_draw_is_refused() -> None:
    with pytest.raises(InputError, match="2 classes in common; 'open' needs at least 3: use dom"):
        draw_classes("open", [0, 1, 2], [0, 1, 3])
    with pytest.raises(InputError, match="unknown draw of classes 'part'; did you mean 'partial'"):
        draw_classes("part", Y, Y)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be text, or all of them numbers"):
        draw_classes("open", ["a", "b", "c"], [0, 1, 2])


def test_a_selection_keeps_rows_and_queries_of_the_whole_split() -> None:
    whole = split()
    task = split(source_classes=[7, 2, 5], target_classes=[5, 9])
    in_query, in_target = (np.isin(y, [5, 9]) for y in (whole.y_query, whole.y_target))
    np.testing.assert_array_equal(task.X_query, whole.X_query[in_query])
    np.testing.assert_array_equal(task.X_target, whole.X_target[in_target])
    np.testing.assert_array_equal(task.X_source, X[np.isin(Y, [2, 5, 7])])
    for part, name in (("y_source", "X_source"), ("y_query", "X_query")):
        ids = getattr(task, part)
        assert ids.tolist() == [
            int(row) % 10 for row in getattr(task, name)[:, 0]
        ]  # of all classes


def test_one_domain_may_keep_all_classes_and_is_not_copied() -> None:
    task = split(target_classes=[0, 1])
    assert task.X_source is X
    assert set(task.y_target) == {0, 1}
    other = split(source_classes=[0, 1])
    assert set(other.y_source) == {0, 1}
    np.testing.assert_array_equal(other.X_target, split().X_target)


def test_fewer_training_rows_are_rows_of_the_selected_classes() -> None:
    options = {"source_classes": [1, 2, 3], "target_classes": [3, 4, 5]}
    fewer, more = (split(n_train=n, **options) for n in (5, 12))
    assert (len(fewer.X_source), len(fewer.X_target)) == (5, 5)
    np.testing.assert_array_equal(fewer.X_source, more.X_source[:5])
    np.testing.assert_array_equal(fewer.X_query, split(**options).X_query)
    assert set(more.y_source) <= {1, 2, 3}


def test_rows_of_unknown_class_are_dropped_where_classes_are_selected() -> None:
    y = np.where(Y == 9, -1, Y)
    task = TransferTask.split(X, y, X, y, n_queries=20, target_classes=[0, 1, 2])
    assert set(task.y_target) == {0, 1, 2}
    assert -1 in task.y_source


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source_classes": [1, 77]}, "source_classes: unknown class '77'.* Choose from: 0, 1, "),
        ({"target_classes": ["1"]}, "target_classes: unknown class '1'"),
        ({"target_classes": []}, "target_classes: is empty; name at least one class, or None"),
        ({"target_classes": "12"}, "target_classes: '12' is one text; give a list"),
        ({"source_classes": [4, 4]}, "source_classes: 1 class; a source needs at least two"),
        (
            {"source_classes": [1, 2], "target_classes": [3]},
            "target_classes: none of these classes is in the source, .* keep at least one class",
        ),
    ],
)
def test_an_impossible_selection_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(**options)


def test_too_few_rows_of_the_selected_classes_are_refused() -> None:
    y = np.where(np.arange(120) == 5, 11, Y)
    with pytest.raises(InputError, match=r"have 0 queries, 1 training rows .* keep more classes"):
        TransferTask.split(X, y, X, y, n_queries=1, target_classes=[11])


def test_a_selection_is_read_from_text() -> None:
    for text in (*DRAWS, "a+b/b", "alarm clock+b/b+c"):
        assert str(ClassSelection.parse(text)) == text
    y = np.array(["1", "dog"] * 3)
    assert ClassSelection.parse("1+dog/dog").choose(y, y, seed=0) == (["1", "dog"], ["dog"])
    names = ("dog", "horse")
    chosen = ClassSelection.parse("horse+0/dog").choose(Y, Y, names, seed=0)
    assert chosen == ([1, 0], [0])
    for draw in DRAWS:
        drawn = ClassSelection.parse(draw).choose(Y, Y, seed=5)
        np.testing.assert_array_equal(drawn[1], draw_classes(draw, Y, Y, seed=5)[1])  # type: ignore[arg-type]
