"""Settings of the service: limits, the API key, and the hosts it answers to."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .._core.errors import InputError, named

KEY_VARIABLE = "BRIDGEHASH_API_KEY"
_MIN_KEY_LENGTH = 16


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of the service.

    `rows`, `queries` and `features` are part of the JSON schemas: they can be lowered, not raised.
    """

    body_bytes: int = 16 << 20
    rows: int = 10_000  # to encode, add or remove
    queries: int = 1_000
    features: int = 1 << 20  # numbers per row
    k: int = 1_000
    hits: int = 50_000  # queries times k
    pixels: int = 16_000_000
    page: int = 200  # items per page
    seconds: float = 30.0
    queue: int = 1_000  # waiting searches per catalogue, and waiting changes
    connections: int = 1_000
    requests: int = 750  # that are received and not answered yet
    decoders: int = 2  # child processes that parse large JSON bodies and decode images
    request_bytes: int = 512 << 20  # bodies, arrays and unsent answers of all requests
    memory_bytes: int = 0  # of the service with its child processes; see `memory.plan`
    journal_bytes: int = 64 << 20  # a larger journal is merged into the index file


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of one service. Only the digest of the key is stored."""

    limits: Limits = field(default_factory=Limits)
    key_digest: bytes | None = field(default=None, repr=False)
    loopback: bool = True  # then reading needs no key
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})

    @property
    def writable(self) -> bool:
        """Whether items can be changed: only if there is a key."""
        return self.key_digest is not None

    def accepts(self, key: str) -> bool:
        """Compare a key with the right one, in constant time."""
        return self.key_digest is not None and hmac.compare_digest(_digest(key), self.key_digest)


def make_settings(host: str, key: str | None, limits: Limits | None = None) -> ServiceSettings:
    """Return the settings for an address. Any address but loopback requires a key."""
    loopback = is_loopback(host)
    if not loopback and key is None:
        raise InputError(
            f"other machines can reach this address, so a key is required; set {KEY_VARIABLE} or "
            "pass --key-file",
            f"--host {host}",
        )
    digest = None if key is None else _digest(key)
    hosts = ServiceSettings.hosts | {host.lower()}
    return ServiceSettings(limits or Limits(), digest, loopback, hosts)


def read_key(environment: Mapping[str, str], file: Path | None) -> str | None:
    """Return the API key from a file, or else from the environment; None if there is none."""
    key = environment.get(KEY_VARIABLE)
    if file is not None:
        with named(file, "write the key in ASCII"):
            key = file.read_text(encoding="ascii").strip()
    if key is None:
        return None
    if len(key) < _MIN_KEY_LENGTH or not (key.isascii() and key.isprintable()) or " " in key:
        raise InputError(
            f"a key needs at least {_MIN_KEY_LENGTH} printable ASCII characters and no spaces; "
            "create one with `openssl rand -hex 32`",
            KEY_VARIABLE if file is None else str(file),
        )
    return key


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
