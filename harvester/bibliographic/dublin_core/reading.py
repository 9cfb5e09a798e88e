"""The elements of a Dublin Core record: what each is, in which term, scheme and language."""

from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.bibliographic.punctuation import tidy

DC: Final = "http://purl.org/dc/elements/1.1/"
TERMS: Final = "http://purl.org/dc/terms/"
_XSI_TYPE: Final = "{http://www.w3.org/2001/XMLSchema-instance}type"
_XML_LANG: Final = "{http://www.w3.org/XML/1998/namespace}lang"
_REFINED: Final = {
    "created": "date", "issued": "date", "available": "date", "modified": "date", "valid": "date",
    "dateCopyrighted": "date", "dateSubmitted": "date", "dateAccepted": "date",
    "abstract": "description", "tableOfContents": "description", "alternative": "title",
    "isPartOf": "relation", "hasPart": "relation", "isVersionOf": "relation", "hasVersion": "relation",
    "isReplacedBy": "relation", "replaces": "relation", "requires": "relation", "isRequiredBy": "relation",
    "isReferencedBy": "relation", "references": "relation", "isFormatOf": "relation",
    "hasFormat": "relation", "conformsTo": "relation", "extent": "format", "medium": "format",
    "spatial": "coverage", "temporal": "coverage", "accessRights": "rights", "license": "rights",
    "rightsHolder": "rights", "bibliographicCitation": "identifier",
}  # fmt: skip
"""Terms that say more exactly what an element says."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """One element of the record."""

    name: str
    """Of the fifteen; of an element that is none of them its own name."""
    term: str
    """As written: the element, or the term that refines it."""
    text: str
    scheme: str
    """What `xsi:type` names, without its prefix."""
    language: str


def open_element(child: etree._Element) -> Element:
    """What an element of the record says; a term that refines an element is taken as that."""
    term = etree.QName(child).localname
    return Element(
        name=_REFINED.get(term, term),
        term=term,
        text=tidy("".join(str(piece) for piece in child.itertext())),
        scheme=child.get(_XSI_TYPE, "").rpartition(":")[2].strip(),
        language=child.get(_XML_LANG, "").strip(),
    )
