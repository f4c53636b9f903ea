"""Who may read, and who may change items."""

from __future__ import annotations

import hmac
import logging
from types import SimpleNamespace

import pytest

from bridgehash._core.errors import InputError
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
