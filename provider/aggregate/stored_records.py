"""Reads a harvested record's file for publishing: metadata and `about` elements, with all namespaces.

A file is the `record` element as harvested, or as changed by normalise rules. Its `metadata` and `about`
elements are published whole. They declare every namespace in scope, because prefixes may occur in
attribute values and texts, where the serializer cannot see them.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from lxml import etree

from oai.datestamps import format_datestamp, parse_datestamp
from oai.errors import MalformedXmlError, ZatvaError
from oai.vocabulary import OAI_NAMESPACE, REPAIRED_NAMESPACE, XSI_NAMESPACE
from oai.xml import escape, parse

PROVENANCE_NAMESPACE: Final = "http://www.openarchives.org/OAI/2.0/provenance"
_SCHEMA: Final = "http://www.openarchives.org/OAI/2.0/provenance.xsd"
_OPENING: Final = (
    f'<about><provenance xmlns="{PROVENANCE_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{PROVENANCE_NAMESPACE} {_SCHEMA}">'
)
_DECLARED: Final = (f' xmlns="{OAI_NAMESPACE}"', f' xmlns:xsi="{XSI_NAMESPACE}"')
"""The namespaces of an answer's root."""
_OAI: Final = f"{{{OAI_NAMESPACE}}}"
_REPAIRED: Final = f"{_OAI}about/{{{REPAIRED_NAMESPACE}}}repaired"
_PROVENANCE: Final = f"{{{PROVENANCE_NAMESPACE}}}"


def provenance(
    *,
    base_url: str,
    identifier: str,
    datestamp: str,
    namespace: str,
    harvested: datetime,
    altered: bool,
    origin: str,
) -> str:
    """Return the provenance `about`; `origin` is the harvested record's own `originDescription`, or empty.

    `base_url`, `identifier` and `datestamp` are those of the source, and `namespace` is that of the
    metadata.
    """
    when = format_datestamp(harvested)
    return (
        f'{_OPENING}<originDescription harvestDate="{when}" altered="{"true" if altered else "false"}">'
        f"<baseURL>{escape(base_url)}</baseURL><identifier>{escape(identifier)}</identifier>"
        f"<datestamp>{_possible(datestamp) or when}</datestamp>"
        f"<metadataNamespace>{escape(namespace)}</metadataNamespace>{origin}"
        "</originDescription></provenance></about>"
    )


def _possible(datestamp: str) -> str | None:
    """Return the datestamp if it is valid by the schema, otherwise None: sources send all kinds of values."""
    try:
        return str(parse_datestamp(datestamp))
    except ValueError:
        return None


class UnreadableRecordError(ZatvaError):
    """A harvested record's file is missing, or does not contain the record."""


class MissingFolderError(UnreadableRecordError):
    """The base directory of a repository is missing or empty, for example because a disk is not mounted."""


@dataclass(frozen=True, kw_only=True)
class StoredRecord:
    """The contents of a file besides the header."""

    metadata: str
    """The whole `metadata` element."""
    namespace: str
    """The namespace of the element in it; empty if it has none."""
    abouts: Sequence[str]
    """The whole `about` elements, except the one with the provenance."""
    origin: str
    """The source's own `originDescription` of the record; empty if it has none."""
    repaired: bool
    """Whether it was repaired when it was harvested."""


def has_files(base: Path) -> bool:
    """Return whether a base directory is there; an empty one may be the mount point of a missing disk."""
    try:
        with os.scandir(base) as entries:
            return any(entries)
    except OSError:
        return False


def read_stored(base: Path, filename: str, identifier: str) -> StoredRecord:
    """Return the record with this identifier from a file below `base`.

    Raises UnreadableRecordError, and MissingFolderError if `base` itself is missing or empty.
    """
    path = base / filename
    try:
        root = parse(path.read_bytes(), source=str(path))
    except OSError as error:
        if not has_files(base):
            raise MissingFolderError(f"the folder {base} is missing or empty; mount or restore it") from None
        raise UnreadableRecordError(f"{path}: {error.strerror}") from None
    except MalformedXmlError as error:
        raise UnreadableRecordError(str(error)) from None
    found = (root.findtext(f"{_OAI}header/{_OAI}identifier") or "").strip()
    metadata = root.find(f"{_OAI}metadata")
    if found != identifier or metadata is None:
        wrong = "the file has no metadata" if found == identifier else f"the file has the record {found!r}"
        raise UnreadableRecordError(f"{path}: {wrong}")
    abouts, origin = _abouts(root)
    content = next(metadata.iterchildren(etree.Element), None)
    return StoredRecord(
        metadata=_written(metadata),
        namespace="" if content is None else etree.QName(content).namespace or "",
        abouts=abouts,
        origin=origin,
        repaired=root.find(_REPAIRED) is not None,
    )


def metadata_vocabulary(base: Path, filename: str, identifier: str) -> tuple[str, str]:
    """Return the namespace and schema address in a record's metadata. Raises UnreadableRecordError."""
    stored = parse(read_stored(base, filename, identifier).metadata.encode(), source=filename)
    element = next(stored.iterchildren(etree.Element), None)
    if element is None:
        return "", ""
    namespace = etree.QName(element).namespace or ""
    locations = element.get(f"{{{XSI_NAMESPACE}}}schemaLocation", "").split()
    return namespace, dict(zip(locations[::2], locations[1::2], strict=False)).get(namespace, "")


def within_answer(element: str) -> str:
    """Return a serialized element without the declarations that the root of each answer has as well.

    VuFind's harvester moves those of `metadata` into the record, which must not have two default namespaces.
    """
    opening, end, rest = element.partition(">")
    for declared in _DECLARED:
        opening = opening.replace(declared, "", 1)
    return opening + end + rest


def _abouts(root: etree._Element) -> tuple[list[str], str]:
    kept = []
    origin = ""
    for about in root.iterchildren(f"{_OAI}about"):
        described = about.find(f"{_PROVENANCE}provenance/{_PROVENANCE}originDescription")
        if described is None or origin:
            kept.append(_written(about))
        else:
            origin = _written(described)
    return kept, origin


def _written(element: etree._Element) -> str:
    """Serialize the element with all namespaces in scope, for insertion where OAI-PMH's is the default."""
    text = etree.tostring(element, encoding="unicode", with_tail=False)
    if None in element.nsmap:
        return text
    # Without its own default namespace, its unprefixed names would take that of the answer.
    name = f"{element.prefix}:{etree.QName(element).localname}" if element.prefix else str(element.tag)
    return f'<{name} xmlns=""{text[len(name) + 1 :]}'
