"""Calls to Milvus that survive a dropped connection."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import RLock
from typing import Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.errors import EngineError
from ...codes import n_bytes
from ..batch import Batch, Ids, check_k, check_length, packed_codes
from .base import (
    Address,
    Dropped,
    ServerIndex,
    can_keep,
    check_name,
    connect_first,
    parsed,
    retried,
)

T = TypeVar("T")
_PORT = 19530
_TIMEOUT = 10  # seconds for a connection
_AWAY = 2  # codes of the server: not there, or not up yet
_BUSY = 8  # asked too fast


class Session:
    """One client, made again when its connection drops; threads take turns."""

    def __init__(self, url: str) -> None:
        address = parsed(url)
        self.place = address.shown
        self._settings = _settings(address)
        self._driver = _driver()
        self._failures = _failures()
        self._lock = RLock()
        self._client: Any = None
        connect_first(self._connected, self.place)

    def call(self, work: Callable[[Any], T]) -> T:
        """The outcome of `work(client)`, which may be done more than once."""

        def attempt() -> T:
            client = self._connected()
            try:
                return work(client)
            except self._failures as error:
                code = getattr(error, "code", None)
                code = code if isinstance(code, int) else None  # gRPC has codes of its own
                if code is None or code == _AWAY:
                    self.close()
                elif code != _BUSY and "not ready" not in _reason(error):
                    raise EngineError(f"{self.place}: {_reason(error)}") from error
                raise Dropped(_reason(error)) from error

        with self._lock:
            return retried(attempt, self.place)

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _connected(self) -> Any:
        if self._client is None:
            try:
                self._client = self._driver.MilvusClient(
                    **self._settings, timeout=_TIMEOUT, dedicated=True
                )
            except self._failures as error:
                raise Dropped(_reason(error)) from error
        return self._client


def _driver() -> Any:
    try:
        import pymilvus
    except ImportError as error:
        raise EngineError("Milvus needs pymilvus; pip install 'bridgehash[milvus]'") from error
    for name in ("pymilvus", "pymilvus.milvus_client"):  # what it logs is raised as well
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus


def _failures() -> tuple[type[Exception], ...]:
    """What the driver raises, or lets through."""
    import grpc
    import pymilvus

    return pymilvus.MilvusException, grpc.RpcError


def _settings(address: Address) -> dict[str, str]:
    """What the client is made with."""
    try:
        parts = urlsplit(f"//{address.host}")
        host, port = parts.hostname or "localhost", parts.port or _PORT
    except ValueError as error:
        raise EngineError(f"{address.shown}: the port is no number") from error
    secure = address.options.get("secure", "").lower() in ("1", "true", "yes")
    return {
        "uri": f"{'https' if secure else 'http'}://{host}:{port}",
        "user": address.user,
        "password": address.password,
        "db_name": address.database,
    }


def _reason(error: Any) -> str:
    """The first line of what the server or the driver says."""
    text = getattr(error, "message", "") or getattr(error, "details", str)() or ""
    return (str(text).strip() or type(error).__name__).splitlines()[0]


MOST = 16_384  # codes that Milvus finds for a query
_FOUND = 200_000  # codes that come back from one request


class Nearest(NamedTuple):
    """What a server found for one query, nearest first."""

    distances: NDArray[np.int64]
    ids: NDArray[np.int64]


Ask = Callable[[NDArray[np.uint8], int, str], list[Nearest]]  # queries, limit, filter


def nearest(queries: NDArray[np.uint8], k: int, ask: Ask, *, exact: bool) -> list[Nearest]:
    """The k nearest of each query; without `exact` ties at the k-th place go as they come."""
    found: dict[int, Nearest] = {}
    rows, limit = np.arange(len(queries)), min(MOST, 2 * k + 64)
    while len(rows):
        step, cut = max(1, _FOUND // limit), []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            for row, near in zip(part.tolist(), ask(queries[part], limit, ""), strict=True):
                if not exact or not _is_cut(near, limit, near.distances[k - 1 : k]):
                    found[row] = _first(near, k)
                elif limit < MOST:
                    cut.append(row)
                else:
                    found[row] = _by_halving(queries[row : row + 1], k, near, ask)
        rows, limit = np.array(cut, dtype=np.intp), min(MOST, 8 * limit)
    return [found[row] for row in range(len(queries))]


def _is_cut(near: Nearest, limit: int, distance: NDArray[np.int64]) -> bool:
    """May there be codes at this distance, or below, that did not fit?"""
    return len(near.ids) >= limit and bool((near.distances[-1] <= distance).all())


def _by_halving(query: NDArray[np.uint8], k: int, near: Nearest, ask: Ask) -> Nearest:
    """All codes below the k-th distance are in `near`; of those at it the first ids are looked for.

    Some id is such that up to it there are enough of these, and not too many to be found at once.
    """
    at = near.distances[k - 1 : k]
    below = near.distances < at
    missing = k - int(below.sum())
    ties = np.sort(near.ids[near.distances == at])
    low, high = 0, int(ties[missing - 1])
    while low <= high:
        middle = (low + high) // 2
        part = ask(query, MOST, f"id <= {middle}")[0]
        here = np.sort(part.ids[part.distances == at])
        if _is_cut(part, MOST, at):
            high = middle - 1
        elif len(here) < missing:
            low = middle + 1
        else:
            ties = here
            break
    return _first(
        Nearest(
            np.concatenate([near.distances[below], np.repeat(at, missing)]),
            np.concatenate([near.ids[below], ties[:missing]]),
        ),
        k,
    )


def _first(near: Nearest, k: int) -> Nearest:
    order = np.lexsort((near.ids, near.distances))[:k]
    return Nearest(near.distances[order], near.ids[order])


_ROWS = 20_000  # in one request
_IDS = 5_000  # looked up in one request
_IDS_END = 2**63 - 1
_MARK = "bridgehash"  # a key of the description: the collection is one of ours
_FIELDS = {"id": "INT64", "code": "BINARY_VECTOR", "tag": "VARCHAR"}
_STRONG = {"consistency_level": "Strong", "retry_times": 0}

Kind = Literal["exact", "ivf"]


class Collection(NamedTuple):
    """What is known of a collection of codes."""

    n_bits: int
    kind: Kind
    about: dict[str, str]
    n_lists: int


class MilvusIndex(ServerIndex):
    """Codes in a collection; `create` makes it, `open` finds it again.

    Milvus has no transactions: an operation is sent in requests of some thousand rows, each of
    which is done whole. A request that meets a dropped connection is sent again, and no row is ever
    there twice. An `add` that cannot go on takes back what it has sent.

    Parameters
    ----------
    session : Session
        The connection.
    name : str
        Of the collection.
    collection : Collection
        Its bits, its kind, and what was told of the codes when it was made.
    n_probe : int, default=16
        Lists that a search of kind "ivf" looks into: more find more and take longer.
    """

    tag_bytes = 4096

    def __init__(
        self, session: Session, name: str, collection: Collection, n_probe: int = 16
    ) -> None:
        self.name = name
        self.place = session.place
        self.n_bits = collection.n_bits
        self.kind = collection.kind
        self.about = collection.about
        self.n_probe = n_probe
        self._n_lists = collection.n_lists
        self._session = session

    @classmethod
    def create(
        cls,
        url: str,
        name: str,
        n_bits: int,
        *,
        kind: Kind = "exact",
        about: dict[str, str] | None = None,
        replace: bool = False,
        n_shards: int | None = None,
        n_lists: int = 128,
    ) -> Self:
        """Make an empty collection, in place of an index of this name if wanted.

        kind="ivf" keeps codes in `n_lists` lists and looks into some of them only. The number of
        shards may also stand in the URL, as `?shards=4`.
        """
        if kind not in ("exact", "ivf"):
            raise ValueError(f"kind={kind!r}: give 'exact' or 'ivf'")
        check_length(n_bits)
        n_shards = n_shards or _shards(url)
        session, told = Session(url), dict(about or {})
        made = Collection(n_bits, kind, told, n_lists)
        text = json.dumps({_MARK: 1, **made._asdict()})
        try:
            _make_room(session, check_name(name), replace=replace)
            session.call(lambda client: _make(client, name, made, text, n_shards))
        except BaseException:
            session.close()
            raise
        return cls(session, name, made)

    @classmethod
    def exists(cls, url: str, name: str) -> bool:
        """Is there a collection of this name? One that holds something else is refused."""
        session = Session(url)
        try:
            return _described(session, check_name(name)) is not None
        finally:
            session.close()

    @classmethod
    def open(cls, url: str, name: str, *, kind: Kind | None = None) -> Self:
        """The collection of a name; searched as it was made to be, unless `kind` says otherwise."""
        check_name(name)
        session = Session(url)
        try:
            found = _described(session, name)
            if found is None:
                raise EngineError(
                    f"{session.place}: there is no collection {name}; build it, or check the name"
                )
            session.call(lambda client: client.load_collection(name, retry_times=0))
        except BaseException:
            session.close()
            raise
        return cls(session, name, found._replace(kind=kind or found.kind))

    def __len__(self) -> int:
        rows = self._session.call(
            lambda client: client.query(self.name, filter="", output_fields=["count(*)"], **_STRONG)
        )
        return int(rows[0]["count(*)"])

    def next_id(self) -> int:
        """The id that a code without one would get; looked for, as Milvus knows no maximum."""
        low, high = 0, _IDS_END
        probe = max(0, len(self) - 1)  # right at once where ids have no gaps
        while low < high:
            known = self._known(f"id >= {probe}", limit=MOST)
            if 0 < len(known) < MOST:
                return max(known) + 1
            low, high = (max(known) + 1, high) if known else (low, probe)
            probe = min(4 * low, (low + high) // 2) if low else high // 2
        return low

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, tags: ArrayLike | None = None
    ) -> Self:
        """Add packed codes, each with a tag if one likes; an id that is there is refused."""
        batch = self._checked(codes, ids, tags)
        if ids is None:
            batch = batch._replace(ids=batch.ids + self.next_id())
        elif len(batch.ids) and self._known(f"id >= {batch.ids[0]}", limit=1):
            taken = self._among(batch.ids)
            if taken:
                raise ValueError(
                    f"id {min(taken)} is in the index already; use upsert to replace it"
                )
        sent = 0
        try:
            for part in _parts(batch):
                sent += len(part.ids)
                self._send(_entities(part), replace=False)
        except BaseException:
            with suppress(EngineError):  # the first failure is the one to tell
                self._delete(batch.ids[:sent])
            raise
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        """Add packed codes, in place of those that have their ids."""
        for part in _parts(self._checked(codes, ids, tags)):
            self._send(_entities(part), replace=True)
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Forget codes by their ids; how many of them were there."""
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
        there = np.array(self._among(wanted), np.int64)
        self._delete(there)
        return len(there)

    def close(self) -> None:
        """End the connection."""
        self._session.close()

    def search(
        self, codes: ArrayLike, k: int = 10, *, tag: str | None = None
    ) -> tuple[NDArray[np.int32], Ids]:
        """Distances and ids of the k nearest codes of each query, shape (n_queries, k).

        They are ordered by (distance, id). Fewer codes than k: the rest has distance n_bits + 1
        and id -1. With `tag` only the codes of this tag are looked at. Milvus finds at most 16,384
        codes, so k is at most 16,383.
        """
        packed = packed_codes(codes, self.n_bits)
        if check_k(k) >= MOST:
            raise ValueError(f"k={k} is too large: Milvus finds up to {MOST - 1} codes")
        if tag is not None and not can_keep(tag, self.tag_bytes):
            return self._nothing(len(packed), k)
        n_probe = self._n_lists if self.kind == "exact" else min(self.n_probe, self._n_lists)
        rule = "" if tag is None else f"tag == {_quoted(tag)}"

        def ask(queries: NDArray[np.uint8], limit: int, extra: str) -> list[Nearest]:
            filters = " and ".join(part for part in (rule, extra) if part)
            return self._ask(queries, limit, filters, n_probe)

        distances, ids = self._nothing(len(packed), k)
        for i, (near, found) in enumerate(nearest(packed, k, ask, exact=self.kind == "exact")):
            distances[i, : len(found)], ids[i, : len(found)] = near, found
        return distances, ids

    def finish(self) -> None:
        """Have the server write out and index what was loaded; call it after a bulk load."""
        self._session.call(lambda client: client.flush(self.name))

    def rename(self, name: str, *, replace: bool = False) -> None:
        """Give the collection another name, in place of an index of that name if wanted."""
        _make_room(self._session, check_name(name), replace=replace)
        self._session.call(lambda client: client.rename_collection(self.name, name))
        self.name = name

    def drop(self) -> None:
        """Remove the collection and all codes in it."""
        self._session.call(lambda client: client.drop_collection(self.name))

    def _nothing(self, n_queries: int, k: int) -> tuple[NDArray[np.int32], Ids]:
        far = np.full((n_queries, k), self.n_bits + 1, np.int32)
        return far, np.full((n_queries, k), -1, np.int64)

    def _send(self, rows: list[dict[str, Any]], *, replace: bool) -> None:
        """One request; sent again it replaces, as its rows may be there already."""

        def work(client: Any) -> None:
            nonlocal replace
            send, replace = (client.upsert if replace else client.insert), True
            send(self.name, rows, retry_times=0)

        self._session.call(work)

    def _delete(self, ids: Ids) -> None:
        for start in range(0, len(ids), _IDS):
            part = ids[start : start + _IDS].tolist()
            self._session.call(
                lambda client, part=part: client.delete(self.name, ids=part, retry_times=0)  # type: ignore[misc]
            )

    def _known(self, rule: str, limit: int | None = None) -> list[int]:
        """Ids of codes that a rule holds for; as many of them as asked for."""
        options = _STRONG if limit is None else {**_STRONG, "limit": limit}
        rows = self._session.call(
            lambda client: client.query(self.name, filter=rule, output_fields=["id"], **options)
        )
        return [row["id"] for row in rows]

    def _among(self, ids: Ids) -> list[int]:
        """Those of the ids that are there."""
        parts = [ids[start : start + _IDS].tolist() for start in range(0, len(ids), _IDS)]
        return [known for part in parts for known in self._known(f"id in {part}")]

    def _ask(
        self, queries: NDArray[np.uint8], limit: int, rule: str, n_probe: int
    ) -> list[Nearest]:
        answers = self._session.call(
            lambda client: client.search(
                self.name,
                [row.tobytes() for row in queries],
                filter=rule,
                limit=limit,
                search_params={"metric_type": "HAMMING", "params": {"nprobe": n_probe}},
                anns_field="code",
                **_STRONG,
            )
        )
        return [
            Nearest(
                np.array([hit["distance"] for hit in hits], np.int64),
                np.array([hit["id"] for hit in hits], np.int64),
            )
            for hits in answers
        ]


