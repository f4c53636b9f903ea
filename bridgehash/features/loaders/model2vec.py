"""`model2vec:PATH`: a static text model by its folder or its name on the Hugging Face Hub."""

from __future__ import annotations

from ..backbones import ExtractSettings, Reads
from .tools import ListFeatures, Prepare, check_settings, loading, package


def load(model: str, settings: ExtractSettings, reads: Reads) -> tuple[Prepare, ListFeatures]:
    """Load a model; it runs on the CPU."""
    name = f"model2vec:{model}"
    check_settings(name, settings, "download")
    library = package("model2vec", name, "model2vec")
    with loading(name, settings.download):
        static = library.StaticModel.from_pretrained(model, force_download=False)
    return str, lambda texts: static.encode(texts, use_multiprocessing=False).astype("float32")
