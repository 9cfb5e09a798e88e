"""A repository's answers as values."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.reading.errors import one_line
from oai.failures import Failure
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import metadata_of, parse

_ABOUT = f"{{{OAI_NAMESPACE}}}about"
_TITLE_FIELD = "245"
_YEAR = re.compile(r"\b[12][0-9]{3}\b")


def as_document(record: etree._Element) -> bytes:
    """Return a `<record>` element as a separate document, in UTF-8 with a declaration."""
    return etree.tostring(record, encoding="UTF-8", xml_declaration=True, with_tail=False)


def title_of(record: etree._Element) -> str:
    """Return the title of a `<record>`: its first title, or field 245 of MARC 21; empty if it has none."""
    for element in record.iter("{*}title", "{*}datafield"):
        field = element.get("tag")
        between = "" if field is None else " "  # subfields
        text = " ".join(between.join(map(str, element.itertext(etree.Element))).split())
        if text and field in {None, _TITLE_FIELD}:
            return text
    return ""


def author_and_year_of(record: etree._Element) -> tuple[str, str]:
    """Return first author and year of a `<record>` in Dublin Core or MARC 21; empty where it has none."""
    author = year = ""
    for element in record.iter("{*}creator", "{*}date", "{*}datafield"):
        field = element.get("tag")
        if field is None:
            parts = {"a" if element.tag.endswith("}creator") else "c": " ".join(map(str, element.itertext()))}
        else:
            parts = {part.get("code", ""): part.text or "" for part in element.iterfind("{*}subfield")}
        if field in {None, "100", "110"} and not author:
            author = parts.get("a", "").strip().rstrip(",.")
        if field in {None, "260", "264"} and not year and (found := _YEAR.search(parts.get("c", ""))):
            year = found[0]
    return author, year


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A record's header (specification, section 2.5); the datestamp is as the repository wrote it."""

    identifier: str
    datestamp: str
    set_specs: tuple[str, ...] = ()
    deleted: bool = False
    undated: bool = False
    """Whether the repository wrote no datestamp, so that `datestamp` is the date of the answer."""

    def is_in(self, set_spec: str) -> bool:
        """Return whether the record is in the set, or in one of the sets below it."""
        return any(found == set_spec or found.startswith(f"{set_spec}:") for found in self.set_specs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record: its header, and the whole `<record>` element in the OAI namespace."""

    header: Header
    element: etree._Element
    notes: tuple[str, ...] = ()
    """Oddities of the answer, for a record that was requested alone."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the record as bytes that are parsed again, because elements cannot leave the process."""
        return _parsed_record, (self.header, self.xml(), self.notes)

    @property
    def metadata(self) -> etree._Element | None:
        """The metadata's own root element, such as `<oai_dc:dc>`; None if there is none."""
        return metadata_of(self.element)

    @property
    def abouts(self) -> Sequence[etree._Element]:
        """The contents of the `<about>` containers, such as provenance or rights."""
        return [
            child for about in self.element.iterfind(_ABOUT) for child in about.iterchildren(etree.Element)
        ]

    def fields(self) -> dict[str, list[str]]:
        """Return the texts of flat metadata, such as Dublin Core, by the local names of the elements."""
        found: dict[str, list[str]] = {}
        for element in self.metadata.iterchildren(etree.Element) if self.metadata is not None else ():
            text = "".join(map(str, element.itertext(etree.Element))).strip()
            if text:
                found.setdefault(etree.QName(element).localname, []).append(text)
        return found

    def xml(self) -> bytes:
        """Return the record as a separate document, in UTF-8 with a declaration."""
        return as_document(self.element)


def _parsed_record(header: Header, xml: bytes, notes: tuple[str, ...]) -> Record:
    return Record(header=header, element=parse(xml, source="record"), notes=notes)


@dataclass(frozen=True, kw_only=True)
class ResumptionToken:
    """The token for the next page, with the server's statements about the whole list (section 3.5)."""

    value: str
    cursor: int | None = None
    complete_list_size: int | None = None
    expiration_date: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A part of an answer that could not be read: its byte offset, what is wrong, and its bytes."""

    offset: int
    reason: str
    raw: bytes
    failure: Failure
    """What is wrong, as a code with facts."""
    size: int | None = None
    """Size of the part, if `raw` is only its beginning."""


Rest = Callable[[], Awaitable["Page"]]


@dataclass(frozen=True, kw_only=True)
class Page:
    """One answer to ListRecords or ListIdentifiers.

    `token` is None if the answer has no such element; its value is empty on the last page. `faults` are the
    parts that are left out. `notes` describe oddities of the answer that cost no record. `cut_off` is true if
    the answer is truncated before the end of the list.
    """

    url: str
    response_date: str
    headers: tuple[Header, ...] = ()
    records: tuple[Record, ...] = ()
    token: ResumptionToken | None = None
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    cut_off: bool = False
    size: int = 0
    part: int = 0
    """Number of the part of a large answer, from 1 on; 0 for an answer that is read as a whole."""
    rest: "Rest | None" = None
    """Returns the next part of the same answer; None for the last part, which has the token."""

    @property
    def next_token(self) -> str:
        """The token to send for the next page; empty if there is none."""
        return self.token.value if self.token else ""

    @property
    def complete_list_size(self) -> int | None:
        """Number of records in the whole list according to the server."""
        return self.token.complete_list_size if self.token else None


_LONGEST: Final[Mapping[str, int]] = {
    "repository_name": 500, "base_url": 2000, "protocol_version": 100, "earliest_datestamp": 100,
    "deleted_record": 100, "granularity": 100, "repository_identifier": 300, "response_date": 100,
}  # fmt: skip
_LONGEST_ADDRESS: Final = 320
_MOST_ADDRESSES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Identity:
    """An answer to Identify (section 4.2): each text in one line, cut to a length that lists can show."""

    repository_name: str
    base_url: str
    protocol_version: str
    admin_emails: tuple[str, ...]
    earliest_datestamp: str
    deleted_record: str
    granularity: str
    compression: tuple[str, ...] = ()
    repository_identifier: str | None = None
    response_date: str = ""
    notes: tuple[str, ...] = ()
    """Oddities of the answer."""
    obsolete: bool = False
    """The answer is of OAI-PMH 1.1, so only loose harvests can read the repository."""

    def __post_init__(self) -> None:
        """Cut what a server declares too long."""
        for name, most in _LONGEST.items():
            if declared := getattr(self, name):
                object.__setattr__(self, name, one_line(declared, most))
        for name in ("admin_emails", "compression"):
            declared = getattr(self, name)[:_MOST_ADDRESSES]
            object.__setattr__(self, name, tuple(one_line(one, _LONGEST_ADDRESS) for one in declared))


@dataclass(frozen=True, kw_only=True)
class SetInfo:
    """A set that the repository lists (section 4.6)."""

    set_spec: str
    set_name: str


@dataclass(frozen=True, kw_only=True)
class FormatInfo:
    """A metadata format that the repository offers (section 4.4)."""

    metadata_prefix: str
    schema: str
    namespace: str
    only_named: bool = False
    """Whether `namespace` is only an identifier of the schema, as in SRU, and not the namespace."""


@dataclass(frozen=True, kw_only=True)
class SetPage:
    """One answer to ListSets."""

    url: str
    response_date: str
    sets: tuple[SetInfo, ...] = ()
    token: ResumptionToken | None = None


@dataclass(frozen=True, kw_only=True)
class FormatPage:
    """The answer to ListMetadataFormats, which has only one page."""

    url: str
    response_date: str
    formats: tuple[FormatInfo, ...] = ()
    token: ResumptionToken | None = None
