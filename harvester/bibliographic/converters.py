"""The converters, and which one a record's metadata is for: a new format is a module and a line here."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from lxml import etree

from harvester.bibliographic.dublin_core import DublinCoreConverter
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import BibliographicRecord, RawField


class Converter(Protocol):
    """Makes bibliographic records of one format."""

    @property
    def name(self) -> str:
        """The format in one word."""

    @property
    def version(self) -> int:
        """Counts up whenever the same metadata gives another record: all is converted anew then."""

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces that repositories announce the format with."""

    @property
    def rank(self) -> int:
        """The higher, the more its records tell: of a repository's formats the highest is imported."""

    def reads(self, element: etree._Element) -> bool:
        """Whether the metadata's root element is of the format."""

    def convert(self, element: etree._Element) -> BibliographicRecord:
        """The record in the metadata's root element; never raises for what it contains."""

    def fields(self, element: etree._Element) -> Iterator[RawField]:
        """The record's fields as filtering sets see them."""


CONVERTERS: Final[Sequence[Converter]] = (Marc21Converter(), DublinCoreConverter())


def converter_for(element: etree._Element) -> Converter | None:
    """The converter for metadata with this root element."""
    return next((found for found in CONVERTERS if found.reads(element)), None)


def converter_of_namespace(namespace: str) -> Converter | None:
    """The converter for a metadata format that a repository announces with this namespace."""
    return next((found for found in CONVERTERS if namespace.strip() in found.namespaces), None)
