"""Downloads of a repository's stored records as XML: as ListRecords has them, or as MARCXML."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.bibliographic.sources import harvested_prefixes, marc_prefix
from harvester.bibliographic.stored_marc import marc_source
from harvester.models import Repository
from harvester.repositories import base_folder
from harvester.xml_export import marcxml_records, oai_records
from oai.errors import UsageError
from oai.settings import Settings
from web.auth.access import asked_for
from web.auth.audit import record_export
from web.site.export import stream
from web.site.i18n import error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import text_in
from web.site.params import NUMBER

_XML: Final = "application/xml"


@dataclass(frozen=True, kw_only=True)
class Downloads:
    """What can be downloaded of a repository's records."""

    formats: Sequence[str]
    """Formats in which records are stored."""
    marc: str | None
    """The first of them whose records are MARC 21."""


def find_downloads(session: Session, settings: Settings, repository: Repository) -> Downloads:
    """Return the formats of the stored records, for links to downloads."""
    number = repository.repository_id
    try:
        marc = marc_prefix(session, number, base_folder(repository, settings))
    except UsageError:
        marc = None
    return Downloads(formats=harvested_prefixes(session, number), marc=marc)


async def records(request: web.Request) -> web.StreamResponse:
    """Download the records, also deleted ones; in one format or with one identifier if the query names it."""
    repository = await asked_for(request, Repository)
    pieces = oai_records(
        database_of(request).database,
        repository.repository_id,
        base_folder(repository, request.config_dict[SETTINGS]),
        metadata_prefix=text_in(request, "metadata_prefix") or None,
        identifier=request.query.get("identifier", "").strip() or None,
    )
    await record_export(request, "records", "xml")
    name = f"zatva-records-{repository.repository_id}.xml"
    return await stream(request, pieces, media=_XML, file_name=name)


async def marc(request: web.Request) -> web.StreamResponse:
    """Download the bibliographic MARC records that are not deleted as a MARCXML collection."""
    repository = await asked_for(request, Repository)
    number, prefix = repository.repository_id, text_in(request, "metadata_prefix") or None
    database, settings = database_of(request), request.config_dict[SETTINGS]
    try:
        source = await database.run_apart(marc_source, settings, number, prefix)
    except UsageError as error:
        raise web.HTTPNotFound(text=error_text(error)) from None
    await record_export(request, "records", "marcxml")
    pieces = marcxml_records(database.database, source)
    return await stream(request, pieces, media=_XML, file_name=f"zatva-marc-{number}.xml")


ROUTES = (
    web.get(f"/repositories/{NUMBER}/records.xml", records, allow_head=False),
    web.get(f"/repositories/{NUMBER}/marc.xml", marc, allow_head=False),
)
