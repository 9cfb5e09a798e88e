"""`zatva provider titles enrich`: titles completed from harvested catalogue records, or from files."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

from harvester.bibliographic.marc21.code_lists import COUNTRIES, FORMER_COUNTRIES
from harvester.bibliographic.marc_input import MarcInput, read_marc_file, stored_marc_input
from harvester.bibliographic.record import BibliographicRecord
from harvester.bibliographic.stored_marc import marc_source
from oai.cli import Invocation
from oai.console import Advance, some
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError
from provider.titles.enrichment import (
    CatalogueRead,
    CatalogueRecord,
    DeletedRecord,
    EnrichmentPlan,
    Matches,
    Outcome,
    TitleOutcome,
    apply_enrichment,
    catalogue_numbers,
    match,
    plan_enrichment,
    record_keys,
)
from provider.titles.entries import Refused

_NAMES: Final = frozenset({"varying", "former", "linked"})
"""Kinds of titles that are alternative names: 246, 247, 245 $b after an equals sign, and 880 of 245."""
_UNKNOWN_COUNTRY: Final = "xx"
_UNKNOWN_PLACE: Final = re.compile(
    r"\s*(?:s\. ?l\.|místo vydání|miesto vydania|place of publication not)", re.IGNORECASE
)
"""What cataloguers write for a place that is not known, in brackets."""
_LAST_YEAR: Final = 9999


def enrich(invocation: Invocation) -> ExitCode:
    """Complete the titles of a source from a harvested repository or from files of MARC records."""
    arguments, settings = invocation.arguments, invocation.settings.provider
    with open_database(invocation.settings) as database:
        inputs = _inputs(invocation, database)
        asked = _asked(database, arguments.source)
        with invocation.console.progress("records") as advance:
            matches = match(asked, map(partial(_as_read, asked), _counted(inputs, advance)))
        with database.session() as session:
            plan = plan_enrichment(session, arguments.source, matches)
            if not arguments.dry_run and not arguments.approve:
                plan.check(settings.title_change_percent)
            dated = apply_enrichment(session, plan, margin=settings.publish_margin)
            if arguments.dry_run:
                session.rollback()
            else:
                session.commit()
    report = _report(plan, dated, dry_run=arguments.dry_run)
    invocation.about(arguments.source, arguments.source, **report["counts"])
    invocation.console.result(report, "\n".join(_in_words(plan, report)))
    return ExitCode.RECORDS_REFUSED if matches.refused else ExitCode.DONE


def _asked(database: Database, source: str) -> frozenset[str]:
    """Return the numbers to look for; none is an error, unless what was added earlier is to be removed."""
    with database.session() as session:
        asked = catalogue_numbers(session, source)
        if not asked and not plan_enrichment(session, source, Matches(asked=asked)).titles:
            raise UsageError(
                f"no title of the source {source!r} has a catalogue number; see the titles with "
                "`zatva provider titles list`"
            )
    return asked


def _inputs(invocation: Invocation, database: Database) -> Iterator[MarcInput]:
    """Return the records to read; what cannot be read at all is found before anything is read."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (not arguments.files):
        raise UsageError("give either --repository ID or files with MARC records")
    if arguments.repository is not None:
        source = marc_source(database, invocation.settings, arguments.repository, arguments.format)
        return stored_marc_input(database, source)
    if arguments.format is not None:
        raise UsageError("--format belongs to --repository; a file is recognised by its content")
    for file in arguments.files:
        if not file.is_file():
            raise UsageError(f"{file}: no such file")
    return chain.from_iterable(map(read_marc_file, arguments.files))


def _counted(inputs: Iterator[MarcInput], advance: Advance) -> Iterator[MarcInput]:
    for number, one in enumerate(inputs, start=1):
        yield one
        advance(number)


def _as_read(asked: frozenset[str], found: MarcInput) -> CatalogueRead:
    if found.deleted:
        return DeletedRecord(identifier=found.place)
    if found.element is None:
        return Refused(place=found.place, reason=found.unreadable)
    number, identifier = found.control_number, found.identifier
    # Nearly all records of a catalogue have no title here: they are not converted.
    if record_keys(number, identifier).isdisjoint(asked):
        return CatalogueRecord(
            found_in=found.place, identifier=identifier, control_number=number, title=found.title
        )
    return as_catalogue_record(found.converted(), found.place, identifier)


