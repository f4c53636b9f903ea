"""`open_clip:NAME/PRETRAINED`: the image half or the text half of a CLIP model.

NAME and PRETRAINED are a pair of `open_clip.list_pretrained()`; a weight file can replace the
second. `local-dir:FOLDER` and `hf-hub:OWNER/NAME` need no second part.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..._core.errors import InputError
from ..backbones import ExtractSettings, Reads, find_torch
from .tools import ListFeatures, Prepare, check_weights, loading, package, run_network


def load(model: str, settings: ExtractSettings, reads: Reads) -> tuple[Prepare, ListFeatures]:
    """Load a model, and return the half that reads images or the half that reads texts."""
    name = f"open_clip:{model}"
    check_weights(name, settings)
    torch, device = find_torch(name, settings.device, "open-clip")
    open_clip = package("open_clip", name, "open-clip")
    architecture, weights = _split(open_clip, model, settings)
    with loading(name, settings.download), torch.random.fork_rng(devices=[]):
        network, transform = open_clip.create_model_from_pretrained(architecture, weights)
        tokenize = open_clip.get_tokenizer(architecture)
    network.eval().to(device)
    if reads == "image":
        features = partial(run_network, torch, device, network.encode_image)
        return lambda image: transform(image).numpy(), features
    features = partial(run_network, torch, device, network.encode_text)
    return lambda text: tokenize([text])[0].numpy(), features


def _split(open_clip: Any, model: str, settings: ExtractSettings) -> tuple[str, str | None]:
    """Return the architecture, and the weights where they are not part of it."""
    if ":" in model:
        if settings.weights:
            raise InputError("has weights of its own; omit weights", f"open_clip:{model}")
        return model, None
    architecture, _, tag = model.partition("/")
    known = open_clip.list_pretrained_tags_by_model(architecture)
    if settings.weights:
        return architecture, str(settings.weights)
    if tag not in known:
        remedy = (
            f"write open_clip:{architecture}/PRETRAINED, where PRETRAINED is one of "
            f"{', '.join(known)}"
            if known
            else "`open_clip.list_pretrained()` lists all pairs"
        )
        raise InputError(f"has no pretrained weights {tag!r}; {remedy}", f"open_clip:{model}")
    return architecture, tag
