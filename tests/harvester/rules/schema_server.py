"""Serves made-up schemas on 127.0.0.1, counts requests for each, and can go offline."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from harvester.rules.schemas import SchemaCache, Schemas, schema_fetcher
from oai.sections import HarvesterSettings

XS = "http://www.w3.org/2001/XMLSchema"
BOOK = "urn:example:book"
PERSON = "urn:example:person"
NOTE = "urn:example:note"


def schema(content: str, namespace: str | None = None, *, attributes: str = "") -> str:
    """Return a schema for the namespace."""
    target = f' targetNamespace="{namespace}" xmlns="{namespace}"' if namespace else ""
    return (
        f'<?xml version="1.0"?>\n<xs:schema xmlns:xs="{XS}" xmlns:p="{PERSON}"{target} '
        f'elementFormDefault="qualified" {attributes}>{content}</xs:schema>'
    )


LIBRARY = {
    "/book.xsd": schema(
        '<xs:import namespace="http://www.w3.org/XML/1998/namespace" schemaLocation="http://www.w3.org/2001/xml.xsd"/>'
        f'<xs:import namespace="{PERSON}" schemaLocation="../people/person.xsd"/>'
        '<xs:include schemaLocation="parts/title.xsd#here"/>'
        '<xs:include schemaLocation=" ./parts/pages.xsd "/>'
        '<xs:element name="book"><xs:complexType><xs:sequence><xs:element name="title" type="title"/>'
        '<xs:element name="author" type="p:name"/><xs:element name="pages" type="pages"/>'
        '<xs:any namespace="##other" processContents="lax" minOccurs="0"/></xs:sequence>'
        '<xs:attribute ref="xml:lang" xmlns:xml="http://www.w3.org/XML/1998/namespace"/></xs:complexType></xs:element>',
        BOOK,
    ),
    "/parts/title.xsd": schema(
        '<xs:include schemaLocation="pages.xsd"/><xs:include schemaLocation="../book.xsd"/>'
        '<xs:simpleType name="title"><xs:restriction base="xs:string">'
        '<xs:minLength value="1"/></xs:restriction></xs:simpleType>',
        BOOK,
    ),
    "/parts/pages.xsd": schema(
        '<xs:simpleType name="pages"><xs:restriction base="xs:int">'
        '<xs:minInclusive value="1"/></xs:restriction></xs:simpleType>'
    ),
    "/people/person.xsd": schema(
        '<xs:simpleType name="name"><xs:restriction base="xs:string">'
        '<xs:pattern value="[A-Z].*"/></xs:restriction></xs:simpleType>',
        PERSON,
    ),
    "/note.xsd": schema('<xs:element name="note" type="xs:date"/>', NOTE),
}  # fmt: skip
"""Schemas that import and include each other, some of them in a cycle."""


@dataclass(kw_only=True)
class SchemaServer:
    """Serves `files` by path; a number is sent as a status, an address as a redirect."""

    files: dict[str, str | int] = field(default_factory=lambda: dict(LIBRARY))
    asked: Counter[str] = field(default_factory=Counter)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked[request.path_qs] += 1
        found = self.files.get(request.path, 404)
        if isinstance(found, int):
            return web.Response(status=found, text="<html>no</html>", content_type="text/html")
        if found.startswith(("http", "ftp", "file")):
            return web.Response(status=302, headers={"Location": found})
        return web.Response(text=found, content_type="text/xml")


@contextlib.asynccontextmanager
async def serve_schemas(files: Mapping[str, str | int] | None = None) -> AsyncIterator[SchemaServer]:
    """Serve schemas for the block; its `url` is set."""
    server = SchemaServer() if files is None else SchemaServer(files=dict(files))
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def schemas(folder: Path) -> Schemas:
    """Schemas over the real network, with few retries."""
    settings = HarvesterSettings(retries=0, timeout=10)
    return Schemas(cache=SchemaCache(folder=folder), fetch=schema_fetcher(settings, named_by_public=False))
