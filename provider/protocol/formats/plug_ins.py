"""Formats of other distributions: entry points of the group `zatva.provider.formats`.

The name of an entry point is the metadataPrefix, its object a `Format`. A plug-in is imported only if the
settings choose it, and is tried before the provider serves it: an answer that is not well-formed would end
every harvest at that page.
"""

import re
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Final
from urllib.parse import urlsplit

from lxml import etree

from oai.errors import MalformedXmlError, SettingsError
from oai.sections import ProviderSettings
from oai.vocabulary import XSI_NAMESPACE
from oai.xml import parse
from provider.protocol.formats.format import Format, Site
from provider.protocol.items import Item

GROUP: Final = "zatva.provider.formats"

_OWN_SCHEMA: Final = re.compile(r"/schemas/[A-Za-z0-9_.\-]+\.xsd")
_SITE: Final = Site(base_url="http://archive.example/oai", settings=ProviderSettings())
_WHOLE: Final = Item(
    id=1,
    key=uuid.UUID(int=1),
    datestamp=datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    deleted=False,
    access="open",
    embargo_until=None,
    url="http://example.org/?a=1&b=<2>",
    archived=datetime(2008, 1, 6, 19, 16, 55, 120000, tzinfo=UTC),
    title='A & B <c> "\x0b ]]>',
    http_status=200,
    digest="sha1:ABC",
    length=321,
    record_type="response",
    offset=17,
    archive_path="/archive/one.warc",
    mime_type="text/html",
    mimetype_set="mimetype:text:html",
    host="example.org",
    domain_set="domain:org:example",
    title_set="title:0123456789abcdef0123456789abcdef",
    collections=[["collection:a:b", "A & B"]],
)
_BARE: Final = _WHOLE._replace(
    access="embargo", title=None, http_status=None, digest=None, length=None, mime_type="unknown",
    mimetype_set="mimetype:unknown", host=None, domain_set=None, title_set=None,
    collections=None,
)  # fmt: skip
"""What a document may lack."""


def installed() -> Mapping[str, EntryPoint]:
    """Return the entry points of installed formats by metadataPrefix, without importing any.

    Raises SettingsError if two distributions offer the same prefix.
    """
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for one in _entry_points(tuple(sys.path)):
        found[one.name].append(one)
    for prefix, several in sorted(found.items()):
        if len(several) > 1:
            both = " and ".join(sorted(map(_distribution, several)))
            raise SettingsError(
                f"the metadataPrefix {prefix!r} is offered by {both}; uninstall all of them but one"
            )
    return {prefix: several[0] for prefix, several in sorted(found.items())}


@cache
def _entry_points(path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 the key of the cache
    """Return the entry points of the distributions on `sys.path`, which takes 10 ms the first time.

    `path` is that path; after a change it is read again.
    """
    return entry_points(group=GROUP)


def refuse_clashes(plug_ins: Mapping[str, EntryPoint], built_in: Mapping[str, Format]) -> None:
    """Raise SettingsError if an installed format has the prefix of one that this version contains."""
    for prefix in sorted(plug_ins.keys() & built_in.keys()):
        raise SettingsError(
            f"the metadataPrefix {prefix!r} of {_distribution(plug_ins[prefix])} is that of a built-in "
            "format; uninstall that distribution, or use one that gives its format another prefix"
        )


@cache
def load(plug_in: EntryPoint) -> Format:
    """Import a plug-in and return its format, after it has written two documents as it should.

    Raises SettingsError that names the distribution, the object and what is wrong.
    """
    source = f"the format {plug_in.name!r} of {_distribution(plug_in)} ({plug_in.value})"
    try:
        found = plug_in.load()
    except Exception as error:
        # Importing runs the plug-in's code, which may raise anything.
        raise SettingsError(f"{source} cannot be imported: {_words(error)}") from error
    if not isinstance(found, Format):
        kind = f"{Format.__module__}.{Format.__qualname__}"
        raise SettingsError(f"{source} is of type {type(found).__qualname__}; it must be a {kind}")
    for fault in (*_faults(found, plug_in.name), *_trial_faults(found)):
        raise SettingsError(f"{source}: {fault}")
    return replace(found, write=_noted(found.write, source))


def _faults(found: Format, name: str) -> Iterator[str]:
    """Yield what is wrong with the facts that ListMetadataFormats announces."""
    if found.prefix != name:
        yield f"its prefix is {found.prefix!r}; it must be the name of the entry point"
    if not urlsplit(found.namespace).scheme:
        yield f"its namespace {found.namespace!r} is not an absolute URI"
    if found.schema_file is None and not re.match(r"https?://[^\s/]", found.schema):
        yield f"its schema {found.schema!r} is not an http or https URL; or give `schema_file`"
    if found.schema_file is not None and not _OWN_SCHEMA.fullmatch(found.schema):
        yield f"its schema {found.schema!r} must be like '/schemas/name.xsd' if there is a schema_file"
    if found.schema_file is not None and not found.schema_file.is_file():
        yield f"its schema_file {str(found.schema_file)!r} does not exist"


def _trial_faults(found: Format) -> Iterator[str]:
    """Yield what is wrong with what it writes of a document with all facts, and of one with few."""
    location = f"{found.namespace} {found.schema_url(_SITE.base_url)}"
    for item, words in ((_WHOLE, "a document"), (_BARE, "a document without title, type and host")):
        try:
            written = found.write(item, _SITE)
            root = parse(written.encode(), source="the element")
        except MalformedXmlError as error:
            yield f"what it writes of {words} is not well-formed ({error}); pass texts through oai.xml.escape"
        except Exception as error:  # noqa: BLE001 the plug-in's code may raise anything; it is reported
            yield f"it cannot write {words}: {_words(error)}"
        else:
            if etree.QName(root).namespace != found.namespace:
                yield f"what it writes of {words} is not in its namespace {found.namespace!r}"
            if location not in " ".join(root.get(f"{{{XSI_NAMESPACE}}}schemaLocation", "").split()):
                yield f"what it writes of {words} lacks xsi:schemaLocation with {location!r}"


def _noted(write: Callable[[Item, Site], str], source: str) -> Callable[[Item, Site], str]:
    """Check what the plug-in writes, and add it and the document to exceptions, for the log."""

    def checked(item: Item, site: Site) -> str:
        written = write(item, site)
        if not isinstance(written, str):
            raise TypeError(f"{type(written).__name__} instead of text")
        parse(written.encode(), source="the element")
        return written

    def noted(item: Item, site: Site) -> str:
        try:
            return checked(item, site)
        except Exception as error:
            error.add_note(f"raised by {source} for the document {item.key.hex}")
            raise

    return noted


def _distribution(plug_in: EntryPoint) -> str:
    found = plug_in.dist
    return "an unknown distribution" if found is None else f"{found.name} {found.version}"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
