"""The choice of a method: by known labels, by the estimate, and by scikit-learn."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from bridgehash import ATH, InputError, WithSource, tune
from bridgehash.metrics import distance_histogram, precision_at
from bridgehash.tuning.tune import Candidate, _order, possible_methods


@pytest.fixture
def data():
    """Two domains in two feature spaces, with labels."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    centres = 3.0 * rng.normal(size=(3, 6))
    X = centres[y] + rng.normal(size=(90, 6))
    Z = (centres[y] + rng.normal(size=(90, 6))) @ rng.normal(size=(6, 5))
    return X, Z, y


def test_labels_judge_candidates_by_rows_that_are_left_out(data):
    X, Z, y = data
    result = tune(X, Z, y_source=y, y_target=y, methods=["ath-supervised", "lsh"], n_bits=[8, 16])
    assert result.by == "labels"
    assert result.best.method == "ath-supervised"
    assert result.best.expected > 0.8
    assert {each.n_bits for each in result.candidates if each.method == "ath-supervised"} == {8, 16}
    worst = result.candidates[-1]
    assert worst.method == "lsh"
    assert worst.expected < 0.6
    assert result.model.n_bits == result.best.n_bits


def test_without_labels_of_the_target_the_estimate_judges(data):
    X, _, _ = data
    result = tune(X, X[::2], methods=["ath-unsupervised", "itq"], n_bits=[16])
    assert result.by == "estimate"
    expected = [each.expected for each in result.candidates]
    assert result.best.expected >= max(expected) - 0.01
    assert result.model.bridge_report_.expected == pytest.approx(result.best.expected)


def test_a_grid_is_tried_for_the_best_method(data):
    X, Z, y = data
    result = tune(
        X, Z, y_source=y, y_target=y, methods=["ath-supervised"], n_bits=[8],
        grid={"ridge": [0.1, 1.0]},
    )  # fmt: skip
    assert sorted(each.settings for each in result.candidates) == ["", "ridge=0.1", "ridge=1.0"]


def test_of_candidates_that_are_alike_the_shortest_codes_win():
    def candidate(n_bits, expected):
        return Candidate("itq", n_bits, {}, expected, 0.0, 1.0, 0.0)

    found = [candidate(64, 0.8), candidate(16, 0.795), candidate(8, 0.7)]
    found.sort(key=lambda each: _order(each, 0.8))
    assert [each.n_bits for each in found] == [16, 64, 8]


def test_methods_suit_the_labels_and_feature_spaces(data):
    X, Z, y = data
    none, few = None, np.where(np.arange(90) < 9, y, -1)
    assert possible_methods(X, Z, y, y) == ["ath-kernel", "ath-supervised"]
    assert possible_methods(X, Z, few, few)[0] == "ath-propagated"
    assert possible_methods(X, Z, none, none) == ["ath-structural"]
    assert possible_methods(X, X, none, none)[0] == "ath-unsupervised"
    assert possible_methods(X, X, y, none)[0] == "ath-propagated"
    assert possible_methods(X, Z, has_pairs=True)[0] == "ath-paired"


def test_wrong_arguments_are_errors(data):
    X, Z, _ = data
    with pytest.raises(InputError, match="n_bits"):
        tune(X, Z, n_bits=[])
    with pytest.raises(InputError, match="did you mean 'itq'"):
        tune(X, Z, methods=["itqq"])


def test_scikit_learn_searches_parameters_with_a_source(data):
    X, Z, y = data
    model = WithSource(ATH.supervised(random_state=0), X, y)
    search = GridSearchCV(model, {"hasher__n_bits": [2, 16]}, cv=3).fit(Z, y)
    assert search.best_params_ == {"hasher__n_bits": 16}
    fitted = search.best_estimator_.hasher_
    histogram = distance_histogram(
        fitted.encode(Z, "target"), fitted.encode(X, "source"), y, y, n_bits=16
    )
    assert search.score(Z, y) == pytest.approx(precision_at(histogram, 10))


def test_a_score_needs_known_classes(data):
    X, Z, y = data
    model = WithSource(ATH.supervised(8, random_state=0), X, y).fit(Z, y)
    with pytest.raises(InputError, match="no query"):
        model.score(Z, np.full(90, -1))
