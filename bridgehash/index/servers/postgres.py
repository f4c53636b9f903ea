"""Transactions with PostgreSQL that survive a dropped connection.

A commit whose answer is lost leaves it open whether it took place. So every transaction that
writes asks for its own number first, and after a new connection the server tells what became of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.errors import EngineError
from ..batch import Batch, Ids, check_k, check_length, packed_codes
from .base import Dropped, ServerIndex, can_keep, check_name, connect_first, parsed, retried

try:
    import psycopg
    from psycopg import errors as errors
    from psycopg import sql as sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise ImportError("PostgreSQL needs psycopg; pip install 'bridgehash[postgres]'") from error

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
_TIMEOUT = 10  # seconds for a connection, unless the URL says otherwise
_SHUT_DOWN = ("57P01", "57P02", "57P03", "08")  # how the codes of a connection's end begin


class Session:
    """One connection, made again when it drops; operations of several threads take turns."""

    def __init__(self, url: str) -> None:
        self.place = parsed(url).shown
        self._options = _options(url, self.place)
        self._lock = RLock()
        self._connection: Connection | None = None
        connect_first(self._connected, self.place)

    def read(self, work: Callable[[Connection], T]) -> T:
        """The outcome of `work`, which sees the database as it is when it begins."""

        def attempt() -> T:
            with self._connected().transaction():
                assert self._connection is not None
                self._connection.execute(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
                )
                return work(self._connection)

        return self._done(attempt)

    def write(self, work: Callable[[Connection], T]) -> T:
        """The outcome of `work`, all or nothing, and never twice."""
        in_doubt: tuple[str, T] | None = None  # a transaction whose commit was sent

        def attempt() -> T:
            nonlocal in_doubt
            connection = self._connected()
            if in_doubt is not None:
                if _took_place(connection, in_doubt[0]):
                    return in_doubt[1]
                in_doubt = None
            with connection.transaction():
                row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
                assert row is not None
                outcome = work(connection)
                in_doubt = row[0], outcome
            return outcome

        return self._done(attempt)

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """End the connection if what follows fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _done(self, attempt: Callable[[], T]) -> T:
        def translated() -> T:
            try:
                return attempt()
            except psycopg.Error as error:
                if self._is_lost(error):
                    raise Dropped(_reason(error)) from error
                raise EngineError(f"{self.place}: {_reason(error)}") from error

        with self._lock:
            return retried(translated, self.place)

    def _is_lost(self, error: psycopg.Error) -> bool:
        broken = self._connection is None or self._connection.closed
        return broken or (error.sqlstate or "").startswith(_SHUT_DOWN)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(**self._options, autocommit=True)
            except psycopg.Error as error:
                raise Dropped(_reason(error)) from error
        return self._connection


def _options(url: str, place: str) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise EngineError(f"{place}: the URL cannot be read; check its port and options") from error
    return {"connect_timeout": _TIMEOUT, "application_name": "bridgehash"} | given


def _took_place(connection: Connection, number: str) -> bool:
    row = connection.execute("SELECT pg_xact_status(%s::xid8)", [number]).fetchone()
    if row == ("in progress",):  # the server has not yet noticed that its client is gone
        raise Dropped("the transaction is still open on the server")
    return row == ("committed",)


def _reason(error: psycopg.Error) -> str:
    """The first sentence of what the server or the driver says."""
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


EXTENSION = "vector"
_ROWS = 20_000  # sent in one piece
_MARK = "bridgehash"  # a key of the comment: the table is one of ours

Kind = Literal["exact", "hnsw"]

_LAYOUT = """
SELECT obj_description(t.oid, 'pg_class'),
    (SELECT json_object_agg(attname, format_type(atttypid, atttypmod)) FROM pg_attribute
        WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped),
    EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'id'
        WHERE i.indrelid = t.oid AND i.indisunique AND i.indnkeyatts = 1
        AND i.indkey[0] = a.attnum AND i.indpred IS NULL)
FROM pg_class t WHERE t.oid = to_regclass(quote_ident(%s))
"""


class Table(NamedTuple):
    """What is known of a table of codes."""

    n_bits: int
    kind: Kind
    about: dict[str, str]
    ours: bool  # made by `make_table`


