"""Triton kernels: halves, group minima, selection, exact distances, sparse product.

Kernels are not specialised for values that change between calls (rows, k, groups), so each is
compiled once per data type and width. All sums have a fixed order: the same input gives the same
bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

NOWHERE = tl.constexpr(2147483647)  # position of no row


@triton.jit(do_not_specialize=["n", "d", "group"])
def halves(
    X, CENTRE, SCALE, OUT, REST, REST_SPLIT, n, d, width, group,
    SPLIT: tl.constexpr, IS_ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Convert a centred and scaled row to fp16; store the norms of the remainders.

    With SPLIT a row is three times as wide, from high and low halves: the product of two rows is
    low·high + high·low + high·high. Small terms come first, while the rounding of the sum is small.
    Rows are laid out so that `group` consecutive ones are in one thread of `tl.dot`.
    """
    row = tl.program_id(0).to(tl.int64)
    inside = row < n
    r = row % (4 * group)
    place = row - r + r % group // 2 * 8 + r // group * 2 + r % 2
    out = OUT + place * (3 * width if SPLIT else width)
    scale = tl.load(SCALE)
    rest = tl.zeros((BLOCK,), tl.float32)
    rest_split = tl.zeros((BLOCK,), tl.float32)
    for c in range(0, width, BLOCK):
        at = c + tl.arange(0, BLOCK)
        x = tl.load(X + row * d + at, mask=inside & (at < d), other=0.0)
        x -= tl.load(CENTRE + at, mask=inside & (at < d), other=0.0)
        x = (x * scale).to(tl.float32)
        high = x.to(tl.float16)
        x -= high.to(tl.float32)
        rest += x * x
        low = x.to(tl.float16)
        x -= low.to(tl.float32)
        rest_split += x * x
        if SPLIT:
            tl.store(out + at, high if IS_ROWS else low)
            tl.store(out + width + at, low if IS_ROWS else high)
            tl.store(out + 2 * width + at, high)
        else:
            tl.store(out + at, high)
    tl.store(REST + row, tl.sqrt(tl.sum(rest)))
    tl.store(REST_SPLIT + row, tl.sqrt(tl.sum(rest_split)))


