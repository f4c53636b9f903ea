"""Clients by address: slow down those that guess keys."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict

from .errors import RequestError

_FREE = 10  # wrong keys per address that are answered at once; people mistype
_FREE_TOTAL = 100
_FIRST_SECONDS = 0.1
_MAX_SECONDS = 2.0
_FORGET_SECONDS = 60.0
_MAX_ADDRESSES = 1_024
_MAX_WAITING = 512
_TOTAL = ""  # the entry of all addresses together


def address_group(host: str) -> str:
    """Return the address of a client; for IPv6 its network, as one client owns all of it.

    >>> address_group("2001:db8::1"), address_group("10.0.0.7")
    ('2001:db8::/64', '10.0.0.7')
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4 or address.is_loopback:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False))


class KeyGuesses:
    """Count wrong keys per address and in total, and delay their answers.

    A right key is never delayed. Addresses and waiting requests are limited in number.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()  # number, when
        self._n_waiting = 0

    async def slow_down(self, host: str) -> None:
        """Wait before the answer to a wrong key; raise 429 if too many wait already."""
        own = self._count(address_group(host)) - _FREE
        total = self._count(_TOTAL) - _FREE_TOTAL
        seconds = max(_delay(own), _delay(total))
        if seconds == 0.0:
            return
        if self._n_waiting >= _MAX_WAITING:
            headers = {"Retry-After": str(int(_FORGET_SECONDS)), "Connection": "close"}
            raise RequestError(429, "too many wrong keys; retry later", "Authorization", headers)
        self._n_waiting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._n_waiting -= 1

    def _count(self, address: str) -> float:
        """Return the recent failures of an address, this one included; old ones fade."""
        now = time.monotonic()
        number, when = self._failures.pop(address, (0.0, now))
        number = number * max(0.0, 1 - (now - when) / _FORGET_SECONDS) + 1
        self._failures[address] = number, now
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return number


def _delay(excess: float) -> float:
    return 0.0 if excess <= 0 else min(_FIRST_SECONDS * 2 ** min(excess, 10.0), _MAX_SECONDS)
