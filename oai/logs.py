"""Logging to standard error, as text or as JSON lines."""

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

from oai.console import one_entry
from oai.sections import LogSettings

_MINUTE: Final = 60.0
_OF_THE_QUEUE: Final = ("procrastinate", "psycopg.pool")
"""Beginnings of the names of loggers."""
_MOST_REPEATED: Final = 100
"""The number of different messages that are counted; above it, counting begins again."""


class _Lines(logging.Formatter):
    """Entries as people read them.

    Further lines are indented and control characters escaped: a path or name from outside cannot look like
    another entry, nor control the terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        return one_entry(super().format(record))


class _JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, message, and an error's traceback.

    Entries with the attribute `origin` also have its keys, such as `job` and `repository`.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "origin", {}),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class _ToStandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at the time: a progress bar replaces it, so that it stays below."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # a plain attribute there
        """The present standard error."""
        return sys.stderr


def _in_a_line(record: logging.LogRecord) -> bool:
    """Replace the traceback of an error of the task queue by the error that it ends with."""
    error = record.exc_info[1] if record.exc_info else None
    # The event loop logs the error of a task that is not awaited.
    origins = (record.name, type(error).__module__)
    if error is not None and any(name.startswith("procrastinate") for name in origins):
        while error.__cause__ is not None:  # a database's own words contain no statement and no values
            error = error.__cause__
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = record.getMessage().partition("\n")[0]
        record.msg, record.args = f"{message}: {reason}", ()
        record.exc_info = record.exc_text = None
    return True


class _Seldom:
    """Limits a message to one a minute, and counts those left out."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = clock()
        self._unlogged = 0

    def addition(self) -> str | None:
        """Return what to add to the message, the number of those left out; None: leave this one out, too."""
        now = self._clock()
        if now < self._next:
            self._unlogged += 1
            return None
        before = f" ({self._unlogged} more since the last message)" if self._unlogged else ""
        self._next, self._unlogged = now + _MINUTE, 0
        return before


class RareWarning:
    """Limits log messages that recur, or that clients can trigger at will, to one warning a minute."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._seldom = _Seldom(clock)

    def warn(self, message: str) -> None:
        """Log the message with the number suppressed since the last one, or suppress it."""
        addition = self._seldom.addition()
        if addition is not None:
            self._log.warning("%s%s", message, addition)


class SeldomRepeated(logging.Filter):
    """A filter that limits each message of the task queue and of its connections to one a minute.

    While the database is away, they log each of their attempts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._known: dict[str, _Seldom] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the entry; add the number of those left out."""
        if record.levelno < logging.WARNING or not record.name.startswith(_OF_THE_QUEUE):
            return True
        message = record.getMessage()
        with self._lock:
            if len(self._known) > _MOST_REPEATED:
                self._known.clear()
            addition = self._known.setdefault(message, _Seldom(self._clock)).addition()
        if addition:
            record.msg, record.args = message + addition, ()
        return addition is not None


def _write(text: str) -> None:
    # As with logged entries: a full disk on which standard error is must not end the work.
    with contextlib.suppress(OSError):
        sys.stderr.write(text)


def pass_on(text: str, logger: logging.Logger, origin: Mapping[str, int]) -> None:
    """Write lines of a child process's standard error with their origin, such as job and process.

    In a JSON log, lines of plain text become entries.
    """
    # Not `splitlines`: JSON may contain other characters that end a line.
    lines = text.removesuffix("\n").split("\n") if text else []
    if not any(isinstance(handler.formatter, _JsonLines) for handler in logging.root.handlers):
        prefix = ", ".join(f"{name} {number}" for name, number in origin.items())
        _write("".join(f"{prefix}: {line}\n" for line in lines))
        return
    for line in lines:
        if line.startswith("{") and line.endswith("}"):
            _write(f"{line[:-1]}, {json.dumps(dict(origin))[1:]}\n")
        else:
            level = logging.ERROR if line.startswith("zatva: ") else logging.INFO
            logger.log(level, "%s", line.removeprefix("zatva: "), extra={"origin": origin})


def configure(settings: LogSettings, *, verbose: bool = False, quiet: bool = False) -> None:
    """Configure the root logger; `verbose` and `quiet` (command line) override the configured level."""
    handler = _ToStandardError()
    # The names of loggers are modules, which mean nothing to users.
    name = "{name}: " if verbose else ""
    handler.setFormatter(
        _JsonLines()
        if settings.format == "json"
        else _Lines(f"{{asctime}} {{levelname:<7}} {name}{{message}}", style="{")
    )
    if not verbose:
        handler.addFilter(_in_a_line)
        handler.addFilter(SeldomRepeated())
    level = "DEBUG" if verbose else "WARNING" if quiet else settings.level.upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # These log every step at INFO, which is useful only for debugging.
    for chatty in ("alembic", "procrastinate", "aiohttp.access"):
        logging.getLogger(chatty).setLevel("DEBUG" if verbose else "WARNING")
