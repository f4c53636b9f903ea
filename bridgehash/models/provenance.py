"""Which model and domain the codes of an index come from.

An index stores a digest of the model file in `about`. Codes of another model are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core.errors import InputError
from .base import BaseHasher, BaseTransferHasher
from .encoder import LinearEncoder


def encoder_of(model: Any, path: Path, domain: str | None, option: str) -> LinearEncoder:
    """Return the encoder of a model for a domain; `path` and `option` are for messages."""
    if isinstance(model, BaseTransferHasher):
        choices = " or ".join(f"{option} {name}" for name in model.encoders_)
        if domain is None:
            raise InputError(
                f"has {len(model.encoders_)} domains; choose one: {choices}", str(path)
            )
        if domain not in model.encoders_:
            raise InputError(f"has no domain {domain!r}; choose one: {choices}", str(path))
        return model.encoders_[domain]
    if not isinstance(model, BaseHasher | LinearEncoder):
        raise InputError(
            f"holds {type(model).__name__}, which makes no codes; name another model", str(path)
        )
    if domain is not None:
        raise InputError(f"has a single encoder and no domains; drop {option}", str(path))
    return model.encoder_ if isinstance(model, BaseHasher) else model


def origin(model: Path, domain: str | None) -> dict[str, str]:
    """Return what an index stores about codes of this model and domain."""
    with model.open("rb") as file:
        about = {"model": hashlib.file_digest(file, "sha256").hexdigest()}
    return about | ({"domain": str(domain)} if domain else {})


def check_same_model(
    index: Mapping[str, str], about: Mapping[str, str], name: str, model: Path | None
) -> None:
    """Refuse codes of another model: distances between them have no meaning."""
    if "model" in index and "model" in about and index["model"] != about["model"]:
        raise InputError(
            f"holds codes of another model than {model}; use the model it was built with", name
        )
