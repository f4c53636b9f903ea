"""A cluster of worker processes, one per session, and small domains in shards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bridgehash.cli.main import main

WITHOUT_DASK = "Dask is not installed: pip install 'bridgehash[dask]'"
N_WORKERS = 4


@pytest.fixture(scope="session")
def local_cluster() -> Iterator[Any]:
    """Start four worker processes of one thread; killed ones are restarted."""
    distributed = pytest.importorskip("distributed", reason=WITHOUT_DASK)
    dask = pytest.importorskip("dask", reason=WITHOUT_DASK)
    method = {"distributed.worker.multiprocessing-method": "forkserver"}
    with dask.config.set(method):
        distributed.utils.get_mp_context()
        # Imported once, not by each new worker, which would take most of the time of these tests.
        known = ["distributed", "bridgehash.cli.main", "tests.streaming.dask.tasks"]
        multiprocessing.get_context("forkserver").set_forkserver_preload(known)
        with distributed.LocalCluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=60,
        ) as cluster:
            yield cluster


@pytest.fixture
def client(local_cluster: Any) -> Iterator[Any]:
    """Return a client once all workers are running."""
    from distributed import Client

    with Client(local_cluster, set_as_default=False) as client:
        client.wait_for_workers(N_WORKERS, timeout=300)
        yield client


@pytest.fixture
def kill(client: Any) -> Callable[[int], None]:
    """Return `kill(n)`, which kills the processes of n workers."""

    def call(n: int) -> None:
        pids = list(client.run(os.getpid).values())
        for pid in pids[:n]:
            os.kill(pid, signal.SIGKILL)

    return call


class Domains(NamedTuple):
    """Both domains as arrays, and as folders of files."""

    X_source: Any
    X_target: Any
    y_source: Any
    y_target: Any
    folder: Path

    def paths(self, kind: str) -> tuple[str, str]:
        return str(self.folder / kind / "source"), str(self.folder / kind / "target")


@pytest.fixture(scope="session")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Domains:
    """Write two domains with common clusters in shards of unequal length."""
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(0)
    y_s, y_t = rng.integers(0, 4, 300), rng.integers(0, 4, 260)
    centres = rng.normal(size=(4, 12))
    X_s = centres[y_s] + 0.8 * rng.normal(size=(300, 12))
    X_t = centres[y_t] + 0.8 * rng.normal(size=(260, 12)) + 0.3
    for name, X in {"source": X_s, "target": X_t}.items():
        for kind in ("npy", "parquet"):
            write_shards(folder / kind / name, X, [40, 110, 150, 220], kind)
    return Domains(X_s, X_t, y_s, y_t, folder)


def write_shards(folder: Path, X: Any, cuts: list[int], kind: str, ids: bool = False) -> None:
    """Write the rows of X to files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number, rows in enumerate(np.split(np.arange(len(X)), cuts)):
        path = folder / f"part-{number:03}.{kind}"
        if kind == "npy":
            np.save(path, X[rows])
            continue
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[rows].ravel()), X.shape[1])
        names = {"id": pa.array([f"row {row}" for row in rows])} if ids else {}
        pq.write_table(pa.table({**names, "features": vectors}), path)


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return `run("encode", ...)`, which runs a command in this process."""

    def call(*words: object) -> Ended:
        capsys.readouterr()
        return Ended(main([str(word) for word in words]), *capsys.readouterr())

    return call


def wait_until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait until the condition holds; fail after some time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)
