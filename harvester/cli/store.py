"""Handlers of `zatva store`, `job changes`, `job release` and `job errors`."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.bibliographic.importer import STARTER
from harvester.harvest import approval
from harvester.harvest.approval import HoldKind
from harvester.harvest.checkpoint import is_held, only_harvest
from harvester.harvest.models import Hold
from harvester.harvest.process import import_changes
from harvester.harvest.quarantine import get_quarantined, quarantined
from harvester.harvest.result import get_history
from harvester.models import Repository
from harvester.repositories import check_repositories, get_repository
from harvester.store.audit import Audit, Auditor, StoreFinding
from harvester.store.changes import ChangeLine, read_changes
from harvester.store.export import Form, export
from harvester.store.models import RecordChange, StoreAudit
from harvester.store.rebuild import Rebuilder, Rebuilt, files_below
from harvester.store.records import RunKey
from oai.child import end_with_input
from oai.cli import Invocation, account_name
from oai.console import Console, checked_output, counted, export_stream
from oai.database import Database, open_database
from oai.datestamps import format_datestamp
from oai.disk import open_floor
from oai.errors import ExitCode, UsageError
from oai.object_addresses import S3, bucket_and_key, check_address, missing_extra
from oai.output_files import complete_file

_COLUMNS = {
    "quarantine_id": "No.",
    "repository_id": "Repository",
    "identifier": "Identifier",
    "reason": "Reason",
    "byte_offset": "Byte",
    "raw_size": "Bytes",
    "last_seen": "Last seen",
}
_SHOWN = (
    *_COLUMNS, "history_id", "job_id", "metadata_prefix", "set_spec", "url", "first_seen", "resolved",
)  # fmt: skip


def verify(invocation: Invocation) -> ExitCode:
    """Compare files with rows, of one repository or of all; print each problem when it is found."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database:
        with database.session() as session:
            chosen = (
                repositories.list_repositories(session)
                if arguments.repository is None
                else [repositories.get_repository(session, arguments.repository)]
            )
            folders = {
                one.repository_id: repositories.base_folder(one, invocation.settings) for one in chosen
            }
            others = _others(session, invocation)
        audits = []
        for repository_id, folder in folders.items():
            with only_harvest(database, repository_id) if arguments.repair else nullcontext():
                audits.append(_audited(invocation, database, repository_id, folder, others - {str(folder)}))
    return ExitCode.DONE if all(audit.clean for audit in audits) else ExitCode.RECORDS_REFUSED


def audit_queued(invocation: Invocation) -> ExitCode:
    """Fill a row of `oai_store_audit` that a worker has claimed: `python -m harvester.store ID`."""
    end_with_input()
    audit_id = invocation.arguments.audit_id
    with open_database(invocation.settings) as database:
        with database.session() as session:
            queued = session.get(StoreAudit, audit_id)
            if queued is None:
                raise UsageError(f"no store audit {audit_id}; its repository may have been removed")
            repository = get_repository(session, queued.repository_id)
            folder = repositories.base_folder(repository, invocation.settings)
            others = _others(session, invocation) - {str(folder)}
        audit = _audited(invocation, database, queued.repository_id, folder, others, audit_id=audit_id)
    return ExitCode.DONE if audit.clean else ExitCode.RECORDS_REFUSED


def rebuild(invocation: Invocation) -> ExitCode:
    """Rebuild the rows of a repository from its files."""
    with open_database(invocation.settings) as database:
        with database.session() as session:
            repository = _named(session, invocation)
            session.commit()
            repository_id = repository.repository_id
            folder = repositories.base_folder(repository, invocation.settings)
            prefix = repository.plain_prefix or invocation.arguments.format
            others = _others(session, invocation) - {str(folder)}
        with only_harvest(database, repository_id), invocation.console.progress("rebuild") as advance:
            rebuilt = Rebuilder(
                database=database,
                repository_id=repository_id,
                folder=folder,
                plain_prefix=prefix,
                skip=others,
                on_refused=lambda path, reason: invocation.console.note(f"skipped {path}: {reason}"),
                on_progress=advance,
            ).run()
    invocation.console.result({"repository_id": repository_id, **asdict(rebuilt)}, _rebuilt_words(rebuilt))
    return ExitCode.RECORDS_REFUSED if rebuilt.refused or rebuilt.dropped else ExitCode.DONE


