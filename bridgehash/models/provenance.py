"""Which model made the codes of an index: what does not belong together is refused.

An index tells in `about` the model (a digest of its file) and the domain that its codes are of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .base import BaseHasher, BaseTransferHasher
from .encoder import LinearEncoder


def encoder_of(model: Any, path: Path, domain: str | None, option: str) -> LinearEncoder:
    """The encoder that a model has for a domain; a single encoder has none to choose."""
    if isinstance(model, BaseTransferHasher):
        if domain is None:
            choices = f"{option} source or {option} target"
            raise ValueError(f"{path}: holds a model of two domains; say which one: {choices}")
        return model.source_encoder_ if domain == "source" else model.target_encoder_
    if not isinstance(model, BaseHasher | LinearEncoder):
        kind = type(model).__name__
        raise ValueError(f"{path}: holds {kind}, which makes no codes; name another model")
    if domain is not None:
        raise ValueError(f"{path}: holds a single encoder, which has no domains; drop {option}")
    return model.encoder_ if isinstance(model, BaseHasher) else model


def origin(model: Path, domain: str | None) -> dict[str, str]:
    """What an index remembers of codes that this model has made."""
    with model.open("rb") as file:
        about = {"model": hashlib.file_digest(file, "sha256").hexdigest()}
    return about | ({"domain": str(domain)} if domain else {})


def check_same_model(
    index: Mapping[str, str], about: Mapping[str, str], name: str, model: Path | None
) -> None:
    """Codes of two models have nothing to do with each other."""
    if "model" in index and "model" in about and index["model"] != about["model"]:
        raise ValueError(
            f"{name}: holds codes of another model than {model}; use the model it was built with"
        )


def check_same_domain(index: Mapping[str, str], about: Mapping[str, str], name: str) -> None:
    """An index is of one domain: the other one is what it is asked with."""
    known, given = index.get("domain"), about.get("domain")
    if known and given and known != given:
        raise ValueError(
            f"{name}: holds codes of the {known} domain, not of the {given}; build an index of "
            "its own for them"
        )
