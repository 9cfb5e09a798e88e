"""Handlers of `zatva provider titles`."""

import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.console import counted, some
from oai.database import Database, open_database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode, UsageError, ZatvaError
from oai.sections import ProviderSettings
from provider.titles.access import MOST_COUNTED, settle_access
from provider.titles.address_lists import ListPlan, counted_addresses
from provider.titles.enrichment import ENRICHED
from provider.titles.entries import READERS
from provider.titles.front_pages import read_front_pages
from provider.titles.import_steps import (
    Incoming,
    LocalFile,
    Proposal,
    accept,
    propose,
    seeder_database,
)
from provider.titles.imports import ImportPlan
from provider.titles.models import Title, TitleEnrichment, TitleSeed
from provider.titles.publication import count_new
from provider.titles.ranges import range_rules
from provider.titles.segments import follow_setting

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
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{32}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_NAMED: Final = 3
"""Addresses of a list that such a report names."""


def import_titles(invocation: Invocation) -> ExitCode:
    """`provider titles import`: import the titles of a source."""
    arguments, settings = invocation.arguments, invocation.settings.provider
    source = _source(arguments.source, arguments.file, settings)
    with _noting(invocation, source):
        report = _imported(invocation, source)
    invocation.about(source, source, **report["counts"])
    invocation.console.result(report, "\n".join(_in_words(report)))
    unread = sum(not one["is_decision"] for one in report["not_taken"])
    return ExitCode.RECORDS_REFUSED if unread else ExitCode.DONE


def _source(given: str | None, file: str | None, settings: ProviderSettings) -> str:
    if given is not None:
        return given
    if file is None:
        return settings.seeder_source
    raise UsageError("name the source with --source; an import only changes its titles")


@contextmanager
def _noting(invocation: Invocation, source: str) -> Iterator[None]:
    """Note in the audit log why an import failed, so that the dashboard can show it."""
    try:
        yield
    except ZatvaError as error:
        invocation.about(source, source, reason=str(error))
        raise


def _imported(invocation: Invocation, source: str) -> dict[str, Any]:
    arguments, settings = invocation.arguments, invocation.settings.provider
    incoming = _incoming(source, arguments.file, arguments.format, settings)

    def check(plan: ImportPlan) -> None:
        if not arguments.approve:
            plan.check(settings.title_change_percent)

    with invocation.session() as session:
        if arguments.dry_run:
            done = propose(session, incoming, settings, waits=True)
        else:
            done = accept(session, incoming, settings, check, waits=True)
    return _report(done, dry_run=arguments.dry_run)


def _incoming(source: str, given: str | None, kind: str | None, settings: ProviderSettings) -> Incoming:
    """Return what a file, an address or the settings name.

    An address may contain a password; no message quotes it.
    """
    is_address = given is not None and _ADDRESS.match(given) is not None
    if (kind or "seeder") == "seeder" and (given is None or given.startswith(_POSTGRESQL)):
        seeder = seeder_database(settings, given)
        if seeder is not None:
            return replace(seeder, source=source)
    if given is None:
        raise UsageError("name a file, or set provider.seeder_url to the address of Seeder's database")
    if kind == "seeder" or is_address:
        raise UsageError(
            "only a file, or Seeder's database as postgresql://USER@HOST/DATABASE (--format seeder), can be "
            "imported"
        )
    file = Path(given)
    kind = kind or _format_of(file)
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    return LocalFile(source=source, kind=kind, path=file)


def _format_of(file: Path) -> str:
    suffix = file.suffix.lower().removeprefix(".")
    if suffix not in READERS:
        raise UsageError(f"{file}: say what it is with --format: {', '.join(READERS)}")
    return suffix


def _report(done: Proposal, *, dry_run: bool) -> dict[str, Any]:
    plan = done.plan
    return {
        "dry_run": dry_run,
        "counts": plan.counts,
        "new": [one.entry.name for one in plan.new],
        "changed": [{"name": one.entry.name, "fields": list(one.fields)} for one in plan.changed],
        "gone": [name for _, _, name in plan.gone],
        "new_keys": [one.entry.key for one in plan.new],
        "gone_keys": [key for _, key, _ in plan.gone],
        "collections": plan.collections.names,
        "not_taken": [
            {"place": one.place, "reason": one.reason, "is_decision": one.is_decision}
            for one in plan.not_taken
        ],
        "conflicts": [
            {"range": one.range.low, "kept_by": one.kept_by, "refused_to": one.refused_to}
            for one in done.conflicts
        ],
        "warnings": plan.warnings,
        "kept_because": plan.kept_because,
        "lists": [_list_report(one, done.closed.get(one.key, ())) for one in plan.lists],
        "documents": done.documents,
    }


def _list_report(plan: ListPlan, closed: Sequence[str]) -> dict[str, Any]:
    return {
        "list": plan.key,
        "title": plan.title,
        "meaning": plan.meaning,
        "access": plan.access,
        "addresses": len(plan.addresses),
        "added": plan.added,
        "removed": plan.removed,
        "closed": list(closed),
    }


