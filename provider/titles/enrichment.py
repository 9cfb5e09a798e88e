"""Enrichment of titles by the records of the library's catalogue: languages, names, place, first publication.

A record belongs to the title whose catalogue number names it. What it adds is stored apart from the fields
that the title's source owns (`TitleEnrichment`), so an import from the source never loses it. A run is
repeatable. A record that is deleted or not found removes nothing: the title keeps what it had, and the report
says so. Only a title that no longer names the record loses what came from it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from provider.titles.access import IMPORTING
from provider.titles.entries import Refused
from provider.titles.imports import is_mass_change, needs_approval
from provider.titles.models import Title, TitleEnrichment
from provider.titles.publication import publish

_BLANKS: Final = re.compile(r"\s+")
_LOCAL: Final = re.compile(r"(?:.*:)?(?:([a-z]{3}[0-9]{2})-)?([0-9]{9})", re.ASCII)
"""An OAI identifier of an Aleph system, in lower case: the base may be missing."""
_PREFIXED: Final = re.compile(r"[a-z]{2,3}([0-9]{8,})", re.ASCII)
"""A control number with a prefix that says who assigned it: `web20132499695`, `nkc20132499695`."""
_FIELDS: Final = ("languages", "alternative_names", "place", "country", "first_published")
ENRICHED: Final = ("control_number", "identifier", *_FIELDS)
"""The columns of `TitleEnrichment` that come from a record."""
_MOST_LISTED: Final = 1000
"""Records without a title that are listed; a catalogue has millions."""


@dataclass(frozen=True, kw_only=True)
class CatalogueRecord:
    """A record of the catalogue; the fields are those of `TitleEnrichment`."""

    found_in: str
    """Where it is, for reports: its OAI identifier, or the file and the place in it."""
    control_number: str
    """MARC 001."""
    identifier: str | None = None
    """Its OAI identifier; None for a record from a file."""
    title: str = ""
    """Its title proper, for reports."""
    languages: Sequence[str] = ()
    alternative_names: Sequence[str] = ()
    place: str | None = None
    country: str | None = None
    first_published: int | None = None

    def values(self) -> dict[str, Any]:
        """Return what it adds to a title."""
        given = asdict(self)
        return {name: list(one) if isinstance(one := given[name], tuple) else one for name in _FIELDS}


@dataclass(frozen=True, kw_only=True)
class DeletedRecord:
    """A record that the catalogue has deleted."""

    identifier: str


CatalogueRead = CatalogueRecord | DeletedRecord | Refused


def number_key(number: str) -> str:
    """Return the form in which catalogue numbers are compared.

    Blanks and case do not matter, nor do the leading zeros of a number without letters.

    >>> [number_key(one) for one in (" WEB20132499695", "002499695", "NKC01-002499695")]
    ['web20132499695', '2499695', 'nkc01-002499695']
    """
    compact = _BLANKS.sub("", number).lower()
    return compact.lstrip("0") or "0" if compact.isdecimal() and compact.isascii() else compact


def record_keys(control_number: str, identifier: str | None) -> set[str]:
    """Return the forms of the numbers that name a record.

    They are its control number (MARC 001), with and without its prefix of two or three letters, and from the
    OAI identifier of an Aleph system, which ends with nine digits, the system number with and without its
    base.

    >>> sorted(record_keys("web20132499695", "oai:aleph.nkp.cz:NKC01-002499695"))
    ['20132499695', '2499695', 'nkc01-002499695', 'web20132499695']
    """
    keys = {number_key(control_number)} if control_number.strip() else set()
    keys |= {number_key(found[1]) for key in list(keys) if (found := _PREFIXED.fullmatch(key))}
    local = _LOCAL.fullmatch((identifier or "").lower())
    if local is not None:
        keys.add(number_key(local[2]))
        if local[1]:
            keys.add(f"{local[1]}-{local[2]}")
    return keys


@dataclass(kw_only=True)
class Matches:
    """The records that catalogue numbers name."""

    asked: frozenset[str]
    """The numbers, as `number_key` returns them."""
    records: dict[str, list[CatalogueRecord]] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)
    """The identifiers of deleted records, by number."""
    others: list[CatalogueRecord] = field(default_factory=list)
    """Records without a title, at most 1,000 of them."""
    other_count: int = 0
    """Number of all records without a title."""
    refused: list[Refused] = field(default_factory=list)


def catalogue_numbers(session: Session, source: str) -> frozenset[str]:
    """Return the catalogue numbers of a source's titles, as `number_key` returns them."""
    numbers = session.scalars(select(Title.catalogue_number).where(Title.source == source, ~Title.gone))
    return frozenset(number_key(number) for number in numbers if number and number.strip())


def match(asked: frozenset[str], read: Iterable[CatalogueRead]) -> Matches:
    """Read the catalogue once, and return the records that the numbers name."""
    matches = Matches(asked=asked)
    for one in read:
        if isinstance(one, Refused):
            matches.refused.append(one)
        elif isinstance(one, DeletedRecord):
            keys = record_keys("", one.identifier) & asked
            matches.deleted |= dict.fromkeys([*keys, one.identifier], one.identifier)
        else:
            _note(matches, one)
    return matches


def _note(matches: Matches, record: CatalogueRecord) -> None:
    keys = record_keys(record.control_number, record.identifier) & matches.asked
    for key in keys:
        matches.records.setdefault(key, []).append(record)
    if not keys:
        matches.other_count += 1
        if len(matches.others) < _MOST_LISTED:
            matches.others.append(record)


