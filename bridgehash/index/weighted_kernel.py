"""The compiled scan with real-valued queries: look-up tables, and a limit that only falls.

The score of a code is offset - slope * step * Σ_j v_j b_j with whole weights v_j, so that each way
to add gives the same number. Four bits of a code are looked up at once. Byte-sized tables give a
sum that is never too small, for 64 codes per instruction; only codes that this bound cannot rule
out are scored exactly. Tables are looked up by the shuffle instruction of the processor (AVX-512,
AVX2, SSSE3 or NEON), or else one by one.

A tile of codes is split into its groups of four bits once, for all queries. Codes are visited in
the order of their rows, so a later code never displaces an earlier one with the same score.
"""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiled import _at, _compiled, _data, _inlined, _lowest_bit, _repeat
from .weighted_tiles import _GROUPS, _LANES, _ROW, _TILE, _as_floats, _split

_BLOCK = 512  # codes that share the load of a table
_HALF = 8  # groups whose entries are added in one byte
_SPARE = 64  # room for candidates beyond k; the limit falls each time it is used up
_LARGEST_SUM = 251  # of half a word, so that rounding 8 entries stays within a byte
_ROUNDING = 2e-6  # relative; more than three roundings of float32


def _shuffle() -> tuple[int, str]:
    """Return the width in bytes and the name of the widest table look-up of this processor."""
    if numba.config.CPU_NAME not in (None, "host"):  # compiled for another processor
        return 0, ""
    features = binding.get_host_cpu_features()
    for feature, width, name in (
        ("avx512bw", 64, "llvm.x86.avx512.pshuf.b.512"),
        ("avx2", 32, "llvm.x86.avx2.pshuf.b"),
        ("ssse3", 16, "llvm.x86.ssse3.pshuf.b.128"),
        ("neon", 16, "llvm.aarch64.neon.tbl1.v16i8"),
    ):
        if features.get(feature):
            return width, name
    return 0, ""


_WIDTH, _INSTRUCTION = _shuffle()


def _emit_sums(
    builder: Any, groups: Any, tables: Any, first: Any, word: Any, start: Any
) -> list[Any]:
    """Emit the sums of the entries of one word, for _BLOCK codes in vectors of _WIDTH.

    The tables of the query begin at tables[first].
    """
    byte, size = ir.IntType(8), ir.IntType(64)
    entries, lanes = ir.VectorType(byte, 16), ir.VectorType(byte, _WIDTH)
    wide = ir.VectorType(ir.IntType(16), _WIDTH)
    order = ir.Constant(ir.VectorType(ir.IntType(32), _WIDTH), [i % 16 for i in range(_WIDTH)])
    kind = ir.FunctionType(lanes, [lanes, lanes])
    look_up = cgutils.get_or_insert_function(builder.module, kind, _INSTRUCTION)
    n_parts = _BLOCK // _WIDTH
    total = [ir.Constant(wide, None)] * n_parts
    half = [ir.Constant(lanes, None)] * n_parts
    before = builder.mul(word, ir.Constant(size, _GROUPS))
    for g in range(_GROUPS):
        group = builder.add(before, ir.Constant(size, g))
        place = builder.add(first, builder.mul(group, ir.Constant(size, 16)))
        table = builder.load(_at(builder, tables, place, entries), align=1)
        table = builder.shuffle_vector(table, ir.Constant(entries, ir.Undefined), order)
        row = builder.add(builder.mul(group, ir.Constant(size, _ROW)), start)
        for part in range(n_parts):
            place = builder.add(row, ir.Constant(size, part * _WIDTH))
            index = builder.load(_at(builder, groups, place, lanes), align=1)
            found = builder.call(look_up, [table, index])
            half[part] = found if g % _HALF == 0 else builder.add(half[part], found)
            if g % _HALF == _HALF - 1:
                total[part] = builder.add(total[part], builder.zext(half[part], wide))
    return total


def _emit_mask(builder: Any, total: Any, place: Any, data: Any, numbers: Any) -> Any:
    """Emit which bounds offset - slope * (factor * sum + shift) are below the limit, as bits."""
    count = total.type.count
    lanes = ir.VectorType(ir.FloatType(), count)
    kind = ir.FunctionType(lanes, [lanes] * 3)
    fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{count}f32")
    factor, shift, limit = (_repeat(builder, number, lanes) for number in numbers)
    offsets, slopes = (builder.load(_at(builder, d, place, lanes), align=1) for d in data)
    largest = builder.call(fused, [builder.uitofp(total, lanes), factor, shift])
    bound = builder.call(fused, [builder.fneg(slopes), largest, offsets])
    return builder.bitcast(builder.fcmp_ordered("<", bound, limit), ir.IntType(count))


@intrinsic  # type: ignore[untyped-decorator]
def _add_word_at_once(
    typing_context: Any, groups: Any, tables: Any, first: Any, word: Any, start: Any, sums: Any
) -> Any:
    """Add the entries of one word to sums[start : start + _BLOCK]."""
    signature = types.void(groups, tables, first, word, start, sums)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = [_data(context, builder, signature, args, i) for i in (0, 1, 5)]
        for part, more in enumerate(_emit_sums(builder, *data[:2], *args[2:5])):
            place = builder.add(args[4], ir.Constant(ir.IntType(64), part * _WIDTH))
            address = _at(builder, data[2], place, more.type)
            before = builder.load(address, align=1)
            builder.store(builder.add(before, more), address, align=1)
        return context.get_dummy_value()

    return signature, codegen


