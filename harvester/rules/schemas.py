"""Collect an XML Schema with all its imports and includes, from cache or network, and compile it.

All referenced schemas are collected first; the compiler then sees only these documents and opens no others.

Source: XML Schema 1.0, part 1, sections 4.2 and 4.3.
"""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urldefrag, urljoin, urlsplit

from lxml import etree

from harvester.client.retries import Retrying, retry_options
from harvester.client.transport import open_transport
from harvester.reading.errors import ClientError, HttpStatusError
from oai.errors import StrictCheckError, TryLaterError
from oai.reach import ZoneOf, zone_of
from oai.sections import HarvesterSettings

_LONGEST_NAME: Final = 200
_KEPT: Final = 150
_DIGEST: Final = 16
XS: Final = "http://www.w3.org/2001/XMLSchema"
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
MAX_FILES: Final = 300
"""The maximum number of schema files for a harvest."""
_GRAMMARS: Final = Path(__file__).parent / "grammars"
_BUILT_IN: Final = "zatva:xml.xsd"
"""The schema of the namespace `xml`, imported by nearly every schema; its server answers programs slowly."""
_LINKS: Final = tuple(f"{{{XS}}}{name}" for name in ("import", "include", "redefine"))
_IMPORT: Final = _LINKS[0]
_BASE: Final = f"{{{XML_NAMESPACE}}}base"
_PLACE: Final = "{urn:zatva}place"
"""The address of a schema after redirects, written into its file."""
_PUBLIC: Final = "{urn:zatva}public"
"""Marks a schema that was found on the public internet, in its file."""
_JOINED: Final = "urn:zatva:joined"
CACHE_ADVICE: Final = "put a valid one into the schema cache"
_LEVEL_ADVICE: Final = f"{CACHE_ADVICE}, or use validation strict (well-formed) or loose (lenient)"


