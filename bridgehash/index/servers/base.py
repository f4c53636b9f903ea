"""What all engines share: the interface of an index, URLs, names, and retries.

`create_index` and `open_index` choose the engine by the URL and import its driver. An engine gives
the same results as `HammingIndex`. It knows Hamming distances only: a search with weights gets the
nearest codes from it and orders them here. An operation is repeated if its connection is lost, or
if the server stopped it because of the operations of other clients.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from random import uniform
from threading import RLock
from time import sleep
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, get_args
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.errors import EngineError, InputError, unknown
from ...codes import MAX_BITS
from ..attributes import ItemFilter, Match, Tags, parse_filter
from ..batch import (
    Batch,
    SearchMode,
    check_number,
    check_search_mode,
    checked_batch,
    no_neighbors,
    packed_codes,
)
from ..ids import MAX_ID, IdKind, Ids, check_kind, kind_of, parse_ids
from ..state import as_words
from ..weighted import ScoredCodes, Weights, rounded_weights

PAUSES = (0.2, 1.0, 3.0, 8.0)  # seconds before the retries of an operation, times 0.5 to 1.5
IDS_END = MAX_ID + 1
CORRECTIONS = ("score_offset", "score_slope")  # columns or fields
NO_CORRECTIONS = np.array([0, 1], np.float32)  # offset and slope if no code has any
_CANDIDATES = 3000  # that a search with weights orders, or
_CANDIDATES_PER_RESULT = 10  # times k if that is more
_DEEPEST = 16_000  # candidates among which the best are sought to choose their number
_MEASURED = 16  # queries that decide it
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SCHEMES = ("postgresql", "postgres", "milvus")

T = TypeVar("T")
Reach = Callable[[int, int], None]  # is called with the number of codes sent, and of all


class RetryableError(Exception):
    """A failure after which the operation can be repeated."""

    outcome: ClassVar[str]  # of the last attempt


class ConnectionLost(RetryableError):
    """A lost connection: the operation can be repeated on a new one."""

    outcome = (
        "the connection was lost and could not be opened again ({}); check that the server runs"
    )


class Conflict(RetryableError):
    """An operation that was undone because of other clients, for example after a deadlock."""

    outcome = "stopped by other clients at every attempt, nothing was changed ({}); repeat it later"


class IndexInfo(NamedTuple):
    """The properties of a table or collection of codes."""

    n_bits: int
    search: SearchMode = "exact"
    about: Mapping[str, str] = {}
    ids: IdKind = "numbers"
    ours: bool = True  # created by bridgehash
    corrections: bool = False  # has room for them


class Ranked(NamedTuple):
    """Results of a search with weights, shape (n_queries, k), ordered by (score, id)."""

    scores: NDArray[np.float32]  # infinite where there is no code
    distances: NDArray[np.int32]  # by Hamming; n_bits + 1 where there is no code
    ids: Ids


class Candidates(NamedTuple):
    """The nearest codes of one query by Hamming distance."""

    distances: NDArray[Any]
    ids: Ids
    codes: NDArray[np.uint8]  # (n, n_bytes)
    corrections: NDArray[np.float16] | None  # (n, 2), NaN where there are none
    missing: NDArray[np.float32] = NO_CORRECTIONS  # offset and slope of codes that have none

    def rows(self, rows: Any) -> Candidates:
        """Return some codes."""
        corrections = None if self.corrections is None else self.corrections[rows]
        return Candidates(
            self.distances[rows], self.ids[rows], self.codes[rows], corrections, self.missing
        )


class Ranking:
    """The best candidates per query, found one query after another."""

    def __init__(self, weights: Weights, k: int, n_bits: int, kind: IdKind) -> None:
        self._weights = weights
        self._shape = len(weights.steps), k, n_bits, kind
        self.clear()

    def clear(self) -> None:
        """Forget everything, because the work is repeated."""
        distances, ids = no_neighbors(*self._shape)
        self.results = Ranked(np.full(ids.shape, np.inf, np.float32), distances, ids)

    def put(self, query: int, found: Candidates) -> None:
        """Keep the best candidates of a query."""
        scores, best = self._best(query, found)
        for array, values in zip(
            self.results, (scores, found.distances[best], found.ids[best]), strict=True
        ):
            array[query, : len(best)] = values

    def _best(self, query: int, found: Candidates) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Return scores and numbers of the k best candidates of a query."""
        by_id = np.argsort(found.ids, kind="stable")  # equal scores are ordered by row, hence by id
        corrections = None if found.corrections is None else found.corrections[by_id].T
        scored = ScoredCodes(as_words(found.codes[by_id]), corrections, found.missing)
        weights = self._weights.part(slice(query, query + 1))
        scores, rows = scored.ordered(weights, np.arange(scored.n)[None])
        return scores[0, : self._shape[1]], by_id[rows[0, : self._shape[1]]]


