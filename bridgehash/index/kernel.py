"""The compiled scan of exact search: XOR, popcount, and a threshold that only falls.

Codes are 64-bit words, stored word by word (all first words, then all second ones). A tile of codes
stays in the cache while all queries are compared with it. The distances of a query are written to
a buffer and compared with its threshold 64 at a time, so few are handled one by one. The threshold
is the distance of the k-th best code so far, found by counting. Codes are visited in the order of
their ids, so a later code never displaces an earlier one at the same distance. Many queries have a
faster scan (`sliced_kernel.py`), with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import sliced_kernel
from .compiled import _compact, _compiled, _hold, _inlined, _lowest_bit, _popcount

_LANES = 64
_TILE = 8192  # codes; 64 KB per word of a code, to fit in the L2 cache
_SPARE = 1024  # room for candidates beyond k
# The scan for many queries transposes all codes, and takes longer for each candidate.
_MANY, _LONG, _RARE = (
    32,
    4,
    2_000,
)  # queries, tiles, and codes per neighbour from which it is faster


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
def _fill_one(words: Any, q: Any, start: int, stop: int, to: Any) -> None:
    """Write the distances of codes start..stop to a query."""
    n = stop - start
    a, q0 = words[0, start:stop], q[0]
    for j in range(n):
        to[j] = _popcount(a[j] ^ q0)
    _add_words(words, q, 1, start, stop, to)


@_compiled
def _add_words(words: Any, q: Any, first: int, start: int, stop: int, to: Any) -> None:
    """Add the distances in all words from `first`."""
    for i in range(first, words.shape[0]):
        a, qi = words[i, start:stop], q[i]
        for j in range(stop - start):
            to[j] += _popcount(a[j] ^ qi)


@_compiled
def _fill_two(words: Any, p: Any, q: Any, start: int, stop: int, to_p: Any, to_q: Any) -> None:
    """Write the distances to two queries."""
    n = stop - start
    a, p0, q0 = words[0, start:stop], p[0], q[0]
    if words.shape[0] == 1:
        for j in range(n):
            to_p[j] = _popcount(a[j] ^ p0)
            to_q[j] = _popcount(a[j] ^ q0)
        return
    b, p1, q1 = words[1, start:stop], p[1], q[1]
    for j in range(n):
        to_p[j] = _popcount(a[j] ^ p0) + _popcount(b[j] ^ p1)
        to_q[j] = _popcount(a[j] ^ q0) + _popcount(b[j] ^ q1)
    _add_words(words, p, 2, start, stop, to_p)
    _add_words(words, q, 2, start, stop, to_q)


@_inlined
def _of_four(code: Any, q: Any) -> Any:
    """Return the distance in four words."""
    left = _popcount(code[0] ^ q[0]) + _popcount(code[1] ^ q[1])
    return left + _popcount(code[2] ^ q[2]) + _popcount(code[3] ^ q[3])


@_compiled
def _fill_four(words: Any, queries: Any, start: int, stop: int, to: Any) -> None:
    """Write the distances to four queries, for codes of four words or more."""
    a, b, c, d = (
        words[0, start:stop],
        words[1, start:stop],
        words[2, start:stop],
        words[3, start:stop],
    )
    p = queries[0, 0], queries[0, 1], queries[0, 2], queries[0, 3]
    q = queries[1, 0], queries[1, 1], queries[1, 2], queries[1, 3]
    r = queries[2, 0], queries[2, 1], queries[2, 2], queries[2, 3]
    s = queries[3, 0], queries[3, 1], queries[3, 2], queries[3, 3]
    to_p, to_q, to_r, to_s = to[0], to[1], to[2], to[3]
    for j in range(stop - start):
        code = a[j], b[j], c[j], d[j]
        to_p[j], to_q[j] = _of_four(code, p), _of_four(code, q)
        to_r[j], to_s[j] = _of_four(code, r), _of_four(code, s)
    for i in range(4):
        _add_words(words, queries[i], 4, start, stop, to[i])


@_compiled
def _distances(words: Any, queries: Any, q: int, start: int, stop: int, tiles: Any) -> Any:
    """Return the distances of codes start..stop to query q, in one of the tiles.

    The first of two or four queries computes those of all, because fetching the codes takes most
    of the time.
    """
    n, together = len(queries), 2 if words.shape[0] < 4 else 4
    tile = tiles[q % together]
    if q >= n - n % together:  # too few are left
        _fill_one(words, queries[q], start, stop, tile)
    elif q % together == 0 and together == 2:
        _fill_two(words, queries[q], queries[q + 1], start, stop, tile, tiles[1])
    elif q % together == 0:
        _fill_four(words, queries[q : q + 4], start, stop, tiles)
    return tile


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
            d, row = np.int64(tile[j]), start + j
            limit, n, met = _hold(d, row, q, k, limit, n, met, counts, held_distances, held_rows)
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
    held: Any,
    below: Any,
    first: int,
    last: int,
    tiles: Any,
) -> None:
    """Collect the candidates of each query: codes first..last that can be among the k nearest.

    A code must be nearer than limits[q]; counts[q, d] is the number of codes seen at distance d,
    below[q] that of codes below the limit. held[q] candidates are in the order of their rows.
    """
    n_queries, step = len(queries), tiles.shape[1]
    for start in range(first, last, step):
        stop = min(start + step, last)
        n = stop - start
        tiles[:, n:] = np.iinfo(tiles.dtype).max  # never below a limit
        for q in range(n_queries):
            tile = _distances(words, queries, q, start, stop, tiles)
            _select(tile, start, n, k, q, limits, counts, held_d, held_r, held, below)


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


@_compiled
def _scan_lists(
    words: Any, ends: Any, lists: Any, queries: Any, held_d: Any, tile: Any, out_d: Any, out_r: Any
) -> None:
    """Write the nearest codes of some lists per query; ties stay in the order of the lists."""
    n_bits, k = 64 * words.shape[0], out_r.shape[1]
    held_r, counts = np.empty(held_d.shape, np.int64), np.empty((1, n_bits + 2), np.int64)
    limits, held, below = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int64)
    for q in range(len(queries)):
        limits[0], held[0], below[0], counts[:] = n_bits + 1, 0, 0, 0
        for i in lists[q]:
            for start in range(ends[i], ends[i + 1], len(tile)):
                stop = min(start + len(tile), ends[i + 1])
                n = stop - start
                _fill_one(words, queries[q], start, stop, tile)
                tile[n : n + _LANES] = np.iinfo(tile.dtype).max  # never below a limit
                _select(tile, start, n, k, 0, limits, counts, held_d, held_r, held, below)
        _sorted(held_d, held_r, held, n_bits, out_d[q : q + 1], out_r[q : q + 1])


def nearest_in_lists(words: Any, ends: Any, lists: Any, queries: Any, k: int) -> Any:
    """Return distances and places of the k nearest codes in some lists per query.

    Codes at the same distance are in the order in which the lists are searched. The place is -1
    where the lists hold fewer than k codes.

    Parameters
    ----------
    words : uint64 array of shape (n_words, n)
        Codes, word by word, list after list.
    ends : int64 array of shape (n_lists + 1,)
        List i has the places ends[i] to ends[i + 1].
    lists : int64 array of shape (n_queries, n_probe)
    queries : uint64 array of shape (n_queries, n_words)
    """
    n_queries, n_bits = len(queries), 64 * words.shape[0]
    tile = _tiles(n_bits)[0]
    out_d = np.full((n_queries, k), n_bits + 1, np.int32)
    out_r = np.full((n_queries, k), -1, np.int64)
    held_d = np.empty((1, k + _SPARE), tile.dtype)
    _scan_lists(words, ends, lists, queries, held_d, tile, out_d, out_r)
    return out_d, out_r


def _tiles(n_bits: int) -> Any:
    """Return buffers for the distances of a tile to four queries: bytes if they fit."""
    return np.empty((4, _TILE), np.uint8 if n_bits < np.iinfo(np.uint8).max else np.uint16)


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
    held, below = np.zeros(n_queries, np.int64), np.zeros(n_queries, np.int64)
    state = limits, counts, held_d, held_r, held, below
    n = first = words.shape[1]
    many = n_queries >= _MANY and n >= max(_LONG * _TILE, _RARE * k)
    if many and len(words) <= sliced_kernel.MOST_WORDS:
        first = _TILE  # after these codes there are few candidates
    _scan(words, queries, k, *state, 0, first, tiles)
    if first < n:
        first = sliced_kernel.scan_tiles(words, queries, k, *state, first)
        _scan(words, queries, k, *state, first, n, tiles)
    out_d, out_r = np.empty((n_queries, k), np.int32), np.empty((n_queries, k), np.int64)
    _sorted(held_d, held_r, held, n_bits, out_d, out_r)
    return out_d, out_r
