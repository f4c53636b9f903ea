"""Fixtures that several test folders share.

The data pack and the stored reference results are not part of the repository. They are looked
for in $BRIDGEHASH_DATA (else ../shared/data, seen from the repository root) and in
$BRIDGEHASH_GOLDEN (else `golden` beside the data folder); a test that needs a missing file
is skipped and says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from bridgehash.codes import pack
from tests.servers import Proxy, postgres_server, proxy_of

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile("bridgehash", deadline=None)  # a busy machine is not a failure
settings.load_profile("bridgehash")


class RetrievalCase(NamedTuple):
    """A small retrieval problem in the order of the arguments of `distance_histogram`."""

    codes_query: NDArray[np.uint8]
    codes_database: NDArray[np.uint8]
    y_query: NDArray[np.int64]
    y_database: NDArray[np.int64]
    n_bits: int


@pytest.fixture(scope="session")
def data_pack() -> Iterator[Callable[[str], NpzFile]]:
    """`data_pack(name)`: the arrays of `name`.npz in the data folder."""
    with _npz_files(_data_folder(), "data pack not found: set BRIDGEHASH_DATA") as load:
        yield load


@pytest.fixture(scope="session")
def golden() -> Iterator[Callable[[str], NpzFile]]:
    """`golden(name)`: the arrays of `name`.npz among the stored reference results."""
    folder = Path(os.environ.get("BRIDGEHASH_GOLDEN") or _data_folder().parent / "golden")
    reason = "data pack not found: set BRIDGEHASH_DATA (or BRIDGEHASH_GOLDEN)"
    with _npz_files(folder, reason) as load:
        yield load


@pytest.fixture(scope="session")
def postgres_url(testrun_uid: str) -> Iterator[str]:
    """A real PostgreSQL server with pgvector, one for all workers."""
    with postgres_server(testrun_uid) as url:
        yield url


@pytest.fixture
def proxy(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy in front of PostgreSQL that can cut connections."""
    between, _ = proxy_of(postgres_url, tmp_path_factory.mktemp("s"))
    yield between
    between.close()


@pytest.fixture(scope="session")
def retrieval_case() -> Callable[[int], RetrievalCase]:
    """`retrieval_case(seed)`: few bits, hence many ties; some queries have nothing relevant."""

    def build(seed: int) -> RetrievalCase:
        rng = np.random.default_rng(seed)
        n_query, n_database, n_bits = rng.integers([1, 1, 1], [5, 8, 12])
        return RetrievalCase(
            pack(rng.random((n_query, n_bits)) < 0.5),
            pack(rng.random((n_database, n_bits)) < 0.5),
            rng.integers(-1, 3, n_query),
            rng.integers(-1, 3, n_database),
            int(n_bits),
        )

    return build


def _data_folder() -> Path:
    return Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")


@contextmanager
def _npz_files(folder: Path, reason: str) -> Iterator[Callable[[str], NpzFile]]:
    """A loader whose files are opened once and closed at the end of the session."""
    opened: dict[str, NpzFile] = {}
    with ExitStack() as files:

        def load(name: str) -> NpzFile:
            path = folder / f"{name}.npz"
            if not path.is_file():
                pytest.skip(reason)
            if name not in opened:
                opened[name] = files.enter_context(np.load(path))
            return opened[name]

        yield load


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests have recorded, such as the number of kills."""
    reports = terminalreporter.stats.get("passed", [])
    figures = [pair for report in reports for pair in report.user_properties]
    if figures:
        terminalreporter.section("figures")
        for name, value in figures:
            terminalreporter.write_line(f"{name}: {value}")
