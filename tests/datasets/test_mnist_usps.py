"""Digits of two collections: resizing, and the public files."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest

from bridgehash import InputError, MissingDataError
from bridgehash.datasets import DataView, mnist_usps
from bridgehash.datasets.mnist_usps import MNIST, MNIST_USPS, USPS, read_idx, shrunk


@pytest.fixture(autouse=True)
def empty(nowhere: Path) -> None:
    """Only the folder given by a test is searched."""


@pytest.fixture
def images() -> np.ndarray:
    """Smooth and rough parts, black and white."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    noise[:2, :, :14] = 255
    noise[2] = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28)
    return noise


def test_shrinking_is_bilinear_as_pillow_does_it(images: np.ndarray) -> None:
    Image = pytest.importorskip("PIL.Image")
    for image, row in zip(images, shrunk(images), strict=True):
        small = Image.fromarray(image).resize((16, 16), Image.Resampling.BILINEAR)
        np.testing.assert_allclose(255 * row, np.asarray(small).ravel(), atol=1.01)  # it rounds


def test_shrinking_keeps_constants_and_does_not_depend_on_tiles(images: np.ndarray) -> None:
    np.testing.assert_allclose(shrunk(np.full((1, 28, 28), 51, np.uint8)), 0.2, rtol=1e-12)
    many = shrunk(np.tile(images, (900, 1, 1)))  # more than one tile of 4,096
    np.testing.assert_array_equal(many, np.tile(shrunk(images), (900, 1)))


def idx(array: np.ndarray) -> bytes:
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def test_idx_files_are_read_whole_or_not_at_all(tmp_path: Path, images: np.ndarray) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(idx(images))
    assert np.array_equal(read_idx(path), images)
    for content in (gzip.decompress(idx(images))[:-1], b"", b"\0\0\x08", b"\0\0\x0d\x01abcd"):
        path.write_bytes(gzip.compress(content))
        with pytest.raises(InputError, match=r"a\.gz: is not an IDX file of bytes, or is cut off"):
            read_idx(path)
    header = b"\0\0\x08\x01" + (5).to_bytes(4, "big")
    path.write_bytes(gzip.compress(header + bytes(50_000_000)))  # a few kB that unpack to 50 MB
    with pytest.raises(InputError, match="cut off or too long"):
        read_idx(path)
    path.write_bytes(gzip.compress(b"\0\0\x08\x02" + b"\xff" * 8))
    with pytest.raises(InputError, match="declares 18446744065119617025 bytes"):
        read_idx(path)


def test_text_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnist_usps, "_MAX_UNPACKED", 100_000)
    path = tmp_path / "usps.bz2"
    path.write_bytes(bz2.compress(b"1 1:0\n" * 20_000))
    with pytest.raises(InputError, match=r"usps\.bz2: has more than 100000 bytes unpacked"):
        USPS.read([path, path], DataView("usps", "pixels"))


@pytest.mark.filterwarnings("ignore:.*sha256 is:UserWarning")
def test_mnist_is_read_from_its_public_files(tmp_path: Path, images: np.ndarray) -> None:
    digits = np.arange(5, dtype=np.uint8)
    contents = [images[:3], digits[:3], images[3:], digits[3:]]
    for file, content in zip(MNIST.files, contents, strict=True):
        (tmp_path / file.name).write_bytes(idx(content))
    view = DataView("mnist", "pixels")
    X, y = MNIST_USPS.load(view, tmp_path)
    np.testing.assert_array_equal(X, shrunk(images))
    assert y.tolist() == [0, 1, 2, 3, 4]
    assert set(MNIST_USPS.checksums(view, tmp_path)) == {file.name for file in MNIST.files}


@pytest.mark.filterwarnings("ignore:.*sha256 is:UserWarning")
def test_usps_is_read_from_its_public_files(tmp_path: Path) -> None:
    values = np.tile([-1.0, -0.631, 0.862, 1.0], (3, 64)).round(3)
    lines = [
        f"{label} " + " ".join(f"{i}:{v:g}" for i, v in enumerate(row, start=1)) + "\n"
        for label, row in zip((7, 10, 1), values, strict=True)
    ]
    for file, part in zip(USPS.files, (lines[:2], lines[2:]), strict=True):
        (tmp_path / file.name).write_bytes(bz2.compress("".join(part).encode()))
    X, y = MNIST_USPS.load(DataView("usps", "pixels"), tmp_path)
    assert X.shape == (3, 256)
    np.testing.assert_allclose(X[0, :4], [0.0, 0.1845, 0.931, 1.0], atol=1e-7)
    assert y.tolist() == [6, 9, 0]


def test_the_public_files_hold_what_the_pack_holds(pack_folder: Path, tmp_path: Path) -> None:
    """The pack has the training digits in the order of the public file, in the same precision."""
    if not (pack_folder / "mnist_usps.npz").is_file():
        pytest.skip("data pack not found: set BRIDGEHASH_DATA")
    X, y = MNIST_USPS.load(DataView("usps", "pixels"), pack_folder)
    assert y[:5].tolist() == [6, 5, 4, 7, 3]
    first = np.array([-0.631, 0.862, -0.167], dtype=np.float32)  # as every copy of USPS begins
    np.testing.assert_array_equal(X[0, 7:10], (first + 1) / 2)


def test_a_subset_has_no_public_file() -> None:
    with pytest.raises(MissingDataError, match=r"mnist_usps.npz .*MNIST_vs_USPS.mat"):
        MNIST_USPS.load(DataView("mnist2000", "pixels"))


def test_a_failed_download_names_the_file_that_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(MissingDataError, match=r"train-images.*bridgehash\[data\].*mnist_usps.npz"):
        MNIST_USPS.load(DataView("mnist", "pixels"))
