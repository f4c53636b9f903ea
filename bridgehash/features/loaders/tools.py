"""What the loaders share: import a package, load weights, run a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.errors import InputError
from ..backbones import CHUNK, ExtractSettings, missing

Prepare = Callable[[Any], Any]
ListFeatures = Callable[[list[Any]], NDArray[np.float32]]


def package(module: str, name: str, extra: str) -> Any:
    """Import a package; an error names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(name, str(error.name or module), extra) from error
    except (ImportError, RuntimeError) as error:  # as torchvision for another build of torch
        raise ImportError(
            f"{name} cannot import {module} ({_reason(error)}); install versions that fit together"
        ) from error


def check_settings(name: str, settings: ExtractSettings, *used: str) -> None:
    """Refuse settings that a library does not use."""
    for setting, value in settings._asdict().items():
        if setting not in used and value != ExtractSettings._field_defaults[setting]:
            raise InputError(f"{name} does not use {setting}={str(value)!r}; omit it")


def check_weights(name: str, settings: ExtractSettings) -> None:
    """Refuse a weight file that does not exist."""
    if settings.weights and not settings.weights.is_file():
        raise InputError(f"file not found; give the weights of {name}", str(settings.weights))


@contextmanager
def loading(name: str, download: bool) -> Iterator[None]:
    """Load a model inside: only from this machine unless `download`; errors get its name."""
    try:
        with _hub(offline=not download):
            yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each library has exceptions of its own
        remedy = (
            "check the name and the network"
            if download
            else "check the name, or allow a download (--download, download=True)"
        )
        raise InputError(f"cannot be loaded ({_reason(error)}); {remedy}", name) from error


def run_network(
    torch: Any, device: Any, network: Callable[[Any], Any], prepared: list[NDArray[Any]]
) -> NDArray[np.float32]:
    """Return the outputs of a network for arrays of one shape."""
    step = CHUNK if device.type == "cpu" else len(prepared)
    exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)  # as on a CPU
    rows = []
    with torch.inference_mode(), exact:
        for start in range(0, len(prepared), step):
            x = torch.tensor(np.stack(prepared[start : start + step]), device=device)
            rows.append(network(x).float().cpu().numpy())
    return np.concatenate(rows)


@contextmanager
def _hub(offline: bool) -> Iterator[None]:
    """Keep huggingface_hub off the network, as HF_HUB_OFFLINE=1 does before its import."""
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _reason(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:200]
