"""Requests that wait are done together, and each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bridgehash.service.batching import Batcher
from bridgehash.service.errors import Refused


def gathered(work, lanes=1, most=8, waiting=100):
    return Batcher(work, ThreadPoolExecutor(lanes), lanes=lanes, most=most, waiting=waiting)


def test_who_waits_is_served_together():
    groups, go = [], threading.Event()

    def work(asked):
        go.wait(5)
        groups.append(list(asked))
        return [n * n for n in asked]

    async def main():
        ask = gathered(work)
        first = asyncio.create_task(ask(0))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(ask(n)) for n in range(1, 12)]
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(first, *rest) == [n * n for n in range(12)]
        await ask.finish()

    asyncio.run(main())
    assert groups == [[0], list(range(1, 9)), [9, 10, 11]]


def test_a_failure_is_that_of_the_one_who_asked():
    async def main():
        ask = gathered(lambda asked: [ValueError(n) if n == 1 else n for n in asked])
        answers = await asyncio.gather(*map(ask, range(3)), return_exceptions=True)
        assert answers[0] == 0
        assert isinstance(answers[1], ValueError)
        assert answers[2] == 2

    asyncio.run(main())


def test_a_group_that_fails_as_a_whole_is_not_the_last():
    def work(asked):
        if asked[0] == 0:
            raise MemoryError
        return asked

    async def main():
        ask = gathered(work)
        with pytest.raises(MemoryError):
            await ask(0)
        assert await ask(1) == 1

    asyncio.run(main())


def test_a_full_queue_refuses():
    go = threading.Event()

    async def main():
        ask = gathered(lambda asked: go.wait(5) and asked, waiting=2)
        tasks = [asyncio.create_task(ask(0))]
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(ask(n)) for n in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await ask(3)
        assert refused.value.status == 503
        go.set()
        assert await asyncio.gather(*tasks) == [0, 1, 2]

    asyncio.run(main())


def test_who_has_gone_is_passed_over():
    seen, go = [], threading.Event()

    def work(asked):
        go.wait(5)
        seen.extend(asked)
        return asked

    async def main():
        ask = gathered(work)
        first = asyncio.create_task(ask(0))
        await asyncio.sleep(0.05)
        gone, stays = asyncio.create_task(ask(1)), asyncio.create_task(ask(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(first, stays) == [0, 2]

    asyncio.run(main())
    assert seen == [0, 2]


def test_who_goes_while_it_is_worked_on_takes_nobody_along():
    go = threading.Event()

    async def main():
        ask = gathered(lambda asked: go.wait(5) and asked)
        first = asyncio.create_task(ask(0))
        await asyncio.sleep(0.05)
        goes, stays = asyncio.create_task(ask(1)), asyncio.create_task(ask(2))
        go.set()
        assert await first == 0
        go.clear()
        await asyncio.sleep(0.05)  # 1 and 2 are at work now
        goes.cancel()
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.wait_for(stays, 5) == 2
        assert await asyncio.wait_for(ask(3), 5) == 3

    asyncio.run(main())


def test_a_lane_that_ends_leaves_nobody_behind():
    async def main():
        ask = gathered(lambda asked: asked)
        for n in range(300):
            assert await asyncio.wait_for(ask(n), 5) == n

    asyncio.run(main())
