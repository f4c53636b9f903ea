"""The list of backbones, and how an image gets its size; nothing here needs torch."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridgehash.features import BACKBONES, find_backbone
from bridgehash.features.backbones import Settings, central, squeezed

NETWORKS = [name for name in BACKBONES if name not in ("gist", "hog")]
RNG = np.random.default_rng(0)
SQUARE = Image.fromarray(RNG.integers(0, 256, (160, 160, 3), dtype=np.uint8))


def test_names_are_keys() -> None:
    assert list(BACKBONES) == [backbone.name for backbone in BACKBONES.values()]
    assert {name: backbone.dimension for name, backbone in BACKBONES.items()} == {
        "efficientnet-lite0": 1280,
        "efficientnet-lite1": 1280,
        "efficientnet-lite2": 1280,
        "vgg16": 4096,
        "resnet50": 2048,
        "gist": 512,
        "hog": 1764,
    }


@pytest.mark.parametrize("name", list(BACKBONES))
def test_an_image_of_any_shape_is_prepared(name: str) -> None:
    backbone = find_backbone(name)
    assert backbone.needs
    for size in ((300, 200), (1, 1), (7, 500), (20_000, 1)):
        prepared = backbone.prepare(Image.new("RGB", size, (1, 2, 3)))
        assert prepared.shape == (backbone.input_size, backbone.input_size, 3)
        assert prepared.dtype == np.uint8
        assert (prepared == [1, 2, 3]).all()


@pytest.mark.parametrize("name", ["gist", "hog"])
def test_descriptors_have_the_length_they_promise(name: str) -> None:
    if name == "hog":
        pytest.importorskip("skimage", reason="scikit-image is not installed")
    backbone = BACKBONES[name]
    rows = backbone.load(Settings())(np.stack([backbone.prepare(SQUARE)] * 2))
    assert rows.shape == (2, backbone.dimension)
    assert rows.dtype == np.float32
    for settings in (Settings(device="cuda"), Settings(download=True)):
        with pytest.raises(ValueError, match=f"{name} has no weights and runs on the CPU"):
            backbone.load(settings)


@pytest.mark.parametrize(("side", "short"), [(224, 256), (240, 274), (260, 297)])
def test_the_middle_is_that_of_the_resized_image(side: int, short: int) -> None:
    edge = (short - side) // 2
    for size in range(60, 400, 17):
        image = SQUARE.resize((size, size), Image.Resampling.NEAREST)
        resized = image.resize((short, short), Image.Resampling.BICUBIC)
        expected = np.asarray(resized.crop((edge, edge, edge + side, edge + side))).astype(int)
        apart = np.abs(central(image, side, "BICUBIC") - expected)
        assert apart.max() <= 2  # grey levels: rounded once for rows, once for columns
        assert (apart > 0).mean() < 0.02


def test_a_long_image_loses_its_ends_only() -> None:
    stripes = np.zeros((256, 768, 3), dtype=np.uint8)
    stripes[:, 256 + 16 : 512 - 16] = 200
    middle = central(Image.fromarray(stripes), 224, "BILINEAR")
    assert (middle == 200).all()
    assert not (squeezed(Image.fromarray(stripes), 128) == 200).all()


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="no backbone 'resnet-50'; did you mean 'resnet50'\\? Kno"):
        find_backbone("resnet-50")
    with pytest.raises(ValueError, match="no backbone 'zzz'; Known: efficientnet-lite0, "):
        find_backbone("zzz")


@pytest.mark.parametrize("name", NETWORKS)
def test_without_torch_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without(module: str, *rest: Any) -> Any:
        if module.startswith("torch"):
            raise ImportError(module)
        return real_import(module, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    message = rf"{name} needs torch; pip install 'bridgehash\[images\]'"
    with pytest.raises(ImportError, match=message):
        BACKBONES[name].load(Settings())


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'skimage', 'PIL', 'torchvision'}"
    code = f"import sys, bridgehash.cli.main; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
