"""WordLlama: the mean of the token embeddings of a text, 256 numbers.

Miller, "WordLlama: recycled token embeddings from large language models", 2024. Weights and
tokenizer are files in the wheel of the package, so nothing is downloaded. They are read here
because `WordLlama.load` of version 0.4.0 looks for the tokenizer in a wrong folder of the package,
and then on the network.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .weights import known_weights

WIDTH = 256
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


def wordllama() -> Callable[[list[str]], NDArray[np.float32]]:
    """Return the function from n texts to features of shape (n, 256)."""
    package = find_spec("wordllama")  # found, not imported: importing it configures logging
    try:
        from safetensors.numpy import load
        from tokenizers import Tokenizer
    except ImportError:
        package = None
    if package is None or not package.submodule_search_locations:
        raise ImportError("wordllama needs wordllama; pip install 'bridgehash[text]'")
    folder = Path(package.submodule_search_locations[0])
    with known_weights(folder / _WEIGHTS) as file:
        embeddings = load(file.read())["embedding.weight"].astype(np.float32)
    with known_weights(folder / _TOKENIZER) as file:
        tokenizer = Tokenizer.from_buffer(file.read())

    def embed(texts: list[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), WIDTH), dtype=np.float32)
        encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
        for row, tokens in zip(rows, encoded, strict=True):
            if tokens.ids:
                row[:] = embeddings[tokens.ids].mean(axis=0)
        return rows

    return embed
