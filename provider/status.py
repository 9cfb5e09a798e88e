"""What the archive's tables hold, in figures that are kept while loading."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from provider.models import Arc, ArcProblem, Collection, Document, Domain, Mimetype


@dataclass(frozen=True, kw_only=True)
class ArchiveStatus:
    """Totals; nothing is counted row by row but hidden documents, which have an index of their own."""

    documents: int
    """Hidden ones included."""
    hidden: int
    files: int
    problems: int
    """Places in archive files that could not be read or taken."""
    domains: int
    mimetypes: int
    collections: int
    last_published: datetime | None
    """Latest datestamp, UTC; a few seconds ahead of the clock just after a change."""
    last_indexed: datetime | None
    """When a file was last indexed, UTC."""


def archive_status(session: Session) -> ArchiveStatus:
    """The figures as they are now."""

    def number(of: type[object]) -> int:
        return session.scalar(select(func.count()).select_from(of)) or 0

    return ArchiveStatus(
        documents=int(session.scalar(select(func.sum(Arc.documents))) or 0),
        hidden=session.scalar(select(func.count()).where(Document.deleted)) or 0,
        files=number(Arc),
        problems=number(ArcProblem),
        domains=number(Domain),
        mimetypes=number(Mimetype),
        collections=number(Collection),
        last_published=session.scalar(select(func.max(Document.datestamp))),
        last_indexed=session.scalar(select(func.max(Arc.indexed))),
    )
