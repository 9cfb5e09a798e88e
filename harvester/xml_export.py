"""The stored records of a repository as one XML document, made piece by piece in bounded memory."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from lxml import etree
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.marc21.kinds import BIBLIOGRAPHIC, local_name, marc_records
from harvester.bibliographic.stored_marc import MarcSource, stored_metadata
from harvester.client.query_results import MARC21_NAMESPACE
from harvester.listing import find_records
from harvester.models import Record, SetMapping
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
    altered are left out; a comment at the end counts them. No transaction is open between two pieces.
    """
    chosen = {"metadata_prefix": metadata_prefix, "identifier": identifier}
    records = _oai_records(database, repository_id, folder, chosen)
    return _document("ListRecords", OAI_NAMESPACE, records)


def marcxml_records(database: Database, source: MarcSource) -> Iterator[bytes]:
    """Yield a document with the bibliographic MARC records that are not deleted, as a MARCXML `collection`.

    Otherwise like `oai_records`.
    """
    return _document("collection", MARC21_NAMESPACE, _marc_records(database, source))


def _document(root: str, namespace: str, records: Iterator[bytes | None]) -> Iterator[bytes]:
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
            deleted = [row.record_id for row in rows if row.status == RecordStatus.DELETED]
            sets = _sets_of(session, deleted)
        for row in rows:
            if row.status == RecordStatus.DELETED:
                yield _deleted(row, sets.get(row.record_id, ()))
            else:
                yield _stored(row, folder)
        if len(rows) < _AT_ONCE:
            return
        after = (rows[-1].metadata_prefix, rows[-1].identifier_key)


def _sets_of(session: Session, records: Collection[int]) -> Mapping[int, Sequence[str]]:
    query = select(SetMapping.record_id, SetMapping.set_spec).where(SetMapping.record_id.in_(records))
    sets: dict[int, list[str]] = defaultdict(list)
    for record_id, set_spec in session.execute(query.order_by(SetMapping.set_spec)) if records else ():
        sets[record_id].append(set_spec)
    return sets


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
                # Repositories also send MARC in other namespaces, or in none.
                for element in record.iter(etree.Element):
                    element.tag = f"{{{MARC21_NAMESPACE}}}{local_name(element)}"
                yield _written(record)


def _written(element: etree._Element) -> bytes:
    return etree.tostring(element, encoding="UTF-8", xml_declaration=False, with_tail=False)
