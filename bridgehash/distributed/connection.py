"""Whatever is fitted inside a `with` block is worked on by a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ..mappers import mapped_by
from ._dask import Client, silence_logging_cmgr
from .mapper import ClusterError, DaskMapper

_ANSWER = 10.0  # seconds that a scheduler may take to answer


@contextmanager
def cluster(where: Any) -> Iterator[Client]:
    """Let a cluster do the work on the blocks of all fits inside.

    Parameters
    ----------
    where : str, distributed.Client or a cluster object
        Address of a scheduler (tcp://host:8786), or a client or cluster of one's own, which
        stays open.

    Examples
    --------
    >>> from bridgehash import ATH
    >>> with cluster("tcp://host:8786"):  # doctest: +SKIP
    ...     ATH.unsupervised(n_bits=64).fit("/data/photos/", "/data/sketches/")
    """
    client = where if isinstance(where, Client) else _connected(where)
    try:
        with mapped_by(DaskMapper(client)):
            yield client
    finally:
        if client is not where:
            client.close()


def quiet() -> AbstractContextManager[None]:
    """Dask's own messages are left out inside: that a worker went, say, which is seen to here."""
    found: AbstractContextManager[None] = silence_logging_cmgr(logging.CRITICAL + 1)
    return found


def _connected(where: Any) -> Client:
    try:
        return Client(where, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{where}: no scheduler answers there; start one with `dask scheduler`, and name the "
            "address that it prints, such as tcp://host:8786"
        ) from error
