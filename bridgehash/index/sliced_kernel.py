"""The compiled scan for many queries: one bit of 512 codes per vector, counted by full adders.

A tile of codes is transposed once, for all queries: a plane holds one bit of every code. The
distance of code a to query q is |q| + |a| - 2 S, where S counts the ones of `a` at the ones of q;
it is |q| - |a| + 2 S', where S' counts those at the zeros. So a query adds the planes of its rarer
bit, half of them at most, 512 codes per instruction. The sums stay bit by bit and are compared so
with the limit of the query. Only codes below it are looked at one by one, in the order of rows.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiled import (
    _at,
    _compact,
    _compiled,
    _data,
    _hold,
    _inlined,
    _lowest_bit,
    _popcount,
    _repeat,
)

LANES = 8  # words per plane
TILE = 64 * LANES  # codes
MOST_WORDS = 4  # of a code: S has 8 bits
_TOGETHER = 16  # planes that are added at once
_SUM_BITS = 8
_LENGTH_BITS = 9  # of |a|
_LIMIT_WORDS = _LENGTH_BITS + 2  # of a limit, see `_set_limit`
_SUM, _MAJORITY = 0x96, 0xE8  # truth tables of a full adder
_SIZE, _VECTOR = ir.IntType(64), ir.VectorType(ir.IntType(64), LANES)
# The steps of a transposition of 64 x 64 bits: by how much, and which bits.
_STEPS = (
    (32, 0x00000000FFFFFFFF),
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def _has_ternary() -> bool:
    """Whether the processor has one instruction for any function of three bits (AVX-512)."""
    known = numba.config.CPU_NAME in (None, "host")  # else compiled for another processor
    return known and bool(binding.get_host_cpu_features().get("avx512f"))


_TERNARY = _has_ternary()


def _number(value: int) -> Any:
    return ir.Constant(_SIZE, value)


def _repeated(value: int) -> Any:
    return ir.Constant(_VECTOR, [_number(value)] * LANES)


def _emit_adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Emit a full adder: the sum of three bits and its carry."""
    if not _TERNARY:
        differ = builder.xor(a, b)
        carry = builder.or_(builder.and_(a, b), builder.and_(differ, c))
        return builder.xor(differ, c), carry
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3 + [ir.IntType(32)])
    name = "llvm.x86.avx512.pternlog.q.512"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    tables = (ir.Constant(ir.IntType(32), table) for table in (_SUM, _MAJORITY))
    total, carry = (builder.call(function, [a, b, c, table]) for table in tables)
    return total, carry


def _emit_counts(builder: Any, planes: Any, chosen: Any, first: Any, n: Any, n_bits: int) -> Any:
    """Emit how many of the n chosen planes are one, as n_bits vectors."""
    held = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, None)) for _ in range(n_bits)]
    n_blocks = builder.udiv(n, _number(_TOGETHER))
    with cgutils.for_range(builder, n_blocks) as loop:
        start = builder.add(first, builder.mul(loop.index, _number(_TOGETHER)))
        more = []
        for i in range(_TOGETHER):
            at = builder.load(builder.gep(chosen, [builder.add(start, _number(i))]))
            more.append(builder.load(_at(builder, planes, at, _VECTOR), align=8))
        for own in held[:4]:  # 16 planes give 8 carries, these 4, then 2 and 1
            total, carries = builder.load(own), []
            for a, b in zip(more[::2], more[1::2], strict=True):
                total, carry = _emit_adder(builder, total, a, b)
                carries.append(carry)
            builder.store(total, own)
            more = carries
        carry = more[0]
        for own in held[4:]:
            total = builder.load(own)
            builder.store(builder.xor(total, carry), own)
            carry = builder.and_(total, carry)
    return [builder.load(own) for own in held]


