"""Tolerant reading of answers: the envelope, headers, records, sets, formats and tokens."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from lxml import etree

from oai.errors import MalformedXmlError
from oai.vocabulary import OAI_NAMESPACE, XSI_NAMESPACE
from oai.xml import parse
from provider.checking.transport import Received, Sent

OAI: Final = f"{{{OAI_NAMESPACE}}}"
SCHEMA_LOCATION: Final = f"{{{XSI_NAMESPACE}}}schemaLocation"
MOST_NODES: Final = 500_000
"""Elements and attributes of one answer, and of the parsed answers kept; each takes about 200 bytes."""
_EXCERPT: Final = 300


@dataclass(frozen=True, kw_only=True, slots=True)
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


class Trees:
    """The parsed answers that were used last: those of a whole check would take gigabytes."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[int, etree._Element | str]] = {}

    def of(self, reply: "Reply") -> etree._Element | str:
        """Return the answer's root element, or why its body is not XML."""
        found = self._kept.pop(reply.packed, None)
        if found is None:
            while self._kept and sum(nodes for nodes, _ in self._kept.values()) + reply.nodes > MOST_NODES:
                del self._kept[next(iter(self._kept))]
            found = reply.nodes, _parsed(reply.body)
        self._kept[reply.packed] = found
        return found[1]


def _parsed(body: bytes) -> etree._Element | str:
    try:
        return parse(body, source="the answer")
    except MalformedXmlError as error:
        return str(error)


@dataclass(frozen=True)
class Reply:
    """An answer with its request. What is in it is read from the body each time, and is not kept."""

    sent: Sent
    received: Received
    """Without the body, except for HEAD."""
    packed: bytes
    """The body, compressed by the check."""
    nodes: int
    """Maximum number of its elements and attributes."""
    trees: Trees = field(repr=False, compare=False)
    fault: str | None = None
    """Why the body could not be decompressed."""

    @property
    def body(self) -> bytes:
        """The body, uncompressed."""
        return zlib.decompress(self.packed)

    @property
    def root(self) -> etree._Element | None:
        """The root element if the body is XML."""
        parsed = self.trees.of(self)
        return None if isinstance(parsed, str) else parsed

    @property
    def malformed(self) -> str | None:
        """Why the body is not XML."""
        parsed = self.trees.of(self)
        return parsed if isinstance(parsed, str) else None

    @property
    def excerpt(self) -> str:
        """A summary of the answer: the error codes, or the beginning of the body."""
        if codes := self.codes:
            return f"HTTP {self.received.status}, error {', '.join(codes)}"
        text = " ".join(self.body[: 2 * _EXCERPT].decode("utf-8", errors="replace").split())
        return f"HTTP {self.received.status}, {text[:_EXCERPT]}"

    @property
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
        request = self.request
        return {} if request is None else {str(key): str(value) for key, value in request.items()}

    @property
    def response_date(self) -> str:
        """The text of responseDate."""
        return _text(next(self._children(self.root, "responseDate"), None))

    def container(self, verb: str) -> etree._Element | None:
        """Return the element named after the verb."""
        return next(self._children(self.root, verb), None)

    def texts(self, name: str) -> list[str]:
        """Return the texts of all protocol elements with this name."""
        return [_text(element) for element in self._elements(name)]

    @property
    def headers(self) -> list[Header]:
        """All headers, inside or outside records."""
        return [_header(element) for element in self._elements("header")]

    @property
    def records(self) -> Iterator[Record]:
        """All records that have a header."""
        for element in self._elements("record"):
            header = element.find(f"{OAI}header")
            if header is not None:
                yield Record(header=_header(header), metadata=element.find(f"{OAI}metadata"))

    @property
    def token(self) -> Token | None:
        """The resumptionToken element, if any."""
        element = next(self._elements("resumptionToken"), None)
        if element is None:
            return None
        return Token(text=_text(element), facts={str(key): str(value) for key, value in element.items()})

    def _elements(self, name: str) -> Iterator[etree._Element]:
        root = self.root
        if root is not None:
            yield from root.iter(f"{OAI}{name}")

    def _children(self, parent: etree._Element | None, name: str) -> Iterator[etree._Element]:
        if parent is not None:
            yield from parent.iterchildren(f"{OAI}{name}")


def _header(element: etree._Element) -> Header:
    return Header(
        identifier=_text(element.find(f"{OAI}identifier")),
        datestamp=_text(element.find(f"{OAI}datestamp")),
        set_specs=tuple(_text(found) for found in element.iterchildren(f"{OAI}setSpec")),
        deleted=element.get("status") == "deleted",
    )


def _text(element: etree._Element | None) -> str:
    return "" if element is None else (element.text or "").strip()
