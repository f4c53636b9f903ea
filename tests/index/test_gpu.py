"""The scan of torch gives the results of the CPU's scan; on a GPU if there is one."""

import numpy as np
import pytest

from bridgehash import InputError
from bridgehash.codes import pack
from bridgehash.index import HammingIndex

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.parametrize(
    "device", ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
)


def assert_same_answers(codes, queries, k, n_bits, device):
    here, there = (
        HammingIndex(n_bits, n_jobs=1, device=where).add(codes).search(queries, k)
        for where in (None, device)
    )
    for ours, expected in zip(there, here, strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("n_bits", [1, 12, 64, 190, 1024, 2048, 2049, 4096])
def test_answers_are_those_of_the_cpu(device, n_bits):
    rng = np.random.default_rng(n_bits)
    n = 70_000 if n_bits <= 190 else 9000
    codes, queries = (pack(rng.random((rows, n_bits)) < 0.5) for rows in (n, 5))
    for k in (1, 50, 1300):
        assert_same_answers(codes, queries, k, n_bits, device)


def test_products_near_the_number_of_bits_are_exact(device):
    """Distances 0, 1, 2, ...: float16 could not tell them apart above 2,048 bits."""
    for n_bits in (2048, 4096):
        B = np.tri(9000, n_bits, -1, dtype=bool)[np.random.default_rng(0).permutation(9000)]
        assert_same_answers(pack(B), pack(B[:3]), 100, n_bits, device)


def test_each_code_nearer_than_all_before_it_is_found(device):
    """The worst order for a threshold."""
    B = np.tri(65, 64, -1, dtype=bool)[::-1]
    codes, queries = pack(np.repeat(B, 900, axis=0)), np.zeros((3, 8), np.uint8)
    assert_same_answers(codes, queries, 10, 64, device)


def test_tensors_give_tensors_on_their_device(device):
    rng = np.random.default_rng(0)
    codes = pack(rng.random((500, 64)) < 0.5)
    on_device = torch.from_numpy(codes).to(device)
    index = HammingIndex(64, device=device).add(on_device, tags=["a", "b"] * 250)
    D, ids = index.search(on_device[:7], 3, tags="a")
    assert D.device == ids.device == on_device.device
    expected = HammingIndex(64).add(codes[::2], np.arange(0, 500, 2)).search(codes[:7], 3)
    np.testing.assert_array_equal(D.cpu(), expected[0])
    np.testing.assert_array_equal(ids.cpu(), expected[1])


def test_tensors_that_are_not_uint8_are_refused(device):
    with pytest.raises(InputError, match="packed uint8 codes"):
        HammingIndex(8).add(torch.ones((2, 1), device=device))


def test_weights_and_changes_work_as_on_the_cpu(device):
    H = np.random.default_rng(1).normal(size=(6, 64))
    answers = []
    for index in (HammingIndex(64, device=where) for where in (None, device)):
        index.add(pack(np.random.default_rng(2).random((400, 64)) < 0.5))
        index.search(pack(H), 5)
        index.remove(np.arange(0, 400, 3))
        answers.append(index.search(pack(H), 5, weights=H))
    for here, there in zip(*answers, strict=True):
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("n_bits", [12, 64, 600])
def test_scores_are_those_of_the_cpu(device, n_bits):
    rng = np.random.default_rng(n_bits)
    W = rng.normal(size=(5, n_bits)).round(1)  # ties
    corrections = rng.integers(1, 4, (30_000, 2)).astype(np.float16)
    codes = pack(rng.random((30_000, n_bits)) < 0.5)
    for known in (None, corrections):
        here, there = (
            HammingIndex(n_bits, n_jobs=1, device=where)
            .add(codes[:29_000], corrections=None if known is None else known[:29_000])
            .add(codes[29_000:])
            .search(pack(W), 300, weights=W)
            for where in (None, device)
        )
        for ours, expected in zip(there, here, strict=True):
            np.testing.assert_array_equal(ours, expected)
