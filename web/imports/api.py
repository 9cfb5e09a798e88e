"""REST API: sources of the bibliographic import, their settings, and imports."""

from datetime import datetime
from typing import Any, Final

from pydantic import ConfigDict, Field

from harvester.bibliographic.imports import list_imports, list_omissions
from oai.errors import UsageError
from oai.rights import Right
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operation
from web.api.paging import after, page_of
from web.api.shapes import In, Out, Page, Paged, Told
from web.auth.access import about, visible_repositories
from web.imports.sources import (
    IMPORTS,
    SourceForm,
    SourceView,
    as_it_stands,
    change_source,
    find_source,
    list_sources,
)
from web.repositories.api import repository_asked

_TAG: Final = "imports"
_SOURCE: Final = "/repositories/{repository}/import-source"
_IMPORTS: Final = "/repositories/{repository}/imports"


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

    filtered: Told = Field(
        default=False, description="List records skipped by a filtering set instead of refused records."
    )
    limit: int = Field(100, ge=1, le=1000, description="Maximum number of items.")


async def _sources(call: Call) -> Page[ImportSourceOut]:
    rows = await call.database.run(
        list_sources,
        among=visible_repositories(call.who),
        limit=call.asked(Paged).limit + 1,
        after=after(call, int) or 0,
    )
    return page_of(call, rows, lambda view: _shown(call, view), lambda view: view.repository_id)


async def _source(call: Call) -> ImportSourceOut:
    repository = await repository_asked(call)
    return _shown(call, await call.database.run(find_source, repository.repository_id))


async def _change(call: Call) -> ImportSourceOut:
    repository = await repository_asked(call)
    about(call.request, "import source", repository.repository_id, repository.repository_name)
    try:
        await call.database.run(change_source, call.who, repository.repository_id, call.sent(SourceChange))
    except UsageError as error:
        fault = FieldFault(pointer="/set_id", detail=str(error))
        raise ApiError(422, str(error), errors=[fault]) from None
    return _shown(call, await call.database.run(find_source, repository.repository_id))


async def _imports(call: Call) -> Page[ImportOut]:
    repository = await repository_asked(call)
    rows = await call.database.run(
        list_imports,
        repository_id=repository.repository_id,
        before=after(call, int),
        limit=call.asked(Paged).limit + 1,
    )
    return page_of(call, rows, ImportOut.model_validate, lambda row: row.import_id)


async def _begin(call: Call) -> Begun:
    repository = await repository_asked(call)
    about(call.request, "import source", repository.repository_id, repository.repository_name)
    processes = call.request.config_dict[IMPORTS]
    return Begun(begun=bool(await processes.begin([repository.repository_id], by=call.who.name)))


async def _omissions(call: Call) -> Omissions:
    repository = await repository_asked(call)
    query = call.asked(OmissionQuery)
    rows = await call.database.run(
        list_omissions,
        repository_id=repository.repository_id,
        kinds=("filtered",) if query.filtered else ("refused", "unreadable"),
        limit=query.limit,
    )
    return Omissions(items=[OmissionOut.model_validate(row) for row in rows])


def _shown(call: Call, view: SourceView) -> ImportSourceOut:
    return ImportSourceOut.model_validate(as_it_stands(view, call.request.config_dict[IMPORTS]))


OPERATIONS: Final = (
    Operation(
        name="listImportSources",
        method="GET",
        path="/import-sources",
        tag=_TAG,
        summary="List repositories as import sources, each with its last import.",
        right=Right.LOOK,
        work=_sources,
        query=Paged,
        answer=Page[ImportSourceOut],
    ),
    Operation(
        name="getImportSource",
        method="GET",
        path=_SOURCE,
        tag=_TAG,
        summary="Show a repository's import settings and its last import.",
        right=Right.LOOK,
        work=_source,
        answer=ImportSourceOut,
    ),
    Operation(
        name="changeImportSource",
        method="PUT",
        path=_SOURCE,
        tag=_TAG,
        summary="Change a repository's import settings.",
        right=Right.HARVEST,
        work=_change,
        body=SourceChange,
        answer=ImportSourceOut,
    ),
    Operation(
        name="listImports",
        method="GET",
        path=_IMPORTS,
        tag=_TAG,
        summary="List a repository's imports, newest first.",
        right=Right.LOOK,
        work=_imports,
        query=Paged,
        answer=Page[ImportOut],
    ),
    Operation(
        name="beginImport",
        method="POST",
        path=_IMPORTS,
        tag=_TAG,
        summary="Start an import of new and changed records, in a separate process.",
        right=Right.HARVEST,
        work=_begin,
        answer=Begun,
        status=202,
    ),
    Operation(
        name="listOmissions",
        method="GET",
        path="/repositories/{repository}/omissions",
        tag=_TAG,
        summary="List a repository's records that were not imported, with reasons.",
        right=Right.LOOK,
        work=_omissions,
        query=OmissionQuery,
        answer=Omissions,
    ),
)