def export_records(invocation: Invocation) -> ExitCode:
    """Write a repository's records, or those that a run changed, to one file or to standard output."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (arguments.run is None):
        raise UsageError(
            "give either the number of a repository, or --run with the number of a run from "
            "`zatva job history`"
        )
    with invocation.session() as session:
        run = None
        repository_id = arguments.repository
        if arguments.run is not None:
            repository_id, run = run_of(session, arguments.run)
        repository = repositories.get_repository(session, repository_id)
        write = partial(
            export,
            session,
            form=Form(arguments.form),
            repository_id=repository_id,
            folder=repositories.base_folder(repository, invocation.settings),
            run=run,
            on_missing=lambda name: invocation.console.note(f"skipped {name}: missing or altered"),
        )
        with open_output(arguments.out) as out:
            exported = write(out, on_written=disk_watch(invocation))
    had = f"{counted(exported.records, 'record')}, {counted(exported.files, 'file')}"
    print_written(invocation, asdict(exported), f"{had}; {exported.missing:,} missing or altered")
    return ExitCode.RECORDS_REFUSED if exported.missing else ExitCode.DONE


def disk_watch(invocation: Invocation) -> Callable[[int], None]:
    """Return what counts the written bytes; standard output leads to the disk of somebody else, if any."""
    out: str | None = invocation.arguments.out
    if out is None or out.startswith(S3):
        return lambda _bytes: None
    return open_floor(invocation.settings, Path(out).absolute().parent).wrote


def run_of(session: Session, history_id: int) -> tuple[int, RunKey]:
    """Return the repository and the run of a row in `oai_history`.

    Raises UsageError if there is no such run, or its changes are no longer kept.
    """
    row = get_history(session, history_id)
    made = row.new_count + row.updated_count + row.deleted_count
    if row.harvest_id is None or row.run_started is None:
        if made:
            raise UsageError(f"the changes of run {history_id} are unknown: it was made by an older version")
        return row.repository_id, RunKey(harvest_id=0, run_started=row.harvest_start_time)
    run = RunKey(harvest_id=row.harvest_id, run_started=row.run_started)
    kept = select(RecordChange.change_id).filter_by(**run.parameters)
    if made and session.scalars(kept.limit(1)).first() is None:
        raise UsageError(
            f"the changes of run {history_id} are no longer kept (see setting "
            "harvester.keep_changes); to export all records, use `zatva store export REPOSITORY`"
        )
    return row.repository_id, run


def _others(session: Session, invocation: Invocation) -> set[str]:
    """Return the folders of all repositories, because one may be below another's."""
    return {
        os.fspath(repositories.base_folder(one, invocation.settings))
        for one in repositories.list_repositories(session)
    }


def _audited(
    invocation: Invocation,
    database: Database,
    repository_id: int,
    folder: Path,
    others: set[str],
    *,
    audit_id: int | None = None,
) -> Audit:
    console = invocation.console
    with console.progress(f"verify {repository_id}") as advance:
        auditor = Auditor(
            database=database,
            repository_id=repository_id,
            folder=folder,
            audit_id=audit_id,
            skip=others,
            repair=invocation.arguments.repair,
            busy=lambda: not invocation.arguments.repair and is_held(database, repository_id),
            on_finding=partial(_print_finding, console, repository_id),
            on_progress=advance,
        )
        audit = auditor.run()
    found = f"{audit.missing:,} missing, {audit.altered:,} altered, {audit.stray:,} stray"
    unreadable = f", {audit.unreadable:,} unreadable" if audit.unreadable else ""
    repaired = f" ({audit.repaired:,} of them removed)" if audit.repaired else ""
    words = f"repository {repository_id}: {counted(audit.files, 'file')}; {found}{repaired}{unreadable}"
    facts = {name: value for name, value in asdict(audit).items() if name != "findings"}
    console.result({**facts, "clean": audit.clean}, words)
    return audit


