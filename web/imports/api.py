"""REST API: sources of the bibliographic import, imports, and the bibliographic records that they make."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import ConfigDict, Field

from harvester.bibliographic.facets import FacetCount, count_facets
from harvester.bibliographic.imports import list_imports, list_omissions
from harvester.bibliographic.models import BibliographicRow
from harvester.bibliographic.record_view import get_record, made_from
from harvester.bibliographic.search import Hit
from harvester.models import Repository
from oai.errors import UsageError
from oai.rights import Right
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operations
from web.api.paging import after, link, list_page, unreadable_cursor
from web.api.shapes import Flag, In, Out, Page, Paged
from web.auth.access import about, visible_repositories
from web.imports.pages_records import RecordSearch, find_hits, restricted
from web.imports.sources import (
    IMPORTS,
    SourceForm,
    SourceView,
    change_source,
    field_of,
    find_source,
    list_sources,
    with_running_import,
)
from web.site.paging import LARGEST_BIGINT

OPERATIONS: Final = Operations("imports")
RECORD_OPERATIONS: Final = Operations("bibliographic records")


class SourceSettingsOut(Out):
    """Import settings of a repository."""

    after_harvest: bool
    set_id: int | None
    metadata_prefix: str | None
    record_url_template: str | None


class ImportOut(Out):
    """An import, running or ended."""

    import_id: int
    repository_id: int
    metadata_prefix: str | None
    state: str
    started_by: str
    started: datetime
    ended: datetime | None
    expected: int | None = Field(description="Number of records to process.")
    seen: int
    new: int
    updated: int
    unchanged: int
    deleted: int
    filtered: int = Field(description="Records skipped by the filtering set.")
    refused: int
    total: int | None = Field(description="Imported records of the repository at the end of the import.")
    failure_reason: str | None
    failure_code: str | None = Field(description="Failure code; see the reference of failure codes.")
    failure_facts: dict[str, Any] | None = Field(description="Facts that belong to the failure code.")


class ImportSourceOut(Out):
    """A repository as an import source."""

    repository_id: int
    name: str
    settings: SourceSettingsOut
    set_name: str | None
    state: str = Field(description="State of the last import; queued until it starts.")
    trouble: str | None = Field(description="Reason why the last import did not start.")
    last: ImportOut | None


class SourceChange(SourceForm):
    """All new import settings."""

    model_config = ConfigDict(extra="forbid")


class Begun(Out):
    """Whether an import was started; false if one is already queued or running."""

    begun: bool


class OmissionOut(Out):
    """A harvested record without a bibliographic record, and the reason."""

    identifier: str
    metadata_prefix: str
    kind: str = Field(description="filtered, refused or unreadable.")
    reason: str


class Omissions(Out):
    """Records that were not imported."""

    items: list[OmissionOut]


class OmissionQuery(In):
    """Filters for records that were not imported."""

    filtered: Flag = Field(
        default=False, description="List records skipped by a filtering set instead of rejected records."
    )
    limit: int = Field(100, ge=1, le=1000, description="Maximum number of items.")


@OPERATIONS.add("GET /import-sources", "listImportSources", Right.LOOK, query=Paged)
async def _sources(call: Call) -> Page[ImportSourceOut]:
    """List repositories as import sources, each with its last import."""
    find = partial(list_sources, among=visible_repositories(call.who))
    return await list_page(call, find, lambda view: _shown(call, view), after=lambda view: view.repository_id)


@OPERATIONS.add("GET /repositories/{repository}/import-source", "getImportSource", Right.LOOK)
async def _source(call: Call) -> ImportSourceOut:
    """Show a repository's import settings and its last import."""
    repository = await call.row(Repository, "repository")
    return _shown(call, await call.database.run(find_source, repository.repository_id))


@OPERATIONS.add(
    "PUT /repositories/{repository}/import-source", "changeImportSource", Right.HARVEST, body=SourceChange
)
async def _change(call: Call) -> ImportSourceOut:
    """Change a repository's import settings."""
    repository = await call.row(Repository, "repository")
    about(call.request, "import source", repository.repository_id, repository.display_name)
    try:
        await call.database.run(change_source, call.who, repository.repository_id, call.sent(SourceChange))
    except UsageError as error:
        fault = FieldFault(pointer=f"/{field_of(error)}", detail=str(error))
        raise ApiError(422, str(error), errors=[fault]) from None
    return _shown(call, await call.database.run(find_source, repository.repository_id))


