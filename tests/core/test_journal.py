"""Acknowledged records are read again, torn ones are dropped, and lost ones are named."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from bridgehash._core.errors import InputError, JournalError
from bridgehash._core.journal import Journal, LineFile, read_journal, read_lines

HEADER = b'{"generation": "a"}'
RECORDS = [b"one", b"two" * 100, b"three"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.journal"


def write(path: Path, *batches: list[bytes]) -> None:
    """Append batches as one process would."""
    with closing(Journal.open(path, HEADER)) as journal:
        for batch in batches:
            journal.append(batch)


def read(path: Path) -> tuple[list[bytes], list[int]]:
    content = read_journal(path)
    return content.records(HEADER), content.missing(HEADER)


def test_records_are_read_in_order(path):
    write(path, RECORDS[:2], RECORDS[2:])
    write(path, [b"four"])
    assert read(path) == ([*RECORDS, b"four"], [])


def test_a_file_cut_anywhere_names_the_acknowledged_records_behind_the_cut(path):
    write(path, *([record] for record in RECORDS))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        records, missing = read(path)
        assert records == RECORDS[: len(records)]
        if cut < 16:  # without the count of acknowledged records it is no journal
            assert not read_journal(path).is_journal
            continue
        assert missing == list(range(len(records) + 1, 4))
        write(path, [b"more"])  # must not be lost behind a torn record
        assert read(path)[0] == [*records, b"more"]


def test_a_torn_end_was_never_acknowledged_and_is_dropped_without_a_word(path):
    write(path, [RECORDS[0]], [RECORDS[1]])
    whole = path.read_bytes()
    write(path, [RECORDS[2]])
    more = path.read_bytes()[len(whole) :]  # written, but the count says that two are acknowledged
    for end in (more[:5], more[:-1], bytes(4096), more[:-1] + b"?"):
        path.write_bytes(whole + end)
        assert read(path) == (RECORDS[:2], [])
        write(path, [b"new"])
        assert read(path) == ([*RECORDS[:2], b"new"], [])


def test_every_flipped_bit_loses_at_most_the_record_it_hits_and_says_so(path):
    write(path, *([record] for record in RECORDS))
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        records, missing = read(path)
        assert len(missing) <= 1
        assert records == [r for i, r in enumerate(RECORDS, 1) if i not in missing]


def test_damage_to_the_count_and_to_the_end_is_noticed(path):
    write(path, *([record] for record in RECORDS))
    damaged = bytearray(path.read_bytes())
    damaged[5] ^= 1
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert read(path) == (RECORDS[:2], [3])


def test_a_record_that_contains_a_frame_is_not_taken_apart(path, tmp_path):
    write(tmp_path / "other", [b"planted"])
    inner = (tmp_path / "other").read_bytes()
    write(path, [inner], [b"last"])
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"planted") - 1] ^= 1
    path.write_bytes(damaged)
    assert read(path) == ([b"last"], [1])


def test_records_of_something_else_are_never_returned(path):
    write(path, RECORDS)
    other = b'{"generation": "b"}'
    assert read_journal(path).records(other) == []
    with pytest.raises(InputError, match="belongs to something else; move the file away"):
        Journal.open(path, other)
    assert read(path) == (RECORDS, [])
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 1  # in the header: each record still knows whose it is
    path.write_bytes(damaged)
    assert read(path) == (RECORDS, [])
    with pytest.raises(InputError, match="belongs to something else"):
        Journal.open(path, other)


def test_another_kind_of_file_is_not_overwritten(path):
    for content in (b"a letter to the editor", b"short", b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match="belongs to something else"):
            Journal.open(path, HEADER)
        assert path.read_bytes() == content


def test_one_process_at_a_time_may_write(path):
    journal = Journal.open(path, HEADER)
    with pytest.raises(InputError, match=r"x\.journal: in use by another process; stop it"):
        Journal.open(path, HEADER)
    journal.close()
    assert not path.exists(), "an empty journal is deleted"
    write(path, RECORDS)


def test_a_journal_in_no_directory_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        Journal.open(tmp_path / "none" / "x.journal", HEADER)


def test_restarted_records_are_gone_and_belong_to_the_new_header(path):
    journal = Journal.open(path, HEADER)
    journal.append(RECORDS)
    journal.restart(b"new")
    assert journal.is_empty
    journal.append(RECORDS[:1])
    journal.close()
    content = read_journal(path)
    assert (content.records(b"new"), content.missing(b"new")) == (RECORDS[:1], [])
    assert content.records(HEADER) == []


def test_a_failed_write_leaves_nothing(path, monkeypatch):
    journal = Journal.open(path, HEADER)
    journal.append(RECORDS[:1])
    real = os.pwrite

    def torn(descriptor, data, offset):
        real(descriptor, bytes(data)[:3], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", torn)
        with pytest.raises(JournalError, match="nothing was changed"):
            journal.append(RECORDS[1:])
        assert "free some space" in journal.probe()
    assert journal.probe() == ""
    journal.append(RECORDS[2:])
    journal.close()
    assert read(path) == ([RECORDS[0], RECORDS[2]], [])


def test_a_disk_that_fails_twice_is_not_trusted(path, monkeypatch):
    journal = Journal.open(path, HEADER)

    def fails(*arguments):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(JournalError):
            journal.append(RECORDS)
    assert "restart" in journal.broken
    with pytest.raises(JournalError, match="restart"):
        journal.append(RECORDS)
    assert "restart" in journal.probe()
    journal.close()
    assert path.exists(), "what is on disk is not known, so it is kept"


def test_lines_are_appended_after_the_last_complete_one(path):
    path.write_bytes(b"one\ntorn")
    assert read_lines(path) == [b"one"]
    with closing(LineFile(path)) as file:
        file.append("two")
        with pytest.raises(InputError, match="in use"):
            LineFile(path)
    assert path.read_bytes() == b"one\ntwo\n"
