"""`bridgehash demo --serve`: catalogues that fit together, an address, and a clean end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from numpy.lib.npyio import NpzFile

pytest.importorskip("fastapi", reason="no service: pip install 'bridgehash[serve]'")

from bridgehash.cli import demo_catalogues, demo_serve
from bridgehash.cli.main import main
from bridgehash.datasets import digit_domains
from bridgehash.features.folder import class_of, list_images
from bridgehash.service.catalogue import close_catalogues, open_catalogues
from bridgehash.service.settings import make_settings
from tests.service.process import launch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data pack, neither by name nor beside the folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("BRIDGEHASH_DATA", raising=False)
    monkeypatch.setenv("BRIDGEHASH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_catalogues_of_the_digits_can_be_opened(tmp_path: Path) -> None:
    domains = digit_domains(200, n_queries=20)
    files = demo_catalogues.make_catalogues(
        tmp_path, [demo_catalogues.digits(tmp_path / "digits", domains)]
    )
    catalogues = open_catalogues(files, make_settings("127.0.0.1", None))
    assert list(catalogues) == [f"digits-{method.label}" for method, _ in demo_catalogues.CODINGS]
    assert {each.n_bits for each in catalogues.values()} == {16, 64, 128}
    for each in catalogues.values():
        assert (each.index_domain, each.query_domain) == ("digits", "scans")
        assert each.store.index.domains == {"digits": 100}
        assert len(each.domains["digits"].images) == 100
        assert len(each.domains["scans"].images) == 20
    close_catalogues(catalogues)


def test_pictures_are_the_digits(tmp_path: Path) -> None:
    from PIL import Image

    domains = digit_domains(60, n_queries=8)
    (tmp_path / "digits" / "source").mkdir(parents=True)
    (tmp_path / "digits" / "source" / "999.png").write_bytes(b"of a larger run")
    collection = demo_catalogues.digits(tmp_path / "digits", domains)
    assert len(list(collection.items.pictures.iterdir())) == 30
    with Image.open(collection.items.pictures / "7.png") as image:
        ink = 1.0 - np.asarray(image).reshape(8, 8, 8, 8).mean(axis=(1, 3)) / 255
    assert np.corrcoef(ink.ravel(), domains.source.images[7].ravel())[0, 1] > 0.99
    assert collection.items.tags[7] == str(domains.source.y[7])


def test_without_the_data_pack_there_are_digits_only(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = digit_domains(100, n_queries=12)
    monkeypatch.setattr(demo_catalogues, "digit_domains", lambda: small)
    assert demo_serve.pacs_files() is None
    (nowhere / "out").mkdir()
    found = demo_serve.find_catalogues(nowhere / "out")
    assert [files.index.stem for files in found] == [
        f"digits-{method.label}" for method, _ in demo_catalogues.CODINGS
    ]
    assert "BRIDGEHASH_DATA" in capsys.readouterr().err


def test_models_are_fitted_once_per_version(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = digit_domains(100, n_queries=12)
    monkeypatch.setattr(demo_catalogues, "digit_domains", lambda: small)
    monkeypatch.setattr(demo_catalogues, "CODINGS", demo_catalogues.CODINGS[1:2])
    (nowhere / "out").mkdir()

    def fits() -> bool:
        demo_serve.find_catalogues(nowhere / "out")
        return "fitting 1 model of digits" in capsys.readouterr().err

    model = nowhere / "out" / "digits-itq-64.bh"
    assert fits()
    made = model.read_bytes()
    assert not fits()
    model.unlink()
    assert fits()
    assert model.read_bytes() == made
    monkeypatch.setattr(demo_serve, "__version__", "99.0")
    assert fits()
    assert not fits()
    (nowhere / "out" / "digits.json").write_text("[]")
    assert fits()


def right_of_first_query(folder: Path) -> dict[str, int]:
    """Right ones among the twelve nearest of the query that the page opens on, by catalogue."""
    opened = open_catalogues(demo_serve.find_catalogues(folder), make_settings("127.0.0.1", None))
    right = {}
    for name, each in opened.items():
        store = each.domains[each.query_domain].store
        assert store is not None
        first = store.index.get(store.index.page(0, 1)[0])
        _, ids = each.store.index.search(first.codes, k=12)
        right[name] = sum(tags == first.tags[0] for tags in each.store.index.get(ids[0]).tags)
    close_catalogues(opened)
    return right


def test_the_first_digit_finds_at_least_ten_of_twelve(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_catalogues, "CODINGS", demo_catalogues.CODINGS[:2])
    right = right_of_first_query(nowhere)
    assert right["digits-ath-64"] >= 10 > right["digits-itq-64"]


@pytest.mark.slow
def test_the_first_sketch_finds_at_least_ten_of_twelve(
    data_pack: Callable[[str], NpzFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = Path(data_pack("pacs").fid.name).parent
    if not (pack / "images" / "index.csv").is_file():
        pytest.skip("no images in the data pack")
    monkeypatch.setenv("BRIDGEHASH_DATA", str(pack))
    monkeypatch.setattr(demo_catalogues, "CODINGS", demo_catalogues.CODINGS[:2])
    right = right_of_first_query(tmp_path)
    assert list(right)[:2] == ["sketches-ath-64", "sketches-itq-64"]  # the page compares them
    assert right["sketches-ath-64"] >= 10 > right["sketches-itq-64"]


def test_a_second_start_imports_nothing_that_only_a_fit_needs() -> None:
    code = (
        "import sys; import bridgehash.cli.demo_serve; from bridgehash.service import app;"
        "print(*(name for name in sys.modules if name.startswith("
        "('bridgehash.ath', 'bridgehash.baselines', 'bridgehash.bench', 'sklearn.cluster',"
        " 'sklearn.datasets', 'sklearn.linear_model', 'numba'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_sketches_and_photos_go_with_their_pictures(
    data_pack: Callable[[str], NpzFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(data_pack("pacs").fid.name).parent
    if not (folder / "images" / "index.csv").is_file():
        pytest.skip("no images in the data pack")
    monkeypatch.setenv("BRIDGEHASH_DATA", str(folder))
    files = demo_serve.pacs_files()
    assert files is not None
    collection = demo_catalogues.sketches_and_photos(*files)
    for part in (collection.items, collection.queries):
        assert [class_of(name) for name in list_images(part.pictures)] == part.tags.tolist()
        assert len(part.X) == 150
    assert len(collection.task.X_target) == 3929 - 150
    assert collection.domains == ("photos", "sketches")


def test_a_port_belongs_to_serve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--port", "8000"]) == 2
    assert "--port: needs --serve" in capsys.readouterr().err


def test_a_file_in_place_of_the_folder_is_refused(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "demo").write_text("mine")
    assert main(["demo", "--serve", "--out", str(nowhere / "demo")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_before_anything_is_made(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["demo", "--serve", "--port", port]) == 2
    assert port in capsys.readouterr().err
    assert not (nowhere / "here" / "demo").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.slow
def test_the_demo_is_served_and_ends_with_ctrl_c(nowhere: Path) -> None:
    line = [sys.executable, "-m", "bridgehash", "demo", "--serve", "--port", "0"]
    served = launch(line, nowhere / "here", nowhere)
    try:
        with urlopen(f"{served.url}/v1/catalogues") as answer:
            names = [each["name"] for each in json.load(answer)["catalogues"]]
        assert names[:2] == ["digits-ath-64", "digits-itq-64"]
        address = f"note: open the page at {served.url}; Ctrl-C stops it"
        assert served.log.read_text().splitlines()[-1] == address
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=300) == 0
        assert "Traceback" not in served.log.read_text()
    finally:
        served.process.kill()
        served.process.wait()
