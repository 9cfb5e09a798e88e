"""Handlers of `zatva import`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy.orm import Session

from harvester.bibliographic import filtering_sets, imports
from harvester.bibliographic.condition_trial import Trial, never_true, try_conditions
from harvester.bibliographic.conditions import Conditions, Match, parse_condition
from harvester.bibliographic.facets import count_facets
from harvester.bibliographic.filtering_sets import NamedSet
from harvester.bibliographic.importer import is_import_due, run_import
from harvester.bibliographic.imports import ImportFacts, list_omissions
from harvester.bibliographic.record_view import FoundRecord, get_record
from harvester.bibliographic.search import Hit, Search, SearchOrder, search
from harvester.bibliographic.sources import SourceSettings, save_source, source_settings
from harvester.bibliographic.stored_marc import record_lines
from harvester.repositories import check_repositories, get_repository, list_repositories
from harvester.vocabulary import RunStatus
from oai.cli import Invocation, account_name
from oai.console import counted
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError

_NONE = "none"
_BEST = "best"
_STATUS = {
    "import_id": "Import", "repository_id": "Repository", "state": "State", "started": "Started",
    "started_by": "By", "seen": "Seen", "expected": "Of", "new": "New", "updated": "Updated",
    "unchanged": "Unchanged", "deleted": "Deleted", "filtered": "Filtered", "refused": "Rejected",
    "total": "Total",
}  # fmt: skip
_SOURCES = {
    "repository_id": "ID", "repository_name": "Name", "format": "Format", "set": "Set",
    "after_harvest": "After harvest", "state": "Last import", "started": "Started", "started_by": "By",
    "new": "New", "updated": "Updated", "refused": "Rejected", "total": "Total",
}  # fmt: skip
_COLUMNS = {
    "name": "Name", "match": "Match", "conditions": "Conditions", "revision": "Revision",
    "used_by": "Used by", "description": "Description",
}  # fmt: skip
_RECORD_COLUMNS = {
    "bibliographic_id": "ID",
    "year": "Year",
    "kind": "Type",
    "names": "Names",
    "title": "Title",
}


def run(invocation: Invocation) -> ExitCode:
    """Import the records of the named repositories, one after the other."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database:
        troubled = False
        for repository_id in _chosen(database, arguments.repository, all_=arguments.all):
            if arguments.after_harvest and not is_import_due(database, invocation.settings, repository_id):
                invocation.console.note(f"repository {repository_id}: no import is due")
                continue
            done = _run_one(invocation, database, repository_id, arguments.by or account_name() or "")
            troubled |= done.state == RunStatus.COMPLETED_WITH_ERRORS
            invocation.console.result(asdict(done), _in_words(done))
    return ExitCode.RECORDS_REFUSED if troubled else ExitCode.DONE


def status(invocation: Invocation) -> None:
    """Show imports, newest first."""
    arguments = invocation.arguments
    with invocation.session() as session:
        check_repositories(session, arguments.repository)
        found = imports.list_imports(session, repository_id=arguments.repository, limit=arguments.limit)
    empty = "no imports yet; start with `zatva import run --repository ID`"
    invocation.console.table([asdict(one) for one in found], _STATUS, empty=empty)


def sources(invocation: Invocation) -> None:
    """List the repositories as sources."""
    with invocation.session() as session:
        repositories = list_repositories(session)
        last = imports.last_imports(session, [one.repository_id for one in repositories])
        rows = [
            {
                "repository_name": one.display_name,
                **_shown(session, source_settings(session, one.repository_id)),
                **_last(last.get(one.repository_id)),
            }
            for one in repositories
        ]
    empty = "no repositories yet; add one with `zatva repository add URL`"
    invocation.console.table(rows, _SOURCES, empty=empty)


def source(invocation: Invocation) -> None:
    """Show how a repository is imported, after applying the given changes."""
    arguments = invocation.arguments
    with invocation.transaction() as session:
        found = _changed(session, source_settings(session, arguments.id), arguments)
        save_source(session, found)
        shown = _shown(session, found)
    invocation.console.facts(shown)


def refused(invocation: Invocation) -> None:
    """List the records without a bibliographic row, and the reasons."""
    arguments = invocation.arguments
    kinds = ("filtered",) if arguments.filtered else ("refused", "unreadable")
    with invocation.session() as session:
        check_repositories(session, arguments.repository)
        found = list_omissions(
            session, repository_id=arguments.repository, kinds=kinds, limit=arguments.limit
        )
    columns = {"repository_id": "Repository", "identifier": "Identifier", "kind": "Kind", "reason": "Reason"}
    invocation.console.table([asdict(one) for one in found], columns, empty="no such records")