class Depths(Ranking):
    """How many candidates hold the best ones, measured on many candidates."""

    def clear(self) -> None:
        """Forget everything, because the work is repeated."""
        self._places: list[NDArray[np.intp]] = []

    def put(self, query: int, found: Candidates) -> None:
        """Keep the places of the best candidates in the order of (distance, id)."""
        order = np.lexsort((found.ids, found.distances))
        self._places.append(np.argsort(order)[self._best(query, found)[1]])

    def holding(self, share: float) -> int:
        """Return how many candidates hold this share of the best."""
        places = np.sort(np.concatenate([*self._places, np.zeros(1, np.intp)]))
        return int(places[int(np.ceil(share * (len(places) - 1)))]) + 1


class EngineSession(ABC):
    """A connection to a server that is opened again when it is lost.

    Operations of several threads take turns.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._lock = RLock()
        try:
            self._connect()
        except ConnectionLost as error:
            raise EngineError(
                f"{place}: no connection ({error}); check that the server runs, and check "
                "address, user and password"
            ) from error

    @abstractmethod
    def _connect(self) -> object:
        """Open the connection if it is closed, or raise `ConnectionLost`."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @contextmanager
    def close_on_error(self) -> Iterator[None]:
        """Close the connection if the block fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _retry(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, repeated after a pause while it can be."""
        with self._lock:
            for pause in (*PAUSES, None):
                try:
                    return work()
                except RetryableError as error:
                    if pause is None:
                        reason = error.outcome.format(error)
                        raise EngineError(f"{self.place}: {reason}") from error
                    sleep(pause * uniform(0.5, 1.5))  # not at the same time as other clients
            raise AssertionError("the last attempt returns or raises")


