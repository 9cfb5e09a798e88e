"""Changes of collections and rules by the archive's staff, and their effects, for tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select, update

from oai.database import Database
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign, remove
from provider.holdings.publication import CHUNK
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import UNLISTED, Access, Collection, Document, DocumentCollection
from tests.provider.archives import Page, write_pages

SOON, LATE = datetime(2900, 1, 1, tzinfo=UTC), datetime(2950, 1, 1, tzinfo=UTC)
OPEN, ROOM, WITHHELD = (Rule(access=one) for one in (Access.OPEN, Access.READING_ROOM, Access.WITHHELD))
EMBARGO, LONG_EMBARGO = (Rule(access=Access.EMBARGO, embargo_until=until) for until in (SOON, LATE))
RULES = [OPEN, ROOM, EMBARGO, LONG_EMBARGO, WITHHELD]


@dataclass
class Staff:
    """Makes the changes that the archive's staff make."""

    database: Database
    chunk: int = CHUNK
    """So many documents are changed in one transaction."""

    def make(self, *specs: str) -> None:
        with self.database.session() as session:
            for spec in specs:
                add_collection(session, f"collection:{spec}")
            session.commit()

    def rule(self, spec: str, rule: Rule) -> int:
        with self.database.session() as session:
            return set_rule(session, f"collection:{spec}", rule, margin=1, chunk=self.chunk)

    def assign(self, spec: str, *hosts: str) -> None:
        for host in hosts:
            with self.database.session() as session:
                chosen = Selection(url=f"http://{host}/")
                assign(session, f"collection:{spec}", chosen, margin=1, chunk=self.chunk)

    def remove(self, spec: str, *hosts: str) -> None:
        for host in hosts:
            with self.database.session() as session:
                chosen = Selection(url=f"http://{host}/")
                remove(session, f"collection:{spec}", chosen, margin=1, chunk=self.chunk)

    def documents(self) -> dict[str, Document]:
        """Documents by host."""
        with self.database.session() as session:
            return {one.url[7:-1]: one for one in session.scalars(select(Document).order_by(Document.url))}

    def rules(self) -> dict[str, Rule]:
        """The effective rule of each document."""
        return {
            host: Rule(access=Access(one.access), embargo_until=one.embargo_until)
            for host, one in self.documents().items()
        }

    def age(self) -> None:
        """Move all datestamps into the past."""
        with self.database.session() as session:
            for table in (Document, DocumentCollection):
                session.execute(
                    update(table)
                    .where(table.datestamp < UNLISTED)
                    .values(datestamp=table.datestamp - timedelta(days=1))
                )
            session.commit()

    def redated(self, before: dict[str, Document]) -> set[str]:
        """The documents with a later datestamp than before."""
        after = self.documents()
        with self.database.session() as session:
            rows = session.execute(
                select(DocumentCollection.datestamp, Document.datestamp).join(
                    Document, Document.id == DocumentCollection.document_id
                )
            )
            assert all(one == other for one, other in rows)
        return {host for host, one in after.items() if one.datestamp > before[host].datestamp}


def index(database: Database, folder: Path, hosts: Sequence[str], *, collection: int | None = None) -> None:
    name = f"{''.join(hosts)}.warc"
    path = write_pages(folder / name, [Page(url=f"http://{host}/") for host in hosts])
    collections = () if collection is None else (collection,)
    assert index_file(database, path, IndexOptions(margin=1, collections=collections)).merged.new


def collection(database: Database, spec: str) -> Collection:
    with database.session() as session:
        return session.scalars(select(Collection).where(Collection.set_spec == f"collection:{spec}")).one()
