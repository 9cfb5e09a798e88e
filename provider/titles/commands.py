"""Handlers of `zatva provider titles`."""

import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.database import open_database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode, UsageError
from oai.sections import ProviderSettings
from provider.holdings.urlkeys import WwwRule
from provider.holdings.www_rule import settle_rule
from provider.models import Access
from provider.titles.access import count_pending, settle_access
from provider.titles.entries import READERS, Read
from provider.titles.front_pages import read_front_pages
from provider.titles.imports import ClaimedTwice, ImportPlan, apply_import, name_conflicts, plan_import
from provider.titles.models import Title, TitleSeed
from provider.titles.publication import count_new
from provider.titles.ranges import range_rules
from provider.titles.seeder import StateRules, read_seeder

_COLUMNS: Final = {
    "title_id": "ID",
    "source": "Source",
    "source_key": "Key",
    "name": "Name",
    "captures": "Captures",
    "first_capture": "First",
    "last_capture": "Last",
    "state": "State",
    "listed": "Listed",
}
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_POSTGRESQL: Final = ("postgresql://", "postgres://")
_HEX: Final = 32
_SHOWN: Final = 20
"""Lines of each kind that a report for people shows."""


def import_titles(invocation: Invocation) -> ExitCode:
    """`provider titles import`: import the titles of a source."""
    arguments, settings = invocation.arguments, invocation.settings.provider
    found = _reader(arguments.file, arguments.format, settings)
    rules = range_rules(settings)
    with open_database(invocation.settings) as database, database.session() as session:
        settle_rule(session, WwwRule(settings.www_rule))
        plan = plan_import(session, arguments.source, found, rules)
        if not arguments.dry_run and not arguments.approve:
            plan.check(settings.title_change_percent)
        conflicts = apply_import(session, plan, rules, margin=settings.publish_margin)
        named, pending = name_conflicts(session, conflicts), count_pending(session)
        if arguments.dry_run:
            session.rollback()
        else:
            session.commit()
            settle_access(session, margin=settings.publish_margin)
    invocation.about(arguments.source, arguments.source, **_counts(plan))
    report = {**_report(plan, named, dry_run=arguments.dry_run), "documents": pending}
    invocation.console.result(report, "\n".join(_in_words(report)))
    return ExitCode.DONE if not _unread(plan) else ExitCode.RECORDS_REFUSED


def _reader(given: str, kind: str | None, settings: ProviderSettings) -> Iterator[Read]:
    """Return the titles of a file or a database. An address may contain a password; no message quotes it."""
    is_address = _ADDRESS.match(given) is not None
    if (kind or "seeder") == "seeder" and given.startswith(_POSTGRESQL):
        states = StateRules(public=settings.seeder_public_states, ended=Access(settings.seeder_ended_access))
        return read_seeder(given, states)
    if kind == "seeder" or is_address:
        raise UsageError(
            "only a file, or Seeder's database as postgresql://USER@HOST/DATABASE (--format seeder), can be "
            "imported"
        )
    file = Path(given)
    read = READERS[kind or _format_of(file)]
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    return read(file)


def _format_of(file: Path) -> str:
    suffix = file.suffix.lower().removeprefix(".")
    if suffix not in READERS:
        raise UsageError(f"{file}: say what it is with --format: {', '.join(READERS)}")
    return suffix


def _unread(plan: ImportPlan) -> int:
    return sum(not one.is_decision for one in plan.refused)


def _counts(plan: ImportPlan) -> dict[str, int]:
    return {
        "new": len(plan.new),
        "changed": len(plan.changed),
        "gone": len(plan.gone),
        "unchanged": plan.unchanged,
        "not_taken": len(plan.refused),
    }


def _report(plan: ImportPlan, conflicts: Sequence[ClaimedTwice], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "counts": _counts(plan),
        "new": [one.entry.name for one in plan.new],
        "changed": [{"name": one.entry.name, "fields": list(one.fields)} for one in plan.changed],
        "gone": [name for _, name in plan.gone],
        "not_taken": [
            {"place": one.place, "reason": one.reason, "is_decision": one.is_decision} for one in plan.refused
        ],
        "conflicts": [
            {"range": one.range.low, "kept_by": one.kept_by, "refused_to": one.refused_to}
            for one in conflicts
        ],
        "warnings": plan.warnings,
        "kept_because": plan.kept_because,
    }