def _chosen(database: Database, given: Sequence[int], *, all_: bool) -> list[int]:
    """Return the repositories to import; check that each exists before the first import begins."""
    if all_ == bool(given):
        raise UsageError("give either --repository ID or --all")
    with database.session() as session:
        if all_:
            return [one.repository_id for one in list_repositories(session)]
        return [get_repository(session, one).repository_id for one in dict.fromkeys(given)]


def _run_one(invocation: Invocation, database: Database, repository_id: int, by: str) -> ImportFacts:
    with invocation.console.progress(f"import {repository_id}") as advance:

        def on_progress(counts: Counter[str], expected: int | None) -> None:
            note = f"{counts['refused']:,} rejected" if counts["refused"] else ""
            advance(counts["seen"], total=expected, note=note)

        return run_import(
            database,
            invocation.settings,
            repository_id,
            started_by=by,
            anew=invocation.arguments.anew,
            all_records=not invocation.arguments.after_harvest,
            on_progress=on_progress,
        )


def _in_words(done: ImportFacts) -> str:
    named = {name: name for name in imports.COUNTS[1:]} | {"refused": "rejected"}
    counts = ", ".join(f"{getattr(done, name):,} {word}" for name, word in named.items())
    total = "" if done.total is None else f"; {counted(done.total, 'record')} in total"
    return f"repository {done.repository_id}: {done.state}: {counts}{total}"


def _changed(session: Session, found: SourceSettings, arguments: Any) -> SourceSettings:  # noqa: ANN401 argparse's namespace
    if arguments.record_url is not None:
        template = None if arguments.record_url == _NONE else arguments.record_url
        found = replace(found, record_url_template=template)
    if arguments.after_harvest is not None:
        found = replace(found, after_harvest=arguments.after_harvest == "yes")
    if arguments.set is not None:
        chosen = None if arguments.set == _NONE else filtering_sets.get_set(session, arguments.set).set_id
        found = replace(found, set_id=chosen)
    if arguments.format is not None:
        found = replace(found, metadata_prefix=None if arguments.format == _BEST else arguments.format)
    return found


def _shown(session: Session, found: SourceSettings) -> dict[str, Any]:
    chosen = None if found.set_id is None else filtering_sets.set_by_id(session, found.set_id).name
    return {
        "repository_id": found.repository_id,
        "record_url_template": found.record_url_template,
        "after_harvest": found.after_harvest,
        "set": chosen,
        "format": found.metadata_prefix or _BEST,
    }


def _last(found: ImportFacts | None) -> dict[str, Any]:
    """Return when a source was last imported, by whom, and how many records."""
    names = ("import_id", "state", "started", "started_by", *imports.COUNTS, "total", "failure_reason")
    return {name: getattr(found, name) if found is not None else None for name in names}


def list_sets(invocation: Invocation) -> None:
    """List the sets."""
    with invocation.session() as session:
        rows = [_facts(one) for one in filtering_sets.list_sets(session)]
    if not invocation.console.as_json:
        rows = [
            {
                **row,
                "conditions": len(row["conditions"]),
                "used_by": ", ".join(map(str, row["used_by"])) or "none",
            }
            for row in rows
        ]
    empty = "no filtering sets yet; add one with `zatva import set add NAME --where CONDITION`"
    invocation.console.table(rows, _COLUMNS, empty=empty)


def show_set(invocation: Invocation) -> None:
    """Show a set."""
    with invocation.session() as session:
        found = filtering_sets.get_set(session, invocation.arguments.name)
    invocation.console.result(_facts(found), _set_in_words(found))


def add_set(invocation: Invocation) -> None:
    """Create a set."""
    arguments = invocation.arguments
    conditions = [parse_condition(line) for line in arguments.where or ()]
    with invocation.transaction() as session:
        made = filtering_sets.add_set(
            session,
            name=arguments.name,
            match=Match(arguments.match or Match.ALL),
            conditions=conditions,
            description=arguments.description or "",
        )
    invocation.console.result(_facts(made), _set_in_words(made))


def edit_set(invocation: Invocation) -> None:
    """Change a set; --where replaces all its conditions."""
    arguments = invocation.arguments
    with invocation.transaction() as session:
        changed = filtering_sets.edit_set(
            session,
            arguments.name,
            match=Match(arguments.match) if arguments.match else None,
            conditions=None if arguments.where is None else [parse_condition(one) for one in arguments.where],
            description=arguments.description,
        )
    invocation.console.result(_facts(changed), _set_in_words(changed))


def remove_set(invocation: Invocation) -> None:
    """Remove a set."""
    name = invocation.arguments.name
    with invocation.transaction() as session:
        filtering_sets.remove_set(session, name)
    invocation.console.result({"removed": name}, f"filtering set {name!r} removed")


