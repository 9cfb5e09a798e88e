"""Runs docs/how-to/filter-normalise-validate.md: its files, records, commands and statements."""

import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from lxml import etree

from harvester.rules.schemas import SchemaCache
from tests.harvester.fake_repository import FakeRepository, Item, serve
from tests.harvester.rules.schema_server import SchemaServer, schema, serve_schemas
from tests.harvester.test_commands import Ended, run

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "filter-normalise-validate.md").read_text(
    encoding="utf-8"
)
MARC = "http://www.loc.gov/MARC21/slim"
MARC_SCHEMA = schema(
    '<xs:element name="record"><xs:complexType><xs:sequence><xs:element name="leader" type="xs:string"/>'
    '<xs:element name="datafield" maxOccurs="unbounded"><xs:complexType><xs:sequence>'
    '<xs:element name="subfield" maxOccurs="unbounded"><xs:complexType><xs:simpleContent>'
    '<xs:extension base="xs:string"><xs:attribute name="code"/></xs:extension>'
    "</xs:simpleContent></xs:complexType></xs:element></xs:sequence>"
    '<xs:attribute name="tag"><xs:simpleType><xs:restriction base="xs:string">'
    '<xs:length value="3"/></xs:restriction>'
    '</xs:simpleType></xs:attribute><xs:attribute name="ind1"/><xs:attribute name="ind2"/></xs:complexType>'
    "</xs:element></xs:sequence></xs:complexType></xs:element>",
    MARC,
)
"""As much of MARCXML as the page needs."""


def blocks(kind: str) -> list[tuple[str, str]]:
    """Return the page's code blocks of a kind: the comment above each, and its text."""
    found = re.findall(rf"<!-- {kind}(?:: (.*?))? -->\n```\w+\n(.*?)\n```", GUIDE, re.DOTALL)
    assert found, f"the page has no block {kind!r}"
    return found


def items(source: str) -> list[Item]:
    named = [(name.split()[1], text) for name, text in blocks("record") if name.split()[0] == source]
    return [
        Item(
            identifier=f"oai:{source}.example:{number}",
            datestamp=f"2024-06-0{number}T00:00:00Z",
            metadata=text,
        )
        for number, text in named
    ]


@pytest.fixture
async def schemas() -> AsyncIterator[SchemaServer]:
    async with serve_schemas({"/MARC21slim.xsd": MARC_SCHEMA}) as server:
        yield server


@pytest.fixture
async def gallery() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=items("gallery"))) as fake:
        yield fake


@pytest.fixture
async def library(schemas: SchemaServer) -> AsyncIterator[FakeRepository]:
    def announce(asked: dict[str, str], good: bytes) -> bytes:
        return (
            good.replace(b"<metadataPrefix>oai_dc", b"<metadataPrefix>marc21")
            .replace(
                b"http://www.openarchives.org/OAI/2.0/oai_dc.xsd", f"{schemas.url}/MARC21slim.xsd".encode()
            )
            .replace(b"http://www.openarchives.org/OAI/2.0/oai_dc/", MARC.encode())
            if asked.get("verb") == "ListMetadataFormats"
            else good
        )

    async with serve(
        FakeRepository(items=items("library")[:2], now="2024-06-02T12:00:00Z", fault=announce)
    ) as fake:
        yield fake


def metadata(text: bytes) -> bytes:
    """Return the metadata's root element in its canonical form."""
    root = etree.fromstring(text)
    found = root.find("{http://www.openarchives.org/OAI/2.0/}metadata")
    alone = etree.fromstring(etree.tostring(root if found is None else found[0], with_tail=False))
    return etree.tostring(alone, method="c14n", exclusive=True)


async def test_the_page_does_what_it_says(
    gallery: FakeRepository,
    library: FakeRepository,
    schemas: SchemaServer,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in blocks("file"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    ends: list[Ended] = []
    for wanted, command in blocks("run"):
        words = shlex.split(command.removeprefix("$ zatva "))
        addresses = {"https://gallery.example/oai": gallery.url, "https://library.example/oai": library.url}
        ends.append(await run(environment, *(addresses.get(word, word) for word in words)))
        assert ends[-1].code == int(wanted), ends[-1]
        if len(ends) == 2:
            library.items = items("library")
            check_stored(tmp_path)

    [(_, expected)] = blocks("says")
    assert expected in ends[2].out + ends[2].err
    assert "record 'oai:library.example:3' is not valid: line " in ends[2].out + ends[2].err
    assert (tmp_path / "library" / "library.example" / "3.xml").exists()
    assert schemas.asked == {"/MARC21slim.xsd": 1}


def check_stored(folder: Path) -> None:
    """Check that exactly the records shown on the page are stored."""
    stored = {f"{name.split()[0]}.example/{name.split()[1]}.xml": text for name, text in blocks("stored")}
    there = {
        path.relative_to(folder / path.relative_to(folder).parts[0]).as_posix(): path.read_bytes()
        for path in folder.rglob("*.example/*.xml")
    }
    assert {name: metadata(text) for name, text in there.items()} == {
        name: metadata(text.encode()) for name, text in stored.items()
    }


def test_the_documented_file_names_are_those_of_the_cache() -> None:
    rows = re.findall(r"^\| `(https?://[^`]+)` \| `([^`]+)` \|$", GUIDE, re.MULTILINE)

    assert len(rows) == 2
    assert {address: SchemaCache(folder=Path()).path(address).name for address, _ in rows} == dict(rows)
