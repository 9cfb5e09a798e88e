"""Handler of `zatva provider export`."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from oai.cli import Invocation
from oai.console import checked_output, counted, export_stream
from oai.database import Database, open_database
from oai.disk import DiskFloor, open_floor
from oai.errors import ExitCode, UsageError
from oai.output_files import complete_file
from provider.collection_commands import lines_of_list, parse_moment
from provider.export.captures import CaptureReader, ExportedCapture, LeftOut
from provider.export.manifest import Manifest
from provider.export.models import ExportForm
from provider.export.output import Output, facts_of, open_output, write_captures
from provider.export.selection import ChosenTitle, ExportChoice, choose, numbers
from provider.export.sorted_lines import SortedLines
from provider.holdings.lookup import MatchType, read_wildcard
from provider.titles.commands import find_title

_STANDARD_OUTPUT: Final = "-"
_SHOWN: Final = 20
"""Maximum number of URLs without captures that are named."""


def export(invocation: Invocation) -> ExitCode:
    """`provider export`: write captures to a WARC or WACZ file."""
    arguments = invocation.arguments
    file = _file(arguments)
    folder = None if file is None else file.parent
    form = _form(arguments, file)
    with open_database(invocation.settings) as database, SortedLines(folder) as chosen:
        choice = choice_of(database, arguments)
        facts = facts_of(
            choice,
            invocation.settings.provider,
            title=arguments.title or choice.words(),
            reading_room=arguments.reading_room,
            without_captures=_choose(invocation, database, choice, chosen),
        )
        reader = CaptureReader(
            database=database,
            settings=invocation.settings.provider,
            reading_room=arguments.reading_room,
            folder=folder,
        )
        with Manifest(facts, folder) as manifest:
            with _output(form, file, manifest) as output:
                _write(invocation, reader, chosen, output, manifest)
                if not manifest.captures:
                    raise UsageError(
                        f"{choice.words()}: no captures that may be in the file; left out: "
                        f"{_left_out(manifest)}; nothing is written"
                    )
            _print_manifest(invocation, manifest, file)
    return ExitCode.RECORDS_REFUSED if manifest.missing else ExitCode.DONE


def choice_of(database: Database, arguments: Namespace) -> ExportChoice:
    """Return what the arguments of `add_selection` choose. Raises UsageError."""
    urls = [*arguments.urls, *(lines_of_list(arguments.list) if arguments.list else ())]
    if [bool(urls), arguments.set is not None, arguments.of_title is not None].count(True) != 1:
        raise UsageError("give URLs (as arguments or with --list), one set with --set, or one --of-title")
    if arguments.match is None:
        look_ups = [read_wildcard(url) for url in urls]
    else:
        look_ups = [(url, MatchType(arguments.match)) for url in urls]
    return ExportChoice(
        look_ups=look_ups,
        set_spec=arguments.set,
        title=_title(database, arguments.of_title) if arguments.of_title is not None else None,
        since=parse_moment("--from", arguments.since),
        until=parse_moment("--until", arguments.until, last=True),
    )


def _title(database: Database, named: str) -> ChosenTitle:
    with database.session() as session:
        title = find_title(session, named)
        return ChosenTitle(title.title_id, title.name)


def _file(arguments: Namespace) -> Path | None:
    """Return the output file; None for standard output."""
    if arguments.out in {None, _STANDARD_OUTPUT}:
        return None
    file = checked_output(Path(arguments.out))
    if file.exists() and not file.is_file():
        raise UsageError(f"--out {file}: not a regular file; to write to a pipe, use --out -")
    return file


def _form(arguments: Namespace, file: Path | None) -> ExportForm:
    is_wacz = file is not None and file.suffix.lower() == ".wacz"
    form = ExportForm(arguments.form or (ExportForm.WACZ if is_wacz else ExportForm.WARC))
    if form is ExportForm.WACZ and file is None:
        raise UsageError("a WACZ file cannot be written to standard output; give --out FILE")
    if form is ExportForm.WARC and arguments.title is not None:
        raise UsageError("--title is for WACZ files; a WARC file has no title")
    if file is None:
        export_stream()  # refused before captures are looked up
    return form


def _choose(
    invocation: Invocation, database: Database, choice: ExportChoice, chosen: SortedLines
) -> list[str]:
    console = invocation.console
    with console.progress("looking up captures") as advance:
        without = choose(database, choice, chosen, advance)
    for url in without[:_SHOWN]:
        console.note(f"no captures of {url!r}")
    if len(without) > _SHOWN:
        console.note(f"… and of {len(without) - _SHOWN:,} more URLs")
    if chosen.added == 0:
        raise UsageError(f"{choice.words()}: no captures; nothing is written")
    return without


@contextmanager
def _output(form: ExportForm, file: Path | None, manifest: Manifest) -> Iterator[Output]:
    with ExitStack() as opened:
        binary = export_stream() if file is None else opened.enter_context(complete_file(file))
        yield opened.enter_context(open_output(form, binary, manifest))
        binary.flush()


def _write(
    invocation: Invocation, reader: CaptureReader, chosen: SortedLines, output: Output, manifest: Manifest
) -> None:
    floor = _floor(invocation, reader.folder)
    with invocation.console.progress("exporting, captures") as advance:

        def on_capture(_capture: ExportedCapture | LeftOut, written: int) -> None:
            floor.wrote(written)
            done = manifest.captures + manifest.left_out.total()
            advance(done, total=chosen.added, note=f"{manifest.record_bytes // 1_000_000:,} MB")

        write_captures(reader.read(numbers(chosen)), output, manifest, on_capture)


def _floor(invocation: Invocation, folder: Path | None) -> DiskFloor:
    """Return what guards the disk of the output; standard output leads to a disk of its reader's, if any."""
    if folder is None:
        return DiskFloor(folders=(), bytes=0, percent=0)
    return open_floor(invocation.settings, folder)


def _print_manifest(invocation: Invocation, manifest: Manifest, file: Path | None) -> None:
    counts = manifest.counts()
    words = f"{counted(manifest.captures, 'capture')}, {counted(manifest.record_bytes, 'byte')}"
    if manifest.resolved:
        words += f"; {counted(manifest.resolved, 'revisit')} got the content of an earlier capture"
    if manifest.left_out:
        words += f"; left out: {_left_out(manifest)}"
    if file is None:
        invocation.console.note(words)
    else:
        without = list(manifest.facts.without_captures)
        invocation.console.result({**counts, "without_captures": without, "out": str(file)}, words)


def _left_out(manifest: Manifest) -> str:
    return ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in manifest.left_out.items())
