"""Tolerant reading of answers: the envelope, headers, records, sets, formats and tokens."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lxml import etree

from oai.errors import MalformedXmlError
from oai.vocabulary import OAI_NAMESPACE, XSI_NAMESPACE
from oai.xml import parse
from provider.checking.transport import Received, Sent

OAI: Final = f"{{{OAI_NAMESPACE}}}"
SCHEMA_LOCATION: Final = f"{{{XSI_NAMESPACE}}}schemaLocation"
_EXCERPT: Final = 300


@dataclass(frozen=True, kw_only=True)
class Header:
    """A record's header as written."""

    identifier: str
    datestamp: str
    set_specs: tuple[str, ...]
    deleted: bool


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record: its header, and the contents of `metadata` if that element exists."""

    header: Header
    metadata: etree._Element | None


@dataclass(frozen=True, kw_only=True)
class Token:
    """A resumptionToken element."""

    text: str
    facts: Mapping[str, str]
    """Its attributes."""


@dataclass(frozen=True)
class Reply:
    """An answer with its request."""

    sent: Sent
    received: Received
    body: bytes
    """Uncompressed."""
    fault: str | None = None
    """Why the body could not be decompressed."""

    @cached_property
    def _parsed(self) -> etree._Element | str:
        try:
            return parse(self.body, source="the answer")
        except MalformedXmlError as error:
            return str(error)

    @property
    def root(self) -> etree._Element | None:
        """The root element if the body is XML."""
        return None if isinstance(self._parsed, str) else self._parsed

    @property
    def malformed(self) -> str | None:
        """Why the body is not XML."""
        return self._parsed if isinstance(self._parsed, str) else None

    @property
    def excerpt(self) -> str:
        """A summary of the answer: the error codes, or the beginning of the body."""
        if self.codes:
            return f"HTTP {self.received.status}, error {', '.join(self.codes)}"
        text = " ".join(self.body[: 2 * _EXCERPT].decode("utf-8", errors="replace").split())
        return f"HTTP {self.received.status}, {text[:_EXCERPT]}"

    @cached_property
    def codes(self) -> list[str]:
        """The codes of its error elements."""
        return [error.get("code", "") for error in self._children(self.root, "error")]

    @property
    def request(self) -> etree._Element | None:
        """The request element."""
        return next(self._children(self.root, "request"), None)

    @property
    def arguments(self) -> dict[str, str]:
        """The attributes of the request element."""
        return {} if self.request is None else {str(key): str(value) for key, value in self.request.items()}

    @property
    def response_date(self) -> str:
        """The text of responseDate."""
        return _text(next(self._children(self.root, "responseDate"), None))

    def container(self, verb: str) -> etree._Element | None:
        """Return the element named after the verb."""
        return next(self._children(self.root, verb), None)

    def texts(self, name: str) -> list[str]:
        """Return the texts of all protocol elements with this name."""
        return [] if self.root is None else [_text(element) for element in self.root.iter(f"{OAI}{name}")]

    @cached_property
    def headers(self) -> list[Header]:
        """All headers, inside or outside records."""
        return [] if self.root is None else [_header(element) for element in self.root.iter(f"{OAI}header")]

    @cached_property
    def records(self) -> list[Record]:
        """All records that have a header."""
        return [] if self.root is None else list(_records(self.root))

    @cached_property
    def token(self) -> Token | None:
        """The resumptionToken element, if any."""
        if self.root is None:
            return None
        element = next(self.root.iter(f"{OAI}resumptionToken"), None)
        if element is None:
            return None
        return Token(text=_text(element), facts={str(key): str(value) for key, value in element.items()})

    def _children(self, parent: etree._Element | None, name: str) -> Iterator[etree._Element]:
        if parent is not None:
            yield from parent.iterchildren(f"{OAI}{name}")


def _records(root: etree._Element) -> Iterator[Record]:
    for element in root.iter(f"{OAI}record"):
        header = element.find(f"{OAI}header")
        if header is not None:
            yield Record(header=_header(header), metadata=element.find(f"{OAI}metadata"))


def _header(element: etree._Element) -> Header:
    return Header(
        identifier=_text(element.find(f"{OAI}identifier")),
        datestamp=_text(element.find(f"{OAI}datestamp")),
        set_specs=tuple(_text(found) for found in element.iterchildren(f"{OAI}setSpec")),
        deleted=element.get("status") == "deleted",
    )


def _text(element: etree._Element | None) -> str:
    return "" if element is None else (element.text or "").strip()
