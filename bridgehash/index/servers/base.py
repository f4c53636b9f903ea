"""What every engine shares: the interface, addresses, names, and trying again.

An engine keeps codes behind the interface of `HammingIndex`, so that the same queries get the same
answers. A connection that drops is made again, and what was being done is done again.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from time import sleep
from types import TracebackType
from typing import ClassVar, NamedTuple, Protocol, Self, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.errors import EngineError
from ..batch import Batch, Ids, checked_batch

PAUSES = (0.2, 1.0, 3.0, 8.0)  # seconds before an operation is tried again
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
POSTGRES = ("postgresql", "postgres")
_SCHEMES = (*POSTGRES, "milvus")

T = TypeVar("T")


class Dropped(Exception):
    """A connection that was lost: the same may go well on a new one."""


class CodeIndex(Protocol):
    """What an index can do, wherever its codes lie."""

    n_bits: int
    about: dict[str, str]

    def __len__(self) -> int: ...

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, tags: ArrayLike | None = None
    ) -> Self:
        """Add packed codes, each with a tag if one likes; an id that is there is refused."""
        ...

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        """Add packed codes, in place of those that have their ids."""
        ...

    def remove(self, ids: ArrayLike) -> int:
        """Forget codes by their ids; how many of them were there."""
        ...

    def search(
        self, codes: ArrayLike, k: int = 10, *, tag: str | None = None
    ) -> tuple[NDArray[np.int32], Ids]:
        """Distances and ids of the k nearest codes of each query, by (distance, id)."""
        ...


class EngineIndex(CodeIndex, Protocol):
    """What an index on a server can do besides."""

    name: str
    place: str  # the server, as it may be shown

    @property
    def kind(self) -> str:
        """How it is searched."""
        ...

    def next_id(self) -> int:
        """The id that a code without one would get."""
        ...

    def finish(self) -> None:
        """What is left to do after a bulk load."""
        ...

    def rename(self, name: str, *, replace: bool = False) -> None:
        """Give it another name, in place of an index of that name if wanted."""
        ...

    def drop(self) -> None:
        """Remove it and all codes in it."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Address(NamedTuple):
    """A URL in parts; `shown` is what may be printed, without a password."""

    scheme: str
    user: str
    password: str
    host: str  # with the port
    database: str
    options: dict[str, str]

    @property
    def shown(self) -> str:
        user = f"{self.user}@" if self.user else ""
        database = f"/{self.database}" if self.database else ""
        return f"{self.scheme}://{user}{self.host}{database}"


def parsed(url: str) -> Address:
    """The parts of a URL.

    >>> parsed("postgresql://ann:secret@db.example:5432/shop").shown
    'postgresql://ann@db.example:5432/shop'
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        named = f"{scheme}://" if separator and scheme.isalnum() else "a URL without ://"
        raise EngineError(f"{named} is no engine; give postgresql://... or milvus://...")
    parts = urlsplit(url)
    before, _, host = parts.netloc.rpartition("@")
    if "@" in before or ("@" in url and "@" not in parts.netloc):
        raise EngineError(
            f"the {scheme} URL cannot be read; in a user or password write @ / ? # : as "
            "%40 %2F %3F %23 %3A"
        )
    user, _, password = before.partition(":")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    database = unquote(parts.path.strip("/"))
    return Address(scheme, unquote(user), unquote(password), host, database, options)


def check_name(name: str) -> str:
    """The name of a table or collection, if it is plain enough for every engine.

    >>> check_name("photos_2")
    'photos_2'
    """
    if not _NAME.fullmatch(name):
        raise EngineError(
            f"{name!r} is no name for a table or collection; give up to 63 letters, digits and "
            "underscores that begin with no digit"
        )
    return name


def can_keep(tag: str, most_bytes: int) -> bool:
    """Can a server keep this text as it is?"""
    try:
        return len(tag.encode()) <= most_bytes and "\x00" not in tag
    except UnicodeEncodeError:  # half a character
        return False


def check_tags(tags: Iterable[str] | None, most_bytes: int) -> None:
    """Refuse tags that a server could not keep as they are."""
    for tag in tags if tags is not None else ():
        if not can_keep(tag, most_bytes):
            raise ValueError(
                f"tag {tag[:40]!r} cannot be kept: a tag is text of up to {most_bytes} bytes "
                "without a zero byte"
            )


def retried(work: Callable[[], T], place: str) -> T:
    """The outcome of `work`, which is done again after a pause where it meets a lost connection."""
    for pause in PAUSES:
        try:
            return work()
        except Dropped:
            sleep(pause)
    try:
        return work()
    except Dropped as error:
        raise EngineError(
            f"{place}: the connection was lost and could not be made again ({error}); "
            "is the server up?"
        ) from error


def connect_first(connect: Callable[[], object], place: str) -> None:
    """Make the first connection; a server that is away is told at once."""
    try:
        connect()
    except Dropped as error:
        raise EngineError(
            f"{place}: no connection ({error}); is the server up, and are address, user and "
            "password right?"
        ) from error


class ServerIndex(ABC):
    """What the engines do alike: check a batch, end the connection."""

    tag_bytes: ClassVar[int]  # the longest tag
    n_bits: int

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _checked(self, codes: ArrayLike, ids: ArrayLike | None, tags: ArrayLike | None) -> Batch:
        batch = checked_batch(codes, ids, tags, self.n_bits, 0)
        check_tags(batch.tags, self.tag_bytes)
        return batch
