"""Queued requests share a batch, and each gets the result it would get alone."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bridgehash.index.attributes import ItemFilter
from bridgehash.service.batching import Batcher
from bridgehash.service.catalogue import (
    SearchQuery,
    SearchResult,
    close_catalogues,
    open_catalogues,
)
from bridgehash.service.errors import RequestError


class Slow:
    """A function of a batch that waits until the test lets it continue."""

    def __init__(self, work=list):
        self._work = work
        self.batches = []
        self.started, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, requests):
        self.started.release()
        self.go.acquire()
        self.batches.append(list(requests))
        return self._work(requests)

    async def reached(self):
        """Wait until one more batch is running."""
        await asyncio.get_running_loop().run_in_executor(None, self.started.acquire)


def run(work, main, max_queue=100, **options):
    async def call():
        with ThreadPoolExecutor(1) as pool:
            options.update(concurrency=1, max_batch=8, max_queue=max_queue)
            batcher = Batcher(work, pool, **options)
            await main(batcher)
            await batcher.finish()

    asyncio.run(asyncio.wait_for(call(), 300))


async def queue(batcher, *requests):
    tasks = [asyncio.create_task(batcher(request)) for request in requests]
    await asyncio.sleep(0)
    return tasks


def test_queued_requests_share_a_batch():
    slow = Slow(lambda requests: [n * n for n in requests])

    async def main(batcher):
        tasks = await queue(batcher, 0)
        await slow.reached()
        tasks += await queue(batcher, *range(1, 12))
        slow.go.release(3)
        assert await asyncio.gather(*tasks) == [n * n for n in range(12)]

    run(slow, main)
    assert slow.batches == [[0], list(range(1, 9)), [9, 10, 11]]


def test_requests_of_one_group_share_a_batch_and_none_waits_longer_than_its_turn():
    slow = Slow()

    async def main(batcher):
        tasks = await queue(batcher, 0)
        await slow.reached()
        tasks += await queue(batcher, *range(1, 23))
        slow.go.release(5)
        assert await asyncio.gather(*tasks) == list(range(23))

    run(slow, main, group=lambda n: n % 2)
    odd, even = list(range(1, 23, 2)), list(range(2, 23, 2))
    assert slow.batches == [[0], odd[:8], even[:8], odd[8:], even[8:]]


def test_an_error_reaches_its_own_caller_only():
    def work(requests):
        if 7 in requests:
            raise MemoryError
        return [ValueError(n) if n == 1 else n for n in requests]

    async def main(batcher):
        results = await asyncio.gather(*map(batcher, range(3)), return_exceptions=True)
        assert (results[0], type(results[1]), results[2]) == (0, ValueError, 2)
        with pytest.raises(MemoryError):
            await batcher(7)
        for n in range(300):  # a task that has just ended leaves no request behind
            assert await batcher(n + 8) == n + 8

    run(work, main)


def test_a_full_queue_fails_with_503():
    slow = Slow()

    async def main(batcher):
        tasks = await queue(batcher, 0)
        await slow.reached()
        tasks += await queue(batcher, 1, 2)
        with pytest.raises(RequestError) as error:
            await batcher(3)
        assert (error.value.status, error.value.headers) == (503, {"Retry-After": "1"})
        slow.go.release(2)
        assert await asyncio.gather(*tasks) == [0, 1, 2]

    run(slow, main, max_queue=2)


def test_a_cancelled_request_does_not_affect_others():
    slow = Slow()

    async def main(batcher):
        (first,) = await queue(batcher, 0)
        await slow.reached()
        queued, running, stays = await queue(batcher, 1, 2, 3)
        queued.cancel()
        await asyncio.sleep(0)
        slow.go.release()
        await slow.reached()
        running.cancel()
        await asyncio.sleep(0)
        slow.go.release(2)
        assert await asyncio.gather(first, stays) == [0, 3]
        assert await batcher(4) == 4

    run(slow, main)
    assert slow.batches == [[0], [2, 3], [4]]


@pytest.fixture
def catalogue(files, settings):
    catalogues = open_catalogues(files[:1], settings)
    yield catalogues["photos"]
    close_catalogues(catalogues)


def test_a_batch_of_searches_gives_what_each_gives_alone(catalogue, folder):
    X = np.load(folder / "target.npy")
    queries = [
        SearchQuery("features", X[:1], "target", 3),
        SearchQuery("features", X[1:6], "target", 25, ItemFilter(("bee",))),
        SearchQuery("ids", np.array([5, 9]), "source", 7),
        SearchQuery("ids", np.array([12345]), "source", 3),
        SearchQuery("features", X[7:9], "target", 1),
        SearchQuery("features", X[9:10], "target", 9, ItemFilter(("bee",))),
    ]
    results = catalogue.search(queries)
    assert isinstance(results.pop(3), RequestError)
    del queries[3]
    for query, result in zip(queries, results, strict=True):
        (alone,) = catalogue.search([query])
        assert isinstance(result, SearchResult)
        assert result.ids.shape == (len(query.rows), query.k)
        for one, other in zip(result, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def test_many_requests_at_once_over_http(client, folder):
    X = np.load(folder / "target.npy")

    async def ask(i):
        form = {"features": [X[i].tolist()], "k": 1 + i % 5}
        response = await client.http.post("/v1/catalogues/photos/search", json=form)
        return response.json()["results"][0]

    async def ask_all():
        return await asyncio.gather(*map(ask, range(50)))

    for i, result in enumerate(client.run(ask_all())):
        assert result == client.run(ask(i))
