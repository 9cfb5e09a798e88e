"""Archived documents are served only to clients with access."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection, hide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access
from tests.provider.archives import Page, capture_key, warc_record, write_archive
from tests.provider.holdings.document_archive import PAGE, URL, DocumentArchive, served

FAR = datetime(2999, 1, 1, tzinfo=UTC)
LATER = replace(PAGE, date="2008-01-01T00:00:00Z")
AGAIN = "/archive/" + capture_key(URL, datetime(2008, 1, 1, tzinfo=UTC)).hex
ELSEWHERE = replace(PAGE, url="http://b.example/other")


@pytest.fixture
async def archive(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> DocumentArchive:
    """An archive that checks documents of up to 100,000 bytes before it sends them."""
    return await served(database, settings, tmp_path, aiohttp_client)


def revisit(page: Page, *fields: str) -> bytes:
    """A revisit of the page: its HTTP header without a body."""
    block = page.http.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    more = "".join(f"{one}\r\n" for one in fields)
    return (
        (
            f"WARC/1.0\r\nWARC-Type: revisit\r\nWARC-Target-URI: {page.url}\r\nWARC-Date: {page.date}\r\n"
            f"WARC-Payload-Digest: {page.payload_digest}\r\n{more}Content-Type: application/http\r\n"
            f"Content-Length: {len(block)}\r\n\r\n"
        ).encode()
        + block
        + b"\r\n\r\n"
    )


def rule(archive: DocumentArchive, rule: Rule, url: str = URL) -> None:
    with archive.database.session() as session:
        add_collection(session, "collection:ruled")
        session.commit()
        assign(session, "collection:ruled", Selection(url=url), margin=1)
        set_rule(session, "collection:ruled", rule, margin=1)


async def test_the_access_rule_determines_status_and_explanation(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE))
    for access, status, words in (
        (Rule(access=Access.OPEN), 200, "A page"),
        (Rule(access=Access.READING_ROOM), 403, "only in the archive's reading room"),
        (Rule(access=Access.EMBARGO, embargo_until=FAR), 403, "before 2999-01-01"),
        (Rule(access=Access.WITHHELD), 410, "does not give access"),
    ):
        rule(archive, access)
        for response in (await archive.get(), await archive.get(If_None_Match=f'"{PAGE.payload_digest}"')):
            assert response.status in {status, 304 if status == 200 else status}, access
        response = await archive.get()
        assert words in await response.text()
        assert (PAGE.body in await response.read()) == (status == 200), access


async def test_reading_room_documents_are_served_to_reading_room_addresses_only(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    inside, outside = [
        await served(database, settings, tmp_path, aiohttp_client, reading_room=(network,))
        for network in ("127.0.0.0/8", "192.0.2.0/24")
    ]
    inside.index(warc_record(PAGE))
    rule(inside, Rule(access=Access.READING_ROOM))
    for archive, status in ((inside, 200), (outside, 403)):
        response = await archive.get()
        assert response.status == status
        assert (await archive.get(X_Forwarded_For="127.0.0.1")).status == status
        assert (response.headers["Cache-Control"] == "private, no-cache") == (status == 200)


async def test_a_revisit_does_not_give_access_to_a_restricted_original(archive: DocumentArchive) -> None:
    refers = f"WARC-Refers-To-Target-URI: {ELSEWHERE.url}"
    archive.index(warc_record(ELSEWHERE), revisit(LATER, refers))
    rule(archive, Rule(access=Access.READING_ROOM), ELSEWHERE.url)
    assert (await archive.get(AGAIN)).status == 403


async def test_a_hidden_document_is_answered_with_410(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE))
    with archive.database.session() as session:
        hide(session, Selection(url=URL), margin=1)
    assert (await archive.get()).status == 410


async def test_a_document_that_was_never_listed_is_answered_with_404(archive: DocumentArchive) -> None:
    with archive.database.session() as session:
        add_collection(session, "collection:closed")
        session.commit()
        set_rule(session, "collection:closed", Rule(access=Access.WITHHELD), margin=1)
        number = add_collection(session, "collection:closed").id
    path = write_archive(archive.folder / "x.warc", [warc_record(PAGE)])
    assert index_file(archive.database, path, IndexOptions(margin=1, collections=(number,))).merged.new == 1
    assert (await archive.get()).status == 404