def need_extension(connection: Connection, place: str, *, make: bool) -> None:
    """See to it that the database has pgvector."""
    known = connection.execute("SELECT FROM pg_extension WHERE extname = %s", [EXTENSION])
    if known.fetchone() is not None:
        return
    if not make:
        raise EngineError(f"{place}: the database has no pgvector, so no index; build one first")
    try:
        connection.execute(
            sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(EXTENSION))
        )
    except errors.InsufficientPrivilege as error:
        raise EngineError(
            f"{place}: this user may not add pgvector to the database; have its owner run "
            f"CREATE EXTENSION {EXTENSION}"
        ) from error
    except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
        raise EngineError(
            f"{place}: pgvector is not installed on the server; install it there first"
        ) from error


def make_table(
    connection: Connection, name: str, n_bits: int, kind: Kind, about: dict[str, str]
) -> None:
    """An empty table with a comment that tells what it holds."""
    table = sql.Identifier(name)
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} (id bigint PRIMARY KEY, code bit({}) NOT NULL, "
            "tag text NOT NULL DEFAULT '')"
        ).format(table, sql.Literal(n_bits))
    )
    comment = json.dumps({_MARK: 1, "kind": kind, "about": about})
    connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, sql.Literal(comment)))


def described(connection: Connection, name: str, place: str) -> Table | None:
    """What a table holds, if it is there; one of another layout is refused."""
    row = connection.execute(_LAYOUT, [name]).fetchone()
    if row is None:
        return None
    comment, columns, unique = row
    length = re.fullmatch(r"bit\((\d+)\)", (columns or {}).get("code", ""))
    if not (length and unique and columns.get("id") == "bigint" and columns.get("tag") == "text"):
        raise EngineError(
            f"{place}: table {name} holds no codes: it needs the columns id bigint (unique), "
            "code bit(n) and tag text; choose another name"
        )
    told = _told(comment)
    return Table(int(length[1]), told.get("kind", "exact"), told.get("about", {}), _MARK in told)


def make_room(connection: Connection, name: str, place: str, *, replace: bool) -> None:
    """See to it that there is no table of this name; never drop one that is somebody else's."""
    table = described(connection, name, place)
    if table is None:
        return
    if not replace:
        raise EngineError(f"{place}: table {name} is there already; replace it or name another")
    if not table.ours:
        raise EngineError(
            f"{place}: table {name} was not made by bridgehash and is left alone; choose another "
            "name or drop it yourself"
        )
    connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))


def has_index(connection: Connection, name: str, column: str) -> bool:
    """Is there an index that begins with this column?"""
    found = connection.execute(
        "SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "WHERE i.indrelid = to_regclass(quote_ident(%s)) AND i.indkey[0] = a.attnum "
        "AND a.attname = %s",
        [name, column],
    )
    return found.fetchone() is not None


def copy_in(connection: Connection, table: sql.Identifier, batch: Batch, n_bits: int) -> None:
    """Send a batch by COPY, in PostgreSQL's binary form."""
    statement = sql.SQL("COPY {} (id, code, tag) FROM STDIN (FORMAT binary)").format(table)
    with connection.cursor().copy(statement) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8))
        for start in range(0, len(batch.ids), _ROWS):
            copy.write(b"".join(_rows(batch, slice(start, start + _ROWS), n_bits)))
        copy.write(b"\xff\xff")


def _rows(batch: Batch, rows: slice, n_bits: int) -> Iterator[bytes]:
    """Rows of three fields, each with its length before it."""
    codes, ids = batch.codes[rows], batch.ids[rows]
    n_bytes = codes.shape[1]
    fixed: Any = np.empty(
        len(ids),
        dtype=[
            ("n_fields", ">i2"),
            ("id_size", ">i4"),
            ("id", ">i8"),
            ("code_size", ">i4"),
            ("n_bits", ">i4"),
            ("code", "u1", (n_bytes,)),
            ("tag_size", ">i4"),
        ],
    )
    fixed["n_fields"], fixed["id_size"], fixed["id"] = 3, 8, ids
    fixed["code_size"], fixed["n_bits"], fixed["code"] = 4 + n_bytes, n_bits, codes
    if batch.tags is None:
        fixed["tag_size"] = 0
        yield fixed.tobytes()
        return
    tags = [tag.encode() for tag in batch.tags[rows]]
    fixed["tag_size"] = [len(tag) for tag in tags]
    data, width = fixed.tobytes(), fixed.itemsize
    for i, tag in enumerate(tags):
        yield data[i * width : (i + 1) * width]
        yield tag


def _told(comment: str | None) -> dict[str, Any]:
    try:
        told = json.loads(comment or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) and _MARK in told else {}


_QUERIES = 256  # asked in one round trip, fewer for a large k
_FOUND = 100_000  # rows that come back from one
_EF_MOST = 1000  # pgvector's own limit
_NEW = sql.Identifier("pg_temp", "bridgehash_new")

