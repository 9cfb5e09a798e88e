"""The demo's slow and broken repositories, asked over HTTP."""

import re
from pathlib import Path

import aiohttp
import pytest
from lxml import etree

import zatva.libraries
from harvester.client import OaiError, open_client
from oai.database import Database
from provider.protocol.formats.marc21 import NAMESPACE
from zatva.libraries import broken_library, slow_library

_TOKEN = re.compile(r"<resumptionToken[^>]*>([^<]+)<")
_SCHEMA = Path(zatva.libraries.__file__).parent / "marc21.xsd"


async def test_the_slow_library_has_a_list_size_and_selects_by_set_and_date(database: Database) -> None:
    async with slow_library(database, page_seconds=0.0) as library, open_client(library.base_url) as client:
        page = await anext(aiter(client.records("oai_dc").pages()))
        maps = [header async for header in client.headers("oai_dc", set_spec="maps", until="2024-01-03")]
        sets = [found.set_spec async for found in client.list_sets()]
    assert len(page.records) == 50
    assert page.token is not None
    assert page.token.complete_list_size == 5000
    assert sets == ["books", "journals", "maps"]
    assert 0 < len(maps) < 390
    assert all(header.set_specs == ("maps",) and header.datestamp < "2024-01-04" for header in maps)


async def test_every_list_of_the_broken_library_has_the_same_faults(database: Database) -> None:
    async with broken_library(database) as library, aiohttp.ClientSession() as session:
        first, second = await _walk(session, library.base_url), await _walk(session, library.base_url)
    assert first == second == ["page", "page", "503 after 2", "page", "badResumptionToken"]


async def test_one_marc_record_of_the_broken_library_breaks_its_schema(database: Database) -> None:
    schema = etree.XMLSchema(etree.parse(_SCHEMA))
    async with broken_library(database) as library, open_client(library.base_url) as client:
        found = [await client.get_record(f"oai:broken.example:{number:05}", "marc21") for number in (4, 5, 6)]
    assert [schema.validate(_marc(record.element)) for record in found] == [True, False, True]


async def test_the_libraries_have_no_unknown_records_or_sets(database: Database) -> None:
    async with broken_library(database) as library, open_client(library.base_url) as client:
        with pytest.raises(OaiError, match="idDoesNotExist"):
            await client.get_record("oai:broken.example:99999")
        assert [header async for header in client.headers("oai_dc", set_spec="songs")] == []


async def _walk(session: aiohttp.ClientSession, base_url: str) -> list[str]:
    """Return the kind of each answer of a list, until its token is refused."""
    asked = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
    found: list[str] = []
    while "badResumptionToken" not in found:
        async with session.get(base_url, params=asked) as response:
            text = await response.text()
        token = _TOKEN.search(text)
        if response.status != 200:
            found.append(f"{response.status} after {response.headers['Retry-After']}")
        elif token is not None:
            found.append("page")
            asked = {"verb": "ListRecords", "resumptionToken": token[1]}
        else:
            found += re.findall(r'<error code="(\w+)"', text)
    return found


def _marc(record: etree._Element | None) -> etree._Element:
    assert record is not None
    found = record.find(f".//{{{NAMESPACE}}}record")
    assert found is not None
    return found
