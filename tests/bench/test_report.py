"""The page is self-contained, escapes text, and shows missing results as missing."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from bridgehash.bench.report import report_page, write_report
from bridgehash.bench.spec import Suite, load_suite, parse_suite, suite_names
from tests.bench.conftest import ALONE, ATH, TEXT, Make, make_record

VOID = {"meta", "link", "br", "wbr", "hr", "img"}


class Page(HTMLParser):
    """Ids, addresses, headings, and cells of all tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.headings: list[int] = []
        self.tables: list[list[list[str]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "tags that are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "table" in self.open and self.tables[-1] and ("td" in self.open or "th" in self.open):
            self.tables[-1][-1][-1] += f" {data}"

    def row(self, table: int, name: str) -> list[str]:
        (found,) = (row for row in self.tables[table] if row and row[0].strip() == name)
        return [" ".join(cell.split()) for cell in found[1:]]


RECORDS = [
    make_record(0.2),
    make_record(0.4, seed=1),
    make_record(0.6, **ATH),
    make_record(seed=1, error="LinAlgError: <singular> & so on", **ATH),
    make_record(task=ALONE, error="MemoryError: 9 GB"),
]


@pytest.fixture(scope="module")
def text() -> str:
    """The page of a suite with a figure and a table of the paper."""
    pytest.importorskip("matplotlib")
    drawn = parse_suite("toy", TEXT.format(more='figure = "pr"\npaper = "table_7.csv"'))
    return report_page([drawn], RECORDS)


def test_page_needs_nothing_from_outside(text: str) -> None:
    for outside in ("http:", "https:", "//", "@import", "<script"):
        assert outside not in text
    assert not re.search(r"url\((?!#)", text)
    page = Page(text)
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert {a[1:] for a in page.addresses if a.startswith("#")} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_text_is_escaped(text: str) -> None:
    assert "Two &lt;methods&gt; &amp; one task" in text
    assert "A note with &lt;b&gt;marks&lt;/b&gt;." in text
    assert "ITQ &lt;one&gt;" in text
    assert "LinAlgError: &lt;singular&gt; &amp; so on" in text
    for raw in ("<methods>", "<one>", "<singular>"):
        assert raw not in text


def test_cells_are_means_gaps_and_failures(text: str) -> None:
    page = Page(text)
    assert page.row(1, "ITQ <one>") == ["30.0 ± 10.0", "failed"]
    assert page.row(1, "ATH") == ["60.0 too few splits 1 failed", "missing"]
    assert page.row(2, "ITQ <one>")[0] == "15.0 ± 5.0"  # mean average precision


def test_cells_with_fewer_splits_say_so(suite: Suite, record: Make) -> None:
    records = [record(0.2), record(0.4, seed=1), record(0.6, **ATH)]
    assert Page(report_page([suite], records)).row(1, "ATH")[0] == "60.0 too few splits of 1"


def test_best_and_second_are_marked_in_each_column(suite: Suite, record: Make) -> None:
    text = report_page([suite], [record(0.25), record(0.75, **ATH)])
    assert "<strong>75.0</strong>" in text
    assert "<u>25.0</u>" in text
    assert "<strong>missing" not in text


def test_the_best_cell_says_whether_its_lead_could_be_chance(suite: Suite, record: Make) -> None:
    page = Page(report_page([replace(suite, seeds=6)], six_splits(record)))
    assert page.row(1, "ATH")[0] == "27.0 ± 3.4 p = 0.031"
    assert page.row(1, "ITQ <one>")[0] == "23.5 ± 1.7"


def six_splits(record: Make) -> list[object]:
    return [
        record(0.2 + more * (1 + seed), seed=seed, **method)
        for seed in range(6)
        for method, more in (({}, 0.01), (ATH, 0.02))
    ]


def test_conclusions_come_before_the_tables(suite: Suite, record: Make) -> None:
    text = report_page([replace(suite, seeds=6)], six_splits(record))
    assert (
        "ATH has the best mean, 27.0; next is ITQ &lt;one&gt; with 23.5; chance is 25.0. "
        "ATH is clearly best in 1 of 1 columns (p &lt; 0.05)." in text
    )
    assert text.index("has the best mean") < text.index("What was run</h2>") < text.index("<table")
    page = Page(text)
    assert page.addresses[1:4] == ["#conclusions", "#what-was-run", "#suite-1"]  # contents
    assert page.addresses.count("#top") == 1
    assert 'id="conclusions"' not in report_page([suite], [])


def test_an_order_that_is_not_tested_is_not_claimed(suite: Suite, record: Make) -> None:
    text = report_page([suite], [record(0.2), record(0.6, **ATH)])
    assert "The order is not tested: that needs 6 splits." in text
    same = [record(0.5, seed=s, **method) for s in range(6) for method in ({}, ATH)]
    text = report_page([replace(suite, seeds=6)], same)
    assert "No method is clearly best in any column (p &lt; 0.05)." in text


def test_the_last_row_is_chance(suite: Suite, record: Make) -> None:
    page = Page(report_page([suite], [record(0.2), record(0.6, **ATH)]))
    assert page.row(1, "chance") == ["25.0", ""]  # 5 of 20 pairs; the other task was not run
    assert page.tables[1][-1][0].strip() == "chance"
    old = record(0.2)
    for scores in old["scores"].values():
        del scores["pairs"], scores["relevant"]
    assert 'class="chance"' not in report_page([suite], [old])


def test_one_split_of_several_is_a_quick_look(suite: Suite, record: Make) -> None:
    one = [record(0.2), record(0.6, **ATH)]
    assert "QUICK LOOK: one split." in report_page([suite], one)
    assert "QUICK LOOK" not in report_page([replace(suite, seeds=1)], one)
    assert "QUICK LOOK" not in report_page([replace(suite, seeds=6)], six_splits(record))
    other = replace(suite, name="other", n_bits=(32,))
    text = report_page([replace(suite, seeds=6), other], [*six_splits(record), record(n_bits=32)])
    assert re.search(r"tested: other\.", text)


def test_a_page_of_a_site_links_back(suite: Suite) -> None:
    text = report_page([suite], [], back=("index.html", "Results & more"))
    assert '<a href="index.html">← Results &amp; more</a>' in text


def test_failures_are_explained_once(suite: Suite, record: Make) -> None:
    records = [record(error="E: same", seed=seed) for seed in range(3)]
    text = report_page([suite], records)
    assert text.count("E: same") == 1
    assert "16 bits, split 0, 1, 2" in text
    assert "0 fits finished and 3 failed" in text


def test_published_numbers_are_kept_apart(text: str) -> None:
    heading = "Published results, on the data of the paper"
    before, after = text.split(heading)
    assert "DHLing" not in before
    assert "DHLing: quoted" in after
    page = Page(text)
    assert page.row(5, "KSH")[0] == "32.02"
    assert [row[0].split()[:1] for table in page.tables[1:5] for row in table].count(["KSH"]) == 0


def test_overview_says_what_was_run(suite: Suite) -> None:
    records = [*RECORDS, make_record(0.1, seed=2, seconds={"fit": 7200.0})]
    text = report_page([suite], records)
    assert text == report_page([suite], list(records))
    page = Page(text)
    (row,) = page.tables[0][1:]
    assert [" ".join(cell.split()) for cell in row][1:] == [
        "4 of 24",
        "2",
        "3 of 3",
        "16",
        "2 h 0 min",
    ]
    assert "bridgehash bench run toy.toml" in text
    assert f"sha256 <code>{'5' * 64}" in text
    assert "numpy 2.0" in text
    assert "a machine" in text


def test_a_quick_run_is_marked(record: Make) -> None:
    suite = parse_suite("toy", TEXT.format(more="").replace("[16, 32]", "[64]"))
    assert "1, quick" in Page(report_page([suite], [record()])).tables[0][1][1]


def test_fits_that_suites_share_count_once(suite: Suite, record: Make) -> None:
    text = report_page([suite, suite], [record()])
    assert "1 fit finished" in text
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)


def test_suites_without_records_are_not_run(suite: Suite, record: Make) -> None:
    other = parse_suite("other", TEXT.format(more="").replace("[16, 32]", "[64]"))
    text = report_page([suite, other], [record(commit="abc123")])
    page = Page(text)
    assert [row[1] for row in page.tables[0][1:]] == [" 1 of 24", " 1, quick"]
    assert "Not run yet" not in text
    assert "<dt>Commit</dt><dd><code>abc123</code>" in text
    text = report_page([suite, other], [record(n_bits=32)])
    assert Page(text).tables[0][2][1] == " not run"
    assert text.count("Not run yet.") == 1


def test_odd_names_are_escaped(record: Make) -> None:
    pytest.importorskip("matplotlib")
    suite = parse_suite('my "odd" \\1 <suite>', TEXT.format(more='figure = "pr"'))
    text = report_page([suite], [record()])
    Page(text)
    assert "<suite>" not in text
    assert "bench run &#39;my &#34;odd&#34; \\1 &lt;suite&gt;.toml&#39;" in text


def test_every_suite_has_a_page_before_it_has_run() -> None:
    for name in suite_names():
        page = Page(report_page([load_suite(name)], []))
        assert page.headings[0] == 1
        assert page.headings.count(1) == 1
        assert all(b <= a + 1 for a, b in pairwise(page.headings))
        assert page.tables[0][1][1] == " not run"


def test_without_matplotlib_the_tables_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    suite = parse_suite("toy", TEXT.format(more='figure = "pr"'))
    text = report_page([suite], RECORDS)
    assert "pip install &#39;bridgehash[plots]&#39;" in text
    assert Page(text).row(1, "ITQ <one>")[0] == "30.0 ± 10.0"


def test_figures_have_a_text_for_screen_readers(text: str) -> None:
    assert text.count('role="img"') == 2
    assert 'aria-label="Precision against recall, pacs: photo.gist512' in text


def test_a_page_is_written_whole_or_not_at_all(
    suite: Suite, record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write_report([suite], [record()], path)
    before = path.read_bytes()
    assert before.decode("utf-8").startswith("<!DOCTYPE html>")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_report([suite], [record(0.9)], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
