"""An index in a table of PostgreSQL, with pgvector.

The table has the columns `id bigint` or `id text`, `code bit(n)`, `domain text` and `tags text[]`,
and for corrections `score_offset real` and `score_slope real`, null where a code has none; a JSON
comment holds the search mode and the origin of the codes. Every operation is one transaction, also
a whole build: a table that is not complete is never seen, and a build that is killed leaves
nothing. If the connection is lost, or the server ends the transaction in favour of another one, it
is repeated. The answer to a commit can be lost too: a writing transaction therefore asks for its
number first, and after a new connection the server says whether that number was committed. So
nothing is done twice.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._core.errors import EngineError, InputError
from ...codes import MAX_BITS
from ..attributes import Attributes, ItemFilter
from ..batch import Batch, id_exists, valid_corrections
from ..ids import IdKind, Ids, kind_of, parse_ids
from .base import (
    CORRECTIONS,
    IDS_END,
    NO_CORRECTIONS,
    Candidates,
    Conflict,
    ConnectionLost,
    EngineIndex,
    EngineSession,
    IndexInfo,
    Ranking,
    Reach,
    parse_url,
)

try:
    import psycopg
    from psycopg import errors, sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise ImportError("PostgreSQL needs psycopg; pip install 'bridgehash[postgres]'") from error

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

EXTENSION = "vector"
_MARK = "bridgehash"  # a key of the comment: bridgehash created the table
_TIMEOUT = 10  # seconds for a connection, unless the URL has another
_DISCONNECTED = ("57P01", "57P02", "57P03", "08")  # first characters of the error codes
_CONFLICTS = ("40001", "40P01", "55P03")  # serialization failure, deadlock, lock timeout
_NAME_BYTES = 63
_ROWS = 20_000  # per block of COPY
_QUERIES = 256  # per round trip, fewer for a large k
_RESULTS = 100_000  # rows of one answer
_EF_MOST = 1000  # the limit of pgvector
_NEW = sql.Identifier("pg_temp", "bridgehash_new")

_LAYOUT = """
SELECT obj_description(t.oid, 'pg_class'),
    (SELECT json_object_agg(attname, format_type(atttypid, atttypmod)) FROM pg_attribute
        WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped),
    EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'id'
        WHERE i.indrelid = t.oid AND i.indisunique AND i.indnkeyatts = 1
        AND i.indkey[0] = a.attnum AND i.indpred IS NULL)