@triton.jit
def _least_of_groups(v, BM: tl.constexpr, BN: tl.constexpr, G: tl.constexpr):
    """Return minima of groups of G columns, all in one thread, so without communication."""
    v = tl.reshape(v, (BM, BN // (4 * G), G // 2, 4, 2))
    return tl.reshape(tl.min(tl.min(v, axis=4), axis=2), (BM, BN // G))


@triton.jit(do_not_specialize=["n", "n_tiles", "per_program"])
def minima_narrow(
    A, B, HALF, M, n, n_tiles, per_program, n_groups,
    K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Compute group minima of |b|²/2 - a·b for rows of K columns; queries stay in registers."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk, rg = tl.arange(0, K), tl.arange(0, BN // G)
    ok = rm < n
    a = tl.load(A + rm[:, None] * K + rk[None, :], mask=ok[:, None], other=0.0)
    first = tl.program_id(1) * per_program
    for t in tl.range(first, tl.minimum(first + per_program, n_tiles)):
        rn = t * BN + tl.arange(0, BN)
        products = tl.dot(a, tl.load(B + rn[None, :].to(tl.int64) * K + rk[:, None]))
        half = tl.load(HALF + rn)  # not before the products: registers
        least = _least_of_groups(half[None, :] - products, BM, BN, G)
        out = M + rm.to(tl.int64)[:, None] * n_groups + (t * (BN // G) + rg)[None, :]
        tl.store(out, least, mask=ok[:, None])


@triton.jit(do_not_specialize=["n", "n_tiles"])
def minima_wide(
    A, B, HALF, M, n, n_tiles, n_groups,
    K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    G: tl.constexpr, BAND: tl.constexpr,
):  # fmt: skip
    """Compute the same for wider rows: one tile per program, in bands that fit into the L2."""
    at, n_bands = tl.program_id(0), tl.cdiv(n, BM)
    first = at // (BAND * n_tiles) * BAND
    band = tl.minimum(n_bands - first, BAND)
    pm = first + at % (BAND * n_tiles) % band
    pn = at % (BAND * n_tiles) // band
    rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    ok = rm < n
    a = A + tl.where(ok, rm, 0)[:, None].to(tl.int64) * K + rk[None, :]
    b = B + rn[None, :].to(tl.int64) * K + rk[:, None]
    products = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        products = tl.dot(tl.load(a), tl.load(b), products)
        a += BK
        b += BK
    half = tl.load(HALF + rn)
    least = _least_of_groups(half[None, :] - products, BM, BN, G)
    out = M + rm.to(tl.int64)[:, None] * n_groups
    tl.store(out + (pn * (BN // G) + tl.arange(0, BN // G))[None, :], least, mask=ok[:, None])


@triton.jit(do_not_specialize=["k", "n_parts"])
def select(M, LIST, LOW, BOUND, SQUARE, COUNT, delta, k, n_parts, n_groups, W: tl.constexpr):
    """List the groups that may contain one of the k nearest, in order; one query per program.

    The limit is the k-th smallest of W minima over disjoint sets of groups: at least k rows have
    values up to it. LIST is M itself: the list overwrites minima that were already read. LOW stores
    the minimum of each part of W groups, so that most parts are not read again.
    """
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, W)
    M += row * n_groups
    LIST += row * n_groups
    LOW += row * n_parts
    best = tl.full((W,), float("inf"), tl.float32)
    for part in range(n_parts):
        at = part * W + lane
        v = tl.load(M + at, mask=at < n_groups, other=float("inf"))
        best = tl.minimum(best, v)
        tl.store(LOW + part, tl.min(v, axis=0))
    for _ in range(1, k):
        best = tl.where(lane == tl.argmin(best, axis=0), float("inf"), best)
    kth = tl.min(best, axis=0)
    bound = tl.load(BOUND + row)
    far = tl.maximum(2 * (kth + bound) + tl.load(SQUARE + row), 0.0)  # squared distance, at most
    cut = kth + 2 * bound + delta * far
    tl.debug_barrier()  # LOW was written by one thread and is read by all
    count = 0
    for part in range(n_parts):
        if tl.load(LOW + part) <= cut:
            at = part * W + lane
            v = tl.load(M + at, mask=at < n_groups, other=float("inf"))
            hit = ((v <= cut) & (at < n_groups)).to(tl.int32)
            tl.store(LIST + count + tl.cumsum(hit, axis=0) - 1, at, mask=hit > 0)
            count += tl.sum(hit, axis=0)
    tl.store(COUNT + row, count)


@triton.jit(do_not_specialize=["n_rows", "k", "shift", "longest"])
def recheck(
    Q, R, LIST, COUNT, F, J, n_rows, n_groups, d, k, shift, longest,
    P: tl.constexpr, BD: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """Find the k nearest rows in the listed groups of 2**shift rows, by (distance, position).

    Distances are Σ (q - r)², P rows at a time. Lists are ordered by position, so a later row
    replaces an earlier one only if it is strictly nearer. A k-th distance of zero ends the search.
    """
    row = tl.program_id(0).to(tl.int64)
    n_listed = tl.load(COUNT + row)
    if n_listed <= longest:
        n_listed = n_listed << shift
        place = tl.arange(0, KP)
        best = tl.full((KP,), float("inf"), Q.dtype.element_ty)
        where = tl.full((KP,), NOWHERE, tl.int32)
        last = tl.full((), float("inf"), Q.dtype.element_ty)
        start = 0
        while (start < n_listed) & (last > 0):
            e = start + tl.arange(0, P)
            live = e < n_listed
            group = tl.load(LIST + row * n_groups + (e >> shift), mask=live, other=0)
            j = (group << shift) + (e & ((1 << shift) - 1))
            live = live & (j < n_rows)
            D = tl.zeros((P,), Q.dtype.element_ty)
            for c in range(0, d, BD):
                at = c + tl.arange(0, BD)
                q = tl.load(Q + row * d + at, mask=at < d, other=0.0)
                r = R + j.to(tl.int64)[:, None] * d + at[None, :]
                x = tl.load(r, mask=live[:, None] & (at < d)[None, :], other=0.0) - q[None, :]
                D += tl.sum(x * x, axis=1)
            D = tl.where(live, D, float("inf"))
            j = tl.where(live, j, NOWHERE)
            if tl.min(D, axis=0) < last:
                merged = tl.full((KP,), float("inf"), Q.dtype.element_ty)
                merged_where = tl.full((KP,), NOWHERE, tl.int32)
                for i in range(k):
                    last = tl.minimum(tl.min(best, axis=0), tl.min(D, axis=0))
                    here = tl.min(tl.where(best == last, where, NOWHERE), axis=0)
                    here = tl.minimum(here, tl.min(tl.where(last == D, j, NOWHERE), axis=0))
                    merged = tl.where(place == i, last, merged)
                    merged_where = tl.where(place == i, here, merged_where)
                    best = tl.where(where == here, float("inf"), best)
                    D = tl.where(j == here, float("inf"), D)
                best = merged
                where = merged_where
            start += P
        tl.store(F + row * k + place, best, mask=place < k)
        tl.store(J + row * k + place, where.to(tl.int64), mask=place < k)


@triton.jit
def sparse_rows(START, STOP, PLACE, COLUMNS, WEIGHTS, H, OUT, d, BD: tl.constexpr, U: tl.constexpr):
    """OUT[place] = Σ weight · H[column] over the entries of one piece of a row, in order."""
    piece = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BD + tl.arange(0, BD)
    stop = tl.load(STOP + piece)
    total = tl.zeros((BD,), H.dtype.element_ty)
    for e in range(tl.load(START + piece), stop, U):
        entry = e + tl.arange(0, U)
        ok = entry < stop
        column = tl.load(COLUMNS + entry, mask=ok, other=0).to(tl.int64)
        weight = tl.load(WEIGHTS + entry, mask=ok, other=0.0).to(H.dtype.element_ty)
        h = H + column[:, None] * d + at[None, :]
        h = tl.load(h, mask=ok[:, None] & (at < d)[None, :], other=0.0)
        total += tl.sum(weight[:, None] * h, axis=0)
    place = tl.load(PLACE + piece).to(tl.int64)
    tl.store(OUT + place * d + at, total, mask=at < d)
