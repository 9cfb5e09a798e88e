"""An item with all fields, for tests of formats."""

import uuid
from datetime import UTC, datetime
from typing import Any

from oai.sections import ProviderSettings
from provider.protocol.formats.format import Site
from provider.protocol.items import Item

SITE = Site(base_url="https://archive.example/oai", settings=ProviderSettings(namespace="archive.example"))

WHOLE = Item(
    id=1,
    key=uuid.UUID("0123456789abcdef0123456789abcdef"),
    datestamp=datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    deleted=False,
    access="open",
    embargo_until=None,
    url="http://example.cz/?a=1&b=<2>",
    archived=datetime(2008, 1, 6, 19, 16, 55, 120000, tzinfo=UTC),
    title="A \x0b title \U0001d11e",
    http_status=404,
    digest="sha1:ABC",
    length=321,
    record_type="response",
    offset=17,
    archive_path="/archive/one.warc",
    mime_type="text/html",
    mimetype_set="mimetype:text:html",
    host="example.cz",
    domain_set="domain:cz:example",
    title_set=None,
    collections=[["collection:a:b", "A & B"], ["collection:c", "C"]],
)

BARE: dict[str, Any] = {
    "title": None,
    "http_status": None,
    "digest": None,
    "length": None,
    "mime_type": "unknown",
    "mimetype_set": "mimetype:unknown",
    "host": None,
    "domain_set": None,
    "collections": None,
}
"""What a document may lack."""


def item(**changes: Any) -> Item:
    """Return the item with these fields changed."""
    return WHOLE._replace(**changes)
