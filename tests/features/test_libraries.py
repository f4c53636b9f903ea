"""Tiny models of other libraries, made here: features are what the library itself computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridgehash import InputError
from bridgehash.features import extract, list_images, read_image
from bridgehash.features.backbones import ExtractSettings, Reads
from bridgehash.features.loaders import LoadedBackbone, load_backbone

TEXTS = ["one two", "three", "two two three", "one two three one two three"]
WORDS = ["[UNK]", "[PAD]", "one", "two", "three"]


def library(name: str, extra: str) -> Any:
    """Return a package, or skip; torchvision can fail to load with another build of torch."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install 'bridgehash[{extra}]'")
    try:
        return import_module(name)
    except (ImportError, RuntimeError) as error:
        return pytest.skip(f"{name} cannot be imported ({error})")


def loaded(name: str, reads: Reads, **settings: Any) -> LoadedBackbone:
    return load_backbone(name, ExtractSettings(**settings), reads)


def features(model: LoadedBackbone, samples: list[Any]) -> Any:
    rows = model.features([model.prepare(sample) for sample in samples])
    assert rows.shape == (len(samples), model.dimension)
    assert rows.dtype == np.float32
    assert rows.std(axis=0).max() > 0
    return rows


def pictures(n: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(n)]


def word_tokenizer() -> Any:
    tokenizers = library("tokenizers", "text")
    words = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return tokenizer


def offline(name: str, reads: Reads) -> None:
    """A model that is not on this machine is asked for by name, and nothing is downloaded."""
    with pytest.raises(InputError, match=r"cannot be loaded \(.*allow a download \(--download"):
        loaded(name, reads)


# --- timm


def test_timm_features_are_the_pooled_layer(tmp_path: Path, images: Path) -> None:
    timm = library("timm", "timm")
    torch = library("torch", "timm")
    torch.manual_seed(0)
    whole = timm.create_model("test_resnet", pretrained=False).eval()
    path = tmp_path / "w.pth"
    torch.save(whole.state_dict(), path)
    before = torch.random.get_rng_state()
    model = loaded("timm:test_resnet", "image", weights=path)
    assert torch.equal(torch.random.get_rng_state(), before)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(whole))
    shown = pictures(6)
    with torch.inference_mode():
        x = torch.stack([transform(image) for image in shown])
        expected = whole.forward_head(whole.forward_features(x), pre_logits=True)
    np.testing.assert_allclose(features(model, shown), expected, rtol=1e-4, atol=1e-5)

    done = extract(images, "timm:test_resnet", tmp_path / "x.npz", weights=path, batch_size=3)
    assert done.shape == (7, model.dimension)
    last = read_image(images / list_images(images)[-1])
    np.testing.assert_allclose(
        np.load(done.path)["x"][-1:], model.features([model.prepare(last)]), rtol=1e-4, atol=1e-5
    )


def test_timm_reads_a_folder_and_refuses_other_weights(tmp_path: Path) -> None:
    timm = library("timm", "timm")
    torch = library("torch", "timm")
    whole = timm.create_model("test_vit", pretrained=False)
    timm.models.save_for_hf(whole, tmp_path / "model", safe_serialization=False)
    assert loaded(f"timm:local-dir:{tmp_path / 'model'}", "image").dimension == whole.num_features
    torch.save(whole.state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"w\.pth: is not the weights of timm:test_resnet: "):
        loaded("timm:test_resnet", "image", weights=tmp_path / "w.pth")


def test_timm_uses_the_network_only_on_request() -> None:
    library("timm", "timm")
    offline("timm:test_resnet", "image")
    with pytest.raises(InputError, match=r"timm:nope: cannot be loaded \(Unknown model \(nope\)"):
        loaded("timm:nope", "image")


