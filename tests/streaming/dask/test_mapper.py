"""The mapper of a cluster: order, laziness, what is sent, and what happens if it is lost."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bridgehash.streaming.mappers import current_mapper, map_serially
from tests.streaming.dask import tasks
from tests.streaming.dask.conftest import N_WORKERS, WITHOUT_DASK, wait_until

ours = pytest.importorskip("bridgehash.streaming.dask", reason=WITHOUT_DASK, exc_type=ImportError)
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

LOOPBACK: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}


def numbers(n: int) -> list[tuple[int]]:
    return [(i,) for i in range(n)]


def test_results_come_in_order(client: Any) -> None:
    mapper = ours.DaskMapper(client)
    assert list(mapper(tasks.plus, numbers(40), (tasks.Shared(5),))) == list(range(5, 45))
    assert list(mapper(tasks.plus, [], (tasks.Shared(5),))) == []


def test_arguments_are_requested_as_results_are_taken(client: Any) -> None:
    asked = 0

    def arguments() -> Iterator[tuple[int]]:
        nonlocal asked
        for each in numbers(1000):
            asked += 1
            yield each

    results = ours.DaskMapper(client)(tasks.plus, arguments(), (tasks.Shared(0),))
    assert [next(results), next(results)] == [0, 1]
    assert asked <= 4 * N_WORKERS


def test_large_arguments_and_arrays_that_change(client: Any) -> None:
    mapper, A, B = ours.DaskMapper(client), np.ones((300, 100)), np.ones((200, 100))
    assert list(mapper(tasks.total, [(B,)], (A,))) == [50_000.0]
    A *= 2.0
    assert list(mapper(tasks.total, [(B,)], (A,))) == [80_000.0]


def test_an_object_is_sent_once_and_released_with_its_owner(client: Any) -> None:
    mapper, shared = ours.DaskMapper(client), tasks.Shared(0)
    first = set(mapper(tasks.place, numbers(12), (shared,)))
    client.amm.run_once()  # drops copies that it sees no need of
    again = set(mapper(tasks.place, numbers(12), (shared,)))
    assert again == first
    assert len(first) == N_WORKERS
    del shared
    gc.collect()
    wait_until(lambda: not client.who_has())


def test_an_error_is_that_of_one_process(client: Any) -> None:
    with pytest.raises(ValueError, match=r"^shard 3: holds NaN; fill or drop it$"):
        list(ours.DaskMapper(client)(tasks.refuse, numbers(6)))
    with pytest.raises(TimeoutError, match="own"):
        list(ours.DaskMapper(client)(tasks.out_of_time, [()]))


@pytest.mark.parametrize("n", [1, pytest.param(N_WORKERS, marks=pytest.mark.slow)])
def test_killed_workers_lose_nothing(client: Any, kill: Callable[[int], None], n: int) -> None:
    """If all workers are killed, the shared data is lost and sent again."""
    mapper, shared = ours.DaskMapper(client), tasks.Shared(7)
    results = mapper(tasks.slow, numbers(40), (shared,))
    first = [next(results) for _ in range(3)]
    kill(n)
    assert first + list(results) == list(range(7, 47))
    assert list(mapper(tasks.plus, numbers(4), (shared,))) == [7, 8, 9, 10]


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_named() -> None:
    settings = {"n_workers": 3, "threads_per_worker": 1, **LOOPBACK}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(**settings, silence_logs=60) as doomed,
        distributed.Client(doomed, set_as_default=False) as client,
        pytest.raises(ours.ClusterError, match=r"^end_the_worker killed several workers"),
    ):
        list(ours.DaskMapper(client)(tasks.end_the_worker, [()]))


def test_a_task_that_waits_for_lost_data_is_not_waited_for(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_POLL", 0.05)
    monkeypatch.setattr(ours, "_IDLE", 0.2)
    nowhere = client.submit(abs, 1, workers=["tcp://127.0.0.1:1"])
    with pytest.raises(distributed.CancelledError):
        ours.DaskMapper(client).result(nowhere)


def test_an_existing_client_stays_open(client: Any, local_cluster: Any) -> None:
    with ours.cluster(client) as same:
        assert same is client
        assert isinstance(current_mapper(), ours.DaskMapper)
    assert client.status == "running"
    assert current_mapper() is map_serially
    with ours.cluster(local_cluster.scheduler_address) as other:
        assert other.status == "running"
    assert other.status == "closed"


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehash.streaming.dask._CONNECT", 0.3)
    for address in ("tcp://127.0.0.1:9", "nowhere://x"):
        with pytest.raises(ours.ClusterError, match=r"no scheduler answers; start one"):
            ours.cluster(address).__enter__()


def test_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "_PATIENCE", 0.3)
    with (
        distributed.LocalCluster(n_workers=0, **LOOPBACK) as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(ours.ClusterError, match=r"has no workers; start some"),
    ):
        next(ours.DaskMapper(client)(tasks.refuse, numbers(2)))


def test_the_package_imports_dask_only_for_a_cluster_and_says_what_to_install() -> None:
    lines = (
        "import sys, bridgehash, bridgehash.cli.main",
        "assert 'distributed' not in sys.modules",
        "sys.modules['distributed'] = None",
        "import bridgehash.streaming.dask",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("a cluster needs Dask; pip install 'bridgehash[dask]'\n")
