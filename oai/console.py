"""Output of commands: results on standard output, notes and progress on standard error."""

import codecs
import contextlib
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO

from oai.errors import UsageError

_LINE_SECONDS = 30.0
PROGRESS_LINE = re.compile(r"[^:]+: [\d,]+( of [\d,]+)?, [\d,]+/s( .*)?")
"""Matches a line that `Console.progress` writes into logs."""
_NOTHING = ("–", "0")  # noqa: RUF001 as `_word` writes it
_GAP = 2
"""Between two columns."""
_SHOWN = 20
"""Lines of each kind in a report for people."""
_NAMED = 5
"""Names that a sentence lists."""
_LEAST_WIDTH = 12
"""To which a column of text is cut at most."""
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the direction of text, and with it the order in which the rest is shown."""
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) != "\t"}
_ESCAPED |= {code: f"\\u{code:04x}" for code in _DIRECTIONS}
_ESCAPED_IN_LINES = {code: text for code, text in _ESCAPED.items() if chr(code) != "\n"}
_RAW_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """Return the text with its control characters escaped, also those that break lines.

    A path or name from outside stays on its line, and cannot control the terminal.
    """
    return text.translate(_ESCAPED)


def one_entry(text: str) -> str:
    """Return the text likewise, but with its lines, of which all but the first are indented."""
    return "\n  ".join(map(one_line, text.split("\n")))


def many_lines(text: str) -> str:
    """Return the text with control characters escaped as in `one_line`, but with its line breaks."""
    return text.replace("\r\n", "\n").translate(_ESCAPED_IN_LINES)


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, whose plural must end in s: `1 record`, `2,000 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(names: Sequence[str]) -> str:
    """Return the first five names and how many more there are: `a, b, c, d, e and 12 more`."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def some(word: str, lines: Sequence[str], total: int | None = None) -> list[str]:
    """Return the first lines of one kind for a report, and how many more there are.

    `total` is their number, if `lines` are not all of them.
    """
    shown = [f"  {word}: {line}" for line in lines[:_SHOWN]]
    more = (len(lines) if total is None else total) - len(shown)
    return [*shown, f"  … and {more:,} more; see --json"] if more > 0 else shown


def checked_output(file: Path) -> Path:
    """Return the absolute path of the file that a command will write.

    Raises UsageError if it is a folder, or if its folder does not exist, which is more likely a typing
    error than an intention.
    """
    file = file.absolute()
    if file.is_dir():
        raise UsageError(f"{file} is a folder; give a file name")
    there = next(folder for folder in file.parents if folder.exists())
    # A path below a regular file is not checked here: opening the file reports that error.
    if there != file.parent and there.is_dir():
        raise UsageError(f"{file.parent}: no such folder; create it or give another file")
    return file


def export_stream() -> BinaryIO:
    """Return standard output for the bytes of an export.

    Raises UsageError if it is a terminal, or if the caller closed it, so that the export would be lost.
    """
    if sys.__stdout__ is None:
        raise UsageError("standard output is closed; give --out FILE, or use a pipe")
    if sys.stdout.isatty():
        raise UsageError("an export cannot be written to a terminal; give --out FILE, or use a pipe")
    return sys.stdout.buffer


class Advance(Protocol):
    """Reports to the progress display how far the work has advanced."""

    def __call__(self, done: int, *, total: int | None = None, note: str = "") -> None:
        """Set the number done so far, the total if known, and a short note."""


@dataclass(frozen=True, kw_only=True)
class Console:
    """Writes a command's results as text, or as JSON for programs."""

    as_json: bool = False
    quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def result(self, data: Mapping[str, Any], text: str) -> None:
        """Print one result: with `--json` the object on one line, otherwise the text."""
        self._print(self._json(data) if self.as_json else many_lines(text))

    def facts(self, data: Mapping[str, Any], shown: Mapping[str, Any] | None = None) -> None:
        """Print the properties of one object, one per line; with `--json` the object.

        `shown` are the properties as people read them, if they differ.
        """
        named = (data if shown is None else shown).items()
        self.result(data, "\n".join(f"{name}: {one_entry(_cell(value, name))}" for name, value in named))

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, empty: str) -> None:
        """Print rows as an aligned table under the headings of `columns` (key to heading).

        With `--json`, each whole row is an object on its own line. `empty` is printed if there are no
        rows.
        """
        if self.as_json:
            for row in rows:
                self._print(self._json(row))
        elif rows:
            width = shutil.get_terminal_size().columns if self.out.isatty() else None
            self._print(_aligned(rows, columns, width))
        else:
            self._print(empty)

    def note(self, text: str) -> None:
        """Print a note on standard error, unless `--quiet` is set."""
        if not self.quiet:
            # During a progress bar, standard error is what prints above it. A note that cannot be written, as
            # on a full disk, must neither end a service nor change the exit code of finished work.
            with contextlib.suppress(OSError):
                err = sys.stderr if self.err is sys.__stderr__ else self.err
                print(many_lines(text), file=err, flush=True)

    def waiting(self, seconds: float, reason: str) -> None:
        """Note that the next request waits, and why."""
        self.note(f"waiting {seconds:,.1f} s: {reason}")

    @contextlib.contextmanager
    def progress(self, label: str) -> Iterator[Advance]:
        """Show progress for the block: a bar on a terminal, otherwise a line every 30 seconds."""
        if self.quiet:
            yield _silent
        elif self.err.isatty():
            with _bar(label, self.err) as advance:
                yield advance
        else:
            yield _Lines(label, self)

    def _json(self, data: Mapping[str, Any]) -> str:
        # Escapes are readable in every encoding; characters that it lacks would be replaced.
        escaped = codecs.lookup(self.out.encoding or "utf-8").name != "utf-8"
        text = json.dumps(data, default=_plain, ensure_ascii=escaped)
        return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

    def _print(self, text: str) -> None:
        print(text, file=self.out, flush=True)


