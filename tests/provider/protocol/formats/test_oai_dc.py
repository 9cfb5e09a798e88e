"""Dublin Core records of documents."""

from collections.abc import Sequence

import pytest
from lxml import etree

from oai.vocabulary import DC_NAMESPACE
from provider.protocol.formats import oai_dc
from provider.protocol.items import Item
from tests.provider.protocol.formats.item import BARE, SITE, item

URL = "http://example.cz/?a=1&b=<2>"


def elements(given: Item) -> Sequence[tuple[str, str]]:
    root = etree.fromstring(oai_dc.write(given, SITE))
    assert root.tag == "{http://www.openarchives.org/OAI/2.0/oai_dc/}dc"
    assert all(str(child.tag).startswith(f"{{{DC_NAMESPACE}}}") for child in root)
    return [(str(child.tag).rpartition("}")[2], child.text or "") for child in root]


def test_a_record_contains_the_fields_of_a_document() -> None:
    assert elements(item()) == [
        ("title", "A  title \U0001d11e"),
        ("date", "2008-01-06T19:16:55Z"),
        ("type", "Text"),
        ("format", "text/html"),
        ("identifier", URL),
        ("identifier", "https://archive.example/archive/0123456789abcdef0123456789abcdef"),
        ("source", "example.cz"),
        ("relation", "A & B"),
        ("relation", "C"),
        ("rights", SITE.settings.rights_open),
    ]


def test_a_document_without_a_title_has_its_url_as_title() -> None:
    assert dict(elements(item(title=None)))["title"] == URL


@pytest.mark.parametrize(
    ("mime_type", "expected"),
    [
        ("text/css", "Text"),
        ("application/pdf", "Text"),
        ("image/gif", "Image"),
        ("audio/mpeg", "Sound"),
        ("video/mp4", "MovingImage"),
        ("application/zip", None),
        ("unknown", None),
    ],
)
def test_the_type_is_a_dcmi_term_or_omitted(mime_type: str, expected: str | None) -> None:
    assert dict(elements(item(mime_type=mime_type))).get("type") == expected


def test_unknown_fields_are_omitted() -> None:
    names = [name for name, _ in elements(item(**BARE, access="embargo"))]
    assert names == ["title", "date", "identifier", "rights"]
