"""The stored MARC records of a repository as written, read one after the other in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from lxml import etree
from sqlalchemy.orm import Session

from harvester.bibliographic.candidates import FIRST, read_named, read_sample
from harvester.bibliographic.converters import (
    Candidate,
    NoMetadataError,
    UnreadableFileError,
    metadata_in,
    read_metadata,
)
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.marc21.kinds import declined, is_marc
from harvester.bibliographic.marc21.structure import WrittenRecord, marc_lines
from harvester.bibliographic.marc21.validation import written_records
from harvester.bibliographic.models import BibliographicRow
from harvester.bibliographic.record_view import FoundRecord, made_from
from harvester.bibliographic.sources import marc_prefix
from harvester.models import Record
from harvester.repositories import base_folder, get_repository
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings

_AT_ONCE: Final = 500


@dataclass(frozen=True, kw_only=True)
class MarcSource:
    """The records of one repository in one format."""

    repository_id: int
    metadata_prefix: str
    folder: Path


@dataclass(frozen=True, kw_only=True)
class StoredMarc:
    """A harvested record: the bibliographic MARC records in it, or why there is none."""

    identifier: str
    records: Sequence[WrittenRecord] = ()
    """Usually one; a collection may contain several."""
    unreadable: str = ""
    """Why its file cannot be read."""
    other: str = ""
    """Why it is no bibliographic MARC record, if its file can be read."""


def marc_source(
    database: Database, settings: Settings, repository_id: int, wanted: str | None = None
) -> MarcSource:
    """Return where the MARC records of a repository are.

    Raises UsageError if there is no such repository, or it has no MARC records (in the wanted format).
    """
    with database.session() as session:
        folder = base_folder(get_repository(session, repository_id), settings)
        prefix = marc_prefix(session, repository_id, folder, wanted)
    return MarcSource(repository_id=repository_id, metadata_prefix=prefix, folder=folder)


def read_stored_marc(
    database: Database, source: MarcSource, *, most: int | None = None
) -> Iterator[StoredMarc]:
    """Yield the records that are not deleted, practically in random order, at most `most` of them.

    No transaction is open while files are read or the caller works.
    """
    for stored, metadata in stored_metadata(database, source, most=most):
        yield stored if metadata is None else replace(stored, records=written_records(metadata))


def stored_metadata(
    database: Database, source: MarcSource, *, most: int | None = None
) -> Iterator[tuple[StoredMarc, etree._Element | None]]:
    """Yield what `read_stored_marc` does without its `records`, and the metadata in which they are.

    There is no metadata if the file cannot be read, or has no bibliographic MARC record.
    """
    after, left = FIRST, most
    while left is None or left > 0:
        wanted = _AT_ONCE if left is None else min(_AT_ONCE, left)
        with database.session() as session:
            page = read_sample(
                session, source.repository_id, source.metadata_prefix, most=wanted, after=after
            )
        unread = []
        for candidate in page:
            found = _read(source.folder, candidate)
            if found[0].unreadable:
                unread.append(candidate.key)
            else:
                yield found
        # A harvest may have replaced them since the page was read.
        for candidate in _present(database, source, unread):
            yield _read(source.folder, candidate)
        if len(page) < wanted:
            return
        after = page[-1].key
        left = None if left is None else left - len(page)


def _present(database: Database, source: MarcSource, keys: Sequence[UUID]) -> list[Candidate]:
    """Return those of the records that are still stored and not deleted, by their present rows."""
    if not keys:
        return []
    with database.session() as session:
        return read_named(session, source.repository_id, source.metadata_prefix, keys)


def _read(folder: Path, candidate: Candidate) -> tuple[StoredMarc, etree._Element | None]:
    try:
        metadata = read_metadata(folder, candidate)
    except (UnreadableFileError, NoMetadataError) as error:
        return StoredMarc(identifier=candidate.identifier, unreadable=str(error)), None
    other = why_not_bibliographic(metadata)
    stored = StoredMarc(identifier=candidate.identifier, other=other)
    return stored, None if other else metadata


def why_not_bibliographic(metadata: etree._Element) -> str:
    """Return why an element is no bibliographic MARC record, or an empty text."""
    return declined(metadata) if is_marc(metadata) else "not a MARC record"


def lines_in(data: bytes) -> list[str]:
    """Return the MARC records in a record's file as lines, with an empty line between two.

    Without a bibliographic MARC record that can be read, there are no lines.
    """
    try:
        metadata = metadata_in(data, source="the record")
    except (UnreadableFileError, NoMetadataError):
        return []
    if not is_marc(metadata):
        return []
    lines = [line for one in written_records(metadata) for line in (*marc_lines(one), "")]
    return lines[:-1]


def record_lines(session: Session, settings: Settings, found: FoundRecord) -> list[str]:
    """Return the MARC record from which a bibliographic one was made as lines, like `lines_in`.

    Raises UsageError if it was not made from MARC, or the harvested record is not stored any more.
    """
    number = found.bibliographic_id
    if found.format != Marc21Converter.name:
        raise UsageError(f"record {number} is in the format {found.metadata_prefix}, which is not MARC")
    made = made_from(session, session.get_one(BibliographicRow, number))
    name = None if made is None else session.get_one(Record, made).filename
    file = base_folder(get_repository(session, found.repository_id), settings) / name if name else None
    try:
        lines = [] if file is None else lines_in(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; for details, run `zatva store verify`") from None
    if not lines:
        raise UsageError(f"the MARC record of {number} is not stored any more; harvest it again")
    return lines
