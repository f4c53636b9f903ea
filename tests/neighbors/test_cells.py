"""The inverted file: exact if all cells are searched, and its recall if only a few are."""

import numpy as np
import pytest

from bridgehash.neighbors import cells as module
from bridgehash.neighbors.cells import Cells, recall
from bridgehash.neighbors.search import nearest


def nearest_in_cells(queries, rows, k, n_probe, n_cells=None):
    return Cells(rows, n_cells=n_cells).nearest(queries, k, n_probe)


def clustered(n=600, d=8, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(20, d))
    return (centres[rng.integers(0, 20, n)] + 0.4 * rng.normal(size=(n, d))).astype(dtype)


def by_loops(queries, rows, k):
    """Return the positions of the k nearest by (distance, position)."""
    D = ((queries[:, None, :] - rows) ** 2).sum(axis=2)
    return np.stack([np.lexsort((np.arange(len(rows)), far))[:k] for far in D])


def check_all_cells():
    """Search all cells: clustered rows in both types, and rows with many equal distances."""
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        queries, rows = clustered(150, seed=1, dtype=dtype), clustered(dtype=dtype)
        for k in (1, 7, 41):
            F, columns = nearest_in_cells(queries, rows, k, n_probe=12, n_cells=12)
            assert F.dtype == dtype
            np.testing.assert_array_equal(columns, by_loops(queries, rows, k))
            expected = ((queries[:, None, :] - rows[columns]) ** 2).sum(axis=2)
            np.testing.assert_allclose(F, expected, rtol=tolerance)
    rng = np.random.default_rng(0)
    queries, rows = (rng.integers(0, 3, (n, 3)).astype(float) for n in (60, 900))
    for k in (1, 5, 30):
        F, columns = nearest_in_cells(queries, rows, k, n_probe=6, n_cells=6)
        np.testing.assert_array_equal(columns, by_loops(queries, rows, k))
        np.testing.assert_array_equal(F, ((queries[:, None, :] - rows[columns]) ** 2).sum(axis=2))


def test_a_search_of_all_cells_is_exact_and_equal_distances_are_ordered_by_position():
    check_all_cells()


def test_small_blocks_and_tiles_give_the_same_result(monkeypatch):
    queries, rows = clustered(100, seed=1), clustered(1000)
    whole = nearest_in_cells(queries, rows, 4, n_probe=3, n_cells=25)
    monkeypatch.setattr(module, "_BLOCK", 37)
    monkeypatch.setattr(module, "_TILE", 300)
    monkeypatch.setattr(module, "_EXACT", 50)
    check_all_cells()
    parts = nearest_in_cells(queries, rows, 4, n_probe=3, n_cells=25)
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_array_equal(parts[1], whole[1])


def test_rows_among_themselves_find_themselves_first():
    rows = clustered()
    F, columns = nearest_in_cells(rows, rows, 5, n_probe=1)
    np.testing.assert_array_equal(columns[:, 0], np.arange(len(rows)))
    assert not F[:, 0].any()


def test_far_from_the_origin_nothing_is_lost():
    queries, rows = clustered(100, seed=1) + 1e5, clustered() + 1e5
    columns = nearest_in_cells(queries, rows, 6, n_probe=9, n_cells=9)[1]
    np.testing.assert_array_equal(columns, by_loops(queries, rows, 6))


def test_recall_grows_with_the_number_of_searched_cells():
    queries, rows = clustered(200, seed=1), clustered(2000)
    cells = Cells(rows, n_cells=40)
    shares = [recall(cells.nearest(queries, 10, p)[0], queries, rows) for p in (1, 2, 4, 8, 40)]
    assert shares == sorted(shares)
    assert shares[0] < shares[2] < 1.0
    assert shares[-1] == 1.0


def test_n_probe_for_a_recall_is_the_smallest_that_reaches_it():
    queries, rows = clustered(200, seed=1), clustered(2000)
    cells = Cells(rows, n_cells=40)
    for wanted in (0.5, 0.9, 1.0):
        n_probe, share = cells.n_probe_for(queries, 10, wanted, most=len(cells.centres))
        assert share >= wanted
        assert recall(cells.nearest(queries, 10, n_probe)[0], queries, rows) >= wanted
        if n_probe > 1:
            assert recall(cells.nearest(queries, 10, n_probe - 1)[0], queries, rows) < wanted


def test_a_sample_of_the_queries_estimates_the_recall_of_all():
    rows = np.random.default_rng(0).normal(size=(3000, 8))
    cells = Cells(rows, n_cells=150)
    F = cells.nearest(rows, 10, 3)[0]
    estimate, true = (recall(F, rows, rows, n_sample=n) for n in (150, 3000))
    assert estimate == pytest.approx(true, abs=0.03)  # 0.1 off for the rows k-means starts from


