"""A bad request gets a 4xx status and a problem+json body that names the field."""

from __future__ import annotations

import asyncio
import io
import threading
from http import HTTPStatus

import numpy as np

from bridgehash.service.routes.common import NPY

P = "/v1/catalogues/photos"
JSON = {"Content-Type": "application/json"}
BIG = "1" + "0" * 30


def npy(array: np.ndarray, **options: bool) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


BODIES = [
    ("/search", b"{}", 422, "body"),
    ("/search", b"", 400, "body"),
    ("/search", b"{", 400, "body"),
    ("/search", b"\xff\xfe", 400, "body"),
    ("/search", b"[]", 422, "body"),
    ("/search", b"[" * 100_000, 400, "body"),
    ("/search", b'{"features": [[1, 2, 3, 4, NaN]]}', 422, "features[0][4]"),
    ("/search", b'{"features": [[1, 2, 3, 4, 1e999]]}', 422, "features[0][4]"),
    ("/search", b'{"features": [[1, 2, 3, 4, "5"]]}', 422, "features[0][4]"),
    ("/search", b'{"features": [[1, 2, 3, 4, true]]}', 422, "features[0][4]"),
    ("/search", b'{"features": [[1, 2, 3, 4]]}', 422, "features[0]"),
    ("/search", b'{"features": []}', 422, "features"),
    ("/search", b'{"features": [[1, 2, 3, 4, 5]], "ids": [1]}', 422, "body"),
    ("/search", b'{"features": [[1, 2, 3, 4, 5]], "domain": "any"}', 422, "domain"),
    ("/search", b'{"features": [[1, 2, 3, 4, 5]], "colour": 1}', 422, "colour"),
    ("/search", b'{"codes": ["fff"]}', 422, "codes[0]"),
    ("/search", b'{"codes": ["ffff"]}', 422, "codes"),
    ("/search", b'{"codes": ["zzzz"]}', 422, "codes[0]"),
    ("/search", b'{"codes": ["ff"]}', 422, "codes[0]"),
    ("/search", b'{"ids": [12345]}', 404, "ids"),
    ("/search", b'{"ids": [-1]}', 422, "ids[0]"),
    ("/search", b'{"ids": [' + BIG.encode() + b"]}", 422, "ids[0]"),
    ("/search", b'{"ids": [1.5]}', 422, "ids[0]"),
    ("/search", b'{"ids": [1], "k": 0}', 422, "k"),
    ("/search", b'{"ids": [1], "k": 1001}', 422, "k"),
    ("/search", b'{"ids": [1], "k": 1000000000}', 422, "k"),
    ("/search", b'{"ids": [1], "k": 1e9}', 422, "k"),
    ("/search", b'{"k": ' + b"9" * 100_000 + b"}", 400, "body"),
    ("/search", b'{"features": [[1, 2, 3, 4, 1e400]]}', 422, "features[0][4]"),
    ("/search", b'{"features": [[1, 2], [1]]}', 422, "features[1]"),
    ("/search", b'{"codes": [' + b'"fff0",' * 1000 + b'"fff0"]}', 422, "codes"),
    ("/search", b'{"codes": [' + b'"",' * 1_000_000 + b'""]}', 422, "codes[0]"),
    ("/search", b'{"ids": [1], "tags": "' + b"x" * 201 + b'"}', 422, "tags"),
    ("/search", b'{"ids": [1], "tags": "\\ud800"}', 400, "body"),
    ("/encode", b'{"features": [[1]]}', 422, "features[0]"),
    ("/items", b"{}", 422, "body"),
    ("/items", b'{"codes": ["fff0"], "ids": [1, 2]}', 422, "ids"),
    ("/items", b'{"codes": ["fff0", "fff0"], "ids": [1, 1]}', 422, "ids"),
    ("/items", b'{"codes": ["fff0"], "tags": []}', 422, "tags"),
    ("/items", b'{"codes": ["fff0"], "tags": [1]}', 422, "tags[0]"),
    ("/items", b'{"codes": ["fff0"], "tags": [["a", 1]]}', 422, "tags[0]"),
    ("/items", b'{"codes": ["fff0"], "tags": [[' + b'"a",' * 64 + b'"b"]]}', 422, "tags[0]"),
    ("/items", b'{"codes": ["fff0"], "ids": ["SKU-1"]}', 422, "ids"),
    ("/items", b'{"codes": ["fff0", "fff0"], "ids": ["SKU-1", 1]}', 422, "ids"),
    ("/items", b'{"codes": ["fff0"], "ids": [""]}', 422, "ids[0]"),
    ("/items", b'{"codes": ["fff0"], "ids": ["' + b"x" * 257 + b'"]}', 422, "ids[0]"),
    ("/items", b'{"codes": ["fff0"], "ids": ["a\\u0000"]}', 422, "ids[0]"),
    ("/items", b'{"codes": ["fff0"], "domain": "any"}', 422, "domain"),
    ("/search", b'{"ids": ["SKU-1"]}', 422, "ids"),
    ("/search", b'{"ids": [1], "tags": []}', 422, "tags"),
    ("/search", b'{"ids": [1], "tags": ["a"], "match": "both"}', 422, "match"),
]
ITEMS = [
    ("PUT", b'{"codes": ["fff0"]}', 422, "ids"),
    ("PUT", b'{"ids": [1]}', 422, "body"),
    ("DELETE", b'{"ids": []}', 422, "ids"),
    ("DELETE", b"", 400, "body"),
]


