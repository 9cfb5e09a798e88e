"""A fake repository, harvested, published again over HTTP, and harvested from there, without mocks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer, unused_port
from lxml import etree
from sqlalchemy import text

from oai.database import Database
from oai.settings import Settings
from oai.vocabulary import OAI_NAMESPACE
from provider.aggregate.catalogue import make_aggregate
from provider.aggregate.sources import add_source, find_repository, withdraw_source
from provider.aggregate.update import updater
from provider.app import create_app
from provider.holdings.mark import advance_mark
from provider.protocol.repository import Repository
from tests.harvester.fake_repository import FakeRepository
from tests.harvester.library import Library

OAI = f"{{{OAI_NAMESPACE}}}"
PROVENANCE = "{http://www.openarchives.org/OAI/2.0/provenance}"
HOME = "http://aggregate.example/oai/aggregate"

_MAKE_DUE = (
    """
    UPDATE aggregate_record SET datestamp = date_trunc('second', now())
    WHERE datestamp > now() AND datestamp < '9999-01-01'
    """,
    "UPDATE aggregate_membership SET datestamp = date_trunc('second', now()) WHERE datestamp > now()",
)


@dataclass(kw_only=True)
class Hub:
    """Repositories harvested into a database and published from it again."""

    database: Database
    settings: Settings
    environment: dict[str, str]
    folder: Path

    def library(self, fake: FakeRepository, name: str) -> Library:
        """A repository that is harvested into a folder of this name."""
        return Library(self.database, self.settings, fake, self.folder / name, self.environment)

    def add(self, repository_id: int, **options: Any) -> None:
        with self.database.session() as session:
            add_source(session, find_repository(session, str(repository_id)), **options)
            session.commit()

    def withdraw(self, repository_id: int) -> None:
        with self.database.session() as session:
            withdraw_source(session, repository_id)
            session.commit()

    def update(self, *, due: bool = True, together: int | None = None) -> int:
        """Publish all changes with datestamps that are due immediately."""
        with updater(self.database.engine, self.settings) as mine:
            assert mine is not None
            if together is not None:
                object.__setattr__(mine, "together", together)
            records = mine.run().records
        if due:
            self.execute(*_MAKE_DUE)
            with self.database.session() as session:
                advance_mark(session)
        return records

    def execute(self, *statements: str) -> None:
        with self.database.session() as session:
            for statement in statements:
                session.execute(text(statement))
            session.commit()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.database.session() as session:
            return [tuple(row) for row in session.execute(text(statement))]

    def repository(self) -> Repository:
        return make_aggregate(self.settings, self.database, HOME)

    def ask(self, **arguments: str) -> "OaiAnswer":
        """Return the response of the aggregate, without HTTP."""
        pairs = [(name.rstrip("_"), value) for name, value in arguments.items()]
        return OaiAnswer(root=etree.fromstring(self.repository().answer(pairs).body))

    def listed(self, **arguments: str) -> dict[str, etree._Element]:
        """Return all records of a list, from all its pages, by identifier."""
        arguments = {"metadataPrefix": "oai_dc", **arguments}
        page = self.ask(verb="ListRecords", **arguments)
        found = page.records()
        while token := page.token:
            page = self.ask(verb="ListRecords", resumptionToken=token)
            assert not found.keys() & page.records().keys()
            found |= page.records()
        return found

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """The provider's base URL with the aggregate's path, over HTTP."""
        port = unused_port()
        base_url = f"http://127.0.0.1:{port}/oai"
        server = TestServer(create_app(self.settings, self.database, base_url=base_url), port=port)
        await server.start_server()
        try:
            yield f"{base_url}/aggregate"
        finally:
            await server.close()


@dataclass(frozen=True, kw_only=True)
class OaiAnswer:
    """An answer."""

    root: etree._Element

    def records(self) -> dict[str, etree._Element]:
        return {
            str(record.findtext(f"{OAI}header/{OAI}identifier")): record
            for record in self.root.iter(f"{OAI}record")
        }

    @property
    def token(self) -> str | None:
        return self.root.findtext(f".//{OAI}resumptionToken")

    @property
    def size(self) -> str | None:
        element = self.root.find(f".//{OAI}resumptionToken")
        return None if element is None else element.get("completeListSize")

    @property
    def codes(self) -> list[str]:
        return [str(error.get("code")) for error in self.root.iter(f"{OAI}error")]

    def texts(self, name: str) -> list[str]:
        return [element.text or "" for element in self.root.iter(f"{OAI}{name}")]


def is_deleted(record: etree._Element) -> bool:
    return record.find(f"{OAI}header[@status='deleted']") is not None


def set_specs(record: etree._Element) -> list[str]:
    return [element.text or "" for element in record.iterfind(f"{OAI}header/{OAI}setSpec")]


def metadata(record: etree._Element) -> bytes:
    """Return the content of the metadata in exclusive canonical form with comments."""
    (held,) = record.iterfind(f"{OAI}metadata")
    (content,) = held.iterchildren(etree.Element)
    return etree.tostring(content, method="c14n", exclusive=True, with_comments=True, with_tail=False)
