"""The compiled scan of exact search: XOR, popcount, and a threshold that only falls.

Codes are 64-bit words, stored word by word (all first words, then all second ones). A tile of codes
stays in the cache while all queries are compared with it. The distances of a query are written to
a buffer and compared with its threshold 64 at a time, so few are handled one by one. The threshold
is the distance of the k-th best code so far, found by counting. Codes are visited in the order of
their ids, so a later code never displaces an earlier one at the same distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_LANES = 64
_TILE = 4096  # codes; 32 KB per word of a code, to fit in the L1 or L2 cache
_SPARE = 1024  # room for candidates beyond k

_options = {"nogil": True, "cache": True, "boundscheck": False, "error_model": "numpy"}
_compiled: Any = njit(**_options)
_inlined: Any = njit(**_options, inline="always")


@intrinsic  # type: ignore[untyped-decorator]
def _popcount(typing_context: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return x(x), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _lowest_bit(typing_context: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return x(x), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _mask_below(typing_context: Any, distances: Any, offset: Any, limit: Any) -> Any:
    """Return 64 comparisons as one word: bit j is distances[offset + j] < limit."""
    signature = types.uint64(distances, offset, limit)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        lane = ir.IntType(signature.args[0].dtype.bitwidth)
        lanes = ir.VectorType(lane, _LANES)
        place = builder.bitcast(builder.gep(array.data, [args[1]]), lanes.as_pointer())
        values = builder.load(place, align=1)
        zero = ir.Constant(ir.IntType(32), 0)
        nothing = ir.Constant(lanes, ir.Undefined)
        one = builder.insert_element(nothing, builder.trunc(args[2], lane), zero)
        order = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        limits = builder.shuffle_vector(one, nothing, order)
        return builder.bitcast(builder.icmp_unsigned("<", values, limits), ir.IntType(_LANES))

    return signature, codegen


@_compiled
def _fill(words: Any, p: Any, q: Any, start: int, stop: int, to_p: Any, to_q: Any) -> None:
    """Write the distances of codes start..stop to two queries, up to four words in one pass.

    Two queries at once, because fetching the codes takes most of the time.
    """
    n, n_words = stop - start, words.shape[0]
    a, p0, q0 = words[0, start:stop], p[0], q[0]
    if n_words == 1:
        for j in range(n):
            to_p[j] = _popcount(a[j] ^ p0)
            to_q[j] = _popcount(a[j] ^ q0)
        return
    b, p1, q1 = words[1, start:stop], p[1], q[1]
    if n_words < 4:
        for j in range(n):
            to_p[j] = _popcount(a[j] ^ p0) + _popcount(b[j] ^ p1)
            to_q[j] = _popcount(a[j] ^ q0) + _popcount(b[j] ^ q1)
    else:
        c, d, p2, p3, q2, q3 = words[2, start:stop], words[3, start:stop], p[2], p[3], q[2], q[3]
        for j in range(n):
            left = _popcount(a[j] ^ p0) + _popcount(b[j] ^ p1)
            to_p[j] = left + _popcount(c[j] ^ p2) + _popcount(d[j] ^ p3)
            left = _popcount(a[j] ^ q0) + _popcount(b[j] ^ q1)
            to_q[j] = left + _popcount(c[j] ^ q2) + _popcount(d[j] ^ q3)
    for i in range(4 if n_words >= 4 else 2, n_words):
        e, pi, qi = words[i, start:stop], p[i], q[i]
        for j in range(n):
            to_p[j] += _popcount(e[j] ^ pi)
            to_q[j] += _popcount(e[j] ^ qi)


@_compiled
def _compact(distances: Any, rows: Any, n: int, limit: int, n_equal: int) -> int:
    """Keep candidates below the limit and the first n_equal at it; return how many are left."""
    left = 0
    for i in range(n):
        equal = distances[i] == limit and n_equal > 0
        if distances[i] < limit or equal:
            distances[left], rows[left] = distances[i], rows[i]
            left += 1
            n_equal -= equal
    return left


@_inlined
def _select(
    tile: Any,
    start: int,
    n_codes: int,
    k: int,
    q: int,
    limits: Any,
    counts: Any,
    held_distances: Any,
    held_rows: Any,
    held: Any,
    below: Any,
) -> None:
    """Add the codes of a tile that can be among the k nearest of query q; lower its limit."""
    limit, n, met = limits[q], held[q], below[q]
    for block in range(0, n_codes, _LANES):
        mask = _mask_below(tile, block, limit)
        if mask == 0:
            continue
        if n + _LANES > held_rows.shape[1]:
            n = _compact(held_distances[q], held_rows[q], n, limit, k - met)
        while mask != 0:
            j = block + np.int64(_lowest_bit(mask))
            mask &= mask - np.uint64(1)
            d = np.int64(tile[j])
            if d < limit:
                held_distances[q, n], held_rows[q, n] = d, start + j
                n += 1
                counts[q, d] += 1
                met += 1
                while met >= k:  # k codes are nearer: lower the limit
                    limit -= 1
                    met -= counts[q, limit]
    limits[q], held[q], below[q] = limit, n, met


@_compiled
def _scan(
    words: Any,
    queries: Any,
    k: int,
    limits: Any,
    counts: Any,
    held_d: Any,
    held_r: Any,
    tile: Any,
    other: Any,
) -> Any:
    """Collect the candidates of each query: all codes that can be among the k nearest.

    A code must be nearer than limits[q]; counts[q, d] is the number of codes seen at distance d.
    Returns the number of candidates per query, which are in the order of their rows.
    """
    n_queries, step = len(queries), len(tile)
    held = np.zeros(n_queries, np.int64)
    below = np.zeros(n_queries, np.int64)  # codes seen so far below the limit
    for start in range(0, words.shape[1], step):
        stop = min(start + step, words.shape[1])
        n = stop - start
        tile[n:] = other[n:] = np.iinfo(tile.dtype).max  # never below a limit
        for p in range(0, n_queries, 2):
            q = min(p + 1, n_queries - 1)  # the last of an odd number is paired with itself
            _fill(words, queries[p], queries[q], start, stop, tile, other)
            _select(tile, start, n, k, p, limits, counts, held_d, held_r, held, below)
            if q > p:
                _select(other, start, n, k, q, limits, counts, held_d, held_r, held, below)
    return held


@_compiled
def _sorted(
    held_distances: Any, held_rows: Any, held: Any, n_bits: int, out_d: Any, out_r: Any
) -> None:
    """Write the k nearest candidates by (distance, row), with a counting sort."""
    k = out_r.shape[1]
    places = np.empty(n_bits + 2, np.int64)
    for q in range(len(held)):
        places[:] = 0
        for i in range(held[q]):
            places[held_distances[q, i] + 1] += 1
        for d in range(n_bits + 1):
            places[d + 1] += places[d]
        for i in range(held[q]):
            d = held_distances[q, i]
            place = places[d]
            places[d] += 1
            if place < k:
                out_d[q, place], out_r[q, place] = d, held_rows[q, i]


def _tiles(n_bits: int) -> Any:
    """Return buffers for the distances of a tile to two queries: bytes if they fit."""
    return np.empty((2, _TILE), np.uint8 if n_bits < np.iinfo(np.uint8).max else np.uint16)


def nearest_rows(words: Any, queries: Any, k: int, n_bits: int) -> Any:
    """Return distances and rows of the k nearest codes per query, by (distance, row).

    Parameters
    ----------
    words : uint64 array of shape (n_words, n)
        Codes, word by word.
    queries : uint64 array of shape (n_queries, n_words)
    k : int
        At most n.
    """
    n_queries, room = len(queries), k + _SPARE
    tiles = _tiles(n_bits)
    held_d = np.empty((n_queries, room), tiles.dtype)
    held_r = np.empty((n_queries, room), np.int64)
    limits = np.full(n_queries, n_bits + 1, np.int64)
    counts = np.zeros((n_queries, n_bits + 2), np.int64)
    held = _scan(words, queries, k, limits, counts, held_d, held_r, *tiles)
    out_d, out_r = np.empty((n_queries, k), np.int32), np.empty((n_queries, k), np.int64)
    _sorted(held_d, held_r, held, n_bits, out_d, out_r)
    return out_d, out_r
