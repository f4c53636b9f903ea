"""Fixtures for the GPU tests: our kernels on a GPU, or torch alone on any device."""

import pytest


@pytest.fixture(params=["kernels", "torch"])
def device(request, monkeypatch):
    """Return a device; "torch" simulates an installation without Triton."""
    if request.param == "kernels":
        return request.getfixturevalue("gpu")
    import torch

    for module in ("nearest", "sparse"):
        monkeypatch.setattr(f"bridgehash.neighbors.cuda.{module}.has_kernels", lambda device: False)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def gpu():
    """Return a device on which the kernels run."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: the kernels are not tested")
    from bridgehash.neighbors.cuda.device import has_kernels

    current = torch.device("cuda", torch.cuda.current_device())
    if not has_kernels(current):
        pytest.skip("no Triton, no C compiler or an old GPU: the kernels are not tested")
    return current
