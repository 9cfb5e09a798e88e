"""A provider of web archive documents over a list in memory, on 127.0.0.1, with configurable faults."""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

from harvester.restoring.captures import NAMESPACE
from oai.xml import escape
from tests.harvester.fake_repository import FakeRepository, Item
from tests.harvester.restoring.listed import sha1


@dataclass(kw_only=True)
class FakeProvider(FakeRepository):
    """Lists and returns its documents; `fetched` has the key of each request for a document."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    """Documents by key."""
    fetched: list[str] = field(default_factory=list)
    refusal: Callable[[str], web.Response | None] = lambda _key: None
    """Returns, for a key, the answer in place of the document."""

    def add(self, url: str, body: bytes) -> str:
        """Add a document and return its key."""
        key = hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()
        self.bodies[key] = body
        fields = {
            "url": url,
            "captured": "2007-11-02T03:04:05Z",
            "mimeType": "text/html",
            "httpStatus": "200",
            "digest": sha1(body),
            "length": str(len(body)),
            "recordType": "response",
        }
        elements = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
        metadata = f'<capture xmlns="{NAMESPACE}">{elements}</capture>'
        self.items.append(Item(identifier=f"oai:a.example:{key}", sets=("all",), metadata=metadata))
        return key

    async def give(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        self.fetched.append(key)
        return self.refusal(key) or web.Response(
            body=self.bodies[key], content_type="text/html", headers={"X-Archive-Orig-Status": "200"}
        )


@contextlib.asynccontextmanager
async def serve_provider(provider: FakeProvider) -> AsyncIterator[FakeProvider]:
    """Serve the provider for the block; its `url` is set."""
    application = web.Application()
    application.router.add_get("/oai", provider.handle)
    application.router.add_get("/archive/{key}", provider.give)
    async with TestServer(application) as server:
        provider.url = str(server.make_url("/oai"))
        yield provider