class Outcome(StrEnum):
    """What an enrichment does to a title that has a catalogue number, or had one."""

    NEW = "new"
    """It gets what its record adds."""
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    """Its number no longer names the record from which it was enriched, and names no other one."""
    UNKNOWN = "unknown"
    """No record has its number. What it has already, it keeps; so it does in the next two cases."""
    AMBIGUOUS = "ambiguous"
    """Several records with different content have its number."""
    DELETED = "deleted"
    """The catalogue has deleted its record."""


@dataclass(frozen=True, kw_only=True)
class TitleOutcome:
    """What an enrichment does to a title."""

    title_id: int
    name: str
    number: str | None
    """Its catalogue number, as its source writes it."""
    outcome: Outcome
    records: Sequence[CatalogueRecord] = ()
    """The record, or if they are ambiguous, all of them."""
    fields: tuple[str, ...] = ()
    """Names of the fields that are new or changed."""
    kept: bool = False
    """Whether it keeps what a record added earlier."""


@dataclass(kw_only=True)
class EnrichmentPlan:
    """What an enrichment would do."""

    source: str
    titles: list[TitleOutcome] = field(default_factory=list)
    without_number: int = 0
    """Titles without a catalogue number."""
    stored: int = 0
    """Titles that were enriched before."""
    matches: Matches

    def of(self, *outcomes: Outcome) -> list[TitleOutcome]:
        """Return the titles with these outcomes."""
        return [one for one in self.titles if one.outcome in outcomes]

    def check(self, percent: float) -> None:
        """Raise UsageError if it changes or removes more than this share of what catalogues added before."""
        changed, removed = len(self.of(Outcome.CHANGED)), len(self.of(Outcome.REMOVED))
        if is_mass_change(changed + removed, self.stored, percent):
            would = f"change {changed} and remove {removed} of {self.stored} titles"
            raise needs_approval("enrichment", would, percent)


def plan_enrichment(session: Session, source: str, matches: Matches) -> EnrichmentPlan:
    """Compare the records with what is stored for the titles of a source; nothing is changed.

    Waits for an import to end, and keeps others away until the transaction ends.
    """
    session.execute(select(func.pg_advisory_xact_lock(IMPORTING)))
    plan = EnrichmentPlan(source=source, matches=matches)
    rows = session.execute(
        select(Title.title_id, Title.name, Title.catalogue_number, TitleEnrichment)
        .outerjoin(TitleEnrichment, TitleEnrichment.title_id == Title.title_id)
        .where(Title.source == source, ~Title.gone)
        .order_by(Title.title_id)
    )
    for title_id, name, number, stored in rows:
        plan.stored += stored is not None
        if number and number.strip():
            found = _outcome(matches, number_key(number), stored)
        elif stored is not None:
            found = {"outcome": Outcome.REMOVED}
        else:
            plan.without_number += 1
            continue
        plan.titles.append(TitleOutcome(title_id=title_id, name=name, number=number, **found))
    return plan


def _outcome(matches: Matches, key: str, stored: TitleEnrichment | None) -> dict[str, Any]:
    records = matches.records.get(key, [])
    kept = stored is not None
    if not records:
        return _without_record(matches, key, stored)
    first = records[0]
    if any(one.values() != first.values() for one in records):
        return {"outcome": Outcome.AMBIGUOUS, "records": records, "kept": kept}
    wanted = _columns(first)
    if stored is None:
        names = tuple(name for name in _FIELDS if wanted[name])
        return {"outcome": Outcome.NEW, "records": [first], "fields": names}
    changed = tuple(name for name, value in wanted.items() if getattr(stored, name) != value)
    outcome = Outcome.CHANGED if changed else Outcome.UNCHANGED
    return {"outcome": outcome, "records": [first], "fields": changed}


def _without_record(matches: Matches, key: str, stored: TitleEnrichment | None) -> dict[str, Any]:
    # Numbers that a title got after the catalogue was read were not looked for, and say nothing.
    if stored is not None and key in matches.asked:
        if key not in record_keys(stored.control_number, stored.identifier):
            return {"outcome": Outcome.REMOVED}
        if stored.identifier in matches.deleted:
            return {"outcome": Outcome.DELETED, "kept": True}
    outcome = Outcome.DELETED if key in matches.deleted else Outcome.UNKNOWN
    return {"outcome": outcome, "kept": stored is not None}


def _columns(record: CatalogueRecord) -> dict[str, Any]:
    return {**{name: getattr(record, name) for name in ENRICHED}, **record.values()}


def apply_enrichment(session: Session, plan: EnrichmentPlan, *, margin: float) -> int:
    """Carry out a plan in the transaction in which it was made.

    Returns the number of titles that get a new datestamp, because their records show something else. The
    caller commits. `margin` is that of `provider.holdings.mark.reserve`.
    """
    removed = [one.title_id for one in plan.of(Outcome.REMOVED)]
    written = plan.of(Outcome.NEW, Outcome.CHANGED)
    if not removed and not written:
        return 0
    session.execute(delete(TitleEnrichment).where(TitleEnrichment.title_id.in_(removed)))
    if written:
        rows = [
            {"title_id": one.title_id, **_columns(one.records[0]), "enriched": utc_now()} for one in written
        ]
        given = insert(TitleEnrichment)
        columns: Mapping[str, Any] = {name: given.excluded[name] for name in rows[0] if name != "title_id"}
        session.execute(given.on_conflict_do_update(index_elements=["title_id"], set_=columns), rows)
    return publish(session, [*removed, *(one.title_id for one in written)], (), margin=margin)
