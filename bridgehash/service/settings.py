"""What the service allows: limits, who may ask, and where the key comes from."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

KEY_VARIABLE = "BRIDGEHASH_API_KEY"
_SHORTEST_KEY = 16  # characters
MOST_ID = 2**53 - 1  # whole numbers that every JSON reader keeps exactly


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    body_bytes: int = 16 << 20
    held_bytes: int = 128 << 20  # bodies of all requests at one time
    rows: int = 10_000  # to encode, add or remove
    queries: int = 1_000
    k: int = 1_000
    hits: int = 50_000  # queries times k
    pixels: int = 16_000_000
    page: int = 200  # items listed at a time
    seconds: float = 30.0
    waiting: int = 1_000  # searches in the queue of a catalogue, and changes
    journal_bytes: int = 64 << 20  # then it is folded into the index


@dataclass(frozen=True)
class Settings:
    """How one service runs. The key itself is not kept, only its digest."""

    limits: Limits = field(default_factory=Limits)
    key_digest: bytes | None = field(default=None, repr=False)
    loopback: bool = True  # then reading needs no key
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})

    @property
    def writable(self) -> bool:
        return self.key_digest is not None

    def knows(self, key: str) -> bool:
        """Is it the key? Takes the same time for every wrong one."""
        return self.key_digest is not None and hmac.compare_digest(_digest(key), self.key_digest)


def make_settings(host: str, key: str | None, limits: Limits | None = None) -> Settings:
    """Settings for an address; one that others can reach needs a key."""
    loopback = is_loopback(host)
    if not loopback and key is None:
        raise ValueError(
            f"--host {host}: can be reached from other machines, which needs a key; set "
            f"{KEY_VARIABLE} or give --key-file"
        )
    digest = None if key is None else _digest(key)
    hosts = Settings.hosts | {host.lower()}
    return Settings(limits or Limits(), digest, loopback, hosts)


def read_key(environment: Mapping[str, str], file: Path | None) -> str | None:
    """The key of a file, or else of the environment; there may be none."""
    if file is not None:
        try:
            key = file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise ValueError(f"{file}: the key cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{file}: a key is plain ASCII") from error
        return _checked(key, str(file))
    found = environment.get(KEY_VARIABLE)
    return None if found is None else _checked(found, KEY_VARIABLE)


def is_loopback(host: str) -> bool:
    """Can only this machine reach the address?

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(key: str, place: str) -> str:
    if len(key) < _SHORTEST_KEY or not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(
            f"{place}: a key has at least {_SHORTEST_KEY} printable ASCII characters and no "
            "blank; `openssl rand -hex 32` makes one"
        )
    return key


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