def test_bad_json(client, keyed):
    cases = [("POST", *case) for case in BODIES]
    for method, path, body, status, field in cases + [(m, "/items", *case) for m, *case in ITEMS]:
        response = client.request(method, P + path, content=body, headers={**JSON, **keyed})
        check(response, status, field)


def check(response, status, field):
    problem = response.json()
    assert (response.status_code, problem["status"], problem["field"]) == (status, status, field)
    assert response.headers["content-type"] == "application/problem+json"
    assert (problem["type"], problem["title"]) == ("about:blank", HTTPStatus(status).phrase)
    assert problem["detail"].startswith(f"{field}: " if field else "")
    assert set(problem) == {"type", "title", "status", "detail", "field"}


ARRAYS = [
    (b"", 400),
    (npy(np.zeros((2, 5)))[:-1], 400),
    (npy(np.zeros((2, 5)))[:20], 400),
    (npy(np.zeros((2, 5))) + b"x", 400),
    (npy(np.zeros((2, 4))), 422),
    (npy(np.zeros(5)), 422),
    (npy(np.zeros((0, 5))), 422),
    (npy(np.full((2, 5), np.nan)), 422),
    (npy(np.full((2, 5), np.inf, np.float32)), 422),
    (npy(np.zeros((2, 5), complex)), 422),
    (npy(np.array([[None] * 5]), allow_pickle=True), 422),
    (header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 5)}"), 400),
    (header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -5)}"), 422),
    (header("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 5)}", b"x" * 40), 422),
    (header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 5)}", b"x" * 40), 422),
    (header("(" * 900), 400),
    (header("__import__('os').getpid()"), 400),
    (header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 5)" + " " * 2000 + "}"), 400),
]


def test_bad_arrays(client, keyed):
    for body, status in ARRAYS:
        for path in ("/search", "/encode", "/items"):
            headers = {**keyed, "Content-Type": NPY}
            response = client.post(P + path, content=body, headers=headers)
            assert response.status_code == status, response.text
            assert response.json()["field"] in ("body", "features")
    headers = {"Content-Type": NPY}
    response = client.post(
        P + "/search?content=codes", content=npy(np.ones((1, 2))), headers=headers
    )
    check(response, 422, "body")


def test_bad_addresses(client):
    for method, path, status, field in (
        ("GET", "/v1/catalogues/none", 404, "catalogue"),
        ("GET", P + "/items?limit=201", 422, "limit"),
        ("GET", P + "/items?limit=x", 422, "limit"),
        ("GET", P + "/items?domain=up", 422, "domain"),
        ("GET", P + "/items?domain=any", 422, "domain"),
        ("GET", P + "/items?offset=-1", 422, "offset"),
        ("GET", P + "/items/x", 422, "id"),
        ("GET", P + f"/items/{BIG}", 422, "id"),
        ("GET", "/v1/catalogues/plain/items?domain=source", 422, "domain"),
        ("GET", P + "/search", 405, None),
        ("PATCH", P + "/items", 405, None),
        ("POST", P + "/search", 415, "Content-Type"),
        ("GET", "/favicon.ico", 404, None),
        ("GET", "/openapi.json/", 404, None),
    ):
        check(client.request(method, path), status, field)


def test_features_too_large_to_be_multiplied(client):
    huge = {"features": [[1.7e308, -1.7e308] * 256]}
    response = client.post("/v1/catalogues/plain/search", json=huge)
    assert (response.status_code, response.json()["field"]) == (422, "features")


