"""An index in a collection of Milvus.

The collection has the fields `id`, `code`, `domain` and `tags`, and for corrections `score_offset`
and `score_slope`, which no code may miss; its description is JSON with the properties of the index.
A code without tags has the empty tag. The collection has a name of its own; the name of the index
is an alias, which is moved to a new collection in one step. Then the old one is dropped. A
collection that is being dropped answers as if it were empty: an operation therefore asks afterwards
whether the alias has moved, and if so it is repeated. A property of the collection says whether it
is still being built.

Milvus orders equal distances at random, so `nearest` asks for more codes than needed until all ties
at the k-th place are known. Milvus has no transactions: an operation is sent as requests of some
thousand rows, each of which is done completely or not at all. If the connection is lost, a request
is sent again as an upsert, so no row is stored twice.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from time import time
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.errors import EngineError, InputError
from ...codes import n_bytes
from ..attributes import Attributes, ItemFilter
from ..batch import Batch, id_exists
from ..ids import EMPTY, MAX_BYTES, Ids, parse_ids
from .base import (
    CORRECTIONS,
    IDS_END,
    Candidates,
    ConnectionLost,
    EngineIndex,
    EngineSession,
    IndexInfo,
    Ranking,
    Reach,
    parse_url,
)

T = TypeVar("T")

MOST = 16_384  # codes that Milvus returns per query; k must be smaller
_MARK = "bridgehash"  # a key of the description: bridgehash created the collection
_PROPERTIES = ("n_bits", "search", "about", "ids")  # in the description
_FIELDS = {"code": "BINARY_VECTOR", "domain": "VARCHAR", "tags": "ARRAY"}
_ID_FIELDS = {"numbers": "INT64", "text": "VARCHAR"}
_MAX_TAGS = 256  # of one code
_STRONG = {"consistency_level": "Strong", "retry_times": 0}
_N_LISTS = 128
_PORT = 19530
_TIMEOUT = 10  # seconds for a connection
_UNAVAILABLE, _RATE_LIMIT = 2, 8  # error codes of Milvus
_NOT_FOUND, _NAME_TAKEN, _ALIAS_TAKEN = 100, 1601, 1602
_STATE, _DONE = "bridgehash.building", "done"  # a property: seconds since 1970, or that it is done
_ABANDONED = 3600  # seconds without a sign of a build
_MOVES = 20  # of an alias during one operation
_ROWS = 20_000  # per request
_IDS = 5_000  # looked up per request
_RESULTS = 200_000  # codes in one answer, fewer if it has
_BYTES = 1 << 25  # of their contents
_HIGHEST_ID = 2**63 - 1
_ROUNDS = 200  # of a bisection over ids


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
        self.errors: tuple[type[Exception], ...] = (pymilvus.MilvusException, grpc.RpcError)
        self._client: Any = None
        super().__init__(address.shown)

    def call(self, work: Callable[[Any], T]) -> T:
        """Return the result of `work(client)`, which may be called more than once."""

        def attempt() -> T:
            client = self._connect()
            try:
                return work(client)
            except self.errors as error:
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
            except self.errors as error:
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
    max_k = MOST - 1
    session_type = MilvusSession
    n_probe = 16

    def __init__(self, session: MilvusSession, name: str, info: IndexInfo) -> None:
        super().__init__(session, name, info)
        self._collection: str | None = None  # that the name stood for when it was last asked

    @classmethod
    def _create(cls, session: MilvusSession, name: str, info: IndexInfo, *, replace: bool) -> None:
        no_codes = np.empty((0, n_bytes(info.n_bits)), np.uint8)
        nothing = Batch(no_codes, EMPTY[info.ids].between(0, 0))
        cls(session, name, info)._build(info, nothing, lambda done, total: None, replace=replace)

    def _build(self, info: IndexInfo, batch: Batch, reach: Reach, *, replace: bool) -> None:
        session = self._session
        self._check_free(replace=replace)
        with suppress(EngineError):  # this build does not depend on it
            _drop_leftovers(session)
        collection = f"{self.name[:46]}_{uuid.uuid4().hex[:16]}"
        try:
            _create_collection(session, collection, info, self.tag_bytes)
            done = 0
            for part in _parts(batch):
                self._send(collection, part, replace=False)
                _set_state(session, collection, str(int(time())))
                done += len(part.ids)
                reach(done, len(batch.ids))
            if done:
                session.call(lambda client: client.flush(collection))
            self._take_name(collection, replace=replace)
        except BaseException:
            with suppress(EngineError):  # report the first error
                if _collection_of(session, self.name) != collection:
                    _drop_collection(session, collection)
            raise
        self._collection = collection
        with suppress(EngineError):  # the index is complete; a later build drops what is left
            _set_state(session, collection, _DONE)
            _drop_leftovers(session)

    def _check_free(self, *, replace: bool) -> None:
        if self._describe(self._session, self.name) is not None and not replace:
            raise EngineError(
                f"{self.place}: collection {self.name} exists; replace it or choose another name"
            )

    def _take_name(self, collection: str, *, replace: bool) -> None:
        """Let the name of the index stand for this collection, in one step.

        Only a collection that has this name itself, as earlier versions created it, is renamed
        first.
        """
        session = self._session

        def work(client: Any) -> None:
            try:
                client.create_alias(collection, self.name)
            except session.errors as error:
                if error.code not in (_NAME_TAKEN, _ALIAS_TAKEN):
                    raise
                self._check_free(replace=replace)
                if error.code == _NAME_TAKEN:
                    old = f"{self.name[:46]}_{uuid.uuid4().hex[:16]}"
                    client.rename_collection(self.name, old)
                    client.create_alias(collection, self.name)
                    client.alter_collection_properties(old, properties={_STATE: _DONE})
                else:
                    client.alter_alias(collection, self.name)

        session.call(work)

    @classmethod
    def _describe(cls, session: MilvusSession, name: str) -> IndexInfo | None:
        record = _record(session, name)
        if record is None:
            return None
        fields = {field["name"]: field["type"].name for field in record["fields"]}
        try:
            content = json.loads(record["description"])
            needed = {**_FIELDS, "id": _ID_FIELDS[content["ids"]]}
            if not (content[_MARK] and fields.items() >= needed.items()):
                raise KeyError(_MARK)
            has = all(fields.get(field) == "FLOAT" for field in CORRECTIONS)
            info = IndexInfo(*(content[field] for field in _PROPERTIES))
            return info._replace(corrections=has)
        except (ValueError, TypeError, KeyError) as error:
            raise EngineError(
                f"{session.place}: collection {name} was not created by bridgehash and is not "
                "changed; choose another name"
            ) from error

    def _prepare(self) -> None:
        self._on_current(
            lambda name: self._session.call(
                lambda client: client.load_collection(name, retry_times=0)
            )
        )

    def _on_current(self, work: Callable[[str], T]) -> T:
        """Return the result of `work(collection)`, repeated if another one took its place."""
        collection = self._collection or self._ask_collection()
        for _ in range(_MOVES):
            failure = None
            try:
                result = work(collection)
            except (EngineError, InputError) as error:
                failure = error
            try:
                asked, collection = collection, self._ask_collection()
            except EngineError as error:
                if failure is not None:
                    raise failure from error
                raise EngineError(
                    f"{error}; the operation was done, unless the index was replaced meanwhile"
                ) from error
            if collection == asked:
                if failure is not None:
                    raise failure
                return result
        raise EngineError(
            f"{self.place}: collection {self.name} was replaced {_MOVES} times during one "
            "operation; repeat it later"
        )

    def _ask_collection(self) -> str:
        self._collection = collection = _collection_of(self._session, self.name)
        if collection is None:
            raise EngineError(f"{self.place}: collection {self.name} was dropped; build it again")
        return collection

    def __len__(self) -> int:
        return self._on_current(lambda collection: self._count(collection, ""))

    def next_id(self) -> int:
        self._check_numbers()
        return self._on_current(lambda collection: self._first_free_id(collection, 1))

    @property
    def domains(self) -> dict[str, int]:
        return self._on_current(self._count_domains)

    def _count_domains(self, collection: str) -> dict[str, int]:
        """Count codes per domain; Milvus cannot group, so one query finds each further name."""
        counts: dict[str, int] = {}
        while True:
            rule = f"domain not in {_literal(list(counts))}" if counts else ""
            rows = self._query(collection, rule, "domain", limit=1)
            if not rows:
                return dict(sorted(counts.items()))
            name = rows[0]["domain"]
            counts[name] = self._count(collection, f"domain == {_literal(name)}")

    def _check(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None,
        tags: ArrayLike | None,
        domain: ArrayLike | None,
        corrections: ArrayLike | None,
        *,
        may_miss: bool = False,
    ) -> Batch:
        batch = super()._check(codes, ids, tags, domain, corrections, may_miss=may_miss)
        numbers = batch.corrections
        if self.has_corrections and len(batch.ids) and (numbers is None or np.isnan(numbers).any()):
            raise InputError(
                f"the collection {self.name} has corrections, and Milvus needs them of all codes; "
                "give them, or build the collection again without",
                "corrections",
            )
        entries = [] if batch.attributes is None else batch.attributes.entries
        if any(len(entry.tags) > _MAX_TAGS for entry in entries):
            raise InputError(f"more than {_MAX_TAGS} for one code; Milvus stores fewer", "tags")
        return batch

    def _add(self, batch: Batch, *, numbered: bool) -> None:
        self._on_current(lambda collection: self._add_to(collection, batch, numbered=numbered))

    def _add_to(self, collection: str, batch: Batch, *, numbered: bool) -> None:
        if numbered:
            first = self._first_free_id(collection, len(batch.ids))
            batch = batch._replace(ids=batch.ids + first)
        elif len(batch.ids) and self._query_ids(collection, _from(batch.ids[0]), limit=1):
            existing = self._existing(collection, batch.ids)
            if existing:
                raise id_exists(min(existing))
        sent = 0
        try:
            for part in _parts(batch):
                sent += len(part.ids)
                self._send(collection, part, replace=False)
        except BaseException as error:
            try:
                self._delete(collection, batch.ids[:sent])
            except EngineError:
                raise EngineError(
                    f"{error}; up to {sent} of {len(batch.ids)} codes are stored, ids "
                    f"{batch.ids[0]} to {batch.ids[sent - 1]}: remove them, or upsert them"
                ) from error
            raise

    def _upsert(self, batch: Batch) -> None:
        self._on_current(lambda collection: self._upsert_to(collection, batch))

    def _upsert_to(self, collection: str, batch: Batch) -> None:
        done = 0
        for part in _parts(batch):
            try:
                self._send(collection, part, replace=True)
            except EngineError as error:
                raise EngineError(
                    f"{error}; the first {done} of {len(batch.ids)} codes by id are stored, the "
                    f"next {len(part.ids)} perhaps: repeat the upsert"
                ) from error
            done += len(part.ids)

    def _remove(self, ids: Ids) -> int:
        def work(collection: str) -> int:
            existing = parse_ids(self._existing(collection, ids))
            self._delete(collection, existing)
            return len(existing)

        return self._on_current(work)

    def _search(
        self,
        packed: NDArray[np.uint8],
        k: int,
        wanted: ItemFilter,
        nothing: tuple[NDArray[np.int32], Ids],
    ) -> tuple[NDArray[np.int32], Ids]:
        distances, ids = nothing
        exact, ask = self.search_mode == "exact", partial(self._ask, wanted, ())
        found = self._on_current(
            lambda collection: nearest(packed, k, partial(ask, collection), exact=exact)
        )
        for i, hits in enumerate(found):
            distances[i, : len(hits.ids)], ids[i, : len(hits.ids)] = hits[:2]
        return distances, ids

    def _rank(
        self, packed: NDArray[np.uint8], depth: int, wanted: ItemFilter, ranking: Ranking
    ) -> None:
        n_bytes, exact = packed.shape[1], self.search_mode == "exact"
        fields = ("code", *(CORRECTIONS if self.has_corrections else ()))
        ask, per_answer = partial(self._ask, wanted, fields), _BYTES // (n_bytes + 8)
        step = max(1, _RESULTS // depth)

        def work(collection: str) -> None:
            ranking.clear()
            for start in range(0, len(packed), step):
                part = packed[start : start + step]
                found = nearest(
                    part, depth, partial(ask, collection), exact=exact, per_answer=per_answer
                )
                for query, hits in enumerate(found, start):
                    ranking.put(query, _candidates(hits, n_bytes))

        self._on_current(work)

    def _ask(
        self,
        wanted: ItemFilter,
        fields: tuple[str, ...],
        collection: str,
        queries: NDArray[np.uint8],
        limit: int,
        extra: str,
    ) -> list[Hits]:
        """Return the nearest codes of queries, with some fields, that match a filter."""
        n_probe = _N_LISTS if self.search_mode == "exact" else min(self.n_probe, _N_LISTS)
        answers = self._session.call(
            lambda client: client.search(
                collection,
                [row.tobytes() for row in queries],
                filter=" and ".join(part for part in (_rule(wanted), extra) if part),
                limit=limit,
                search_params={"metric_type": "HAMMING", "params": {"nprobe": n_probe}},
                anns_field="code",
                output_fields=list(fields),
                **_STRONG,
            )
        )
        return [
            Hits(
                np.array([hit["distance"] for hit in hits], np.int64),
                parse_ids([hit["id"] for hit in hits]),
                _contents([hit["entity"] for hit in hits], fields, queries.shape[1]),
            )
            for hits in answers
        ]

    def finish(self) -> None:
        """Let the server write and index what was loaded; call it after a bulk load."""
        self._on_current(lambda name: self._session.call(lambda client: client.flush(name)))

    def drop(self) -> None:
        collection = _collection_of(self._session, self.name)
        if collection is not None:
            self._session.call(lambda client: client.drop_alias(self.name))
            _drop_collection(self._session, collection)

    def _send(self, collection: str, batch: Batch, *, replace: bool) -> None:
        """Send one request; a retry replaces, because its rows may have been stored."""
        entries, numbers = batch.attributes or ([Attributes()], np.zeros(len(batch.ids), int))
        fields = [{"domain": each.domain, "tags": list(each.tags) or [""]} for each in entries]
        columns = zip(batch.ids.tolist(), batch.codes, numbers.tolist(), strict=True)
        rows = [{"id": id_, "code": code.tobytes(), **fields[i]} for id_, code, i in columns]
        if batch.corrections is not None:
            pairs = batch.corrections.astype(np.float32).tolist()
            for row, pair in zip(rows, pairs, strict=True):
                row.update(zip(CORRECTIONS, pair, strict=True))

        def work(client: Any) -> None:
            nonlocal replace
            send, replace = (client.upsert if replace else client.insert), True
            send(collection, rows, retry_times=0)

        self._session.call(work)

    def _delete(self, collection: str, ids: Ids) -> None:
        for start in range(0, len(ids), _IDS):
            rule = f"id in {_literal(ids[start : start + _IDS].tolist())}"
            self._session.call(
                lambda client, rule=rule: client.delete(collection, filter=rule, retry_times=0)
            )

    def _query(
        self, collection: str, rule: str, field: str, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Return a field of the codes that match a filter, up to `limit`."""
        options = _STRONG if limit is None else {**_STRONG, "limit": limit}
        rows: list[dict[str, Any]] = self._session.call(
            lambda client: client.query(collection, filter=rule, output_fields=[field], **options)
        )
        return rows

    def _query_ids(self, collection: str, rule: str, limit: int | None = None) -> list[Any]:
        """Return the ids that match a filter, up to `limit`."""
        return [row["id"] for row in self._query(collection, rule, "id", limit)]

    def _existing(self, collection: str, ids: Ids) -> list[Any]:
        """Return those of the ids that exist."""
        rules = [
            f"id in {_literal(ids[start : start + _IDS].tolist())}"
            for start in range(0, len(ids), _IDS)
        ]
        return [known for rule in rules for known in self._query_ids(collection, rule)]

    def _count(self, collection: str, rule: str) -> int:
        """Return the number of codes that match a filter."""
        rows = self._session.call(
            lambda client: client.query(
                collection, filter=rule, output_fields=["count(*)"], **_STRONG
            )
        )
        return int(rows[0]["count(*)"])

    def _first_free_id(self, collection: str, n: int) -> int:
        """Return the first of n consecutive free ids."""
        highest = self._highest_id(collection)
        if highest + n < IDS_END:
            return highest + 1
        return first_gap(
            n, lambda low, high: self._count(collection, f"id >= {low} and id < {high}")
        )

    def _highest_id(self, collection: str) -> int:
        """Return the highest id, or -1; Milvus has no maximum, so bisection finds it."""
        low, high = 0, _HIGHEST_ID + 1
        probe = max(0, self._count(collection, "") - 1)  # the answer at once if ids have no gaps
        while low < high:
            known = self._query_ids(collection, f"id >= {probe}", limit=MOST)
            if 0 < len(known) < MOST:
                return max(known)
            low, high = (max(known) + 1, high) if known else (low, probe)
            probe = min(4 * low, (low + high) // 2) if low else high // 2
        return low - 1


def _create_collection(
    session: MilvusSession, collection: str, info: IndexInfo, tag_bytes: int
) -> None:
    """Create a collection that is marked as being built."""
    from pymilvus import DataType

    def work(client: Any) -> None:
        text = json.dumps({_MARK: 2, **{field: getattr(info, field) for field in _PROPERTIES}})
        schema = client.create_schema(auto_id=False, description=text)
        if info.ids == "numbers":
            schema.add_field("id", DataType.INT64, is_primary=True)
        else:
            schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=MAX_BYTES)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * n_bytes(info.n_bits))
        schema.add_field("domain", DataType.VARCHAR, max_length=tag_bytes)
        schema.add_field(
            "tags",
            DataType.ARRAY,
            element_type=DataType.VARCHAR,
            max_capacity=_MAX_TAGS,
            max_length=tag_bytes,
        )
        for field in CORRECTIONS if info.corrections else ():
            schema.add_field(field, DataType.FLOAT)
        index = client.prepare_index_params()
        index.add_index(
            "code",
            index_type="BIN_FLAT" if info.search == "exact" else "BIN_IVF_FLAT",
            metric_type="HAMMING",
            params={"nlist": _N_LISTS},
        )
        client.create_collection(
            collection,
            schema=schema,
            index_params=index,
            num_shards=session.n_shards,
            consistency_level="Strong",
            properties={_STATE: str(int(time()))},
        )

    session.call(work)


