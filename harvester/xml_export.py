"""The stored records of a repository as one XML document, made piece by piece in bounded memory."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from lxml import etree
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.marc21.kinds import (
    BIBLIOGRAPHIC,
    NAMESPACES,
    is_deleted,
    local_name,
    marc_records,
)
from harvester.bibliographic.stored_marc import MarcSource, stored_metadata
from harvester.client.query_results import MARC21_NAMESPACE
from harvester.listing import find_records
from harvester.locks import refuse_removed
from harvester.models import Record, SetMapping
from harvester.repositories import get_repository
from harvester.store.export import read_intact
from harvester.vocabulary import RecordStatus
from oai.database import Database
from oai.errors import MalformedXmlError
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import escape, parse

_AT_ONCE: Final = 500
"""Records per query."""
_PIECE: Final = 256 * 1024
"""Bytes from which a piece is returned; a larger record is one piece."""
_PARTS: Final = {"record": {"leader", "controlfield", "datafield"}, "datafield": {"subfield"}}
"""The elements of MARCXML, by the one above; attributes that it does not require are left out."""
_ATTRIBUTES: Final = frozenset({"tag", "ind1", "ind2", "code"})
_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'


def oai_records(
    database: Database,
    repository_id: int,
    folder: Path,
    *,
    metadata_prefix: str | None = None,
    identifier: str | None = None,
) -> Iterator[bytes]:
    """Yield a document with the records as ListRecords has them: headers, metadata, deleted records.

    Its root element is `ListRecords` in the namespace of OAI-PMH 2.0. Records whose files are missing or
    altered are left out; a comment at the end counts them. No transaction is open between two pieces. Raises
    UsageError at the end if the repository was removed in the meantime, or is being removed.
    """
    chosen = {"metadata_prefix": metadata_prefix, "identifier": identifier}
    records = _oai_records(database, repository_id, folder, chosen)
    return _document(database, repository_id, "ListRecords", OAI_NAMESPACE, records)


def marcxml_records(database: Database, source: MarcSource) -> Iterator[bytes]:
    """Yield a document with the bibliographic MARC records that are not deleted, as a MARCXML `collection`.

    Otherwise like `oai_records`.
    """
    records = _marc_records(database, source)
    return _document(database, source.repository_id, "collection", MARC21_NAMESPACE, records)


def _document(
    database: Database, repository_id: int, root: str, namespace: str, records: Iterator[bytes | None]
) -> Iterator[bytes]:
    """Yield the document in pieces; None among the records is one that is left out."""
    piece = bytearray(f'{_DECLARATION}<{root} xmlns="{namespace}">\n'.encode())
    left_out = 0
    for record in records:
        if record is None:
            left_out += 1
            continue
        piece += record
        piece += b"\n"
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    # Records that were removed with their repository are missing like those after the last one.
    with database.session() as session:
        get_repository(session, repository_id)
        refuse_removed(session, repository_id)
    if left_out:
        piece += f"<!-- left out because their files are missing or altered: {left_out} -->\n".encode()
    yield bytes(piece) + f"</{root}>\n".encode()


def _oai_records(
    database: Database, repository_id: int, folder: Path, chosen: Mapping[str, str | None]
) -> Iterator[bytes | None]:
    after = None
    while True:
        with database.session() as session:
            rows = find_records(session, repository_id, limit=_AT_ONCE, after=after, **chosen)
            sets = _sets_of_deleted(session, rows)
        unread = []
        for row in rows:
            record = _written_record(row, sets, folder)
            if record is None:
                unread.append(row.record_id)
            else:
                yield record
        if unread:
            yield from _read_again(database, folder, unread)
        if len(rows) < _AT_ONCE:
            return
        after = (rows[-1].metadata_prefix, rows[-1].identifier_key)


def _read_again(database: Database, folder: Path, unread: Collection[int]) -> Iterator[bytes | None]:
    """Yield these records by their present rows: a harvest may have replaced them since they were read."""
    with database.session() as session:
        rows = session.scalars(select(Record).where(Record.record_id.in_(unread))).all()
        sets = _sets_of_deleted(session, rows)
    for row in rows:
        yield _written_record(row, sets, folder)


def _sets_of_deleted(session: Session, rows: Sequence[Record]) -> Mapping[int, Sequence[str]]:
    records = [row.record_id for row in rows if row.status == RecordStatus.DELETED]
    query = select(SetMapping.record_id, SetMapping.set_spec).where(SetMapping.record_id.in_(records))
    sets: dict[int, list[str]] = defaultdict(list)
    for record_id, set_spec in session.execute(query.order_by(SetMapping.set_spec)) if records else ():
        sets[record_id].append(set_spec)
    return sets


def _written_record(row: Record, sets: Mapping[int, Sequence[str]], folder: Path) -> bytes | None:
    """Return the record; None if its file is missing or altered."""
    if row.status == RecordStatus.DELETED:
        return _deleted(row, sets.get(row.record_id, ()))
    return _stored(row, folder)


def _deleted(row: Record, sets: Sequence[str]) -> bytes:
    within = "".join(f"<setSpec>{escape(one)}</setSpec>" for one in sets)
    return (
        f'<record><header status="deleted"><identifier>{escape(row.identifier)}</identifier>'
        f"<datestamp>{escape(row.datestamp)}</datestamp>{within}</header></record>"
    ).encode()


def _stored(row: Record, folder: Path) -> bytes | None:
    data = read_intact(folder / row.filename, row.digest) if row.filename else None
    if data is None:
        return None
    try:
        return _written(parse(data, source=row.identifier))
    except MalformedXmlError:
        return None


def _marc_records(database: Database, source: MarcSource) -> Iterator[bytes | None]:
    for stored, metadata in stored_metadata(database, source):
        if stored.unreadable:
            yield None
        elif metadata is not None:
            for record in marc_records(metadata).of_kind(BIBLIOGRAPHIC):
                if not is_deleted(record):
                    _make_marcxml(record)
                    yield _written(record)


def _make_marcxml(record: etree._Element) -> None:
    """Reduce a record to what MARCXML has; repositories also send MARC in other namespaces, or in none."""
    known = {None, etree.QName(record).namespace, *NAMESPACES}
    elements = [record]
    for element in elements:
        name = local_name(element)
        if name not in _PARTS:
            element.text = "".join(map(str, element.itertext()))
        for part in list(element):
            if local_name(part) in _PARTS.get(name, ()) and etree.QName(part).namespace in known:
                elements.append(part)
            else:
                element.remove(part)
        element.tag = f"{{{MARC21_NAMESPACE}}}{name}"
        for attribute in set(element.attrib) - _ATTRIBUTES:
            del element.attrib[attribute]


def _written(element: etree._Element) -> bytes:
    return etree.tostring(element, encoding="UTF-8", xml_declaration=False, with_tail=False)
