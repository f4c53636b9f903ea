"""JSON schemas of requests and responses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..index.batch import MAX_ID
from .settings import Limits

DomainName = Literal["source", "target", "any"]
ArrayContent = Literal["features", "codes"]
Id = Annotated[int, Field(ge=0, le=MAX_ID)]
Hex = Annotated[str, Field(pattern="^([0-9a-fA-F]{2})+$", max_length=1024)]
# A list ends at its first error and at its greatest length: a hostile body costs no more.
Row = Annotated[list[float], Field(max_length=Limits.features, fail_fast=True)]
_rows = Field(min_length=1, max_length=Limits.rows, fail_fast=True)
_queries = Field(min_length=1, max_length=Limits.queries, fail_fast=True)
Rows = Annotated[list[Row], _rows]
QueryRows = Annotated[list[Row], _queries]
Codes = Annotated[list[Hex], _rows]
QueryCodes = Annotated[list[Hex], _queries]
IdList = Annotated[list[Id], _rows]
QueryIds = Annotated[list[Id], _queries]
Tag = Annotated[str, Field(max_length=200)]
TagList = Annotated[list[Tag], Field(max_length=Limits.rows, fail_fast=True)]


class RequestSchema(BaseModel):
    """Exact types, no unknown fields, no infinities."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class EncodeRequest(RequestSchema):
    """Features to encode, one list per row."""

    features: Rows
    domain: DomainName | None = Field(None, description="Default: the domain of the queries.")


class SearchRequest(RequestSchema):
    """Queries: exactly one of features, packed codes in hex, or ids of loaded items."""

    features: QueryRows | None = None
    codes: QueryCodes | None = None
    ids: QueryIds | None = None
    domain: DomainName | None = Field(
        None, description="Default: the domain of the queries; of the index for ids."
    )
    k: int = Field(10, ge=1, le=Limits.k, description="Number of items per query.")
    tag: Tag | None = Field(None, description="Search within items of this tag.")


class AddRequest(RequestSchema):
    """Items to add: exactly one of features or packed codes in hex."""

    features: Rows | None = None
    codes: Codes | None = None
    ids: IdList | None = Field(None, description="Default: the next free ids.")
    tags: TagList | None = None


class UpsertRequest(AddRequest):
    """Items to insert or replace: exactly one of features or packed codes in hex."""

    ids: IdList


class RemoveRequest(RequestSchema):
    """Items to remove; unknown ids are ignored."""

    ids: IdList


class EncodeResponse(BaseModel):
    """Codes, one per row."""

    catalogue: str
    domain: str
    n_bits: int
    codes: list[str]


class Item(BaseModel):
    """An item of a catalogue."""

    id: int
    tag: str
    code: str
    image: str | None


class Hit(Item):
    """An item and its Hamming distance to the query."""

    distance: int


class QueryResult(BaseModel):
    """The code of one query and the nearest items, by (distance, id)."""

    code: str
    hits: list[Hit]


class SearchResponse(BaseModel):
    """One result per query."""

    catalogue: str
    domain: str
    n_bits: int
    results: list[QueryResult]


class ChangeResponse(BaseModel):
    """Items that were added or replaced; they are on disk."""

    ids: list[int]
    added: int
    replaced: int
    total: int


class RemoveResponse(BaseModel):
    """Number of items removed, and of those left."""

    removed: int
    total: int


class ItemList(BaseModel):
    """One page of the items of a domain."""

    catalogue: str
    domain: str
    total: int
    offset: int
    items: list[Item]


class DomainInfo(BaseModel):
    """One domain of a catalogue."""

    n_features: int
    n_items: int | None
    n_images: int
    tags: list[str]
    backbone: str | None


class CatalogueInfo(BaseModel):
    """A model and its index."""

    name: str
    method: str
    n_bits: int
    index_domain: str
    query_domain: str
    domains: dict[str, DomainInfo]
    writable: bool


class CatalogueList(BaseModel):
    """All catalogues, and the limits of a request."""

    catalogues: list[CatalogueInfo]
    limits: dict[str, float]


class CatalogueScores(BaseModel):
    """How often queries find items with their own tag."""

    catalogue: str
    query_domain: str
    n_queries: int
    n_items: int
    radius_pr_area: float
    mean_average_precision: float
    precision_at_10: float
    recall: list[float]
    precision: list[float]


class Health(BaseModel):
    """Status of the service."""

    status: str


class Readiness(Health):
    """Status of the service, and what went wrong before it started."""

    warnings: list[str]
