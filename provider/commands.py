"""What `zatva provider index` and `status` do."""

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from oai.cli import Invocation
from oai.console import Console
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError
from provider.holdings import access, collections
from provider.holdings.sets import collection_set_spec
from provider.holdings.status import archive_status, run_status, run_statuses
from provider.indexing.first_load import begin_first_load, finish_first_load, refuse_unserved
from provider.indexing.indexer import FileReport, IndexOptions, find_archives
from provider.indexing.parallel import index_files, size_of

_FILE_COLUMNS = {
    "file": "File",
    "new": "New",
    "unchanged": "Unchanged",
    "moved": "Moved",
    "duplicates": "Duplicates",
    "completed": "Completed",
    "ignored": "Ignored",
    "problems": "Problems",
}
_RUN_COLUMNS = {
    "run_id": "Run",
    "queued": "Queued",
    "waiting": "Waiting",
    "lost": "Lost",
    "running": "Running",
    "done": "Done",
    "failed": "Failed",
    "new": "New",
    "problems": "Problems",
    "bytes_done": "Bytes done",
    "bytes_total": "Of",
}
_RUN_FILE_COLUMNS = {
    "path": "File",
    "state": "State",
    "host": "Host",
    "started": "Started",
    "ended": "Ended",
    "new": "New",
    "unchanged": "Unchanged",
    "moved": "Moved",
    "duplicates": "Duplicates",
    "problems": "Problems",
    "reason": "Because",
}
_COUNTED = ("new", "unchanged", "moved", "duplicates", "completed")
_ALL_OF_THEM = ("new", "unchanged", "moved", "duplicates")
_MEGABYTE = 1_000_000


def index(invocation: Invocation) -> ExitCode:
    """`provider index`: index archive files and report on each."""
    arguments, settings, console = invocation.arguments, invocation.settings, invocation.console
    files = find_archives(arguments.paths)
    with open_database(settings) as database:
        options = index_options(database, arguments, settings.provider.publish_margin)
        if options.first_load:
            begin_first_load(database)
        else:
            with database.session() as session:
                refuse_unserved(session)
        reports = _index(invocation, database, files, options)
        if options.first_load:
            finish_first_load(database, lambda name: console.note(f"building the index {name}"))
        with database.session() as session:
            access.refresh(session, margin=options.margin)
    _show(console, sorted(reports, key=lambda report: report.path))
    refused = any(report.merged.problems for report in reports)
    return ExitCode.RECORDS_REFUSED if refused else ExitCode.DONE


def index_options(database: Database, arguments: Namespace, margin: float) -> IndexOptions:
    """What the command line asks for; the collection is made where it is not there.

    Raises UsageError where an option is impossible.
    """
    spec = collection_set_spec(arguments.collection) if arguments.collection else None
    folder: Path | None = arguments.archive_dir
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--archive-dir {folder}: no such folder")
    with database.session() as session:
        return IndexOptions(
            margin=margin,
            collections=_family(session, spec),
            again=arguments.again,
            first_load=arguments.first_load,
            archive_dir=None if folder is None else folder.absolute(),
        )


def _index(
    invocation: Invocation, database: Database, files: Sequence[Path], options: IndexOptions
) -> list[FileReport]:
    reports: list[FileReport] = []
    documents = 0
    total = sum(map(size_of, files)) // _MEGABYTE
    with invocation.console.progress("indexing, MB") as advance:

        def tell(read: int) -> None:
            note = f"{len(reports):,} of {len(files):,} files, {documents:,} documents"
            advance(min(read // _MEGABYTE, total), total=total, note=note)

        jobs = invocation.arguments.jobs or os.cpu_count() or 1
        for report in index_files(database, invocation.settings, files, options, jobs=jobs, tell=tell):
            reports.append(report)
            documents += sum(_row(report)[name] for name in _ALL_OF_THEM)
    return reports


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
        "completed": merged.completed,
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
    console.table(shown, _FILE_COLUMNS, empty="no ARC, WARC or CDX files found there")
    if problems:
        console.result({}, "")
        console.table(problems, {"file": "File", "offset": "Offset", "reason": "Problem"}, empty="")
    words = ", ".join(f"{total[name]:,} {name}" for name in _COUNTED)
    console.result({}, f"\n{total['files']:,} files: {words}; {total['problems']:,} problems")


def _ignored(kinds: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number:,}" for kind, number in sorted(kinds.items())) or "0"


def status(invocation: Invocation) -> ExitCode:
    """`provider status`: figures of the archive, or of the runs that workers index."""
    if invocation.arguments.run is not None:
        return _show_run(invocation, invocation.arguments.run)
    with _session(invocation) as session:
        found = asdict(archive_status(session))
        runs = [asdict(run) for run in run_statuses(session)]
    if invocation.console.as_json:
        invocation.console.result({**found, "runs": runs}, "")
        return ExitCode.DONE
    rows = [{"what": name.replace("_", " "), "value": _plain(value)} for name, value in found.items()]
    invocation.console.table(rows, {"what": "Archive", "value": ""}, empty="")
    if runs:
        invocation.console.result({}, "")
        invocation.console.table(runs, _RUN_COLUMNS, empty="")
    lost = sum(run["lost"] for run in runs)
    if lost:
        invocation.console.note(
            f"lost files: {lost:,}; their tasks are no longer in the queue; queue them again "
            "(`zatva provider index --queue PATH`)"
        )
    return ExitCode.DONE


def _show_run(invocation: Invocation, run_id: int) -> ExitCode:
    with _session(invocation) as session:
        files = [asdict(file) for file in run_status(session, run_id)]
    invocation.console.table(files, _RUN_FILE_COLUMNS, empty="no files")
    failed = any(file["state"] == "failed" or file["problems"] for file in files)
    return ExitCode.RECORDS_REFUSED if failed else ExitCode.DONE


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "none"
    return "never" if value is None else f"{value:,}"


@contextmanager
def _session(invocation: Invocation) -> Iterator[Session]:
    with open_database(invocation.settings) as database, database.session() as session:
        yield session
