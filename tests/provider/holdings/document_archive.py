"""An archive of a few records that serves its documents, for tests."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.http.metrics import METRICS
from provider.indexing.indexer import IndexOptions, index_file
from tests.provider.archives import Page, capture_key, warc_record, write_archive
from tests.provider.conftest import BASE_URL

URL = "http://a.example/page"
ADDRESS = "/archive/" + capture_key(URL, datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC)).hex
PAGE = Page(url=URL)


@dataclass
class DocumentArchive:
    """Writes files, indexes them, and serves their documents."""

    database: Database
    settings: Settings
    folder: Path
    client: TestClient[Request, Application]
    written: list[Path] = field(default_factory=list)

    def index(self, *records: bytes, name: str = "x.warc.gz") -> Path:
        path = write_archive(self.folder / name, records)
        report = index_file(self.database, path, IndexOptions(margin=1))
        assert not report.merged.problems
        return path

    async def get(self, address: str = ADDRESS, **headers: str) -> ClientResponse:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(address, headers={"Accept-Encoding": "identity", **fields})

    def refused(self, why: str) -> float | None:
        """The requests that were answered 503 for this reason."""
        labels = {"why": why}
        return self.client.app[METRICS].registry.get_sample_value("zatva_provider_refused_total", labels)


async def served(
    database: Database, settings: Settings, folder: Path, aiohttp_client: AiohttpClient, **changes: object
) -> DocumentArchive:
    changes = {"checked_document_bytes": 100_000, "trusted_proxies": (), **changes}
    provider = settings.provider.model_copy(update=changes)
    chosen = settings.model_copy(update={"provider": provider})
    app = create_app(chosen, database, base_url=BASE_URL)
    client = await aiohttp_client(app, auto_decompress=False)
    return DocumentArchive(database, chosen, folder, client)


def http(page: Page, *fields: str, body: bytes | None = None) -> bytes:
    """A record with further HTTP fields, and a body that its digest does not match."""
    message = page.http.partition(b"\r\n\r\n")[0]
    message += b"".join(b"\r\n" + one.encode() for one in fields) + b"\r\n\r\n"
    block = message + (page.body if body is None else body)
    record = warc_record(page).partition(b"\r\n\r\n")[0]
    record = re.sub(rb"Content-Length: \d+$", b"Content-Length: %d" % len(block), record)
    return record + b"\r\n\r\n" + block + b"\r\n\r\n"


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[begin : begin + size] for begin in range(0, len(body), size)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
