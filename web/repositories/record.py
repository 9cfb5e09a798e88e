"""The page of a harvested record: its header, its file, and its versions."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.bibliographic.record_view import described_as
from harvester.bibliographic.stored_marc import lines_in
from harvester.listing import Among, sets_of_record
from harvester.models import Record, Repository
from harvester.repositories import base_folder
from harvester.rule_lab.explanation import difference
from harvester.store.versions import ListedVersion, list_versions, version_content
from manager.rule_usage import RuleRead, rules_read
from oai.errors import MalformedXmlError
from oai.xml import indented, parse
from web.auth.access import asked_for, visible_repositories, who_asks
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.params import BIG_NUMBER
from web.site.render import render

_MOST_SHOWN: Final = 200_000
_MOST_COMPARED: Final = 4 * 1024**2
"""Bytes; larger versions are not kept."""


async def show(request: web.Request) -> web.Response:
    """Show one record: its header, and its file unchanged."""
    record = await asked_for(request, Record)
    database = database_of(request)
    repository = await asked_for(request, Repository, record.repository_id)
    sets = await database.run(sets_of_record, record.record_id)
    file = (
        base_folder(repository, request.config_dict[SETTINGS]) / record.filename if record.filename else None
    )
    text, size = await asyncio.to_thread(_read, file) if file else (None, 0)
    versions = await database.run(_versions, record, visible_repositories(who_asks(request)))
    return render(
        request,
        "record.html",
        versions=versions,
        **await _compared(request, record, [one.version_id for one, _rules in versions], file),
        record=record,
        repository=repository,
        access=access_of(repository.protocol),
        described=await database.run(described_as, record),
        sets=sets,
        text=text,
        size=size,
        lines=await asyncio.to_thread(_marc_lines, file),
    )


def _versions(session: Session, record: Record, among: Among) -> list[tuple[ListedVersion, list[RuleRead]]]:
    """Return the versions, each with the rules that the run which stored or replaced it has read."""
    versions = list_versions(session, record)
    return [(one, rules_read(session, one.run, among=among) if one.run else []) for one in versions]


async def _compared(
    request: web.Request, record: Record, versions: Sequence[int | None], file: Path | None
) -> dict[str, Any]:
    """Return the difference between the version in the query string and the one that is kept after it."""
    chosen = request.query.get("version", "")
    if not chosen:
        return {"chosen": None, "diff": ""}
    if chosen not in map(str, versions[1:]):
        raise web.HTTPNotFound(text=_("This version is not kept. List the record's versions on its page."))
    place = list(map(str, versions)).index(chosen)
    run, number = database_of(request).run, record.record_id
    old = await run(version_content, number, int(chosen))
    after = versions[place - 1]
    new = await (run(version_content, number, after) if after else asyncio.to_thread(_bytes, file))
    names = (_("before"), _("afterwards"))
    diff = await asyncio.to_thread(difference, _lines(old), _lines(new), names=names)
    return {"chosen": int(chosen), "diff": diff[:_MOST_SHOWN]}


def _lines(data: bytes | None) -> str:
    """Return the beginning of a record, elements on separate lines; as it is if it is not well-formed.

    The time of a comparison grows with the square of its lines in the worst case.
    """
    try:
        return indented(parse(data or b"", source="the record"))[:_MOST_SHOWN]
    except MalformedXmlError:
        return (data or b"")[:_MOST_SHOWN].decode("utf-8", errors="replace")


def _bytes(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_COMPARED)
    except OSError:
        return None


def _marc_lines(file: Path | None) -> str:
    """Return the MARC record in the file, a line for each field; empty if there is none."""
    return "\n".join(lines_in(_bytes(file) or b""))[:_MOST_SHOWN]


def _read(file: Path) -> tuple[str | None, int]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_SHOWN + 1)
    except OSError:
        return None, 0
    return data[:_MOST_SHOWN].decode("utf-8", errors="replace"), len(data)


ROUTES = (web.get(f"/records/{BIG_NUMBER}", show),)
