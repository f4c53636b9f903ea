"""Tables of codes in PostgreSQL: how one is made, told apart from others, and filled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from ..index.batch import Batch
from .base import EngineError
from .postgres_session import Connection, errors, sql

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
