"""REST API: bibliographic records: search, facets, single records."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import ConfigDict, Field

from harvester.bibliographic.models import BibliographicRow
from harvester.bibliographic.record_view import get_record, made_from
from harvester.bibliographic.search import count_facets
from oai.errors import UsageError
from oai.rights import Right
from web.api.operations import Call, Operation
from web.api.paging import after, link, unreadable_cursor
from web.api.shapes import Out, Page, Paged
from web.auth.access import asked_for
from web.imports.pages_records import RecordSearch, find_hits, restricted

_TAG: Final = "bibliographic records"


class RecordsQuery(RecordSearch):
    """Which records."""

    model_config = ConfigDict(extra="forbid")


class RecordsPage(RecordSearch, Paged):
    """Search criteria and paging."""


class HitOut(Out):
    """A record in a list."""

    bibliographic_id: int
    repository_id: int
    title: str
    subtitle: str
    statement: str
    kind: str
    place: str
    publisher: str
    date_text: str = Field(description="The date as given in the record.")
    year_from: int | None
    year_to: int | None
    languages: Sequence[str] = Field(description="ISO 639-2/B codes, main language first.")
    contributors: Sequence[str] = Field(description="The first three names.")


class CountOut(Out):
    """A value and the number of records that have it."""

    value: str
    count: int


class FacetsOut(Out):
    """The distribution of the found records."""

    total: int
    whole: bool = Field(
        description="Whether all records were counted; if false, `total` is the limit of counting."
    )
    sources: Sequence[CountOut] = Field(description="Counts by repository number.")
    languages: Sequence[CountOut]
    decades: Sequence[CountOut]
    kinds: Sequence[CountOut]


class ContributorOut(Out):
    """A person or body that contributed."""

    name: str
    kind: str
    dates: str
    titles: str
    roles: Sequence[str]
    authority_ids: Sequence[str]
    work: str
    main: bool
    linked: str


class IdentifierOut(Out):
    """A standard number or other identifier."""

    scheme: str
    value: str
    found: str
    state: str
    qualifier: str


class BibliographicRecordOut(Out):
    """A whole bibliographic record."""

    bibliographic_id: int
    repository_id: int
    repository_name: str
    record_id: int | None = Field(description="Identifier of the harvested record.")
    original_url: str | None = Field(description="URL of the record's page at the institution.")
    identifier: str
    metadata_prefix: str
    datestamp: str
    format: str = Field(description="Metadata format that the record was converted from.")
    imported: datetime
    control_number: str
    control_source: str
    kind: str
    title: str
    subtitle: str
    statement: str
    place: str
    publisher: str
    date_text: str
    year_from: int | None
    year_to: int | None
    country: str
    edition: str
    extent: str
    languages: Sequence[str]
    original_languages: Sequence[str]
    contributors: Sequence[ContributorOut]
    identifiers: Sequence[IdentifierOut]
    titles: Sequence[dict[str, Any]]
    publications: Sequence[dict[str, Any]]
    series: Sequence[dict[str, Any]]
    subjects: Sequence[dict[str, Any]]
    genres: Sequence[dict[str, Any]]
    related: Sequence[dict[str, Any]]
    links: Sequence[dict[str, Any]]
    notes: Sequence[dict[str, Any]] = Field(
        description=(
            "Fields that could not be converted, each with kind (note, kept or broken), field, "
            "text and fault."
        )
    )


async def _search(call: Call) -> Page[HitOut]:
    query = call.asked(RecordsPage)
    key = after(call, str)
    try:
        page = await call.database.run(find_hits, call.who, query, after=key, limit=query.limit)
    except UsageError:
        raise unreadable_cursor() from None
    following = link(call, page.next) if page.next is not None else None
    return Page(items=[HitOut.model_validate(hit) for hit in page.hits], next=following)


async def _count(call: Call) -> FacetsOut:
    asked = call.asked(RecordsQuery)
    return FacetsOut.model_validate(
        await call.database.run(lambda session: count_facets(session, restricted(session, call.who, asked)))
    )


async def _show(call: Call) -> BibliographicRecordOut:
    _who, row = await asked_for(call.request, BibliographicRow, call.place["bibliographic_record"])
    found = await call.database.run(get_record, row.bibliographic_id)
    columns = {
        name: getattr(found, name) for name in BibliographicRecordOut.model_fields if name != "record_id"
    }
    return BibliographicRecordOut(**columns, record_id=await call.database.run(made_from, row))


OPERATIONS: Final = (
    Operation(
        name="searchBibliographicRecords",
        method="GET",
        path="/bibliographic-records",
        tag=_TAG,
        summary="Search imported records by words, source, language, year and type.",
        right=Right.LOOK,
        work=_search,
        query=RecordsPage,
        answer=Page[HitOut],
    ),
    Operation(
        name="countBibliographicRecords",
        method="GET",
        path="/bibliographic-records/facets",
        tag=_TAG,
        summary="Count the records that match a search by source, language, decade and type.",
        right=Right.LOOK,
        work=_count,
        query=RecordsQuery,
        answer=FacetsOut,
    ),
    Operation(
        name="getBibliographicRecord",
        method="GET",
        path="/bibliographic-records/{bibliographic_record}",
        tag=_TAG,
        summary="Show an imported record with all its fields.",
        right=Right.LOOK,
        work=_show,
        answer=BibliographicRecordOut,
    ),
)
