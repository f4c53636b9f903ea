"""`onnx:FILE`: any ONNX model with one image or text input, run by ONNX Runtime.

The input of the graph decides what is read:

* Four axes, three of them colour, height and width, are an image. Floats are normalised as for
  ImageNet, bytes (uint8) are the pixels themselves.
* Strings are texts. Integers named `input_ids` are tokens of a text; the tokenizer is
  `tokenizer.json` in the same folder, in the format of Hugging Face.

The features are the first output of two axes. If a text model has none, the mean over the tokens
of its first output of three axes is used. `preprocessor_config.json` in the same folder, as Hugging
Face writes it, replaces size, mean and deviation of images.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.errors import InputError, named
from ..backbones import IMAGENET, ExtractSettings, Reads, central
from .tools import ListFeatures, Prepare, check_settings, package

_SIDE = 224  # pixels, where neither the graph nor a file says more
_LONGEST = 512  # tokens, where the tokenizer sets no limit
_TOKENS = ("input_ids", "attention_mask", "token_type_ids")
_DTYPES = {
    "tensor(uint8)": np.uint8,
    "tensor(float16)": np.float16,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
_PIXELS = ("tensor(uint8)", "tensor(float16)", "tensor(float)", "tensor(double)")
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
Run = Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]


def load(model: str, settings: ExtractSettings, reads: Reads) -> tuple[Prepare, ListFeatures]:
    """Load a model file, and prepare images or texts as its input needs."""
    name, path = f"onnx:{model}", Path(model)
    check_settings(name, settings, "device")
    runtime = package("onnxruntime", name, "onnx")
    if not path.is_file():
        raise InputError("file not found; give a model file (.onnx)", name)
    with named(name, "give a model file (.onnx)"):
        session = runtime.InferenceSession(path, providers=_providers(runtime, settings.device))
        inputs = session.get_inputs()
        kind = _kind(inputs)
        if kind != reads:
            raise InputError(
                f"has the input {_described(inputs)}, which takes {kind}s, not {reads}s; give "
                "another model or other samples"
            )
        output = _output(session.get_outputs(), 3 if reads == "text" else 2)
        run: Run = lambda feeds: session.run([output.name], dict(feeds))[0]  # noqa: E731
        if reads == "image":
            return _of_images(inputs[0], path.parent, run)
        if inputs[0].type == "tensor(string)":
            return str, partial(_of_strings, inputs[0], run)
        return str, _of_tokens(name, inputs, path.parent, run)


def _providers(runtime: Any, device: str) -> list[str]:
    provider = _PROVIDERS.get(device)
    if provider not in runtime.get_available_providers():
        raise InputError(
            f"device {device!r} cannot be used by this build of onnxruntime; use cpu, or install "
            "onnxruntime-gpu for cuda"
        )
    return [str(provider)]


def _kind(inputs: list[Any]) -> Reads:
    names = {each.name for each in inputs}
    if _TOKENS[0] in names and names.issubset(_TOKENS):
        return "text"
    if len(inputs) == 1:
        kind, shape = inputs[0].type, inputs[0].shape
        if kind == "tensor(string)" and len(shape) in (1, 2):
            return "text"
        if kind in _PIXELS and len(shape) == 4 and 3 in (shape[1], shape[3]):
            return "image"
    raise InputError(
        f"has the inputs {_described(inputs)}; one image of three colours, one string, or "
        f"{', '.join(_TOKENS)} are needed"
    )


def _described(inputs: list[Any]) -> str:
    return ", ".join(f"{each.name} ({each.type} of shape {each.shape})" for each in inputs)


def _output(outputs: list[Any], most_axes: int) -> Any:
    """Return the first output of two axes, else of more if allowed."""
    for axes in range(2, most_axes + 1):
        for each in outputs:
            if len(each.shape) == axes:
                return each
    raise InputError(
        f"has the outputs {_described(outputs)}, none of shape (n, d); export the model with its "
        "pooling layer"
    )


def _of_images(graph_input: Any, folder: Path, run: Run) -> tuple[Prepare, ListFeatures]:
    channels_first = graph_input.shape[1] == 3
    height, width = graph_input.shape[2:] if channels_first else graph_input.shape[1:3]
    side, mean, deviation = _preprocessing(folder)
    fixed = [length for length in (height, width) if isinstance(length, int)]
    if len(set(fixed)) > 1:
        raise InputError(f"takes images of {height} x {width} pixels; only squares are possible")
    side = fixed[0] if fixed else side
    dtype = _DTYPES[graph_input.type]

    def features(images: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        x: NDArray[Any] = np.stack(images)
        if dtype != np.uint8:
            x = ((x - mean) / deviation).astype(dtype)
        if channels_first:
            x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        return _in_batches(graph_input, x, lambda part: run({graph_input.name: part}))

    return partial(central, side=side, resampling="BICUBIC"), features


def _preprocessing(folder: Path) -> tuple[int, NDArray[np.float32], NDArray[np.float32]]:
    """Return the side, mean and deviation of images, the last two on a scale of 0..255."""
    path = folder / "preprocessor_config.json"
    mean, deviation = (np.array(each, dtype=np.float32) for each in IMAGENET)
    if not path.is_file():
        return _SIDE, mean, deviation
    with named(path):
        fields = json.loads(path.read_text(encoding="utf-8"))
        if not fields.get("do_normalize", True):
            mean, deviation = np.zeros_like(mean), np.full_like(deviation, 255)
        elif "image_mean" in fields:
            mean, deviation = (
                np.array(fields[key], dtype=np.float32) * 255 for key in ("image_mean", "image_std")
            )
        size = fields.get("crop_size", fields.get("size", _SIDE))
        side = next(iter(size.values())) if isinstance(size, dict) else size
        return int(side), mean, deviation


def _of_strings(graph_input: Any, run: Run, texts: list[str]) -> NDArray[np.float32]:
    x = np.array(texts, dtype=object).reshape(-1, *[1] * (len(graph_input.shape) - 1))
    return _in_batches(graph_input, x, lambda part: run({graph_input.name: part}))


def _of_tokens(name: str, inputs: list[Any], folder: Path, run: Run) -> ListFeatures:
    tokenizers = package("tokenizers", name, "onnx")
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError("file not found; a model with input_ids needs its tokenizer", str(path))
    with named(path, "give the tokenizer of the model"):
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        if tokenizer.truncation is None:
            tokenizer.enable_truncation(_LONGEST)
        tokenizer.no_padding()

    def one(text: str) -> NDArray[np.float32]:
        # One text at a time: without padding the features do not depend on the other texts.
        encoded = tokenizer.encode(text)
        values = dict(
            zip(_TOKENS, (encoded.ids, encoded.attention_mask, encoded.type_ids), strict=True)
        )
        rows = run(
            {each.name: np.array([values[each.name]], dtype=_DTYPES[each.type]) for each in inputs}
        )
        return rows.mean(axis=1) if rows.ndim == 3 else rows

    return lambda texts: np.concatenate([one(text) for text in texts]).astype(np.float32)


def _in_batches(
    graph_input: Any, x: NDArray[Any], run: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[np.float32]:
    """Run all rows at once, or as many as the graph takes."""
    size = graph_input.shape[0] if isinstance(graph_input.shape[0], int) else len(x)
    if len(x) % size:
        raise InputError(
            f"takes exactly {size} samples at a time; export the model with a free batch axis",
            graph_input.name,
        )
    rows = [run(x[start : start + size]) for start in range(0, len(x), size)]
    return np.concatenate(rows).astype(np.float32)
