"""Dublin Core out of documents."""

import uuid
from datetime import UTC, datetime

import pytest
from lxml import etree

from oai.vocabulary import DC_NAMESPACE
from provider.formats import FORMATS, oai_dc
from provider.items import Item

ITEM = Item(
    id=1,
    key=uuid.UUID(int=1),
    datestamp=datetime(2024, 1, 1, tzinfo=UTC),
    deleted=False,
    url="http://example.cz/",
    archived=datetime(2008, 1, 6, 19, 16, 55, 999, tzinfo=UTC),
    title=None,
    mime_type="text/html",
    host="example.cz",
    set_specs=("mimetype:text:html",),
)


def elements(item: Item) -> dict[str, str]:
    root = etree.fromstring(oai_dc.write(item))
    assert root.tag == "{http://www.openarchives.org/OAI/2.0/oai_dc/}dc"
    assert all(str(child.tag).startswith(f"{{{DC_NAMESPACE}}}") for child in root)
    return {str(child.tag).rpartition("}")[2]: child.text or "" for child in root}


def test_a_document_without_a_title_is_called_by_its_url() -> None:
    assert elements(ITEM) == {
        "title": "http://example.cz/",
        "date": "2008-01-06T19:16:55Z",
        "type": "Text",
        "format": "text/html",
        "identifier": "http://example.cz/",
        "source": "example.cz",
    }


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
def test_the_type_is_a_word_of_dcmi_or_left_out(mime_type: str, expected: str | None) -> None:
    item = Item(**{**vars(ITEM), "mime_type": mime_type})
    assert elements(item).get("type") == expected


def test_what_is_not_known_is_left_out() -> None:
    item = Item(**{**vars(ITEM), "mime_type": "unknown", "host": None})
    assert elements(item).keys() == {"title", "date", "identifier"}


def test_each_format_is_registered_under_its_prefix() -> None:
    assert FORMATS["oai_dc"] is oai_dc.FORMAT
    assert all(prefix == format_.prefix for prefix, format_ in FORMATS.items())
