"""Acknowledged records are read again, torn ones are dropped, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridgehash._core.errors import InputError, JournalError
from bridgehash._core.journal import FRAMES, LINES, Journal, RecordFormat, read_records

HEADER = b'{"n_bits": 12}'
RECORDS = [b"one", b"two" * 100, b"three"]
both_formats = pytest.mark.parametrize("format", [FRAMES, LINES], ids=["frames", "lines"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.journal"


def write(path: Path, *batches: list[bytes], format: RecordFormat = FRAMES) -> int:
    """Append batches as one process would, and return the size before them."""
    journal, _ = Journal.open(path, HEADER, format)
    start = journal.size
    for batch in batches:
        journal.append(batch)
    journal.close()
    return start


@both_formats
def test_records_are_read_in_order(path, format):
    write(path, RECORDS[:2], RECORDS[2:], format=format)
    journal, records = Journal.open(path, HEADER, format)
    journal.close()
    assert records == read_records(path, HEADER, format) == RECORDS


@both_formats
def test_a_journal_without_a_header_has_records_only(path, format):
    journal, records = Journal.open(path, format=format)
    assert records == []
    assert journal.is_empty
    journal.append(RECORDS)
    journal.close()
    assert read_records(path, format=format) == RECORDS
    assert path.read_bytes() == format.join(RECORDS)


@both_formats
def test_a_file_cut_anywhere_keeps_the_records_before_the_cut(path, format):
    start = write(path, RECORDS, format=format)
    whole = path.read_bytes()
    ends = [start + len(format.join(RECORDS[:n])) for n in range(4)]
    for cut in (*range(0, len(whole), 7), *ends, len(whole) - 1):
        path.write_bytes(whole[:cut])
        n = max(sum(end <= cut for end in ends) - 1, 0)
        write(path, [b"more"], format=format)  # must not be lost behind the torn record
        assert read_records(path, HEADER, format) == [*RECORDS[:n], b"more"]


def test_a_changed_byte_ends_the_records_for_good(path):
    start = write(path, [b"one", b"two", b"six"])
    whole = bytearray(path.read_bytes())
    whole[start + len(FRAMES.join([b"one"])) + 9] ^= 1
    path.write_bytes(whole)
    assert read_records(path, HEADER) == [b"one"]
    write(path, [b"new"])  # as long as the broken record: what follows it must not come back
    assert read_records(path, HEADER) == [b"one", b"new"]


@both_formats
def test_a_journal_of_something_else_is_rejected(path, format):
    write(path, RECORDS, format=format)
    for read in (Journal.open, read_records):
        with pytest.raises(InputError, match="belongs to something else; move the file away"):
            read(path, b'{"n_bits": 16}', format)


def test_one_process_at_a_time_may_write(path):
    journal, _ = Journal.open(path, HEADER)
    with pytest.raises(InputError) as error:
        Journal.open(path, HEADER)
    assert str(error.value) == f"{path}: in use by another process; stop it first"
    journal.close()
    assert not path.exists(), "an empty journal is deleted"
    write(path, RECORDS)


def test_a_journal_in_no_directory_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        Journal.open(tmp_path / "none" / "x.journal", HEADER)


def test_cleared_records_are_gone(path):
    journal, _ = Journal.open(path, HEADER)
    journal.append(RECORDS)
    journal.clear()
    assert journal.is_empty
    journal.append(RECORDS[:1])
    journal.close()
    assert read_records(path, HEADER) == RECORDS[:1]


def test_a_failed_write_leaves_nothing(path, monkeypatch):
    journal, _ = Journal.open(path, HEADER)
    journal.append(RECORDS[:1])
    real = os.pwrite

    def torn(descriptor, data, offset):
        real(descriptor, bytes(data)[:3], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", torn)
        with pytest.raises(JournalError, match="nothing was changed"):
            journal.append(RECORDS[1:])
    journal.append(RECORDS[2:])
    journal.close()
    assert read_records(path, HEADER) == [RECORDS[0], RECORDS[2]]


def test_a_disk_that_fails_twice_is_not_trusted(path, monkeypatch):
    journal, _ = Journal.open(path, HEADER)

    def fails(*arguments):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(JournalError):
            journal.append(RECORDS)
    assert "restart" in journal.broken
    with pytest.raises(JournalError, match="restart"):
        journal.append(RECORDS)
    journal.close()
    assert path.exists(), "what is on disk is not known, so it is kept"
