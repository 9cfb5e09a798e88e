"""Validation of records against grammars that travel with the program; nothing is ever fetched (VAL-1).

The grammars are Zatva's own, in `grammars/`: `record.xsd` for the record around the metadata, and one for
each metadata format that can be checked.

Source: OAI-PMH 2.0, sections 2.5 (record), 2.6 (set), 3.3 (dates) and 5 (Dublin Core).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Final, Protocol, cast

from lxml import etree

from oai.errors import StrictCheckError
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_NAMESPACE

_GRAMMARS: Final = Path(__file__).parent / "grammars"
_PREFIXES: Final = {
    OAI_NAMESPACE: "oai",
    OAI_DC_NAMESPACE: "oai_dc",
    DC_NAMESPACE: "dc",
    "http://www.w3.org/XML/1998/namespace": "xml",
}
_LONGEST: Final = 300
"""Characters of one fault; the values of a record may be of any length."""

_BRACED: Final = re.compile(r"\{(http[^{}]*)\}")
_FACET: Final = re.compile(r"^\[facet '[^']*'\] ")
_ABOUT: Final = re.compile(
    r"^Element '(?P<element>[^']*)'(?:, attribute '(?P<attribute>[^']*)')?: (?P<rest>.*)$", re.DOTALL
)
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SCHEMAV_CVC_ELT_1": "this element is not known here",
        "SCHEMAV_CVC_COMPLEX_TYPE_2_2": "this element holds text only, but elements stand in it",
        "SCHEMAV_CVC_COMPLEX_TYPE_2_3": "this element holds elements only, but text stands in it",
        "SCHEMAV_CVC_COMPLEX_TYPE_3_2_1": "this attribute is not known here",
    }
)
"""Plain words for what libxml2 says in those of the XML Schema specification."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A metadata format that can be checked."""

    grammar: str
    root: str
    """Tag of the metadata's root element."""


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {"oai_dc": Format(grammar="oai_dc.xsd", root=f"{{{OAI_DC_NAMESPACE}}}dc")}
)
"""The formats that can be checked, by metadataPrefix."""


class Validator:
    """Checks records of one metadata format; safe to share between threads."""

    def __init__(self, metadata_prefix: str, checked: Format) -> None:
        self._prefix = metadata_prefix
        self._root = checked.root
        self._envelope = _Grammar("record.xsd")
        self._metadata = _Grammar(checked.grammar)

    def faults(self, record: etree._Element) -> list[str]:
        """Give what is wrong with a record, `<record>` in the OAI namespace, in the order of its lines.

        Each fault is one sentence with the line (of the document that the record was parsed from), the
        element and the reason. No fault means that the record is valid.

        What stands in `about` is not checked.
        """
        faults = [*self._envelope.faults(record), *self._presence(record)]
        metadata = record.find(f"{{{OAI_NAMESPACE}}}metadata")
        root = None if metadata is None else next(metadata.iterchildren(etree.Element), None)
        if root is not None:
            faults += self._metadata_faults(root)
        return [text for _, text in sorted(faults, key=lambda fault: fault[0])]

    def _presence(self, record: etree._Element) -> Iterator[tuple[int, str]]:
        header = record.find(f"{{{OAI_NAMESPACE}}}header")
        metadata = record.find(f"{{{OAI_NAMESPACE}}}metadata")
        if header is None:
            return
        deleted = header.get("status") == "deleted"
        if deleted and metadata is not None:
            yield _fault(_line(metadata), "oai:metadata", "a deleted record has no metadata")
        if not deleted and metadata is None:
            yield _fault(_line(record), "oai:record", "there is no oai:metadata, and it is not deleted")

    def _metadata_faults(self, root: etree._Element) -> list[tuple[int, str]]:
        if root.tag == self._root:
            return self._metadata.faults(root)
        reason = f"metadata in the format {self._prefix} begins with the element {_short(self._root)!r}"
        return [_fault(_line(root), _short(str(root.tag)), reason)]


@cache
def validator_for(metadata_prefix: str) -> Validator:
    """Give the validator of a metadata format; its grammars are read once in a process.

    Raises StrictCheckError where there is no grammar for the format.
    """
    try:
        return Validator(metadata_prefix, FORMATS[metadata_prefix])
    except KeyError:
        known = ", ".join(sorted(FORMATS))
        raise StrictCheckError(
            f"there is no grammar for the metadata format {metadata_prefix!r}, so its records cannot be "
            f"validated; the formats with one: {known}; use validation 0 (well-formed) or 2 (loose) instead"
        ) from None


class _LogEntry(Protocol):
    """What lxml tells of a fault."""

    line: int
    type_name: str
    message: str


class _Grammar:
    """One XML Schema. libxml2 keeps the faults of the last check in it, hence the lock."""

    def __init__(self, name: str) -> None:
        self._schema = etree.XMLSchema(file=str(_GRAMMARS / name))
        self._lock = Lock()

    def faults(self, element: etree._Element) -> list[tuple[int, str]]:
        with self._lock:
            if self._schema.validate(element):
                return []
            log = cast("Iterable[_LogEntry]", self._schema.error_log)
            return [_in_words(entry) for entry in log]


def _in_words(entry: _LogEntry) -> tuple[int, str]:
    about = _ABOUT.match(entry.message)
    if about is None:
        return _fault(entry.line, "oai:record", entry.message)
    subject = _short(about["element"])
    if about["attribute"]:
        subject += f"/@{_short(about['attribute'])}"
    reason = _WORDS.get(entry.type_name) or _FACET.sub("", about["rest"])
    return _fault(entry.line, subject, _short(reason))


def _fault(line: int, subject: str, reason: str) -> tuple[int, str]:
    text = f"line {line}, element {subject!r}: {reason.rstrip('.')}"
    return line, text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _line(element: etree._Element) -> int:
    return cast("int | None", element.sourceline) or 0


def _short(text: str) -> str:
    """Write `{http://purl.org/dc/elements/1.1/}title` as `dc:title`; an unknown namespace stays."""
    return _BRACED.sub(lambda found: f"{_PREFIXES[found[1]]}:" if found[1] in _PREFIXES else found[0], text)