class EngineIndex(ABC):
    """An index on a server, with the methods of `HammingIndex` that a server can offer.

    It is a context manager that closes the connection.

    Attributes
    ----------
    name : str
        Name of the table or collection.
    place : str
        URL of the server without the password.
    n_bits : int
    search_mode : "exact" or "approximate"
    id_kind : "numbers" or "text"
    has_corrections : bool
        Whether the table or collection has room for corrections.
    about : dict of str
        Where the codes come from; stored on the server.
    recall : float, default=0.95
        Share of the k best codes that a search with weights and n_candidates="auto" finds.
    """

    recall = 0.95
    noun: ClassVar[str]  # "table" or "collection"
    session_type: ClassVar[type[Any]]  # an EngineSession that is made from a URL
    tag_bytes: ClassVar[int]  # of the longest tag, and of the longest name of a domain
    max_k: ClassVar[float] = np.inf

    def __init__(self, session: Any, name: str, info: IndexInfo) -> None:
        self.name = name
        self.place: str = session.place
        self.n_bits = info.n_bits
        self.search_mode = info.search
        self.id_kind = info.ids
        self.has_corrections = info.corrections
        self.about = dict(info.about)
        self._session = session
        self._depths: dict[tuple[int, float, ItemFilter], int] = {}

    @classmethod
    @abstractmethod
    def _create(cls, session: Any, name: str, info: IndexInfo, *, replace: bool) -> None:
        """Create an empty table or collection; with `replace`, drop an index of this name first."""

    @abstractmethod
    def _build(self, info: IndexInfo, batch: Batch, reach: Reach, *, replace: bool) -> None:
        """Create the table or collection with these codes; it appears when it is complete.

        With `replace`, it takes the place of an index of this name.
        """

    @classmethod
    @abstractmethod
    def _describe(cls, session: Any, name: str) -> IndexInfo | None:
        """Return the properties of a table or collection, or None if it does not exist.

        Raises `EngineError` if it holds something else.
        """

    def _prepare(self) -> None:  # noqa: B027
        """Make an index that was opened ready for searches, if the server needs it."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def next_id(self) -> int:
        """Return the id that the next code without an id gets.

        Codes without ids get consecutive ids above the highest, as long as these stay below 2**53;
        else they get the lowest ones that are free. An index with text ids has none.
        """

    @property
    @abstractmethod
    def domains(self) -> dict[str, int]:
        """Number of codes per domain; the empty name stands for codes without a domain."""

    def add(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        tags: ArrayLike | None = None,
        domain: ArrayLike | None = None,
        corrections: ArrayLike | None = None,
    ) -> Self:
        """Add packed codes, as `HammingIndex.add` does. Raises `InputError` if an id exists.

        Corrections are refused if the index was created without room for them.
        """
        numbered = ids is None and self.id_kind == "numbers"
        self._add(self._check(codes, ids, tags, domain, corrections), numbered=numbered)
        return self

    def upsert(
        self,
        codes: ArrayLike,
        ids: ArrayLike,
        *,
        tags: ArrayLike | None = None,
        domain: ArrayLike | None = None,
        corrections: ArrayLike | None = None,
    ) -> Self:
        """Add packed codes; items with the same ids are replaced, with all that belongs to them."""
        self._upsert(self._check(codes, ids, tags, domain, corrections))
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by id and return how many were removed; unknown ids are ignored."""
        given = check_kind(parse_ids(ids), self.id_kind)
        return self._remove(np.unique(given)) if len(given) else 0

    def search(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        tags: Tags | None = None,
        match: Match = "any",
        domain: str | None = None,
        weights: ArrayLike | None = None,
        n_candidates: int | Literal["auto"] | None = None,
    ) -> tuple[NDArray[np.int32] | NDArray[np.float32], Ids]:
        """Return distances and ids of the k nearest codes per query, as `HammingIndex.search`.

        With weights, return scores and ids (see `rank`).
        """
        if weights is not None:
            ranked = self.rank(
                codes, weights, k, n_candidates, tags=tags, match=match, domain=domain
            )
            return ranked.scores, ranked.ids
        packed, k = packed_codes(codes, self.n_bits), check_number(k, "k", 1, self.max_k)
        nothing = no_neighbors(len(packed), k, self.n_bits, self.id_kind)
        wanted = self._storable(parse_filter(tags, match, domain))
        return nothing if wanted is None else self._search(packed, k, wanted, nothing)

    def rank(
        self,
        codes: ArrayLike,
        weights: ArrayLike,
        k: int = 10,
        n_candidates: int | Literal["auto"] | None = None,
        *,
        tags: Tags | None = None,
        match: Match = "any",
        domain: str | None = None,
    ) -> Ranked:
        """Return the k best of the nearest codes per query, by their scores.

        The results are those of `HammingIndex.search` with the same weights and n_candidates.

        Parameters
        ----------
        codes : uint8 array of shape (n_queries, n_bytes)
            Packed codes of the queries.
        weights : array of shape (n_queries, n_bits)
            What each bit counts (`query_weights`).
        k : int, default=10
        n_candidates : int or "auto", optional
            Number of nearest codes by Hamming distance that are scored. By default 3,000, or 10 k
            if that is more. "auto" chooses it for the share `recall` of the k best: it scores
            16,000 candidates of up to 16 of the queries, once for each k and filter.
        tags, match, domain
            As for `search`.
        """
        packed, k = packed_codes(codes, self.n_bits), check_number(k, "k", 1, self.max_k)
        given = rounded_weights(weights, len(packed), self.n_bits)
        depth = int(min(max(_CANDIDATES, _CANDIDATES_PER_RESULT * k), self.max_k))
        if n_candidates is not None and n_candidates != "auto":
            depth = max(k, check_number(n_candidates, "n_candidates", 1, self.max_k))
        ranking = Ranking(given, k, self.n_bits, self.id_kind)
        wanted = self._storable(parse_filter(tags, match, domain))
        if wanted is not None and len(packed):
            if n_candidates == "auto":
                depth = self._depth(packed, given, k, wanted)
            self._rank(packed, depth, wanted, ranking)
        return ranking.results

    def _depth(
        self, packed: NDArray[np.uint8], weights: Weights, k: int, wanted: ItemFilter
    ) -> int:
        """Return how many candidates hold the share `recall` of the k best codes."""
        key, some = (k, self.recall, wanted), slice(0, _MEASURED)
        if key not in self._depths:
            depths = Depths(weights.part(some), k, self.n_bits, self.id_kind)
            self._rank(packed[some], int(min(max(_DEEPEST, k), self.max_k)), wanted, depths)
            self._depths[key] = max(k, depths.holding(self.recall))
        return self._depths[key]

    def _storable(self, wanted: ItemFilter | None) -> ItemFilter | None:
        """Return a filter without tags that the server cannot store; None: nothing can match."""
        if wanted is None:
            return ItemFilter()
        if wanted.domain is not None and not self._can_store(wanted.domain):
            return None
        if wanted.tags is None:
            return wanted
        known = tuple(tag for tag in wanted.tags if self._can_store(tag))
        none_left = not known or (wanted.match == "all" and known != wanted.tags)
        return None if none_left else wanted._replace(tags=known)

    def _check_numbers(self) -> None:
        if self.id_kind == "text":
            raise InputError("this index has text ids; give one id per code", "ids")

    @abstractmethod
    def _add(self, batch: Batch, *, numbered: bool) -> None:
        """Add a batch; if it is `numbered`, its ids are added to the first free one."""

    @abstractmethod
    def _upsert(self, batch: Batch) -> None: ...

    @abstractmethod
    def _remove(self, ids: Ids) -> int:
        """Remove codes by different ids, increasing."""

    @abstractmethod
    def _search(
        self,
        packed: NDArray[np.uint8],
        k: int,
        wanted: ItemFilter,
        nothing: tuple[NDArray[np.int32], Ids],
    ) -> tuple[NDArray[np.int32], Ids]:
        """Return distances and ids; `nothing` has those of an empty result."""

    @abstractmethod
    def _rank(
        self, packed: NDArray[np.uint8], depth: int, wanted: ItemFilter, ranking: Ranking
    ) -> None:
        """Give the `depth` nearest codes of each query to a ranking."""

    @abstractmethod
    def finish(self) -> None:
        """Build the indexes of the server; call it after a bulk load."""

    @abstractmethod
    def drop(self) -> None:
        """Drop the index with all its codes."""

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        if corrections is not None and not self.has_corrections:
            raise InputError(
                f"the {self.noun} {self.name} has no room for them; build it again with "
                "corrections, or leave them out",
                "corrections",
            )
        batch = checked_batch(
            codes,
            ids,
            tags,
            domain,
            self.n_bits,
            corrections=corrections,
            may_miss=may_miss,
            kind=self.id_kind,
        )
        for entry in [] if batch.attributes is None else batch.attributes.entries:
            texts = [("domain", entry.domain), *(("tags", tag) for tag in entry.tags)]
            for argument, text in texts:
                if not self._can_store(text):
                    raise InputError(
                        f"{text[:40]!r} cannot be stored; use text of up to {self.tag_bytes} bytes "
                        "without a zero byte",
                        argument,
                    )
        return batch

    def _can_store(self, tag: str) -> bool:
        try:
            return len(tag.encode()) <= self.tag_bytes and "\x00" not in tag
        except UnicodeEncodeError:  # half of a surrogate pair
            return False


