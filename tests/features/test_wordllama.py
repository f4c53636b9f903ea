"""The text model that works offline: its features, and a file of texts from start to end."""

from __future__ import annotations

import logging
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.features import BACKBONES, extract, read_header
from bridgehash.features.backbones import ExtractSettings

needs_model = pytest.mark.skipif(
    find_spec("wordllama") is None or find_spec("tokenizers") is None,
    reason="wordllama is not installed: pip install 'bridgehash[text]'",
)
TEXTS = ["I parked my car", "we drove in a truck", "a slice of apple pie", "cake and cookies"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    lines = [f"{text},{'food' if i > 1 else 'cars'}" for i, text in enumerate(TEXTS)]
    path.write_text("\n".join(["text,kind", *lines[:2], ",cars", *lines[2:]]))
    return path


@needs_model
def test_features_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # called by its import
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    library = WordLlamaInference(
        load_file(folder / "weights/l2_supercat_256.safetensors")["embedding.weight"],
        Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json")),
    )
    computed = BACKBONES["wordllama"].load(ExtractSettings())([*TEXTS, ""])
    assert computed.dtype == np.float32
    np.testing.assert_allclose(computed[:4], library.embed(TEXTS), atol=1e-6)
    assert not computed[4].any()


@needs_model
def test_the_nearest_text_is_about_the_same() -> None:
    x = BACKBONES["wordllama"].load(ExtractSettings())(TEXTS)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosine = x @ x.T - 2 * np.eye(4)
    assert cosine.argmax(axis=1).tolist() == [1, 0, 3, 2]


@needs_model
def test_a_stopped_run_over_texts_is_continued(texts: Path, tmp_path: Path) -> None:
    out, seen = tmp_path / "x.npz", list[int]()
    options: dict[str, Any] = {"batch_size": 2, "labels_column": "kind"}

    def stop(done: int, _: int) -> None:
        seen.append(done)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(f"{texts}:text", "wordllama", out, on_progress=stop, **options)
    assert seen == [0, 2, 4]
    done = extract(f"{texts}:text", "wordllama", out, **options)
    assert done == (out, (4, 256), 2, 4, (("2", "empty, or not a text"),), "text")
    with np.load(out) as arrays:
        assert arrays["ids"].tolist() == ["0", "1", "3", "4"]
        assert arrays["y"].tolist() == ["cars", "cars", "food", "food"]
        expected = BACKBONES["wordllama"].load(ExtractSettings())(TEXTS)
        np.testing.assert_array_equal(arrays["x"], expected)
    assert read_header(out)["texts"] == 4
    assert read_header(out)["unreadable"] == [["2", "empty, or not a text"]]


@needs_model
def test_changed_texts_are_refused(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.npz"
    first = texts.read_text()

    def stop(done: int, _: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(f"{texts}:text", "wordllama", out, batch_size=2, on_progress=stop)
    texts.write_text(first.replace("truck", "train"))
    with pytest.raises(
        InputError, match=r"with other texts: 5 texts, .*; start from the beginning"
    ):
        extract(f"{texts}:text", "wordllama", out)
    texts.write_text(first)
    assert extract(f"{texts}:text", "wordllama", out).n_resumed == 2


@needs_model
def test_if_no_text_can_be_read_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n\n")
    with pytest.raises(InputError, match=r"t\.txt: none of the 2 texts can be read; the first: 0"):
        extract(tmp_path / "t.txt", "wordllama", tmp_path / "x.npz")
    assert not (tmp_path / "x.npz").exists()


@needs_model
def test_half_a_character_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"t": "whole"}\n{"t": "half \\ud83d"}\n')
    done = extract(f"{path}:t", "wordllama", tmp_path / "x.npz")
    assert done.shape == (1, 256)
    assert [(sample.id, "surrogates" in sample.reason) for sample in done.unreadable] == [
        ("1", True)
    ]


@pytest.mark.parametrize("package", ["tokenizers", "safetensors.numpy"])
def test_without_its_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"needs wordllama; pip install 'bridgehash\[text\]'"):
        BACKBONES["wordllama"].load(ExtractSettings())
