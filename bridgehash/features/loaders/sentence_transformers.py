"""`sentence-transformers:NAME`: a text model by its folder or its name on the Hugging Face Hub."""

from __future__ import annotations

from ..backbones import ExtractSettings, Reads, find_torch
from .tools import ListFeatures, Prepare, check_settings, loading, package


def load(model: str, settings: ExtractSettings, reads: Reads) -> tuple[Prepare, ListFeatures]:
    """Load a model; code that a model brings along is not run."""
    name = f"sentence-transformers:{model}"
    check_settings(name, settings, "device", "download")
    find_torch(name, settings.device, "sentence-transformers")
    library = package("sentence_transformers", name, "sentence-transformers")
    with loading(name, settings.download):
        network = library.SentenceTransformer(
            model,
            device=settings.device,
            local_files_only=not settings.download,
            trust_remote_code=False,
        )
    return str, lambda texts: network.encode(texts, show_progress_bar=False).astype("float32")
