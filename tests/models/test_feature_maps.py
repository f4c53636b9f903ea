"""Feature maps: their formulas, and what they do not see."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from bridgehash import AnchorKernel, PrincipalMap, UnitRows
from bridgehash._core.linalg import pca
from tests.cases import two_domains


@pytest.fixture(scope="module")
def X():
    return two_domains().X_source


# --- unit rows


def test_unit_rows_keep_their_direction(X):
    Z = UnitRows().fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0)
    np.testing.assert_allclose(Z * np.linalg.norm(X, axis=1, keepdims=True), X)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_rows_whose_squares_overflow_have_a_norm_too(X, scale):
    np.testing.assert_allclose(UnitRows().fit_transform(scale * X), UnitRows().fit_transform(X))


def test_zero_rows_stay_zero(X):
    np.testing.assert_array_equal(UnitRows().fit(X).transform(np.zeros((2, 7))), 0.0)


# --- principal components


def test_principal_map_is_pca_of_the_rows_it_was_fitted_on(X):
    reduction = PrincipalMap(n_components=3).fit(X)
    P = pca(X - X.mean(axis=0), 3)
    np.testing.assert_allclose(reduction.transform(X), (X - X.mean(axis=0)) @ P)
    np.testing.assert_allclose(reduction.transform(X[:1] + 1), (X[:1] + 1 - X.mean(axis=0)) @ P)


def test_principal_map_is_padded_above_the_rank(X):
    Z = PrincipalMap(n_components=12).fit_transform(X)
    assert Z.shape == (31, 12)
    np.testing.assert_array_equal(Z[:, 7:], 0.0)
    D = X - X.mean(axis=0)
    np.testing.assert_allclose(Z @ Z.T, D @ D.T, atol=1e-9)


# --- anchors


def test_anchor_kernel_is_eq_15_with_a_minus(X):
    kernel = AnchorKernel(n_anchors=6, bandwidth=4.0, random_state=0).fit(X)
    K = kernel.transform(X[:5])
    for i in range(5):
        for j in range(6):
            square = ((X[i] - kernel.anchors_[j]) ** 2).sum()
            np.testing.assert_allclose(K[i, j], np.exp(-square / 4.0))


def test_anchors_are_rows_without_repetition(X):
    anchors = AnchorKernel(n_anchors=10, random_state=0).fit(X).anchors_
    assert len(np.unique(anchors, axis=0)) == 10
    assert {tuple(anchor) for anchor in anchors} <= {tuple(row) for row in X}


def test_few_rows_are_all_anchors(X):
    kernel = AnchorKernel(n_anchors=1000, random_state=0).fit(X)
    assert kernel.anchors_.shape == X.shape
    assert kernel.transform(X).shape == (31, 31)


def test_the_seed_draws_the_anchors(X):
    def drawn(seed):
        return AnchorKernel(n_anchors=5, random_state=seed).fit(X).anchors_

    np.testing.assert_array_equal(drawn(0), drawn(0))
    assert not np.array_equal(drawn(0), drawn(1))


def test_the_order_of_samples_changes_neither_anchors_nor_width(X):
    order = np.random.default_rng(0).permutation(len(X))
    kernel, shuffled = (AnchorKernel(6, random_state=0).fit(rows) for rows in (X, X[order]))
    np.testing.assert_array_equal(shuffled.anchors_, kernel.anchors_)
    np.testing.assert_allclose(shuffled.bandwidth_, kernel.bandwidth_)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_median_width_sees_neither_scale_nor_rotation(X, scale):
    Q = scale * ortho_group.rvs(7, random_state=0)
    K, other = (AnchorKernel(6, random_state=0).fit_transform(rows) for rows in (X, X @ Q))
    np.testing.assert_allclose(other, K, rtol=1e-9)


def test_median_width_is_the_median_squared_distance(X):
    kernel = AnchorKernel(n_anchors=6, random_state=0).fit(X)
    squares = ((X[:, None] - kernel.anchors_) ** 2).sum(axis=2)
    np.testing.assert_allclose(kernel.bandwidth_, np.median(squares))


def test_an_exponential_kernel_takes_the_distance_itself(X):
    kernel = AnchorKernel(6, 4.0, random_state=0, kernel="exponential").fit(X)
    lengths = np.sqrt(((X[:, None] - kernel.anchors_) ** 2).sum(axis=2))
    np.testing.assert_allclose(kernel.transform(X), np.exp(-lengths / 4.0), rtol=1e-6)


@pytest.mark.parametrize(("kernel", "power"), [("gaussian", 2), ("exponential", 1)])
@pytest.mark.parametrize(("bandwidth", "of"), [("median", 1.0), ("twice-mean", 2.0)])
def test_widths_follow_the_distances_that_the_kernel_takes(kernel, power, bandwidth, of):
    X = np.random.default_rng(0).normal(size=(1500, 3))  # more than a tile
    feature_map = AnchorKernel(5, bandwidth, random_state=0, kernel=kernel).fit(X)
    lengths = np.sqrt(((X[:, None] - feature_map.anchors_) ** 2).sum(axis=2))
    middle = np.median if bandwidth == "median" else np.mean
    np.testing.assert_allclose(feature_map.bandwidth_, of * middle(lengths**power), rtol=1e-6)


@pytest.mark.parametrize("bandwidth", ["median", "twice-mean"])
def test_rows_without_distances_have_a_width_all_the_same(bandwidth):
    assert AnchorKernel(2, bandwidth, random_state=0).fit(np.ones((4, 3))).bandwidth_ == 1.0


def test_equal_rows_have_similarity_one():
    K = AnchorKernel(n_anchors=2, random_state=0).fit_transform(np.ones((4, 3)))
    np.testing.assert_array_equal(K, 1.0)


@pytest.mark.parametrize(
    ("feature_map", "name"),
    [
        (AnchorKernel(n_anchors=0), "n_anchors"),
        (AnchorKernel(n_anchors=2.5), "n_anchors"),
        (AnchorKernel(bandwidth=0.0), "bandwidth"),
        (AnchorKernel(bandwidth=-1.0), "bandwidth"),
        (AnchorKernel(bandwidth="mean"), "bandwidth"),
        (AnchorKernel(kernel="linear"), "kernel"),
        (PrincipalMap(n_components=0), "n_components"),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_refused_by_name(X, feature_map, name):
    with pytest.raises(ValueError, match=name):
        feature_map.fit(X)


def test_roots_are_compared_if_no_feature_is_negative():
    X = np.random.default_rng(0).random((30, 5))
    kernel = AnchorKernel(n_anchors=6, bandwidth=0.5, random_state=0, root="auto").fit(X)
    roots = np.sqrt(X) / np.linalg.norm(np.sqrt(X), axis=1, keepdims=True)
    plain = AnchorKernel(n_anchors=6, bandwidth=0.5, random_state=0).fit(roots)
    assert kernel.root_
    np.testing.assert_allclose(kernel.transform(X), plain.transform(roots))


def test_features_with_negative_values_are_compared_as_they_are():
    X = np.random.default_rng(0).normal(size=(30, 5))
    auto = AnchorKernel(n_anchors=6, random_state=0, root="auto").fit(X)
    assert not auto.root_
    np.testing.assert_array_equal(
        auto.transform(X), AnchorKernel(n_anchors=6, random_state=0).fit_transform(X)
    )


def test_new_rows_with_negative_values_keep_their_signs():
    kernel = AnchorKernel(n_anchors=4, bandwidth=1.0, random_state=0, root=True)
    kernel.fit(np.random.default_rng(0).random((9, 3)))
    there, back = kernel.transform([[0.2, 0.3, 0.1]]), kernel.transform([[0.2, -0.3, 0.1]])
    assert (back < there).all()
