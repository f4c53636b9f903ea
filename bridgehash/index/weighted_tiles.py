"""Tiles of codes for the scan with weights: groups of four bits, and corrections as floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiled import _at, _compiled, _data

_LANES = 64
_TILE = 1024  # codes; their groups of four bits fit into the L1 cache
_ROW = _TILE + 64  # bytes between two groups; a power of two would use few sets of the cache
_GROUPS = 16  # of four bits in a word


@intrinsic  # type: ignore[untyped-decorator]
def _split_at_once(typing_context: Any, words: Any, start: Any, groups: Any, place: Any) -> Any:
    """Do what `_split` does for one word of _LANES codes; their groups begin at groups[place]."""
    signature = types.void(words, start, groups, place)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, groups = (_data(context, builder, signature, args, i) for i in (0, 2))
        size, index = ir.IntType(64), ir.IntType(32)
        bytes_, eights = ir.VectorType(ir.IntType(8), 64), ir.VectorType(size, 8)

        def shuffled(a: Any, b: Any, order: list[int]) -> Any:
            mask = ir.Constant(ir.VectorType(index, len(order)), order)
            return builder.shuffle_vector(a, b, mask)

        rows = []
        for i in range(8):  # 8 codes: all their first bytes, then all second ones ...
            at = builder.add(args[1], ir.Constant(size, 8 * i))
            codes = builder.load(_at(builder, words, at, bytes_), align=8)
            order = [8 * code + byte for byte in range(8) for code in range(8)]
            first = shuffled(codes, ir.Constant(bytes_, ir.Undefined), order)
            rows.append(builder.bitcast(first, eights))
        for d in (1, 2, 4):  # a transposition of 8 x 8 such eights
            for i in (i for i in range(8) if not i & d):
                a, b = rows[i], rows[i + d]
                rows[i] = shuffled(a, b, [8 + j - d if j & d else j for j in range(8)])
                rows[i + d] = shuffled(a, b, [8 + j if j & d else j + d for j in range(8)])
        four, low = (ir.Constant(bytes_, [ir.Constant(ir.IntType(8), n)] * 64) for n in (4, 15))
        for c, row in enumerate(rows):
            own = builder.bitcast(row, bytes_)
            for i, bits in enumerate((builder.lshr(own, four), builder.and_(own, low))):
                at = builder.add(args[3], ir.Constant(size, (2 * c + i) * _ROW))
                builder.store(bits, _at(builder, groups, at, bytes_), align=1)
        return context.get_dummy_value()

    return signature, codegen


@_compiled
def _split(words: Any, start: int, stop: int, groups: Any) -> None:
    """Write each group of four bits of codes start..stop to a row of its own."""
    n = stop - start
    flat = groups.reshape(-1)  # slices of one array are known to be contiguous
    for w in range(words.shape[0]):
        word = words[w]
        for j in range(0, n - n % _LANES, _LANES):
            _split_at_once(word, start + j, flat, _GROUPS * w * _ROW + j)
        for j in range(n - n % _LANES, n):
            code = word[start + j]
            for g in range(0, _GROUPS, 2):
                place = (_GROUPS * w + g) * _ROW + j
                flat[place] = (code >> np.uint64(4)) & np.uint64(15)
                flat[place + _ROW] = code & np.uint64(15)
                code >>= np.uint64(8)


@_compiled
def _as_floats(halves: Any, start: int, stop: int, missing: Any, to: Any) -> None:
    """Convert float16, given as uint16, to float32; NaN becomes `missing`."""
    source, n = halves[start:stop], stop - start
    bits = to.view(np.uint32)
    for j in range(n):
        number, sign = source[j] & np.uint16(0x7FFF), source[j] & np.uint16(0x8000)
        bits[j] = (np.uint32(number) << np.uint32(13)) | (np.uint32(sign) << np.uint32(16))
    for j in range(n):  # the exponent of float32 is larger by 112
        is_number = (source[j] & np.uint16(0x7FFF)) <= np.uint16(0x7C00)
        to[j] = to[j] * np.float32(2.0**112) if is_number else missing
