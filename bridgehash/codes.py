"""Binary codes: signs, packing, Hamming distance.

A code of r bits has two forms: ±1 in an int8 array with one column per bit, and packed, with eight
bits per byte. In a packed code the first bit is the highest bit of the first byte. The last byte is
padded with zero bits, which do not change a Hamming distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._core.arrays import array_namespace, device, is_foreign
from ._core.errors import InputError

MAX_BITS = 4096
_TILE = 1 << 19  # pairs per tile: a few MB, small enough for the L2 cache


def signs(H: ArrayLike) -> NDArray[np.int8]:
    """Return +1 where a projection is positive, else -1 (also for zero).

    >>> signs([[0.3, -2.0, 0.0]])
    array([[ 1, -1, -1]], dtype=int8)
    """
    values: Any = H if is_foreign(H) else np.asarray(H)
    xp = array_namespace(values)
    return 2 * xp.astype(values > 0, xp.int8) - 1


def n_bytes(n_bits: int) -> int:
    """Return the bytes of a packed code of `n_bits` bits.

    >>> n_bytes(12)
    2
    """
    if not 1 <= n_bits <= MAX_BITS:
        raise InputError(f"{n_bits} is not between 1 and {MAX_BITS}", "n_bits")
    return -(-n_bits // 8)


def pack(B: ArrayLike) -> NDArray[np.uint8]:
    """Pack ±1 codes of shape (n, n_bits) to uint8 of shape (n, ceil(n_bits / 8)).

    Every positive value is a one, so booleans and projections can be packed, too.

    >>> pack([[1, -1, -1, -1, -1, -1, -1, 1, 1]])
    array([[129, 128]], dtype=uint8)
    """
    B = _two_dimensional(B, "B")
    width = n_bytes(B.shape[1])
    if not is_foreign(B):
        return np.packbits(B > 0, axis=1)
    xp, n = array_namespace(B), B.shape[0]
    bits = xp.astype(B > 0, xp.uint8)
    missing = 8 * width - B.shape[1]
    if missing:
        padding = xp.zeros((n, missing), dtype=xp.uint8, device=device(B))
        bits = xp.concat([bits, padding], axis=1)
    return xp.sum(xp.reshape(bits, (n, width, 8)) * _weights(B), axis=2, dtype=xp.uint8)


def unpack(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Return ±1 codes of shape (n, n_bits) from packed codes: the inverse of `pack`.

    >>> unpack(np.array([[129, 128]], dtype=np.uint8), n_bits=9)
    array([[ 1, -1, -1, -1, -1, -1, -1,  1,  1]], dtype=int8)
    """
    codes = _packed(codes, "codes")
    if codes.shape[1] != n_bytes(n_bits):
        raise InputError(
            f"{codes.shape[1]} bytes per row; n_bits={n_bits} needs {n_bytes(n_bits)}", "codes"
        )
    if not is_foreign(codes):
        return signs(np.unpackbits(codes, axis=1, count=n_bits))
    xp = array_namespace(codes)
    bits = xp.bitwise_and(codes[:, :, None], _weights(codes))
    return signs(xp.reshape(bits, (codes.shape[0], -1))[:, :n_bits])


def hamming(codes: ArrayLike, other: ArrayLike) -> NDArray[np.uint16]:
    """Return the number of differing bits between each row of `codes` and each row of `other`.

    Both are packed arrays of the same library; the result has shape (n, n_other). Use
    `hamming_tiles` for more pairs than fit into memory.

    >>> hamming(pack([[1, 1, -1]]), pack([[1, 1, -1], [-1, -1, 1]]))
    array([[0, 3]], dtype=uint16)
    """
    codes, other = _packed(codes, "codes"), _packed(other, "other")
    if is_foreign(codes):
        return _hamming_by_product(codes, other)
    D = np.empty((len(codes), len(other)), dtype=np.uint16)
    for rows, columns, tile in hamming_tiles(codes, other):
        D[rows, columns] = tile
    return D


def hamming_tiles(
    codes: ArrayLike, other: ArrayLike
) -> Iterator[tuple[slice, slice, NDArray[np.unsignedinteger[Any]]]]:
    """Yield tiles (rows, columns, distances) that cover all pairs, a few MB at a time.

    Distances are uint8, or uint16 for codes of 256 bits and more.
    """
    codes, other = _packed(codes, "codes"), _packed(other, "other")
    _check_one_width(codes, other)
    left, right = _words(codes), _words(other)
    dtype = np.uint8 if 8 * codes.shape[1] < 256 else np.uint16
    n_columns = max(1, min(len(right), _TILE // 8))
    n_rows = max(1, _TILE // n_columns)
    for i in range(0, len(left), n_rows):
        for j in range(0, len(right), n_columns):
            a, b = left[i : i + n_rows], right[j : j + n_columns]
            D = np.zeros((len(a), len(b)), dtype=dtype)
            for word in range(left.shape[1]):
                D += np.bitwise_count(a[:, word, None] ^ b[None, :, word])
            yield slice(i, i + len(a)), slice(j, j + len(b)), D


def _hamming_by_product(codes: Any, other: Any) -> Any:
    """Compute distances as (r - b·c) / 2 of ±1 codes; exact in float32."""
    xp = array_namespace(codes, other)
    _check_one_width(codes, other)
    B, C = (xp.astype(unpack(part, 8 * part.shape[1]), xp.float32) for part in (codes, other))
    return xp.astype((B.shape[1] - B @ C.T) / 2, xp.uint16)


def _weights(like: Any) -> Any:
    """Return the values of the eight bits of a byte as an array of the same library."""
    xp = array_namespace(like)
    return xp.asarray([128, 64, 32, 16, 8, 4, 2, 1], dtype=xp.uint8, device=device(like))


def _check_one_width(codes: Any, other: Any) -> None:
    if codes.shape[1] != other.shape[1]:
        raise InputError(
            f"codes of {codes.shape[1]} and {other.shape[1]} bytes cannot be compared; "
            "encode both with the same model"
        )


def _words(codes: NDArray[np.uint8]) -> NDArray[np.unsignedinteger[Any]]:
    """View the rows as the widest machine words that divide their length."""
    for word in (np.uint64, np.uint32, np.uint16):
        if codes.shape[1] % np.dtype(word).itemsize == 0:
            return np.ascontiguousarray(codes).view(word)
    return codes


def _packed(codes: ArrayLike, name: str) -> NDArray[np.uint8]:
    codes = _two_dimensional(codes, name)
    if codes.dtype != array_namespace(codes).uint8:
        raise InputError(f"must be packed uint8 codes, not {codes.dtype}; see pack", name)
    return codes


def _two_dimensional(array: ArrayLike, name: str) -> NDArray[Any]:
    checked: Any = array if is_foreign(array) else np.asarray(array)
    if checked.ndim != 2 or checked.shape[1] == 0:
        shape = tuple(checked.shape)
        raise InputError(f"must be two-dimensional, one row per code, not {shape}", name)
    return checked
