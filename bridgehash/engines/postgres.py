"""`PostgresIndex`: codes in a table of PostgreSQL, searched by pgvector.

The table has the columns id (bigint, the primary key), code (bit of the true length, the first bit
first) and tag (text). What the codes come from is kept as JSON in the table's comment.
"""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..index.batch import Ids, check_k, check_length, packed_codes
from .base import EngineError, ServerIndex, can_keep, check_name
from .postgres_session import Connection, Session, errors, sql
from .postgres_tables import (
    Kind,
    Table,
    copy_in,
    described,
    has_index,
    make_room,
    make_table,
    need_extension,
)

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
