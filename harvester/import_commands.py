"""What `zatva import run`, `status`, `list`, `source` and `refused` do."""

import getpass
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy.orm import Session

from harvester.bibliographic import filtering_sets, imports
from harvester.bibliographic.importing import run_import
from harvester.bibliographic.imports import ImportFacts
from harvester.bibliographic.omissions import list_omissions
from harvester.bibliographic.sources import SourceSettings, save_source, source_settings
from harvester.repositories import get_repository, list_repositories
from oai.cli import Invocation
from oai.console import counted
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError

_NONE = "none"
_BEST = "best"
_STATUS = {
    "import_id": "Import", "repository_id": "Repository", "state": "State", "started": "Started",
    "started_by": "By", "seen": "Seen", "expected": "Of", "new": "New", "updated": "Updated",
    "unchanged": "Unchanged", "deleted": "Deleted", "filtered": "Filtered", "refused": "Refused",
    "total": "Total",
}  # fmt: skip
_SOURCES = {
    "repository_id": "ID", "repository_name": "Name", "format": "Format", "set": "Set",
    "after_harvest": "After harvest", "state": "Last import", "started": "Started", "started_by": "By",
    "new": "New", "updated": "Updated", "total": "Total",
}  # fmt: skip


def run(invocation: Invocation) -> ExitCode:
    """Import the records of the repositories that are named, one after the other."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database:
        refused = 0
        for repository_id in _chosen(database, arguments.repository, all_=arguments.all):
            done = _run_one(invocation, database, repository_id, arguments.by or getpass.getuser())
            refused += done.refused
            invocation.console.result(asdict(done), _in_words(done))
    return ExitCode.RECORDS_REFUSED if refused else ExitCode.DONE


def status(invocation: Invocation) -> ExitCode:
    """Show imports, the newest first."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        found = imports.list_imports(session, repository_id=arguments.repository, limit=arguments.limit)
    empty = "no imports yet; start with `zatva import run --repository ID`"
    invocation.console.table([asdict(one) for one in found], _STATUS, empty=empty)
    return ExitCode.DONE


def sources(invocation: Invocation) -> ExitCode:
    """List the repositories as sources."""
    with open_database(invocation.settings) as database, database.session() as session:
        repositories = list_repositories(session)
        last = imports.last_imports(session, [one.repository_id for one in repositories])
        rows = [
            {
                "repository_name": one.repository_name or one.base_url,
                **_shown(session, source_settings(session, one.repository_id)),
                **_last(last.get(one.repository_id)),
            }
            for one in repositories
        ]
    empty = "no repositories yet; add one with `zatva repository add URL`"
    invocation.console.table(rows, _SOURCES, empty=empty)
    return ExitCode.DONE


def source(invocation: Invocation) -> ExitCode:
    """Show how a repository is imported, after changing what is given."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        found = _changed(session, source_settings(session, arguments.id), arguments)
        save_source(session, found)
        session.commit()
        shown = _shown(session, found)
    invocation.console.facts(shown)
    return ExitCode.DONE


def refused(invocation: Invocation) -> ExitCode:
    """List the records that have no bibliographic row, and why."""
    arguments = invocation.arguments
    kinds = ("filtered",) if arguments.filtered else ("refused", "unreadable")
    with open_database(invocation.settings) as database, database.session() as session:
        found = list_omissions(
            session, repository_id=arguments.repository, kinds=kinds, limit=arguments.limit
        )
    columns = {"repository_id": "Repository", "identifier": "Identifier", "kind": "Kind", "reason": "Reason"}
    invocation.console.table([asdict(one) for one in found], columns, empty="no such records")
    return ExitCode.DONE


def _chosen(database: Database, given: Sequence[int], *, all_: bool) -> list[int]:
    """The repositories to import; each must be there before the first import begins."""
    if all_ == bool(given):
        raise UsageError("no repository given; give --repository ID, or --all")
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
            on_progress=on_progress,
        )


def _in_words(done: ImportFacts) -> str:
    counts = ", ".join(f"{getattr(done, name):,} {name}" for name in imports.COUNTS[1:])
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
    """Of a source's last import: when, who, how many (thesis, 2.3.1)."""
    names = ("import_id", "state", "started", "started_by", *imports.COUNTS, "total", "failure_reason")
    return {name: getattr(found, name) if found is not None else None for name in names}
