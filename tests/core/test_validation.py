"""Validation: what is accepted, what is refused, and with which message."""

from numbers import Integral

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from bridgehash._core.errors import InputError
from bridgehash._core.validation import (
    Flag,
    OneOf,
    Range,
    Size,
    check_domain,
    check_labels,
    check_parameters,
    check_same_library,
    class_ids,
)


@pytest.mark.parametrize(
    ("given", "kept"), [("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("f2", "f8")]
)
def test_domains_are_float64_unless_float32(given, kept):
    assert check_domain(np.ones((3, 2), dtype=given), "X_source").dtype == kept


@pytest.mark.parametrize(
    "X",
    [
        np.full((3, 2), np.nan),
        np.full((3, 2), np.inf),
        np.ones((0, 2)),
        np.ones((1, 2)),
        np.ones((3, 0)),
        np.ones(3),
        np.ones((2, 3, 4)),
        np.array([["a", "b"], ["c", "d"]]),
    ],
    ids=["nan", "inf", "no rows", "one row", "no columns", "1-d", "3-d", "words"],
)
def test_what_is_no_domain_is_refused_by_name(X):
    with pytest.raises(ValueError, match="X_source"):
        check_domain(X, "X_source")


def test_labels_are_optional_whole_numbers_or_names():
    assert check_labels(None, 3, "y") is None
    for y in ([0, 1, -1], ["a", "b", "a"], np.array([True, False, True])):
        np.testing.assert_array_equal(check_labels(y, 3, "y"), y)
    assert check_labels([0.0, 2.0, -1.0], 3, "y").dtype == np.int64


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        ([0, 1], r"shape \(2,\).*3 rows"),
        ([[0, 1, 2]], r"shape \(1, 3\)"),
        (5, r"shape \(\)"),
        ([0.0, np.nan, 1.0], "NaN"),
        ([0.0, 0.5, 1.0], "fractions"),
        (
            np.array(["a", np.nan, "b"], object),
            r"row 1 is nan, not text; .* use whole numbers and -1",
        ),
        (np.array(["a", "b", None], object), "row 2 is None"),
        (np.array([1j, 2, 3]), "complex128"),
    ],
)
def test_what_are_no_labels_is_refused_by_name(y, problem):
    with pytest.raises(ValueError, match=rf"y_target: .*{problem}"):
        check_labels(y, 3, "y_target")


def assert_ids(found, expected):
    for ids, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert ids is None
        else:
            np.testing.assert_array_equal(ids, wanted)


def test_class_ids_count_the_classes_of_both_domains():
    assert_ids(class_ids(np.array([7, 3]), np.array([3, 9, 7])), ([1, 0], [0, 2, 1]))
    assert_ids(class_ids(None, np.array([4, 2])), (None, [1, 0]))
    assert_ids(class_ids(None, None), (None, None))


def test_unknown_labels_stay_unknown_and_are_no_class():
    assert_ids(class_ids(np.array([-1, 5]), np.array([-1, -1])), ([-1, 0], [-1, -1]))
    assert_ids(class_ids(np.array([-1]), np.array([-1])), ([-1], [-1]))


def test_unknown_labels_are_no_class_whatever_the_type_of_number():
    unsigned, unknown = np.array([0, 1], dtype=np.uint64), np.array([-1, 0])
    assert_ids(class_ids(unsigned, unknown), ([0, 1], [-1, 0]))


def test_names_and_numbers_are_not_compared():
    with pytest.raises(ValueError, match="all of them numbers"):
        class_ids(np.array(["0", "1"]), np.array([0, 1]))


def test_arrays_of_two_libraries_are_refused():
    strict = pytest.importorskip("array_api_strict")
    X = np.ones((2, 3))
    check_same_library([X, X], ["X_source", "X_target"])
    with pytest.raises(InputError, match=r"X_source is .*numpy.*X_target is .*strict"):
        check_same_library([X, strict.asarray(X)], ["X_source", "X_target"])


def test_whole_numbers_of_another_library_become_floats():
    strict = pytest.importorskip("array_api_strict")
    assert check_domain(strict.asarray([[1, 2], [3, 4]]), "X").dtype == strict.float64


# --- parameters


class Toy(BaseEstimator):
    """Anything with a parameter and a rule for it."""

    def __init__(self, value=1, rule=None):
        self.value = value
        self.rule = rule

    @property
    def _rules(self):
        return {} if self.rule is None else {"value": self.rule}


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (Range(0), [0, 0.0, 1.5, np.float32(2), 10**9], [-1e-9, "1", None, True, np.nan]),
        (Range(0, above=True), [1e-9, 3], [0, 0.0, -1, np.nan]),
        (Range(1, 4, Integral), [1, 4, np.int64(2)], [0, 5, 2.0, True]),
        (Flag(), [True, False, np.True_], [0, 1, "yes", None]),
        (OneOf(("a", "b")), ["a", "b"], ["c", None, 3, Toy()]),
        (OneOf((None, "a"), "get_params"), [None, "a", Toy()], ["c", 3, object()]),
        (OneOf(("a",), number=Range(0, above=True)), ["a", 0.5], ["c", 0, -1.0, True, Toy()]),
        (Size(), [None, 1, "3GiB", " 1.5 g", "500MB"], [0, -1, 1.5, True, "x", "1.5.2GiB", "."]),
    ],
)
def test_a_rule_admits_its_range_and_is_quoted_otherwise(rule, good, bad):
    for value in good:
        check_parameters(Toy(value, rule))
    for value in bad:
        with pytest.raises(ValueError, match=r"^value: .* is not allowed; use "):
            check_parameters(Toy(value, rule))


def test_infinity_is_out_of_every_range():
    with pytest.raises(ValueError, match=r"^value: inf is not allowed"):
        check_parameters(Toy(np.inf, Range(0)))


def test_rules_of_parts_are_checked_too():
    part = Toy(-1, Range(0))
    with pytest.raises(ValueError, match="value: -1 is not allowed; use a number of at least 0"):
        check_parameters(Toy(part, OneOf((), "get_params")))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Range(0), "a number of at least 0"),
        (Range(0, above=True), "a number above 0"),
        (Range(1, 4096, Integral), "a whole number from 1 to 4096"),
        (Flag(), "True or False"),
        (OneOf((None, "knn")), "one of None, 'knn'"),
        (OneOf(("median",), number=Range(0)), "one of 'median' or a number of at least 0"),
        (OneOf(("knn",), "build"), "one of 'knn' or an object with `build`"),
    ],
)
def test_a_rule_says_what_to_give(rule, words):
    assert str(rule) == words
