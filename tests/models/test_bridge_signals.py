"""Signals of a bridge: by their definition, and what they say about right and wrong bridges."""

import numpy as np
import pytest

from bridgehash.models.bridge_signals import Side, bridge_signals, effective_rank, separable

N, BITS, CLASSES = 120, 32, 4


def rows(seed, n=N):
    """Rows of classes at unequal distances, and their classes."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(CLASSES, 12)) * np.arange(1, 5)[:, None]
    y = np.arange(n) % CLASSES
    return centres[y] + rng.normal(size=(n, 12)), y


def codes(X, seed=7):
    P = np.random.default_rng(seed).normal(size=(X.shape[1], BITS))
    return np.where((X - X.mean(axis=0)) @ P > 0, 1.0, -1.0)


@pytest.fixture
def right():
    (X, y), (Z, z) = rows(0), rows(1)
    return Side.of(X, codes(X), y), Side.of(Z, codes(Z), z)


def chance(side, seed=3):
    """The same rows, with the codes of other rows."""
    order = np.random.default_rng(seed).permutation(len(side.B))
    return Side(side.U, side.B[order], side.y, side.given, side.n_rows)


def test_a_right_bridge_is_told_from_chance(right):
    source, target = right
    good = bridge_signals(source, target, same_space=True)
    bad = bridge_signals(source, chance(target), same_space=True)
    for name in ("cycle_target", "structure_source", "structure_target", "clusters", "raw"):
        assert good[name] > 0.5, name
        assert bad[name] < good[name] - 0.3, name
    assert good["separable_votes"] > bad["separable_votes"] + 0.2


def test_classes_that_are_exchanged_lower_the_structure(right):
    source, target = right
    Z, y = rows(1)
    wrong = codes(Z)[np.argsort(np.argsort((y + 1) % CLASSES, kind="stable"))]
    exchanged = Side(target.U, wrong.astype(np.float32), y, None, N)
    good = bridge_signals(source, target, same_space=False)
    bad = bridge_signals(source, exchanged, same_space=False)
    assert good["structure_source"] > bad["structure_source"] + 0.1
    assert np.isnan(good["raw"])


def test_signals_do_not_depend_on_the_order_of_the_rows(right):
    source, target = right
    order = np.random.default_rng(0).permutation(N)
    mixed = Side(source.U[order], source.B[order], source.y[order], None, N)
    one = bridge_signals(source, target, same_space=True)
    two = bridge_signals(mixed, target, same_space=True)
    for name in set(one) - {"clusters", "tight_source"}:  # k-means draws rows
        assert one[name] == pytest.approx(two[name], rel=1e-4, abs=1e-5, nan_ok=True), name


def test_separable_is_what_leaving_out_one_row_at_a_time_gives(right):
    source, _ = right
    rng = np.random.default_rng(0)
    y = np.where(rng.random(N) < 0.3, rng.integers(CLASSES, size=N), source.y)
    found = separable(source.S, y, CLASSES)
    S = source.S.astype(float)
    squared = np.maximum(2 - 2 * S, 0)
    K = np.exp(-squared / np.median(squared))
    Y = (y[:, None] == np.arange(CLASSES)).astype(float)
    Y -= Y.mean(axis=0)
    hits = 0
    for i in range(N):
        others = np.arange(N) != i
        A = np.linalg.solve(K[np.ix_(others, others)] + 0.03 * np.eye(N - 1), Y[others])
        hits += (K[i, others] @ A).argmax() == y[i]
    assert 0.4 < found < 1.0
    assert found == pytest.approx(hits / N)


def test_partners_with_equal_codes_come_first(right):
    source, _ = right
    pairs = np.column_stack([np.arange(N)] * 2)
    found = bridge_signals(source, source, same_space=True, pairs=pairs)["partner"]
    shifted = np.column_stack([np.arange(N), np.random.default_rng(0).permutation(N)])
    assert found > 0.9
    assert abs(bridge_signals(source, source, same_space=True, pairs=shifted)["partner"]) < 0.2


def test_effective_rank_counts_independent_bits():
    rng = np.random.default_rng(0)
    bits = np.where(rng.random((4000, 4)) < 0.5, 1.0, -1.0)
    assert effective_rank(bits) == pytest.approx(4.0, rel=0.01)
    assert effective_rank(np.repeat(bits[:, :1], 4, axis=1)) == pytest.approx(1.0)


def test_equal_codes_give_finite_signals(right):
    source, target = right
    flat = Side(target.U, np.ones_like(target.B), target.y, None, N)
    found = bridge_signals(source, flat, same_space=False)
    assert all(np.isfinite(found[name]) for name in ("halves", "mixing", "structure_source"))
