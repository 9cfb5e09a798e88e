"""How many documents there are of what: by month of capture, MIME type, domain, collection.

The numbers are kept while loading (`holdings.counting`) and read from small tables. They count every document
that is indexed, hidden and withheld ones included, as the sets' own sizes do.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode
from provider.models import Collection, DocumentMonth, Domain, Mimetype

_REGISTERED: Final = 2
_MOST: Final = 1000

_SET_COLUMNS: Final = {"set_spec": "Set", "name": "Name", "documents": "Documents"}


def by_month(session: Session) -> list[dict[str, Any]]:
    """For each month of capture and major type: `month` (YYYY-MM, UTC), `type`, `documents`."""
    rows = session.execute(
        select(DocumentMonth.month, Mimetype.name, DocumentMonth.documents)
        .join(Mimetype, Mimetype.id == DocumentMonth.mime_major_id)
        .order_by(DocumentMonth.month, Mimetype.name)
    )
    return [{"month": f"{row.month:%Y-%m}", "type": row.name, "documents": row.documents} for row in rows]


def by_type(session: Session) -> list[dict[str, Any]]:
    """For each major type and full type: `set_spec`, `name`, `documents`; each below its major type."""
    return _sets(session, select(Mimetype).order_by(Mimetype.set_spec))


def by_domain(session: Session) -> list[dict[str, Any]]:
    """The same for top-level and registered domains, the thousand largest, the largest first."""
    largest = Domain.documents.desc()
    return _sets(
        session,
        select(Domain).where(Domain.level <= _REGISTERED).order_by(largest, Domain.set_spec).limit(_MOST),
    )


def by_collection(session: Session) -> list[dict[str, Any]]:
    """The same for collections, each below its parent."""
    return _sets(session, select(Collection).order_by(Collection.set_spec))


def _sets(session: Session, query: Any) -> list[dict[str, Any]]:  # noqa: ANN401 of any of the trees
    return [{name: getattr(row, name) for name in _SET_COLUMNS} for row in session.scalars(query)]


_MONTH_COLUMNS: Final = {"month": "Month", "type": "Type", "documents": "Documents"}
_VIEWS: Final[dict[str, tuple[Callable[[Session], Sequence[dict[str, Any]]], dict[str, str]]]] = {
    "month": (by_month, _MONTH_COLUMNS),
    "type": (by_type, _SET_COLUMNS),
    "domain": (by_domain, _SET_COLUMNS),
    "collection": (by_collection, _SET_COLUMNS),
}


def show_statistics(invocation: Invocation) -> ExitCode:
    """`provider statistics`: a table of one of the views."""
    view, columns = _VIEWS[invocation.arguments.by]
    with open_database(invocation.settings) as database, database.session() as session:
        rows = view(session)
    invocation.console.table(rows, columns, empty="no documents indexed yet")
    return ExitCode.DONE
