"""Harvested records of a repository: list, search by identifier, and one record with its file."""

import asyncio
import uuid
from pathlib import Path
from typing import Final

from aiohttp import web

from harvester.access import access_of
from harvester.bibliographic.record_view import described_as
from harvester.listing import find_records, sets_of_record
from harvester.models import Record, Repository
from harvester.repositories import base_folder
from web.auth.access import asked_for
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.params import NUMBER
from web.site.render import render

_PAGE: Final = 50
_MOST_SHOWN: Final = 200_000
_BIG_NUMBER: Final = r"{id:[1-9][0-9]{0,17}}"


async def listing(request: web.Request) -> web.Response:
    """List the records in pages, or the one with the given identifier."""
    _who, repository = await asked_for(request, Repository)
    identifier = request.query.get("identifier", "").strip()
    found = await database_of(request).run(
        find_records,
        repository.repository_id,
        limit=_PAGE + 1,
        after=_after(request),
        identifier=identifier or None,
    )
    last = found[_PAGE - 1] if len(found) > _PAGE else None
    return render(
        request,
        "records.html",
        repository=repository,
        records=found[:_PAGE],
        identifier=identifier,
        first=_after(request) is None,
        next=f"{last.metadata_prefix}|{last.identifier_key}" if last else None,
    )


async def show(request: web.Request) -> web.Response:
    """Show one record: its header, and its file unchanged."""
    _who, record = await asked_for(request, Record)
    database = database_of(request)
    _again, repository = await asked_for(request, Repository, record.repository_id)
    sets = await database.run(sets_of_record, record.record_id)
    file = (
        base_folder(repository, request.config_dict[SETTINGS]) / record.filename if record.filename else None
    )
    text, size = await asyncio.to_thread(_read, file) if file else (None, 0)
    return render(
        request,
        "record.html",
        record=record,
        repository=repository,
        access=access_of(repository.protocol),
        described=await database.run(described_as, record),
        sets=sets,
        text=text,
        size=size,
    )


def _read(file: Path) -> tuple[str | None, int]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_SHOWN + 1)
    except OSError:
        return None, 0
    return data[:_MOST_SHOWN].decode("utf-8", errors="replace"), len(data)


def _after(request: web.Request) -> tuple[str, uuid.UUID] | None:
    prefix, _bar, key = request.query.get("after", "").rpartition("|")
    try:
        return (prefix, uuid.UUID(key)) if prefix else None
    except ValueError:
        raise web.HTTPNotFound(text=_("This page of the list does not exist.")) from None


ROUTES = (
    web.get(f"/repositories/{NUMBER}/records", listing),
    web.get(f"/records/{_BIG_NUMBER}", show),
)
