"""One hostile client of each kind beside good ones, which are served as if it were not there."""

from __future__ import annotations

import asyncio
import os

import pytest

pytest.importorskip("fastapi", reason="no service: pip install 'bridgehash[serve]'")

from benchmarks.hostile import ATTACKS, good_clients, run_attack, served

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

LIMIT = 2 << 30
QUICK = ("strings", "images", "unread", "idle", "slow-bodies", "small-chunks")
# What a hostile client may get, besides 503.
ALLOWED = {
    "none": set(),
    "strings": {"422"},
    "lists": {"422"},
    "numbers": {"422"},
    "keys": {"422"},
    "odd": {"400", "422"},
    "images": {"200", "422"},
    "searches": {"200"},
    "unread": {"closed", "held at the end"},
    "idle": {"closed", "held at the end"},
    "slow-heads": {"closed", "held at the end"},
    "slow-bodies": {"closed", "held at the end"},
    "reconnects": {"closed", "held at the end"},
    "pipelines": {"closed", "held at the end"},
    "small-chunks": {"400"},
    "endless": {"413"},
    "long-heads": {"431"},
    "wrong-keys": {"401", "429"},
}


@pytest.fixture(scope="module")
def server():
    with served(2_000, "--memory-limit", str(LIMIT)) as server:
        yield server


def check(server, kind: str, seconds: float, scale: float) -> None:
    """Run a hostile client and five good ones."""

    async def both():
        attack = asyncio.to_thread(run_attack, kind, server.port, seconds, scale)
        return await asyncio.gather(good_clients(server, 5, seconds), attack)

    outcome, got = asyncio.run(both())
    assert not outcome.failures
    assert len(outcome.milliseconds) >= 15
    assert outcome.health
    assert outcome.peak < LIMIT
    assert set(+got) <= ALLOWED[kind] | {"503"}
    assert server.process.poll() is None
    assert "Traceback" not in (server.folder / "log").read_text()


@pytest.mark.parametrize("kind", QUICK)
def test_good_clients_are_served(server, kind):
    check(server, kind, 0.3, scale=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ATTACKS)
def test_good_clients_are_served_for_long(server, kind):
    check(server, kind, 15.0, scale=1.0)


def test_every_kind_is_checked():
    assert set(ALLOWED) == set(ATTACKS)
