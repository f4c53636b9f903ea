"""Searches with features are ranked by weights, as in the library, unless the request says else."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bridgehash import ATH, DecoderWarning, load, save
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin
from bridgehash.service.catalogue import Files, SearchQuery, close_catalogues, open_catalogues
from bridgehash.service.routes.common import NPY

SEARCH = "/v1/catalogues/photos/search"
ITEMS = "/v1/catalogues/free/items"
FREE = "/v1/catalogues/free/search"


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def ranked(response) -> list[list[tuple]]:
    """Return id and score of all hits."""
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["rank"] == "weights"
    return [[(h["id"], np.float32(h["score"])) for h in r["hits"]] for r in answer["results"]]


def expected(index: HammingIndex, model, X, domain, k, **filters) -> list[list[tuple]]:
    weights = model.query_weights(X, domain)
    scores, ids = index.search(model.encode(X, domain), k, weights=weights, **filters)
    return [
        [(int(i), s) for i, s in zip(row, score, strict=True) if i >= 0]
        for row, score in zip(ids, scores, strict=True)
    ]


@pytest.fixture
def free(folder: Path, files: list[Files]) -> ATH:
    """A third catalogue, whose model did not learn from labels."""
    X, Z = np.load(folder / "source.npy"), np.load(folder / "target.npy")
    model = ATH.unsupervised(n_bits=16, random_state=0).fit(X, Z)
    save(model, folder / "free.bh")
    codes, corrections = model.encode_corrected(X[:40], "source")
    index = HammingIndex(16).add(codes, domain="source", corrections=corrections)
    index.about = origin(load(folder / "free.bh"), "source")
    index.save(folder / "free.bhi")
    files.append(Files(folder / "free.bh", folder / "free.bhi"))
    return model


@pytest.mark.parametrize("rank", [{}, {"rank": "auto"}, {"rank": "weights"}])
def test_features_are_ranked_by_weights(client, folder, rank):
    X, model = np.load(folder / "target.npy"), load(folder / "model.bh")
    index = HammingIndex.load(folder / "photos.bhi")
    response = client.post(SEARCH, json={"features": X.tolist(), "k": 9, **rank})
    assert ranked(response) == expected(index, model, X, "target", 9)
    for result in response.json()["results"]:
        query = int(result["code"], 16)
        for hit in result["hits"]:
            assert hit["distance"] == (query ^ int(hit["code"], 16)).bit_count()
        assert [h["score"] for h in result["hits"]] == sorted(h["score"] for h in result["hits"])


def test_a_long_search_by_weights_is_answered_in_parts(client, folder):
    X, model = np.load(folder / "target.npy"), load(folder / "model.bh")
    index = HammingIndex.load(folder / "photos.bhi")
    response = client.post(SEARCH, json={"features": X.tolist(), "k": 500})
    assert ranked(response) == expected(index, model, X, "target", 500)


def test_filters_apply_to_weights(client, folder):
    X, model = np.load(folder / "target.npy")[:3], load(folder / "model.bh")
    index = HammingIndex.load(folder / "photos.bhi")
    form = {"features": X.tolist(), "k": 30, "tags": "bee"}
    assert ranked(client.post(SEARCH, json=form)) == expected(
        index, model, X, "target", 30, tags="bee"
    )
    nothing = client.post(SEARCH, json={**form, "tags": "elk"})
    assert ranked(nothing) == [[], [], []]


def test_codes_and_ids_are_ranked_by_distance(client, folder):
    code = load(folder / "model.bh").encode(np.load(folder / "target.npy")[:1], "target")[0]
    for form in ({"codes": [code.tobytes().hex()]}, {"ids": [0], "domain": "target"}):
        for rank in ({}, {"rank": "auto"}, {"rank": "hamming"}):
            answer = client.post(SEARCH, json={**form, **rank}).json()
            assert answer["rank"] == "hamming"
            distances = [hit["distance"] for hit in answer["results"][0]["hits"]]
            assert distances == sorted(distances)
        refused = client.post(SEARCH, json={**form, "rank": "weights"})
        assert (refused.status_code, refused.json()["field"]) == (422, "rank")
        (content, *_) = form
        remedy = f"weights need features, not {content}; send features, or rank by hamming"
        assert remedy in refused.json()["detail"]
    unknown = client.post(SEARCH, json={"ids": [0], "rank": "best"})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "rank")


def test_an_array_of_results_has_scores(client, folder):
    X, model = np.load(folder / "target.npy"), load(folder / "model.bh")
    index = HammingIndex.load(folder / "photos.bhi")
    binary = {"Content-Type": NPY, "Accept": NPY}
    content = client.post(SEARCH + "?k=5&rank=weights", content=npy(X), headers=binary).content
    found = np.load(io.BytesIO(content), allow_pickle=False)
    assert found.dtype.names == ("id", "distance", "score")
    assert [[(int(hit["id"]), hit["score"]) for hit in row] for row in found] == expected(
        index, model, X, "target", 5
    )
    refused = client.post(
        SEARCH + "?rank=weights&content=codes", content=npy(found["distance"]), headers=binary
    )
    assert (refused.status_code, refused.json()["field"]) == (422, "rank")


def test_an_image_is_ranked_by_weights_or_distance(client):
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 30, 30)).save(file, "PNG")
    for rank, name in (("", "weights"), ("&rank=weights", "weights"), ("&rank=hamming", "hamming")):
        answer = client.post(
            f"/v1/catalogues/plain/search/image?k=20{rank}",
            content=file.getvalue(),
            headers={"Content-Type": "image/png"},
        ).json()
        order = "score" if name == "weights" else "distance"
        values = [hit[order] for hit in answer["results"][0]["hits"]]
        assert (answer["rank"], values) == (name, sorted(values))


def test_a_model_without_a_decoder_ranks_by_projections(folder, files, serve):
    model = load(folder / "model.bh")
    for encoder in model.encoders_.values():
        encoder.decoder_ = None
    save(model, folder / "model.bh")
    X = np.load(folder / "target.npy")[:5]
    response = serve().post(SEARCH, json={"features": X.tolist()})
    index = HammingIndex.load(folder / "photos.bhi")
    H = model.decision_function(X, "target")
    _, ids = index.search(model.encode(X, "target"), 10, weights=H)
    assert [[i for i, _ in row] for row in ranked(response)] == ids.tolist()


def test_an_older_model_does_not_use_corrections(folder, files, serve, free):
    model = load(folder / "free.bh")
    for encoder in model.encoders_.values():
        encoder.decoder_ = None
    save(model, folder / "free.bh")
    with pytest.warns(
        DecoderWarning, match=r"free\.bh .* cannot use the corrections of .*free\.bhi"
    ):
        client = serve(n=3)
    X = np.load(folder / "target.npy")[:5]
    answer = client.post(FREE, json={"features": X.tolist()}).json()
    index = HammingIndex.load(folder / "free.bhi")
    distances, ids = index.search(model.encode(X, "target"), 10)
    assert answer["rank"] == "hamming"
    assert [[h["id"] for h in r["hits"]] for r in answer["results"]] == ids.tolist()
    assert [[h["distance"] for h in r["hits"]] for r in answer["results"]] == distances.tolist()
    refused = client.post(FREE, json={"features": X.tolist(), "rank": "weights"})
    assert (refused.status_code, refused.json()["field"]) == (422, "rank")
    assert "fit it again, or rank by hamming" in refused.json()["detail"]


def test_items_added_with_features_have_corrections(serve, free, folder, keyed):
    client, X = serve(n=3), np.load(folder / "source.npy")
    codes, corrections = free.encode_corrected(X, "source")
    added = client.post(ITEMS, json={"features": X[40:50].tolist()}, headers=keyed)
    assert added.json()["ids"] == list(range(40, 50))
    form = {"features": X[50:].tolist(), "ids": list(range(50, 60))}
    assert client.put(ITEMS, json=form, headers=keyed).json()["added"] == 10
    whole = HammingIndex(16).add(codes, domain="source", corrections=corrections)
    Z = np.load(folder / "target.npy")
    response = client.post(FREE, json={"features": Z.tolist(), "k": 60})
    assert ranked(response) == expected(whole, free, Z, "target", 60)
    stored = HammingIndex.load(folder / "free.bhi")  # with its journal
    scores, _ = stored.search(free.encode(Z, "target"), 60, weights=free.query_weights(Z, "target"))
    assert scores.tolist() == [[s for _, s in row] for row in ranked(response)]


def test_models_that_learned_from_labels_store_no_corrections(client, folder, keyed):
    X = np.load(folder / "source.npy")
    items = "/v1/catalogues/photos/items"
    assert client.post(items, json={"features": X[:5].tolist()}, headers=keyed).status_code == 200
    state = client.workers.catalogues["photos"].store.index._state
    assert state.corrections is None
    codes = load(folder / "model.bh").encode(X[:5], "source")
    np.testing.assert_array_equal(
        client.workers.catalogues["photos"].store.index.get(range(60, 65)).codes, codes
    )


def test_items_added_as_codes_have_no_corrections(serve, free, folder, keyed):
    client, X = serve(n=3), np.load(folder / "source.npy")
    code = free.encode(X[50:51], "source")[0].tobytes().hex()
    added = client.post(ITEMS, json={"codes": [code]}, headers=keyed)
    assert added.status_code == 200
    corrections = client.workers.catalogues["free"].store.index._state.corrections
    assert np.isnan(corrections[:, 40]).all()
    assert not np.isnan(corrections[:, :40]).any()


def test_huge_features_have_finite_scores(serve, free, keyed):
    client = serve(n=3)
    huge = [[1e300, -1e300, 1e308, 0, 1]]
    (hits,) = ranked(client.post(FREE, json={"features": huge, "k": 40}))
    assert len(hits) == 40
    assert np.isfinite([score for _, score in hits]).all()
    form = {"features": [[1e300, -1e300, 1e300, 0, 1, 0, 0, 0]], "ids": [40]}
    assert client.put(ITEMS, json=form, headers=keyed).status_code == 200
    (hits,) = ranked(client.post(FREE, json={"features": huge, "k": 41}))
    assert np.isfinite([score for _, score in hits]).all()


def test_a_batch_of_both_kinds_gives_what_each_gives_alone(files, settings, folder):
    catalogues = open_catalogues(files[:1], settings)
    catalogue, X = catalogues["photos"], np.load(folder / "target.npy")
    queries = [
        SearchQuery("features", X[i : i + 1 + i % 3], "target", 3 + i, None, i % 2 == 0)
        for i in range(8)
    ]
    bad = SearchQuery("features", np.full((1, 5), np.nan), "target", 3, None, True)
    *results, failed = catalogue.search([*queries, bad])
    assert isinstance(failed, Exception)
    for query, result in zip(queries, results, strict=True):
        (alone,) = catalogue.search([query])
        assert (result.scores is not None) == query.weighted
        for one, other in zip(result, alone, strict=True):
            if one is not None:
                np.testing.assert_array_equal(one, other)
    close_catalogues(catalogues)