def _in_words(report: dict[str, Any]) -> list[str]:
    counts = report["counts"]
    begin = "Would import" if report["dry_run"] else "Imported"
    summary = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items())
    lines = [f"{begin}: {summary}"]
    lines += _some("new", report["new"])
    lines += _some("changed", [f"{one['name']} ({', '.join(one['fields'])})" for one in report["changed"]])
    lines += _some("gone", report["gone"])
    lines += _some("not taken", list(_not_taken(report["not_taken"])))
    conflicts = [
        f"{one['range']} belongs to {one['kept_by']!r}, not to {one['refused_to']!r}"
        for one in report["conflicts"]
    ]
    lines += _some("claimed twice", conflicts)
    lines += _some("warning", report["warnings"])
    if report["documents"]:
        lines.append(f"Access rules of up to {report['documents']:,} documents change")
    if report["kept_because"]:
        lines.append(f"Titles that are missing are kept: {report['kept_because']}")
    return lines


def _not_taken(refused: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what could not be read, one by one, and then how many titles each rule leaves out."""
    for one in refused:
        if not one["is_decision"]:
            yield f"{one['place']}: {one['reason']}"
    for reason, number in Counter(one["reason"] for one in refused if one["is_decision"]).most_common():
        yield f"{reason} ({number:,})"


def _some(word: str, lines: list[str]) -> list[str]:
    shown = [f"  {word}: {line}" for line in lines[:_SHOWN]]
    more = len(lines) - _SHOWN
    return [*shown, f"  … and {more:,} more; see --json"] if more > 0 else shown


def list_titles(invocation: Invocation) -> ExitCode:
    """`provider titles list`: list the titles."""
    query = select(Title).order_by(Title.title_id)
    if invocation.arguments.source is not None:
        query = query.where(Title.source == invocation.arguments.source)
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [_row(title) for title in session.scalars(query)]
    invocation.console.table(
        rows, _COLUMNS, empty="no titles; import some with `zatva provider titles import`"
    )
    return ExitCode.DONE


def _row(title: Title) -> dict[str, Any]:
    row = {name: getattr(title, name) for name in _COLUMNS if name != "listed"}
    for name in ("first_capture", "last_capture"):
        moment = row[name]
        row[name] = None if moment is None else format_datestamp(moment)[:10]
    return {**row, "listed": not title.deleted}


def show_title(invocation: Invocation) -> ExitCode:
    """`provider titles show`: show everything about a title."""
    with open_database(invocation.settings) as database, database.session() as session:
        title = _find(session, invocation.arguments.title)
        details = _row(title) | {
            "identifier": f"oai:{invocation.settings.provider.namespace}:title:{title.key.hex}",
            **{name: getattr(title, name) for name in _DETAILS},
            "seeds": [
                {"url": seed.url, "kind": seed.kind}
                for seed in session.scalars(
                    select(TitleSeed).where(TitleSeed.title_id == title.title_id).order_by(TitleSeed.position)
                )
            ],
        }
    lines = [
        f"{name.replace('_', ' ')}: {value}" for name, value in details.items() if value not in (None, [], {})
    ]
    invocation.console.result(details, "\n".join(lines))
    return ExitCode.DONE


_DETAILS: Final = (
    "alternative_names", "publisher", "annotation", "languages", "issn", "catalogue_number",
    "classification", "subjects", "keywords", "collections", "licence", "public", "access", "gone",
    "captures_by_year",
)  # fmt: skip


def _find(session: Session, named: str) -> Title:
    source, colon, key = named.partition(":")
    if named.isascii() and named.isdigit():
        condition = Title.title_id == int(named)
    elif len(named) == _HEX and not colon:
        condition = Title.key == _hexadecimal(named)
    else:
        condition = (Title.source == source) & (Title.source_key == key)
    found = session.scalars(select(Title).where(condition)).one_or_none()
    if found is None:
        raise UsageError(f"no title {named!r}; list them with `zatva provider titles list`")
    return found


def _hexadecimal(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(hex=text)
    except ValueError:
        raise UsageError(f"{text!r} is not a title's key of 32 hexadecimal digits") from None


def update_titles(invocation: Invocation) -> ExitCode:
    """`provider titles update`: count new captures, and read front pages if that is set."""
    settings = invocation.settings
    with open_database(settings) as database, database.session() as session:
        changed = count_new(session, margin=settings.provider.publish_margin)
        session.commit()
        pages = 0
        while settings.provider.title_front_pages and (read := read_front_pages(database, settings.provider)):
            pages += read
    told = f"; {pages:,} front pages were looked at" if settings.provider.title_front_pages else ""
    invocation.console.result(
        {"changed": changed, "front_pages": pages}, f"{changed:,} titles have a new datestamp{told}"
    )
    return ExitCode.DONE