@intrinsic  # type: ignore[untyped-decorator]
def _transpose(typing_context: Any, words: Any, start: Any, planes: Any, first: Any) -> Any:
    """Write plane b of words[start : start + TILE] to planes[first + LANES * b], for 64 bits.

    Bit i of word j of a plane belongs to code 8 i + j.
    """
    signature = types.void(words, start, planes, first)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, planes = (_data(context, builder, signature, args, i) for i in (0, 2))
        # Two passes of three steps, on eight rows at a time: first i, i + 8, ..., then 8 i, 8 i + 1
        for source, begin, outer, inner, steps in (
            (words, args[1], 1, 8, _STEPS[:3]),
            (planes, args[3], 8, 1, _STEPS[3:]),
        ):
            with cgutils.for_range(builder, _number(8)) as loop:
                row = builder.mul(loop.index, _number(outer))
                places = [
                    builder.mul(builder.add(row, _number(inner * i)), _number(LANES))
                    for i in range(8)
                ]
                x = [
                    builder.load(_at(builder, source, builder.add(begin, place), _VECTOR), align=8)
                    for place in places
                ]
                for shift, mask in steps:
                    by = _repeated(shift)
                    distance = shift // inner
                    for i in (i for i in range(8) if not i & distance):
                        moved = builder.xor(builder.lshr(x[i], by), x[i + distance])
                        moved = builder.and_(moved, _repeated(mask))
                        x[i + distance] = builder.xor(x[i + distance], moved)
                        x[i] = builder.xor(x[i], builder.shl(moved, by))
                for place, value in zip(places, x, strict=True):
                    at = _at(builder, planes, builder.add(args[3], place), _VECTOR)
                    builder.store(value, at, align=8)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def _lengths(typing_context: Any, planes: Any, chosen: Any, first: Any, n: Any, to: Any) -> Any:
    """Write the complement of the number of ones in the chosen planes, bit by bit."""
    signature = types.void(planes, chosen, first, n, to)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        planes, chosen, to = (_data(context, builder, signature, args, i) for i in (0, 1, 4))
        counts = _emit_counts(builder, planes, chosen, args[2], args[3], _LENGTH_BITS)
        for i, bits in enumerate(counts):
            builder.store(
                builder.not_(bits), _at(builder, to, _number(i * LANES), _VECTOR), align=8
            )
        return context.get_dummy_value()

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def _mask_below(
    typing_context: Any,
    planes: Any,
    chosen: Any,
    first: Any,
    n: Any,
    lengths: Any,
    limits: Any,
    place: Any,
    masks: Any,
) -> Any:
    """Write which codes are below the limit at limits[place] (see `_set_limit`); return if any."""
    signature = types.uint64(planes, chosen, first, n, lengths, limits, place, masks)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        planes, chosen, lengths, limits, masks = (
            _data(context, builder, signature, args, i) for i in (0, 1, 4, 5, 7)
        )
        counts = _emit_counts(builder, planes, chosen, args[2], args[3], _SUM_BITS)
        inverted = [
            builder.load(_at(builder, lengths, _number(i * LANES), _VECTOR), align=8)
            for i in range(_LENGTH_BITS)
        ]
        # The complement of |a| is 511 - |a|.
        bits, carry = inverted[:1], ir.Constant(_VECTOR, None)
        for a, b in zip(counts, inverted[1:], strict=True):
            total, carry = _emit_adder(builder, a, b, carry)
            bits.append(total)
        words = [
            _repeat(
                builder,
                builder.load(builder.gep(limits, [builder.add(args[6], _number(i))])),
                _VECTOR,
            )
            for i in range(_LIMIT_WORDS)
        ]
        reached = _repeated(-1)
        for bit, absent in zip([*bits, carry], words[:-1], strict=True):
            reached = _emit_adder(builder, bit, reached, absent)[1]
        reached = builder.xor(reached, words[-1])
        builder.store(reached, _at(builder, masks, _number(0), _VECTOR), align=8)
        kind = ir.FunctionType(_SIZE, [_VECTOR])
        name = f"llvm.vector.reduce.or.v{LANES}i64"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [reached])

    return signature, codegen


