"""Programs that use the API of a real server, and one object of each kind that they can request."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager as Opening
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from sqlalchemy.orm import Session

from harvester.harvest.models import Quarantined
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Record
from harvester.store.paths import identifier_key
from harvester.vocabulary import RunStatus
from oai.rights import Role, Scope, scopes_for
from provider.holdings.collections import add_collection
from tests.web.conftest import Server
from tests.web.rows import BEGAN, a_bibliographic_record, a_filtering_set, a_repository, a_run, a_schedule
from web.auth.api_tokens import make_token
from web.auth.users import find_user

CONTENT = b"<record><header/></record>"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, read."""

    status: int
    body: Any
    """JSON as Python has it, or the text."""
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program with a token, or none."""

    http: aiohttp.ClientSession
    base_url: str

    async def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """The answer to a request below `/api/v1`, or at an absolute path of the server."""
        url = path if path.startswith("/api/") else f"/api/v1{path}"
        named = {**({"json": body} if body is not None else {}), **more}
        async with self.http.request(method, self.base_url + url, **named) as answer:
            as_json = answer.content_type in {"application/json", "application/problem+json"}
            read = await answer.json(content_type=None) if as_json else await answer.text()
            return Answer(status=answer.status, body=read, headers=dict(answer.headers))

    async def get(self, path: str) -> Answer:
        """The answer to a GET."""
        return await self.ask("GET", path)

    async def post(self, path: str, body: object = None) -> Answer:
        """The answer to a POST."""
        return await self.ask("POST", path, body)


Using = Callable[..., Opening[Program]]


def token_of(server: Server, name: str, *scopes: Scope) -> str:
    """A fresh token of the user, with all scopes where none is named."""
    with server.database.session() as session:
        user = find_user(session, name)
        assert user is not None
        kept = scopes or scopes_for(Role(user.role))
        _, token = make_token(session, server.settings.web, user.user_id, name="test", scopes=kept)
        session.commit()
    return token


@pytest.fixture
def using(server: Server) -> Using:
    """Opens a program with a token of the user with that name; with none without."""

    @asynccontextmanager
    async def opened(name: str | None, *scopes: Scope) -> AsyncIterator[Program]:
        headers = {"Authorization": f"Bearer {token_of(server, name, *scopes)}"} if name else {}
        async with aiohttp.ClientSession(headers=headers) as http:
            yield Program(http=http, base_url=server.base_url)

    return opened


@pytest.fixture
async def program(using: Using) -> AsyncIterator[Program]:
    """A program with the administrator's token."""
    async with using("Alena") as program:
        yield program


@pytest.fixture
def one_of_each(server: Server) -> None:
    """A repository with all that belongs to it and a collection."""
    with server.database.session() as session:
        fill(session)
        session.commit()
    folder = server.settings.store / "telc"
    folder.mkdir(parents=True)
    (folder / "1.xml").write_bytes(CONTENT)


def fill(session: Session) -> None:
    """One of each, numbered 1."""
    telc = a_repository(session)
    session.add(OaiSet(repository_id=telc.repository_id, set_spec="books", set_name="Books"))
    form = MetadataFormat(metadata_prefix="oai_dc")
    session.add(form)
    session.flush()
    session.add(PrefixMapping(repository_id=telc.repository_id, prefix_id=form.prefix_id))
    a_schedule(session, telc)
    a_bibliographic_record(session, telc)
    a_filtering_set(session)
    run = a_run(
        session, telc, status=RunStatus.COMPLETED_WITH_ERRORS, warnings=["a warning"], invalid_count=1
    )
    session.add(
        Quarantined(
            repository_id=telc.repository_id,
            metadata_prefix="oai_dc",
            fault_key=identifier_key("broken"),
            identifier="oai:telc:broken",
            reason="an attribute without quotes",
            url="https://telc.example/oai?verb=ListRecords",
            byte_offset=12,
            raw=b"<record a=1>",
            raw_size=12,
            last_run=BEGAN,
            history_id=run.history_id,
        )
    )
    for number in (1, 2, 3):
        session.add(a_record(telc.repository_id, number))
    add_collection(session, "collection:serials", name="Serials")


def a_record(repository_id: int, number: int) -> Record:
    """A harvested record."""
    identifier = f"oai:telc:{number}"
    return Record(
        repository_id=repository_id,
        identifier=identifier,
        identifier_key=identifier_key(identifier),
        filename=f"{number}.xml",
        datestamp="2026-01-01",
        metadata_prefix="oai_dc",
        digest=b"\1" * 32,
        harvest_time=datetime(2026, 1, 2, tzinfo=UTC),
    )