@dataclass(frozen=True, kw_only=True)
class SchemaCache:
    """Schemas stored by address in a folder, which need not exist yet; safe for concurrent processes."""

    folder: Path

    def path(self, url: str) -> Path:
        """Return the file for an address; for a long address, its beginning and a digest form the name."""
        name = quote(url, safe="").replace("~", "%7E")
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_KEPT]}-{hashlib.sha256(url.encode()).hexdigest()[:_DIGEST]}"
        return self.folder / name

    def read(self, url: str) -> bytes | None:
        """Return the cached content of an address; None if there is none. Raises OSError."""
        path = self.path(url)
        # On file systems that ignore case, the file may belong to another address.
        if not self.folder.is_dir() or path not in self.folder.iterdir():
            return None
        return path.read_bytes()

    def write(self, url: str, data: bytes) -> None:
        """Store a schema. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(url)
        temporary = self.folder / f".{secrets.token_hex(8)}.part"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # Synced and renamed in one step: concurrent processes read a complete file or none, and the last
            # writer wins.
            temporary.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()


MAX_BYTES: Final = 8 * 1024**2
"""The maximum size of a schema file in bytes."""
_SUCCESS: Final = 200


@dataclass(frozen=True, kw_only=True)
class SchemaReply:
    """A fetched document; `url` is its address after all redirects."""

    url: str
    body: bytes
    public: bool
    """Whether it was found on the public internet."""


class Fetch(Protocol):
    """Fetches a document from an http or https address. Raises ClientError and TryLaterError."""

    async def __call__(self, url: str, *, public_only: bool) -> SchemaReply:
        """Fetch the document; with `public_only`, from the public internet only."""
        ...


@dataclass(frozen=True, kw_only=True)
class SchemaFetcher:
    """Fetches the schemas named by a repository or by one of its records."""

    settings: HarvesterSettings
    named_by_public: bool
    """Whether the repository is on the public internet; so are then all its schemas."""
    zone_of: ZoneOf
    retrying: Retrying

    async def __call__(self, url: str, *, public_only: bool) -> SchemaReply:
        """Fetch a document; only HTTP status 200 is accepted."""
        private = self.settings.private_addresses and not (public_only or self.named_by_public)
        limited = self.settings.model_copy(
            update={
                "max_answer_bytes": min(MAX_BYTES, self.settings.max_answer_bytes),
                "private_addresses": private,
            }
        )
        async with open_transport(limited, zone_of=self.zone_of) as transport:
            reply = await self.retrying.fetch(lambda: transport(url, ()))
        if reply.status != _SUCCESS:
            raise HttpStatusError(url, reply.status)
        place = reply.hops[-1] if reply.hops else url
        return SchemaReply(url=place, body=reply.body, public=reply.public)


def schema_fetcher(
    settings: HarvesterSettings, *, named_by_public: bool, zone_of: ZoneOf = zone_of
) -> SchemaFetcher:
    """Return the fetcher of the schemas that a repository names, with the configured retries."""
    retrying = Retrying(**retry_options(settings))
    return SchemaFetcher(
        settings=settings, named_by_public=named_by_public, zone_of=zone_of, retrying=retrying
    )


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    url: str
    by: str
    """What refers to it, for errors."""
    public_only: bool = False
    """Whether a schema on the public internet refers to it."""


@dataclass(kw_only=True)
class Schemas:
    """The schemas of one harvest; collected schemas are cached for all later harvests."""

    cache: SchemaCache
    fetch: Fetch
    namespaces: set[str] = field(default_factory=set)
    """The namespaces defined by the collected schemas."""
    advice: str = _LEVEL_ADVICE
    """What to do if a schema is not available, for errors."""
    _documents: dict[str, etree._Element] = field(default_factory=dict)
    """By the address of each document after all redirects."""
    _places: dict[str, str] = field(default_factory=dict)
    """The address after redirects of each requested address."""

    async def gather(self, namespace: str | None, url: str, *, by: str) -> str:
        """Collect the schema of a namespace at an address and all its references; `by` says what names it.

        Return its namespace, which may be any one if `namespace` is None.

        Raises StrictCheckError with the address and the reason if a schema is not available.
        """
        first = _Wanted(url=self._address(url, by), by=by)
        waiting = [first]
        while waiting:
            wanted = waiting.pop()
            if wanted.url in self._places:
                continue
            if len(self._places) >= MAX_FILES:
                raise self._fault(
                    wanted,
                    f"the schema consists of more than {MAX_FILES} files; check that "
                    "the address is that of a schema",
                )
            root = self._cached(wanted)
            if root is None:
                root = await self._fetched(wanted)
            place = self._places[wanted.url] = root.get(_PLACE, wanted.url)
            self._places[place] = place
            self._documents.setdefault(place, root)
            by = f"the schema {wanted.url}"
            public = wanted.public_only or _PUBLIC in root.attrib
            waiting += [
                _Wanted(url=self._address(each, by), by=by, public_only=public) for each in _named(root)
            ]
        target = self._documents[self._places[first.url]].get("targetNamespace", "")
        if namespace is not None and target != namespace:
            raise self._fault(first, f"it is the schema of the namespace {target!r}, not of {namespace!r}")
        self.namespaces.update(root.get("targetNamespace", "") for root in self._documents.values())
        return target

    def compile(self, locations: Mapping[str, str]) -> etree.XMLSchema:
        """Compile the collected schemas of these namespaces as one; the mapping holds each schema's address.

        Raises StrictCheckError if they are not valid XML Schemas.
        """
        joined = etree.Element(f"{{{XS}}}schema", targetNamespace=_JOINED, nsmap={"xs": XS})
        for namespace, url in locations.items():
            link = etree.SubElement(joined, _IMPORT, namespace=namespace)
            link.set("schemaLocation", self._address(url, "a record"))
        parser = etree.XMLParser(no_network=True, resolve_entities=False)
        parser.resolvers.add(_Documents({url: self._text(root) for url, root in self._documents.items()}))
        try:
            return etree.XMLSchema(etree.fromstring(self._text(joined), parser, base_url=_JOINED))
        except etree.XMLSchemaParseError as error:
            raise StrictCheckError(
                f"the schema {', '.join(locations.values())} cannot be used: {_first(error)}; {self.advice}"
            ) from None

    def _text(self, root: etree._Element) -> bytes:
        """Return the schema with references resolved through redirects, so that none is read twice."""
        copy = deepcopy(root)
        for link in copy.iterchildren(*_LINKS):
            location = link.get("schemaLocation", "")
            if location in self._places:
                link.set("schemaLocation", self._places[location])
        return _written(copy)

    def _cached(self, wanted: _Wanted) -> etree._Element | None:
        try:
            data = self.cache.read(wanted.url)
        except OSError as error:
            raise self._fault(wanted, f"its file in the cache cannot be read ({error})") from None
        if data is None:
            return None
        try:
            return _read(data, wanted.url)
        except ValueError as error:
            where = self.cache.path(wanted.url)
            raise self._fault(
                wanted, f"its file in the cache, {where}, is {error}; remove the file"
            ) from None

    async def _fetched(self, wanted: _Wanted) -> etree._Element:
        try:
            reply = await self.fetch(wanted.url, public_only=wanted.public_only)
        except ClientError as error:
            raise self._fault(wanted, str(error).removeprefix(f"{wanted.url}: ")) from None
        except TryLaterError as error:
            # A schema's server may stay busy indefinitely; the harvest must not wait for it.
            raise self._fault(wanted, str(error)) from None
        try:
            root = _read(reply.body, reply.url)
        except ValueError as error:
            raise self._fault(wanted, f"it is {error}") from None
        place = urldefrag(reply.url).url
        if place != wanted.url:
            root.set(_PLACE, place)
        if reply.public:
            root.set(_PUBLIC, "")
        try:
            self.cache.write(wanted.url, _written(root))
        except OSError as error:
            raise self._fault(wanted, f"it cannot be stored in {self.cache.folder} ({error})") from None
        return root

    def _address(self, url: str, by: str) -> str:
        plain = urldefrag(url.strip()).url
        try:
            parts = urlsplit(plain)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise StrictCheckError(
                f"{by} names the schema {url!r}, which is not an http or https address; {self.advice}"
            )
        return plain

    def _fault(self, wanted: _Wanted, reason: str) -> StrictCheckError:
        return StrictCheckError(
            f"the schema {wanted.url}, named by {wanted.by}, is not available: {reason}; {self.advice}"
        )


class _Documents(etree.Resolver):
    """Delivers the collected documents to the compiler, and no others."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self._documents = documents

    def resolve(self, system_url: str, public_id: str, context: Any = None) -> Any:  # noqa: ARG002, ANN401
        if system_url == _BUILT_IN:
            return self.resolve_string((_GRAMMARS / "xml.xsd").read_bytes(), context, base_url=system_url)
        if system_url in self._documents:
            return self.resolve_string(self._documents[system_url], context, base_url=system_url)
        # Without this, the compiler would look for a local file with that name.
        return self.resolve_string("", context, base_url=system_url)