_NEAREST = """
SELECT q.place, near.id, near.distance
FROM unnest(%(queries)s::bit({bits})[]) WITH ORDINALITY AS q (code, place)
CROSS JOIN LATERAL (
    SELECT t.id, t.code <~> q.code AS distance FROM {table} t {where}
    ORDER BY t.code <~> q.code, t.id LIMIT %(k)s
) near
ORDER BY q.place, near.distance, near.id
"""
_REPLACE = """
INSERT INTO {table} AS old (id, code, tag) SELECT id, code, tag FROM {new} ORDER BY id
ON CONFLICT (id) DO UPDATE SET code = excluded.code, tag = excluded.tag
WHERE (old.code, old.tag) IS DISTINCT FROM (excluded.code, excluded.tag)
"""


class PostgresIndex(ServerIndex):
    """Codes in a table; `create` makes it, `open` finds it again.

    Every operation is one transaction. One that meets a dropped connection is done again on a new
    one, and never twice.

    Parameters
    ----------
    session : Session
        The connection.
    name : str
        Of the table.
    table : Table
        Its bits, its kind, and what was told of the codes when it was made.
    ef_search : int, default=200
        Candidates that a search by HNSW keeps, up to 1,000: more find more and take longer.
    """

    tag_bytes = 1 << 16

    def __init__(self, session: Session, name: str, table: Table, ef_search: int = 200) -> None:
        self.name = name
        self.place = session.place
        self.n_bits = table.n_bits
        self.kind = table.kind
        self.about = table.about
        self.ef_search = ef_search
        self._session = session
        self._table = sql.Identifier(name)

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
    ) -> Self:
        """Make an empty table, in place of an index of this name if wanted.

        With kind="hnsw" a search is approximate, once `finish` has made the index for it.
        """
        if kind not in ("exact", "hnsw"):
            raise ValueError(f"kind={kind!r}: give 'exact' or 'hnsw'")
        table = Table(check_length(n_bits), kind, dict(about or {}), True)
        session = Session(url)

        def work(connection: Connection) -> None:
            need_extension(connection, session.place, make=True)
            make_room(connection, check_name(name), session.place, replace=replace)
            make_table(connection, name, n_bits, kind, table.about)

        with session.closed_on_failure():
            session.write(work)
        return cls(session, name, table)

    @classmethod
    def exists(cls, url: str, name: str) -> bool:
        """Is there a table of this name? One that holds something else is refused."""
        session = Session(url)
        try:
            return session.read(lambda c: described(c, check_name(name), session.place)) is not None
        finally:
            session.close()

    @classmethod
    def open(cls, url: str, name: str, *, kind: Kind | None = None) -> Self:
        """The table of a name; searched as it was made to be, unless `kind` says otherwise."""
        session = Session(url)

        def work(connection: Connection) -> Table:
            need_extension(connection, session.place, make=False)
            table = described(connection, check_name(name), session.place)
            if table is None:
                raise EngineError(
                    f"{session.place}: there is no table {name}; build it, or check the name"
                )
            return table

        with session.closed_on_failure():
            table = session.read(work)
        return cls(session, name, table._replace(kind=kind or table.kind))

    def __len__(self) -> int:
        return self._session.read(lambda connection: self._number(connection, "count(*)"))

    def next_id(self) -> int:
        """The id that a code without one would get."""
        return self._session.read(self._next_id)

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, tags: ArrayLike | None = None
    ) -> Self:
        """Add packed codes, each with a tag if one likes; an id that is there is refused."""
        batch = self._checked(codes, ids, tags)

        def work(connection: Connection) -> None:
            first = 0
            if ids is None:  # nobody else may take these ids meanwhile
                lock = sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE")
                connection.execute(lock.format(self._table))
                first = self._next_id(connection)
            try:
                moved = batch._replace(ids=batch.ids + first)
                copy_in(connection, self._table, moved, self.n_bits)
            except errors.UniqueViolation as error:  # of the first id, as they go in by order
                taken = re.search(r"\d+", (error.diag.message_detail or "").partition("=")[2])
                raise ValueError(
                    f"id {taken[0] if taken else '?'} is in the index already; use upsert to "
                    "replace it"
                ) from error

        self._session.write(work)
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        """Add packed codes, in place of those that have their ids."""
        batch = self._checked(codes, ids, tags)
        layout = sql.SQL(
            "CREATE TEMPORARY TABLE {} (id bigint, code bit({}), tag text) ON COMMIT DROP"
        ).format(_NEW, sql.Literal(self.n_bits))

        def work(connection: Connection) -> None:
            connection.execute(layout)
            copy_in(connection, _NEW, batch, self.n_bits)
            connection.execute(sql.SQL(_REPLACE).format(table=self._table, new=_NEW))

        self._session.write(work)
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Forget codes by their ids; how many of them were there."""
        wanted = np.asarray(ids, dtype=np.int64).tolist()
        statement = sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self._table)
        return self._session.write(lambda c: c.execute(statement, [wanted]).rowcount)

    def close(self) -> None:
        """End the connection."""
        self._session.close()

    def search(
        self, codes: ArrayLike, k: int = 10, *, tag: str | None = None
    ) -> tuple[NDArray[np.int32], Ids]:
        """Distances and ids of the k nearest codes of each query, shape (n_queries, k).

        They are ordered by (distance, id). Fewer codes than k: the rest has distance n_bits + 1
        and id -1. With `tag` only the codes of this tag are looked at.
        """
        queries = _bit_strings(packed_codes(codes, self.n_bits), self.n_bits)
        statement = self._statement(tag)
        step = max(1, min(_QUERIES, _FOUND // check_k(k)))
        distances = np.full((len(queries), k), self.n_bits + 1, np.int32)
        found = np.full((len(queries), k), -1, np.int64)

        def work(connection: Connection) -> None:
            self._set_up(connection, k)
            distances[:], found[:] = self.n_bits + 1, -1  # a second try may find less
            for start in range(0, len(queries), step):
                values = {"queries": queries[start : start + step], "k": k, "tag": tag}
                rows = connection.execute(statement, values, prepare=False, binary=True).fetchall()
                places, ids, near = np.array(rows, np.int64).reshape(-1, 3).T
                ranks = np.arange(len(places)) - np.searchsorted(places, places)
                distances[start + places - 1, ranks] = near
                found[start + places - 1, ranks] = ids

        if tag is None or can_keep(tag, self.tag_bytes):
            self._session.read(work)
        return distances, found

    def finish(self) -> None:
        """Make the indexes that a search profits from; call it after the first bulk load."""

        def work(connection: Connection) -> None:
            if self.kind == "hnsw" and not has_index(connection, self.name, "code"):
                make = sql.SQL("CREATE INDEX ON {} USING hnsw (code bit_hamming_ops)")
                connection.execute(make.format(self._table))
            if not has_index(connection, self.name, "tag"):
                make = sql.SQL("CREATE INDEX ON {} (tag) WHERE tag <> ''")
                connection.execute(make.format(self._table))
            connection.execute(sql.SQL("ANALYZE {}").format(self._table))

        self._session.write(work)

    def rename(self, name: str, *, replace: bool = False) -> None:
        """Give the table another name, at once in place of an index of that name if wanted."""
        place, new = self._session.place, sql.Identifier(check_name(name))

        def work(connection: Connection) -> None:
            make_room(connection, name, place, replace=replace)
            connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(self._table, new))

        self._session.write(work)
        self.name, self._table = name, new

    def drop(self) -> None:
        """Remove the table and all codes in it."""
        name, place = self.name, self._session.place
        self._session.write(lambda c: make_room(c, name, place, replace=True))

    def _number(self, connection: Connection, expression: str) -> int:
        statement = sql.SQL("SELECT {} FROM {}").format(sql.SQL(expression), self._table)
        row = connection.execute(statement).fetchone()
        assert row is not None
        return int(row[0])

    def _next_id(self, connection: Connection) -> int:
        return self._number(connection, "coalesce(max(id), -1) + 1")

    def _statement(self, tag: str | None) -> sql.Composed:
        where = sql.SQL("" if tag is None else "WHERE t.tag = %(tag)s")
        bits = sql.Literal(self.n_bits)
        return sql.SQL(_NEAREST).format(bits=bits, table=self._table, where=where)

    def _set_up(self, connection: Connection, k: int) -> None:
        """How this transaction searches: over all rows, or along HNSW."""
        settings = {"jit": "off"}
        if self.kind == "exact":
            settings["enable_indexscan"] = "off"
        else:
            settings["enable_seqscan"] = "off"  # for the choice between HNSW and the tags' index
            settings["hnsw.ef_search"] = str(min(_EF_MOST, max(self.ef_search, 2 * k)))
            settings["hnsw.iterative_scan"] = "strict_order"
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _bit_strings(codes: NDArray[np.uint8], n_bits: int) -> list[str]:
    bits: Any = np.unpackbits(codes, axis=1, count=n_bits) + ord("0")
    return [row.tobytes().decode("ascii") for row in bits]
