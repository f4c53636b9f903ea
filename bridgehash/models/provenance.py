"""Which model and domain the codes of an index come from.

An index stores a digest of the model file in `about`. Codes of another model are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import InputError

if TYPE_CHECKING:
    from .encoder import LinearEncoder


def encoder_of(model: Any, path: Path, domain: str | None, option: str) -> LinearEncoder:
    """Return the encoder of a model for a domain; `path` and `option` are for messages."""
    from .base import BaseHasher, BaseTransferHasher  # an index needs no scikit-learn
    from .encoder import LinearEncoder

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


def code_space(model: Any) -> str:
    """Return the digest of a model whose codes can be compared: see `ATH.code_space`."""
    from .base import BaseHasher, BaseTransferHasher

    if isinstance(model, BaseTransferHasher):
        return model.code_space()
    encoder: LinearEncoder = model.encoder_ if isinstance(model, BaseHasher) else model
    return encoder.fingerprint()


def origin(model: Any, domain: str | None) -> dict[str, str]:
    """Return what is stored beside codes of this model and domain."""
    about = {"code_space": code_space(model)}
    return about | ({"domain": str(domain)} if domain else {})


def check_same_space(known: Mapping[str, str], given: Mapping[str, str], name: str) -> None:
    """Refuse codes of another model: distances between them have no meaning."""
    spaces = {about["code_space"] for about in (known, given) if "code_space" in about}
    if len(spaces) > 1:
        raise InputError(
            "holds codes of another model; use the model it was built with, or one that joined it",
            name,
        )
