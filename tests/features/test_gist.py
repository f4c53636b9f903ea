"""GIST against its definition, its invariances, and the descriptors of the data pack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridgehash import InputError
from bridgehash.features import BACKBONES, gist, read_image
from bridgehash.features.backbones import ExtractSettings

FINEST, RATIO = 0.3, 1.85


def gist_by_definition(image: NDArray[Any]) -> NDArray[np.float64]:
    """One image, one filter, one cell at a time, with frequencies counted from the middle."""
    image = image - image.min()
    image = np.log(255 * image / image.max() + 1)
    side = len(image)

    x = np.pad(image, 5, mode="symmetric")
    smooth = np.exp(-np.log(2) * radius(len(x)) ** 2 / 4**2)
    x = x - filtered(x, smooth).real
    x = x / (0.2 + np.sqrt(np.abs(filtered(x**2, smooth))))
    x = np.pad(x[5:-5, 5:-5], 32, mode="symmetric")

    n = len(x)
    rows, columns = np.indices((n, n)) - n // 2
    numbers = []
    for scale in range(4):
        for orientation in range(8):
            angle = np.arctan2(rows, columns) + np.pi / 8 * orientation
            angle = (angle + np.pi) % (2 * np.pi) - np.pi
            frequency = radius(n) / n / (FINEST / RATIO**scale)
            transfer = np.exp(-3.5 * (frequency - 1) ** 2 - 2 * np.pi * angle**2)
            response = np.abs(filtered(x, transfer))[32:-32, 32:-32]
            for i in range(4):
                for j in range(4):
                    cell = np.s_[i * side // 4 : (i + 1) * side // 4]
                    across = np.s_[j * side // 4 : (j + 1) * side // 4]
                    numbers.append(response[cell, across].mean())
    return np.array(numbers)


def radius(n: int) -> NDArray[np.float64]:
    rows, columns = np.indices((n, n)) - n // 2
    return np.hypot(rows, columns)


def filtered(x: NDArray[Any], transfer: NDArray[Any]) -> NDArray[Any]:
    return np.fft.ifft2(np.fft.ifftshift(np.fft.fftshift(np.fft.fft2(x)) * transfer))


@pytest.fixture
def greys() -> NDArray[np.float64]:
    """Seven noisy slopes of 32 pixels: more than one chunk, and not a multiple of it."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(7, 1, 1)) * np.arange(32)[:, None] + np.arange(32)
    return slopes + 10 * rng.normal(size=(7, 32, 32))


def test_gist_is_its_definition() -> None:
    for side in (32, 48):
        image = np.random.default_rng(side).integers(0, 256, (side, side))
        expected = gist_by_definition(image.astype(np.float64))
        computed = gist(image[None])
        assert computed.dtype == np.float32
        assert computed.shape == (1, 512)
        np.testing.assert_allclose(computed[0], expected, atol=2e-6)


def test_many_images_are_one_and_one(greys: NDArray[np.float64]) -> None:
    singly = np.concatenate([gist(grey[None]) for grey in greys])
    np.testing.assert_allclose(gist(greys), singly, atol=1e-6)
    assert gist(greys[:0]).shape == (0, 512)


def test_brightness_and_contrast_do_not_matter(greys: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(gist(0.01 * greys + 5), gist(greys), atol=1e-4)


def test_a_flat_image_has_no_orientation() -> None:
    assert np.abs(gist(np.full((1, 32, 32), 7))).max() == 0


def test_inputs_are_left_alone(greys: NDArray[np.float64]) -> None:
    before = greys.copy()
    greys.flags.writeable = False
    gist(greys)
    np.testing.assert_array_equal(greys, before)


def test_a_grating_is_strongest_in_its_own_filter() -> None:
    rows, columns = np.indices((128, 128))
    places = [(scale, orientation) for scale in range(4) for orientation in range(8)]
    gratings = []
    for scale, orientation in places:
        angle = -np.pi / 8 * orientation
        phase = columns * np.cos(angle) + rows * np.sin(angle)
        gratings.append(100 + np.cos(2 * np.pi * FINEST / RATIO**scale * phase))
    energy = gist(np.array(gratings)).reshape(32, 32, 16).sum(axis=2)
    assert [divmod(int(i), 8) for i in energy.argmax(axis=1)] == places


def test_a_turned_image_has_turned_features(greys: NDArray[np.float64]) -> None:
    upright = gist(greys).reshape(7, 4, 8, 4, 4)
    turned = gist(np.rot90(greys, axes=(1, 2))).reshape(7, 4, 8, 4, 4)
    expected = np.rot90(np.roll(upright, 4, axis=2), axes=(3, 4))
    np.testing.assert_allclose(turned, expected, atol=0.02 * upright.max())


def test_other_shapes_are_refused() -> None:
    for shape in ((32, 32), (1, 32, 36), (1, 30, 30), (1, 32, 32, 3)):
        with pytest.raises(InputError, match="shape"):
            gist(np.zeros(shape))


@pytest.mark.parametrize(("domain", "least"), [("photo", 0.995), ("sketch", 0.98)])
def test_the_data_pack_agrees(pack_images: Callable[..., Any], domain: str, least: float) -> None:
    """The pack saw larger originals; centred on its mean, what is left is almost the same."""
    paths, row, pack = pack_images(domain, "gist512", 21)
    backbone = BACKBONES["gist"]
    x = backbone.load(ExtractSettings())(np.stack([backbone.prepare(read_image(p)) for p in paths]))
    centred, reference = x - pack.mean(0), pack - pack.mean(0)
    correlation = np.corrcoef(centred.ravel(), reference[row].ravel())[0, 1]
    assert correlation > least
    distances = np.linalg.norm(centred[:, None] - reference, axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), row)
