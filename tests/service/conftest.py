"""A small model with an index of each domain, and the service around them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import ATH, ITQ, load, save
from bridgehash.features.gist import DIMENSION
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin

pytest.importorskip("fastapi", reason="no service: pip install 'bridgehash[serve]'")

from PIL import Image

from bridgehash.service.app import create_app
from bridgehash.service.catalogue import Files, close_catalogues, open_catalogues
from bridgehash.service.settings import Limits, ServiceSettings, make_settings
from tests.service.local import LocalClient
from tests.service.process import KEY

NAMES = np.array(["ant", "bee", "cat"], dtype=object)


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    y_s, y_t = np.arange(60) % 3, np.arange(50) % 3
    centres = 3 * rng.normal(size=(3, 5))
    X_s = (centres[y_s] + rng.normal(size=(60, 5))) @ rng.normal(size=(5, 8))
    X_t = centres[y_t] + rng.normal(size=(50, 5))
    np.save(folder / "source.npy", X_s)
    np.save(folder / "target.npy", X_t)
    model = ATH.supervised(n_bits=12, random_state=0).fit(X_s, X_t, y_source=y_s, y_target=y_t)
    save(model, folder / "model.bh")
    for domain, X, y, name in (
        ("source", X_s, y_s, "photos.bhi"),
        ("target", X_t, y_t, "sketches.bhi"),
    ):
        index = HammingIndex(12).add(model.encode(X, domain), tags=NAMES[y], domain=domain)
        index.about = origin(load(folder / "model.bh"), domain)
        index.save(folder / name)
    plain = ITQ(n_bits=16, random_state=0).fit(rng.random((80, DIMENSION)))
    save(plain, folder / "plain.bh")
    index = HammingIndex(16).add(plain.encode(rng.random((20, DIMENSION))))
    index.about = origin(load(folder / "plain.bh"), None)
    index.save(folder / "plain.bhi")
    for name in ("photos", "sketches"):
        (folder / name).mkdir()
        for i in (0, 1, 7):
            Image.new("RGB", (4, 3), (i, 0, 0)).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture
def folder(_made: Path, tmp_path: Path) -> Path:
    """A copy of the files."""
    shutil.copytree(_made, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def files(folder: Path) -> list[Files]:
    """A catalogue of two domains with pictures, and one of a single domain with a backbone."""
    two = Files(
        folder / "model.bh",
        folder / "photos.bhi",
        folder / "sketches.bhi",
        folder / "photos",
        folder / "sketches",
    )
    return [two, Files(folder / "plain.bh", folder / "plain.bhi", backbone="gist")]


Serve = Callable[..., LocalClient]


@pytest.fixture
def serve(files: list[Files]) -> Iterator[Serve]:
    """`serve(host=..., k=5)`: a client of the service in this process, with other limits."""
    opened: list[tuple[LocalClient, dict[str, Any]]] = []

    def call(
        key: str | None = KEY, host: str = "127.0.0.1", n: int = 2, **limits: Any
    ) -> LocalClient:
        settings = make_settings(host, key, replace(Limits(), **limits))
        catalogues = open_catalogues(files[:n], settings)
        client = LocalClient(create_app(catalogues, settings))
        opened.append((client, catalogues))
        return client

    yield call
    for client, catalogues in opened:
        client.close()
        close_catalogues(catalogues)


@pytest.fixture
def client(serve: Serve) -> LocalClient:
    return serve()


@pytest.fixture
def settings() -> ServiceSettings:
    return make_settings("127.0.0.1", KEY)


@pytest.fixture
def keyed() -> dict[str, str]:
    """The header that changes need."""
    return {"Authorization": f"Bearer {KEY}"}