def _read(data: bytes, base: str) -> etree._Element:
    """Parse a schema and make its references absolute. Raises ValueError, which says what it is instead."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES:,} bytes")
    # Some published schemas have a DTD with entities; without huge_tree, their expansion stays small. Others,
    # such as those of XHTML, declare external ones that they do not use: these are read as empty.
    parser = etree.XMLParser(resolve_entities=True, no_network=True, load_dtd=False)
    parser.resolvers.add(_Documents({}))
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"not XML ({error})") from None
    declared: Any = root.getroottree().docinfo.internalDTD  # the stubs lack its entities
    for entity in () if declared is None else declared.iterentities():
        if entity.system_url and f"&{entity.name};".encode() in data:
            raise ValueError(f"a document that uses the external entity {entity.name}")
    if root.tag != f"{{{XS}}}schema":
        raise ValueError(f"not an XML Schema but {root.tag!r}")
    # Once the references are absolute, the base is no longer needed.
    base = urljoin(root.get(_PLACE, base), root.attrib.pop(_BASE, ""))
    for link in root.iterchildren(*_LINKS):
        location = link.get("schemaLocation")
        if link.tag == _IMPORT and link.get("namespace") == XML_NAMESPACE:
            link.set("schemaLocation", _BUILT_IN)
        elif location is not None:
            link.set("schemaLocation", urldefrag(urljoin(base, location.strip())).url)
    return root


def _written(root: etree._Element) -> bytes:
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _named(root: etree._Element) -> Iterator[str]:
    """Yield the addresses that a schema references."""
    for link in root.iterchildren(*_LINKS):
        location = link.get("schemaLocation")
        if location is not None and location != _BUILT_IN:
            yield location


def _first(error: etree.XMLSchemaParseError) -> str:
    """Return the compiler's first error; the last one often only says that there were errors."""
    for entry in error.error_log or ():
        return f"{entry.filename}, line {entry.line}: {entry.message}"
    return str(error)
