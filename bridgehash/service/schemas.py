"""The JSON forms of requests and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .settings import MOST_ID

Domain = Literal["source", "target", "any"]
Content = Literal["features", "codes"]
Id = Annotated[int, Field(ge=0, le=MOST_ID)]
Row = list[float]
Hex = Annotated[str, Field(pattern="^([0-9a-fA-F]{2})+$", max_length=1024)]
Rows = Annotated[list[Row], Field(min_length=1, description="A list of numbers each.")]
Codes = Annotated[list[Hex], Field(min_length=1, description="Packed codes as hex digits.")]
Ids = Annotated[list[Id], Field(min_length=1)]
Tag = Annotated[str, Field(max_length=200)]


class Form(BaseModel):
    """A request: exact types, no unknown fields, no infinities."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class EncodeForm(Form):
    """Features to encode."""

    features: Rows
    domain: Domain | None = Field(None, description="Left out: that of the queries.")


class SearchForm(Form):
    """Queries: features, or codes, or ids of items that are loaded."""

    features: Rows | None = None
    codes: Codes | None = None
    ids: Ids | None = None
    domain: Domain | None = Field(
        None, description="Of the features (left out: the queries') or ids (the index's)."
    )
    k: int = Field(10, ge=1, description="How many items to find for each query.")
    tag: Tag | None = Field(None, description="Look among items of this tag only.")


class AddForm(Form):
    """Items to add, as features or as codes."""

    features: Rows | None = None
    codes: Codes | None = None
    ids: Ids | None = Field(
        None, description="An item that has one of these ids is replaced. Left out: the next free."
    )
    tags: list[Tag] | None = None


class RemoveForm(Form):
    """Items to remove; ids that are not there are passed over."""

    ids: Ids


class Encoded(BaseModel):
    """Codes."""

    catalogue: str
    domain: str
    n_bits: int
    codes: list[str]


class Item(BaseModel):
    """An item as it is shown."""

    id: int
    tag: str
    code: str
    image: str | None


class Hit(Item):
    """An item that was found."""

    distance: int


class Result(BaseModel):
    """One query and what is nearest to it, by (distance, id)."""

    code: str
    hits: list[Hit]


class SearchAnswer(BaseModel):
    """What was found, a result a query."""

    catalogue: str
    domain: str
    n_bits: int
    results: list[Result]


class Added(BaseModel):
    """Items that are there now, and will be after a restart."""

    ids: list[int]
    added: int
    replaced: int
    items: int


class Removed(BaseModel):
    """How many were there and are gone."""

    removed: int
    items: int


class Listing(BaseModel):
    """Some items of a domain."""

    catalogue: str
    domain: str
    total: int
    offset: int
    items: list[Item]


class DomainFacts(BaseModel):
    """One domain of a catalogue."""

    features: int
    items: int | None
    pictures: int
    tags: list[str]
    searched: bool
    backbone: str | None


class Facts(BaseModel):
    """What a catalogue is."""

    name: str
    method: str
    n_bits: int
    index_domain: str
    query_domain: str
    domains: dict[str, DomainFacts]
    writable: bool


class FactsList(BaseModel):
    """All catalogues."""

    catalogues: list[Facts]
    limits: dict[str, float]


class Figures(BaseModel):
    """How well queries find items of their own tag."""

    catalogue: str
    queries_from: str
    n_queries: int
    n_items: int
    radius_pr_area: float
    mean_average_precision: float
    precision_at_10: float
    recall: list[float]
    precision: list[float]


class State(BaseModel):
    """Whether the service is well."""

    status: str
