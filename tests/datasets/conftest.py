"""The folder of the data pack, and an environment without data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehash.datasets.dataset import MEMORY

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pack_folder() -> Path:
    """The folder of the data pack; it may be missing, or lack files."""
    return Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder and no other data folder; nothing is cached in memory."""
    monkeypatch.delenv("BRIDGEHASH_DATA", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("BRIDGEHASH_CACHE", str(cache))
    MEMORY.clear()
    yield cache
    MEMORY.clear()