def _in_words(report: dict[str, Any]) -> list[str]:
    counts = report["counts"]
    begin = "Would import" if report["dry_run"] else "Imported"
    summary = ", ".join(
        counted(number, "collection") if name == "collections" else f"{number:,} {name.replace('_', ' ')}"
        for name, number in counts.items()
    )
    lines = [f"{begin}: {summary}"]
    lines += some("new", _with_keys(report["new"], report["new_keys"]))
    lines += some("changed", [f"{one['name']} ({', '.join(one['fields'])})" for one in report["changed"]])
    lines += some("gone", _with_keys(report["gone"], report["gone_keys"]))
    lines += some("collection", report["collections"])
    lines += some("not taken", list(_not_taken(report["not_taken"])))
    conflicts = [
        f"{one['range']} belongs to {one['kept_by']!r}, not to {one['refused_to']!r}"
        for one in report["conflicts"]
    ]
    lines += some("claimed twice", conflicts)
    lines += some("list", [_list_in_words(one) for one in report["lists"] if one["meaning"]])
    lines += some("warning", report["warnings"])
    if report["documents"]:
        bound = "many" if report["documents"] >= MOST_COUNTED else f"up to {report['documents']:,}"
        lines.append(f"Access rules or sets of {bound} documents change")
    if report["kept_because"]:
        lines.append(f"Titles that are missing are kept: {report['kept_because']}")
    return lines


def _with_keys(names: Sequence[str], keys: Sequence[str]) -> list[str]:
    return [f"{name} (key {key})" for name, key in zip(names, keys, strict=True)]


def _list_in_words(one: dict[str, Any]) -> str:
    words = f"{one['list']} {one['title']!r}: {one['meaning']}, {counted_addresses(one['addresses'])}"
    if one["added"] or one["removed"]:
        words += f" ({one['added']:,} added, {one['removed']:,} removed)"
    if one["closed"]:
        shown = ", ".join(one["closed"][:_NAMED])
        words += f"; other rules close captures of {len(one['closed']):,} of them: {shown}"
        words += ", … (see --json)" if len(one["closed"]) > _NAMED else ""
    return words


def _not_taken(refused: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what could not be read, one by one, and then how many titles each rule leaves out."""
    for one in refused:
        if not one["is_decision"]:
            yield f"{one['place']}: {one['reason']}"
    for reason, number in Counter(one["reason"] for one in refused if one["is_decision"]).most_common():
        yield f"{reason} ({number:,})"


def list_titles(invocation: Invocation) -> None:
    """`provider titles list`: list the titles."""
    query = select(Title).order_by(Title.title_id)
    if invocation.arguments.source is not None:
        query = query.where(Title.source == invocation.arguments.source)
    with invocation.session() as session:
        rows = [_row(title) for title in session.scalars(query)]
    invocation.console.table(
        rows, _COLUMNS, empty="no titles; import some with `zatva provider titles import`"
    )


def _row(title: Title) -> dict[str, Any]:
    row = {name: getattr(title, name) for name in _COLUMNS if name != "listed"}
    for name in ("first_capture", "last_capture"):
        moment = row[name]
        row[name] = None if moment is None else format_datestamp(moment)[:10]
    return {**row, "listed": not title.deleted}


def show_title(invocation: Invocation) -> None:
    """`provider titles show`: show everything about a title."""
    with invocation.session() as session:
        title = find_title(session, invocation.arguments.title)
        details = _row(title) | {
            "identifier": f"oai:{invocation.settings.provider.namespace}:title:{title.key.hex}",
            **{name: getattr(title, name) for name in _DETAILS},
            "catalogue_record": _enrichment(session, title),
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


def _enrichment(session: Session, title: Title) -> dict[str, Any] | None:
    row = session.get(TitleEnrichment, title.title_id)
    if row is None:
        return None
    return {name: getattr(row, name) for name in ENRICHED} | {"enriched": format_datestamp(row.enriched)}


_DETAILS: Final = (
    "alternative_names", "publisher", "annotation", "languages", "issn", "catalogue_number",
    "classification", "subjects", "keywords", "collections", "licence", "public", "access", "gone",
    "captures_by_year",
)  # fmt: skip


def find_title(session: Session, named: str) -> Title:
    """Return the title that a command names: by number, SOURCE:KEY, or key. Raises UsageError.

    A key is that of the OAI identifier, or that of the title's source if no other source has it.
    """
    source, _, key = named.partition(":")
    if _HEXADECIMAL.fullmatch(named):
        condition = Title.key == uuid.UUID(hex=named)
    elif _NUMBER.fullmatch(named):
        condition = Title.title_id == int(named)
    else:
        condition = (Title.source == source) & (Title.source_key == key)
    found = session.scalars(select(Title).where(condition)).all()
    if not found:
        found = session.scalars(select(Title).where(Title.source_key == named).order_by(Title.source)).all()
    if not found:
        raise UsageError(f"no title {named!r}; list them with `zatva provider titles list`")
    if len(found) > 1:
        names = ", ".join(f"{title.source}:{named}" for title in found)
        raise UsageError(f"several sources have a title {named!r}; give one of {names}")
    return found[0]


def update_titles(invocation: Invocation) -> None:
    """`provider titles update`: count new captures; documents and front pages follow their titles."""
    settings = invocation.settings
    with open_database(settings) as database:
        changed, documents = _updated(database, settings.provider)
        pages = 0
        while settings.provider.title_front_pages and (read := read_front_pages(database, settings.provider)):
            pages += read
    words = f"{changed:,} titles have a new datestamp, and {documents:,} documents"
    if settings.provider.title_front_pages:
        words += f"; {pages:,} front pages were checked"
    counts = {"changed": changed, "documents": documents, "front_pages": pages}
    invocation.console.result(counts, words)


def _updated(database: Database, settings: ProviderSettings) -> tuple[int, int]:
    """Return how many titles and how many documents got a new datestamp."""
    margin = settings.publish_margin
    with database.session() as session:
        changed = follow_setting(session, range_rules(settings), margin=margin)
        changed += count_new(session, margin=margin)
        session.commit()
        return changed, settle_access(session, margin=margin)