FROM pg_class t WHERE t.oid = to_regclass(quote_ident(%s))
"""
_GAP = """
SELECT low FROM (
    SELECT id + 1 AS low, lead(id, 1, %(end)s) OVER (ORDER BY id) AS high
    FROM (SELECT -1 AS id UNION ALL SELECT id FROM {table} WHERE id >= 0 AND id < %(end)s) used
) gap
WHERE high - low >= %(n)s ORDER BY low LIMIT 1
"""
_PARTS = """
SELECT 'index', c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(quote_ident(%(table)s))
UNION ALL SELECT 'constraint', conname FROM pg_constraint
WHERE conrelid = to_regclass(quote_ident(%(table)s)) AND conindid = 0
"""
_NEAREST = """
SELECT q.place, near.id, near.distance {results}
FROM unnest(%(queries)s::bit({bits})[]) WITH ORDINALITY AS q (code, place)
CROSS JOIN LATERAL (
    SELECT t.id, t.code <~> q.code AS distance {columns} FROM {table} t {where}
    ORDER BY t.code <~> q.code, t.{key} LIMIT %(k)s
) near
ORDER BY q.place, near.distance, near.{key}
"""
_MEANS = """
SELECT avg(score_offset::float8), avg(score_slope::float8)
FROM (SELECT score_offset, score_slope FROM {table} t {where}) known
WHERE score_offset IS NOT NULL AND score_slope IS NOT NULL
"""
_REPLACE = """
INSERT INTO {table} AS old (id, {columns})
SELECT id, {columns} FROM {new} ORDER BY id
ON CONFLICT (id) DO UPDATE SET ({columns}) = ({given})
WHERE ({known}) IS DISTINCT FROM ({given})
"""


class PostgresSession(EngineSession):
    """A connection to PostgreSQL for whole transactions."""

    def __init__(self, url: str) -> None:
        place = parse_url(url).shown
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise EngineError(
                f"{place}: the URL cannot be read; check its port and options"
            ) from error
        self._options: Any = {"connect_timeout": _TIMEOUT, "application_name": "bridgehash"} | given
        self._connection: Connection | None = None
        super().__init__(place)

    def read(self, table: sql.Identifier, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, which sees one snapshot of the database.

        The table is locked before the snapshot is taken. Else it could be replaced in between, and
        the snapshot would be too old to see the codes of the new one.
        """

        def attempt() -> T:
            connection = self._connect()
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
                return work(connection)

        return self._run(attempt)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, which is committed once or not at all."""
        in_doubt: tuple[str, T] | None = None  # a transaction whose commit was sent

        def attempt() -> T:
            nonlocal in_doubt
            connection = self._connect()
            if in_doubt is not None:
                if _was_committed(connection, in_doubt[0]):
                    return in_doubt[1]
                in_doubt = None
            try:
                with connection.transaction():
                    row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
                    assert row is not None
                    result = work(connection)
                    in_doubt = row[0], result
            except psycopg.Error:
                if not connection.closed:
                    in_doubt = None  # the server has answered that it was rolled back
                raise
            return result

        try:
            return self._run(attempt)
        except EngineError as error:
            if in_doubt is None:
                raise
            raise EngineError(
                f"{error}; the answer to the commit was lost: this change is stored completely or "
                "not at all; check which before you repeat it"
            ) from error

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, attempt: Callable[[], T]) -> T:
        def translate_errors() -> T:
            try:
                return attempt()
            except psycopg.Error as error:
                closed = self._connection is None or self._connection.closed
                if closed or (error.sqlstate or "").startswith(_DISCONNECTED):
                    raise ConnectionLost(_reason(error)) from error
                if error.sqlstate in _CONFLICTS:
                    raise Conflict(_reason(error)) from error
                raise EngineError(f"{self.place}: {_reason(error)}") from error

        return self._retry(translate_errors)

    def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(**self._options, autocommit=True)
            except psycopg.Error as error:
                raise ConnectionLost(_reason(error)) from error
            # Every statement must see what was committed before it got its locks.
            self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return self._connection


class PostgresIndex(EngineIndex):
    """An index in a table of PostgreSQL; made by `create_index` or `open_index`.

    Attributes
    ----------
    ef_search : int, default=200
        Candidates of an approximate search, up to 1,000. More give a higher recall and take longer.
    """

    noun = "table"
    tag_bytes = 1 << 16
    session_type = PostgresSession
    ef_search = 200

    @property
    def _table(self) -> sql.Identifier:
        return sql.Identifier(self.name)

    @classmethod
    def _create(
        cls, session: PostgresSession, name: str, info: IndexInfo, *, replace: bool
    ) -> None:
        _create_extension(session)

        def work(connection: Connection) -> None:
            _make_way(connection, name, session.place, replace=replace)
            _create_table(connection, name, info)

        session.write(work)

    def _build(self, info: IndexInfo, batch: Batch, reach: Reach, *, replace: bool) -> None:
        _create_extension(self._session)

        def work(connection: Connection) -> None:
            # A lost attempt may still hold its name, so every attempt has its own.
            unfinished = f"{_MARK}_{uuid.uuid4().hex}"
            _create_table(connection, unfinished, info)
            _copy(connection, sql.Identifier(unfinished), batch, self.n_bits, reach)
            _create_indexes(connection, unfinished, self.search_mode)
            # A load is too long to be repeated because others use the old table for a moment.
            connection.execute("SET LOCAL lock_timeout = 0")
            _make_way(connection, self.name, self.place, replace=replace)
            _rename_table(connection, unfinished, self.name)

        self._session.write(work)

    @classmethod
    def _describe(cls, session: PostgresSession, name: str) -> IndexInfo | None:
        def work(connection: Connection) -> IndexInfo | None:
            return _describe_table(connection, name, session.place)

        try:
            return session.read(sql.Identifier(name), work)
        except EngineError as error:
            if isinstance(error.__cause__, errors.UndefinedTable):
                return None
            if isinstance(error.__cause__, errors.WrongObjectType):
                raise _holds_no_codes(session.place, name) from error
            raise

    def __len__(self) -> int:
        return self._session.read(self._table, lambda c: self._number(c, "count(*)"))

    def next_id(self) -> int:
        self._check_numbers()
        return self._session.read(self._table, lambda c: self._first_free_id(c, 1))

    @property
    def domains(self) -> dict[str, int]:
        count = sql.SQL("SELECT domain, count(*) FROM {} GROUP BY domain").format(self._table)
        rows = self._session.read(self._table, lambda c: c.execute(count).fetchall())
        counts = {domain or "": n for domain, n in rows}
        return {name: counts[name] for name in sorted(counts)}

    def _add(self, batch: Batch, *, numbered: bool) -> None:
        def work(connection: Connection) -> None:
            chosen = batch
            if numbered:  # no other client may take these ids meanwhile
                lock = sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE")
                connection.execute(lock.format(self._table))
                first = self._first_free_id(connection, len(batch.ids))
                chosen = batch._replace(ids=batch.ids + first)
            try:
                _copy(connection, self._table, chosen, self.n_bits)
            except errors.UniqueViolation as error:  # it names the lowest id that exists
                known = re.search(r"=\((.*)\)", error.diag.message_detail or "", re.DOTALL)
                raise id_exists(known[1] if known else "?") from error

        self._session.write(work)

    def _upsert(self, batch: Batch) -> None:
        layout = sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(
            _NEW, _layout(self.n_bits, self.id_kind, corrections=self.has_corrections)
        )
        names = ["code", "domain", "tags", *(CORRECTIONS if self.has_corrections else ())]
        replace = sql.SQL(_REPLACE).format(
            table=self._table,
            new=_NEW,
            columns=_listed(names),
            given=_listed(names, "excluded."),
            known=_listed(names, "old."),
        )

        def work(connection: Connection) -> None:
            connection.execute(layout)
            _copy(connection, _NEW, batch, self.n_bits)
            connection.execute(replace)

        self._session.write(work)

    def _remove(self, ids: Ids) -> int:
        wanted = ids.tolist()
        # All clients lock rows in the order of their ids: so they do not wait for each other.
        lock = sql.SQL("SELECT id FROM {} WHERE id = ANY(%s) ORDER BY id FOR UPDATE")
        delete = sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self._table)

        def work(connection: Connection) -> int:
            locked = connection.execute(lock.format(self._table), [wanted]).fetchall()
            return connection.execute(delete, [[id_ for (id_,) in locked]]).rowcount

        return self._session.write(work)

    def _search(
        self,
        packed: NDArray[np.uint8],
        k: int,
        wanted: ItemFilter,
        nothing: tuple[NDArray[np.int32], Ids],
    ) -> tuple[NDArray[np.int32], Ids]:
        statement = self._statement(wanted)

        def work(connection: Connection) -> tuple[NDArray[np.int32], Ids]:
            distances, ids = (array.copy() for array in nothing)
            for at, (near, D) in self._ask(connection, statement, packed, k, wanted):
                ranks = np.arange(len(at)) - np.searchsorted(at, at)
                distances[at, ranks] = np.array(D, np.int64)
                ids[at, ranks] = parse_ids(near)
            return distances, ids

        return self._session.read(self._table, work)

    def _rank(
        self, packed: NDArray[np.uint8], depth: int, wanted: ItemFilter, ranking: Ranking
    ) -> None:
        extra = ("code", *(CORRECTIONS if self.has_corrections else ()))
        statement = self._statement(wanted, extra)

        def work(connection: Connection) -> None:
            missing = None
            ranking.clear()
            for at, (near, D, codes, *numbers) in self._ask(
                connection, statement, packed, depth, wanted
            ):
                corrections = self._corrections(numbers) if numbers else None
                if missing is None and corrections is not None and np.isnan(corrections).any():
                    missing = self._means(connection, wanted)
                found = Candidates(
                    np.array(D, np.int64),
                    parse_ids(near),
                    np.frombuffer(b"".join(codes), np.uint8).reshape(len(at), -1)[:, 4:],
                    corrections,
                    NO_CORRECTIONS if missing is None else missing,
                )
                for query in np.unique(at).tolist():
                    ranking.put(query, found.rows(slice(*np.searchsorted(at, [query, query + 1]))))

        self._session.read(self._table, work)

    def _ask(
        self,
        connection: Connection,
        statement: sql.Composed,
        packed: NDArray[np.uint8],
        k: int,
        wanted: ItemFilter,
    ) -> Iterator[tuple[NDArray[np.int64], list[list[Any]]]]:
        """Yield numbers of queries, increasing, and the columns of their nearest codes."""
        bits: Any = np.unpackbits(packed, axis=1, count=self.n_bits)
        queries = [row.tobytes().decode("ascii") for row in bits + ord("0")]
        step = max(1, min(_QUERIES, _RESULTS // k))
        self._configure(connection, k)
        for start in range(0, len(queries), step):
            values = {"queries": queries[start : start + step], "k": k, **_values(wanted)}
            rows = connection.execute(statement, values, prepare=False, binary=True).fetchall()
            if rows:
                places, *columns = (list(column) for column in zip(*rows, strict=True))
                yield start + np.array(places, np.int64) - 1, columns

    def _corrections(self, numbers: list[list[float | None]]) -> NDArray[np.float16]:
        """Return corrections of codes from their two columns; NaN where a number is null."""
        pairs = np.array(numbers, np.float32).T
        pairs[np.isnan(pairs).any(axis=1)] = np.nan
        with np.errstate(over="ignore"):
            halves = pairs.astype(np.float16)
        if not valid_corrections(halves):
            raise EngineError(
                f"{self.place}: table {self.name} has a score_offset or score_slope that is not "
                "finite as float16, or a negative score_slope; set both to null there"
            )
        return halves

    def _means(self, connection: Connection, wanted: ItemFilter) -> NDArray[np.float32]:
        """Return offset and slope of codes that have none: the means of the others."""
        statement = sql.SQL(_MEANS).format(table=self._table, where=_where(wanted))
        row = connection.execute(statement, _values(wanted)).fetchone()
        assert row is not None
        return NO_CORRECTIONS if row[0] is None else np.array(row, np.float64).astype(np.float32)

    def finish(self) -> None:
        """Build the indexes of the table; call it after the first bulk load."""
        self._session.write(lambda c: _create_indexes(c, self.name, self.search_mode))

    def drop(self) -> None:
        self._session.write(lambda c: _make_way(c, self.name, self.place, replace=True))

    def _number(self, connection: Connection, expression: str) -> int:
        statement = sql.SQL("SELECT {} FROM {}").format(sql.SQL(expression), self._table)
        row = connection.execute(statement).fetchone()
        assert row is not None
        return int(row[0])

    def _first_free_id(self, connection: Connection, n: int) -> int:
        """Return the first of n consecutive free ids."""
        highest = self._number(connection, "coalesce(greatest(max(id), -1), -1)")
        if highest + n < IDS_END:
            return highest + 1
        gap = sql.SQL(_GAP).format(table=self._table)
        row = connection.execute(gap, {"n": n, "end": IDS_END}).fetchone()
        if row is None:
            raise InputError(f"no {n} consecutive ids below 2**53 are free; give ids", "ids")
        return int(row[0])

    def _statement(self, wanted: ItemFilter, extra: Sequence[str] = ()) -> sql.Composed:
        """Return the search for codes, with columns besides id and distance."""
        results = ["bit_send(near.code)" if name == "code" else f"near.{name}" for name in extra]
        return sql.SQL(_NEAREST).format(
            bits=sql.Literal(self.n_bits),
            table=self._table,
            where=_where(wanted),
            # Text is ordered by code points, whatever the collation of the column is.
            key=sql.SQL("id" if self.id_kind == "numbers" else 'id COLLATE "C"'),
            columns=sql.SQL("".join(f", t.{name}" for name in extra)),
            results=sql.SQL("".join(f", {result}" for result in results)),
        )

    def _configure(self, connection: Connection, k: int) -> None:
        """Let this transaction scan all rows, or use the HNSW index."""
        settings = {"jit": "off"}
        if self.search_mode == "exact":
            settings["enable_indexscan"] = "off"
        else:
            settings["enable_seqscan"] = "off"  # choose between HNSW and the index of tags
            settings["hnsw.ef_search"] = str(min(_EF_MOST, max(self.ef_search, 2 * k)))
            settings["hnsw.iterative_scan"] = "strict_order"
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _where(wanted: ItemFilter) -> sql.Composable:
    """Return the condition of a filter on the table t; `_values` has its values."""
    rules = [] if wanted.domain is None else [sql.SQL("t.domain = %(domain)s")]
    if wanted.tags is not None:
        every, untagged = wanted.match == "all", "" in wanted.tags
        overlap = "t.tags @> %(tags)s::text[]" if every else "t.tags && %(tags)s::text[]"
        parts = [overlap] if any(wanted.tags) else []
        parts += ["t.tags = '{{}}'"] if untagged else []
        rules.append(sql.SQL("({})".format((" AND " if every else " OR ").join(parts))))
    return sql.SQL("WHERE ") + sql.SQL(" AND ").join(rules) if rules else sql.SQL("")


def _values(wanted: ItemFilter) -> dict[str, Any]:
    return {"tags": [tag for tag in wanted.tags or () if tag], "domain": wanted.domain}


def _was_committed(connection: Connection, number: str) -> bool:
    row = connection.execute("SELECT pg_xact_status(%s::xid8)", [number]).fetchone()
    if row == ("in progress",):  # the server has not yet noticed the lost connection
        raise ConnectionLost("the transaction is still open on the server")
    return row == ("committed",)


def _reason(error: psycopg.Error) -> str:
    """Return the first line of the message of the server or the driver."""
    text = (error.diag.message_primary or str(error)).strip()
    return text.splitlines()[0].strip() if text else type(error).__name__


def _create_extension(session: PostgresSession) -> None:
    """Add pgvector to the database unless it is there."""
    statement = sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(EXTENSION))

    def work(connection: Connection) -> None:
        known = connection.execute("SELECT FROM pg_extension WHERE extname = %s", [EXTENSION])
        if known.fetchone() is not None:
            return
        try:
            with connection.transaction():  # a savepoint
                connection.execute(statement)
        except errors.UniqueViolation:
            pass  # another client has just created it
        except errors.InsufficientPrivilege as error:
            raise EngineError(
                f"{session.place}: this user may not add pgvector to the database; ask its owner "
                f"to run CREATE EXTENSION {EXTENSION}"
            ) from error
        except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise EngineError(
                f"{session.place}: pgvector is not installed on the server; install it there first"
            ) from error

    session.write(work)


def _create_table(connection: Connection, name: str, info: IndexInfo) -> None:
    table = sql.Identifier(name)
    columns = _layout(info.n_bits, info.ids, corrections=info.corrections)
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table, columns))
    text = json.dumps({_MARK: 2, "search": info.search, "about": info.about})
    comment = sql.SQL("COMMENT ON TABLE {} IS {}").format(table, sql.Literal(text))
    connection.execute(comment)


def _layout(n_bits: int, kind: str, *, corrections: bool) -> sql.Composed:
    """Return the columns of a table of codes."""
    layout = (
        "id {} PRIMARY KEY, code bit({}) NOT NULL, domain text NOT NULL DEFAULT '', "
        "tags text[] NOT NULL DEFAULT '{{}}'"
    )
    layout += "".join(f", {name} real" for name in CORRECTIONS if corrections)
    key = sql.SQL("bigint" if kind == "numbers" else 'text COLLATE "C"')
    return sql.SQL(layout).format(key, sql.Literal(n_bits))


def _listed(names: Sequence[str], table: str = "") -> sql.SQL:
    """Return names of columns, separated by commas."""
    return sql.SQL(", ".join(table + name for name in names))


def _create_indexes(connection: Connection, name: str, search: str) -> None:
    """Build those indexes of a table that it does not have."""
    table = sql.Identifier(name)
    if search == "approximate" and not _has_index(connection, name, "code"):
        build = sql.SQL("CREATE INDEX ON {} USING hnsw (code bit_hamming_ops)")
        connection.execute(build.format(table))
    if not _has_index(connection, name, "tags"):
        connection.execute(sql.SQL("CREATE INDEX ON {} USING gin (tags)").format(table))
    connection.execute(sql.SQL("ANALYZE {}").format(table))


def _has_index(connection: Connection, name: str, column: str) -> bool:
    """Return whether the table has an index that begins with this column."""
    rows = connection.execute(
        "SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "WHERE i.indrelid = to_regclass(quote_ident(%s)) AND i.indkey[0] = a.attnum "
        "AND a.attname = %s",
        [name, column],
    )
    return rows.fetchone() is not None


def _rename_table(connection: Connection, old: str, new: str) -> None:
    """Rename a table, and its indexes and constraints that are named after it."""
    table = sql.Identifier(new)
    rename = sql.SQL("ALTER TABLE {} RENAME TO {}").format(sql.Identifier(old), table)
    connection.execute(rename)
    for kind, name in connection.execute(_PARTS, {"table": new}).fetchall():
        ending = name.removeprefix(old)
        if ending == name:
            continue
        for number in ("", *range(1, 100)):  # as PostgreSQL does if a name is taken
            wanted = f"{new[: _NAME_BYTES - len(f'{ending}{number}')]}{ending}{number}"
            statement = sql.SQL(
                "ALTER INDEX {name} RENAME TO {wanted}"
                if kind == "index"
                else "ALTER TABLE {table} RENAME CONSTRAINT {name} TO {wanted}"
            ).format(table=table, name=sql.Identifier(name), wanted=sql.Identifier(wanted))
            try:
                with connection.transaction():  # a savepoint
                    connection.execute(statement)
                break
            except (errors.DuplicateTable, errors.DuplicateObject, errors.UniqueViolation):
                continue


def _describe_table(connection: Connection, name: str, place: str) -> IndexInfo | None:
    """Return the properties of a table, or None if there is none of this name."""
    row = connection.execute(_LAYOUT, [name]).fetchone()
    if row is None:
        return None
    comment, columns, unique = row
    length = re.fullmatch(r"bit\((\d+)\)", (columns or {}).get("code", ""))
    kinds: dict[str, IdKind] = {"bigint": "numbers", "text": "text"}
    kind = kinds.get((columns or {}).get("id", ""))
    rest = {"domain": "text", "tags": "text[]"}
    if not (length and unique and kind and rest.items() <= columns.items()):
        raise _holds_no_codes(place, name)
    if int(length[1]) > MAX_BITS:
        raise EngineError(
            f"{place}: table {name} holds codes of {length[1]} bits; at most {MAX_BITS} are allowed"
        )
    try:
        content = json.loads(comment or "{}")
    except ValueError:
        content = {}
    ours = isinstance(content, dict) and _MARK in content
    has = all(columns.get(column) == "real" for column in CORRECTIONS)
    if not ours:
        return IndexInfo(int(length[1]), ids=kind, ours=False, corrections=has)
    return IndexInfo(int(length[1]), content["search"], content["about"], kind, corrections=has)


def _holds_no_codes(place: str, name: str) -> EngineError:
    return EngineError(
        f"{place}: table {name} holds no codes: it needs the columns id bigint or text (unique), "
        "code bit(n), domain text and tags text[]; choose another name"
    )


def _make_way(connection: Connection, name: str, place: str, *, replace: bool) -> None:
    """Reserve a name until the end of the transaction.

    Drops a table of this name if `replace` allows it and bridgehash created it. It is used by
    others until the transaction is committed.
    """
    # If the client disappears now, others must not wait for its locks until TCP gives up.
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = '30s'")
    lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
    connection.execute(lock, [f"{_MARK} {name}"])
    table = _describe_table(connection, name, place)
    if table is None:
        return
    if not replace:
        raise EngineError(f"{place}: table {name} exists; replace it or choose another name")
    old = sql.Identifier(name)
    if table.ours:  # and still ours when nobody else can exchange it
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(old))
        table = _describe_table(connection, name, place)
    if table is None or not table.ours:
        raise EngineError(
            f"{place}: table {name} was not created by bridgehash and is not dropped; choose "
            "another name or drop it yourself"
        )
    connection.execute(sql.SQL("DROP TABLE {}").format(old))


def _copy(
    connection: Connection,
    table: sql.Identifier,
    batch: Batch,
    n_bits: int,
    reach: Reach = lambda done, total: None,
) -> None:
    """Send a batch with COPY, in PostgreSQL's binary format."""
    names = ["id", "code", *(() if batch.corrections is None else CORRECTIONS), "domain", "tags"]
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, _listed(names))
    with connection.cursor().copy(statement) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8))
        n = len(batch.ids)
        for start in range(0, n, _ROWS):
            part = batch.rows(slice(start, start + _ROWS))
            copy.write(b"".join(_binary_rows(part, n_bits)))
            reach(min(start + _ROWS, n), n)
        copy.write(b"\xff\xff")