@_compiled
def _add_word_one_by_one(
    groups: Any, tables: Any, first: int, word: int, start: int, sums: Any
) -> None:
    for g in range(_GROUPS * word, _GROUPS * (word + 1)):
        index = groups[g, start : start + _BLOCK]
        for j in range(_BLOCK):
            sums[start + j] += tables[first + 16 * g + index[j]]


_add_word = _add_word_at_once if _WIDTH else _add_word_one_by_one


@intrinsic  # type: ignore[untyped-decorator]
def _mask_sums(
    typing_context: Any,
    sums: Any,
    start: Any,
    offsets: Any,
    slopes: Any,
    factor: Any,
    shift: Any,
    limit: Any,
    masks: Any,
) -> Any:
    """Set the bits of those codes from `start`, _BLOCK in all, that may be below the limit."""
    signature = types.void(sums, start, offsets, slopes, factor, shift, limit, masks)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums, offsets, slopes, masks = (
            _data(context, builder, signature, args, i) for i in (0, 2, 3, 7)
        )
        wide = ir.VectorType(ir.IntType(16), _LANES)
        for part in range(_BLOCK // _LANES):
            place = builder.add(args[1], ir.Constant(ir.IntType(64), part * _LANES))
            total = builder.load(_at(builder, sums, place, wide), align=1)
            mask = _emit_mask(builder, total, place, (offsets, slopes), args[4:7])
            address = builder.gep(masks, [ir.Constant(ir.IntType(64), part)])
            builder.store(mask, address, align=1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def _mask_one_word(
    typing_context: Any,
    groups: Any,
    tables: Any,
    first: Any,
    start: Any,
    offsets: Any,
    slopes: Any,
    factor: Any,
    shift: Any,
    limit: Any,
    masks: Any,
) -> Any:
    """Do both for codes of one word, whose sums stay in registers."""
    given = (groups, tables, first, start, offsets, slopes, factor, shift, limit, masks)
    signature = types.void(*given)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        groups, tables, offsets, slopes, masks = (
            _data(context, builder, signature, args, i) for i in (0, 1, 4, 5, 9)
        )
        size = ir.IntType(64)
        sums = _emit_sums(builder, groups, tables, args[2], ir.Constant(size, 0), args[3])
        for part, total in enumerate(sums):
            place = builder.add(args[3], ir.Constant(size, part * _WIDTH))
            mask = _emit_mask(builder, total, place, (offsets, slopes), args[6:9])
            few = builder.bitcast(masks, mask.type.as_pointer())
            builder.store(mask, builder.gep(few, [ir.Constant(size, part)]), align=1)
        return context.get_dummy_value()

    return signature, codegen


@_compiled
def _tables(weights: Any, exact: Any, short: Any, n_groups: int) -> Any:
    """Fill the tables of one query; return factor and shift of its bound on the sum.

    exact[16 * g + x] is the sum of ±v over the four bits x of group g; short[16 * g + x] is the
    same, from zero and in steps of `factor`.
    """
    sizes = np.zeros(n_groups, np.int64)
    largest = 1
    of_half = 0
    for g in range(n_groups):
        if g % _HALF == 0:
            of_half = 0
        for j in range(4):
            sizes[g] += abs(weights[4 * g + j])
        of_half += 2 * sizes[g]
        largest = max(largest, of_half)
        for x in range(16):
            total = 0
            for j in range(4):
                v = weights[4 * g + j]
                total += v if (x >> (3 - j)) & 1 else -v
            exact[16 * g + x] = total
    factor = largest / _LARGEST_SUM
    error = 0.0
    for g in range(n_groups):
        worst = 0.0
        for x in range(16):
            value = exact[16 * g + x] + sizes[g]
            entry = np.int64(value / factor + 0.5)
            short[16 * g + x] = entry
            worst = max(worst, value - factor * entry)
        error += worst
    size = float(sizes.sum())
    return factor, error - size + _ROUNDING * (size + 1.0)


@_inlined
def _score(
    words: Any, row: Any, tables: Any, first: int, step: Any, offset: Any, slope: Any
) -> Any:
    """Return the exact score of a code; unsigned numbers need no test for negative indices."""
    total, place = 0, np.uint64(first)
    for w in range(words.shape[0]):
        word = words[w, row]
        for _ in range(8):
            total += tables[place + ((word >> np.uint64(4)) & np.uint64(15))]
            total += tables[place + np.uint64(16) + (word & np.uint64(15))]
            word >>= np.uint64(8)
            place += np.uint64(32)
    return offset - slope * (np.float32(total) * step)


@_compiled
def _kth(values: Any, n: int, k: int) -> Any:
    """Return the k-th smallest of n values, k from 1; their order changes."""
    low, high, wanted = 0, n - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            break
    return values[wanted]


@_compiled
def _keep_nearest(scores: Any, rows: Any, n: int, k: int, copy: Any) -> Any:
    """Keep the k nearest of n candidates in their order; return the score of the last."""
    copy[:n] = scores[:n]
    limit = _kth(copy, n, k)
    nearer = 0
    for i in range(n):
        nearer += scores[i] < limit
    n_equal, left = k - nearer, 0
    for i in range(n):
        equal = scores[i] == limit and n_equal > 0
        if scores[i] < limit or equal:
            scores[left], rows[left] = scores[i], rows[i]
            left += 1
            n_equal -= equal
    return limit


@_compiled
def _scan(
    words: Any,
    halves: Any,
    missing: Any,
    weights: Any,
    steps: Any,
    k: int,
    scores: Any,
    rows: Any,
) -> None:
    """Write the k nearest codes of each query to scores[q, :k] and rows[q, :k], rows increasing."""
    n_queries, n_words, n_codes = len(weights), words.shape[0], words.shape[1]
    n_groups = _GROUPS * n_words
    exact = np.empty(n_queries * 16 * n_groups, np.int32)
    short = np.empty(n_queries * 16 * n_groups, np.uint8)
    factors, shifts = np.empty(n_queries, np.float32), np.empty(n_queries, np.float32)
    for q in range(n_queries):
        own = slice(q * 16 * n_groups, (q + 1) * 16 * n_groups)
        factor, shift = _tables(weights[q], exact[own], short[own], n_groups)
        factors[q], shifts[q] = factor * steps[q], shift * steps[q]
    limits = np.full(n_queries, np.inf, np.float32)
    held = np.zeros(n_queries, np.int64)
    groups = np.zeros((n_groups, _ROW), np.uint8)
    sums, masks = np.empty(_TILE, np.uint16), np.empty(_BLOCK // _LANES, np.uint64)
    offsets, slopes = np.zeros(_TILE, np.float32), np.ones(_TILE, np.float32)
    copy = np.empty(scores.shape[1], np.float32)
    tile = _TILE if n_words == 1 else _BLOCK  # to stay in the cache
    for start in range(0, n_codes, tile):
        stop = min(start + tile, n_codes)
        _split(words, start, stop, groups)
        if halves.shape[1]:
            _as_floats(halves[0], start, stop, missing[0], offsets)
            _as_floats(halves[1], start, stop, missing[1], slopes)
        offsets[stop - start :] = np.inf  # never below a limit
        slopes[stop - start :] = 0.0
        end = -(-(stop - start) // _BLOCK) * _BLOCK
        for q in range(n_queries):
            limit, n = limits[q], held[q]
            first = q * 16 * n_groups  # no views of tables here: making one is not free
            factor, shift, step = factors[q], shifts[q], steps[q]
            if n_words > 1 or not _WIDTH:
                sums[:end] = 0
            for block in range(0, end, _BLOCK):
                if n_words == 1 and _WIDTH:
                    _mask_one_word(
                        groups, short, first, block, offsets, slopes, factor, shift, limit, masks
                    )
                else:
                    for w in range(n_words):
                        _add_word(groups, short, first, w, block, sums)
                    _mask_sums(sums, block, offsets, slopes, factor, shift, limit, masks)
                for i in range(_BLOCK // _LANES):
                    mask = masks[i]
                    while mask != 0:
                        j = block + _LANES * i + np.int64(_lowest_bit(mask))
                        mask &= mask - np.uint64(1)
                        row = np.uint64(start + j)
                        score = _score(words, row, exact, first, step, offsets[j], slopes[j])
                        if score < limit:
                            scores[q, n], rows[q, n] = score, start + j
                            n += 1
                            if n == scores.shape[1]:
                                limit = _keep_nearest(scores[q], rows[q], n, k, copy)
                                n = k
            limits[q], held[q] = limit, n
    for q in range(n_queries):
        if held[q] > k:
            _keep_nearest(scores[q], rows[q], held[q], k, copy)


def nearest_rows(
    words: Any, halves: Any, missing: Any, weights: Any, steps: Any, k: int
) -> tuple[Any, Any]:
    """Return scores and rows of the k nearest codes per query, by (score, row).

    Parameters
    ----------
    words : uint64 array of shape (n_words, n)
        Codes, word by word.
    halves : uint16 array of shape (2, n) or (2, 0)
        Offsets and slopes, as the bits of float16; without columns they are 0 and 1.
    missing : float32 array of shape (2,)
        Offset and slope of codes that have NaN.
    weights : int32 array of shape (n_queries, 64 n_words)
    steps : float32 array of shape (n_queries,)
    k : int
        At most n.
    """
    scores = np.empty((len(weights), k + _SPARE), np.float32)
    rows = np.empty(scores.shape, np.int64)
    _scan(words, halves, missing, weights, steps, k, scores, rows)
    order = np.argsort(scores[:, :k], axis=1, kind="stable")
    return (
        np.take_along_axis(scores[:, :k], order, axis=1),
        np.take_along_axis(rows[:, :k], order, axis=1),
    )


assert sys.byteorder == "little", "codes are bytes of little-endian words"
