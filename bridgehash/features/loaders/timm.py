"""`timm:NAME`: an image network of timm without its classifier.

The name is that of `timm.list_models()`, or `local-dir:FOLDER`, or `hf-hub:OWNER/NAME`. Images are
prepared as timm's own evaluation does.
"""

from __future__ import annotations

from functools import partial

from ..._core.errors import InputError
from ..backbones import ExtractSettings, Reads, find_torch
from .tools import ListFeatures, Prepare, check_weights, loading, package, run_network


def load(model: str, settings: ExtractSettings, reads: Reads) -> tuple[Prepare, ListFeatures]:
    """Load a network with the weights of a file, of the cache or of a download."""
    name = f"timm:{model}"
    check_weights(name, settings)
    torch, device = find_torch(name, settings.device, "timm")
    timm = package("timm", name, "timm")
    with loading(name, settings.download), torch.random.fork_rng(devices=[]):
        if settings.weights:
            network = timm.create_model(model, pretrained=False, num_classes=0)
            weights = timm.models.load_state_dict(str(settings.weights))
            missing = network.load_state_dict(weights, strict=False).missing_keys
            if missing:  # more weights are those of a classifier
                problem = f"is not the weights of {name}: it has no {missing[0]!r}"
                raise InputError(f"{problem}; give another file", str(settings.weights))
        else:
            # Without num_classes=0, which lets timm ignore weights that do not fit.
            network = timm.create_model(model, pretrained=True)
            network.reset_classifier(0)
        transform = timm.data.create_transform(**timm.data.resolve_model_data_config(network))
    network.eval().to(device)
    features = partial(run_network, torch, device, network)
    return lambda image: transform(image).numpy(), features
