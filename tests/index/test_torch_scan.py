"""The scan of torch gives the answers of the CPU's; on a GPU where there is one."""

import numpy as np
import pytest

from bridgehash.codes import pack
from bridgehash.index import HammingIndex

torch = pytest.importorskip("torch")

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def both(codes, queries, k, n_bits, device, **more):
    """Answers of the CPU's scan and of torch's."""
    return [
        HammingIndex(n_bits, n_jobs=1, device=where).add(codes).search(queries, k, **more)
        for where in (None, device)
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_bits", [1, 12, 64, 190, 1024])
@pytest.mark.parametrize("k", [1, 50, 1300])
def test_answers_are_those_of_the_cpu(device, n_bits, k):
    rng = np.random.default_rng(n_bits)
    codes, queries = (pack(rng.random((n, n_bits)) < 0.5) for n in (70_000, 5))
    for here, there in zip(*both(codes, queries, k, n_bits, device), strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("device", DEVICES)
def test_nearer_and_nearer_codes_push_out_the_earlier(device):
    """The worst order for a threshold: every code is nearer than all before it."""
    B = np.tri(65, 64, -1, dtype=bool)[::-1]
    codes, queries = pack(np.repeat(B, 900, axis=0)), np.zeros((3, 8), np.uint8)
    for here, there in zip(*both(codes, queries, 10, 64, device), strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_are_answered_by_tensors_on_their_device(device):
    rng = np.random.default_rng(0)
    codes = pack(rng.random((500, 64)) < 0.5)
    on_device = torch.from_numpy(codes).to(device)
    index = HammingIndex(64, device=device).add(on_device, tags=["a", "b"] * 250)
    D, ids = index.search(on_device[:7], 3, tag="a")
    assert D.device == ids.device == on_device.device
    expected = HammingIndex(64).add(codes[::2], np.arange(0, 500, 2)).search(codes[:7], 3)
    np.testing.assert_array_equal(D.cpu(), expected[0])
    np.testing.assert_array_equal(ids.cpu(), expected[1])


@pytest.mark.parametrize("device", DEVICES)
def test_reranking_and_changes_work_as_on_the_cpu(device):
    rng = np.random.default_rng(1)
    H = rng.normal(size=(6, 64))
    indices = [HammingIndex(64, device=where) for where in (None, device)]
    answers = []
    for index in indices:
        index.add(pack(np.random.default_rng(2).random((400, 64)) < 0.5))
        index.search(pack(H), 5)
        index.remove(np.arange(0, 400, 3))
        answers.append(index.search(pack(H), 5, rerank=H))
    np.testing.assert_array_equal(answers[0], answers[1])


def test_lists_do_not_go_to_a_device():
    with pytest.raises(ValueError, match="stay on the CPU"):
        HammingIndex(64, kind="ivf", device="cpu")