def _binary_rows(batch: Batch, n_bits: int) -> Iterator[bytes]:
    """Yield rows of four fields, or six with corrections, each after its length."""
    n, n_bytes = batch.codes.shape
    n_fields = 4 if batch.corrections is None else 6
    entries, numbers = batch.attributes or ([Attributes()], np.zeros(n, np.intp))
    tails = [_text_field(entry.domain) + _array_field(entry.tags) for entry in entries]
    codes: Any = np.empty(n, [("size", ">i4"), ("n_bits", ">i4"), ("code", "u1", (n_bytes,))])
    codes["size"], codes["n_bits"], codes["code"] = 4 + n_bytes, n_bits, batch.codes
    missing: Any = np.zeros(n, bool)
    if batch.corrections is not None:
        codes = _with_corrections(codes, batch.corrections)
        missing = np.isnan(batch.corrections[:, 0])
    if kind_of(batch.ids) == "numbers":
        heads: Any = np.empty(n, [("n_fields", ">i2"), ("size", ">i4"), ("id", ">i8")])
        heads["n_fields"], heads["size"], heads["id"] = n_fields, 8, batch.ids
        if len(tails) == 1 and not missing.any():  # rows of one width
            parts = (heads, codes, np.frombuffer(tails[0] * n, np.uint8))
            yield np.hstack([part.view(np.uint8).reshape(n, -1) for part in parts]).tobytes()
            return
        first = [bytes(head) for head in heads.view((np.void, heads.itemsize)).tolist()]
    else:
        first = [_HEAD.pack(n_fields) + _text_field(text) for text in batch.ids.tolist()]
    rows = codes.view((np.void, codes.itemsize)).tolist()
    for head, code, number, none in zip(
        first, rows, numbers.tolist(), missing.tolist(), strict=True
    ):
        yield head
        yield code[: 8 + n_bytes] + _NULLS if none else code
        yield tails[number]


