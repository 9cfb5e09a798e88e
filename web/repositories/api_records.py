"""REST API: harvested records: list by repository, show, content of their files."""

import asyncio
import uuid
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web
from pydantic import Field

from harvester.bibliographic.record_view import described_as
from harvester.listing import find_records, sets_of_record
from harvester.models import Record, Repository
from harvester.repositories import base_folder
from oai.rights import Right
from web.api.faults import ApiError
from web.api.operations import PREFIX, Call, Operations
from web.api.paging import list_page
from web.api.shapes import Out, Page, Paged
from web.runs.api import attachment

OPERATIONS: Final = Operations("records")


class RecordLine(Out):
    """A harvested record in a list."""

    record_id: int
    repository_id: int
    identifier: str
    metadata_prefix: str
    datestamp: str
    status: str = Field(description="active or deleted.")
    update_flag: str = Field(
        description="Result of the last run that processed it: new, updated, unchanged or deleted."
    )
    harvest_time: datetime
    filename: str | None = Field(description="Path below the repository's folder.")
    deletion_reason: str | None
    content: str | None = Field(description="URL of the file's content.")


class RecordOut(RecordLine):
    """A harvested record."""

    sets: list[str]
    digest: str | None = Field(description="SHA-256 of the file.")
    bibliographic_id: int | None = Field(description="Number of the bibliographic record made from it.")


class RecordQuery(Paged):
    """Filters for records."""

    metadata_prefix: str | None = Field(
        None, min_length=1, max_length=200, description="Limit to this metadata format."
    )
    identifier: str | None = Field(
        None, min_length=1, max_length=4000, description="Limit to this identifier."
    )


@OPERATIONS.add("GET /repositories/{repository}/records", "listRecords", Right.LOOK, query=RecordQuery)
async def _list(call: Call) -> Page[RecordLine]:
    """List a repository's records."""
    repository = await call.row(Repository, "repository")
    query = call.asked(RecordQuery)
    find = partial(
        find_records,
        repository_id=repository.repository_id,
        metadata_prefix=query.metadata_prefix,
        identifier=query.identifier,
    )
    kind = tuple[str, uuid.UUID]
    return await list_page(
        call, find, _line, kind=kind, after=lambda row: (row.metadata_prefix, str(row.identifier_key))
    )


@OPERATIONS.add("GET /records/{record}", "getRecord", Right.LOOK)
async def _show(call: Call) -> RecordOut:
    """Show a record."""
    row = await call.row(Record, "record")
    sets = await call.database.run(sets_of_record, row.record_id)
    digest = row.digest.hex() if row.digest is not None else None
    return RecordOut(
        **_line(row).model_dump(),
        sets=list(sets),
        digest=digest,
        bibliographic_id=await call.database.run(described_as, row),
    )


@OPERATIONS.add(
    "GET /records/{record}/content", "getRecordContent", Right.LOOK, media="application/octet-stream"
)
async def _content(call: Call) -> web.Response:
    """Download a record's file with its header and metadata."""
    row = await call.row(Record, "record")
    if row.filename is None:
        raise ApiError(404, f"record {row.record_id} is deleted, and so is its file")
    repository = await call.database.run(lambda session: session.get_one(Repository, row.repository_id))
    root = await asyncio.to_thread(base_folder(repository, call.settings).resolve)
    path = root / row.filename
    try:
        data = await asyncio.to_thread(_read, root, path)
    except OSError as error:
        raise ApiError(
            404, f"the file {row.filename!r} of record {row.record_id} cannot be read: {error.strerror}"
        ) from None
    return attachment(data, f"record-{row.record_id}.xml")


def _read(root: Path, path: Path) -> bytes:
    if not path.resolve().is_relative_to(root):
        raise FileNotFoundError(2, "it is outside the repository's folder")
    return path.read_bytes()


def _line(row: Record) -> RecordLine:
    content = f"{PREFIX}/records/{row.record_id}/content" if row.filename is not None else None
    return RecordLine.from_row(row, content=content)