def create_index(
    url: str,
    name: str,
    n_bits: int,
    *,
    search: SearchMode = "exact",
    ids: IdKind = "numbers",
    corrections: bool = False,
    about: Mapping[str, str] | None = None,
    replace: bool = False,
) -> EngineIndex:
    """Create an empty index on a server.

    Parameters
    ----------
    url : str
        `postgresql://user:password@host:port/database` or
        `milvus://user:password@host:port/database`.
    name : str
        Name of the table or collection.
    n_bits : int
        Length of the codes, 1 to 4,096.
    search : "exact" or "approximate", default="exact"
        "approximate" uses an HNSW index in PostgreSQL, which `finish` builds, and inverted lists in
        Milvus.
    ids : "numbers" or "text", default="numbers"
        Kind of the ids.
    corrections : bool, default=False
        Make room for corrections, two numbers per code.
    about : dict of str, optional
        Where the codes come from; stored with them.
    replace : bool, default=False
        Drop an index of this name first.
    """
    engine, n_bits = _engine(url), check_number(n_bits, "n_bits", 1, MAX_BITS)
    if ids not in get_args(IdKind):
        raise InputError(unknown("kind of ids", str(ids), get_args(IdKind)), "ids")
    mode = check_search_mode(search)
    info = IndexInfo(n_bits, mode, dict(about or {}), ids, corrections=bool(corrections))
    check_name(name)
    session = engine.session_type(url)
    with session.close_on_error():
        engine._create(session, name, info, replace=replace)
    return engine(session, name, info)


