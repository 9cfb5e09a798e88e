"""The converters and their selection; a new format needs a module, and a line here."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from lxml import etree

from harvester.bibliographic.dublin_core import DublinCoreConverter
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import BibliographicRecord, RawField


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

    def convert(self, element: etree._Element) -> BibliographicRecord:
        """Convert the metadata's root element; never raises because of its content."""

    def fields(self, element: etree._Element) -> Iterator[RawField]:
        """Yield the record's fields as filtering sets see them."""


CONVERTERS: Final[Sequence[Converter]] = (Marc21Converter(), DublinCoreConverter())


def converter_for(element: etree._Element) -> Converter | None:
    """Return the converter for metadata with this root element."""
    return next((found for found in CONVERTERS if found.reads(element)), None)


def converter_of_namespace(namespace: str) -> Converter | None:
    """Return the converter for a metadata format that a repository announces with this namespace."""
    return next((found for found in CONVERTERS if namespace.strip() in found.namespaces), None)
