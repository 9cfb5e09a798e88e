"""Validation of answers and records against XML Schemas, at the level very strict.

The schemas of OAI-PMH and oai_dc are part of the program, in `grammars/`. For other formats, the schema is
the one that the repository announces in ListMetadataFormats; for other namespaces in a record, those that the
record itself names. Schemas are collected before records are checked; checking fetches nothing.

Source: OAI-PMH 2.0, sections 2.5 (record), 3.2 (answers), 3.4 (metadata formats); UIUC, `validation`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Final, Protocol, cast

from lxml import etree

from harvester.client.protocol_client import ProtocolClient
from harvester.reading.answers import FormatInfo
from harvester.rules.schemas import SchemaCache, Schemas, schema_fetcher
from oai.settings import Settings
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_NAMESPACE, XSI_NAMESPACE
from oai.xml import metadata_of

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
"""The maximum length of an error in characters, because a record's values may have any length."""

_BRACED: Final = re.compile(r"\{(http[^{}]*)\}")
_FACET: Final = re.compile(r"^\[facet '[^']*'\] ")
_ABOUT: Final = re.compile(
    r"^Element '(?P<element>[^']*)'(?:, attribute '(?P<attribute>[^']*)')?: (?P<rest>.*)$", re.DOTALL
)
_WORDS: Final[Mapping[str, str]] = {
    "SCHEMAV_CVC_ELT_1": "this element is not defined here",
    "SCHEMAV_CVC_COMPLEX_TYPE_2_2": "this element may contain only text, not elements",
    "SCHEMAV_CVC_COMPLEX_TYPE_2_3": "this element may contain only elements, not text",
    "SCHEMAV_CVC_COMPLEX_TYPE_3_2_1": "this attribute is not defined here",
}
"""Plain words for libxml2's messages, which use those of the XML Schema specification."""

Fault = tuple[int, str]
"""A line of the document, and one sentence: the line, the element and the reason."""


class _LogEntry(Protocol):
    """An error as reported by lxml."""

    line: int
    type_name: str
    message: str


class Grammar:
    """One XML Schema; safe to share between threads."""

    def __init__(self, schema: etree.XMLSchema) -> None:
        self._schema = schema
        # libxml2 stores the errors of the last check in the schema, so threads must check one at a time.
        self._lock = Lock()

    def faults(self, element: etree._Element) -> list[Fault]:
        """Return the errors in an element and its content; empty if it is valid."""
        with self._lock:
            # libxml2 registers an xs:ID in the whole page, where another record may have the same one.
            # Checking the copy only if the record in its page is invalid takes square time for many such IDs.
            if self._schema.validate(_alone(element)):
                return []
            log = cast("Iterable[_LogEntry]", self._schema.error_log)
            return [_in_words(entry) for entry in log]


def _alone(element: etree._Element) -> etree._Element:
    """Return a copy outside its document, with the namespaces and lines that it has there."""
    if element.getparent() is None:
        return element
    # Not of the copy itself: values such as that of xsi:type may use prefixes declared around it.
    around = etree.Element("around", nsmap=cast("Mapping[str, str]", element.nsmap))
    around.append(deepcopy(element))
    return around[0]


def built_in(name: str) -> Grammar:
    """Return one of the bundled schemas by its file name."""
    return Grammar(etree.XMLSchema(file=str(_GRAMMARS / name)))


def fault(line: int, subject: str, reason: str) -> Fault:
    """Return the error in an element, in at most 300 characters."""
    text = f"line {line}, element {subject!r}: {reason.rstrip('.')}"
    return line, text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def short(text: str) -> str:
    """Shorten `{http://purl.org/dc/elements/1.1/}title` to `dc:title`; an unknown namespace is kept."""
    return _BRACED.sub(lambda found: f"{_PREFIXES[found[1]]}:" if found[1] in _PREFIXES else found[0], text)


def line_of(element: etree._Element) -> int:
    """Return the element's line in the document from which it was parsed; 0 if it was not parsed."""
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