def _with_corrections(codes: Any, corrections: NDArray[np.float16]) -> Any:
    """Return fields of codes, followed by the fields of their corrections."""
    fields: Any = np.empty(
        len(codes),
        [
            ("code", codes.dtype),
            ("offset_size", ">i4"),
            ("offset", ">f4"),
            ("slope_size", ">i4"),
            ("slope", ">f4"),
        ],
    )
    fields["code"], fields["offset_size"], fields["slope_size"] = codes, 4, 4
    fields["offset"], fields["slope"] = corrections.T
    return fields


_HEAD = struct.Struct(">h")  # number of fields
_FIELD = struct.Struct(">i")  # length
_NULLS = 2 * _FIELD.pack(-1)  # instead of two fields
_ARRAY = struct.Struct(">iii")  # dimensions, whether there are nulls, type of the elements
_TEXT_TYPE = 25


def _text_field(text: str) -> bytes:
    data = text.encode()
    return _FIELD.pack(len(data)) + data


def _array_field(texts: tuple[str, ...]) -> bytes:
    data = _ARRAY.pack(1 if texts else 0, 0, _TEXT_TYPE)
    if texts:
        data += _FIELD.pack(len(texts)) + _FIELD.pack(1) + b"".join(map(_text_field, texts))
    return _FIELD.pack(len(data)) + data
