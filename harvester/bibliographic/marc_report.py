"""A report on the MARC records of a source: what validation finds in them, counted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from harvester.bibliographic.marc21.structure import Finding, Level
from harvester.bibliographic.marc21.validation import validate
from harvester.bibliographic.stored_marc import MarcSource, StoredMarc, read_stored_marc
from oai.database import Database

_EXAMPLES: Final = 3
_MOST_KINDS: Final = 2000
"""Tags and codes in broken records are arbitrary; beyond this number, findings are counted by code only."""
_FURTHER: Final = "…"


@dataclass(kw_only=True)
class CountedFinding:
    """Findings of the same code at the same place."""

    level: int
    code: str
    place: str
    """The tag with the place in the field: `245$a`, `008/35-37`, `100ind1`."""
    expected: str
    """What would be right, of the first of them."""
    found: str
    """What the first of them found."""
    count: int = 0
    records: int = 0
    """The number of harvested records in which they are."""
    identifiers: list[str] = field(default_factory=list)
    """The first of these records, at most three."""


@dataclass(kw_only=True)
class MarcReport:
    """What validation found in the records of a source."""

    repository_id: int
    metadata_prefix: str
    level: int
    records: int = 0
    """Harvested records that were checked."""
    without_findings: int = 0
    other: int = 0
    """Harvested records that are no bibliographic MARC records; they are not checked."""
    unreadable: int = 0
    """Harvested records whose files are missing or altered."""
    findings: int = 0
    counted: dict[tuple[str, str], CountedFinding] = field(default_factory=dict)
    """By code and place."""

    def add(self, identifier: str, found: Sequence[Finding]) -> None:
        """Count the findings in one harvested record."""
        self.records += 1
        self.without_findings += not found
        self.findings += len(found)
        counted = [self._counted(one) for one in found]
        for one in counted:
            one.count += 1
        for one in {id(one): one for one in counted}.values():
            one.records += 1
            if len(one.identifiers) < _EXAMPLES:
                one.identifiers.append(identifier)

    def _counted(self, one: Finding) -> CountedFinding:
        """Return the count to which a finding belongs; the first one makes it."""
        key = (one.code, f"{one.tag}{one.place}")
        if key not in self.counted and len(self.counted) >= _MOST_KINDS:
            key = (one.code, _FURTHER)
        if key not in self.counted:
            self.counted[key] = CountedFinding(
                level=int(one.level), code=one.code, place=key[1], expected=one.expected, found=one.found
            )
        return self.counted[key]

    def ranked(self) -> list[CountedFinding]:
        """Return the findings by level, those in most records first."""
        return sorted(self.counted.values(), key=lambda one: (one.level, -one.records, one.code, one.place))


def check_source(
    database: Database,
    source: MarcSource,
    *,
    level: Level = Level.CODED_VALUES,
    most: int | None = None,
    on_progress: Callable[[int], None] = lambda _done: None,
    on_unreadable: Callable[[StoredMarc], None] = lambda _stored: None,
) -> MarcReport:
    """Validate the stored records of a source, or `most` of them, chosen practically at random.

    `on_progress` is called with the number of records so far, `on_unreadable` with each record whose file
    cannot be read.
    """
    report = MarcReport(
        repository_id=source.repository_id, metadata_prefix=source.metadata_prefix, level=int(level)
    )
    for done, stored in enumerate(read_stored_marc(database, source, most=most), 1):
        if stored.unreadable:
            report.unreadable += 1
            on_unreadable(stored)
        elif stored.other:
            report.other += 1
        else:
            found = [finding for record in stored.records for finding in validate(record, level)]
            report.add(stored.identifier, found)
        on_progress(done)
    return report
