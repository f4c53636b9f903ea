"""Shared by the compiled scans: compiler options, vectors, and candidates of a query."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

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


def _data(context: Any, builder: Any, signature: Any, args: Any, i: int) -> Any:
    """Return the address of the first element of an argument that is an array."""
    return context.make_array(signature.args[i])(context, builder, args[i]).data


def _at(builder: Any, data: Any, place: Any, vector: Any) -> Any:
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


def _repeat(builder: Any, number: Any, lanes: Any) -> Any:
    nothing = ir.Constant(lanes, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), [0] * lanes.count)
    return builder.shuffle_vector(one, nothing, order)


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
def _hold(
    d: int,
    row: int,
    q: int,
    k: int,
    limit: int,
    n: int,
    met: int,
    counts: Any,
    held_distances: Any,
    held_rows: Any,
) -> Any:
    """Add a code if it can be among the k nearest of query q; return limit, n and met after it.

    The query holds n candidates and has met `met` codes below its limit.
    """
    if d < limit:
        held_distances[q, n], held_rows[q, n] = d, row
        n += 1
        counts[q, d] += 1
        met += 1
        while met >= k:  # k codes are nearer: lower the limit
            limit -= 1
            met -= counts[q, limit]
    return limit, n, met