def test_the_result_is_exact_within_the_searched_cells():
    queries, rows = clustered(100, seed=1), clustered(1000)
    cells = Cells(rows, n_cells=25)
    far = ((queries[:, None, :] - cells.centres) ** 2).sum(axis=2)
    columns = cells.nearest(queries, 4, n_probe=3)[1]
    for i, order in enumerate(np.argsort(far, axis=1)):
        held = np.sort(np.concatenate([cells.members[cell] for cell in order[:3]]))
        np.testing.assert_array_equal(columns[i], held[by_loops(queries[[i]], rows[held], 4)[0]])


def test_each_row_is_in_one_cell():
    cells = Cells(clustered(), n_cells=30)
    np.testing.assert_array_equal(np.sort(np.concatenate(cells.members)), np.arange(600))
    assert len(cells.centres) == len(cells.members)
    assert min(map(len, cells.members)) > 0


def test_many_copies_of_a_row_are_found_by_position():
    rows = np.repeat(np.random.default_rng(0).normal(size=(3, 5)), 400, axis=0)
    F, columns = nearest_in_cells(rows[::400], rows, 6, n_probe=1)
    assert not F.any()
    np.testing.assert_array_equal(columns, [range(s, s + 6) for s in (0, 400, 800)])


def test_rows_that_are_all_equal_can_be_searched():
    F, columns = nearest_in_cells(np.ones((4, 2)), np.ones((300, 2)), 3, n_probe=2)
    assert not F.any()
    np.testing.assert_array_equal(columns, np.tile([0, 1, 2], (4, 1)))


def test_there_may_be_fewer_rows_than_cells():
    queries, rows = clustered(20, seed=1), clustered(5)
    columns = nearest_in_cells(queries, rows, 2, n_probe=50, n_cells=50)[1]
    np.testing.assert_array_equal(columns, by_loops(queries, rows, 2))


def test_more_cells_are_searched_if_they_have_too_few_rows():
    queries, rows = clustered(50, seed=1), clustered(100)
    F, columns = nearest_in_cells(queries, rows, 60, n_probe=1, n_cells=40)
    assert np.isfinite(F).all()
    assert all(len(set(found)) == 60 for found in columns)
    assert recall(F, queries, rows) > 0.8
    np.testing.assert_array_equal(
        nearest_in_cells(queries, rows, 100, n_probe=1, n_cells=40)[1], by_loops(queries, rows, 100)
    )


def test_the_same_seed_gives_the_same_rows():
    queries, rows = clustered(200, seed=1), clustered(2000)
    first, again = (nearest_in_cells(queries, rows, 9, n_probe=2) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_a_result_does_not_depend_on_the_other_queries():
    queries, rows = clustered(200, seed=1), clustered(2000)
    cells = Cells(rows, n_cells=30)
    together, alone = cells.nearest(queries, 5, 2)[1], cells.nearest(queries[50:53], 5, 2)[1]
    np.testing.assert_array_equal(together[50:53], alone)


def test_inputs_are_not_changed():
    queries, rows = clustered(50, seed=1), clustered()
    queries.flags.writeable = rows.flags.writeable = False
    nearest_in_cells(queries, rows, 3, n_probe=2)


def test_recall_is_the_share_found_and_counts_ties():
    rows = np.array([[0.0], [1.0], [-1.0], [5.0]])
    queries = np.zeros((1, 1))
    assert recall(nearest(queries, rows, 2)[0], queries, rows) == 1.0
    assert recall(np.array([[0.0, 25.0]]), queries, rows) == 0.5


def test_a_wrong_number_is_named():
    for wrong, message in (({"k": 0}, "^k: 0"), ({"k": 601}, "^k: 601"), ({"n_probe": 0}, "^n_p")):
        with pytest.raises(ValueError, match=message):
            Cells(clustered()).nearest(clustered(3), **({"k": 1, "n_probe": 1} | wrong))
    with pytest.raises(ValueError, match=r"^n_cells: 0 is not positive"):
        Cells(clustered(), n_cells=0)


def test_few_queries_at_a_time_find_the_same(monkeypatch):
    rows = clustered(dtype=np.float32)
    whole = nearest_in_cells(rows, rows, 9, n_probe=4)
    sizes, map_blocks = [], module.map_blocks

    def counted(work, n_rows, size, **options):
        sizes.append(size)
        return map_blocks(work, n_rows, size, **options)

    monkeypatch.setattr(module, "map_blocks", counted)
    monkeypatch.setattr(module, "_FOUND", 9 * 50)
    for expected, found in zip(whole, nearest_in_cells(rows, rows, 9, n_probe=4), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert 50 in sizes
