"""Which engine a URL means; its driver is loaded when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._core.errors import EngineError
from .base import POSTGRES, EngineIndex, parsed

if TYPE_CHECKING:
    from .milvus import MilvusIndex
    from .postgres import PostgresIndex


def create_index(
    url: str,
    name: str,
    n_bits: int,
    *,
    approximate: bool = False,
    about: dict[str, str] | None = None,
    replace: bool = False,
) -> EngineIndex:
    """A new, empty table or collection on the server of a URL.

    Parameters
    ----------
    url : str
        `postgresql://user:password@host:port/database` or
        `milvus://user:password@host:port/database`.
    name : str
        Of the table or collection.
    n_bits : int
        Length of the codes, 1 to 1,024.
    approximate : bool, default=False
        Search by HNSW in PostgreSQL, by BIN_IVF_FLAT in Milvus.
    about : dict of str, optional
        What is to be known of the codes later; kept with them.
    replace : bool, default=False
        Drop an index of this name first.
    """
    if parsed(url).scheme in POSTGRES:
        return _postgres().create(
            url,
            name,
            n_bits,
            kind="hnsw" if approximate else "exact",
            about=about,
            replace=replace,
        )
    return _milvus().create(
        url, name, n_bits, kind="ivf" if approximate else "exact", about=about, replace=replace
    )


def open_index(url: str, name: str, *, exact: bool = False) -> EngineIndex:
    """The table or collection of a name; searched as it was made to be, or exactly."""
    if parsed(url).scheme in POSTGRES:
        return _postgres().open(url, name, kind="exact" if exact else None)
    return _milvus().open(url, name, kind="exact" if exact else None)


def index_exists(url: str, name: str) -> bool:
    """Is there a table or collection of this name? One that holds something else is refused."""
    kind = _postgres() if parsed(url).scheme in POSTGRES else _milvus()
    return kind.exists(url, name)


def _postgres() -> type[PostgresIndex]:
    try:
        from .postgres import PostgresIndex
    except ImportError as error:
        raise EngineError(str(error)) from error
    return PostgresIndex


def _milvus() -> type[MilvusIndex]:
    from .milvus import MilvusIndex

    return MilvusIndex
