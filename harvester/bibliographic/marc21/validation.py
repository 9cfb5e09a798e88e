"""Validation of MARC 21 records on three levels: structure, designations, coded values."""

from collections.abc import Iterator

from lxml import etree

from harvester.bibliographic.marc21.coded_values import check_coded_values
from harvester.bibliographic.marc21.designations import check_designations
from harvester.bibliographic.marc21.kinds import BIBLIOGRAPHIC, marc_records
from harvester.bibliographic.marc21.structure import Finding, Level, WrittenRecord, read_written


def written_records(element: etree._Element) -> list[WrittenRecord]:
    """Return the bibliographic records of a record or a collection, as written; others are left out."""
    return [read_written(one) for one in marc_records(element).of_kind(BIBLIOGRAPHIC)]


def validate(record: WrittenRecord, level: Level = Level.CODED_VALUES) -> Iterator[Finding]:
    """Yield the findings of this level and those before it."""
    yield from record.findings
    if level >= Level.DESIGNATIONS:
        yield from check_designations(record)
    if level >= Level.CODED_VALUES:
        yield from check_coded_values(record)
