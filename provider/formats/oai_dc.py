"""Unqualified Dublin Core, the format that every repository has (OAI-PMH 2.0, section 5)."""

from collections.abc import Mapping
from typing import Final

from oai.datestamps import format_datestamp
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_DC_SCHEMA, XSI_NAMESPACE
from oai.xml import escape
from provider.formats.format import Format
from provider.items import Item

_OPENING: Final = (
    f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}">'
)

_DCMI_TYPES: Final[Mapping[str, str]] = {
    "audio": "Sound",
    "image": "Image",
    "text": "Text",
    "video": "MovingImage",
}
_TEXT_TYPES: Final = frozenset({"application/pdf", "application/xhtml+xml", "application/msword"})


def write(item: Item) -> str:
    """The item as `oai_dc:dc`."""
    known_type = "/" in item.mime_type
    return container(
        {
            "title": item.title or item.url,
            "date": format_datestamp(item.archived),
            "type": _dcmi_type(item.mime_type),
            "format": item.mime_type if known_type else None,
            "identifier": item.url,
            "source": item.host,
        }
    )


def container(elements: Mapping[str, str | None]) -> str:
    """An `oai_dc:dc` of these elements, each with its text; those without any are left out."""
    inside = "".join(f"<dc:{name}>{escape(text)}</dc:{name}>" for name, text in elements.items() if text)
    return f"{_OPENING}{inside}</oai_dc:dc>"


def _dcmi_type(mime_type: str) -> str | None:
    """The word of the DCMI Type Vocabulary, where the MIME type tells."""
    if mime_type in _TEXT_TYPES:
        return "Text"
    return _DCMI_TYPES.get(mime_type.partition("/")[0])


FORMAT: Final = Format(prefix="oai_dc", schema=OAI_DC_SCHEMA, namespace=OAI_DC_NAMESPACE, write=write)
