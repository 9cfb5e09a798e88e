"""The MARC records in an element, told apart by kind: only bibliographic ones become rows.

Sources: MARC 21 Format for Bibliographic, Authority, Holdings, Classification and Community Information Data,
"Leader", position 6; MARCXML and MarcXchange (ISO 25577), attributes `type` and `format`; the OAI format
`oai_marc`, in which Aleph publishes.
"""

import functools
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from lxml import etree

BIBLIOGRAPHIC: Final = "bibliographic"
HOLDINGS: Final = "holdings"
_SLIM: Final = "http://www.loc.gov/MARC21/slim"
NAMESPACES: Final = frozenset(
    {
        _SLIM,
        f"{_SLIM}/",
        "info:lc/xmlns/marcxchange-v1",
        "info:lc/xmlns/marcxchange-v2",
        "http://www.openarchives.org/OAI/1.1/oai_marc",
    }
)
_KINDS: Final = {
    **dict.fromkeys("uvxy", HOLDINGS), "z": "authority", "w": "classification", "q": "community information",
}  # fmt: skip
_BIBLIOGRAPHIC_TYPES: Final = frozenset("abcdefghijkmnoprt")
_NAMED_KINDS: Final = {
    "authority": "authority", "holdings": HOLDINGS, "classification": "classification",
    "community": "community information",
}  # fmt: skip
"""Values of the attribute `type`, in lower case."""
_LEADER_TYPE: Final = re.compile(r"^[\d\s|#^-]*[acdnopsx]([a-z])")
"""The type in a leader of another length: the letter after the status."""
_LEADER: Final = 24
_UNIMARC_CODED: Final = re.compile(r"\d{8}")
"""Begins field 100 $a in UNIMARC, whose length differs because servers remove blanks."""
_OTHER_FORMATS: Final = frozenset({"unimarc", "mab", "mab2", "intermarc", "danmarc", "danmarc2", "normarc"})
_FIELDS: Final = frozenset({"leader", "controlfield", "datafield", "fixfield", "varfield"})
_OAI_MARC: Final = "oai_marc"


@dataclass(frozen=True, kw_only=True)
class MarcRecords:
    """The records in an element, in MARCXML."""

    records: Sequence[tuple[str, etree._Element]]
    """Each with its kind."""

    def of_kind(self, kind: str) -> list[etree._Element]:
        """Return the records of a kind."""
        return [record for found, record in self.records if found == kind]

    def others(self) -> list[tuple[str, etree._Element]]:
        """Return the records that are neither bibliographic nor holdings, with their kinds."""
        return [(kind, record) for kind, record in self.records if kind not in {BIBLIOGRAPHIC, HOLDINGS}]


def is_marc(element: etree._Element) -> bool:
    """Return whether it is a MARC record or a collection; outside MARC's namespaces, its fields decide."""
    name = etree.QName(element)
    if name.localname not in {"record", "collection", _OAI_MARC}:
        return False
    return name.namespace in NAMESPACES or any(
        local_name(field) in _FIELDS for record in _records(element) for field in record
    )


def marc_records(element: etree._Element) -> MarcRecords:
    """Return the record, or the records of a collection."""
    found = (_as_marcxml(one) if local_name(one) == _OAI_MARC else one for one in _records(element))
    return MarcRecords(records=[(_kind(one), one) for one in found])


def declined(element: etree._Element) -> str:
    """Return why the element gives no bibliographic record; an empty text if it gives one."""
    formats = {one.get("format", "").strip() for one in (element, *_records(element))}
    for written in sorted(formats):
        if written.lower() in _OTHER_FORMATS:
            return f"the format is {written!r}, not MARC 21; only MARC 21 is converted"
    if any(map(_is_unimarc, _records(element))):
        return "its fields are UNIMARC's (title in 200, none in 245); only MARC 21 is converted"
    found = marc_records(element)
    kinds = [kind for kind, _ in found.records]
    if BIBLIOGRAPHIC in kinds:
        gone = all(map(is_deleted, found.of_kind(BIBLIOGRAPHIC)))
        return "a deleted record, by its status (leader position 5)" if gone else ""
    if not kinds:
        return "the MARC collection contains no record"
    named = " and ".join(dict.fromkeys(kinds))
    return f"not bibliographic: MARC {named} data, by type of record (leader position 6)"


