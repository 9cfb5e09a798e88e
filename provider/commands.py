"""Handlers of `zatva provider index`, `status`, `reindex-keys` and `verify`."""

import os
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from oai.child import collect_garbage_seldom
from oai.cli import Invocation
from oai.console import Console, counted, one_line
from oai.database import Database, open_database
from oai.disk import open_floor
from oai.errors import ExitCode, UsageError
from oai.failures import Failure, explained, failure_columns
from oai.sections import ProviderSettings
from provider.holdings import access, collections
from provider.holdings.arcs import shared_names
from provider.holdings.fixity import Checker, Fault, FileCheck, FixityChoice, FixityFinding
from provider.holdings.identifiers import oai_identifier
from provider.holdings.index_errors import find_run_files
from provider.holdings.loads import ADD_UP_EVERY, add_up, begin_load, end_load
from provider.holdings.sets import collection_set_spec
from provider.holdings.status import archive_status, run_statuses
from provider.holdings.url_key_fill import fill_keys
from provider.holdings.url_key_state import FILL_KEYS, settle_rule
from provider.holdings.urlkeys import WwwRule
from provider.indexing.archive_search import find_archives, search
from provider.indexing.first_load import begin_first_load, finish_first_load, refuse_unserved
from provider.indexing.indexer import FileReport, IndexOptions, refused
from provider.indexing.parallel import index_files, size_of
from provider.reading.captures import content_options
from provider.storage.places import Container, Place, absolute, stored_name, stored_path
from provider.titles.capture_counts import forget_figures
from provider.titles.publication import count_new

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
_MEGABYTE = 1_000_000
_SHOWN = 20
"""Maximum number of findings per file in text output; JSON output contains all."""


def index(invocation: Invocation) -> ExitCode:
    """`provider index`: index archive files and report on each."""
    arguments, settings, console = invocation.arguments, invocation.settings, invocation.console
    found = search(arguments.paths)
    with open_database(settings) as database:
        with database.session() as session:
            settle_rule(session, WwwRule(settings.provider.www_rule))
        options = index_options(database, arguments, settings.provider)
        if options.first_load:
            begin_first_load(database)
        else:
            with database.session() as session:
                refuse_unserved(session)
        options = replace(options, load_id=_begun_load(database, options))
        reports = _index(invocation, database, found.archives, options)
        if options.first_load:
            finish_first_load(database, lambda name: console.note(f"building the index {name}"))
        with database.session() as session:
            end_load(session, options.load_id)
            access.refresh(session, margin=options.margin)
            count_new(session, margin=options.margin)
            session.commit()
    reports += [refused(path, problem) for path, problem in found.refused.items()]
    _show(console, sorted(reports, key=lambda report: stored_path(report.path)))
    if any(report.merged.new for report in reports):
        margin = settings.provider.publish_margin
        console.note(f"harvesters find new documents {margin:g} seconds later (provider.publish_margin)")
    has_problems = any(report.merged.problems for report in reports)
    return ExitCode.RECORDS_REFUSED if has_problems else ExitCode.DONE


def index_options(database: Database, arguments: Namespace, settings: ProviderSettings) -> IndexOptions:
    """Return the indexing options of the command line; creates the collection if it does not exist.

    Raises UsageError for an invalid option.
    """
    spec = collection_set_spec(arguments.collection) if arguments.collection else None
    folder: Container | None = arguments.archive_dir
    if isinstance(folder, Path) and not folder.is_dir():
        raise UsageError(f"--archive-dir {folder}: no such folder")
    with database.session() as session:
        return IndexOptions(
            margin=settings.publish_margin,
            content=content_options(settings),
            collections=_family(session, spec),
            again=arguments.again,
            first_load=arguments.first_load,
            archive_dir=None if folder is None else absolute(folder),
        )


