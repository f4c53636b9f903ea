"""Every figure in a table is the figure of its record, and tables without a record are counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Figures that are older than their records, by page: measured before records were kept, and to be
# measured again. `make tables` removes the marks of those that were. Numbers may only fall.
NOT_RERUN = {
    "benchmarks/scale.md": 3,
    "benchmarks/speed.md": 4,
    "choices.md": 11,
    "howto/choose.md": 25,
    "maths.md": 1,
    "methods.md": 2,
    "promises.md": 1,
}
# Tables whose comment says why no script records them. Numbers may only fall.
NO_RECORD = {
    "benchmarks/scale.md": 3,
    "benchmarks/speed.md": 1,
    "choices.md": 1,
    "howto/scale.md": 1,
    "promises.md": 2,
    "results.md": 1,
}

TABLE = """\
<!-- record: toy.json | 64 | rows: a; b | columns: x; -; y / z, max -->

| | one | text | two |
| --- | --- | --- | --- |
| `A` | 2.0 ± 1.0 | 9.9 | 5 / 3 |
| B | - | 9.9 | .50 / +1,000.0 s |

Text with 2.00 ± 1.0<!-- toy.json: a, 64, x -->.
"""


@pytest.fixture
def folder(tmp_path, recorded):
    """Records of a script: two splits of four rows."""
    recorder = recorded.Recorder(tmp_path / "toy.json", seeds=range(2))
    recorder.add([1.0, 3.0], "a, x", 64)
    recorder.add([4.0, 6.0], "a", "y", 64)
    recorder.add([2.0, 3.0], "a", "z", 64)
    recorder.add([0.4, 0.6], "b", "y", 64)
    recorder.add([0.0, 1000.0], "b", "z", 64)
    recorder.write()
    return tmp_path


PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md"))


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_figures_equal_their_records(name, measured):
    path = ROOT / name if name == "README.md" else ROOT / "docs" / name
    outcome = measured.renewed(path.read_text(encoding="utf-8"))
    assert outcome.wrong == [], "run `make tables`, or name the record before the table"
    assert len(outcome.pending) <= NOT_RERUN.get(name, 0), outcome.pending
    assert len(outcome.unrecorded) <= NO_RECORD.get(name, 0), outcome.unrecorded


def test_shares_can_be_shown_in_per_cent(measured, folder):
    right = "50 ± 10.0<!-- toy.json: b, 64, y, percent -->"
    assert measured.renewed(right, folder).wrong == []
    assert measured.renewed(right.replace("50", "51"), folder).text == right


def test_right_figures_stay_as_they_are(measured, folder):
    outcome = measured.renewed(TABLE, folder)
    assert (outcome.wrong, outcome.pending, outcome.text) == ([], [], TABLE)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("2.0 ± 1.0 |", "2.1 ± 1.0 |"),
        ("2.0 ± 1.0 |", "2.0 ± 1.1 |"),
        ("5 / 3", "5 / 2"),
        (".50 /", ".51 /"),
        ("+1,000.0 s", "+1,000.1 s"),
        ("2.00 ± 1.0<", "2.01 ± 1.0<"),
    ],
)
def test_a_wrong_figure_is_found_and_mended(measured, folder, right, wrong):
    outcome = measured.renewed(TABLE.replace(right, wrong), folder)
    assert len(outcome.wrong) == 1
    assert outcome.text == TABLE


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- | 9.9", "7.0 | 9.9", "7.0 is not in toy.json"),  # a figure that nobody measured
        ("2.0 ± 1.0 |", "- |", "- is not in toy.json"),  # a figure that is there, but not shown
        ("5 / 3", "5", "5 is not in toy.json"),
        ("rows: a; b", "rows: a", "its comment names 1 and 3"),
        ("toy.json: a, 64, x", "toy.json: a, 32, x", "no values for a, 32, x"),
        ("toy.json | 64", "other.json | 64", "is not in other.json"),
        (TABLE.splitlines()[0], "", "no comment before it names a record"),
        (TABLE.splitlines()[0], "<!-- record: inline -->", "9.9 has no record"),
    ],
)
def test_figures_without_a_record_are_refused(measured, folder, old, new, message):
    outcome = measured.renewed(TABLE.replace(old, new, 1), folder)
    assert message in "\n".join(outcome.wrong)


def test_marks_are_removed_when_the_record_is_there(measured, folder):
    marked = TABLE.replace(" -->\n\n|", " | not rerun -->\n\n|").replace(
        "x -->.", "x; not rerun -->."
    )
    outcome = measured.renewed(marked.replace("2.0 ± 1.0", "7.7 ± 1.0"), folder)
    assert outcome.text == TABLE
    assert "its record is there now" in str(outcome.wrong)
    (folder / "toy.json").rename(folder / "toy.old")
    measured._record.cache_clear()
    outcome = measured.renewed(marked, folder)
    assert (outcome.wrong, len(outcome.pending), outcome.text) == ([], 2, marked)


def test_code_and_tables_without_figures_need_no_record(measured, tmp_path):
    words = "| a | b |\n| --- | --- |\n| `64` | ten |\n"
    code = f"```text\n{words.replace('ten', '10.0')}```\n"
    limit = "<!-- not measured -->\n\n" + words.replace("ten", "10")
    given = "<!-- no record: one run -->\n\n" + words.replace("ten", "10")
    outcome = measured.renewed(f"{words}\n{code}\n{limit}\n{given}", tmp_path)
    assert outcome.wrong == []
    assert outcome.unrecorded == ["| a | b | one run"]


def test_suites_are_records_too(measured, tmp_path):
    from bridgehash.bench.kept import keep_records
    from bridgehash.bench.spec import parse_suite
    from tests.bench.conftest import TASK, TEXT
    from tests.bench.test_kept import RECORDS

    keep_records(parse_suite("toy", TEXT.format(more="")), RECORDS, tmp_path)
    text = f"30.0 ± 10.0<!-- toy.jsonl.gz: ITQ <one>, {TASK}, 16, cross, radius_pr_area -->"
    assert measured.renewed(text, tmp_path).wrong == []
    assert measured.renewed(text.replace("30.0", "30.1"), tmp_path).text == text


def test_a_rerun_replaces_what_it_measured(recorded, folder, monkeypatch):
    path = folder / "toy.json"
    before = path.read_bytes()
    again = recorded.Recorder(path, seeds=range(2))
    again.add([1.0, 3.0], "a", "x", 64)
    again.write()
    assert path.read_bytes() == before  # the same values: no change
    monkeypatch.setattr(sys, "argv", ["x/toy.py", "--bits", "64", "--record", "toy.json"])
    again.add([1.5, 3.0], "a", "x", 64)
    again.write()
    first, second = json.loads(path.read_text())
    assert [len(run["rows"]) for run in (first, second)] == [4, 1]
    assert second["rows"] == [{"labels": ["a", "x", "64"], "values": [1.5, 3.0]}]
    assert second["command"] == "python benchmarks/toy.py --bits 64"
    assert second["seeds"] == [0, 1]
    assert {"versions", "device", "finished", "data"} <= set(second)


def test_data_are_named_with_their_checksums(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "DATA", tmp_path)
    (tmp_path / "a.npz").write_bytes(b"abc")
    recorder = recorded.Recorder(tmp_path / "toy.json", data=["a.npz", "a.npz"])
    recorder.add([1.0], "a")
    recorder.write()
    (run,) = json.loads((tmp_path / "toy.json").read_text())
    assert list(run["data"]) == ["a.npz"]
    assert run["data"]["a.npz"].startswith("ba7816bf")
    recorded.Recorder(None).write()  # without --record nothing happens
