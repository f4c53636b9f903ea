"""The memory of the service has a stated limit, and requests beyond it get 503."""

from __future__ import annotations

import json
import os
from contextlib import closing
from http.client import HTTPConnection

import numpy as np
import pytest

from bridgehash._core.errors import InputError
from bridgehash.service import memory
from bridgehash.service.errors import RequestError
from bridgehash.service.memory import MemoryBudget, plan
from bridgehash.service.settings import Limits
from tests.service.process import LIMIT, running

P = "/v1/catalogues/photos"


def test_a_budget_never_holds_more_than_its_limit():
    budget = MemoryBudget(1000)
    first, second = budget.hold(), budget.hold()
    first.reserve(600)
    with pytest.raises(RequestError) as caught:
        second.reserve(401)
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
    second.reserve(400)
    assert budget.used == 1000
    first.release()
    first.release()
    assert budget.used == 400


def test_the_last_part_of_a_budget_is_for_small_requests():
    budget = MemoryBudget(100 << 20)
    large, small = budget.hold(), budget.hold()
    large.reserve(75 << 20)
    with pytest.raises(RequestError):
        large.reserve(1)
    small.reserve(100 << 10)


def test_a_plan_fits_its_limit():
    limits = plan(Limits(), None)
    fixed = limits.memory_bytes - limits.request_bytes
    assert fixed > memory.resident_bytes()
    assert limits.request_bytes == Limits().request_bytes
    chosen = plan(Limits(), fixed + (100 << 20))
    assert (100 << 20) - chosen.request_bytes < 10 << 20  # this process may have grown
    smaller = plan(Limits(), fixed)
    assert (smaller.decoders, smaller.memory_bytes) == (1, fixed)
    with pytest.raises(
        InputError, match=r"--memory-limit: 1 MiB are too little.*set at least \d+M"
    ):
        plan(Limits(), 1 << 20)


def test_requests_hold_memory_only_until_they_are_answered(client, folder):
    X = np.load(folder / "target.npy").tolist()
    for _ in range(3):
        client.post(P + "/search", json={"features": X, "k": 50})
        client.post(P + "/search", content=b"{", headers={"Content-Type": "application/json"})
        client.get(P + "/items/7/image")
        client.get(P + "/items/12345")
    assert client.workers.memory.used == 0


def test_an_answer_that_does_not_fit_gets_503(serve, folder):
    client = serve(request_bytes=900_000)
    X = np.load(folder / "target.npy").tolist()
    response = client.post(P + "/search", json={"features": X * 20, "k": 50})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert client.workers.memory.used == 0
    assert client.post(P + "/search", json={"features": X[:1], "k": 50}).status_code == 200


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_the_limit_is_shown(folder):
    with (
        running(folder, "--memory-limit", "2GB") as served,
        closing(HTTPConnection("127.0.0.1", served.port, timeout=LIMIT)) as connection,
    ):
        connection.request("GET", "/v1/catalogues")
        limits = json.loads(connection.getresponse().read())["limits"]
        assert limits["memory_bytes"] == 2 << 30
        assert 0 < limits["request_bytes"] < 2 << 30
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        assert float(values["bridgehash_request_bytes"]) == 0
        assert float(values["bridgehash_request_bytes_limit"]) == limits["request_bytes"]
        assert float(values["bridgehash_memory_bytes_limit"]) == 2 << 30
        assert "in at most 2048 MiB" in served.log.read_text()
