"""Finished batches come back, unfinished ones do not, and those of something else are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bridgehash.features import Unreadable
from bridgehash.features.journal import Journal

ABOUT = {"backbone": "gist", "images": "5 images"}
BATCHES = [
    (np.arange(6, dtype=np.float32).reshape(2, 3), []),
    (np.empty((0, 3), dtype=np.float32), [Unreadable("é\udcff\n.png", "truncated")]),
    (np.full((1, 3), 2.5, dtype=np.float32), [Unreadable("b.png", "")]),
]


def journal(path: Path, about: dict[str, str] = ABOUT) -> Journal:
    return Journal(path, about, dimension=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of three batches."""
    written = journal(tmp_path / "x.part")
    written.start()
    for rows, unreadable in BATCHES:
        written.append(rows, unreadable)
    return written.path


def check(read: Journal, n_batches: int) -> None:
    assert len(read.batches) == n_batches
    for rows, (expected, _) in zip(read.batches, BATCHES, strict=False):
        np.testing.assert_array_equal(rows, expected)
    assert read.unreadable == [image for _, lost in BATCHES[:n_batches] for image in lost]
    assert read.n_done == sum(len(rows) + len(lost) for rows, lost in BATCHES[:n_batches])


def test_batches_come_back(path: Path) -> None:
    read = journal(path)
    read.resume()
    check(read, 3)


def test_without_a_file_one_is_begun(tmp_path: Path) -> None:
    begun = journal(tmp_path / "new.part")
    begun.resume()
    begun.append(*BATCHES[0])
    read = journal(tmp_path / "new.part")
    read.resume()
    check(read, 1)


def test_start_forgets(path: Path) -> None:
    journal(path).start()
    read = journal(path)
    read.resume()
    check(read, 0)
    read.remove()
    read.remove()
    assert not path.exists()


def test_a_batch_cut_anywhere_is_dropped_and_written_again(path: Path) -> None:
    whole = path.read_bytes()
    ends = [whole.index(b"\n") + 1]
    for rows, unreadable in BATCHES:
        path.write_bytes(whole[: ends[-1]])
        again = journal(path)
        again.resume()
        again.append(rows, unreadable)
        ends.append(path.stat().st_size)
    assert path.read_bytes() == whole
    for length in range(ends[0], len(whole)):
        path.write_bytes(whole[:length])
        read = journal(path)
        read.resume()
        kept = sum(end <= length for end in ends[1:])
        check(read, kept)
        assert path.stat().st_size == ends[kept]


def test_a_changed_byte_ends_the_reading(path: Path) -> None:
    whole = path.read_bytes()
    for i in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        read = journal(path)
        read.resume()
        assert len(read.batches) < 3
        check(read, len(read.batches))


@pytest.mark.parametrize("key", list(ABOUT))
def test_a_file_about_something_else_is_refused(path: Path, key: str) -> None:
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"with other {key}: {ABOUT[key]} then, hog now"):
        journal(path, {**ABOUT, key: "hog"}).resume()
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"once upon a time", b"[1]\n", b"\xff\xd8\n", b"{}\n"])
def test_another_kind_of_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match="unfinished extraction"):
        journal(path).resume()
    assert path.read_bytes() == content
