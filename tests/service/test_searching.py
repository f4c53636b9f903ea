"""A search over HTTP is that of the library, in whatever form it is asked."""

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
from bridgehash.service.bodies import NPY
from tests.service.local import LocalClient

SEARCH = "/v1/catalogues/photos/search"


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def read(body: bytes) -> np.ndarray:
    return np.load(io.BytesIO(body), allow_pickle=False)


def expected(folder: Path, codes: np.ndarray, k: int, tag: str | None = None) -> list[list[tuple]]:
    distances, ids = HammingIndex.load(folder / "photos.bhi").search(codes, k, tag=tag)
    return [
        [(int(i), int(d)) for i, d in zip(row, near, strict=True) if i >= 0]
        for row, near in zip(ids, distances, strict=True)
    ]


def found(answer: httpx.Response) -> list[list[tuple]]:
    assert answer.status_code == 200, answer.text
    return [[(h["id"], h["distance"]) for h in r["hits"]] for r in answer.json()["results"]]


@pytest.fixture
def codes(folder: Path) -> np.ndarray:
    return load(folder / "model.bh").encode(np.load(folder / "target.npy"), "target")


def test_features_find_what_the_library_finds(client, folder, codes):
    X = np.load(folder / "target.npy")
    answer = client.post(SEARCH, json={"features": X.tolist(), "k": 4})
    assert found(answer) == expected(folder, codes, 4)
    assert [r["code"] for r in answer.json()["results"]] == [c.tobytes().hex() for c in codes]
    assert answer.json()["domain"] == "target"


def test_one_query_is_that_of_a_batch(client, folder, codes):
    X = np.load(folder / "target.npy")
    for i in (0, 17):
        answer = client.post(SEARCH, json={"features": X[i : i + 1].tolist()})
        assert found(answer) == expected(folder, codes[i : i + 1], 10)


def test_codes_and_items_are_queries_too(client, folder, codes):
    texts = [code.tobytes().hex() for code in codes]
    assert found(client.post(SEARCH, json={"codes": texts, "k": 3})) == expected(folder, codes, 3)
    ids = {"ids": [5, 40, 2], "domain": "target", "k": 3}
    assert found(client.post(SEARCH, json=ids)) == expected(folder, codes[[5, 40, 2]], 3)
    own = HammingIndex.load(folder / "photos.bhi").get([7])[0]
    assert found(client.post(SEARCH, json={"ids": [7], "k": 3})) == expected(folder, own, 3)


def test_features_of_the_index_domain_are_encoded_with_its_own_function(client, folder):
    X = np.load(folder / "source.npy")[:3]
    codes = load(folder / "model.bh").encode(X, "source")
    answer = client.post(SEARCH, json={"features": X.tolist(), "domain": "source", "k": 2})
    assert found(answer) == expected(folder, codes, 2)


def test_a_tag_narrows(client, folder, codes):
    text = [codes[0].tobytes().hex()]
    answer = client.post(SEARCH, json={"codes": text, "k": 30, "tag": "bee"})
    assert found(answer) == expected(folder, codes[:1], 30, "bee")
    assert {hit["tag"] for hit in answer.json()["results"][0]["hits"]} == {"bee"}
    assert found(client.post(SEARCH, json={"codes": text, "tag": "elk"})) == [[]]


def test_fewer_items_than_k_are_all_of_them(client, codes):
    answer = client.post(SEARCH, json={"codes": [codes[0].tobytes().hex()], "k": 1000})
    assert len(found(answer)[0]) == 60
    raw = client.post(SEARCH + "?k=70&holds=codes", content=npy(codes[:1]), headers=BINARY).content
    assert (read(raw)["id"][0, 60:] == -1).all()


BINARY = {"Content-Type": NPY, "Accept": NPY}