def try_set(invocation: Invocation) -> None:
    """Try a set, or conditions, on stored records."""
    arguments = invocation.arguments
    with invocation.session() as session:
        if (arguments.name is None) == (arguments.where is None):
            raise UsageError("give the name of a set, or conditions with --where")
        if arguments.name is not None:
            rules = filtering_sets.get_set(session, arguments.name).rules
        else:
            match = Match(arguments.match or Match.ALL)
            rules = Conditions(match=match, conditions=[parse_condition(line) for line in arguments.where])
        repositories = arguments.repository or [one.repository_id for one in list_repositories(session)]
        trial = try_conditions(session, invocation.settings, rules, repositories, most=arguments.records)
    facts = {**asdict(trial), "conditions": [str(one) for one in rules.conditions]}
    invocation.console.result(facts, _tried(trial, rules))


def _facts(found: NamedSet) -> dict[str, Any]:
    return {
        "set_id": found.set_id,
        "name": found.name,
        "description": found.description,
        "match": found.rules.match.value,
        "conditions": [str(one) for one in found.rules.conditions],
        "revision": found.revision,
        "used_by": list(found.used_by),
    }


def _set_in_words(found: NamedSet) -> str:
    head = f"{found.name}: {found.rules.match} of these conditions, revision {found.revision}"
    return "\n".join([head, *(f"  {one}" for one in found.rules.conditions)])


def _tried(trial: Trial, rules: Conditions) -> str:
    read = (
        f"{trial.chosen:,} selected, {trial.passed_over:,} excluded, {trial.unreadable:,} could not be read"
    )
    lines = [f"{counted(trial.looked_at, 'record')} tested: {read}"]
    lines += [
        f"  {number:>8,}  {condition}"
        for condition, number in zip(rules.conditions, trial.true_of, strict=True)
    ]
    lines += [f"never matches: {line}" for line in never_true(trial, rules)]
    for words, sample in (("selected", trial.chosen_sample), ("excluded", trial.passed_over_sample)):
        lines += [f"{words}:", *(f"  {one.identifier}  {one.title}" for one in sample)] if sample else []
    return "\n".join(lines)


def search_records(invocation: Invocation) -> None:
    """Search records, or count them."""
    arguments = invocation.arguments
    wanted = Search(
        text=" ".join(arguments.text),
        repositories=arguments.repository,
        languages=arguments.language,
        kinds=arguments.type,
        year_from=arguments.from_,
        year_to=arguments.until,
        identifier=arguments.identifier,
        authority_id=arguments.authority,
    )
    with invocation.session() as session:
        check_repositories(session, *wanted.repositories)
        if arguments.facets:
            found = asdict(count_facets(session, wanted))
            invocation.console.result(found, _facets_in_words(found))
            return
        order = SearchOrder(arguments.order) if arguments.order else None
        page = search(session, wanted, order=order, after=arguments.after, limit=arguments.limit)
    rows = [_row(hit) for hit in page.hits]
    invocation.console.table(rows, _RECORD_COLUMNS, empty="no records found")
    if page.next is not None:
        invocation.console.note(f"next page: --after {page.next}")


def show_record(invocation: Invocation) -> None:
    """Show a record."""
    with invocation.session() as session:
        found = get_record(session, invocation.arguments.id)
        lines = record_lines(session, invocation.settings, found) if invocation.arguments.lines else []
    if invocation.arguments.lines:
        invocation.console.result(
            {"bibliographic_id": found.bibliographic_id, "lines": lines}, "\n".join(lines)
        )
    else:
        invocation.console.result(asdict(found), _record_in_words(found))


def _row(hit: Hit) -> dict[str, Any]:
    return {
        **asdict(hit),
        "year": hit.date_text or (None if hit.year_from is None else str(hit.year_from)),
        "names": "; ".join(hit.contributors),
    }


def _facets_in_words(found: dict[str, Any]) -> str:
    lines = [f"{found['total']:,} records" if found["whole"] else f"more than {found['total']:,} records"]
    for name in ("sources", "languages", "decades", "kinds"):
        counted = ", ".join(f"{one['value']} {one['count']:,}" for one in found[name])
        lines.append(f"{name}: {counted or 'none'}")
    return "\n".join(lines)


def _record_in_words(found: FoundRecord) -> str:
    lines = [
        f"{name}: {_word(value)}"
        for name, value in asdict(found).items()
        if value not in ("", None, [], ()) and not isinstance(value, list | tuple)
    ]
    lines += [
        f"{name}: {_word(part)}"
        for name, value in asdict(found).items()
        if isinstance(value, list | tuple)
        for part in value
    ]
    return "\n".join(lines)


def _word(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(
            f"{name} {_word(part)}" for name, part in value.items() if part not in ("", [], (), False)
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