def _records(element: etree._Element) -> list[etree._Element]:
    if local_name(element) != "collection":
        return [element]
    return [one for one in element.iterchildren(etree.Element) if local_name(one) in {"record", _OAI_MARC}]


def _is_unimarc(record: etree._Element) -> bool:
    """Return whether a record that declares no format has UNIMARC's title, and no name in field 100."""
    fields = {one.get("tag"): one for one in record if local_name(one) == "datafield"}
    if "200" not in fields or "245" in fields:
        return False
    coded = next((one.text or "" for one in fields.get("100", ()) if one.get("code") == "a"), "")
    return "100" not in fields or _UNIMARC_CODED.match(coded) is not None


def is_deleted(record: etree._Element) -> bool:
    """Return whether its leader has the status deleted, which some systems send instead of a header."""
    leader = _leader(record)
    return len(leader) == _LEADER and leader[5] == "d"


def _leader(record: etree._Element) -> str:
    return next((one.text or "" for one in record if local_name(one) == "leader"), "")


def _kind(record: etree._Element) -> str:
    leader = _leader(record)
    found = _LEADER_TYPE.match(leader)
    type_ = leader[6] if len(leader) == _LEADER else found[1] if found else ""
    if type_ in _KINDS:
        return _KINDS[type_]
    if type_ in _BIBLIOGRAPHIC_TYPES:
        return BIBLIOGRAPHIC
    return _NAMED_KINDS.get(record.get("type", "").strip().lower(), BIBLIOGRAPHIC)


def _as_marcxml(record: etree._Element) -> etree._Element:
    """Return an `oai_marc` record as MARCXML; what it has besides fields is copied unchanged."""
    made = etree.Element(f"{{{_SLIM}}}record")
    made.text = record.text
    if not any(one.get("id") == "LDR" for one in record):
        leader = etree.SubElement(made, f"{{{_SLIM}}}leader")
        status, type_, level = (record.get(name, " ")[:1] or " " for name in ("status", "type", "level"))
        leader.text = f"     {status}{type_}{level}  22        4500"
    for child in record.iterchildren(etree.Element):
        made.append(_FIELD_MAKERS.get(local_name(child), deepcopy)(child))
    return made


def _control_field(child: etree._Element) -> etree._Element:
    tag = child.get("id", "")
    made = etree.Element(f"{{{_SLIM}}}leader" if tag == "LDR" else f"{{{_SLIM}}}controlfield")
    if tag != "LDR":
        made.set("tag", tag)
    text = child.text or ""
    made.text = (text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text).replace("^", " ")
    made.tail = child.tail
    return made


def _data_field(child: etree._Element) -> etree._Element:
    made = etree.Element(f"{{{_SLIM}}}datafield")
    for name, given in (("tag", "id"), ("ind1", "i1"), ("ind2", "i2")):
        made.set(name, child.get(given, " "))
    made.text, made.tail = child.text, child.tail
    for part in child.iterchildren(etree.Element):
        copied = deepcopy(part)
        if local_name(part) == "subfield":
            copied.tag = f"{{{_SLIM}}}subfield"
            copied.set("code", part.get("label", ""))
        made.append(copied)
    return made


_FIELD_MAKERS: Final = {"fixfield": _control_field, "varfield": _data_field}


def local_name(element: etree._Element) -> str:
    """Return the element's name without its namespace; empty for a comment or processing instruction."""
    tag: object = element.tag
    return _local(tag) if isinstance(tag, str) else ""


@functools.lru_cache(maxsize=256)
def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
