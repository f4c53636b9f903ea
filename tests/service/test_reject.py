"""Queries that have no counterpart are marked, and left out if the request says so."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bridgehash import load, save
from bridgehash.index import HammingIndex
from bridgehash.models.rejector import Rejector
from bridgehash.service.catalogue import SearchQuery
from bridgehash.service.routes.common import NPY

SEARCH = "/v1/catalogues/photos/search"
IMAGE = "/v1/catalogues/plain/search/image"


@pytest.fixture
def rejected(folder: Path) -> np.ndarray:
    """Which rows of the target the model of the catalogue rejects."""
    model, X = load(folder / "model.bh"), np.load(folder / "target.npy")
    first = X[:, 0] / np.linalg.norm(X, axis=1)
    model.rejectors_ = {"target": Rejector(np.eye(5)[0], 0.0, float(np.median(first)))}
    save(model, folder / "model.bh")
    return first > np.median(first)


@pytest.fixture
def rejected_codes(rejected: np.ndarray, folder: Path) -> np.ndarray:
    """Which codes of the target the model of the catalogue rejects: those whose last bit is one."""
    model = load(folder / "model.bh")
    model.code_rejectors_ = {"target": Rejector(np.eye(12)[-1], 0.0, 0.0)}
    save(model, folder / "model.bh")
    ones = model.transform(np.load(folder / "target.npy"), "target")[:, -1] > 0
    assert 0 < ones.sum() < 50
    assert (ones != rejected).any()  # codes and features can be told apart
    return ones


def asked(client, **form):
    response = client.post(SEARCH, json=form)
    assert response.status_code == 200, response.text
    return response.json()["results"]


@pytest.mark.parametrize("rank", ["hamming", "weights"])
@pytest.mark.parametrize("k", [4, 50])
def test_answers_say_which_queries_are_rejected(rejected, serve, folder, rank, k):
    client, X = serve(), np.load(folder / "target.npy")
    form = {"features": X.tolist(), "rank": rank, "k": k}
    every, some = asked(client, **form), asked(client, **form, reject=True)
    assert [result["rejected"] for result in every] == rejected.tolist()
    assert asked(client, **form, reject=False) == every
    for full, result in zip(every, some, strict=True):
        assert len(full["hits"]) == k
        assert result == ({**full, "hits": []} if full["rejected"] else full)


def test_a_batch_keeps_requests_apart(rejected, serve, folder):
    catalogue, X = serve().workers.catalogues["photos"], np.load(folder / "target.npy")
    queries = [
        SearchQuery("features", X[i : i + 2], "target", 3, None, i % 4 < 2, i % 3 == 0)
        for i in range(0, 20, 2)
    ]
    results = catalogue.search([*queries, SearchQuery("ids", np.arange(3), "source", 3)])
    assert results[-1].rejected is None  # the source is searched
    for i, result in zip(range(0, 20, 2), results[:-1], strict=True):
        np.testing.assert_array_equal(result.rejected, rejected[i : i + 2])
        empty = result.rejected if i % 3 == 0 else np.zeros(2, bool)
        np.testing.assert_array_equal((result.ids < 0).all(axis=1), empty)


def test_codes_and_ids_are_rejected_by_their_codes(rejected_codes, serve, folder):
    client, codes = serve(), HammingIndex.load(folder / "sketches.bhi").get(range(50)).codes
    texts = [code.tobytes().hex() for code in codes]
    forms = ({"codes": texts}, {"ids": [*range(50)], "domain": "target"})
    for form in forms:
        every, some = asked(client, **form, k=3), asked(client, **form, k=3, reject=True)
        assert [result["rejected"] for result in every] == rejected_codes.tolist()
        for full, result in zip(every, some, strict=True):
            assert len(full["hits"]) == 3
            assert result == ({**full, "hits": []} if full["rejected"] else full)


def test_features_and_codes_in_one_batch_have_rejectors_of_their_own(
    rejected, rejected_codes, serve, folder
):
    catalogue, X = serve().workers.catalogues["photos"], np.load(folder / "target.npy")
    codes = load(folder / "model.bh").encode(X, "target")
    by_features, by_codes = catalogue.search(
        [SearchQuery("features", X, "target", 3), SearchQuery("codes", codes, "target", 3)]
    )
    np.testing.assert_array_equal(by_features.rejected, rejected)
    np.testing.assert_array_equal(by_codes.rejected, rejected_codes)


def test_arrays_have_no_items_for_rejected_queries(rejected, serve, folder):
    X = np.load(folder / "target.npy")
    file = io.BytesIO()
    np.save(file, X)
    binary = {"Content-Type": NPY, "Accept": NPY}
    client = serve()
    for word, empty in (("true", rejected), ("false", np.zeros(50, bool))):
        answer = client.post(f"{SEARCH}?k=2&reject={word}", content=file.getvalue(), headers=binary)
        found = np.load(io.BytesIO(answer.content), allow_pickle=False)
        np.testing.assert_array_equal((found["id"] < 0).all(axis=1), empty)
        np.testing.assert_array_equal(np.isinf(found["score"]).all(axis=1), empty)


def test_text_ids_can_be_left_out(rejected, serve, folder):
    index = HammingIndex.load(folder / "photos.bhi")
    named = HammingIndex(12).add(
        index.get(index.ids).codes, ids=[f"p{i}" for i in index.ids], domain="source"
    )
    named.about = index.about
    named.save(folder / "photos.bhi")
    results = asked(serve(), features=np.load(folder / "target.npy").tolist(), k=2, reject=True)
    assert [not result["hits"] for result in results] == rejected.tolist()


def test_a_model_whose_codes_have_changed_needs_features(rejected, serve):
    client, form = serve(), {"codes": ["0" * 4]}
    assert asked(client, **form)[0]["rejected"] is None
    refused = client.post(SEARCH, json={**form, "reject": True})
    assert (refused.status_code, refused.json()["field"]) == (422, "reject")
    assert "needs features, not codes" in refused.json()["detail"]


def test_what_is_not_known_is_null(rejected_codes, serve, folder):
    client, code = serve(), "0" * 4
    forms = (
        {"codes": [code], "in_domain": "target"},
        {"codes": [code], "domain": "source"},
        {"ids": [1]},
        {"features": np.load(folder / "source.npy")[:1].tolist(), "domain": "source"},
        {"features": np.load(folder / "target.npy")[:1].tolist(), "in_domain": "target"},
    )
    for form in forms:
        assert asked(client, **form)[0]["rejected"] is None
        refused = client.post(SEARCH, json={**form, "reject": True})
        assert (refused.status_code, refused.json()["field"]) == (422, "reject")


def test_a_model_that_cannot_tell_refuses_to_reject(client, folder):
    form = {"features": np.load(folder / "target.npy")[:2].tolist()}
    assert [result["rejected"] for result in asked(client, **form)] == [None, None]
    refused = client.post(SEARCH, json={**form, "reject": True})
    assert (refused.status_code, refused.json()["field"]) == (422, "reject")
    assert "fit ATH.propagated with labels of the other domain" in refused.json()["detail"]
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 30, 30)).save(file, "PNG")
    png = {"content": file.getvalue(), "headers": {"Content-Type": "image/png"}}
    assert client.post(IMAGE, **png).json()["results"][0]["rejected"] is None
    refused = client.post(IMAGE + "?reject=true", **png)
    assert (refused.status_code, refused.json()["field"]) == (422, "reject")


def test_huge_features_are_answered(rejected, serve):
    (result,) = asked(serve(), features=[[1e300, -1e300, 1e308, 0, 1]], k=3)
    assert result["rejected"] in (True, False)
    assert len(result["hits"]) == 3


def test_the_document_describes_rejection(client):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["SearchRequest"]["properties"]["reject"]["type"] == "boolean"
    assert "rejected" in schemas["QueryResult"]["required"]
