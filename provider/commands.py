"""What the commands of `zatva provider` do, but for `serve`."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.console import Console
from oai.database import open_database
from oai.datestamps import parse_datestamp
from oai.errors import ExitCode, UsageError
from provider import collections, hiding
from provider.identifiers import parse_oai_identifier
from provider.indexer import FileReport, IndexOptions, find_archives
from provider.parallel import index_files
from provider.selection import Selection
from provider.sets import collection_set_spec
from provider.status import archive_status

_FILE_COLUMNS = {
    "file": "File",
    "new": "New",
    "unchanged": "Unchanged",
    "moved": "Moved",
    "duplicates": "Duplicates",
    "ignored": "Ignored",
    "problems": "Problems",
}
_COUNTED = ("new", "unchanged", "moved", "duplicates")


def index(invocation: Invocation) -> ExitCode:
    """`provider index`: index archive files and report on each."""
    arguments, settings, console = invocation.arguments, invocation.settings, invocation.console
    spec = collection_set_spec(arguments.collection) if arguments.collection else None
    files = find_archives(arguments.paths)
    with open_database(settings) as database:
        with database.session() as session:
            family = _family(session, spec)
        options = IndexOptions(
            margin=settings.provider.publish_margin, collections=family, again=arguments.again
        )
        jobs = arguments.jobs or os.cpu_count() or 1
        reports: list[FileReport] = []
        documents = 0
        with console.progress("indexing") as advance:
            for report in index_files(database, settings, files, options, jobs=jobs):
                reports.append(report)
                documents += sum(_row(report)[name] for name in _COUNTED)
                advance(len(reports), total=len(files), note=f"{documents:,} documents")
    _show(console, sorted(reports, key=lambda report: report.path))
    refused = any(report.merged.problems for report in reports)
    return ExitCode.RECORDS_REFUSED if refused else ExitCode.DONE


def _family(session: Session, spec: str | None) -> tuple[int, ...]:
    if spec is None:
        return ()
    collections.add_collection(session, spec)
    session.commit()
    return collections.lineage(session, spec)


def _row(report: FileReport) -> dict[str, Any]:
    """The report as JSON shows it."""
    merged = report.merged
    return {
        "file": os.fsencode(report.path).decode(errors="replace"),
        "skipped": report.skipped,
        "new": merged.new,
        "unchanged": merged.unchanged,
        "moved": merged.moved,
        "duplicates": merged.duplicates,
        "ignored": report.ignored,
        "problems": [asdict(problem) for problem in merged.problems],
    }


def _show(console: Console, reports: list[FileReport]) -> None:
    rows = [_row(report) for report in reports]
    problems = [{"file": row["file"], **problem} for row in rows for problem in row["problems"]]
    total = {name: sum(row[name] for row in rows) for name in _COUNTED}
    total |= {"files": len(rows), "problems": len(problems)}
    if console.as_json:
        console.table(rows, _FILE_COLUMNS, empty="")
        console.result({"total": total}, "")
        return
    shown = [{**row, "ignored": _ignored(row["ignored"]), "problems": len(row["problems"])} for row in rows]
    console.table(shown, _FILE_COLUMNS, empty="no ARC or WARC files there")
    if problems:
        console.result({}, "")
        console.table(problems, {"file": "File", "offset": "Offset", "reason": "Problem"}, empty="")
    words = ", ".join(f"{total[name]:,} {name}" for name in _COUNTED)
    console.result({}, f"\n{total['files']:,} files: {words}; {total['problems']:,} problems")


def _ignored(kinds: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number:,}" for kind, number in sorted(kinds.items())) or "0"


def status(invocation: Invocation) -> ExitCode:
    """`provider status`: figures of the archive."""
    with _session(invocation) as session:
        found = asdict(archive_status(session))
    rows = [{"what": name.replace("_", " "), "value": value} for name, value in found.items()]
    if invocation.console.as_json:
        invocation.console.result(found, "")
    else:
        for row in rows:
            row["value"] = _plain(row["value"])
        invocation.console.table(rows, {"what": "Archive", "value": ""}, empty="")
    return ExitCode.DONE


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    return "never" if value is None else f"{value:,}"


def collection_add(invocation: Invocation) -> ExitCode:
    """`provider collection add`: make or rename a collection."""
    arguments = invocation.arguments
    spec = collection_set_spec(arguments.spec)
    with _session(invocation) as session:
        made = collections.add_collection(
            session, spec, name=arguments.name, description=arguments.description
        )
        session.commit()
        invocation.console.result(
            {"set_spec": made.set_spec, "name": made.name}, f"{made.set_spec}: {made.name}"
        )
    return ExitCode.DONE


def collection_list(invocation: Invocation) -> ExitCode:
    """`provider collection list`: the tree with its numbers of documents."""
    columns = {"set_spec": "Set", "name": "Name", "documents": "Documents", "access": "Access"}
    with _session(invocation) as session:
        rows = [
            {**{name: getattr(one, name) for name in columns}, "description": one.description}
            for one in collections.list_collections(session)
        ]
    invocation.console.table(rows, columns, empty="no collections; `zatva provider collection add` makes one")
    return ExitCode.DONE


def collection_assign(invocation: Invocation) -> ExitCode:
    """`provider collection assign`: put documents in."""
    return _change_collection(invocation, collections.assign, "put into")


def collection_remove(invocation: Invocation) -> ExitCode:
    """`provider collection remove`: take documents out."""
    return _change_collection(invocation, collections.remove, "taken out of")


def _change_collection(invocation: Invocation, change: Callable[..., int], done: str) -> ExitCode:
    spec = collection_set_spec(invocation.arguments.spec)
    selection = _selection(invocation.arguments)
    margin = invocation.settings.provider.publish_margin
    with _session(invocation) as session:
        number = change(session, spec, selection, margin=margin)
    invocation.console.result({"set_spec": spec, "documents": number}, f"{number:,} documents {done} {spec}")
    return ExitCode.DONE


def _selection(arguments: Namespace) -> Selection:
    return Selection(
        arc=arguments.arc,
        url_prefix=arguments.url_prefix,
        domain=arguments.domain,
        since=_moment("--from", arguments.since),
        until=_moment("--until", arguments.until, last=True),
    )


def _moment(option: str, value: str | None, *, last: bool = False) -> datetime | None:
    """The first moment that a datestamp covers, or the last one to the microsecond."""
    if value is None:
        return None
    try:
        datestamp = parse_datestamp(value)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    return datestamp.last_second + timedelta(microseconds=999_999) if last else datestamp.moment


def hide(invocation: Invocation) -> ExitCode:
    """`provider hide`: show documents as deleted."""
    return _mark(invocation, hiding.hide, "hidden")


def unhide(invocation: Invocation) -> ExitCode:
    """`provider unhide`: show them again."""
    return _mark(invocation, hiding.unhide, "shown again")


def _mark(invocation: Invocation, mark: Callable[..., int], done: str) -> ExitCode:
    arguments, settings = invocation.arguments, invocation.settings.provider
    with _session(invocation) as session:
        selection = _named(arguments.document, settings.namespace, prefix=arguments.url_prefix)
        number = mark(session, selection, margin=settings.publish_margin)
    invocation.console.result(
        {"document": arguments.document, "documents": number}, f"{number:,} documents {done}"
    )
    return ExitCode.DONE


def _named(document: str, namespace: str, *, prefix: bool) -> Selection:
    if prefix:
        return Selection(url_prefix=document)
    if not document.startswith("oai:"):
        return Selection(url=document)
    key = parse_oai_identifier(namespace, document)
    if key is None:
        raise UsageError(
            f"{document!r} is no identifier of this repository; they are written oai:{namespace}:<32 digits>"
        )
    return Selection(key=key)


@contextmanager
def _session(invocation: Invocation) -> Iterator[Session]:
    with open_database(invocation.settings) as database, database.session() as session:
        yield session
