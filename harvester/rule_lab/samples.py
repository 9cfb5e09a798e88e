"""Records on which rules are tried: stored ones, or those of a repository's first page."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.bibliographic.sources import harvested_prefixes
from harvester.client.selection import Selection
from harvester.models import Record
from harvester.protocols import open_protocol_client
from harvester.reading.errors import NoRecordsMatchError
from harvester.repositories import base_folder, get_repository
from harvester.vocabulary import AccessProtocol, RecordStatus
from oai.errors import UsageError
from oai.settings import Settings
from oai.vocabulary import Verb

SAMPLES: Final = 100
"""The default number of records."""
MOST_SAMPLES: Final = 5000
_MOST_BYTES: Final = 50_000_000
"""The total size of all samples in bytes, because they are read into memory."""


_COMPARED: Final = 1000
_ANY_KEY: Final = uuid.UUID(int=0)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Records as XML, and the errors of those that could not be read."""

    records: Sequence[bytes]
    unreadable: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A stored record's file."""

    path: Path
    digest: bytes | None


def stored_files(
    session: Session,
    settings: Settings,
    repository_id: int,
    *,
    metadata_prefix: str = "",
    most: int = SAMPLES,
) -> list[StoredFile]:
    """Return files of stored records, practically at random; without a prefix, of the commonest format.

    Raises UsageError if there is no such repository, or no record to try rules on.
    """
    folder = base_folder(get_repository(session, repository_id), settings)
    stored = _stored(repository_id)
    prefix = metadata_prefix or _commonest_prefix(session, repository_id)
    rows = session.execute(
        select(Record.filename, Record.digest)
        .where(*stored, Record.metadata_prefix == prefix)
        .order_by(Record.identifier_key)  # a digest of the identifier: a practically random order
        .limit(max(1, min(most, MOST_SAMPLES)))
    )
    found = [StoredFile(path=folder / str(name), digest=digest) for name, digest in rows]
    if not found:
        raise UsageError(
            "repository %(number)s has no stored records to test on; harvest it first, or test on "
            "its first page",
            number=repository_id,
        )
    return found


def count_stored(session: Session, repository_id: int, metadata_prefix: str = "") -> int:
    """Count the stored records of a format; without a prefix, of the commonest one."""
    stored = _stored(repository_id)
    prefix = metadata_prefix or _commonest_prefix(session, repository_id)
    count = select(func.count()).select_from(Record).where(*stored, Record.metadata_prefix == prefix)
    return session.execute(count).scalar_one()


def _stored(repository_id: int) -> tuple[ColumnElement[bool], ...]:
    return (
        Record.repository_id == repository_id,
        Record.status == RecordStatus.ACTIVE,
        Record.filename.is_not(None),
    )


def _commonest_prefix(session: Session, repository_id: int) -> str | None:
    prefixes = harvested_prefixes(session, repository_id)
    if len(prefixes) < 2:  # noqa: PLR2004 nothing to compare
        return next(iter(prefixes), None)
    return min(prefixes, key=lambda prefix: _rarity(session, repository_id, prefix))


def _rarity(session: Session, repository_id: int, prefix: str) -> tuple[int, uuid.UUID, str]:
    """Return what is smaller the more stored records there are, without counting millions.

    Keys are evenly distributed: the more there are, the smaller is the thousandth.
    """
    keys = session.scalars(
        select(Record.identifier_key)
        .where(*_stored(repository_id), Record.metadata_prefix == prefix)
        .order_by(Record.identifier_key)
        .limit(_COMPARED)
    ).all()
    # Fewer than a thousand are all of them: their number decides, and equal numbers the name.
    return -len(keys), keys[-1] if len(keys) == _COMPARED else _ANY_KEY, prefix


def read_files(files: Sequence[StoredFile], *, most_bytes: int = _MOST_BYTES) -> Samples:
    """Return the contents of those files that are unchanged since they were stored, up to so many bytes.

    The first is returned whatever its size.
    """
    records: list[bytes] = []
    unreadable: list[str] = []
    size = 0
    for file in files:
        try:
            data = file.path.read_bytes()
        except OSError as error:
            unreadable.append(f"{file.path.name}: {error.strerror or type(error).__name__}")
            continue
        if file.digest is not None and hashlib.sha256(data).digest() != file.digest:
            unreadable.append(f"{file.path.name}: its contents differ from what was stored")
            continue
        size += len(data)
        if records and size > most_bytes:
            unreadable.append(f"{file.path.name}: with it, the samples have more than {most_bytes:,} bytes")
            break
        records.append(data)
    return Samples(records=records, unreadable=unreadable)


async def first_page(
    base_url: str,
    settings: Settings,
    *,
    protocol: str = AccessProtocol.OAI_PMH,
    metadata_prefix: str = "",
    set_spec: str = "",
    most: int = SAMPLES,
) -> Samples:
    """Return the records of a repository's first page, of a set or query; requested with one retry.

    Raises SelectionError for an invalid set or query, ClientError and TryLaterError if the page is not
    available, and SettingsError if a program that the protocol needs is missing.
    """
    access = access_of(protocol)
    access.check(set_spec)
    selection = Selection(metadata_prefix=metadata_prefix or access.usual_format, set_spec=set_spec or None)
    async with open_protocol_client(protocol, base_url, settings.harvester, retries=1) as client:
        try:
            page = await anext(client.pages(Verb.LIST_RECORDS, selection, loose=True))
        except NoRecordsMatchError:
            return Samples(records=())
    return Samples(
        records=[record.xml() for record in page.records[:most]],
        unreadable=[fault.reason for fault in page.faults],
    )
