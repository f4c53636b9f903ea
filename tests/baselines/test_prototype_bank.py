"""The prototype bank: prototypes far apart, weights by margin, regression by its formula."""

import numpy as np
from sklearn.linear_model import Ridge

from bridgehash import PrototypeBank
from bridgehash.baselines.prototype_bank import bank_step, predict_classes, regression_step
from tests.cases import two_domains


def test_the_bank_is_the_sign_of_means_that_weigh_the_same():
    H_s, y_s = np.array([[1.0], [1.0], [-4.0]]), np.array([0, 0, 1])
    H_t, y_t = np.array([[-3.0], [3.0], [3.0], [3.0]]), np.array([0, 1, 1, 1])
    np.testing.assert_array_equal(bank_step(H_s, y_s, H_t, y_t), [[-1], [-1]])


def test_the_regression_is_a_weighted_ridge():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.integers(0, 2, 12)
    bank, weight = np.array([[1, -1], [1, 1]], dtype=np.int8), rng.random(5)
    weights = np.append(np.ones(7), weight)
    expected = Ridge(alpha=0.5, fit_intercept=False).fit(X, bank[y], sample_weight=weights).coef_.T
    np.testing.assert_allclose(regression_step(X, y, bank, weight, 0.5), expected, atol=1e-10)


def test_a_row_between_two_classes_weighs_nothing():
    H_s, y_s = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    H_t = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [1.0, 0.1], [0.1, 1.0]])
    y_t, weight = predict_classes(H_s, y_s, H_t)
    np.testing.assert_array_equal(y_t[[0, 1, 3, 4]], [0, 1, 0, 1])
    assert weight[2] < 0.3 < weight[0]


def test_domains_of_equal_classes_meet():
    data = two_domains(n_s=90, n_t=80, d_t=7)
    model = PrototypeBank(16, random_state=0).fit(
        data.X_source, data.X_target, y_source=data.y_source
    )
    guessed = model.transform(data.X_query, "target").astype(int) @ model.bank_.T.astype(int)
    codes = model.transform(data.X_source, "source").astype(int) @ model.bank_.T.astype(int)
    assert (codes.argmax(axis=1) == data.y_source).mean() > 0.9
    assert guessed.shape == (9, 3)