def _set_state(session: MilvusSession, collection: str, state: str) -> None:
    session.call(
        lambda client: client.alter_collection_properties(collection, properties={_STATE: state})
    )


def _drop_leftovers(session: MilvusSession) -> None:
    """Drop collections without an alias that were replaced, or that nobody builds any more.

    Milvus has no locks. A build that has given no sign for an hour is taken for dead.
    """
    for collection in session.call(lambda client: client.list_collections()):
        record = _record(session, collection)
        if record is None or record["aliases"]:
            continue
        state = record.get("properties", {}).get(_STATE)
        if state == _DONE or (state and time() - int(state) > _ABANDONED):
            _drop_collection(session, collection)


def _drop_collection(session: MilvusSession, collection: str) -> None:
    session.call(lambda client: client.drop_collection(collection))


def _record(session: MilvusSession, name: str) -> dict[str, Any] | None:
    """Return the description of the collection that a name stands for, or None."""
    try:
        record: dict[str, Any] = session.call(lambda client: client.describe_collection(name))
    except EngineError as error:
        if getattr(error.__cause__, "code", None) == _NOT_FOUND:
            return None
        raise
    return record


def _collection_of(session: MilvusSession, name: str) -> str | None:
    """Return the collection that a name stands for, or None."""
    record = _record(session, name)
    return None if record is None else str(record["collection_name"])