@OPERATIONS.add("GET /repositories/{repository}/imports", "listImports", Right.LOOK, query=Paged)
async def _imports(call: Call) -> Page[ImportOut]:
    """List a repository's imports, newest first."""
    repository = await call.row(Repository, "repository")
    find, shown = partial(list_imports, repository_id=repository.repository_id), ImportOut.model_validate
    return await list_page(call, find, shown, largest=LARGEST_BIGINT, before=lambda row: row.import_id)


@OPERATIONS.add("POST /repositories/{repository}/imports", "beginImport", Right.HARVEST, status=202)
async def _begin(call: Call) -> Begun:
    """Start an import of new and changed records, in a separate process."""
    repository = await call.row(Repository, "repository")
    about(call.request, "import source", repository.repository_id, repository.display_name)
    processes = call.request.config_dict[IMPORTS]
    return Begun(begun=bool(await processes.begin([repository.repository_id], by=call.who.name)))


@OPERATIONS.add("GET /repositories/{repository}/omissions", "listOmissions", Right.LOOK, query=OmissionQuery)
async def _omissions(call: Call) -> Omissions:
    """List a repository's records that were not imported, with reasons."""
    repository = await call.row(Repository, "repository")
    query = call.asked(OmissionQuery)
    rows = await call.database.run(
        list_omissions,
        repository_id=repository.repository_id,
        kinds=("filtered",) if query.filtered else ("refused", "unreadable"),
        limit=query.limit,
    )
    return Omissions(items=[OmissionOut.model_validate(row) for row in rows])


def _shown(call: Call, view: SourceView) -> ImportSourceOut:
    return ImportSourceOut.model_validate(with_running_import(view, call.request.config_dict[IMPORTS]))


class RecordsQuery(RecordSearch):
    """Which records."""

    model_config = ConfigDict(extra="forbid")


class RecordsPage(RecordSearch, Paged):
    """Search criteria and paging."""


class HitOut(Out, Hit):
    """A record in a list."""

    date_text: str = Field(description="The date as given in the record.")
    languages: Sequence[str] = Field(description="ISO 639-2/B codes, main language first.")
    contributors: Sequence[str] = Field(description="The first three names.")


class CountOut(Out, FacetCount):
    """A value and the number of records that have it."""


class FacetsOut(Out):
    """The distribution of the found records."""

    total: int
    whole: bool = Field(
        description="Whether all records were counted; if false, `total` is the limit of counting."
    )
    sources: Sequence[CountOut] = Field(description="Counts by repository number.")
    languages: Sequence[CountOut]
    decades: Sequence[CountOut] = Field(
        description="Counts by the decade of the first year; searches by year find overlapping years, too."
    )
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


@RECORD_OPERATIONS.add(
    "GET /bibliographic-records", "searchBibliographicRecords", Right.LOOK, query=RecordsPage
)
async def _search(call: Call) -> Page[HitOut]:
    """Search imported records by words, source, language, year and type."""
    query = call.asked(RecordsPage)
    key = after(call, str)
    try:
        page = await call.database.run(find_hits, call.who, query, after=key, limit=query.limit)
    except UsageError:
        raise unreadable_cursor() from None
    following = link(call, page.next) if page.next is not None else None
    return Page(items=[HitOut.model_validate(hit) for hit in page.hits], next=following)


@RECORD_OPERATIONS.add(
    "GET /bibliographic-records/facets", "countBibliographicRecords", Right.LOOK, query=RecordsQuery
)
async def _count(call: Call) -> FacetsOut:
    """Count the records that match a search by source, language, decade and type."""
    asked = call.asked(RecordsQuery)
    return FacetsOut.model_validate(
        await call.database.run(lambda session: count_facets(session, restricted(session, call.who, asked)))
    )


@RECORD_OPERATIONS.add(
    "GET /bibliographic-records/{bibliographic_record}", "getBibliographicRecord", Right.LOOK
)
async def _show(call: Call) -> BibliographicRecordOut:
    """Show an imported record with all its fields."""
    row = await call.row(BibliographicRow, "bibliographic_record")
    found = await call.database.run(get_record, row.bibliographic_id)
    return BibliographicRecordOut.from_row(found, record_id=await call.database.run(made_from, row))