def _print_finding(console: Console, repository_id: int, finding: StoreFinding) -> None:
    facts = {"repository_id": repository_id, **asdict(finding), "kind": finding.kind.value}
    what = "unfinished" if finding.unfinished else finding.kind.value
    more = f" ({finding.reason})" if finding.reason else ", removed" if finding.removed else ""
    console.result(facts, f"{what}: {finding.path}{more}")


def _named(session: Session, invocation: Invocation) -> Repository:
    """Return the repository with the given number or folder; add it if only its files are left."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (arguments.dir is None):
        raise UsageError("no repository given; give its number, or --dir with its folder")
    if arguments.repository is not None:
        repository = repositories.get_repository(session, arguments.repository)
        _check_address(repository, arguments.url)
        return repository
    folder = os.path.abspath(arguments.dir)  # noqa: PTH100 Path.absolute keeps `..`
    known: Sequence[Repository] = [
        one
        for one in repositories.list_repositories(session)
        if os.fspath(repositories.base_folder(one, invocation.settings)) == folder
    ]
    if known:
        _check_address(known[0], arguments.url)
        return known[0]
    if arguments.url is None:
        raise UsageError(
            f"no repository has the folder {folder}; to create one, give its base URL with --url"
        )
    # A rejected command adds no repository.
    files_below(Path(folder), skip=_others(session, invocation))
    repository = repositories.add_repository(session, base_url=arguments.url, base_dir=folder)
    repository.plain_prefix = arguments.format
    return repository


def _check_address(repository: Repository, url: str | None) -> None:
    if url not in {None, repository.base_url, repository.display_url}:
        raise UsageError(
            f"repository {repository.repository_id} in {repository.base_dir} has the base URL "
            f"{repository.display_url}; check which repository is meant, or leave out --url"
        )


def _rebuilt_words(rebuilt: Rebuilt) -> str:
    words = (
        f"{counted(rebuilt.files, 'record file')}; rows: {rebuilt.kept:,} kept, {rebuilt.added:,} added, "
        f"{rebuilt.changed:,} changed, {rebuilt.dropped:,} dropped; "
        f"{counted(rebuilt.refused, 'file')} skipped"
    )
    if rebuilt.doubted:
        words += f"\n{counted(rebuilt.doubted, 'row')} lost the SHA-256: the file is no longer a record."
    if rebuilt.needs_full_harvest:
        words += "\nThe next harvest requests all records."
    return words


def _object(url: str) -> AbstractContextManager[BinaryIO]:
    check_address(url)
    bucket, key = bucket_and_key(url)
    if not key or key.endswith("/"):
        raise UsageError(f"--out {url}: the URL names no object; write it as s3://BUCKET/KEY")
    try:
        from oai.s3 import writing  # noqa: PLC0415 needs the extra, and starts threads
    except ModuleNotFoundError:
        raise missing_extra(url) from None
    return writing(bucket, key)


@contextmanager
def open_output(given: str | None) -> Iterator[BinaryIO]:
    """Provide standard output, a file or object that exists once it is complete, or a pipe or device."""
    if given is None:
        stream = export_stream()
        yield stream
        stream.flush()
        return
    if given.startswith(S3):
        with _object(given) as out:
            yield out
        return
    name = checked_output(Path(given))
    if name.exists() and not name.is_file():
        # A pipe or a device, such as /dev/null, is not replaced.
        with name.open("wb") as file:
            yield file
        return
    with complete_file(name) as file:
        yield file


def print_written(invocation: Invocation, facts: Mapping[str, Any], words: str) -> None:
    """Print what `--out` now contains; as a note if that is standard output."""
    out: str | None = invocation.arguments.out
    if out is None:
        invocation.console.note(words)
    else:
        invocation.console.result({**facts, "out": out}, words)


def changes(invocation: Invocation) -> None:
    """Print the changes after a line of the change feed, in the order of the feed."""
    arguments = invocation.arguments
    repository_id: int | None = arguments.repository
    line: ChangeLine | None = None
    with invocation.session() as session:
        harvested, run = (None, None) if arguments.run is None else run_of(session, arguments.run)
        if run is not None and repository_id not in (None, harvested):
            raise UsageError(f"run {arguments.run} is of repository {harvested}, not {repository_id}")
        for line in read_changes(session, since=arguments.since, repository_id=repository_id, run=run):
            words = (
                f"{line.change_id}  {line.changed:%Y-%m-%d %H:%M:%SZ}  {line.change:<7}  {line.identifier}"
            )
            invocation.console.result(asdict(line), words)
        if line is None:  # the changes of a removed repository are kept for some days
            check_repositories(session, repository_id)


def release(invocation: Invocation) -> None:
    """Approve a run that was held because it would delete or change too many records."""
    history_id: int = invocation.arguments.history_id
    with open_database(invocation.settings) as database:
        with database.session() as session:
            hold, repository_id = approval.get_hold(session, history_id)
            if invocation.arguments.show:
                later = approval.later_complete(session, hold)
                facts = {
                    **_facts(hold, 0),
                    "sample": hold.sample,
                    "run_started": format_datestamp(hold.run_started),
                    "later_complete": later,
                }
                invocation.console.result(facts, _shown(hold, later))
                return
            session.rollback()
        with only_harvest(database, repository_id):
            hold, deleted, restarts = approval.release(database, invocation.settings, history_id)
        words = _words(hold, deleted)
        if restarts:
            words += "; the next harvest requests all records, and stores again what has come back"
        invocation.console.result(_facts(hold, deleted), words)
        if deleted:
            import_changes(invocation, database, repository_id, started_by=account_name() or STARTER)


def _facts(hold: Hold, deleted: int) -> dict[str, Any]:
    return {
        "history_id": hold.history_id,
        "kind": hold.kind,
        "state": hold.state,
        "would_delete": hold.would_delete,
        "would_update": hold.would_update,
        "deleted": deleted,
    }


def _shown(hold: Hold, later: int) -> str:
    """Return what a held run would do."""
    deletes = hold.kind == HoldKind.DELETIONS
    count = hold.would_delete if deletes else hold.would_update
    what = "would delete" if deletes else "would change at least"
    share = f"{100 * count / max(hold.active, 1):.0f} %; {hold.allowed:g} % are allowed without approval"
    return "\n".join(
        [
            f"run {hold.history_id} {what} {count:,} of {hold.active:,} records ({share}).",
            f"It began {format_datestamp(hold.run_started)}; complete runs of this harvest since: {later:,}.",
            *(f"  {identifier}" for identifier in hold.sample),
            *([f"  … and {count - len(hold.sample):,} more"] if count > len(hold.sample) else []),
            f"To approve it, run `zatva job release {hold.history_id}`.",
        ]
    )


def _words(hold: Hold, deleted: int) -> str:
    if hold.kind == HoldKind.UPDATES:
        return f"run {hold.history_id} is approved: the next run of this harvest may change the records"
    outlived = hold.would_delete - deleted
    also = f"; {outlived:,} reappeared in the meantime and stay" if outlived else ""
    return f"run {hold.history_id} is approved: {counted(deleted, 'record')} deleted{also}"


def list_errors(invocation: Invocation) -> None:
    """Run `zatva job errors`."""
    arguments = invocation.arguments
    with invocation.session() as session:
        if arguments.raw is not None:
            sys.stdout.buffer.write(get_quarantined(session, arguments.raw).raw)
            sys.stdout.buffer.flush()
            return
        if arguments.history_id is not None:
            get_history(session, arguments.history_id)
        check_repositories(session, arguments.repository)
        found = quarantined(
            session,
            history_id=arguments.history_id,
            repository_id=arguments.repository,
            all_=arguments.all,
        )
        rows = [{name: getattr(one, name) for name in _SHOWN} for one in found]
    none = "no rejected records"
    if arguments.history_id is not None:
        none += " that this run was the last to meet; later runs list those that they met again"
    invocation.console.table(rows, _COLUMNS, empty=none)