def as_catalogue_record(
    record: BibliographicRecord, found_in: str, identifier: str | None = None
) -> CatalogueRecord:
    """Return what a MARC record says about a title.

    Of several statements of publication (field 264 or 260), the last one with a place counts: for an
    integrating resource it is the current one (MARC 21, field 264, first indicator).
    """
    places = [
        one.place
        for one in record.publications
        if one.function == "publication" and one.place and not one.other_script
    ]
    first = record.years.first
    known_country = record.country in COUNTRIES | FORMER_COUNTRIES and record.country != _UNKNOWN_COUNTRY
    return CatalogueRecord(
        found_in=found_in,
        identifier=identifier,
        control_number=record.control_number,
        title=record.title,
        languages=record.languages,
        alternative_names=tuple(
            dict.fromkeys(one.text for one in record.variants if one.kind in _NAMES and one.text)
        ),
        place=_known_place(places[-1]) if places else None,
        country=record.country if known_country else None,
        first_published=first if first is not None and 0 < first <= _LAST_YEAR else None,
    )


def _known_place(written: str) -> str | None:
    """Return the place without square brackets, which mean that it was not on the site; None if unknown."""
    place = written.strip("[]")
    return None if _UNKNOWN_PLACE.match(place) else place


def _report(plan: EnrichmentPlan, dated: int, *, dry_run: bool) -> dict[str, Any]:
    matches = plan.matches
    counts = {
        **{outcome.value: len(plan.of(outcome)) for outcome in Outcome},
        "without_number": plan.without_number,
        "without_title": matches.other_count,
        "not_taken": len(matches.refused),
        "dated": dated,
    }
    return {
        "dry_run": dry_run,
        "counts": counts,
        "titles": [_title(one) for one in plan.titles],
        "records_without_title": [_record(one) for one in matches.others],
        "not_taken": [{"place": one.place, "reason": one.reason} for one in matches.refused],
    }


def _title(one: TitleOutcome) -> dict[str, Any]:
    return {
        "title_id": one.title_id,
        "name": one.name,
        "catalogue_number": one.number,
        "outcome": one.outcome.value,
        "fields": list(one.fields),
        "kept": one.kept,
        "records": [{**_record(record), **record.values()} for record in one.records],
    }


def _record(record: CatalogueRecord) -> dict[str, Any]:
    return {"found_in": record.found_in, "control_number": record.control_number, "title": record.title}


def _in_words(plan: EnrichmentPlan, report: dict[str, Any]) -> Iterator[str]:
    begin = "Would enrich titles" if report["dry_run"] else "Enriched titles"
    counted = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in report["counts"].items())
    yield f"{begin}: {counted}"
    for outcome in Outcome:
        if outcome is not Outcome.UNCHANGED:
            yield from some(outcome.value, [_line(one) for one in plan.of(outcome)])
    others = [f"{one.found_in}: {one.title!r}" for one in plan.matches.others]
    yield from some("record without a title", others, plan.matches.other_count)
    yield from some("not taken", [f"{one.place}: {one.reason}" for one in plan.matches.refused])


def _line(one: TitleOutcome) -> str:
    """Return what happens to a title: what its record adds, or why nothing does."""
    problem = _ADDS.get(one.outcome)
    if problem is None:
        record = one.records[0]
        added = "; ".join(f"{name.replace('_', ' ')} {_shown(record, name)}" for name in one.fields)
        return f"{one.name} ({one.number}): {added or 'nothing'}, from {record.found_in}"
    places = ", ".join(record.found_in for record in one.records)
    kept = "; it keeps what an earlier record added" if one.kept else ""
    return f"{one.name} ({one.number or 'no number'}): {problem}{f' ({places})' if places else ''}{kept}"


_ADDS: Final = {
    Outcome.REMOVED: "it no longer names the record that had enriched it",
    Outcome.UNKNOWN: "no record has this number",
    Outcome.AMBIGUOUS: "several records with different content have this number; make it unique",
    Outcome.DELETED: "its record has been deleted from the catalogue",
}
"""Why a record adds nothing, by outcome."""


def _shown(record: CatalogueRecord, name: str) -> str:
    value = getattr(record, name)
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)
