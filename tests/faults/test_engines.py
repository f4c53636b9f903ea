"""Many clients and broken connections: an index on PostgreSQL is complete and loses no change.

Most scenarios run small with the other tests and large with the slow ones; `-rP` shows figures.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np
import pytest

from bridgehash._core.errors import EngineError
from bridgehash.index.servers import base, build_index, create_index, open_index
from tests.servers import Proxy

psycopg = pytest.importorskip("psycopg", reason="no driver: pip install 'bridgehash[postgres]'")

N_BITS, LEAST = 8, 40  # of the codes of a build, and codes of the smallest build


def sizes(small: int, large: int) -> Any:
    return pytest.mark.parametrize(
        "n", [small, pytest.param(large, marks=pytest.mark.slow)], ids=["small", "large"]
    )


@pytest.fixture
def execute(postgres_url: str) -> Iterator[Callable[..., Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield lambda *statement: connection.execute(*statement).fetchall()


@pytest.fixture
def name(postgres_url: str) -> Iterator[str]:
    table = f"f_{uuid.uuid4().hex[:16]}"
    yield table
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")


@pytest.fixture
def proxy_url(proxy: Proxy) -> str:
    return f"postgresql://postgres@/postgres?host={Path(proxy._here).parent}"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PAUSES", (0.01, 0.05, 0.2, 0.5, 1, 2))


def build(url: str, name: str, number: int, *, replace: bool) -> None:
    """Build an index whose number of codes and whose codes tell the number of the build."""
    codes = np.full((LEAST + number, 1), number, np.uint8)
    build_index(url, name, N_BITS, codes, replace=replace).close()


def number_of_build(index: Any) -> int:
    """The number of the build that an index comes from, if it is complete."""
    distances, ids = index.search(np.zeros((1, 1), np.uint8), 400)
    found = distances[ids >= 0]
    number = len(found) - LEAST
    assert number >= 0, f"only {len(found)} codes"
    assert set(found.tolist()) == {number.bit_count()}, f"codes of another build than {number}"
    return number


class Readers:
    """Threads that open and read an index all the time until the end of the block."""

    def __init__(self, url: str, name: str, n_threads: int) -> None:
        self.url, self.name = url, name
        self.seen: Counter[int] = Counter()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(n_threads)
        self._ends = [self._pool.submit(self._read, i % 2 == 0) for i in range(n_threads)]

    def _read(self, stays: bool) -> None:
        while not self._stop.is_set():
            with open_index(self.url, self.name) as index:
                for _ in range(20 if stays else 1):
                    self.seen[number_of_build(index)] += 1

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for end in self._ends:
            end.result()  # raises what the reader saw
        self._pool.shutdown()


def unfinished(execute: Any, name: str) -> list[Any]:
    """Tables that a build of this name may have left."""
    return execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' "
        f"AND (relname LIKE 'bridgehash%' OR relname LIKE '{name}\\_%')"
    )


@sizes(8, 60)
def test_overlapping_builds_replace_each_other_and_readers_see_whole_ones(
    postgres_url: str, name: str, execute: Any, n: int
) -> None:
    build(postgres_url, name, 0, replace=False)
    with Readers(postgres_url, name, 4) as readers, ThreadPoolExecutor(n) as pool:
        done = [pool.submit(build, postgres_url, name, i, replace=True) for i in range(1, n + 1)]
        for one in done:
            one.result()
    with open_index(postgres_url, name) as index:
        assert 1 <= number_of_build(index) <= n
    assert unfinished(execute, name) == []
    print(f"{n} overlapping builds, {readers.seen.total()} reads, none partial or missing")


@sizes(8, 60)
def test_one_of_overlapping_builds_gets_a_free_name(
    postgres_url: str, name: str, execute: Any, n: int
) -> None:
    with ThreadPoolExecutor(n) as pool:
        ends = [pool.submit(build, postgres_url, name, i, replace=False) for i in range(n)]
    failures = {i: str(end.exception()) for i, end in enumerate(ends) if end.exception()}
    assert all(f"table {name} exists" in failure for failure in failures.values())
    with open_index(postgres_url, name) as index:
        assert {number_of_build(index)} == set(range(n)) - set(failures)
    assert unfinished(execute, name) == []
    print(f"{n} overlapping builds of a new name: 1 succeeded, {n - 1} were told that it exists")


def test_a_killed_build_leaves_nothing(
    postgres_url: str, name: str, execute: Any, tmp_path: Path
) -> None:
    build(postgres_url, name, 1, replace=False)
    np.save(tmp_path / "codes.npy", np.zeros((1000, 1), np.uint8))
    line = f"index build codes.npy --out {name} --replace --engine {postgres_url}"
    with psycopg.connect(postgres_url) as reader:
        reader.execute(f"LOCK TABLE {name} IN ACCESS SHARE MODE")  # it stops before the end
        process = subprocess.Popen(
            [sys.executable, "-m", "bridgehash", *line.split()], cwd=tmp_path
        )
        waits = "SELECT pid FROM pg_locks WHERE relation = %s::regclass::oid AND NOT granted"
        while not (waiting := execute(waits, [name])):
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        (pid,) = waiting[0]
        execute("SELECT pg_terminate_backend(%s, 10000)", [pid])  # as keepalives do at last
    assert unfinished(execute, name) == []
    with open_index(postgres_url, name) as index:
        assert number_of_build(index) == 1


def test_a_build_waits_for_searches_instead_of_starting_again(
    postgres_url: str, name: str, execute: Any
) -> None:
    build(postgres_url, name, 1, replace=False)
    hasty, loads = f"{postgres_url}&options=-c%20lock_timeout%3D50ms", []
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(postgres_url) as reader:
            reader.execute(f"LOCK TABLE {name} IN ACCESS SHARE MODE")
            end = pool.submit(
                build_index,
                *(hasty, name, N_BITS, np.full((LEAST + 2, 1), 2, np.uint8)),
                replace=True,
                reach=lambda done, total: loads.append(done),
            )
            waits = "SELECT FROM pg_locks WHERE relation = %s::regclass::oid AND NOT granted"
            while not execute(waits, [name]):
                assert not end.done()
            sleep(0.2)  # longer than the lock timeout
        end.result().close()
    assert loads == [LEAST + 2]
    with open_index(postgres_url, name) as index:
        assert number_of_build(index) == 2


class Change(NamedTuple):
    """An upsert or a remove of one id; `certain` if it was acknowledged."""

    start: float
    end: float
    value: int | None  # None if it was removed
    certain: bool


class History:
    """What clients did to which id, and when."""

    def __init__(self) -> None:
        self.changes: dict[int, list[Change]] = defaultdict(list)
        self._lock = threading.Lock()

    def run(self, ids: list[int], value: int | None, operation: Callable[[], object]) -> bool:
        start, certain = monotonic(), True
        try:
            operation()
        except EngineError:
            certain = False
        end = monotonic() if certain else np.inf
        with self._lock:
            for id_ in ids:
                self.changes[id_].append(Change(start, end, value, certain))
        return certain

    def lost(self, state: dict[int, int]) -> list[int]:
        """Ids whose value no order of the changes explains.

        The last change of an id is one after whose end no other acknowledged one has begun.
        """
        return [
            id_
            for id_, changes in self.changes.items()
            if not any(
                last.value == state.get(id_)
                and not any(other.certain and other.start > last.end for other in changes)
                for last in changes
            )
        ]


def values(execute: Any, name: str) -> dict[int, int]:
    return dict(execute(f"SELECT id, code::bit(8)::int FROM {name}"))


def change_in_any_order(index: Any, history: History, seed: int, n_rounds: int) -> int:
    """Upsert and remove the same few ids as the other clients; return how many were refused."""
    rng, refused = np.random.default_rng(seed), 0
    for _ in range(n_rounds):
        ids = rng.permutation(40)[: rng.integers(5, 40)].tolist()
        if rng.random() < 0.3:
            certain = history.run(ids, None, lambda: index.remove(ids))  # noqa: B023
        else:
            value = int(rng.integers(0, 256))
            codes = np.full((len(ids), 1), value, np.uint8)
            certain = history.run(ids, value, lambda: index.upsert(codes, ids))  # noqa: B023
        refused += not certain
    return refused


@sizes(4, 16)
def test_writers_of_the_same_ids_never_fail_and_lose_nothing(
    postgres_url: str, name: str, execute: Any, n: int
) -> None:
    create_index(postgres_url, name, N_BITS).close()
    clients = [open_index(postgres_url, name) for _ in range(n)]
    history, n_rounds = History(), 10 * n
    with ThreadPoolExecutor(n) as pool:
        refused = pool.map(
            lambda i: change_in_any_order(clients[i], history, i, n_rounds), range(n)
        )
        assert sum(refused) == 0
    assert history.lost(values(execute, name)) == []
    for client in clients:
        client.close()
    print(f"{n} concurrent writers, {n * n_rounds} changes acknowledged, 0 lost")


@sizes(4, 16)
def test_codes_without_ids_from_several_clients_get_different_ids(
    postgres_url: str, name: str, n: int
) -> None:
    create_index(postgres_url, name, N_BITS).close()

    def add(number: int) -> None:
        with open_index(postgres_url, name) as index:
            for _ in range(n):
                index.add(np.full((3, 1), number, np.uint8))

    with ThreadPoolExecutor(n) as pool:
        list(pool.map(add, range(n)))
    with open_index(postgres_url, name) as index:
        ids = index.search(np.zeros((1, 1), np.uint8), 4 * n * n)[1][0]
    assert sorted(ids[ids >= 0]) == list(range(3 * n * n))
    print(f"{n} clients added {3 * n * n} codes without ids: all ids are different")


def test_a_deadlock_is_resolved_and_both_changes_are_made(
    postgres_url: str, name: str, execute: Any, impatient: None
) -> None:
    create_index(postgres_url, name, N_BITS).add([[0], [0]]).close()
    meet, attempts = threading.Barrier(2), Counter()

    def change(ids: tuple[int, int], bit: int) -> None:
        def work(connection: Any) -> None:
            attempts[bit] += 1
            set_bit = f"UPDATE {name} SET code = set_bit(code, {bit}, 1) WHERE id = %s"
            connection.execute(set_bit, [ids[0]])
            if attempts[bit] == 1:
                meet.wait()
            connection.execute(set_bit, [ids[1]])

        with open_index(postgres_url, name) as index:
            index._session.write(work)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, [(0, 1), (1, 0)], [6, 7]))
    assert values(execute, name) == {0: 3, 1: 3}
    assert attempts.total() >= 3


# An operation on an index with the codes 0, 1, 2 and ids 0, 1, 2, and the codes afterwards by id.
START = {0: 0, 1: 1, 2: 2}
OPERATIONS: dict[str, tuple[Callable[[Any], Any], dict[int, int]]] = {
    "add": (lambda index: index.add([[7], [8]]), {**START, 3: 7, 4: 8}),
    "add_ids": (lambda index: index.add([[7], [8]], [9, 5]), {**START, 9: 7, 5: 8}),
    "upsert": (lambda index: index.upsert([[7], [8]], [9, 1]), {0: 0, 1: 8, 2: 2, 9: 7}),
    "remove": (lambda index: index.remove([2, 0, 99]), {1: 1}),
    "build": (
        lambda index: build_index(
            index.test_url, index.name, N_BITS, [[5], [6]], replace=True
        ).close(),
        {0: 5, 1: 6},
    ),
}


@sizes(4, 1)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("delivers", [True, False], ids=["answer_lost", "request_lost"])
def test_a_connection_that_is_cut_at_any_point_changes_nothing_or_once(
    postgres_url: str,
    proxy: Proxy,
    proxy_url: str,
    name: str,
    execute: Any,
    impatient: None,
    operation: str,
    delivers: bool,
    n: int,
) -> None:
    """Cut at every n-th place."""
    work, after = OPERATIONS[operation]
    proxy.delivers = delivers
    for place in count(step=n):
        codes = np.arange(3, dtype=np.uint8)[:, None]
        build_index(postgres_url, name, N_BITS, codes, replace=True).close()
        sent = count()
        with open_index(proxy_url, name) as index:
            index.test_url = proxy_url
            proxy.watch = lambda data: next(sent) == place  # noqa: B023
            refused = ""
            try:
                work(index)
            except EngineError as error:
                refused = str(error)
            assert values(execute, name) == (START if refused else after)
            if refused:  # the first connection of a build is not repeated
                assert (operation, "no connection" in refused) == ("build", True), refused
            proxy.watch = lambda data: False
        if next(sent) <= place:
            break
    assert unfinished(execute, name) == []
    assert place > 3
    print(f"{operation}: cut at {place // n} places, every outcome right")


@sizes(3, 12)
def test_nothing_acknowledged_is_lost_while_connections_are_cut_at_random(
    postgres_url: str,
    proxy: Proxy,
    proxy_url: str,
    name: str,
    execute: Any,
    impatient: None,
    n: int,
) -> None:
    create_index(postgres_url, name, N_BITS).close()
    clients = [open_index(proxy_url, name) for _ in range(n)]
    rng, cuts, lock = np.random.default_rng(0), count(), threading.Lock()

    def watch(data: bytes) -> bool:
        with lock:
            cut = rng.random() < 0.03
            proxy.delivers = bool(rng.random() < 0.5)
        return cut and next(cuts) >= 0

    proxy.watch = watch
    history, n_rounds = History(), 8 * n
    with ThreadPoolExecutor(n) as pool:
        refused = sum(
            pool.map(lambda i: change_in_any_order(clients[i], history, i, n_rounds), range(n))
        )
    proxy.watch = lambda data: False
    for client in clients:
        with suppress(EngineError):
            client.close()
    assert history.lost(values(execute, name)) == []
    n_cuts = next(cuts)
    assert n_cuts > 0
    print(
        f"{n} concurrent writers, {n_cuts} cut connections, "
        f"{n * n_rounds - refused} changes acknowledged, {refused} refused, 0 lost"
    )
