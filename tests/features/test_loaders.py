"""Names of models of other libraries, and what is said before any of them is loaded."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from bridgehash import InputError
from bridgehash.features import BACKBONES, LOADERS
from bridgehash.features.backbones import ExtractSettings, Reads
from bridgehash.features.loaders import check_name, load_backbone

ROOT = Path(__file__).resolve().parents[2]
MODULES = {  # what each library is imported as, and the extra that installs it
    "timm": ("timm", "timm"),
    "open_clip": ("open_clip", "open-clip"),
    "sentence-transformers": ("sentence_transformers", "sentence-transformers"),
    "model2vec": ("model2vec", "model2vec"),
    "onnx": ("onnxruntime", "onnx"),
}


def test_wrong_names_are_refused() -> None:
    for name in [*BACKBONES, "timm:resnet18", "timm:local-dir:a/b", "onnx:C:/model.onnx"]:
        check_name(name)
    for name, message in [
        ("gits", "unknown backbone 'gits'; did you mean 'gist'"),
        ("openclip:ViT-B-32", "unknown prefix 'openclip'; did you mean 'open_clip'"),
        ("timm:", "backbone 'timm:' names no model; write timm:NAME"),
    ]:
        with pytest.raises(InputError, match=message):
            check_name(name)


@pytest.mark.parametrize("prefix", MODULES)
def test_a_missing_package_is_named_with_its_extra(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, extra = MODULES[prefix]
    for name in ("torch", module):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError, match=rf"^{prefix}:x needs .*; pip install 'bridgehash\[{extra}\]'"
    ):
        load_backbone(f"{prefix}:x", ExtractSettings(), LOADERS[prefix].reads[0])


def test_each_library_has_an_extra_that_installs_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert MODULES.keys() == LOADERS.keys()
    for prefix, (_, extra) in MODULES.items():
        requirements = project["optional-dependencies"][extra]
        assert any(line.startswith(LOADERS[prefix].needs) for line in requirements)


@pytest.mark.parametrize(
    ("name", "reads", "message"),
    [
        ("gist", "text", "gist reads images, not texts; give a folder of images, or .*: wordllama"),
        ("timm:x", "text", r"timm:x reads images, not texts; .*, onnx:FILE"),
        ("wordllama", "image", r"reads texts, not images; give a file of texts \(\.txt.*: effic"),
        ("model2vec:x", "image", "model2vec:x reads texts, not images; .*timm:NAME"),
    ],
)
def test_the_wrong_kind_of_samples_is_refused(name: str, reads: Reads, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_backbone(name, ExtractSettings(), reads)


@pytest.mark.parametrize("name", ["model2vec:x", "sentence-transformers:x", "onnx:x"])
def test_settings_that_are_not_used_are_refused(name: str) -> None:
    settings = ExtractSettings(weights=Path("w.pth"))
    with pytest.raises(InputError, match=f"{name} does not use weights='w.pth'; omit it"):
        load_backbone(name, settings, "text")


@pytest.mark.parametrize("name", ["timm:x", "open_clip:x"])
def test_missing_weights_are_named(name: str, tmp_path: Path) -> None:
    settings = ExtractSettings(weights=tmp_path / "w.pth")
    with pytest.raises(InputError, match=rf"w\.pth: file not found; give the weights of {name}"):
        load_backbone(name, settings, "image")