def build_index(
    url: str,
    name: str,
    n_bits: int,
    codes: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    tags: ArrayLike | None = None,
    domain: ArrayLike | None = None,
    corrections: ArrayLike | None = None,
    may_miss: bool = False,
    search: SearchMode = "exact",
    about: Mapping[str, str] | None = None,
    replace: bool = False,
    reach: Reach = lambda done, total: None,
) -> EngineIndex:
    """Build a complete index on a server; others see it when it is complete, or not at all.

    Parameters
    ----------
    url, name, n_bits, search, about
        As for `create_index`.
    codes, ids, tags, domain, corrections
        As for `HammingIndex.add`; default ids are 0, 1, ... Without corrections, the index has no
        room for them.
    may_miss : bool, default=False
        Allow NaN as corrections of codes that have none.
    replace : bool, default=False
        Take the place of an index of this name, which is searched until then.
    reach : callable, optional
        Is called with the number of codes sent, and of all.
    """
    engine, n_bits = _engine(url), check_number(n_bits, "n_bits", 1, MAX_BITS)
    kind = "numbers" if ids is None else kind_of(parse_ids(ids))
    mode = check_search_mode(search)
    info = IndexInfo(n_bits, mode, dict(about or {}), kind, corrections=corrections is not None)
    check_name(name)
    session = engine.session_type(url)
    with session.close_on_error():
        index = engine(session, name, info)
        batch = index._check(codes, ids, tags, domain, corrections, may_miss=may_miss)
        index._build(info, batch, reach, replace=replace)
    return index


def open_index(url: str, name: str, *, search: SearchMode | None = None) -> EngineIndex:
    """Open an index on a server.

    It is searched as it was created, unless `search` is "exact" or "approximate".
    """
    engine, mode = _engine(url), None if search is None else check_search_mode(search)
    check_name(name)
    session = engine.session_type(url)
    with session.close_on_error():
        info = engine._describe(session, name)
        if info is None:
            raise EngineError(
                f"{session.place}: there is no {engine.noun} {name}; build it, or check the name"
            )
        index = engine(session, name, info._replace(search=mode or info.search))
        index._prepare()
    return index


def index_exists(url: str, name: str) -> bool:
    """Return whether the server has an index of this name.

    Raises `EngineError` if a table or collection of this name holds something else.
    """
    engine = _engine(url)
    with closing(engine.session_type(url)) as session:
        return engine._describe(session, check_name(name)) is not None


def _engine(url: str) -> type[EngineIndex]:
    if parse_url(url).scheme == "milvus":
        from .milvus import MilvusIndex

        return MilvusIndex
    try:
        from .postgres import PostgresIndex
    except ImportError as error:
        raise EngineError(str(error)) from error
    return PostgresIndex


class Address(NamedTuple):
    """The parts of a URL; `shown` leaves out the password."""

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


def parse_url(url: str) -> Address:
    """Return the parts of a URL.

    >>> parse_url("postgresql://ann:secret@db.example:5432/shop").shown
    'postgresql://ann@db.example:5432/shop'
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        given = f"{scheme}://" if separator and scheme.isalnum() else "a URL without ://"
        raise EngineError(f"unsupported engine: {given}; use postgresql://... or milvus://...")
    parts = urlsplit(url)
    before, _, host = parts.netloc.rpartition("@")
    if "@" in before or ("@" in url and "@" not in parts.netloc):
        raise EngineError(
            f"the {scheme} URL cannot be read; in a user name or password write @ / ? # : as "
            "%40 %2F %3F %23 %3A"
        )
    user, _, password = before.partition(":")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    database = unquote(parts.path.strip("/"))
    return Address(scheme, unquote(user), unquote(password), host, database, options)


def check_name(name: str) -> str:
    """Return the name of a table or collection if every engine accepts it.

    >>> check_name("photos_2")
    'photos_2'
    """
    if not _NAME.fullmatch(name):
        raise EngineError(
            f"{name!r} is not a valid table or collection name; use up to 63 letters, digits and "
            "underscores, and no digit first"
        )
    return name
