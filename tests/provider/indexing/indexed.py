"""Reports of indexing and the resulting rows, for tests."""

from datetime import datetime

from sqlalchemy import ColumnElement, func, select

from oai.database import Database
from provider.indexing.indexer import FileReport
from provider.models import Arc, Collection, Document, DocumentCollection, Domain, Mimetype


def counts(report: FileReport) -> tuple[int, int, int, int]:
    merged = report.merged
    return merged.new, merged.unchanged, merged.moved, merged.duplicates


def places(database: Database) -> list[tuple[str | None, int, datetime]]:
    with database.session() as session:
        rows = select(Arc.path, Document.offset, Document.datestamp).join(Arc, Arc.id == Document.arc_id)
        return [(path, offset, stamp) for path, offset, stamp in session.execute(rows.order_by(Document.url))]


def check_counts(database: Database) -> None:
    """Compare every stored count with a new count."""
    with database.session() as session:

        def real(condition: ColumnElement[bool]) -> int:
            return session.scalar(select(func.count()).where(condition)) or 0

        for domain in session.scalars(select(Domain)):
            inside = select(Domain.id).where(func.starts_with(Domain.set_spec + ":", domain.set_spec + ":"))
            assert domain.documents == real(Document.host_id.in_(inside)), domain.set_spec
        for kind in session.scalars(select(Mimetype)):
            column = Document.mime_major_id if kind.parent_id is None else Document.mime_id
            assert kind.documents == real(column == kind.id), kind.set_spec
        for arc in session.scalars(select(Arc)):
            assert arc.documents == real(Document.arc_id == arc.id), arc.path
        for collection in session.scalars(select(Collection)):
            number = real(DocumentCollection.collection_id == collection.id)
            assert collection.documents == number, collection.set_spec
