"""Tables hold what the records say, and say what is missing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bridgehash.bench.spec import Suite, parse_suite
from bridgehash.bench.tables import (
    ResultTable,
    agreements,
    number,
    published,
    result_table,
    runs_of,
)
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


def test_a_score_that_a_record_does_not_have_is_missing_and_no_failure(record: Make) -> None:
    metrics = 'metrics = ["radius_pr_area", "rejection_auroc"]'
    suite = parse_suite("toy", TEXT.format(more=metrics))
    old, new = record(0.4), record(0.6, seed=1)
    cross = new["scores"]["cross"] | {"rejection_auroc": 0.75}
    new["scores"] = new["scores"] | {"cross": cross}
    records = [old, new, record(error="E: x", seed=2), record(0.5, **ATH)]
    table = result_table(suite, records, "cross", "rejection_auroc")
    cell, other = (cells[0] for cells in table.rows.values())
    assert (cell.scores, cell.n_failed, str(cell)) == ({1: 75.0}, 1, "75.0")
    assert (other.missing, other.n_failed, str(other)) == (True, 0, "-")
    assert result_table(suite, records, "cross", "radius_pr_area").rows["ITQ <one>"][0].n == 2


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
    assert line == f"{TASK}, ITQ <one>: agreement of searches 0.30 ± 0.20"


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


def leads(suite: Suite, record: Make, n: int, ahead: float) -> ResultTable:
    """Two methods on n splits: ATH leads by `ahead` on average, and by more on later splits."""
    pairs = [(0.3 + 0.01 * seed, ahead + 0.001 * (seed - (n - 1) / 2)) for seed in range(n)]
    records = [record(area, seed=seed) for seed, (area, _) in enumerate(pairs)]
    records += [record(area + more, seed=seed, **ATH) for seed, (area, more) in enumerate(pairs)]
    return result_table(replace(suite, seeds=n), records, "cross", "radius_pr_area")


def test_a_lead_on_every_split_is_clear_though_the_splits_differ(
    suite: Suite, record: Make
) -> None:
    lead = leads(suite, record, 10, ahead=0.01).lead(0)
    assert lead is not None
    assert (lead.best, lead.second, lead.n_splits, lead.clear) == ("ATH", "ITQ <one>", 10, True)
    assert lead.p == pytest.approx(2 / 2**10)
    assert str(lead) == "p = 0.002"


def test_a_lead_on_half_of_the_splits_is_not_clear(suite: Suite, record: Make) -> None:
    lead = leads(suite, record, 10, ahead=0.0001).lead(0)
    assert lead is not None
    assert not lead.clear
    assert lead.p > 0.3


def test_few_splits_cannot_decide(suite: Suite, record: Make) -> None:
    table = leads(suite, record, 5, ahead=0.3)
    lead = table.lead(0)
    assert lead is not None
    assert math.isnan(lead.p)
    assert (lead.clear, str(lead)) == (False, "too few splits")
    assert table.lead(1) is None


def test_splits_are_compared_in_pairs(suite: Suite, record: Make) -> None:
    """A split that only one method has does not count."""
    records = [record(0.1, seed=seed) for seed in range(8)]
    records += [record(0.2 + 0.01 * seed, seed=seed, **ATH) for seed in range(2, 9)]
    lead = result_table(replace(suite, seeds=9), records, "cross", "radius_pr_area").lead(0)
    assert lead is not None
    assert (lead.n_splits, lead.p) == (6, pytest.approx(2 / 2**6))
    same = [record(0.1, seed=seed, **method) for seed in range(8) for method in ({}, ATH)]
    tied = result_table(replace(suite, seeds=8), same, "cross", "radius_pr_area").lead(0)
    assert tied is not None
    assert tied.p == 1.0


def test_only_clear_leads_are_counted(suite: Suite, record: Make) -> None:
    def tally(n: int, aheads: tuple[float, float]) -> str:
        records = [
            record(0.3 + more, task=task, seed=seed, **method)
            for task, ahead in zip((TASK, ALONE), aheads, strict=True)
            for seed in range(n)
            for method, more in (({}, 0.001 * (-1) ** seed), (ATH, ahead + 0.0001 * seed))
        ]
        return result_table(replace(suite, seeds=n), records, "cross", "radius_pr_area").tally

    words = "clearly best (p < 0.05) in 2 columns"
    assert tally(8, (0.1, 0.1)) == f"{words}: ATH 2; undecided 0"
    assert tally(8, (0.1, -0.0003)) == f"{words}: ATH 1; undecided 1"
    assert tally(8, (-0.0003, -0.0003)) == f"{words}: none; undecided 2"
    assert tally(3, (0.1, 0.1)) == "best in 2 columns: ATH 2 (too few splits to test this: 3)"


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
