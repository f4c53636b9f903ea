"""Where the tests of the GPU part run: by kernels on a GPU, by torch alone anywhere."""

import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install 'bridgehash[gpu]'")


@pytest.fixture(params=["kernels", "torch"])
def device(request, monkeypatch):
    """A device; `torch` stands for an installation without Triton, on a GPU where there is one."""
    cuda = torch.cuda.is_available()
    if request.param == "torch":
        for module in ("nearest", "sparse"):
            monkeypatch.setattr(f"bridgehash.cuda.{module}.has_kernels", lambda device: False)
        return torch.device("cuda" if cuda else "cpu")
    return gpu_with_kernels()


@pytest.fixture
def gpu():
    """A device on which the kernels run."""
    return gpu_with_kernels()


def gpu_with_kernels():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: the kernels are not tested")
    from bridgehash.neighbors.cuda.device import has_kernels

    found = torch.device("cuda", torch.cuda.current_device())
    if not has_kernels(found):
        pytest.skip("no Triton, no C compiler or an old GPU: the kernels are not tested")
    return found