def first_gap(n: int, count: Callable[[int, int], int]) -> int:
    """Return the first of n consecutive free ids, where `count(low, high)` says how many are used.

    >>> used = {0, 1, 2, 4, 5, 9}
    >>> first_gap(2, lambda low, high: sum(low <= id_ < high for id_ in used))
    6
    """

    def is_full(low: int, high: int) -> bool:
        return count(low, high) == high - low

    def is_free(low: int, high: int) -> bool:
        return not count(low, high)

    start = 0
    while start + n <= IDS_END:
        start = _furthest(start, is_full)
        if start + n <= IDS_END and is_free(start, start + n):
            return start
        start = _furthest(start, is_free)
    raise InputError(f"no {n} consecutive ids below 2**53 are free; give ids", "ids")


def _furthest(start: int, holds: Callable[[int, int], bool]) -> int:
    """Return the largest end for which `holds(start, end)`, with few calls if it is near."""
    end, step = start, 1
    while end + step <= IDS_END and holds(start, end + step):
        end, step = end + step, 2 * step
    while step := step // 2:
        if end + step <= IDS_END and holds(start, end + step):
            end += step
    return end


class Hits(NamedTuple):
    """What the server returned for one query, nearest first."""

    distances: NDArray[np.int64]
    ids: Ids
    contents: NDArray[np.uint8] | None = None  # bytes of codes, then of corrections

    def rows(self, rows: Any) -> Hits:
        """Return some codes."""
        contents = None if self.contents is None else self.contents[rows]
        return Hits(self.distances[rows], self.ids[rows], contents)

    def by_id(self) -> Hits:
        return self.rows(np.argsort(self.ids, kind="stable"))


