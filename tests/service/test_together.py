"""Questions that are answered together get what each would get alone."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from bridgehash.service.catalogue import Found, Question
from bridgehash.service.errors import Refused
from bridgehash.service.opening import close_catalogues, open_catalogues


@pytest.fixture
def catalogue(files, settings):
    opened = open_catalogues(files[:1], settings)
    yield opened["photos"]
    close_catalogues(opened)


def questions(folder):
    X = np.load(folder / "target.npy")
    return [
        Question("target", 3, features=X[:1]),
        Question("target", 25, features=X[1:6], tag="bee"),
        Question("source", 7, ids=np.array([5, 9])),
        Question("target", 1, features=X[7:9]),
        Question("target", 9, features=X[9:10], tag="bee"),
    ]


def same(a, b):
    assert a.tags == b.tags
    for name in ("queries", "ids", "distances", "codes"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_together_as_alone(catalogue, folder):
    asked = questions(folder)
    for question, answer in zip(asked, catalogue.search(asked), strict=True):
        (alone,) = catalogue.search([question])
        assert isinstance(answer, Found)
        same(answer, alone)
        assert answer.ids.shape[1] == question.k


def test_a_question_that_is_refused_is_not_in_the_way_of_others(catalogue, folder):
    asked = questions(folder)
    asked[1] = Question("source", 3, ids=np.array([12345]))
    answers = catalogue.search(asked)
    assert isinstance(answers[1], Refused)
    for i in (0, 2, 3, 4):
        same(answers[i], catalogue.search([asked[i]])[0])


def test_many_at_once_over_http(client, folder):
    X = np.load(folder / "target.npy")

    async def ask(i):
        form = {"features": [X[i].tolist()], "k": 1 + i % 5}
        answer = await client._client.post("/v1/catalogues/photos/search", json=form)
        return answer.json()["results"][0]

    async def all_at_once():
        return await asyncio.gather(*map(ask, range(50)))

    together = client.run(all_at_once())
    for i, answer in enumerate(together):
        assert answer == client.run(ask(i))
