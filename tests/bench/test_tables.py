"""Tables hold what the records say, and say what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bridgehash.bench.spec import Suite, parse_suite
from bridgehash.bench.tables import agreements, number, published, result_table, runs_of
from tests.bench.conftest import ALONE, ATH, TASK, TEXT, Make


def test_a_cell_is_mean_and_spread_over_seeds(suite: Suite, record: Make) -> None:
    records = [record(area, seed=seed) for seed, area in enumerate((0.2, 0.3, 0.7))]
    table = result_table(suite, records, "cross", "radius_pr_area")
    cell = table.rows["ITQ <one>"][0]
    assert cell.mean == pytest.approx(40.0)
    assert cell.spread == pytest.approx(100 * np.std([0.2, 0.3, 0.7]))
    assert (cell.n, cell.n_failed, str(cell)) == (3, 0, "40.0 ± 21.6")
    single = result_table(suite, records, "single", "radius_pr_area").rows["ITQ <one>"][0]
    assert single.mean == pytest.approx(10.0)
    other = result_table(suite, records, "cross", "mean_average_precision").rows["ITQ <one>"][0]
    assert other.mean == pytest.approx(20.0)


def test_missing_and_failed_are_told_apart(suite: Suite, record: Make) -> None:
    records = [
        record(0.4),
        record(error="E: x", seed=1),
        record(**ATH, error="E: y"),
    ]
    table = result_table(suite, records, "cross", "radius_pr_area")
    assert table.columns == [(TASK, 16), (ALONE, 16)]
    assert [[str(cell) for cell in cells] for cells in table.rows.values()] == [
        ["40.0", "-"],
        ["failed", "-"],
    ]
    assert table.rows["ITQ <one>"][0].n_failed == 1
    assert math.isnan(table.rows["ATH"][0].mean)


def test_only_the_fits_of_the_suite_count(suite: Suite, record: Make) -> None:
    others = [
        record(labels="source"),
        record(use="sp"),
        record(params={"max_iter": 3}),
        record(seed=3),
        record(task="pacs/photo.gist512-sketch.gist512"),
        record(n_bits=24),
    ]
    assert runs_of(suite, others) == []
    whole = record(
        use="ath-unsupervised", params={"lam": 1, "start": "pca"}
    )  # 1 and 1.0 are one setting
    assert [run.label for run in runs_of(suite, [*others, whole])] == ["ATH"]


def test_a_fit_counts_once_the_latest_finished_record_of_it(suite: Suite, record: Make) -> None:
    records = [
        record(0.2, finished="2020-01-03"),
        record(0.9, finished="2020-01-02", data={"pacs.npz": "older"}),
        record(error="E: x", finished="2020-01-04", extras=["transfer"]),
    ]
    (run,) = runs_of(suite, records)
    assert run.record is records[0]
    assert result_table(suite, records, "cross", "radius_pr_area").rows["ITQ <one>"][0].n == 1


def test_a_suite_with_extras_needs_records_with_them(record: Make) -> None:
    suite = parse_suite("toy", TEXT.format(more='extras = ["transfer"]'))
    both = ["objective", "transfer"]
    with_extras = record(0.1, extras=both, finished="2020-01-01")
    records = [with_extras, record(0.2, extras=["objective"], finished="2020-01-02")]
    assert [run.record for run in runs_of(suite, records)] == [with_extras]


def test_agreement_of_searches_is_listed_with_the_warnings(suite: Suite, record: Make) -> None:
    records = [record(seed=0, agreement=0.5), record(seed=1, agreement=0.1), record(seed=2)]
    (line,) = agreements(runs_of(suite, records))
    assert line == f"{TASK}, ITQ <one>: agreement of searches 0.30 ± 0.20, warnings in 1 of 2 fits"


def test_lengths_are_those_of_the_suite_or_of_a_quick_look(record: Make) -> None:
    suite = parse_suite("toy", TEXT.format(more="").replace("[16, 32]", "[48, 32, 64]"))

    def lengths(*bits: int) -> list[int]:
        records = [record(n_bits=n) for n in bits]
        table = result_table(suite, records, "cross", "radius_pr_area")
        return [n for task, n in table.columns if task == TASK]

    assert lengths() == [48, 32, 64]
    assert lengths(16) == [16]
    assert lengths(96, 128) == [48, 32, 64]
    assert lengths(16, 64) == [64]
    assert lengths(16, 64, 48) == [48, 64]


def test_runs_come_in_the_order_of_the_suite(suite: Suite, record: Make) -> None:
    places = [(ALONE, 16), (TASK, 32), (TASK, 16)]
    records = [
        record(task=task, n_bits=bits, seed=seed, **method)
        for seed in (1, 0)
        for method in (ATH, {})
        for task, bits in places
    ]
    found = [run[:4] for run in runs_of(suite, records)]
    assert found[:4] == [
        ("ITQ <one>", TASK, 16, 0),
        ("ITQ <one>", TASK, 16, 1),
        ("ATH", TASK, 16, 0),
        ("ATH", TASK, 16, 1),
    ]
    assert [place[1:3] for place in found[4::4]] == [(TASK, 32), (ALONE, 16)]


def test_ranks_leave_out_what_is_missing(suite: Suite, record: Make) -> None:
    table = result_table(suite, [record(0.3), record(0.6, **ATH)], "cross", "radius_pr_area")
    assert table.rank(0) == {"ITQ <one>": 2, "ATH": 1}
    assert table.rank(1) == {}
    tied = result_table(suite, [record(0.3), record(0.3, **ATH)], "cross", "radius_pr_area")
    assert tied.rank(0) == {"ITQ <one>": 1, "ATH": 1}


def test_published_tables_are_complete() -> None:
    shapes = [(6, 12), (6, 18), (6, 18), (6, 18), (6, 18), (6, 12), (5, 6), (3, 4)]
    for i, (n_methods, n_columns) in enumerate(shapes, 1):
        table = published(f"table_{i}.csv")
        assert (len(table.rows), len(table.columns)) == (n_methods, n_columns)
        for cells in table.rows.values():
            assert len(cells) == n_columns
            assert all(0 < number(cell) < 100 for cell in cells)
    assert math.isnan(number("-"))


def test_published_numbers_are_as_printed() -> None:
    table = published("table_3.csv")
    column = table.columns.index(("HoCDR", "C->A", 64))
    assert table.rows["ATH_U"][column] == "27.05"


def test_notes_of_the_paper_name_their_places() -> None:
    assert published("table_7.csv").notes == ["DHLing: quoted"]
    (note,) = published("table_2.csv").notes
    assert note.startswith("GTH, P->C at 64 bits: ")
    assert published("table_3.csv").notes == []