def test_k_of_a_billion_is_rejected(client):
    headers = {"Content-Type": NPY}
    for k in ("1000000000", "9" * 30):
        response = client.post(P + f"/search?k={k}", content=npy(np.ones((1, 5))), headers=headers)
        check(response, 422, "k")


def test_very_large_and_very_small_features_get_the_right_codes(client, capfd, recwarn):
    """Rows are normalised by this model, so their scale does not matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 5))

    def codes(X):
        by_json = client.post(P + "/encode", json={"features": X.tolist()}).json()["codes"]
        headers = {"Content-Type": NPY}
        by_array = client.post(P + "/encode", content=npy(X), headers=headers).json()["codes"]
        assert by_json == by_array
        return by_json

    expected = codes(X)
    for scale in (1e160, 1e300, 1e-160, 1e-300):
        assert codes(X * scale) == expected
    response = client.post(P + "/encode", json={"features": (X * 1e-310).tolist()})
    assert response.status_code in (200, 422)
    assert response.status_code == 422 or response.json()["codes"] == expected
    assert not recwarn.list
    assert capfd.readouterr().err == ""


def test_compressed_bodies_are_rejected(client):
    headers = {**JSON, "Content-Encoding": "gzip"}
    assert client.post(P + "/search", content=b"x", headers=headers).status_code == 415


def test_bodies_over_the_limit_are_rejected_before_and_while_they_arrive(serve):
    client = serve(body_bytes=100)

    async def endless():
        for _ in range(1000):
            yield b" " * 50
        raise AssertionError("all of it was read")

    for body in (b" " * 101, endless()):
        response = client.post(P + "/search", content=body, headers=JSON)
        assert (response.status_code, response.json()["field"]) == (413, "body")


def test_a_body_that_says_it_is_too_long_is_not_read(serve):
    client = serve(body_bytes=100)

    async def body():
        raise AssertionError("it was read")
        yield b""

    for length, status in (("101", 413), ("9" * 30, 413), ("x", 400)):
        headers = {**JSON, "Content-Length": length}
        assert client.post(P + "/search", content=body(), headers=headers).status_code == status


def test_bodies_of_all_requests_together_are_bounded(serve):
    client = serve(request_bytes=100)
    response = client.post(P + "/search", content=b" " * 101, headers=JSON)
    assert response.status_code == 503
    for _ in range(5):  # answered requests no longer count
        assert client.post(P + "/search", json={"ids": [1], "k": 1}).status_code == 200


def test_limits_of_a_batch(serve, keyed):
    client = serve(rows=3, queries=2, k=20, hits=30)
    row, code = [1.0] * 5, "fff0"
    for path, form, field in (
        ("/search", {"features": [row] * 3}, "features"),
        ("/search", {"codes": [code] * 3}, "codes"),
        ("/search", {"ids": [1, 2, 3]}, "ids"),
        ("/search", {"ids": [1, 2], "k": 16}, "k"),
        ("/search", {"ids": [1], "k": 21}, "k"),
        ("/encode", {"features": [row] * 4}, "features"),
        ("/items", {"codes": [code] * 4}, "codes"),
    ):
        check(client.post(P + path, json=form, headers=keyed), 422, field)
    check(client.delete(P + "/items", json={"ids": [1, 2, 3, 4]}, headers=keyed), 422, "ids")
    assert client.post(P + "/search", json={"ids": [1, 2], "k": 15}).status_code == 200


def test_a_body_that_does_not_arrive_is_given_up(serve):
    client = serve(seconds=0.05)

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    response = client.post(P + "/search", content=slow(), headers=JSON)
    assert (response.status_code, response.json()["field"]) == (408, "body")


def test_work_that_takes_too_long_is_given_up(serve, monkeypatch):
    client, answered = serve(seconds=0.05), threading.Event()
    index = client.workers.catalogues["photos"].store.index
    monkeypatch.setattr(index, "snapshot", lambda: answered.wait(300))
    response = client.post(P + "/search", json={"ids": [1]})
    answered.set()
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"


def test_an_internal_error_reveals_nothing_that_was_sent(client, monkeypatch, caplog):
    def fault(*arguments):
        raise RuntimeError("secret-body")

    monkeypatch.setattr(type(client.workers.catalogues["photos"]), "items", fault)
    response = client.get(P + "/items/1")
    assert response.status_code == 500
    assert "secret-body" not in response.text + caplog.text
    assert "RuntimeError at" in caplog.text