@pytest.mark.parametrize("dtype", ["<f8", "<f4", ">f8"])
def test_arrays_in_and_arrays_out(client, folder, codes, dtype):
    X = np.load(folder / "target.npy").astype(dtype)
    answer = client.post(SEARCH + "?k=5", content=npy(X), headers=BINARY)
    assert answer.headers["content-type"] == NPY
    hits = read(answer.content)
    both = [[(int(i), int(d)) for i, d in row] for row in hits]
    assert both == expected(folder, codes, 5)
    packed = client.post("/v1/catalogues/photos/encode", content=npy(X), headers=BINARY)
    np.testing.assert_array_equal(read(packed.content), codes)


def test_an_array_in_the_order_of_columns_is_read_right(client, folder, codes):
    X = np.asfortranarray(np.load(folder / "target.npy"))
    packed = client.post("/v1/catalogues/photos/encode", content=npy(X), headers=BINARY)
    np.testing.assert_array_equal(read(packed.content), codes)


def test_codes_may_be_an_array(client, folder, codes):
    kind = {"Content-Type": NPY}
    answer = client.post(SEARCH + "?k=5&holds=codes", content=npy(codes), headers=kind)
    assert found(answer) == expected(folder, codes, 5)


def test_encode_gives_codes_in_hex(client, folder, codes):
    X = np.load(folder / "target.npy")[:2]
    answer = client.post("/v1/catalogues/photos/encode", json={"features": X.tolist()}).json()
    assert answer["codes"] == [code.tobytes().hex() for code in codes[:2]]
    assert (answer["domain"], answer["n_bits"]) == ("target", 12)


def test_a_hit_tells_its_code_tag_and_picture(client, folder):
    answer = client.post(SEARCH, json={"ids": [7], "k": 60}).json()
    index = HammingIndex.load(folder / "photos.bhi")
    for hit in answer["results"][0]["hits"]:
        code, tag = index.get([hit["id"]])
        assert hit["code"] == code.tobytes().hex()
        assert hit["tag"] == tag[0]
        if hit["id"] in (0, 1, 7):
            assert client.get(hit["image"]).headers["content-type"] == "image/png"
        else:
            assert hit["image"] is None


def image(kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_an_image_finds_what_its_features_find(client: LocalClient, folder: Path, kind: str):
    data = image(kind)
    backbone = find_backbone("gist")
    with Image.open(io.BytesIO(data)) as opened:
        X = backbone.load(ExtractSettings())(backbone.prepare(opened.convert("RGB"))[None])
    by_features = client.post("/v1/catalogues/plain/search", json={"features": X.tolist()})
    by_image = client.post(
        "/v1/catalogues/plain/search/image?k=10",
        content=data,
        headers={"Content-Type": f"image/{kind.lower()}"},
    )
    assert found(by_image) == found(by_features)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be read"),
        (b"no image at all", "cannot be read (not an image, or of an unknown kind)"),
        (image()[:200], "cannot be read"),
        (image("TIFF"), "cannot be read (not an image, or of an unknown kind)"),
    ],
)
def test_what_is_no_image_is_refused(client, data, reason):
    png = {"Content-Type": "image/png"}
    answer = client.post("/v1/catalogues/plain/search/image", content=data, headers=png)
    assert answer.status_code == 422
    assert reason in answer.json()["error"]
    assert answer.json()["field"] == "image"


def test_a_decompression_bomb_is_refused_by_its_header(serve, monkeypatch):
    client = serve(pixels=1000)
    monkeypatch.setattr("bridgehash.service.images.upright", None)  # a pixel would be decoded here
    png = {"Content-Type": "image/png"}
    bomb = image(size=(40, 30))
    answer = client.post("/v1/catalogues/plain/search/image", content=bomb, headers=png)
    assert answer.status_code == 422
    assert "40 x 30 pixels are more than 1000" in answer.json()["error"]


def test_without_a_backbone_images_are_refused(client):
    png = {"Content-Type": "image/png"}
    answer = client.post("/v1/catalogues/photos/search/image", content=image(), headers=png)
    assert (answer.status_code, answer.json()["field"]) == (404, "image")
