"""The converters and their selection; a new format needs a module, and a line here."""

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from lxml import etree

from harvester.bibliographic.dublin_core import DublinCoreConverter, QualifiedDublinCoreConverter
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import BibliographicRecord, RawField
from oai.errors import MalformedXmlError, ZatvaError
from oai.xml import metadata_of, parse


class Candidate(NamedTuple):
    """A harvested record to process, and its present row in the tables; a tuple, because there are many."""

    key: uuid.UUID
    identifier: str
    filename: str | None
    datestamp: str
    digest: bytes | None
    bibliographic_id: int | None
    content_digest: bytes | None
    omitted: str | None

    @property
    def file_digest(self) -> str | None:
        """Return the digest in hexadecimal digits."""
        return None if self.digest is None else self.digest.hex()


class Converter(Protocol):
    """Converts metadata of one format into bibliographic records."""

    @property
    def name(self) -> str:
        """Return the format in one word."""

    @property
    def version(self) -> int:
        """Return the version, raised whenever the same metadata gives another record.

        After such a change, all records are converted again.
        """

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces with which repositories announce the format."""

    @property
    def rank(self) -> int:
        """Return the rank: of a repository's formats, the one with the highest rank is imported."""

    def reads(self, element: etree._Element) -> bool:
        """Return whether the metadata's root element is in this format."""

    def declined(self, element: etree._Element) -> str:
        """Return why the element is no bibliographic record and gets no row; an empty text if it is one."""

    def convert(self, element: etree._Element) -> BibliographicRecord:
        """Convert the metadata's root element; never raises because of its content."""

    def fields(self, element: etree._Element) -> Iterator[RawField]:
        """Yield the record's fields as filtering sets see them."""


CONVERTERS: Final[Sequence[Converter]] = (
    Marc21Converter(),
    QualifiedDublinCoreConverter(),
    DublinCoreConverter(),
)


def converter_for(element: etree._Element) -> Converter | None:
    """Return the converter for metadata with this root element."""
    return next((found for found in CONVERTERS if found.reads(element)), None)


def converter_of_namespace(namespace: str) -> Converter | None:
    """Return the converter for a metadata format that a repository announces with this namespace."""
    return next((found for found in CONVERTERS if namespace.strip() in found.namespaces), None)


class UnreadableFileError(ZatvaError):
    """A record's file that is not there, not as it was written, or not XML; another time it may be."""


class NoMetadataError(ZatvaError):
    """A record's file in which there is no metadata."""


def read_metadata(folder: Path, candidate: Candidate) -> etree._Element:
    """The root element of the record's metadata.

    Raises UnreadableFileError and NoMetadataError; both say which file, and what is the matter.
    """
    if candidate.filename is None:
        raise UnreadableFileError("the record has no file; harvest it again")
    try:
        # In one piece and unbuffered, for there are many of them.
        with open(f"{folder}/{candidate.filename}", "rb", buffering=0) as file:  # noqa: PTH123
            data = file.read()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnreadableFileError(
            f"{candidate.filename}: {reason}; for details, run `zatva store verify`"
        ) from None
    if candidate.digest is not None and hashlib.sha256(data).digest() != candidate.digest:
        raise UnreadableFileError(f"{candidate.filename}: its contents differ from what was stored")
    return metadata_in(data, source=candidate.filename)


def is_readable(folder: Path, candidate: Candidate) -> bool:
    """Return whether `read_metadata` can read the record's file, with or without metadata."""
    try:
        read_metadata(folder, candidate)
    except (UnreadableFileError, MemoryError):
        return False
    except NoMetadataError:
        pass
    return True


def metadata_in(data: bytes, *, source: str) -> etree._Element:
    """Return the root element of the metadata in a record's file; errors name `source`.

    Raises UnreadableFileError and NoMetadataError.
    """
    try:
        root = parse(data, source=source)
    except MalformedXmlError as error:
        raise UnreadableFileError(str(error)) from None
    found = metadata_of(root)
    if found is None:
        raise NoMetadataError(f"{source}: no element in <metadata>")
    return found
