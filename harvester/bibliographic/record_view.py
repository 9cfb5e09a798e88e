"""A bibliographic record in full detail, with the link to the original at its institution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from harvester.bibliographic.models import BibliographicRow, ContributorRow, IdentifierRow, ImportSource
from harvester.bibliographic.record import Contributor, Identifier
from harvester.bibliographic.search import Hit
from harvester.bibliographic.sources import local_part, record_url
from harvester.models import Record, Repository
from harvester.store.paths import identifier_key
from oai.errors import UsageError
from oai.models import from_row

Parts = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class FoundRecord:
    """A record; its parts are as `record` describes them, JSON parts as objects."""

    bibliographic_id: int
    repository_id: int
    repository_name: str
    original_url: str | None
    """The record's page at its institution; None without a template, or if the record lacks a number."""
    identifier: str
    metadata_prefix: str
    datestamp: str
    format: str
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
    contributors: Sequence[Contributor]
    identifiers: Sequence[Identifier]
    titles: Parts
    publications: Parts
    series: Parts
    subjects: Parts
    genres: Parts
    related: Parts
    links: Parts
    notes: Parts


def get_record(session: Session, bibliographic_id: int) -> FoundRecord:
    """Return the record with that id. Raises UsageError if it does not exist (any more)."""
    row = session.get(BibliographicRow, bibliographic_id)
    if row is None:
        raise UsageError(
            f"no bibliographic record {bibliographic_id}; find records with `zatva import search`"
        )
    repository = session.get_one(Repository, row.repository_id)
    source = session.get(ImportSource, row.repository_id)
    return from_row(
        FoundRecord,
        row,
        repository_name=repository.display_name,
        original_url=record_url(
            source.record_url_template if source is not None else None,
            {
                "identifier": row.identifier,
                "local": local_part(row.identifier),
                "control_number": row.control_number,
            },
        ),
        contributors=_contributors(session, bibliographic_id),
        identifiers=_identifiers(session, bibliographic_id),
    )


@dataclass(frozen=True, kw_only=True)
class DetailedHit(Hit):
    """A record that was found, with what files of hits have beside what lists show."""

    identifier: str
    """The OAI identifier of the harvested record."""
    source: str
    """The repository's name."""
    numbers: Sequence[str]
    """Such as `isbn:9788020001290`; those that are not valid have their state in brackets."""
    subjects: Sequence[str]


def with_details(session: Session, hits: Sequence[Hit]) -> list[DetailedHit]:
    """Return the hits, in this order, with their details; of those removed meanwhile these are empty."""
    ids = [hit.bibliographic_id for hit in hits]
    of_record = (
        select(
            BibliographicRow.bibliographic_id,
            BibliographicRow.identifier,
            Repository.display_name.label("source"),
            BibliographicRow.subjects,
        )
        .join(Repository, Repository.repository_id == BibliographicRow.repository_id)
        .where(BibliographicRow.bibliographic_id.in_(ids))
    )
    found = {number: details for number, *details in session.execute(of_record)}
    numbers = _numbers(session, ids)
    return [
        from_row(
            DetailedHit,
            hit,
            identifier=identifier,
            source=source,
            numbers=numbers.get(hit.bibliographic_id, []),
            subjects=[text for one in subjects if (text := one.get("text"))],
        )
        for hit in hits
        for identifier, source, subjects in [found.get(hit.bibliographic_id, ["", "", []])]
    ]


def _numbers(session: Session, ids: Sequence[int]) -> Mapping[int, Sequence[str]]:
    rows = (
        select(IdentifierRow)
        .where(IdentifierRow.bibliographic_id.in_(ids))
        .order_by(IdentifierRow.bibliographic_id, IdentifierRow.position)
    )
    found: dict[int, list[str]] = {}
    for row in session.scalars(rows):
        state = "" if row.state == "valid" else f" ({row.state})"
        found.setdefault(row.bibliographic_id, []).append(f"{row.scheme}:{row.value}{state}")
    return found


def described_as(session: Session, record: Record) -> int | None:
    """Return the id of the bibliographic record made from a harvested one; None if there is none."""
    return session.scalar(
        select(BibliographicRow.bibliographic_id).where(
            BibliographicRow.repository_id == record.repository_id,
            BibliographicRow.metadata_prefix == record.metadata_prefix,
            BibliographicRow.identifier_key == record.identifier_key,
        )
    )


@dataclass(frozen=True, kw_only=True)
class TitledRecord:
    """A record as lists of identifiers show it."""

    identifier: str
    record_id: int | None
    """None if it is not in the store."""
    title: str
    """Empty if the record was not imported."""


def titled(
    session: Session, repository_id: int, metadata_prefix: str, identifiers: Sequence[str]
) -> list[TitledRecord]:
    """Return the records with these identifiers, in this order, with their titles."""
    keys = {identifier: identifier_key(identifier) for identifier in identifiers}
    same = (
        BibliographicRow.repository_id == Record.repository_id,
        BibliographicRow.metadata_prefix == Record.metadata_prefix,
        BibliographicRow.identifier_key == Record.identifier_key,
    )
    query = (
        select(Record.identifier_key, Record.record_id, BibliographicRow.title)
        .outerjoin(BibliographicRow, and_(*same))
        .where(
            Record.repository_id == repository_id,
            Record.metadata_prefix == metadata_prefix,
            Record.identifier_key.in_(keys.values()),
        )
    )
    found = {key: (number, title or "") for key, number, title in session.execute(query)}
    return [
        TitledRecord(identifier=identifier, record_id=number, title=title)
        for identifier, key in keys.items()
        for number, title in [found.get(key, (None, ""))]
    ]


def made_from(session: Session, row: BibliographicRow) -> int | None:
    """Return the id of the harvested record that a bibliographic one was made from; None if it is gone."""
    return session.scalar(
        select(Record.record_id).where(
            Record.repository_id == row.repository_id,
            Record.metadata_prefix == row.metadata_prefix,
            Record.identifier_key == row.identifier_key,
        )
    )


def _contributors(session: Session, bibliographic_id: int) -> list[Contributor]:
    rows = session.scalars(
        select(ContributorRow)
        .where(ContributorRow.bibliographic_id == bibliographic_id)
        .order_by(ContributorRow.position)
    )
    return [
        from_row(Contributor, row, roles=tuple(row.roles), authority_ids=tuple(row.authority_ids))
        for row in rows
    ]


def _identifiers(session: Session, bibliographic_id: int) -> list[Identifier]:
    rows = session.scalars(
        select(IdentifierRow)
        .where(IdentifierRow.bibliographic_id == bibliographic_id)
        .order_by(IdentifierRow.position)
    )
    return [from_row(Identifier, row) for row in rows]
