"""The digits as two domains: what is in them, and what was done to them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bridgehash import InputError
from bridgehash.datasets import DigitDomains, digit_domains
from bridgehash.datasets.digits import N_IMAGES, gradient_histograms, moved_and_blurred


@pytest.fixture(scope="module")
def domains() -> DigitDomains:
    return digit_domains()


def test_tasks_have_the_stated_shapes(domains: DigitDomains) -> None:
    for task, width in ((domains.homogeneous(), 64), (domains.heterogeneous(), 96)):
        assert task.X_source.shape == (898, 64)
        assert task.X_target.shape == (699, width)
        assert task.X_query.shape == (200, width)
        assert task.y_source.shape == (898,)
        assert task.y_target.shape == (699,)
        assert task.y_query.shape == (200,)


def test_no_image_is_in_two_parts(domains: DigitDomains) -> None:
    parts = (domains.source, domains.target, domains.query)
    rows = np.concatenate([part.rows for part in parts])
    assert np.array_equal(np.sort(rows), np.arange(N_IMAGES))


def test_source_is_as_scanned_and_target_is_not(domains: DigitDomains) -> None:
    digits = load_digits()
    scanned = digits.images / 16.0
    assert np.array_equal(domains.source.images, scanned[domains.source.rows])
    for part in (domains.target, domains.query):
        assert np.array_equal(part.images, moved_and_blurred(scanned[part.rows]))
        assert np.array_equal(part.y, digits.target[part.rows])


def test_every_part_has_all_ten_classes(domains: DigitDomains) -> None:
    for part in (domains.source, domains.target, domains.query):
        assert np.array_equal(np.unique(part.y), np.arange(10))


def test_the_seed_decides_which_image_is_where() -> None:
    once, again, other = (digit_domains(40, n_queries=5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(once.source.rows, again.source.rows)
    assert not np.array_equal(once.source.rows, other.source.rows)
    assert [len(part.y) for part in (once.source, once.target, once.query)] == [20, 15, 5]


def test_impossible_sizes_are_refused() -> None:
    for n_images, n_queries in ((7, 1), (N_IMAGES + 1, 1), (40, 0), (40, 19)):
        name = "n_queries" if n_images == 40 else "n_images"
        with pytest.raises(InputError, match=name):
            digit_domains(n_images, n_queries=n_queries)


def test_gradient_histograms_match_a_slow_twin(domains: DigitDomains) -> None:
    images = domains.target.images[:3]
    X = gradient_histograms(images, n_cells=4, n_bins=6)
    for image, row in zip(images, X, strict=True):
        np.testing.assert_allclose(row, _slow_histograms(image), atol=1e-12)


def test_gradient_histograms_ignore_contrast_reversal_inside_the_image() -> None:
    image = np.zeros((1, 8, 8))
    image[0, 2:6, 2:6] = np.random.default_rng(0).random((4, 4))
    np.testing.assert_allclose(gradient_histograms(image), gradient_histograms(-image), atol=1e-12)


def test_gradient_histograms_refuse_cells_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="n_cells=3 does not divide"):
        gradient_histograms(np.zeros((1, 8, 8)), n_cells=3)


def _slow_histograms(image: np.ndarray) -> list[float]:
    """Cells of 2 x 2 pixels, six directions 30 degrees apart, pixel by pixel."""

    def ink(i: int, j: int) -> float:
        return float(image[i, j]) if 0 <= i < 8 and 0 <= j < 8 else 0.0

    H = np.zeros((4, 4, 6))
    for i in range(8):
        for j in range(8):
            across, down = ink(i, j + 1) - ink(i, j - 1), ink(i + 1, j) - ink(i - 1, j)
            bins = np.degrees(np.arctan2(down, across)) % 180.0 / 30.0
            lower = int(bins)
            length = np.hypot(across, down)
            H[i // 2, j // 2, lower % 6] += length * (1 - (bins - lower))
            H[i // 2, j // 2, (lower + 1) % 6] += length * (bins - lower)
    return list(H.ravel())
