"""Who may read, and who may change items."""

from __future__ import annotations

import asyncio
import hmac
import logging
from types import SimpleNamespace

import pytest

from bridgehash._core.errors import InputError
from bridgehash.service import clients
from bridgehash.service import settings as module
from bridgehash.service.settings import ServiceSettings, is_loopback, make_settings, read_key
from tests.service.process import KEY

P = "/v1/catalogues/photos"
ADD = {"codes": ["fff0"]}


def test_changes_need_the_key(client):
    for given in ("", "Bearer", f"Bearer {KEY}x", f"Basic {KEY}", "Bearer é" * 9):
        headers = {"Authorization": given.encode()}
        for method, path, form in (
            ("POST", "/items", ADD),
            ("PUT", "/items", {**ADD, "ids": [1]}),
            ("DELETE", "/items", {"ids": [1]}),
            ("DELETE", "/items/1", None),
        ):
            response = client.request(method, P + path, json=form, headers=headers)
            assert (response.status_code, response.json()["field"]) == (401, "Authorization")
            assert response.headers["www-authenticate"] == "Bearer"
    assert client.get(P + "/items").json()["total"] == 60
    for headers in ({"Authorization": f"bearer {KEY}"}, {"X-API-Key": KEY}):
        assert client.post(P + "/items", json=ADD, headers=headers).status_code == 200


def test_the_key_is_checked_before_the_body_is_read(client):
    async def body():
        yield b"x"
        raise AssertionError("the body was read")

    assert client.post(P + "/items", content=body()).status_code == 401


def test_without_a_key_nothing_changes(serve, folder):
    client = serve(key=None)
    for key in ("", "None", KEY):
        headers = {"Authorization": f"Bearer {key}"}
        assert client.post(P + "/items", json=ADD, headers=headers).status_code == 403
    assert client.post(P + "/search", json={"ids": [1]}).status_code == 200
    assert not client.get(P).json()["writable"]
    assert not (folder / "photos.bhi.journal").exists()


def test_beyond_loopback_reading_needs_the_key_too(serve, keyed):
    client = serve(host="0.0.0.0")
    for path in (P, P + "/items", P + "/items/7/image", "/metrics", "/v1/catalogues"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=keyed).status_code == 200
    assert client.post(P + "/search", json={"ids": [1]}).status_code == 401
    for path in ("/", "/health", "/ready", "/docs", "/openapi.json", "/page/plain.css"):
        assert client.get(path).status_code == 200


def test_on_loopback_only_its_own_host_names_are_served(client):
    for host in ("evil.example", "evil.example:8000", "", "127.0.0.1.evil.example"):
        response = client.get(P, headers={"Host": host})
        assert (response.status_code, response.json()["field"]) == (421, "Host")
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"):
        assert client.get(P, headers={"Host": host}).status_code == 200


def test_other_addresses_need_a_key():
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        assert not is_loopback(host)
        with pytest.raises(InputError, match="a key is required"):
            make_settings(host, None)
        assert make_settings(host, KEY).writable
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert is_loopback(host)


def test_keys_are_compared_in_constant_time(monkeypatch):
    """Of digests, so that not even the length of the key shows."""
    compared = []

    def watched(a, b):
        compared.append((len(a), len(b)))
        return hmac.compare_digest(a, b)

    chosen = make_settings("127.0.0.1", KEY)
    monkeypatch.setattr(module, "hmac", SimpleNamespace(compare_digest=watched))
    assert chosen.accepts(KEY)
    assert not chosen.accepts("x")
    assert compared == [(32, 32), (32, 32)]


