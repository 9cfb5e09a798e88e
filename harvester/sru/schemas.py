"""Which of a server's record schemas is meant by a format's name, and Dublin Core in one wrapper.

Source: SRU, "Record Schemas": info:srw/schema/1/dc-v1.1 and info:srw/schema/1/marcxml-v1.1.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lxml import etree

from harvester.reading.answers import FormatInfo
from harvester.sru.answers import local_name
from oai.vocabulary import OAI_DC_NAMESPACE

_DC_NAMESPACE: Final = "http://purl.org/dc/elements/1.1/"
_ALIKE: Final[Sequence[frozenset[str]]] = (
    frozenset(
        {
            "oai_dc", "dc", "simpledc", "dublincore", "info:srw/schema/1/dc-v1.1",
            "info:srw/schema/1/dc-schema",
            "http://purl.org/dc/elements/1.1/", "http://www.openarchives.org/oai/2.0/oai_dc/",
        }
    ),
    frozenset(
        {
            "marcxml", "marc21", "marc21-xml", "marc", "info:srw/schema/1/marcxml-v1.1",
            "info:srw/schema/1/marcxml-v1.2", "http://www.loc.gov/marc21/slim",
        }
    ),
)  # fmt: skip
"""Names, and identifiers of schemas, in small letters, that mean the same."""


def choose_schema(wanted: str, offered: Sequence[FormatInfo]) -> str | None:
    """The server's name of the schema; None where it offers others only.

    A server that does not tell what it offers is asked by the name as it is, of Dublin Core by `dc`.
    """
    if not offered:
        return "dc" if wanted == "oai_dc" else wanted
    names = [found.metadata_prefix for found in offered]
    if wanted in names:
        return wanted
    alike = next((group for group in _ALIKE if wanted.lower() in group), frozenset({wanted.lower()}))
    for found in offered:
        if {found.metadata_prefix.lower(), found.namespace.lower()} & alike:
            return found.metadata_prefix
    return None


_OAI_DC: Final[Mapping[str, str]] = MappingProxyType({"oai_dc": OAI_DC_NAMESPACE, "dc": _DC_NAMESPACE})


def as_oai_dc(metadata: etree._Element) -> etree._Element:
    """Dublin Core in the wrapper of oai_dc, for servers have several; its elements stay as they are.

    What is no Dublin Core is given as it came.
    """
    inside = list(metadata.iterchildren(etree.Element))
    fits = local_name(metadata) in {"dc", "record"} and all(
        etree.QName(element).namespace == _DC_NAMESPACE for element in inside
    )
    if not fits or not inside or metadata.tag == f"{{{OAI_DC_NAMESPACE}}}dc":
        return metadata
    wrapper = etree.Element(f"{{{OAI_DC_NAMESPACE}}}dc", nsmap=dict(_OAI_DC))
    wrapper.extend(inside)
    etree.cleanup_namespaces(wrapper, keep_ns_prefixes=["oai_dc", "dc"])
    return wrapper
