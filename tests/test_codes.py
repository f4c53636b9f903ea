"""Packed codes: packing and unpacking, Hamming distance, and errors."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridgehash import codes
from bridgehash._core.errors import InputError
from bridgehash.codes import MAX_BITS, hamming, hamming_tiles, n_bytes, pack, signs, unpack

SEEDS = st.integers(0, 2**32 - 1)
# every width of machine word (1, 2, 4 and 8 bytes), both sides of each byte, both distance types
WIDTHS = st.one_of(st.integers(1, 300), st.sampled_from([511, 2047, 2048, 4095, 4096]))


def random_signs(seed, n, n_bits):
    return np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), (n, n_bits))


def counted(B, C):
    """Return Hamming distances by definition: count differing bits of each pair."""
    return np.array([[sum(a != b for a, b in zip(x, z, strict=True)) for z in C] for x in B])


def test_zero_is_negative():
    S = signs(np.array([[-1.5, -0.0, 0.0, 1e-300]]))
    np.testing.assert_array_equal(S, [[-1, -1, -1, 1]])
    assert S.dtype == np.int8


@given(n_bits=st.integers(1, MAX_BITS), n=st.integers(0, 3), seed=SEEDS)
@example(n_bits=MAX_BITS, n=1, seed=0)
def test_unpacking_undoes_packing(n_bits, n, seed):
    B = random_signs(seed, n, n_bits)
    packed = pack(B)
    assert packed.dtype == np.uint8
    assert packed.shape == (n, n_bytes(n_bits)) == (n, (n_bits + 7) // 8)
    S = unpack(packed, n_bits)
    np.testing.assert_array_equal(S, B)
    assert S.dtype == np.int8


def test_first_bit_is_the_highest_of_the_first_byte():
    B = -np.ones((3, 10))
    B[0, 0] = B[1, 7] = B[2, 9] = 1
    np.testing.assert_array_equal(pack(B), [[128, 0], [1, 0], [0, 64]])


def test_padding_is_zero_and_does_not_change_distances():
    for n_bits in (1, 3, 8, 13):
        ones = pack(np.ones((1, n_bits)))
        assert np.unpackbits(ones).sum() == n_bits
        assert hamming(ones, pack(-np.ones((1, n_bits)))) == n_bits


def test_positive_values_of_any_type_are_packed_as_ones():
    for dtype in (bool, np.int8, np.float32, np.float64):
        np.testing.assert_array_equal(pack(np.array([[1, 0, 1]], dtype=dtype)), [[0b10100000]])


@given(n_bits=WIDTHS, n=st.integers(1, 4), m=st.integers(1, 4), seed=SEEDS)
@example(n_bits=255, n=1, m=2, seed=0)
@example(n_bits=256, n=1, m=2, seed=0)
def test_hamming_counts_differing_bits(n_bits, n, m, seed):
    B, C = random_signs(seed, n, n_bits), random_signs(seed + 1, m, n_bits)
    np.testing.assert_array_equal(hamming(pack(B), pack(C)), counted(B, C))


def test_complements_differ_in_all_bits():
    for n_bits in (8, 248, 255, 256, 4096):
        B = random_signs(0, 2, n_bits)
        np.testing.assert_array_equal(np.diag(hamming(pack(B), pack(-B))), [n_bits, n_bits])


@given(n_bits=st.integers(1, 80), seed=SEEDS)
def test_hamming_is_a_metric(n_bits, seed):
    B = random_signs(seed, 5, n_bits)
    B[4] = B[3]
    D = hamming(pack(B), pack(B)).astype(int)
    np.testing.assert_array_equal(D, D.T)
    same = (B[:, None] == B[None]).all(axis=2)
    np.testing.assert_array_equal(D == 0, same)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :]).all()


def test_tiles_cover_every_pair_once(monkeypatch):
    B, C = random_signs(0, 7, 20), random_signs(1, 5, 20)
    for tile in (8, 24, 1000):
        monkeypatch.setattr(codes, "_TILE", tile)
        seen, D = np.zeros((7, 5), dtype=int), np.zeros((7, 5), dtype=int)
        for rows, columns, distances in hamming_tiles(pack(B), pack(C)):
            seen[rows, columns] += 1
            D[rows, columns] = distances
        assert (seen == 1).all()
        np.testing.assert_array_equal(D, counted(B, C))


def test_order_in_memory_does_not_matter():
    packed = pack(random_signs(0, 6, 64))
    np.testing.assert_array_equal(
        hamming(np.asfortranarray(packed)[::2], packed), hamming(packed, packed)[::2]
    )


def test_no_rows_give_an_empty_matrix():
    packed = pack(random_signs(0, 3, 64))
    assert hamming(packed[:0], packed).shape == (0, 3)
    assert hamming(packed, packed[:0]).shape == (3, 0)


def test_codes_that_are_not_packed_are_refused():
    packed = pack(np.ones((2, 64)))
    for dtype in (np.int8, np.int64, np.float64, bool):
        plain = np.ones((2, 8), dtype=dtype)
        with pytest.raises(InputError, match="codes: must be packed uint8"):
            unpack(plain, 64)
        with pytest.raises(InputError, match="codes: must be packed uint8"):
            hamming(plain, packed)
        with pytest.raises(InputError, match="other: must be packed uint8"):
            hamming(packed, plain)


def test_wrong_widths_are_refused():
    with pytest.raises(InputError, match="codes of 1 and 2 bytes cannot be compared"):
        hamming(pack(np.ones((1, 8))), pack(np.ones((1, 9))))
    for n_bits in (1, 8, 17):
        with pytest.raises(InputError, match=f"codes: 2 bytes per row; n_bits={n_bits} needs"):
            unpack(pack(np.ones((1, 16))), n_bits)
    for n_bits in (-1, 0, MAX_BITS + 1):
        with pytest.raises(InputError, match=f"n_bits: {n_bits} is not between 1 and 4096"):
            n_bytes(n_bits)
    with pytest.raises(InputError, match="n_bits: 4097 is not between 1 and 4096"):
        pack(np.ones((1, MAX_BITS + 1)))


def test_codes_that_are_not_a_matrix_are_refused():
    for shape in ((), (8,), (2, 0), (2, 2, 8)):
        with pytest.raises(InputError, match="B: must be two-dimensional"):
            pack(np.ones(shape))
        with pytest.raises(InputError, match="codes: must be two-dimensional"):
            unpack(np.ones(shape, dtype=np.uint8), 8)