Ask = Callable[[NDArray[np.uint8], int, str], list[Hits]]  # queries, limit, filter


def _contents(
    rows: list[dict[str, Any]], fields: tuple[str, ...], n_bytes: int
) -> NDArray[np.uint8] | None:
    """Return codes as bytes, followed by corrections, if these fields are asked for."""
    if not fields:
        return None
    codes = [row["code"] for row in rows]
    codes = [code if isinstance(code, bytes) else code[0] for code in codes]  # by version
    parts = [np.frombuffer(b"".join(codes), np.uint8).reshape(len(rows), n_bytes)]
    for field in fields[1:]:
        numbers = np.array([row[field] for row in rows], np.float16)
        parts.append(numbers.view(np.uint8).reshape(len(rows), 2))
    return np.hstack(parts)


def _candidates(hits: Hits, n_bytes: int) -> Candidates:
    """Return codes and corrections from their bytes."""
    contents = np.empty((0, n_bytes), np.uint8) if hits.contents is None else hits.contents
    codes, rest = contents[:, :n_bytes], np.ascontiguousarray(contents[:, n_bytes:])
    corrections = rest.view(np.float16) if rest.shape[1] else None
    return Candidates(hits.distances, hits.ids, codes, corrections)


def nearest(
    queries: NDArray[np.uint8], k: int, ask: Ask, *, exact: bool, per_answer: int = _RESULTS
) -> list[Hits]:
    """Return the k nearest codes per query by (distance, id).

    Without `exact`, ties at the k-th place are kept in the order of the server.
    """
    results: dict[int, Hits] = {}
    rows, limit = np.arange(len(queries)), min(MOST, 2 * k + 64)
    while len(rows):
        step, incomplete = max(1, min(_RESULTS, per_answer) // limit), []
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
    bisection over the ids that the server has returned: up to some id there are enough ties, but
    not more than fit in one answer.
    """
    at = hits.distances[k - 1 : k]
    below = hits.distances < at
    missing = k - int(below.sum())
    ties = hits.rows(hits.distances == at).by_id()
    lowest: Any = None  # id up to which there are too few ties
    for _ in range(_ROUNDS):  # fewer, unless codes are changed meanwhile
        first = 0 if lowest is None else int(np.searchsorted(ties.ids, lowest, "right"))
        middle = (first + missing - 1) // 2  # up to the last of these there are enough
        part = ask(query, MOST, _up_to(ties.ids[middle]))[0]
        here = part.rows(part.distances == at).by_id()
        if len(here.ids) < missing:
            lowest = ties.ids[middle]
            continue
        ties = here
        if not _is_cut(part, MOST, at):
            break
    return _first(_joined(hits.rows(below), ties.rows(slice(missing))), k)


def _joined(a: Hits, b: Hits) -> Hits:
    contents = None
    if a.contents is not None and b.contents is not None:
        contents = np.concatenate([a.contents, b.contents])
    return Hits(
        np.concatenate([a.distances, b.distances]), np.concatenate([a.ids, b.ids]), contents
    )


def _rule(wanted: ItemFilter) -> str:
    """Return a filter as an expression of Milvus."""
    rules = [] if wanted.domain is None else [f"domain == {_literal(wanted.domain)}"]
    if wanted.tags is not None:
        rules.append(f"array_contains_{wanted.match}(tags, {_literal(list(wanted.tags))})")
    return " and ".join(rules)


def _from(id_: Any) -> str:
    return f"id >= {_literal(id_)}"


def _up_to(id_: Any) -> str:
    return f"id <= {_literal(id_)}"


def _literal(value: Any) -> str:
    """Return a number, a text or a list of them as part of an expression."""
    return json.dumps(value if isinstance(value, str | list) else int(value), ensure_ascii=False)


def _first(hits: Hits, k: int) -> Hits:
    sorted_ = hits.by_id()
    return sorted_.rows(np.argsort(sorted_.distances, kind="stable")[:k])


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
        yield batch.rows(slice(start, start + _ROWS))