@_inlined
def _set_limit(limits: Any, q: int, limit: int, length: int, of_ones: bool) -> None:
    """Write the limit of query q, of which `length` bits are ones, as `_mask_below` needs it.

    A code is below the limit if 2 S + 511 - |a| >= |q| - limit + 512, or if not
    2 S' + 511 - |a| >= limit - |q| + 511. There is one word per bit of the right side, with ones
    where it is zero, and one word that inverts the result.
    """
    least = length - limit + 512 if of_ones else limit - length + 511
    for i in range(_LIMIT_WORDS - 1):
        limits[q, i] = np.uint64(0) if (least >> i) & 1 else ~np.uint64(0)
    limits[q, _LIMIT_WORDS - 1] = np.uint64(0) if of_ones else ~np.uint64(0)


@_compiled
def _choose(query: Any, chosen: Any) -> Any:
    """Write where the planes of the rarer bit of a query begin, padded with the plane of zeros.

    Returns how many there are, the number of ones in the query, and whether they are of the ones.
    """
    length = 0
    for word in query:
        length += np.int64(_popcount(word))
    n_planes, n = 64 * len(query), 0
    of_ones = 2 * length <= n_planes
    for j in range(n_planes):
        is_one = (query[j // 64] >> np.uint64(j % 64)) & np.uint64(1) == np.uint64(1)
        if is_one == of_ones:
            chosen[n] = j * LANES
            n += 1
    while n % _TOGETHER:
        chosen[n] = n_planes * LANES
        n += 1
    return n, length, of_ones


@_inlined
def _distance(words: Any, row: int, query: Any) -> int:
    total = 0
    for i in range(len(query)):
        total += np.int64(_popcount(words[i, row] ^ query[i]))
    return total


@_compiled
def scan_tiles(
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
) -> int:
    """Do what `_scan` of kernel.py does for whole tiles from `first`; return where they end."""
    n_queries, n_words = queries.shape
    n_planes = 64 * n_words
    planes = np.zeros((n_planes + 1) * LANES, np.uint64)  # the last one is zero
    chosen = np.empty((n_queries + 1, n_planes), np.int64)
    n_chosen, lengths = np.empty(n_queries, np.int64), np.empty(n_queries, np.int64)
    of_ones = np.empty(n_queries, np.bool_)
    for j in range(n_planes):
        chosen[n_queries, j] = j * LANES
    levels = np.empty((n_queries, _LIMIT_WORDS), np.uint64)
    for q in range(n_queries):
        n_chosen[q], lengths[q], of_ones[q] = _choose(queries[q], chosen[q])
        _set_limit(levels, q, limits[q], lengths[q], of_ones[q])
    inverted = np.empty(_LENGTH_BITS * LANES, np.uint64)
    masks = np.empty(LANES, np.uint64)
    last = first + (words.shape[1] - first) // TILE * TILE
    for start in range(first, last, TILE):
        for i in range(n_words):
            _transpose(words[i], start, planes, 64 * i * LANES)
        _lengths(planes, chosen, n_queries * n_planes, n_planes, inverted)
        for q in range(n_queries):
            own, place = q * n_planes, q * _LIMIT_WORDS
            some = _mask_below(planes, chosen, own, n_chosen[q], inverted, levels, place, masks)
            if some == 0:
                continue
            limit, n, met = limits[q], held[q], below[q]
            if n + TILE > held_r.shape[1]:
                n = _compact(held_d[q], held_r[q], n, limit, k - met)
            while some != 0:
                i = _lowest_bit(some)
                some &= some - np.uint64(1)
                for j in range(LANES):
                    if (masks[j] >> i) & np.uint64(1):
                        row = start + LANES * np.int64(i) + j
                        d = _distance(words, row, queries[q])
                        limit, n, met = _hold(d, row, q, k, limit, n, met, counts, held_d, held_r)
            if limit != limits[q]:
                _set_limit(levels, q, limit, lengths[q], of_ones[q])
            limits[q], held[q], below[q] = limit, n, met
    return last