# --- open_clip


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A folder with a CLIP model of one small layer per half."""
    open_clip = library("open_clip", "open-clip")
    torch = library("torch", "open-clip")
    about = {
        "embed_dim": 12,
        "vision_cfg": {
            "image_size": 32,
            "layers": 1,
            "width": 32,
            "patch_size": 16,
            "head_width": 16,
        },
        "text_cfg": {
            "context_length": 8,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 1,
        },
    }
    torch.manual_seed(0)
    network = open_clip.CLIP(**about)
    torch.save(network.state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    preprocess = {"size": 32, "mean": [0.5] * 3, "std": [0.25] * 3}
    config = {"model_cfg": about, "preprocess_cfg": preprocess}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("reads", ["image", "text"])
def test_open_clip_has_two_halves(clip: Path, reads: Reads) -> None:
    open_clip = library("open_clip", "open-clip")
    torch = library("torch", "open-clip")
    name = f"local-dir:{clip}"
    network, transform = open_clip.create_model_from_pretrained(name)
    network.eval()
    samples: list[Any] = pictures(5) if reads == "image" else TEXTS
    with torch.inference_mode():
        if reads == "image":
            expected = network.encode_image(torch.stack([transform(each) for each in samples]))
        else:
            expected = network.encode_text(open_clip.get_tokenizer(name)(samples))
    rows = features(loaded(f"open_clip:{name}", reads), samples)
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-5)
    assert rows.shape[1] == 12
    with pytest.raises(InputError, match="has weights of its own; omit weights"):
        loaded(f"open_clip:{name}", reads, weights=clip / "open_clip_config.json")


def test_open_clip_asks_for_weights() -> None:
    library("open_clip", "open-clip")
    with pytest.raises(InputError, match=r"open_clip:ViT-B-32/PRETRAINED, where .* openai"):
        loaded("open_clip:ViT-B-32", "image")
    with pytest.raises(InputError, match=r"'mine'; `open_clip.list_pretrained"):
        loaded("open_clip:nope/mine", "image")
    offline("open_clip:ViT-B-32/openai", "image")


# --- sentence-transformers and model2vec


def test_sentence_transformers_read_a_folder(tmp_path: Path) -> None:
    library("torch", "sentence-transformers")
    library("sentence_transformers", "sentence-transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    static = StaticEmbedding(word_tokenizer(), embedding_dim=6)
    SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "model"))
    weights = static.embedding.weight.detach().numpy()
    expected = [
        weights[[WORDS.index(word) for word in text.split()]].mean(axis=0) for text in TEXTS
    ]
    rows = features(loaded(f"sentence-transformers:{tmp_path / 'model'}", "text"), TEXTS)
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)
    offline("sentence-transformers:nobody/nothing", "text")


def test_model2vec_reads_a_folder(tmp_path: Path) -> None:
    model2vec = library("model2vec", "model2vec")
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32)
    static = model2vec.StaticModel(vectors, word_tokenizer(), normalize=False)
    static.save_pretrained(tmp_path / "model")
    expected = [
        vectors[[WORDS.index(word) for word in text.split()]].mean(axis=0) for text in TEXTS
    ]
    rows = features(loaded(f"model2vec:{tmp_path / 'model'}", "text"), TEXTS)
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    done = extract(tmp_path / "t.txt", f"model2vec:{tmp_path / 'model'}", tmp_path / "x.npz")
    np.testing.assert_array_equal(np.load(done.path)["x"], rows)
    offline("model2vec:nobody/nothing", "text")


# --- ONNX

Graph = Callable[..., Path]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """`graph(inputs, outputs, nodes, **constants)`: the path of an ONNX file.

    A value is (name, type, shape), a node (operator, inputs, outputs, attributes).
    """
    library("onnxruntime", "onnx")
    onnx = library("onnx", "onnx")

    def write(inputs: list[Any], outputs: list[Any], nodes: list[Any], **constants: Any) -> Path:
        helper = onnx.helper

        def values(each: list[Any]) -> list[Any]:
            kinds = onnx.TensorProto
            return [helper.make_tensor_value_info(n, getattr(kinds, k), s) for n, k, s in each]

        made = helper.make_graph(
            [helper.make_node(kind, i, o, **attributes) for kind, i, o, attributes in nodes],
            "tiny",
            values(inputs),
            values(outputs),
            [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / "tiny.onnx")
        return tmp_path / "tiny.onnx"

    return write


WEIGHTS = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
POOLED = [
    ("GlobalAveragePool", ["x"], ["p"], {}),
    ("Flatten", ["p"], ["f"], {}),
    ("MatMul", ["f", "w"], ["y"], {}),
]


def central_means(mean: Any, deviation: Any) -> Any:
    """Mean colours of the square that a model of 16 pixels sees, normalised."""
    from bridgehash.features.backbones import central

    pixels = np.stack([central(image, 16, "BICUBIC") for image in pictures(5)])
    return (pixels.mean(axis=(1, 2)) / 255 - mean) / deviation


@pytest.mark.parametrize("batch", ["n", 1])
def test_onnx_images_are_normalised(graph: Graph, batch: str | int, tmp_path: Path) -> None:
    shape = [batch, 3, 16, 16]
    path = graph([("x", "FLOAT", shape)], [("y", "FLOAT", [batch, 4])], POOLED, w=WEIGHTS)
    expected = central_means([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]) @ WEIGHTS
    rows = features(loaded(f"onnx:{path}", "image"), pictures(5))
    np.testing.assert_allclose(rows, expected, rtol=1e-3, atol=1e-4)
    about = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 16, "width": 16}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(about))
    free = [batch, 3, "h", "w"]
    path = graph([("x", "FLOAT", free)], [("y", "FLOAT", [batch, 4])], POOLED, w=WEIGHTS)
    rows = features(loaded(f"onnx:{path}", "image"), pictures(5))
    np.testing.assert_allclose(rows, central_means(0.5, 0.25) @ WEIGHTS, rtol=1e-3, atol=1e-4)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(about | {"do_normalize": False}))
    rows = features(loaded(f"onnx:{path}", "image"), pictures(5))
    np.testing.assert_allclose(rows, central_means(0, 1) @ WEIGHTS, rtol=1e-3, atol=1e-4)


def test_onnx_bytes_are_the_pixels(graph: Graph) -> None:
    nodes = [
        ("Cast", ["x"], ["c"], {"to": 1}),
        ("ReduceMean", ["c"], ["f"], {"axes": [1, 2], "keepdims": 0}),
        ("MatMul", ["f", "w"], ["y"], {}),
    ]
    path = graph([("x", "UINT8", ["n", 16, 16, 3])], [("y", "FLOAT", ["n", 4])], nodes, w=WEIGHTS)
    rows = features(loaded(f"onnx:{path}", "image"), pictures(5))
    np.testing.assert_allclose(rows, central_means(0, 1 / 255) @ WEIGHTS, rtol=1e-3, atol=1e-2)


def test_onnx_strings_are_texts(graph: Graph) -> None:
    nodes = [
        (
            "LabelEncoder",
            ["s"],
            ["i"],
            {
                "domain": "ai.onnx.ml",
                "keys_strings": TEXTS,
                "values_floats": [1.0, 2.0, 3.0, 4.0],
                "default_float": 0.0,
            },
        ),
        ("MatMul", ["i", "w"], ["y"], {}),
    ]
    onnx = library("onnx", "onnx")
    path = graph([("s", "STRING", ["n", 1])], [("y", "FLOAT", ["n", 4])], nodes, w=WEIGHTS[:1])
    model = onnx.load(path)
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 2))
    onnx.save(model, path)
    rows = features(loaded(f"onnx:{path}", "text"), TEXTS)
    np.testing.assert_allclose(rows, np.arange(1, 5)[:, None] * WEIGHTS[:1], rtol=1e-5)


def test_onnx_tokens_need_a_tokenizer(graph: Graph, tmp_path: Path) -> None:
    vectors = np.random.default_rng(2).normal(size=(len(WORDS), 4)).astype(np.float32)
    path = graph(
        [("input_ids", "INT64", ["n", "t"]), ("attention_mask", "INT32", ["n", "t"])],
        [("hidden", "FLOAT", ["n", "t", 4])],
        [
            ("Gather", ["vectors", "input_ids"], ["e"], {}),
            ("Cast", ["attention_mask"], ["m"], {"to": 1}),
            ("Unsqueeze", ["m", "last"], ["u"], {}),
            ("Mul", ["e", "u"], ["hidden"], {}),
        ],
        vectors=vectors,
        last=np.array([2]),
    )
    with pytest.raises(
        InputError, match=r"tokenizer\.json: file not found; a model with input_ids"
    ):
        loaded(f"onnx:{path}", "text")
    word_tokenizer().save(str(tmp_path / "tokenizer.json"))
    expected = [
        vectors[[WORDS.index(word) for word in text.split()]].mean(axis=0) for text in TEXTS
    ]
    rows = features(loaded(f"onnx:{path}", "text"), TEXTS)
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)


def test_other_onnx_files_are_refused(graph: Graph, tmp_path: Path) -> None:
    image = ("x", "FLOAT", ["n", 3, 16, 16])
    path = graph([image], [("y", "FLOAT", ["n", 4])], POOLED, w=WEIGHTS)
    with pytest.raises(InputError, match=r"input x \(tensor\(float\).*takes images, not texts"):
        loaded(f"onnx:{path}", "text")
    with pytest.raises(InputError, match="device 'toaster' cannot be used"):
        loaded(f"onnx:{path}", "image", device="toaster")
    path = graph([("x", "FLOAT", [2, 3, 16, 16])], [("y", "FLOAT", [2, 4])], POOLED, w=WEIGHTS)
    with pytest.raises(InputError, match="takes exactly 2 samples at a time; export the model wi"):
        loaded(f"onnx:{path}", "image")
    path = graph([image], [("p", "FLOAT", ["n", 3, 1, 1])], POOLED[:1])
    with pytest.raises(InputError, match=r"none of shape \(n, d\); export the model with its pool"):
        loaded(f"onnx:{path}", "image")
    path = graph(
        [("x", "FLOAT", ["n", 7])], [("y", "FLOAT", ["n", 7])], [("Relu", ["x"], ["y"], {})]
    )
    with pytest.raises(InputError, match=r"has the inputs x .*; one image of three colours"):
        loaded(f"onnx:{path}", "image")
    path.write_bytes(b"once upon a time")
    with pytest.raises(InputError, match=r"tiny\.onnx: cannot be read .*; give a model file"):
        loaded(f"onnx:{path}", "image")
    with pytest.raises(InputError, match=r"nope\.onnx: file not found; give a model file"):
        loaded(f"onnx:{tmp_path / 'nope.onnx'}", "image")
