"""A search over HTTP gives the results of the library, for every kind of query."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from bridgehash import load
from bridgehash.features.backbones import ExtractSettings, find_backbone
from bridgehash.index import HammingIndex
from bridgehash.service.catalogue import SearchQuery
from bridgehash.service.errors import RequestError
from bridgehash.service.routes.common import NPY
from tests.service.local import LocalClient

SEARCH = "/v1/catalogues/photos/search"
PLAIN = "/v1/catalogues/plain/search"
PNG = {"Content-Type": "image/png"}


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def read(body: bytes) -> np.ndarray:
    return np.load(io.BytesIO(body), allow_pickle=False)


def expected(folder: Path, codes: np.ndarray, k: int, tags: object = None) -> list[list[tuple]]:
    distances, ids = HammingIndex.load(folder / "photos.bhi").search(codes, k, tags=tags)
    return [
        [(int(i), int(d)) for i, d in zip(row, near, strict=True) if i >= 0]
        for row, near in zip(ids, distances, strict=True)
    ]


def hits_of(response: httpx.Response) -> list[list[tuple]]:
    assert response.status_code == 200, response.text
    return [[(h["id"], h["distance"]) for h in r["hits"]] for r in response.json()["results"]]


@pytest.fixture
def codes(folder: Path) -> np.ndarray:
    return load(folder / "model.bh").encode(np.load(folder / "target.npy"), "target")


@pytest.mark.parametrize("form", [{"ids": [3, 4], "k": 3}, {"ids": [10**9]}, {"ids": []}, {}])
def test_a_direct_call_answers_like_fastapi(client, form):
    """A query parameter, here one without effect on JSON, needs FastAPI; most requests do not."""
    direct, checked = (client.post(SEARCH + end, json=form) for end in ("", "?match=any"))
    assert direct.status_code == checked.status_code
    assert direct.headers == checked.headers
    assert direct.content == checked.content
    metrics = client.get("/metrics").text
    assert f'route="/v1/catalogues/{{catalogue}}/search",status="{direct.status_code}"}} 2.0' in (
        metrics
    )


def test_features_find_what_the_library_finds(client, folder, codes):
    X = np.load(folder / "target.npy")
    response = client.post(SEARCH, json={"features": X.tolist(), "k": 4, "rank": "hamming"})
    assert hits_of(response) == expected(folder, codes, 4)
    assert [r["code"] for r in response.json()["results"]] == [c.tobytes().hex() for c in codes]
    assert (response.json()["domain"], response.json()["rank"]) == ("target", "hamming")
    assert "score" not in response.json()["results"][0]["hits"][0]
    one = client.post(SEARCH, json={"features": X[17:18].tolist(), "rank": "hamming"})
    assert hits_of(one) == expected(folder, codes[17:18], 10)


def test_codes_and_items_are_queries_too(client, folder, codes):
    texts = [code.tobytes().hex() for code in codes]
    assert hits_of(client.post(SEARCH, json={"codes": texts, "k": 3})) == expected(folder, codes, 3)
    ids = {"ids": [5, 40, 2], "domain": "target", "k": 3}
    assert hits_of(client.post(SEARCH, json=ids)) == expected(folder, codes[[5, 40, 2]], 3)
    own = HammingIndex.load(folder / "photos.bhi").get([7])[0]
    assert hits_of(client.post(SEARCH, json={"ids": [7], "k": 3})) == expected(folder, own, 3)


def test_features_of_the_index_domain_are_encoded_with_its_own_function(client, folder):
    X = np.load(folder / "source.npy")[:3]
    codes = load(folder / "model.bh").encode(X, "source")
    form = {"features": X.tolist(), "domain": "source", "k": 2, "rank": "hamming"}
    response = client.post(SEARCH, json=form)
    assert hits_of(response) == expected(folder, codes, 2)


def test_a_tag_narrows(client, folder, codes):
    text = [codes[0].tobytes().hex()]
    response = client.post(SEARCH, json={"codes": text, "k": 30, "tags": "bee"})
    assert hits_of(response) == expected(folder, codes[:1], 30, "bee")
    assert [hit["tags"] for hit in response.json()["results"][0]["hits"]] == [["bee"]] * 20
    assert hits_of(client.post(SEARCH, json={"codes": text, "tags": ["elk"]})) == [[]]


def test_fewer_items_than_k_are_all_of_them(client, codes):
    response = client.post(SEARCH, json={"codes": [codes[0].tobytes().hex()], "k": 1000})
    assert len(hits_of(response)[0]) == 60
    raw = client.post(
        SEARCH + "?k=70&content=codes", content=npy(codes[:1]), headers=BINARY
    ).content
    assert (read(raw)["id"][0, 60:] == -1).all()


BINARY = {"Content-Type": NPY, "Accept": NPY}


def test_arrays_in_and_arrays_out(client, folder, codes):
    X = np.load(folder / "target.npy")
    for sent in (X, X.astype("<f4"), X.astype(">f8"), np.asfortranarray(X)):
        response = client.post(SEARCH + "?k=5&rank=hamming", content=npy(sent), headers=BINARY)
        assert response.headers["content-type"] == NPY
        hits = [[(int(i), int(d)) for i, d in row] for row in read(response.content)]
        assert hits == expected(folder, codes, 5)
        packed = client.post("/v1/catalogues/photos/encode", content=npy(sent), headers=BINARY)
        np.testing.assert_array_equal(read(packed.content), codes)
    whole = client.post(SEARCH, content=npy(np.ones((1, 5), int)), headers={"Content-Type": NPY})
    assert hits_of(whole) == hits_of(client.post(SEARCH, json={"features": [[1] * 5]}))


def test_codes_may_be_an_array(client, folder, codes):
    kind = {"Content-Type": NPY}
    response = client.post(SEARCH + "?k=5&content=codes", content=npy(codes), headers=kind)
    assert hits_of(response) == expected(folder, codes, 5)


def test_encode_gives_codes_in_hex(client, folder, codes):
    X = np.load(folder / "target.npy")[:2]
    response = client.post("/v1/catalogues/photos/encode", json={"features": X.tolist()}).json()
    assert response["codes"] == [code.tobytes().hex() for code in codes[:2]]
    assert (response["domain"], response["n_bits"]) == ("target", 12)


def test_a_hit_tells_its_code_tag_and_picture(client, folder):
    response = client.post(SEARCH, json={"ids": [7], "k": 60}).json()
    index = HammingIndex.load(folder / "photos.bhi")
    for hit in response["results"][0]["hits"]:
        code, tags, domains = index.get([hit["id"]])
        assert hit["code"] == code.tobytes().hex()
        assert (tuple(hit["tags"]), hit["domain"]) == (tags[0], domains[0])
        if hit["id"] in (0, 1, 7):
            assert client.get(hit["image"]).headers["content-type"] == "image/png"
        else:
            assert hit["image"] is None


def image(kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def test_an_image_finds_what_its_features_find(client: LocalClient):
    backbone = find_backbone("gist")
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        data = image(kind)
        with Image.open(io.BytesIO(data)) as opened:
            X = backbone.load(ExtractSettings())(backbone.prepare(opened.convert("RGB"))[None])
        by_features = client.post(PLAIN, json={"features": X.tolist()})
        headers = {"Content-Type": f"image/{kind.lower()}"}
        by_image = client.post(PLAIN + "/image?k=10", content=data, headers=headers)
        assert hits_of(by_image) == hits_of(by_features)


def test_an_unreadable_image_gets_422(client):
    unknown = "cannot be read (not an image, or an unknown format)"
    for data, reason in (
        (b"", "cannot be read"),
        (b"no image at all", unknown),
        (image()[:200], "cannot be read"),
        (image("TIFF"), unknown),
    ):
        response = client.post(PLAIN + "/image", content=data, headers=PNG)
        assert (response.status_code, response.json()["field"]) == (422, "image")
        assert reason in response.json()["detail"]


def test_a_decompression_bomb_is_rejected_by_its_header(serve, monkeypatch):
    client = serve(pixels=1000)
    monkeypatch.setattr("bridgehash.service.images.upright", None)  # a pixel would be decoded here
    bomb = image(size=(40, 30))
    response = client.post(PLAIN + "/image", content=bomb, headers=PNG)
    assert response.status_code == 422
    assert "40 x 30 pixels; send 1 to 1000 pixels" in response.json()["detail"]


def test_without_a_backbone_images_are_rejected(client):
    response = client.post("/v1/catalogues/photos/search/image", content=image(), headers=PNG)
    assert (response.status_code, response.json()["field"]) == (404, "image")


def test_a_request_that_cannot_be_encoded_does_not_fail_others_of_its_batch(client):
    """Features of waiting requests are encoded together; one of them overflows."""
    catalogue = client.workers.catalogues["photos"]
    width = catalogue.domains["target"].encoder.n_features_in_
    good = SearchQuery("features", np.ones((2, width)), "target", 3)
    bad = good._replace(rows=np.full((1, width), np.nan))
    (alone,) = catalogue.search([good])
    first, failed, last = catalogue.search([good, bad, good])
    assert isinstance(failed, RequestError)
    for result in (first, last):
        np.testing.assert_array_equal(result.ids, alone.ids)
        np.testing.assert_array_equal(result.queries, alone.queries)


def test_query_parameters_change_nothing_for_json(client, folder):
    form = {"features": np.load(folder / "target.npy")[:3].tolist(), "k": 4}
    alone = client.post(SEARCH, json=form)
    assert alone.status_code == 200
    assert client.post(SEARCH + "?k=2&rank=hamming", json=form).content == alone.content
    refused = client.post(SEARCH + "?k=none", json=form)
    assert (refused.status_code, refused.json()["field"]) == (422, "k")
    missing = client.post(SEARCH.replace("photos", "x" * 70), json=form)
    assert missing.status_code == 422
