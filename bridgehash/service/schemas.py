"""JSON schemas of requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from ..index.attributes import Match
from ..index.ids import MAX_CHARACTERS, MAX_ID, TEXT_RULE
from .settings import Limits

DomainName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
ArrayContent = Literal["features", "codes"]
Rank = Literal["auto", "hamming", "weights"]
RANK_TEXT = (
    "`hamming`: by the number of bits that differ. `weights`: by a score in which each bit counts "
    "as much as the features of the query say; needs features. `auto`: by weights if the features "
    "of the query are known, else by Hamming distance; also if an older model cannot use the "
    "corrections of the index."
)
REJECT_TEXT = (
    "Leave out the items of queries that seem to have no counterpart in the index. Needs a model "
    "that tested which classes the domains have in common."
)
MAX_TAG = 200  # characters
MAX_TAGS = 64  # of an item, or of a filter


def _check_id(value: Any) -> int | str:
    # `bodies` checks that all ids of a request are of one kind.
    if type(value) is int and 0 <= value <= MAX_ID:
        return value
    if type(value) is str and 0 < len(value) <= MAX_CHARACTERS and "\0" not in value:
        return value
    rule = f"number ids are whole and from 0 to 2**53 - 1; {TEXT_RULE}"
    raise PydanticCustomError("id", "not an id: {rule}", {"rule": rule})


def _check_tags(value: Any) -> list[str]:
    tags = [value] if type(value) is str else value
    if (
        type(tags) is list
        and 0 < len(tags) <= MAX_TAGS
        and all(type(tag) is str and len(tag) <= MAX_TAG for tag in tags)
    ):
        return tags
    rule = f"send a text of up to {MAX_TAG} characters, or a list of 1 to {MAX_TAGS} texts"
    raise PydanticCustomError("tags", "not a tag: {rule}", {"rule": rule})


_number = {"type": "integer", "minimum": 0, "maximum": MAX_ID}
_text_id = {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS}
_text_id["pattern"] = "^[^\\u0000\\ud800-\\udfff]+$"
_tag = {"type": "string", "maxLength": MAX_TAG}
_tags = {"type": "array", "items": _tag, "minItems": 1, "maxItems": MAX_TAGS}

# Validators of our own: errors of a union would name its branches.
Id = Annotated[Any, PlainValidator(_check_id), WithJsonSchema({"anyOf": [_number, _text_id]})]
Tags = Annotated[Any, PlainValidator(_check_tags), WithJsonSchema({"anyOf": [_tag, _tags]})]
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
TagList = Annotated[list[Tags], Field(max_length=Limits.rows, fail_fast=True)]
ItemDomain = Annotated[str, Field(max_length=MAX_TAG)]


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
    tags: Tags | None = Field(None, description="Search within items of these tags.")
    match: Match = Field("any", description="Items must have any of the tags, or all.")
    in_domain: ItemDomain | None = Field(None, description="Search within items of this domain.")
    rank: Rank = Field("auto", description=RANK_TEXT)
    reject: bool = Field(False, description=REJECT_TEXT)


class AddRequest(RequestSchema):
    """Items to add: exactly one of features or packed codes in hex."""

    features: Rows | None = None
    codes: Codes | None = None
    ids: IdList | None = Field(None, description="Default: the next free numbers.")
    tags: TagList | None = Field(None, description="One text or list of texts per item.")
    domain: DomainName | None = Field(
        None, description="Of all items of this request. Default: the domain of the index."
    )


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

    id: int | str
    tags: list[str]
    domain: str
    code: str
    image: str | None


class Hit(Item):
    """An item and its Hamming distance to the query."""

    distance: int
    score: float | None = Field(
        None,
        description="If ranked by weights: smaller is nearer. An estimate of the squared distance "
        "of the features, less a number that is the same for all items of a query. Comparable for "
        "one query only.",
    )


class QueryResult(BaseModel):
    """The code of one query and the nearest items, by (distance, id), or else (score, id)."""

    code: str
    rejected: bool | None = Field(
        description="Whether the query seems to have no counterpart in the index. Null if the "
        "model cannot tell, and for queries of the domain that is searched."
    )
    hits: list[Hit]


class SearchResponse(BaseModel):
    """One result per query."""

    catalogue: str
    domain: str
    n_bits: int
    rank: Literal["hamming", "weights"] = Field(description="How the items are ranked.")
    results: list[QueryResult]


class ChangeResponse(BaseModel):
    """Items that were added or replaced; they are on disk."""

    ids: list[int | str]
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
    ids: Literal["numbers", "text"] | None
    items_per_domain: dict[str, int]
    writable: bool


class CatalogueList(BaseModel):
    """All catalogues, and the limits of a request."""

    catalogues: list[CatalogueInfo]
    limits: dict[str, float]


class CatalogueScores(BaseModel):
    """How often queries find items with their own tags."""

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