def _index(
    invocation: Invocation, database: Database, files: Sequence[Place], options: IndexOptions
) -> list[FileReport]:
    reports: list[FileReport] = []
    documents = 0
    floor = open_floor(invocation.settings)
    collect_garbage_seldom()
    total = sum(map(size_of, files)) // _MEGABYTE
    with invocation.console.progress("indexing, MB") as advance:

        def advance_to(read: int) -> None:
            note = f"{len(reports):,} of {len(files):,} files, {documents:,} documents"
            advance(min(read // _MEGABYTE, total), total=total, note=note)

        jobs = invocation.arguments.jobs or os.cpu_count() or 1
        for report in index_files(
            database, invocation.settings, files, options, jobs=jobs, on_read=advance_to
        ):
            reports.append(report)
            # Files that other processes are indexing now are stored whole or not at all.
            floor.check()
            if len(reports) % ADD_UP_EVERY == 0:
                with database.session() as session:
                    add_up(session, options.load_id)
            merged = report.merged
            documents += merged.new + merged.unchanged + merged.moved + merged.duplicates
    return reports


def _begun_load(database: Database, options: IndexOptions) -> int:
    with database.session() as session:
        return begin_load(session, options.collections[0] if options.collections else None)


def _family(session: Session, spec: str | None) -> tuple[int, ...]:
    if spec is None:
        return ()
    collections.add_collection(session, spec)
    session.commit()
    return collections.lineage(session, spec)


def _row(report: FileReport) -> dict[str, Any]:
    """Return the report as JSON output."""
    merged = report.merged
    return {
        "file": stored_path(report.path),
        "skipped": report.skipped,
        "new": merged.new,
        "unchanged": merged.unchanged,
        "moved": merged.moved,
        "duplicates": merged.duplicates,
        "completed": merged.completed,
        "ignored": report.ignored,
        "adjusted_dates": report.adjusted_dates,
        "problems": [
            {"offset": one.offset, "reason": one.reason, **failure_columns(one.failure)}
            for one in merged.problems
        ],
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
        _explain(console, [one.failure for report in reports for one in report.merged.problems])
    adjusted = sum(row["adjusted_dates"] for row in rows)
    if adjusted:
        console.note(f"{adjusted:,} captures had dates of an older form, which were cut, padded or converted")
    words = ", ".join(f"{total[name]:,} {name}" for name in _COUNTED)
    console.result({}, f"\n{total['files']:,} files: {words}; {total['problems']:,} problems")


def _explain(console: Console, failures: Iterable[Failure]) -> None:
    """Print what each kind of failure means and what to do about it, once; not with --json."""
    words = [explained(failure, "en") for failure in failures]
    lines = dict.fromkeys(one_line(f"{one.what} {one.todo}".rstrip()) for one in words)
    if lines and not console.as_json:
        console.result({}, "\n" + "\n".join(f"- {line}" for line in lines))


def _ignored(kinds: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number:,}" for kind, number in sorted(kinds.items())) or "0"


def status(invocation: Invocation) -> ExitCode:
    """`provider status`: show figures of the archive, or of an indexing run."""
    if invocation.arguments.run is not None:
        return _show_run(invocation, invocation.arguments.run)
    with invocation.session() as session:
        found = asdict(archive_status(session)) | {"shared_names": shared_names(session)}
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
    if not found["url_keys_complete"]:
        invocation.console.note(f"look-ups compare the spellings of URLs; {FILL_KEYS}")
    elif found["unused_indexes"]:
        invocation.console.note(
            "an index is no longer used; run `zatva provider reindex-keys` to remove it as soon as no "
            "provider of an earlier version runs"
        )
    if found["shared_names"]:
        invocation.console.note(
            "archive files in different folders have the same name; pywb may read the wrong one, so rename "
            "them and index them again before it reads their folders"
        )
    if lost:
        invocation.console.note(
            f"lost files: {lost:,}; their tasks are no longer in the queue; queue them again "
            "(`zatva provider index --queue PATH`)"
        )
    return ExitCode.DONE


def _show_run(invocation: Invocation, run_id: int) -> ExitCode:
    with invocation.session() as session:
        files = find_run_files(session, run_id)
    rows = [{name: value for name, value in asdict(file).items() if name != "id"} for file in files]
    invocation.console.table(rows, _RUN_FILE_COLUMNS, empty="no files")
    _explain(invocation.console, [file.failure for file in files if file.failure])
    failed = any(file.state == "failed" or file.problems for file in files)
    return ExitCode.RECORDS_REFUSED if failed else ExitCode.DONE


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "none"
    return "never" if value is None else f"{value:,}"


def reindex_keys(invocation: Invocation) -> None:
    """`provider reindex-keys`: store missing URL keys, build their index and remove the one before it."""
    console = invocation.console
    with (
        open_database(invocation.settings) as database,
        console.progress("URL keys, document id") as advance,
    ):
        filled = fill_keys(database, lambda step, done, total: advance(done, total=total, note=step))
        with database.session() as session:
            forget_figures(session)
            session.commit()
    console.result(
        {"documents": filled, "complete": True},
        f"stored the URL keys of {counted(filled, 'document')}; look-ups use the keys of all documents",
    )


def verify(invocation: Invocation) -> ExitCode:
    """`provider verify`: read archive files and compare them with the index."""
    arguments, console = invocation.arguments, invocation.console
    choice = FixityChoice(
        files=arguments.files,
        set_spec=arguments.set,
        sample=arguments.sample,
        after=arguments.after,
    )
    elsewhere = _by_name(arguments.search or [])
    totals: Counter[str] = Counter()
    found: dict[Fault, Failure] = {}
    last = arguments.after
    with invocation.session() as session:
        checker = Checker(session=session, choice=choice, elsewhere=elsewhere)
        files = checker.files()
        with console.progress("verifying, files") as advance:
            try:
                for file in checker.check():
                    last = file.number
                    totals += _counted(file)
                    found |= {finding.fault: finding.failure for finding in file.findings}
                    _print_file(console, file, invocation.settings.provider.namespace)
                    advance(totals["files"], total=files, note=f"{totals['documents']:,} documents")
            except KeyboardInterrupt:
                console.note(f"to continue, run the same command with --after {last}")
                raise
    if arguments.after and not totals["files"]:
        console.note(f"nothing was checked: no chosen file has a number above {arguments.after} (--after)")
    total = {name: totals[name] for name in ("files", "documents", "without_digest", *Fault)}
    console.result({"total": total}, _words(totals))
    _explain(console, found.values())
    is_sound = not found.keys() - {Fault.MISMATCHED}
    return ExitCode.DONE if is_sound else ExitCode.RECORDS_REFUSED


def _by_name(folders: Sequence[Container]) -> dict[str, list[Place]]:
    """Return archive files below folders by the name under which they are identified."""
    found: dict[str, list[Place]] = {}
    for path in find_archives(folders):
        found.setdefault(stored_name(path.name), []).append(path)
    return found


def _counted(file: FileCheck) -> Counter[str]:
    found = Counter({"files": 1, "documents": file.checked, "without_digest": file.without_digest})
    for finding in file.findings:
        found[finding.fault] += 1
    return found


def _print_file(console: Console, file: FileCheck, namespace: str) -> None:
    for number, finding in enumerate(file.findings):
        if console.as_json or number < _SHOWN:
            console.result(_as_json(finding, namespace), one_line(_in_words(finding)))
    if len(file.findings) > _SHOWN and not console.as_json:
        more = f"  … and {len(file.findings) - _SHOWN:,} more in {file.path}; see --json"
        console.result({}, one_line(more))


def _as_json(finding: FixityFinding, namespace: str) -> dict[str, Any]:
    facts = asdict(finding)
    key = facts.pop("key")
    codes = failure_columns(finding.failure)
    return {**facts, **codes, "identifier": None if key is None else oai_identifier(namespace, key)}


def _in_words(finding: FixityFinding) -> str:
    if finding.offset is None:
        return f"{finding.fault}: {finding.file} (documents: {finding.documents:,}): {finding.reason}"
    return f"{finding.fault}: {finding.file}, offset {finding.offset}, {finding.url}: {finding.reason}"


def _words(totals: Counter[str]) -> str:
    found = ", ".join(f"{totals[fault]:,} {fault}" for fault in Fault)
    unsure = f" ({totals['without_digest']:,} without a digest: only the length was checked)"
    checked = f"documents {totals['documents']:,}" + (unsure if totals["without_digest"] else "")
    return f"files {totals['files']:,}, {checked}: {found}"
