"""Models of other libraries as backbones, by `PREFIX:NAME`: `LOADERS`.

Each library has a file here with a function `load`, imported when a name asks for it. It returns
how one image or text is prepared, and the function from a list of prepared ones to features.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._core.errors import InputError, named, unknown
from ..backbones import BACKBONES, ExtractSettings, Reads, find_backbone
from ..folder import pillow
from ..texts import HOW


class LoadedBackbone(NamedTuple):
    """A model that is ready: `prepare` each image or text, then ask for the features of a list."""

    dimension: int
    prepare: Callable[[Any], Any]
    features: Callable[[list[Any]], NDArray[np.float32]]


class Loader(NamedTuple):
    """The models of one library."""

    reads: tuple[Reads, ...]
    pattern: str
    needs: str
    module: str


LOADERS = {
    "timm": Loader(("image",), "timm:NAME", "timm", "timm"),
    "open_clip": Loader(
        ("image", "text"), "open_clip:NAME/PRETRAINED", "open_clip_torch", "open_clip"
    ),
    "sentence-transformers": Loader(
        ("text",), "sentence-transformers:NAME", "sentence-transformers", "sentence_transformers"
    ),
    "model2vec": Loader(("text",), "model2vec:PATH", "model2vec", "model2vec"),
    "onnx": Loader(("image", "text"), "onnx:FILE", "onnxruntime", "onnx"),
}


def check_name(name: str) -> None:
    """Refuse a name that is no key of `BACKBONES` and has no prefix of `LOADERS`."""
    prefix, colon, model = name.partition(":")
    if not colon:
        find_backbone(name)
    elif prefix not in LOADERS:
        raise InputError(unknown("prefix", prefix, LOADERS))
    elif not model:
        raise InputError(f"backbone {name!r} names no model; write {LOADERS[prefix].pattern}")


def load_backbone(name: str, settings: ExtractSettings, reads: Reads) -> LoadedBackbone:
    """Load a backbone, or a model of another library, to read images or texts."""
    check_name(name)
    prefix, colon, model = name.partition(":")
    if not colon:
        backbone = BACKBONES[name]
        _check_reads(name, (backbone.reads,), reads)
        features = backbone.load(settings)
        stack: Callable[[list[Any]], Any] = np.stack if reads == "image" else list
        return LoadedBackbone(
            backbone.dimension, backbone.prepare, lambda prepared: features(stack(prepared))
        )
    loader = LOADERS[prefix]
    _check_reads(name, loader.reads, reads)
    prepare, features = import_module(f".{loader.module}", __name__).load(model, settings, reads)
    sample = "text" if reads == "text" else pillow().Image.new("RGB", (64, 64))
    with named(name, "choose another model"):
        shape = features([prepare(sample)]).shape
        if len(shape) != 2:
            raise InputError(
                f"has features of shape {shape} for one {reads}, not (1, d); choose another model"
            )
    return LoadedBackbone(shape[1], prepare, features)


def _check_reads(name: str, able: tuple[Reads, ...], reads: Reads) -> None:
    if reads in able:
        return
    other = [backbone.name for backbone in BACKBONES.values() if backbone.reads == reads]
    other += [loader.pattern for loader in LOADERS.values() if reads in loader.reads]
    instead = HOW if able == ("text",) else "a folder of images"
    raise InputError(
        f"{name} reads {able[0]}s, not {reads}s; give {instead}, or use one of: {', '.join(other)}",
        "backbone",
    )