_HEADER: Final = f"{{{OAI_NAMESPACE}}}header"
_IDENTIFIER: Final = f"{_HEADER}/{{{OAI_NAMESPACE}}}identifier"
_METADATA: Final = f"{{{OAI_NAMESPACE}}}metadata"
_ANSWER: Final = f"{{{OAI_NAMESPACE}}}OAI-PMH"
_SCHEMA_LOCATION: Final = f"{{{XSI_NAMESPACE}}}schemaLocation"

OWN_FORMATS: Final[Mapping[str, str]] = {"oai_dc": OAI_DC_NAMESPACE}
"""The formats with a bundled schema: metadataPrefix and namespace."""
_OWN_GRAMMARS: Final[Mapping[str, str]] = {OAI_DC_NAMESPACE: "oai_dc.xsd"}

ListFormats = Callable[[], Awaitable[Sequence[FormatInfo]]]
"""Requests the repository's metadata formats."""


class Validator:
    """Checks the records of one metadata format; `learn` is called by one task, checks run in any thread.

    `namespace` is that of the metadata; None if the repository does not declare it. `locations` are the
    addresses of collected schemas by namespace.
    """

    def __init__(
        self,
        metadata_prefix: str,
        namespace: str | None,
        *,
        schemas: Schemas | None = None,
        locations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._prefix = metadata_prefix
        self._namespace = namespace
        self._schemas = schemas
        self._locations = dict(locations)
        self._record = _own("record.xsd")
        self._answer = _own("answer.xsd")
        self._metadata = self._grammar()

    async def learn(self, records: Iterable[etree._Element]) -> None:
        """Collect the schemas that records name for namespaces that are not known yet.

        Raises StrictCheckError if a schema is not available.
        """
        if self._schemas is None:
            return
        found: dict[str, tuple[str, str]] = {}
        for record in records:
            for namespace, url in self._named(record):
                found.setdefault(namespace, (url, f"the record {record.findtext(_IDENTIFIER)!r}"))
        for namespace, (url, by) in found.items():
            if namespace not in self._schemas.namespaces:
                await self._schemas.gather(namespace, url, by=by)
                self._locations[namespace] = url
        if found:
            # One assignment replaces the schema: threads that are checking records use the old or the new
            # one.
            self._metadata = await asyncio.to_thread(self._grammar)

    def faults(self, record: etree._Element) -> list[str]:
        """Return the errors in a record, `<record>` in the OAI namespace, in the order of its lines.

        Each error is one sentence with the line (of the document from which the record was parsed), the
        element and the reason. A record without errors is valid.

        The content of `about` is not checked.
        """
        return [text for _, text in self.faults_by_line(record)]

    def faults_by_line(self, record: etree._Element) -> list[Fault]:
        """Return the errors with the line number of each."""
        faults = [*self._record.faults(record), *_presence(record), *self.metadata_faults(record)]
        return sorted(faults, key=lambda fault: fault[0])

    def metadata_faults(self, record: etree._Element) -> list[Fault]:
        """Return the errors in the metadata alone."""
        root = metadata_of(record)
        return [] if root is None else self._metadata_faults(root)

    def answer_faults(self, record: etree._Element) -> list[str]:
        """Return the errors in the answer that contains the record; empty if the record stands alone."""
        answer = record.getroottree().getroot()
        return [text for _, text in self._answer.faults(answer)] if answer.tag == _ANSWER else []

    def _grammar(self) -> Grammar | None:
        """Return the schema of the metadata, compiled from the schemas known at this time."""
        own = _OWN_GRAMMARS.get(self._namespace or "")
        if own is not None:
            return _own(own)
        if self._schemas is None or not self._locations:
            return None
        return Grammar(self._schemas.compile(self._locations))

    def unknown(self, record: etree._Element) -> set[str]:
        """Return the namespaces in the metadata whose schemas have not been collected."""
        root = metadata_of(record)
        if root is None or self._schemas is None:
            return set()
        # Three times as fast as with QName, and done for every element of every record.
        used = {str(element.tag).rpartition("}")[0].removeprefix("{") for element in root.iter("*")}
        return used - self._schemas.namespaces - {"", OAI_NAMESPACE}

    def _named(self, record: etree._Element) -> Iterator[tuple[str, str]]:
        """Yield the namespaces in the metadata without a known schema, with the addresses given for them."""
        unknown = self.unknown(record)
        named = _locations(record) if unknown else {}
        for namespace in unknown & named.keys():
            yield namespace, named[namespace]

    def _metadata_faults(self, root: etree._Element) -> list[Fault]:
        namespace = etree.QName(root).namespace
        if self._namespace is not None and namespace != self._namespace:
            reason = f"metadata in the format {self._prefix} are in the namespace {self._namespace}"
            return [fault(line_of(root), short(str(root.tag)), reason)]
        if self._metadata is None:
            reason = (
                f"no schema is named for the namespace {namespace}, neither by the repository nor by "
                "the record"
            )
            return [fault(line_of(root), short(str(root.tag)), reason)]
        return self._metadata.faults(root)


async def open_validator(client: ProtocolClient, settings: Settings, metadata_prefix: str) -> Validator:
    """Return the validator of a format; request its schema from the repository if none is bundled.

    Raises StrictCheckError if a schema is not available, and ClientError if the repository does not name it.
    """
    schemas = Schemas(
        cache=SchemaCache(folder=settings.schemas),
        fetch=schema_fetcher(settings.harvester, named_by_public=client.traffic.public),
    )
    return await prepare_validator(metadata_prefix, client.list_metadata_formats, schemas)


async def prepare_validator(metadata_prefix: str, formats: ListFormats, schemas: Schemas) -> Validator:
    """Return the validator for a harvest, with the schema that the repository announces for the format.

    Raises StrictCheckError if the schema is not available, and the errors of requesting the formats.
    """
    if metadata_prefix in OWN_FORMATS:
        return own_validator(metadata_prefix)
    announced = next((each for each in await formats() if each.metadata_prefix == metadata_prefix), None)
    namespace = announced.namespace.strip() or None if announced else None
    if namespace in _OWN_GRAMMARS:
        return Validator(metadata_prefix, namespace)
    if announced is not None and announced.only_named:
        namespace = None
    locations = {}
    if announced is not None and (namespace or announced.only_named) and announced.schema.strip():
        by = "explain" if announced.only_named else "ListMetadataFormats"
        namespace = await schemas.gather(namespace, announced.schema, by=by) or None
        locations = {namespace: announced.schema} if namespace else {}
    return await asyncio.to_thread(
        Validator, metadata_prefix, namespace, schemas=schemas, locations=locations
    )


def own_validator(metadata_prefix: str) -> Validator:
    """Return the validator of a format with a bundled schema. Raises KeyError for others."""
    return Validator(metadata_prefix, OWN_FORMATS[metadata_prefix])


@cache
def _own(name: str) -> Grammar:
    return built_in(name)


def _locations(record: etree._Element) -> dict[str, str]:
    """Return the schemaLocation pairs in the record's metadata and its ancestors.

    The innermost one applies.
    """
    root = metadata_of(record)
    found: dict[str, str] = {}
    around = [] if root is None else [*reversed(list(root.iterancestors())), *root.iter(etree.Element)]
    for element in around:
        words = str(element.get(_SCHEMA_LOCATION, "")).split()
        found.update(zip(words[::2], words[1::2], strict=False))
    return found


def _presence(record: etree._Element) -> Iterator[Fault]:
    header = record.find(_HEADER)
    metadata = record.find(_METADATA)
    if header is None:
        return
    deleted = header.get("status") == "deleted"
    if deleted and metadata is not None:
        yield fault(line_of(metadata), "oai:metadata", "a deleted record has no metadata")
    if not deleted and metadata is None:
        yield fault(line_of(record), "oai:record", "it has no oai:metadata and is not deleted")
