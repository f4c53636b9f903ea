"""Files that do not belong together are rejected at start, with one line, and closed."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace

import numpy as np
import pytest

from bridgehash import ATH, load, save
from bridgehash.cli.main import main
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin
from bridgehash.service.catalogue import SearchQuery, close_catalogues, open_catalogues
from tests.service.process import KEY


@pytest.fixture
def refused(folder, monkeypatch, capsys):
    """`refused(line)`: why `bridgehash serve` did not start."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BRIDGEHASH_API_KEY", KEY)

    def call(line: str) -> str:
        before = sorted(path.name for path in folder.iterdir())
        assert main(["serve", "--port", "0", *line.split()]) == 2
        ended = capsys.readouterr()
        assert ended.out == ""
        assert ended.err.count("\n") == 1
        assert sorted(path.name for path in folder.iterdir()) == before
        return ended.err

    return call


PAIR = "--model model.bh --index photos.bhi"


def test_files_that_do_not_belong_together_are_rejected(refused, folder):
    shutil.copy(folder / "photos.bhi", folder / "sp%ace.bhi")
    HammingIndex(12).add(np.zeros((3, 2), np.uint8)).save(folder / "unnamed.bhi")
    short = HammingIndex(8).add(np.zeros((3, 1), np.uint8))
    short.about = {"domain": "source"}
    short.save(folder / "short.bhi")
    X_s, X_t = np.load(folder / "source.npy"), np.load(folder / "target.npy")
    save(ATH.unsupervised(n_bits=12, random_state=1).fit(X_s, X_t), folder / "other.bh")
    for line, reason in (
        ("--model plain.bh --index photos.bhi", "holds codes of another model; use"),
        ("--model model.bh --index plain.bhi", "does not state the domain"),
        ("--model model.bh --index lost.bhi", "file not found"),
        ("--model lost.bh --index photos.bhi", "file not found"),
        ("--model model.bh --index model.bh", "not an index"),
        ("--model model.bh --index unnamed.bhi", "does not state the domain"),
        ("--model model.bh --index short.bhi", "has codes of 8 bits, but model.bh makes codes"),
        ("--model other.bh --index photos.bhi", "holds codes of another model"),
        (PAIR + " --queries photos.bhi", "holds codes of the source domain, as photos.bhi does"),
        (PAIR + " --query-images photos", "--query-images needs --queries"),
        (PAIR + " --images none", "folder not found"),
        (PAIR + " --backbone gist", "its queries have 5 features, but gist makes 512"),
        (PAIR + " --backbone gits", "did you mean 'gist'"),
        (PAIR + " --backbone wordllama", "'wordllama' reads texts; choose a backbone of images"),
        (PAIR + " --model model.bh", "--index: given 1 times for 2 models"),
        (f"{PAIR} {PAIR}", "a second index named photos"),
        (
            f"{PAIR} {PAIR} {PAIR} --images photos --images photos",
            "--images: given 2 times for 3 models",
        ),
        ("--model model.bh --index sp%ace.bhi", "is part of URLs"),
        (
            "--model plain.bh --index plain.bhi --queries photos.bhi",
            "needs a model of several domains",
        ),
        (PAIR + " --host 256.0.0.1", "cannot listen there"),
        (PAIR + " --key-file none", "file not found"),
    ):
        assert reason in refused(line)


def test_other_addresses_need_a_key(refused, monkeypatch):
    monkeypatch.delenv("BRIDGEHASH_API_KEY")
    assert "a key is required" in refused(PAIR + " --host 0.0.0.0")


def test_a_port_in_use_is_rejected(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        reason = refused(f"{PAIR} --port {taken.getsockname()[1]}")
    assert "cannot listen there (Address already in use)" in reason


def test_two_services_cannot_share_an_index(refused, files, settings):
    opened = open_catalogues(files[:1], settings)
    assert "in use by another process; stop it, or wait" in refused(PAIR)
    close_catalogues(opened)


def test_the_key_is_no_option(refused):
    assert "no such option" in refused(PAIR + " --key secret").lower()


def test_an_index_of_the_target_is_searched_with_the_source(files, settings):
    swapped = replace(
        files[0], index=files[0].queries, queries=files[0].index, images=None, query_images=None
    )
    (catalogue,) = open_catalogues([swapped], settings).values()
    assert (catalogue.index_domain, catalogue.query_domain) == ("target", "source")
    catalogue.store.close()


def test_the_domain_of_most_items_is_that_of_the_index(folder, files, settings):
    index = HammingIndex.load(folder / "photos.bhi")
    index.add(np.zeros((9, 2), np.uint8), domain="target").about = {}
    index.save(folder / "photos.bhi")
    (catalogue,) = open_catalogues(files[:1], settings).values()
    assert (catalogue.index_domain, catalogue.query_domain) == ("source", "target")
    catalogue.store.close()


def test_an_index_without_a_model_is_accepted(folder, files, settings):
    index = HammingIndex.load(folder / "photos.bhi")
    index.about = {"domain": "source"}
    index.save(folder / "photos.bhi")
    (catalogue,) = open_catalogues(files[:1], settings).values()
    catalogue.store.close()
    assert "code_space" in origin(load(folder / "model.bh"), None)


def test_the_package_does_not_import_the_service():
    import subprocess
    import sys

    code = "import sys, bridgehash, bridgehash.cli.main; print('fastapi' in sys.modules)"
    line = [sys.executable, "-c", code]
    assert subprocess.run(line, capture_output=True, text=True).stdout == "False\n"


def test_a_model_of_three_domains_is_served(folder, files, settings):
    """All its domains can be asked from; the index is older than the one that joined."""
    model = load(folder / "model.bh")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + 6.0 * np.eye(3)[np.arange(40) % 3]  # classes of the items
    before = HammingIndex.load(folder / "photos.bhi")
    codes = before.get(before.ids[:40]).codes
    model.join("art", X, codes_to=codes, pairs=np.column_stack([np.arange(40)] * 2))
    save(model, folder / "joined.bh")
    joined = replace(files[0], model=folder / "joined.bh")
    (catalogue,) = open_catalogues([joined], settings).values()
    try:
        assert list(catalogue.domains) == ["source", "target", "art"]
        (result,) = catalogue.search([SearchQuery("features", X[:2], "art", 3)])
        np.testing.assert_array_equal(result.queries, model.encode(X[:2], "art"))
    finally:
        close_catalogues({"photos": catalogue})
