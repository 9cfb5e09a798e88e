"""Lists what has been harvested and what failed, page by page; each page is one range of an index."""

import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, or_, select, tuple_
from sqlalchemy.orm import Session

from harvester.harvest.models import WITHOUT_BYTES, Quarantined
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Record, Repository, SetMapping
from harvester.store.paths import identifier_key
from oai.folding import contains_folded

Among = Select[int] | None
"""A SELECT of the repositories to include; None for all."""


def find_repositories(
    session: Session, *, limit: int, after: int = 0, search: str | None = None, among: Among = None
) -> Sequence[Repository]:
    """Return repositories by number, after the number `after`; `search` matches the name or the base URL."""
    query = matching_repositories(search, among).where(Repository.repository_id > after)
    return session.scalars(query.order_by(Repository.repository_id).limit(limit)).all()


def matching_repositories(search: str | None, among: Among = None) -> Select[Any]:
    """Return a SELECT of the repositories whose name or base URL contains `search`.

    Names are compared without accents, both without case.
    """
    query = select(Repository)
    if among is not None:
        query = query.where(Repository.repository_id.in_(among))
    if search:
        # By what is shown, so that a search cannot find out a password letter by letter.
        named = contains_folded(Repository.display_name, search)
        query = query.where(or_(named, Repository.display_url.icontains(search, autoescape=True)))
    return query


def repositories_at(session: Session, base_url: str, among: Among = None) -> Sequence[Repository]:
    """Return the repositories with that base URL, whatever its scheme and its last slash."""
    _scheme, _mark, rest = base_url.rstrip("/").partition("://")
    same = [f"{scheme}://{rest}{end}" for scheme in ("http", "https", "z3950") for end in ("", "/")]
    query = select(Repository).where(Repository.base_url.in_(same))
    if among is not None:
        query = query.where(Repository.repository_id.in_(among))
    return session.scalars(query.order_by(Repository.repository_id)).all()


def name_repositories(session: Session, *, among: Among = None) -> Sequence[Row[int, str, str]]:
    """Return number, name and address of the repositories, for a choice."""
    query = select(Repository.repository_id, Repository.display_name, Repository.display_url)
    if among is not None:
        query = query.where(Repository.repository_id.in_(among))
    return session.execute(query.order_by(Repository.repository_id)).all()


def formats_of(session: Session, repository_id: int) -> Sequence[MetadataFormat]:
    """Return the formats that a repository offers."""
    offered = (
        select(MetadataFormat)
        .join(PrefixMapping, PrefixMapping.prefix_id == MetadataFormat.prefix_id)
        .where(PrefixMapping.repository_id == repository_id)
        .order_by(MetadataFormat.metadata_prefix, MetadataFormat.prefix_id)
    )
    return session.scalars(offered).all()


def sets_of(session: Session, repository_id: int, *, limit: int, after: str = "") -> Sequence[OaiSet]:
    """Return the sets that a repository lists, after the set spec `after`."""
    listed = select(OaiSet).where(OaiSet.repository_id == repository_id, OaiSet.set_spec > after)
    return session.scalars(listed.order_by(OaiSet.set_spec).limit(limit)).all()


def find_records(
    session: Session,
    repository_id: int,
    *,
    limit: int,
    after: tuple[str, uuid.UUID] | None = None,
    metadata_prefix: str | None = None,
    identifier: str | None = None,
) -> Sequence[Record]:
    """Return a repository's records by format and key, after the record with the format and key `after`."""
    query = select(Record).where(Record.repository_id == repository_id)
    if metadata_prefix is not None:
        query = query.where(Record.metadata_prefix == metadata_prefix)
    if identifier is not None:
        query = query.where(Record.identifier_key == identifier_key(identifier))
    if after is not None:
        query = query.where(tuple_(Record.metadata_prefix, Record.identifier_key) > after)
    return session.scalars(query.order_by(Record.metadata_prefix, Record.identifier_key).limit(limit)).all()


def sets_of_record(session: Session, record_id: int) -> Sequence[str]:
    """Return the sets that the record's header names."""
    named = select(SetMapping.set_spec).where(SetMapping.record_id == record_id)
    return session.scalars(named.order_by(SetMapping.set_spec)).all()


def find_errors(
    session: Session, *, limit: int, run: int, before: int | None = None, resolved: bool = False
) -> Sequence[Quarantined]:
    """Return the errors of a run without their bytes, newest first; resolved ones if requested."""
    query = select(Quarantined).options(WITHOUT_BYTES).where(Quarantined.history_id == run)
    if before is not None:
        query = query.where(Quarantined.quarantine_id < before)
    if not resolved:
        query = query.where(Quarantined.resolved.is_(None))
    return session.scalars(query.order_by(Quarantined.quarantine_id.desc()).limit(limit)).all()
