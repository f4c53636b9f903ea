"""Broken bodies and uploads against a real process: no 5xx, no crash, no leftover file."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from tests.service.process import KEY, LIMIT, running

PATHS = ("search", "encode", "items", "items/5", "search/image")
METHODS = ("POST", "PUT", "DELETE")
KINDS = (
    "application/json",
    "application/x-npy",
    "image/png",
    "image/jpeg",
    "image/webp",
    "text/plain",
    "",
    "multipart/form-data; boundary=x",
)
WORDS = (
    b"NaN", b"-Infinity", b"1e999", b"null", b"true", b'"\\ud800"', b"\xff\xfe", b"[" * 3000,
    b'{"k":', b"-1", b"9" * 400, b"1.5", b'""', b"[]", b"{}", b"\x00", b'"ids"', b'"tags"',
)  # fmt: skip


class Seed(NamedTuple):
    """A valid request."""

    body: bytes
    kind: str
    path: str
    method: str = "POST"


def seeds() -> list[Seed]:
    forms = {
        "photos/search": [
            {"features": [[1.0, 2, 3, 4, 5]], "k": 3},
            {"codes": ["fff0", "0010"], "tags": ["ant"], "match": "all"},
            {"ids": [1, 2, 3], "domain": "source"},
        ],
        "photos/encode": [{"features": [[1.0, 2, 3, 4, 5]], "domain": "target"}],
        "photos/items": [{"features": [[1.0] * 8], "ids": [5], "tags": ["x"]}],
        "plain/search": [{"features": [[0.5] * 512], "k": 2}],
    }
    found = [
        Seed(json.dumps(form).encode(), KINDS[0], path) for path in forms for form in forms[path]
    ]
    added = {"codes": ["fff0"], "ids": [5], "tags": ["x"]}
    found.append(Seed(json.dumps(added).encode(), KINDS[0], "photos/items", "PUT"))
    found.append(Seed(b'{"ids": [5, 6, 7]}', KINDS[0], "photos/items", "DELETE"))
    arrays = {
        "photos/search": np.zeros((3, 5)),
        "photos/items": np.ones((2, 8), np.float32),
        "photos/search?content=codes": np.zeros((2, 2), np.uint8),
    }
    for path, array in arrays.items():
        file = io.BytesIO()
        np.save(file, array)
        found.append(Seed(file.getvalue(), KINDS[1], path))
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        found.append(Seed(file.getvalue(), f"image/{kind.lower()}", "plain/search/image"))
    return found


def broken(body: bytes, rng: random.Random) -> bytes:
    """Damage a body in up to four places."""
    data = bytearray(body)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = rng.choice(WORDS)
        elif kind == 2 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 3:
            data[at : at + rng.randint(1, 8)] = rng.randbytes(rng.randint(0, 8))
        elif kind == 4:
            data[at:at] = data[: rng.randint(0, 200)]
        elif kind == 5:
            data = bytearray(rng.randbytes(rng.randint(0, 300)))
        elif rng.random() < 0.02:
            data += b" " * (17 << 20)  # beyond the limit
    return bytes(data)


def send(port: int, rng: random.Random, seed: Seed) -> int:
    """Return the status of a damaged request; 0 if it hangs up before the end of the body."""
    _, kind, path, method = seed
    body = broken(seed.body, rng)
    if rng.random() < 0.3:
        path = f"{rng.choice(['photos', 'plain', 'none'])}/{rng.choice(PATHS)}"
        path += rng.choice(["", "?k=3", "?k=x", "?content=codes", "?domain=%ff", "?tags=%00"])
        kind, method = rng.choice(KINDS), rng.choice(METHODS)
    headers = {"Content-Type": kind, "Authorization": f"Bearer {KEY}"}
    headers["Accept"] = rng.choice(["*/*", "application/x-npy"])
    length = len(body) + (rng.randint(1, 50) if rng.random() < 0.03 else 0)
    headers["Content-Length"] = str(length)
    with closing(HTTPConnection("127.0.0.1", port, timeout=LIMIT)) as connection:
        try:
            connection.request(method, f"/v1/catalogues/{path}", body, headers)
            if length > len(body):
                return 0  # hangs up in the middle of the body
            answer = connection.getresponse()
            answer.read()
        except (BrokenPipeError, ConnectionResetError, HTTPException):
            assert len(body) > 1 << 20, "only a body that is far too long is cut off"
            return 413
        return answer.status


@pytest.fixture
def fuzz(folder: Path, tmp_path: Path) -> Callable[[int], Counter[int]]:
    def call(n: int) -> Counter[int]:
        rng, bodies = random.Random(0), seeds()
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        options = (
            "--model", "model.bh", "--index", "photos.bhi",
            "--model", "plain.bh", "--index", "plain.bhi",
            "--backbone", "-", "--backbone", "gist",
        )  # fmt: skip
        with running(folder, *options, TMPDIR=str(temporary)) as served:
            before = sorted(path.name for path in folder.iterdir())
            statuses = Counter(send(served.port, rng, rng.choice(bodies)) for _ in range(n))
            assert served.process.poll() is None
            assert sorted(path.name for path in folder.iterdir()) == before
            with closing(HTTPConnection("127.0.0.1", served.port, timeout=LIMIT)) as connection:
                connection.request("GET", "/ready")
                assert connection.getresponse().status == 200
        assert served.process.returncode == 0
        assert list(temporary.iterdir()) == []
        assert "Traceback" not in served.log.read_text()
        assert KEY not in served.log.read_text()
        return statuses

    return call


def test_broken_requests(fuzz):
    statuses = fuzz(300)
    assert max(statuses) < 500, statuses
    assert {200, 400, 404, 415, 422} <= set(statuses)


@pytest.mark.slow
def test_very_many_broken_requests(fuzz):
    statuses = fuzz(10_000)
    print(dict(statuses))
    assert max(statuses) < 500, statuses
    assert {0, 200, 400, 404, 413, 415, 422} <= set(statuses)