def test_where_keys_come_from(tmp_path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert read_key({}, None) is None
    assert read_key({"BRIDGEHASH_API_KEY": KEY}, None) == KEY
    assert read_key({"BRIDGEHASH_API_KEY": "another-key-altogether"}, file) == KEY
    for bad in ("short", "", "a blank in the key, which is long"):
        with pytest.raises(InputError, match="at least 16"):
            read_key({"BRIDGEHASH_API_KEY": bad}, None)
    with pytest.raises(InputError, match="lost: file not found"):
        read_key({}, tmp_path / "lost")
    file.write_text("é" * 20)
    with pytest.raises(InputError, match="write the key in ASCII"):
        read_key({}, file)


def test_keys_are_neither_shown_nor_logged(client, caplog, keyed):
    caplog.set_level(logging.DEBUG)
    client.post(P + "/items", json=ADD, headers=keyed)
    client.post(P + "/items", json=ADD, headers={"Authorization": "Bearer wrong-wrong-wrong"})
    assert KEY not in caplog.text
    assert "wrong-wrong" not in caplog.text
    assert KEY not in repr(make_settings("127.0.0.1", KEY))
    assert "digest" not in repr(ServiceSettings(key_digest=b"digest"))


def test_a_page_of_another_site_needs_the_key(client, keyed):
    """A browser on this machine must not read a catalogue for any page that it shows."""
    own = "http://127.0.0.1"
    refused = (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": own + ":8000"},
        {"Origin": "https://127.0.0.1"},
    )
    for headers in refused:
        for response in (
            client.get(P, headers=headers),
            client.get("/metrics", headers=headers),
            client.post(P + "/search", json={"ids": [1]}, headers=headers),
        ):
            problem = response.json()
            assert (response.status_code, problem["field"]) == (403, next(iter(headers)))
            assert response.headers["content-type"] == "application/problem+json"
        assert client.get(P, headers={**headers, **keyed}).status_code == 200
        for path in ("/", "/health", "/page/plain.css"):  # a link to the page works
            assert client.get(path, headers=headers).status_code == 200
    for headers in ({}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}):
        assert client.get(P, headers=headers).status_code == 200
        headers = {**headers, "Origin": own}
        assert client.post(P + "/search", json={"ids": [1]}, headers=headers).status_code == 200


class Sleeps:
    """Stands in for `asyncio` in `clients`: remembers how long requests had to wait."""

    def __init__(self):
        self.seconds = []
        self.go = asyncio.Event()

    async def sleep(self, seconds):
        self.seconds.append(seconds)
        await self.go.wait()


def test_wrong_keys_are_slowed_down_and_right_ones_are_not(client, keyed, monkeypatch):
    sleeps = Sleeps()
    monkeypatch.setattr(clients, "asyncio", sleeps)
    monkeypatch.setattr(clients, "_MAX_WAITING", 5)
    wrong = {"Authorization": "Bearer not-the-right-key"}

    async def main():
        def send(headers):
            return client.http.delete(P + "/items/123", headers=headers)

        for _ in range(clients._FREE):  # mistyped
            assert (await send(wrong)).status_code == 401
        assert sleeps.seconds == []
        waiting = [asyncio.create_task(send(wrong)) for _ in range(5)]
        while len(sleeps.seconds) < 5:
            await asyncio.sleep(0)
        response = await send(wrong)
        assert (response.status_code, response.headers["retry-after"]) == (429, "60")
        assert (await send(keyed)).status_code == 404  # at once, though others wait
        assert (await send({})).status_code == 401  # no guess
        sleeps.go.set()
        assert {(await task).status_code for task in waiting} == {401}

    client.run(main())
    assert sleeps.seconds == sorted(sleeps.seconds)
    assert 0 < sleeps.seconds[0] < sleeps.seconds[-1] <= clients._MAX_SECONDS


def test_wrong_keys_from_many_addresses_are_slowed_down_in_bounded_memory(monkeypatch):
    sleeps = Sleeps()
    sleeps.go.set()
    monkeypatch.setattr(clients, "asyncio", sleeps)
    guesses = clients.KeyGuesses()

    async def main():
        for i in range(3_000):
            await guesses.slow_down(f"10.0.{i // 256}.{i % 256}")

    asyncio.run(main())
    assert len(guesses._failures) <= clients._MAX_ADDRESSES
    assert sleeps.seconds[-1] == clients._MAX_SECONDS


def test_old_guesses_are_forgotten(monkeypatch):
    now, sleeps = [0.0], Sleeps()
    sleeps.go.set()
    monkeypatch.setattr(clients, "asyncio", sleeps)
    monkeypatch.setattr(clients.time, "monotonic", lambda: now[0])
    guesses = clients.KeyGuesses()
    for _ in range(clients._FREE + 1):
        asyncio.run(guesses.slow_down("10.0.0.1"))
    assert len(sleeps.seconds) == 1
    now[0] = 100.0
    asyncio.run(guesses.slow_down("10.0.0.1"))
    assert len(sleeps.seconds) == 1
