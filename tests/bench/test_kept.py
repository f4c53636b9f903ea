"""Kept records: the same results give the same bytes, and the same tables as the full records."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from bridgehash import InputError
from bridgehash.bench.kept import keep_records, kept_path, kept_records
from bridgehash.bench.origin import run_origin, source_commit
from bridgehash.bench.report import report_page
from bridgehash.bench.spec import Suite, parse_suite
from bridgehash.bench.store import record_key
from tests.bench.conftest import ATH, TEXT, make_record

IDENTITY = ("task", "use", "labels", "params", "settings", "n_bits", "seed", "extras", "data")


def with_key(area: float = 0.5, **changes):
    record = make_record(area, **changes)
    return {"key": record_key({name: record[name] for name in IDENTITY}), **record}


RECORDS = [
    with_key(0.2),
    with_key(0.4, seed=1),
    with_key(0.6, **ATH),
    with_key(seed=1, error="LinAlgError: singular", traceback="/home/me/x.py", **ATH),
]


def test_kept_records_give_the_same_page(suite: Suite, tmp_path: Path) -> None:
    assert keep_records(suite, RECORDS, tmp_path) == 4
    page = report_page([suite], kept_records([suite], tmp_path))
    assert page == report_page([suite], RECORDS)


def test_counts_are_kept_for_curves(tmp_path: Path) -> None:
    drawn = parse_suite("toy", TEXT.format(more='figure = "pr"'))
    keep_records(drawn, RECORDS, tmp_path)
    for kept, full in zip(kept_records([drawn], tmp_path)[:2], RECORDS[:2], strict=True):
        assert kept["scores"] == full["scores"]
    without = parse_suite("toy", TEXT.format(more=""))
    keep_records(without, RECORDS, tmp_path)
    assert [r for r in kept_records([drawn], tmp_path) if "scores" in r] == []  # no counts


def test_rejection_is_kept_if_the_suite_shows_it_and_the_record_has_it(tmp_path: Path) -> None:
    metrics = 'metrics = ["radius_pr_area", "rejection_auroc"]'
    shown = parse_suite("shown", TEXT.format(more=metrics))
    plain = parse_suite("plain", TEXT.format(more=""))
    scores = RECORDS[0]["scores"]
    cross = scores["cross"] | {"rejection_auroc": 0.75}
    records = [RECORDS[0] | {"scores": scores | {"cross": cross}}, *RECORDS[1:]]
    for suite, names in ((shown, ["rejection_auroc"]), (plain, [])):
        assert keep_records(suite, records, tmp_path) == 4
        first, second, *_ = kept_records([suite], tmp_path)
        common = {"radius_pr_area", "mean_average_precision", "chance"}
        assert set(first["scores"]["cross"]) == {*common, *names}
        assert set(first["scores"]["single"]) == set(second["scores"]["cross"]) == common
    page = report_page([shown], kept_records([shown], tmp_path))
    assert page == report_page([shown], records)
    assert page.count("<strong>rejection_auroc</strong>") == 1  # of the search in the source


def test_a_rerun_with_the_same_results_changes_no_byte(suite: Suite, tmp_path: Path) -> None:
    path = kept_path(tmp_path, suite)
    keep_records(suite, RECORDS, tmp_path)
    other_zlib = gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=0)
    assert gzip.compress(gzip.decompress(path.read_bytes()), mtime=0) == path.read_bytes()
    path.write_bytes(other_zlib)
    before = other_zlib
    later = {
        "finished": "2030-01-01T00:00:00Z",
        "seconds": {"fit": 9.0},
        "versions": {"numpy": "3"},
    }
    keep_records(suite, reversed([record | later for record in RECORDS]), tmp_path)
    assert kept_path(tmp_path, suite).read_bytes() == before
    keep_records(suite, [with_key(0.3, **later)], tmp_path)
    kept = kept_records([suite], tmp_path)
    areas = {r["scores"]["cross"]["radius_pr_area"] for r in kept if "scores" in r}
    assert areas == {0.3, 0.4, 0.6}
    assert {record["finished"] for record in kept} == {RECORDS[0]["finished"], later["finished"]}


def test_files_say_where_results_come_from_and_no_more(suite: Suite, tmp_path: Path) -> None:
    keep_records(suite, [record | {"commit": "abc"} for record in RECORDS], tmp_path)
    text = gzip.decompress(kept_path(tmp_path, suite).read_bytes()).decode()
    for record in map(json.loads, text.splitlines()):
        assert {"commit", "versions", "data", "seed", "device", "finished"} <= set(record)
    assert "/home" not in text
    assert "relevant" not in text  # only needed for curves


def test_records_with_other_settings_are_removed(suite: Suite, tmp_path: Path) -> None:
    keep_records(suite, RECORDS, tmp_path)
    changed = parse_suite("toy", TEXT.format(more="").replace("lam = 1,", "lam = 2,"))
    assert keep_records(changed, [], tmp_path) == 2  # those of ITQ


def test_suites_that_share_fits_keep_what_each_shows(tmp_path: Path) -> None:
    sides = ("cross", "single")
    suites = [parse_suite(side, TEXT.format(more=f'sides = ["{side}"]')) for side in sides]
    for suite in suites:
        keep_records(suite, RECORDS, tmp_path)
    records = kept_records(suites, tmp_path)
    assert [set(r["scores"]) for r in records if "scores" in r] == [{"cross"}] * 3 + [
        {"single"}
    ] * 3
    page = report_page(suites, records)
    assert "3 fits finished and 1 failed" in page  # each counts once
    kept_path(tmp_path, suites[1]).unlink()
    assert "Not run yet." in report_page(suites, kept_records(suites, tmp_path))


def test_missing_and_broken_files(suite: Suite, tmp_path: Path) -> None:
    assert kept_records([suite], tmp_path) == []
    with pytest.raises(InputError, match="no records of this suite"):
        keep_records(suite, [], tmp_path)
    for content in (b"text", gzip.compress(b"{}\n"), gzip.compress(b'{"a": 1}\n')[:-9]):
        kept_path(tmp_path, suite).write_bytes(content)
        with pytest.raises(InputError, match=r"toy\.jsonl\.gz: not a file of kept records"):
            kept_records([suite], tmp_path)


def test_the_commit_says_if_files_differ(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@b"]
        line = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()

    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    assert source_commit.__wrapped__(package) == ""
    git("init", "--quiet")
    assert source_commit.__wrapped__(package) == ""  # an ignored copy in another repository
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert source_commit.__wrapped__(package) == commit
    (tmp_path / "notes.md").touch()
    assert source_commit.__wrapped__(package) == commit  # not code
    (package / "new.py").touch()
    assert source_commit.__wrapped__(package) == f"{commit}+changes"
    assert run_origin().get("commit", "") == source_commit()
