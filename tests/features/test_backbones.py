"""The list of backbones, and how an image gets its size; nothing here needs torch."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from PIL import Image

from bridgehash import InputError
from bridgehash.features import BACKBONES, find_backbone
from bridgehash.features.backbones import ExtractSettings, central, squeezed

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
        "wordllama": 256,
    }


def test_an_image_of_any_shape_is_prepared() -> None:
    for backbone in BACKBONES.values():
        assert backbone.needs
        if backbone.reads == "text":
            continue
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
    rows = backbone.load(ExtractSettings())(np.stack([backbone.prepare(SQUARE)] * 2))
    assert rows.shape == (2, backbone.dimension)
    assert rows.dtype == np.float32
    for settings in (ExtractSettings(device="cuda"), ExtractSettings(download=True)):
        with pytest.raises(ValueError, match=f"{name} has no weights and runs on the CPU"):
            backbone.load(settings)


def test_the_middle_is_that_of_the_resized_image() -> None:
    for size, (side, short) in product(range(60, 400, 51), ((224, 256), (240, 274), (260, 297))):
        edge = (short - side) // 2
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
    with pytest.raises(InputError, match="unknown backbone 'resnet-50'; did you mean 'resnet50'"):
        find_backbone("resnet-50")


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in BACKBONES.keys() - {"gist", "hog", "wordllama"}:
        message = rf"{name} needs torch; pip install 'bridgehash\[images\]'"
        with pytest.raises(ImportError, match=message):
            BACKBONES[name].load(ExtractSettings())


def test_importing_the_room_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'skimage', 'PIL', 'timm', 'tokenizers', 'jinja2', 'matplotlib'}"
    modules = "bridgehash.features, bridgehash.bench.report"
    code = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
