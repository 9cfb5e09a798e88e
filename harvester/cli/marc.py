"""Handlers of `zatva import check` and `import export`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from harvester.bibliographic.marc21.structure import Level
from harvester.bibliographic.marc_export import ExportedMarc, MarcForm, export_marc
from harvester.bibliographic.marc_report import MarcReport, check_source
from harvester.bibliographic.stored_marc import MarcSource, StoredMarc, marc_source
from harvester.cli.store import disk_watch, open_output, print_written
from oai.cli import Invocation
from oai.console import counted
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError

_FINDINGS: Final = {
    "level": "Level", "code": "Code", "place": "Field", "records": "Records", "count": "Count",
    "found": "Found", "expected": "Expected", "examples": "Examples",
}  # fmt: skip


def check(invocation: Invocation) -> ExitCode:
    """Validate the stored MARC records of the named repositories, one report each."""
    arguments = invocation.arguments
    whole = True
    with open_database(invocation.settings) as database:
        for source in _sources(invocation, database):
            report = _checked(invocation, database, source)
            _print_report(invocation, report, arguments.limit)
            whole &= not report.unreadable
    return ExitCode.DONE if whole else ExitCode.RECORDS_REFUSED


def export_records(invocation: Invocation) -> ExitCode:
    """Write the stored MARC records of the named repositories to one file or to standard output."""
    arguments = invocation.arguments
    console, total = invocation.console, ExportedMarc()
    with open_database(invocation.settings) as database:
        sources = _sources(invocation, database)
        with open_output(arguments.out) as out:
            for source in sources:
                exported = export_marc(
                    database,
                    source,
                    out,
                    MarcForm(arguments.form),
                    on_left_out=lambda identifier, reason: console.note(f"left out {identifier}: {reason}"),
                    on_written=disk_watch(invocation),
                )
                total = ExportedMarc(
                    **{name: value + getattr(exported, name) for name, value in asdict(total).items()}
                )
    words = (
        f"{counted(total.records, 'record')}, {counted(total.bytes, 'byte')}; left out: {total.unwritable:,} "
        f"that cannot be written, {total.unreadable:,} missing or altered, {total.other:,} not bibliographic"
    )
    print_written(invocation, asdict(total), words)
    return ExitCode.DONE if total.whole else ExitCode.RECORDS_REFUSED


def _sources(invocation: Invocation, database: Database) -> Sequence[MarcSource]:
    """Return the named repositories; all are checked to have MARC records before the work begins."""
    arguments = invocation.arguments
    if not arguments.repository:
        raise UsageError("no repository given; give --repository ID")
    return [
        marc_source(database, invocation.settings, one, arguments.format)
        for one in dict.fromkeys(arguments.repository)
    ]


def _checked(invocation: Invocation, database: Database, source: MarcSource) -> MarcReport:
    def on_unreadable(stored: StoredMarc) -> None:
        invocation.console.note(f"skipped {stored.identifier}: {stored.unreadable}")

    with invocation.console.progress(f"check {source.repository_id}") as advance:
        return check_source(
            database,
            source,
            level=Level(invocation.arguments.level),
            most=invocation.arguments.records,
            on_progress=advance,
            on_unreadable=on_unreadable,
        )


def _print_report(invocation: Invocation, report: MarcReport, limit: int | None) -> None:
    """Print the findings, then the summary; in JSON, an object for each of them."""
    rows: list[dict[str, Any]] = [
        {"repository_id": report.repository_id, **asdict(one)} for one in report.ranked()[:limit]
    ]
    if not invocation.console.as_json:
        rows = [{**row, "examples": " ".join(row["identifiers"])} for row in rows]
    if rows:
        invocation.console.table(rows, _FINDINGS, empty="")
    facts = {name: value for name, value in asdict(report).items() if name != "counted"}
    invocation.console.result({**facts, "kinds": len(report.counted)}, _in_words(report))


def _in_words(report: MarcReport) -> str:
    words = (
        f"repository {report.repository_id}, {report.metadata_prefix}: {counted(report.records, 'record')} "
        f"checked on level {report.level}, {report.without_findings:,} without findings; "
        f"{counted(report.findings, 'finding')} of {counted(len(report.counted), 'kind')}"
    )
    if report.other:
        words += f"; {report.other:,} not bibliographic"
    return f"{words}; {report.unreadable:,} missing or altered" if report.unreadable else words