def _shards(url: str) -> int:
    number = parsed(url).options.get("shards", "1")
    if not number.isdecimal() or int(number) < 1:
        raise EngineError(f"shards={number} in the URL: give a whole number of at least 1")
    return int(number)


def _make(client: Any, name: str, made: Collection, text: str, n_shards: int) -> None:
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, description=text)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * n_bytes(made.n_bits))
    schema.add_field("tag", DataType.VARCHAR, max_length=MilvusIndex.tag_bytes)
    index = client.prepare_index_params()
    kind = "BIN_FLAT" if made.kind == "exact" else "BIN_IVF_FLAT"
    params = {"nlist": made.n_lists}
    index.add_index("code", index_type=kind, metric_type="HAMMING", params=params)
    client.create_collection(
        name, schema=schema, index_params=index, num_shards=n_shards, consistency_level="Strong"
    )


def _described(session: Session, name: str) -> Collection | None:
    """What a collection holds, if it is there; one that was not made here is refused."""
    if not session.call(lambda client: client.has_collection(name)):
        return None
    record = session.call(lambda client: client.describe_collection(name))
    fields = {field["name"]: field["type"].name for field in record["fields"]}
    try:
        told = json.loads(record["description"])
        if not (told[_MARK] and fields.items() >= _FIELDS.items()):
            raise KeyError(_MARK)
        return Collection(*(told[field] for field in Collection._fields))
    except (ValueError, TypeError, KeyError) as error:
        raise EngineError(
            f"{session.place}: collection {name} was not made by bridgehash and is left alone; "
            "choose another name"
        ) from error


def _make_room(session: Session, name: str, *, replace: bool) -> None:
    """See to it that there is no collection of this name."""
    if _described(session, name) is None:
        return
    if not replace:
        raise EngineError(
            f"{session.place}: collection {name} is there already; replace it or name another"
        )
    session.call(lambda client: client.drop_collection(name))


def _parts(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch.ids), _ROWS):
        rows = slice(start, start + _ROWS)
        tags = None if batch.tags is None else batch.tags[rows]
        yield Batch(batch.codes[rows], batch.ids[rows], tags)


def _entities(batch: Batch) -> list[dict[str, Any]]:
    tags = [""] * len(batch.ids) if batch.tags is None else batch.tags.tolist()
    codes = [row.tobytes() for row in batch.codes]
    columns = zip(batch.ids.tolist(), codes, tags, strict=True)
    return [{"id": id_, "code": code, "tag": tag} for id_, code, tag in columns]


def _quoted(text: str) -> str:
    """Text as Milvus' filters write it."""
    return json.dumps(text, ensure_ascii=False)
