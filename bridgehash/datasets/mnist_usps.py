"""Handwritten digits of two collections, MNIST and USPS, as grey images of 16 x 16 pixels.

`mnist2000` and `usps1800` are the subsets used by papers on domain-adaptive retrieval. `mnist` and
`usps` are the whole collections, training and test images together, with MNIST resized to 16 x 16.
The whole collections can also be read from the public files, which are downloaded if needed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, named
from .._core.linalg import Array
from .dataset import DataSet, DataSource, DataView, Rows, views
from .files import DataFile

_SIDE = 16  # pixels
_TILE = 4096  # images resized at a time
_MAX_UNPACKED = 200_000_000  # bytes; the largest public file has 47 MB
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_USPS_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_INSTEAD = "You can use mnist_usps.npz instead, which holds the arrays of all views."


def shrunk(images: NDArray[np.uint8], side: int = _SIDE) -> Array:
    """Return smaller square images as rows of side * side values from 0 to 1.

    Every new pixel is a mean of the old pixels around it, with triangular weights that reach as
    far as one new pixel: bilinear resizing with antialiasing, as in image libraries.

    >>> shrunk(np.array([[[0, 255], [255, 0]]], dtype=np.uint8), side=1)
    array([[0.5]])
    """
    n, old, _ = images.shape
    step = old / side
    centres = (np.arange(side) + 0.5) * step
    distance = np.abs(np.arange(old) + 0.5 - centres[:, None]) / step
    R = np.clip(1.0 - distance, 0.0, None)
    R /= R.sum(axis=1, keepdims=True)
    X = np.empty((n, side * side))
    for start in range(0, n, _TILE):
        tile = images[start : start + _TILE] / 255.0
        X[start : start + _TILE] = (R @ tile @ R.T).reshape(len(tile), -1)
    return X


def _read(arrays: Mapping[str, NDArray[Any]], view: DataView) -> Rows:
    """Read a view from mnist_usps.npz."""
    if view.domain in ("mnist2000", "usps1800"):
        return arrays[f"{view.domain}_x"].astype(np.float64), arrays[f"{view.domain}_y"]
    stored = "images" if view.domain == "mnist" else "x"
    x, y = (
        np.concatenate([arrays[f"{view.domain}_{part}_{what}"] for part in ("train", "test")])
        for what in (stored, "y")
    )
    return (shrunk(x) if view.domain == "mnist" else x.astype(np.float64)), y


def _read_idx_files(paths: Sequence[Path], _: DataView) -> Rows:
    """Read MNIST from LeCun's files: images and labels for training, then for testing."""
    parts = [read_idx(path) for path in paths]
    return shrunk(np.concatenate(parts[::2])), np.concatenate(parts[1::2]).astype(np.int64)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a gzipped IDX file: two zeros, the type (8: bytes), dimensions, sizes, data."""
    with named(path, "copy it again"), gzip.open(path) as file:
        start = file.read(4)
        n_dimensions = start[3] if start[:3] == b"\0\0\x08" and len(start) > 3 else 0
        shape = np.frombuffer(file.read(4 * n_dimensions), dtype=">u4").tolist()
        size = math.prod(shape)
        if size > _MAX_UNPACKED:
            raise InputError(f"declares {size} bytes, more than {_MAX_UNPACKED}; copy it again")
        content = file.read(size + 1)
        if len(shape) != n_dimensions or not shape or len(content) != size:
            raise InputError(
                "is not an IDX file of bytes, or is cut off or too long; copy it again"
            )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _unpacked(path: Path) -> IO[bytes]:
    """Return the content of a .bz2 file; refuse one that is much larger than the public files."""
    with named(path, "copy it again"), bz2.open(path) as file:
        content = file.read(_MAX_UNPACKED + 1)
        if len(content) > _MAX_UNPACKED:
            raise InputError(f"has more than {_MAX_UNPACKED} bytes unpacked; copy it again")
    return io.BytesIO(content)


def _read_svmlight_files(paths: Sequence[Path], _: DataView) -> Rows:
    """Read USPS from LIBSVM's files: values from -1 to 1, digit 0 stored as class 1."""
    from sklearn.datasets import load_svmlight_file  # slow to import

    parts = [
        load_svmlight_file(_unpacked(path), n_features=_SIDE**2, dtype=np.float32) for path in paths
    ]
    x = np.concatenate([rows.toarray() for rows, _ in parts])
    y = np.concatenate([labels for _, labels in parts]).astype(np.int64) - 1
    return ((x + 1) / 2).astype(np.float64), y  # float32 until here, as in mnist_usps.npz


def _public(url: str, name: str, sha256: str, size: int | None = None) -> DataFile:
    return DataFile(name, sha256, url + name, size, _INSTEAD)


_mnist, _usps = partial(_public, _MNIST_URL), partial(_public, _USPS_URL)


MNIST = DataSource(
    (
        _mnist(
            "train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            9_912_422,
        ),
        _mnist(
            "train-labels-idx1-ubyte.gz",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            28_881,
        ),
        _mnist(
            "t10k-images-idx3-ubyte.gz",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            1_648_877,
        ),
        _mnist(
            "t10k-labels-idx1-ubyte.gz",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            4_542,
        ),
    ),
    _read_idx_files,
)
USPS = DataSource(
    (
        _usps("usps.bz2", "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f"),
        _usps("usps.t.bz2", "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e"),
    ),
    _read_svmlight_files,
)
MNIST_USPS = DataSet(
    name="mnist-usps",
    title="MNIST and USPS, handwritten digits",
    citation=(
        "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document "
        "recognition, Proc. IEEE 1998; Hull, A database for handwritten text recognition "
        "research, TPAMI 1994; the subsets as in Huang, Zhang, Yang and Zhou, Probability weighted "
        "compact feature for domain adaptive retrieval, CVPR 2020"
    ),
    licence="MNIST: CC BY-SA 3.0. USPS and the subsets: no licence stated",
    views=views(("mnist2000", "usps1800", "mnist", "usps"), ("pixels",)),
    file=DataFile(
        "mnist_usps.npz",
        "b77a08f3baa2fe00a16d4fe962af5654ffe470e7912fda01bb681604a815af0e",
        size=16_756_845,
        hint=(
            "The subsets are X_src and X_tar of MNIST_vs_USPS.mat in the public code of PWCF, "
            "saved as mnist2000_x, mnist2000_y, usps1800_x and usps1800_y, one row per image, "
            "with digits as labels. The views mnist.pixels and usps.pixels do not need this file: "
            "their public files are downloaded."
        ),
    ),
    read=_read,
    public={DataView("mnist", "pixels"): MNIST, DataView("usps", "pixels"): USPS},
)
