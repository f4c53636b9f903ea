"""HOG: lengths of blocks, directions of edges, and what the scale of grey does to it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.features import hog

HAS_SKIMAGE = "scikit-image is not installed: pip install 'bridgehash[images]'"


def blocks(image: Any) -> Any:
    """One row a block, for a square image."""
    return hog(image[None]).reshape(-1, 36)


def test_blocks_have_unit_length() -> None:
    pytest.importorskip("skimage", reason=HAS_SKIMAGE)
    x = hog(np.random.default_rng(0).integers(0, 256, (3, 128, 128)))
    assert x.shape == (3, 1764)
    assert x.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(x.reshape(-1, 36), axis=1), 1, atol=1e-4)


def test_a_flat_image_has_no_direction() -> None:
    pytest.importorskip("skimage", reason=HAS_SKIMAGE)
    assert not hog(np.full((2, 64, 64), 9)).any()


@pytest.mark.parametrize(("axis", "direction"), [(0, 4), (1, 0)])
def test_a_slope_points_one_way(axis: int, direction: int) -> None:
    pytest.importorskip("skimage", reason=HAS_SKIMAGE)
    histograms = blocks(np.indices((64, 64))[axis] * 3.0).reshape(-1, 4, 9)
    assert (histograms.argmax(axis=2) == direction).all()
    np.testing.assert_allclose(np.delete(histograms, direction, axis=2), 0, atol=1e-6)


def test_many_images_are_one_and_one_on_any_scale() -> None:
    pytest.importorskip("skimage", reason=HAS_SKIMAGE)
    images = np.random.default_rng(1).integers(0, 256, (3, 64, 64))
    singly = np.concatenate([hog(image[None]) for image in images])
    np.testing.assert_array_equal(hog(images), singly)
    np.testing.assert_allclose(hog(images / 255), singly, atol=1e-3)
    assert hog(images[:0]).shape == (0, 324)


def test_other_shapes_are_refused() -> None:
    pytest.importorskip("skimage", reason=HAS_SKIMAGE)
    for shape in ((64, 64), (1, 31, 64), (1, 64, 64, 3)):
        with pytest.raises(InputError, match="shape"):
            hog(np.zeros(shape))


def test_without_scikit_image_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    with pytest.raises(ImportError, match=r"pip install 'bridgehash\[images\]'"):
        hog(np.zeros((1, 64, 64)))
