"""An index in a collection of Milvus.

The collection has the fields `id`, `code` and `tag`; its description is JSON with the properties of
the index. Milvus orders equal distances at random, so `nearest` asks for more codes than needed
until all ties at the k-th place are known. Milvus has no transactions: an operation is sent as
requests of some thousand rows, each of which is done completely or not at all. If the connection is
lost, a request is sent again as an upsert, so no row is stored twice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.errors import EngineError
from ...codes import n_bytes
from ..batch import (
    Batch,
    Ids,
    check_number,
    id_exists,
    no_neighbors,
    packed_codes,
    whole_ids,
)
from .base import ConnectionLost, EngineIndex, EngineSession, IndexInfo, check_name, parse_url

T = TypeVar("T")

MOST = 16_384  # codes that Milvus returns per query; k must be smaller
_MARK = "bridgehash"  # a key of the description: bridgehash created the collection
_PROPERTIES = ("n_bits", "search", "about")  # in the description
_FIELDS = {"id": "INT64", "code": "BINARY_VECTOR", "tag": "VARCHAR"}
_STRONG = {"consistency_level": "Strong", "retry_times": 0}
_N_LISTS = 128
_PORT = 19530
_TIMEOUT = 10  # seconds for a connection
_UNAVAILABLE, _RATE_LIMIT = 2, 8  # error codes of Milvus
_ROWS = 20_000  # per request
_IDS = 5_000  # looked up per request
_RESULTS = 200_000  # codes in one answer
_IDS_END = 2**63 - 1


class MilvusSession(EngineSession):
    """A client of Milvus."""

    def __init__(self, url: str) -> None:
        address = parse_url(url)
        try:
            parts = urlsplit(f"//{address.host}")
            host, port = parts.hostname or "localhost", parts.port or _PORT
        except ValueError as error:
            raise EngineError(f"{address.shown}: the port is not a number") from error
        secure = address.options.get("secure", "").lower() in ("1", "true", "yes")
        self._options = {
            "uri": f"{'https' if secure else 'http'}://{host}:{port}",
            "user": address.user,
            "password": address.password,
            "db_name": address.database,
        }
        self.n_shards = _shards(url)  # of a new collection
        try:
            import grpc
            import pymilvus
        except ImportError as error:
            raise EngineError("Milvus needs pymilvus; pip install 'bridgehash[milvus]'") from error
        for name in ("pymilvus", "pymilvus.milvus_client"):  # it logs what it also raises
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._new_client = pymilvus.MilvusClient
        self._errors: tuple[type[Exception], ...] = (pymilvus.MilvusException, grpc.RpcError)
        self._client: Any = None
        super().__init__(address.shown)

    def call(self, work: Callable[[Any], T]) -> T:
        """Return the result of `work(client)`, which may be called more than once."""

        def attempt() -> T:
            client = self._connect()
            try:
                return work(client)
            except self._errors as error:
                code = getattr(error, "code", None)
                code = code if isinstance(code, int) else None  # the codes of gRPC are no integers
                if code is None or code == _UNAVAILABLE:
                    self.close()
                elif code != _RATE_LIMIT and "not ready" not in _reason(error):
                    raise EngineError(f"{self.place}: {_reason(error)}") from error
                raise ConnectionLost(_reason(error)) from error

        return self._retry(attempt)

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _connect(self) -> Any:
        if self._client is None:
            try:
                self._client = self._new_client(**self._options, timeout=_TIMEOUT, dedicated=True)
            except self._errors as error:
                raise ConnectionLost(_reason(error)) from error
        return self._client


class MilvusIndex(EngineIndex):
    """An index in a collection of Milvus; made by `create_index` or `open_index`.

    An `add` that fails removes what it has already sent.

    Attributes
    ----------
    n_probe : int, default=16
        Of 128 inverted lists, those that an approximate search looks into. More give a higher
        recall and take longer.
    """

    noun = "collection"
    tag_bytes = 4096
    session_type = MilvusSession
    n_probe = 16

    @classmethod
    def _create(cls, session: MilvusSession, name: str, info: IndexInfo, *, replace: bool) -> None:
        cls._make_way(session, name, replace=replace)
        from pymilvus import DataType

        def work(client: Any) -> None:
            text = json.dumps({_MARK: 1, **{field: getattr(info, field) for field in _PROPERTIES}})
            schema = client.create_schema(auto_id=False, description=text)
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * n_bytes(info.n_bits))
            schema.add_field("tag", DataType.VARCHAR, max_length=cls.tag_bytes)
            index = client.prepare_index_params()
            index.add_index(
                "code",
                index_type="BIN_FLAT" if info.search == "exact" else "BIN_IVF_FLAT",
                metric_type="HAMMING",
                params={"nlist": _N_LISTS},
            )
            client.create_collection(
                name,
                schema=schema,
                index_params=index,
                num_shards=session.n_shards,
                consistency_level="Strong",
            )

        session.call(work)

    @classmethod
    def _describe(cls, session: MilvusSession, name: str) -> IndexInfo | None:
        if not session.call(lambda client: client.has_collection(name)):
            return None
        record = session.call(lambda client: client.describe_collection(name))
        fields = {field["name"]: field["type"].name for field in record["fields"]}
        try:
            content = json.loads(record["description"])
            if not (content[_MARK] and fields.items() >= _FIELDS.items()):
                raise KeyError(_MARK)
            return IndexInfo(*(content[field] for field in _PROPERTIES))
        except (ValueError, TypeError, KeyError) as error:
            raise EngineError(
                f"{session.place}: collection {name} was not created by bridgehash and is not "
                "changed; choose another name"
            ) from error

    @classmethod
    def _make_way(cls, session: MilvusSession, name: str, *, replace: bool) -> None:
        """Drop an index of this name if `replace` allows it."""
        if cls._describe(session, name) is None:
            return
        if not replace:
            raise EngineError(
                f"{session.place}: collection {name} exists; replace it or choose another name"
            )
        session.call(lambda client: client.drop_collection(name))

    def _prepare(self) -> None:
        self._session.call(lambda client: client.load_collection(self.name, retry_times=0))

    def __len__(self) -> int:
        rows = self._session.call(
            lambda client: client.query(self.name, filter="", output_fields=["count(*)"], **_STRONG)
        )
        return int(rows[0]["count(*)"])

    def next_id(self) -> int:
        # Milvus has no maximum: bisection finds it.
        low, high = 0, _IDS_END
        probe = max(0, len(self) - 1)  # the answer at once if ids have no gaps
        while low < high:
            known = self._query_ids(f"id >= {probe}", limit=MOST)
            if 0 < len(known) < MOST:
                return max(known) + 1
            low, high = (max(known) + 1, high) if known else (low, probe)
            probe = min(4 * low, (low + high) // 2) if low else high // 2
        return low

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, tags: ArrayLike | None = None
    ) -> Self:
        batch = self._check(codes, ids, tags)
        if ids is None:
            batch = batch._replace(ids=batch.ids + self.next_id())
        elif len(batch.ids) and self._query_ids(f"id >= {batch.ids[0]}", limit=1):
            existing = self._existing(batch.ids)
            if existing:
                raise id_exists(min(existing))
        sent = 0
        try:
            for part in _parts(batch):
                sent += len(part.ids)
                self._send(part, replace=False)
        except BaseException:
            with suppress(EngineError):  # report the first error
                self._delete(batch.ids[:sent])
            raise
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        for part in _parts(self._check(codes, ids, tags)):
            self._send(part, replace=True)
        return self

    def remove(self, ids: ArrayLike) -> int:
        existing = np.array(self._existing(np.unique(whole_ids(ids))), np.int64)
        self._delete(existing)
        return len(existing)

    def search(
        self, codes: ArrayLike, k: int = 10, *, tag: str | None = None
    ) -> tuple[NDArray[np.int32], Ids]:
        packed = packed_codes(codes, self.n_bits)
        distances, ids = no_neighbors(len(packed), check_number(k, "k", 1, MOST - 1), self.n_bits)
        if tag is not None and not self._can_store(tag):
            return distances, ids
        exact = self.search_mode == "exact"
        n_probe = _N_LISTS if exact else min(self.n_probe, _N_LISTS)
        rule = "" if tag is None else f"tag == {json.dumps(tag, ensure_ascii=False)}"

        def ask(queries: NDArray[np.uint8], limit: int, extra: str) -> list[Hits]:
            answers = self._session.call(
                lambda client: client.search(
                    self.name,
                    [row.tobytes() for row in queries],
                    filter=" and ".join(part for part in (rule, extra) if part),
                    limit=limit,
                    search_params={"metric_type": "HAMMING", "params": {"nprobe": n_probe}},
                    anns_field="code",
                    **_STRONG,
                )
            )
            pairs = [[(hit["distance"], hit["id"]) for hit in hits] for hits in answers]
            return [Hits(*np.array(hits, np.int64).reshape(-1, 2).T) for hits in pairs]

        for i, hits in enumerate(nearest(packed, k, ask, exact=exact)):
            distances[i, : len(hits.ids)], ids[i, : len(hits.ids)] = hits
        return distances, ids

    def finish(self) -> None:
        """Let the server write and index what was loaded; call it after a bulk load."""
        self._session.call(lambda client: client.flush(self.name))

    def rename(self, name: str, *, replace: bool = False) -> None:
        self._make_way(self._session, check_name(name), replace=replace)
        self._session.call(lambda client: client.rename_collection(self.name, name))
        self.name = name

    def drop(self) -> None:
        self._session.call(lambda client: client.drop_collection(self.name))

    def _send(self, batch: Batch, *, replace: bool) -> None:
        """Send one request; a retry replaces, because its rows may have been stored."""
        tags = [""] * len(batch.ids) if batch.tags is None else batch.tags.tolist()
        columns = zip(batch.ids.tolist(), batch.codes, tags, strict=True)
        rows = [{"id": id_, "code": code.tobytes(), "tag": tag} for id_, code, tag in columns]

        def work(client: Any) -> None:
            nonlocal replace
            send, replace = (client.upsert if replace else client.insert), True
            send(self.name, rows, retry_times=0)

        self._session.call(work)

    def _delete(self, ids: Ids) -> None:
        for start in range(0, len(ids), _IDS):
            part = ids[start : start + _IDS].tolist()
            self._session.call(
                lambda client, part=part: client.delete(self.name, ids=part, retry_times=0)
            )

    def _query_ids(self, rule: str, limit: int | None = None) -> list[int]:
        """Return the ids that match a filter, up to `limit`."""
        options = _STRONG if limit is None else {**_STRONG, "limit": limit}
        rows = self._session.call(
            lambda client: client.query(self.name, filter=rule, output_fields=["id"], **options)
        )
        return [row["id"] for row in rows]

    def _existing(self, ids: Ids) -> list[int]:
        """Return those of the ids that exist."""
        parts = [ids[start : start + _IDS].tolist() for start in range(0, len(ids), _IDS)]
        return [known for part in parts for known in self._query_ids(f"id in {part}")]


class Hits(NamedTuple):
    """What the server returned for one query, nearest first."""

    distances: NDArray[np.int64]
    ids: NDArray[np.int64]


Ask = Callable[[NDArray[np.uint8], int, str], list[Hits]]  # queries, limit, filter


def nearest(queries: NDArray[np.uint8], k: int, ask: Ask, *, exact: bool) -> list[Hits]:
    """Return the k nearest codes per query by (distance, id).

    Without `exact`, ties at the k-th place are kept in the order of the server.
    """
    results: dict[int, Hits] = {}
    rows, limit = np.arange(len(queries)), min(MOST, 2 * k + 64)
    while len(rows):
        step, incomplete = max(1, _RESULTS // limit), []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            for row, hits in zip(part.tolist(), ask(queries[part], limit, ""), strict=True):
                if not exact or not _is_cut(hits, limit, hits.distances[k - 1 : k]):
                    results[row] = _first(hits, k)
                elif limit < MOST:
                    incomplete.append(row)
                else:
                    results[row] = _lowest_ties(queries[row : row + 1], k, hits, ask)
        rows, limit = np.array(incomplete, dtype=np.intp), min(MOST, 8 * limit)
    return [results[row] for row in range(len(queries))]


def _is_cut(hits: Hits, limit: int, distance: NDArray[np.int64]) -> bool:
    """Return whether more codes up to this distance may exist than were returned."""
    return len(hits.ids) >= limit and bool((hits.distances[-1] <= distance).all())


def _lowest_ties(query: NDArray[np.uint8], k: int, hits: Hits, ask: Ask) -> Hits:
    """Return the k nearest codes when there are more ties at the k-th place than MOST.

    `hits` has all codes below the k-th distance. The lowest ids at that distance are found by
    bisection over ids: below some id there are enough ties, but not more than fit in one answer.
    """
    at = hits.distances[k - 1 : k]
    below = hits.distances < at
    missing = k - int(below.sum())
    ties = np.sort(hits.ids[hits.distances == at])
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
        Hits(
            np.concatenate([hits.distances[below], np.repeat(at, missing)]),
            np.concatenate([hits.ids[below], ties[:missing]]),
        ),
        k,
    )


def _first(hits: Hits, k: int) -> Hits:
    order = np.lexsort((hits.ids, hits.distances))[:k]
    return Hits(hits.distances[order], hits.ids[order])


def _reason(error: Any) -> str:
    """Return the first line of the message of the server or the driver."""
    text = getattr(error, "message", "") or getattr(error, "details", str)() or ""
    return (str(text).strip() or type(error).__name__).splitlines()[0]


def _shards(url: str) -> int:
    number = parse_url(url).options.get("shards", "1")
    if not number.isdecimal() or int(number) < 1:
        raise EngineError(f"shards={number} in the URL; give a whole number of at least 1")
    return int(number)


def _parts(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch.ids), _ROWS):
        rows = slice(start, start + _ROWS)
        tags = None if batch.tags is None else batch.tags[rows]
        yield Batch(batch.codes[rows], batch.ids[rows], tags)
