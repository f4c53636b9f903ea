"""Small folders of images, and the images that the data pack brings along."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]

IDS = ["ant/0.png", "ant/1.jpg", "ant/deep/2.png", "bee/0.png", "bee/1.png", "cat/0.bmp", "top.png"]


class PackImages(NamedTuple):
    """Some images of the data pack, and what the pack says of them."""

    paths: list[Path]
    pack_row: NDArray[np.int64]
    features: NDArray[np.float32]  # of the whole domain


def save_image(path: Path, seed: int, size: tuple[int, int] = (50, 40)) -> None:
    """Random blots, large enough to survive JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder of seven images, most of them in three classes, and other files beside."""
    folder = tmp_path / "images"
    for seed, name in enumerate(IDS):
        save_image(folder / name, seed)
    (folder / "notes.txt").write_text("not an image")
    (folder / "bee" / "index.csv").write_text("file\n")
    return folder


@pytest.fixture
def pack_images(data_pack: Callable[[str], NpzFile]) -> Callable[[str, str, int], PackImages]:
    """`pack_images(domain, key, n)`: n images of a domain, spread over its classes."""
    data = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")

    def load(domain: str, key: str, n: int) -> PackImages:
        arrays = data_pack("pacs")
        index = data / "images" / "index.csv"
        if not index.is_file():
            pytest.skip("data pack not found: set BRIDGEHASH_DATA")
        with open(index, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["domain"] == domain]
        rows = rows[:: len(rows) // n][:n]
        return PackImages(
            [data / "images" / row["file"] for row in rows],
            np.array([int(row["row"]) for row in rows]),
            arrays[f"{domain}_{key}"].astype(np.float32),
        )

    return load
