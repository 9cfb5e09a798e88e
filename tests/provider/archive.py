"""An archive for tests: documents put straight into the tables, with datestamps of the test's choice."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from oai.database import Database
from oai.settings import Settings
from provider.holdings.identifiers import oai_identifier
from provider.holdings.sets import ancestors, domain_set_specs, mimetype_set_specs
from provider.holdings.urlkeys import WwwRule, stored_key
from provider.models import UNLISTED, Arc, Collection, Document, DocumentCollection, Domain, Mimetype
from tests.provider.archives import capture_key

BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)
"""The datestamp of the first document; each further one is a second later unless told otherwise."""


_Tree = type[Domain] | type[Mimetype] | type[Collection]


EARLIER_TABLES = (
    "ALTER TABLE document DROP CONSTRAINT ck_document_url_key",
    "CREATE INDEX ix_document_url ON document (left(url, 512), archived)",
)


def let_keys_be_missing(database: Database) -> None:
    """Change the tables to the state of an earlier version before `zatva provider reindex-keys`."""
    with database.engine.begin() as connection:
        for statement in EARLIER_TABLES:
            connection.execute(text(statement))


@dataclass
class Archive:
    """Adds documents and answers with their identifiers."""

    database: Database
    settings: Settings
    _added: int = 0
    _rows: dict[str, int] = field(default_factory=dict)
    _counted: dict[_Tree, list[str]] = field(default_factory=dict)
    """The setSpecs of the document that is being added, by the tree that they are in."""

    def add(
        self,
        url: str | None = None,
        *,
        datestamp: datetime | None = None,
        mime_type: str = "text/html",
        collections: Sequence[str] = (),
        title: str | None = None,
        deleted: bool = False,
        **columns: object,
    ) -> str:
        """Add a document to these collections (full setSpecs), and return its OAI identifier.

        `columns` are values of further columns, which override those that follow from the collections.
        """
        with self.database.session() as session:
            key = self._add(
                session,
                url,
                datestamp=datestamp,
                mime_type=mime_type,
                collections=collections,
                **{"title": title, "deleted": deleted, "hidden": deleted, **columns},
            )
            session.commit()
        return oai_identifier(self.settings.provider.namespace, key)

    def add_many(self, count: int) -> list[str]:
        """Add this many documents in one transaction, all alike but for URL and datestamp."""
        with self.database.session() as session:
            keys = [self._add(session) for _ in range(count)]
            session.commit()
        return [oai_identifier(self.settings.provider.namespace, key) for key in keys]

    def _add(
        self,
        session: Session,
        url: str | None = None,
        *,
        datestamp: datetime | None = None,
        mime_type: str = "text/html",
        collections: Sequence[str] = (),
        **columns: object,
    ) -> uuid.UUID:
        self._added += 1
        url = url or f"http://www.example.cz/{self._added}"
        moment = datestamp or BEGINNING + timedelta(seconds=self._added - 1)
        key = capture_key(url, BEGINNING + timedelta(days=self._added))
        document = self._document(session, key, url, moment, mime_type)
        for column, value in columns.items():
            setattr(document, column, value)
        session.add(document)
        session.flush()
        self._assign(session, document, collections)
        self._count(session, moment)
        return key

    def redate(self, identifier: str, datestamp: datetime, *, deleted: bool = False) -> None:
        """Change a document as indexing and staff do: with a new datestamp."""
        key = uuid.UUID(identifier.rpartition(":")[2])
        with self.database.session() as session:
            changed = update(Document).where(Document.key == key).returning(Document.id)
            number = session.scalars(
                changed.values(datestamp=datestamp, deleted=deleted, hidden=deleted)
            ).one()
            memberships = update(DocumentCollection).where(DocumentCollection.document_id == number)
            session.execute(memberships.values(datestamp=datestamp))
            session.commit()

    def describe(self, set_spec: str, description: str) -> None:
        """Describe a collection."""
        with self.database.session() as session:
            wanted = update(Collection).where(Collection.set_spec == set_spec)
            session.execute(wanted.values(description=description))
            session.commit()

    def _document(
        self, session: Session, key: uuid.UUID, url: str, moment: datetime, mime_type: str
    ) -> Document:
        hosts = [
            self._row(session, Domain, set_spec, name=name, level=level)
            for set_spec, name, level in domain_set_specs(urlsplit(url).hostname or "")
        ]
        types = [
            self._row(session, Mimetype, set_spec, name=name)
            for set_spec, name in mimetype_set_specs(mime_type)
        ]
        return Document(
            key=key,
            arc_id=self._arc(session),
            offset=self._added,
            length=100,
            url=url,
            url_key=stored_key(url, WwwRule.NUMBERED),
            archived=BEGINNING + timedelta(days=self._added),
            datestamp=moment,
            tld_id=hosts[0],
            domain_id=hosts[min(1, len(hosts) - 1)],
            host_id=hosts[-1],
            mime_major_id=types[0],
            mime_id=types[-1],
            http_status=200,
            record_type="response",
        )

    def _assign(self, session: Session, document: Document, collections: Sequence[str]) -> None:
        above = {spec for set_spec in collections for spec in ancestors(set_spec)}
        for set_spec in sorted({*collections, *above}):
            number = self._row(session, Collection, set_spec, name=f"Collection {set_spec}")
            session.add(
                DocumentCollection(
                    document_id=document.id,
                    collection_id=number,
                    datestamp=document.datestamp,
                    direct=set_spec in collections,
                )
            )

    def _row(self, session: Session, tree: _Tree, set_spec: str, **facts: object) -> int:
        """The row of this set, made at its first document, in whose count this document belongs."""
        if set_spec not in self._rows:
            above = self._rows.get(set_spec.rpartition(":")[0])
            row = tree(set_spec=set_spec, parent_id=above, **facts)
            session.add(row)
            session.flush()
            self._rows[set_spec] = row.id
        self._counted.setdefault(tree, []).append(set_spec)
        return self._rows[set_spec]

    def _count(self, session: Session, datestamp: datetime) -> None:
        """Count the document in its sets."""
        for tree, set_specs in self._counted.items():
            unlisted = tree.unlisted + int(datestamp == UNLISTED)
            counted = update(tree).where(tree.set_spec.in_(set_specs))
            session.execute(counted.values(documents=tree.documents + 1, unlisted=unlisted))
        self._counted.clear()

    def _arc(self, session: Session) -> int:
        if "arc" not in self._rows:
            arc = Arc(path="/archive/one.warc.gz", name="one.warc", size=1, modified=BEGINNING)
            session.add(arc)
            session.flush()
            self._rows["arc"] = arc.id
        return self._rows["arc"]
