"""The fields of a record, as rules address them: a name for people, an XPath, and the values."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.reading.salvage import WELL_KNOWN
from harvester.rule_lab.rows import Namespace
from oai.vocabulary import OAI_NAMESPACE, REPAIRED_NAMESPACE

_PREFIXES: Final[Mapping[str, str]] = {
    **{uri: prefix for prefix, uri in WELL_KNOWN.items()},
    OAI_NAMESPACE: "oai",
}
_MARC: Final = WELL_KNOWN["marc"]
_TAG: Final = re.compile(r"[0-9A-Za-z]{1,3}")
_EXAMPLES: Final = 3
_LONGEST_EXAMPLE: Final = 60


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field."""

    name: str
    """Such as `dc:title`, `245 $a`, `setSpec`."""
    xpath: str
    namespaces: tuple[Namespace, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FoundField:
    """A field that occurs in some records."""

    field: Field
    records: int
    """The number of records that have it."""
    examples: Sequence[str]


def values_of_record(record: etree._Element) -> dict[Field, list[str]]:
    """Return the values of each field of a `<record>` that are not empty, in the order of the record."""
    found: dict[Field, list[str]] = {}
    for element in record.iter(etree.Element):
        text = (element.text or "").strip()
        if not text or len(element) or (field := _field_of(element)) is None:
            continue
        found.setdefault(field, []).append(text)
    return found


def found_fields(records: Iterable[Mapping[Field, Sequence[str]]]) -> list[FoundField]:
    """Return the fields of these records with examples, those in most records first."""
    counts: Counter[Field] = Counter()
    examples: dict[Field, list[str]] = {}
    for record in records:
        for field, values in record.items():
            counts[field] += 1
            shown = examples.setdefault(field, [])
            if len(shown) < _EXAMPLES and values[0][:_LONGEST_EXAMPLE] not in shown:
                shown.append(values[0][:_LONGEST_EXAMPLE])
    return [
        FoundField(field=field, records=count, examples=examples[field])
        for field, count in sorted(counts.items(), key=lambda item: (-item[1], item[0].name))
    ]


def _field_of(element: etree._Element) -> Field | None:
    name = etree.QName(element)
    uri = name.namespace or ""
    if uri == OAI_NAMESPACE:
        return _field("setSpec", "//oai:setSpec", "oai", uri) if name.localname == "setSpec" else None
    if uri == REPAIRED_NAMESPACE:  # our own mark, no field of the repository
        return None
    if uri == _MARC:
        return _field_of_marc(element, name.localname)
    if not uri:
        return Field(name=name.localname, xpath=f"//{name.localname}")
    prefix = _PREFIXES.get(uri) or element.prefix or "ns"
    shown = f"{prefix}:{name.localname}"
    return _field(shown, f"//{shown}", prefix, uri)


def _field_of_marc(element: etree._Element, name: str) -> Field | None:
    if name == "leader":
        return _field("leader", "//marc:leader", "marc", _MARC)
    holder = element if name == "controlfield" else element.getparent()
    tag, code = (holder.get("tag", "") if holder is not None else ""), element.get("code", "")
    if not _TAG.fullmatch(tag):
        return None
    if name == "controlfield":
        return _field(tag, f"//marc:controlfield[@tag='{tag}']", "marc", _MARC)
    if not _TAG.fullmatch(code):
        return None
    xpath = f"//marc:datafield[@tag='{tag}']/marc:subfield[@code='{code}']"
    return _field(f"{tag} ${code}", xpath, "marc", _MARC)


def _field(name: str, xpath: str, prefix: str, uri: str) -> Field:
    return Field(name=name, xpath=xpath, namespaces=(Namespace(prefix=prefix, uri=uri),))
