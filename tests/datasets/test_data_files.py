"""Where files are found, and what happens to a download on its way. Servers are on loopback."""

from __future__ import annotations

import hashlib
import io
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep

import pytest

from bridgehash import InputError, MissingDataError
from bridgehash.datasets import DataFile, checksum
from bridgehash.datasets import files as data_files

CONTENT = b"a hundred thousand bytes " * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """/whole sends everything, /half stops in the middle, /endless and /slow never end."""

    def do_GET(self) -> None:
        if self.path in ("/endless", "/slow", "/silent"):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # until the client is gone
                while self.path != "/silent":
                    self.wfile.write(CONTENT if self.path == "/endless" else b"a")
                    sleep(0.0 if self.path == "/endless" else 0.02)
                self.connection.recv(1)
            return
        if self.path not in ("/whole", "/half"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/whole" else CONTENT[: len(CONTENT) // 2])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that ends with the tests."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def direct(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on disk, and no proxy between us and loopback."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_places_are_searched_in_order(
    tmp_path: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "given", tmp_path / "data", nowhere]
    monkeypatch.setenv("BRIDGEHASH_DATA", str(places[1]))
    assert data_files.data_places(places[0]) == places
    file = DataFile("sub/a.npz")
    for place in reversed(places):
        (place / "sub").mkdir(parents=True)
        (place / "sub" / "a.npz").touch()
        assert file.find(places[0]) == place / "sub" / "a.npz"


def test_the_message_says_what_to_put_where(tmp_path: Path, nowhere: Path) -> None:
    file = DataFile("a.npz", size=2_500_000, hint="Make it with a spoon.")
    with pytest.raises(MissingDataError) as caught:
        file.find(tmp_path)
    assert str(caught.value) == (
        f"a.npz (2.5 MB) is not on this machine; put it into {tmp_path} or {nowhere}, or set "
        "BRIDGEHASH_DATA to its folder. Make it with a spoon."
    )
    assert isinstance(caught.value, InputError)


def test_a_download_lands_in_the_cache_once(server: str, nowhere: Path) -> None:
    pytest.importorskip("pooch")
    file = DataFile("sub/a.bin", SHA256, f"{server}/whole")
    assert file.locate() is None
    path = file.find()
    assert path == nowhere / "sub" / "a.bin"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    unreachable = DataFile("sub/a.bin", SHA256, "http://127.0.0.1:1/whole")
    assert unreachable.find() == path


def test_a_failed_download_leaves_nothing_and_says_why(server: str, nowhere: Path) -> None:
    pytest.importorskip("pooch")
    for url, sha256, reason in (
        (f"{server}/half", SHA256, "IncompleteRead"),
        (f"{server}/whole", "0" * 64, f"sha256 is {SHA256}, not 0000"),
        (f"{server}/absent", SHA256, "404"),
        ("http://127.0.0.1:1/whole", SHA256, "refused"),  # nobody listens on port 1
    ):
        file = DataFile("a.bin", sha256, url, hint="Ask a friend.")
        with pytest.raises(MissingDataError, match="could not be downloaded from http") as caught:
            file.find()
        assert reason in str(caught.value)
        assert str(nowhere) in str(caught.value)
        assert str(caught.value).endswith("Ask a friend.")
        assert list(nowhere.iterdir()) == []


def test_a_download_stops_at_the_declared_size(server: str, nowhere: Path) -> None:
    pytest.importorskip("pooch")
    for name, size, reason in (
        ("endless", 1_000_000, "sends more than the declared 1000000 bytes"),
        ("whole", len(CONTENT) - 1, "sends more than the declared 99999 bytes"),
        ("whole", len(CONTENT) + 1, "100000 bytes instead of 100001"),
    ):
        with pytest.raises(MissingDataError, match=reason):
            DataFile("a.bin", SHA256, f"{server}/{name}", size).find()
        assert list(nowhere.iterdir()) == []


def test_a_download_without_a_declared_size_has_a_limit(
    server: str, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pooch")
    monkeypatch.setattr(data_files, "_MAX_SIZE", 300_000)
    with pytest.raises(MissingDataError, match="sends more than the declared 300000 bytes"):
        DataFile("a.bin", SHA256, f"{server}/endless").find()
    assert list(nowhere.iterdir()) == []


def test_a_slow_download_is_stopped(
    server: str, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pooch")
    monkeypatch.setattr(data_files, "_PATIENCE", 0.3)
    monkeypatch.setattr(data_files, "_TIMEOUT", 0.3)
    for name, reason in (("slow", "too slow|timed out"), ("silent", "timed out")):
        with pytest.raises(MissingDataError, match=reason):
            DataFile("a.bin", SHA256, f"{server}/{name}", 1000).find()
        assert list(nowhere.iterdir()) == []


def test_a_failed_download_keeps_an_older_file(server: str, nowhere: Path) -> None:
    pytest.importorskip("pooch")
    nowhere.mkdir()
    (nowhere / "a.bin").write_bytes(b"older")
    with pytest.raises(OSError, match="IncompleteRead"):
        DataFile("a.bin", SHA256, f"{server}/half")._download()
    assert (nowhere / "a.bin").read_bytes() == b"older"


def test_without_pooch_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingDataError, match=r"pip install 'bridgehash\[data\]'"):
        DataFile("a.bin", SHA256, "http://127.0.0.1:1/whole").find()
    monkeypatch.delenv("BRIDGEHASH_CACHE")
    assert data_files.data_places(tmp_path) == [tmp_path]
    with pytest.raises(MissingDataError, match="put it into a folder, or set BRIDGEHASH_DATA"):
        DataFile("a.bin").find()


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("BRIDGEHASH_CACHE")
    assert data_files.cache_folder() == Path(pooch.os_cache("bridgehash"))


def test_a_terminal_shows_a_bar(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    DataFile("a.bin", SHA256, f"{server}/whole", len(CONTENT)).find()
    assert "a.bin" in sys.stderr.getvalue()
    assert "100.0/100.0 kB" in sys.stderr.getvalue()


def test_another_version_is_used_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(CONTENT)
    assert DataFile("a.bin", SHA256).find(tmp_path) == path
    with pytest.warns(UserWarning, match="sha256 is .*, not the known 000000000000…; it is used"):
        assert DataFile("a.bin", "0" * 64).find(tmp_path) == path


def test_an_address_needs_a_checksum() -> None:
    with pytest.raises(ValueError, match="a url needs a sha256"):
        DataFile("a.bin", url="http://127.0.0.1:1/whole")


def test_checksums_are_remembered_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(CONTENT)
    assert checksum(path) == SHA256
    read = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        data_files.hashlib, "file_digest", lambda *args: read.append(1) or digest(*args)
    )
    assert checksum(path) == SHA256
    assert not read
    path.write_bytes(CONTENT + b"!")
    assert checksum(path) == hashlib.sha256(CONTENT + b"!").hexdigest()
    assert read