def _silent(done: int, *, total: int | None = None, note: str = "") -> None:
    """Ignore progress (`--quiet`)."""


class _Lines:
    """Progress as a line every 30 seconds, for logs."""

    def __init__(self, label: str, console: Console) -> None:
        self._label = label
        self._console = console
        self._begun = self._last = time.monotonic()

    def __call__(self, done: int, *, total: int | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now - self._last < _LINE_SECONDS:
            return
        self._last = now
        rate = done / (now - self._begun)
        of_total = f" of {total:,}" if total else ""
        self._console.note(f"{self._label}: {done:,}{of_total}, {rate:,.0f}/s {note}".rstrip())


@contextlib.contextmanager
def _bar(label: str, err: TextIO) -> Iterator[Advance]:
    from rich.console import Console as Terminal  # noqa: PLC0415 slow to import, needed on terminals only
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    # Notes come from servers: cut to the line, and without rich's own markup.
    rest = Column(no_wrap=True, overflow="ellipsis")
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}{task.fields[of_total]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False, table_column=rest),
    )
    begun = time.monotonic()
    with Progress(*columns, console=Terminal(file=err), transient=True) as progress:
        task = progress.add_task(label, total=None, of_total="", rate="", note="")

        def advance(done: int, *, total: int | None = None, note: str = "") -> None:
            rate = f"{done / max(time.monotonic() - begun, 0.001):,.0f}/s"
            of_total = f" of {total:,}" if total else ""
            progress.update(
                task, completed=done, total=total, of_total=of_total, rate=rate, note=one_line(note)
            )

        yield advance


def _aligned(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], most: int | None = None) -> str:
    """Return the table; with `most`, cut to that width.

    Columns without any value are left out then, and the widest columns of text are shortened.
    """
    cells = [
        list(columns.values()),
        *([one_line(_cell(row.get(key), key)) for key in columns] for row in rows),
    ]
    numeric = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in columns]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    if most is not None and _line_width(widths) > most:
        filled = {
            key: heading
            for place, (key, heading) in enumerate(columns.items())
            if any(line[place] not in _NOTHING for line in cells[1:])
        }
        if len(filled) < len(columns):
            return _aligned(rows, filled, most)
        whole = [
            all(isinstance(row.get(key), int | float | datetime | None) for row in rows) for key in columns
        ]
        _narrow(widths, whole, most)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else _cut(cell, width).ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    )


def _narrow(widths: list[int], whole: Sequence[bool], most: int) -> None:
    """Make columns narrower, the widest first, until the line fits or each has its least width.

    Those that are `whole` keep theirs: a part of a number or time says something else.
    """
    while _line_width(widths) > most:
        text = [index for index, fixed in enumerate(whole) if not fixed and widths[index] > _LEAST_WIDTH]
        if not text:
            return
        widths[max(text, key=lambda index: widths[index])] -= 1


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def _cell(value: object, key: str) -> str:
    """Return a value as text, including lists and mappings."""
    if isinstance(value, list) and value:
        return ", ".join(_cell(part, key) for part in value)
    if isinstance(value, Mapping) and value:
        return ", ".join(f"{name} {_cell(part, name)}" for name, part in value.items())
    return _word(value, key)


def _word(value: object, key: str) -> str:
    """Return a value as text; numbers used as names, such as row and process ids, get no separators."""
    if value is None or value in ([], {}):
        return "–"  # noqa: RUF001 a dash on purpose
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and key != "id" and not key.endswith("_id"):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return str(value)


def _plain(value: object) -> Any:  # noqa: ANN401 whatever json takes
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
