"""Checks an element against one XML Schema, and says in plain words what is wrong with it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Final, Protocol, cast

from lxml import etree

from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_NAMESPACE

_GRAMMARS: Final = Path(__file__).parent / "grammars"
_PREFIXES: Final = {
    OAI_NAMESPACE: "oai",
    OAI_DC_NAMESPACE: "oai_dc",
    DC_NAMESPACE: "dc",
    "http://www.loc.gov/MARC21/slim": "marc",
    "http://www.loc.gov/mods/v3": "mods",
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
        "SCHEMAV_CVC_ELT_1": "this element is not defined here",
        "SCHEMAV_CVC_COMPLEX_TYPE_2_2": "this element may contain only text, not elements",
        "SCHEMAV_CVC_COMPLEX_TYPE_2_3": "this element may contain only elements, not text",
        "SCHEMAV_CVC_COMPLEX_TYPE_3_2_1": "this attribute is not defined here",
    }
)
"""Plain words for what libxml2 says in those of the XML Schema specification."""

Fault = tuple[int, str]
"""A line of the document, and one sentence: the line, the element and the reason."""


class _LogEntry(Protocol):
    """What lxml tells of a fault."""

    line: int
    type_name: str
    message: str


class Grammar:
    """One XML Schema; safe to share between threads."""

    def __init__(self, schema: etree.XMLSchema) -> None:
        self._schema = schema
        # libxml2 keeps the faults of the last check in the schema.
        self._lock = Lock()

    def faults(self, element: etree._Element) -> list[Fault]:
        """Give what is wrong with an element and all in it; nothing if it is valid."""
        with self._lock:
            if self._schema.validate(element):
                return []
            log = cast("Iterable[_LogEntry]", self._schema.error_log)
            return [_in_words(entry) for entry in log]


def built_in(name: str) -> Grammar:
    """Give one of the grammars that travel with the program, by its file's name."""
    return Grammar(etree.XMLSchema(file=str(_GRAMMARS / name)))


def fault(line: int, subject: str, reason: str) -> Fault:
    """Say what is wrong with an element, in at most 300 characters."""
    text = f"line {line}, element {subject!r}: {reason.rstrip('.')}"
    return line, text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def short(text: str) -> str:
    """Write `{http://purl.org/dc/elements/1.1/}title` as `dc:title`; an unknown namespace stays."""
    return _BRACED.sub(lambda found: f"{_PREFIXES[found[1]]}:" if found[1] in _PREFIXES else found[0], text)


def line_of(element: etree._Element) -> int:
    """The element's line in the document that it was parsed from; 0 where it was not."""
    return cast("int | None", element.sourceline) or 0


def _in_words(entry: _LogEntry) -> Fault:
    about = _ABOUT.match(entry.message)
    if about is None:
        return fault(entry.line, "oai:record", entry.message)
    subject = short(about["element"])
    if about["attribute"]:
        subject += f"/@{short(about['attribute'])}"
    reason = _WORDS.get(entry.type_name) or _FACET.sub("", about["rest"])
    return fault(entry.line, subject, short(reason))
