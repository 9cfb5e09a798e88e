"""Assembling and running a command line: shared options, lazy handlers, exit codes for errors.

The `cli.py` of each package describes its commands and imports nothing heavy. A handler is named as
`"module:function"` and imported only when its command runs, because every harvest is a separate process.
"""

import argparse
import codecs
import contextlib
import gc
import importlib
import io
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from oai.actions import Action
    from oai.audit import Subject
    from oai.command_parser import CommandParser
    from oai.console import Console
    from oai.errors import ZatvaError
    from oai.settings import Settings

    Subcommands = argparse._SubParsersAction[CommandParser]  # noqa: SLF001 no public name


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """What a handler receives: the parsed arguments, the settings, and the console to print to."""

    arguments: argparse.Namespace
    settings: "Settings"
    console: "Console"
    noted: dict[str, Any] = field(default_factory=dict)
    """What was passed to `about`."""

    def about(self, number: object | None, name: str | None = None, **details: object) -> None:
        """Record the object that the command created, and other effects, for the audit log.

        Without a number, the object is the one that the arguments name, if any.
        """
        self.noted.update(number=None if number is None else str(number), name=name, details=details)

    @contextlib.contextmanager
    def session(self) -> "Iterator[Session]":
        """Open the database for one session. Raises as `open_database` does."""
        from oai.database import open_database

        with open_database(self.settings) as database, database.session() as session:
            yield session

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[Session]":
        """Open the database for one session, and commit at the end of the block unless it raises."""
        with self.session() as session:
            yield session
            session.commit()


_DONE: Final = 200
_WRONG_INPUT: Final = 422
_FAULT: Final = 500
"""Values that the audit log stores instead of a response status."""
_OTHERS: Final = 0o007
"""The bits of a file's mode that are for accounts outside its group."""

_ZONE_FILE: Final = b"TZif"
"""The first bytes of a file with a time zone (RFC 9636, section 3.1)."""

Handler = Callable[[Invocation], int | None]
"""Does what a command says; returns its exit code, or None if it has done its work."""


def add_command(
    commands: "Subcommands",
    name: str,
    *,
    help: str,  # noqa: A002 argparse's name
    handler: str,
) -> "CommandParser":
    """Add a command with the options that all commands share; `handler` is `"module:function"`."""
    parser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.when_used(add_shared_options)
    # argparse prepends the names of the parent commands: `zatva schedule pause`.
    parser.set_defaults(handler=handler, command=parser.prog.partition(" ")[2], used=parser)
    return parser


def add_group(commands: "Subcommands", name: str, *, help: str) -> "Subcommands":  # noqa: A002
    """Add a command group and return the object to which its commands are added."""
    parser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    made: Subcommands = parser.add_subparsers(metavar="COMMAND")
    return made


def group_of(commands: "Subcommands", name: str) -> "Subcommands":
    """Return the commands of a group that was added before, so that a higher layer can add more."""
    found = commands.choices[name].commands
    if found is None:
        raise RuntimeError(f"internal error: `{name}` has no commands yet")
    return found


_WITH_VALUE: Final = ("--config", "--data")
_SHARED: Final = (*_WITH_VALUE, "--json", "-q", "--quiet", "-v", "--verbose")


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """Add `--json`, `--config`, `--data`, `--quiet` and `--verbose`."""
    shared = parser.add_argument_group("shared options")
    shared.add_argument("--json", action="store_true", help="print results as JSON, one object per line")
    shared.add_argument("--config", type=Path, metavar="FILE", help="settings file (default: ./zatva.toml)")
    shared.add_argument("--data", type=Path, metavar="DIR", help="data folder (overrides ZATVA_DATA)")
    shared.add_argument("-q", "--quiet", action="store_true", help="print no notes and no progress")
    shared.add_argument("-v", "--verbose", action="store_true", help="log more, and show tracebacks")


def _command_first(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return the words with the command's name before the shared options, which may precede it."""
    names, options, rest = [], [], list(words)
    while rest and (commands := getattr(parser, "commands", None)) is not None:
        if rest[0] in commands.choices:
            parser = commands.choices[rest[0]]
            names.append(rest.pop(0))
        elif rest[0].partition("=")[0] in _SHARED:
            taken = 1 + (rest[0] in _WITH_VALUE)
            options += rest[:taken]
            del rest[:taken]
        else:
            break
    return [*names, *options, *rest]


def run(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the command, and return its exit code; errors go to standard error.

    Without a command, the help of the group is printed.
    """
    from oai.errors import ExitCode

    _prepare_streams()
    _replace_bad_time_zone()
    try:
        arguments = parser.parse_args(_command_first(parser, sys.argv[1:] if argv is None else argv))
    except SystemExit as ended:  # after the help, the version, or an error
        ended.code = _flushed(int(ended.code or ExitCode.DONE))
        raise
    if hasattr(arguments, "handler"):
        return _flushed(_run(arguments))
    arguments.shown.print_overview()
    return _flushed(ExitCode.USAGE)


def _flushed(code: int) -> int:
    """Flush the standard streams and return the exit code: a fault if results cannot be written.

    Otherwise the interpreter would try at its end, and end with 120 whatever the code.
    """
    from oai.errors import ExitCode

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            # A reader that closed the pipe, as `head` does, is not an error.
            if stream is sys.stdout and code == ExitCode.DONE and not isinstance(error, BrokenPipeError):
                write_error(f"zatva: standard output: {error.strerror}")
                code = ExitCode.FAULT
    return code


def _prepare_streams() -> None:
    """Open the standard streams that the caller closed, and let no character be an error of the output."""
    # Otherwise the next file or connection that is opened would be, for example, standard output.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 takes no keywords
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 no path
    out = sys.stdout
    # In UTF-8 only undecodable parts of paths are unencodable; in the C locale, Python writes their bytes.
    kept = ("surrogateescape", "utf-8")
    if isinstance(out, io.TextIOWrapper) and (out.errors, codecs.lookup(out.encoding).name) != kept:
        out.reconfigure(errors="replace")


def _replace_bad_time_zone() -> None:
    """Set TZ to UTC if it names a file or folder without a time zone, as the C library reads it.

    Babel, which reads it when it is imported, would raise an error; unknown names are UTC to it, too.
    """
    value = os.environ.get("TZ", "").removeprefix(":")
    if value and not _is_time_zone(value):
        write_error(f"zatva: the variable TZ is {value!r}, which is not a time zone; UTC is used")
        os.environ["TZ"] = "UTC"


def _is_time_zone(value: str) -> bool:
    """Return False for a file or folder without a time zone, also one of the time zone database."""
    from zoneinfo import ZoneInfo

    try:
        if Path(value).exists():
            return Path(value).is_file() and Path(value).read_bytes().startswith(_ZONE_FILE)
        with contextlib.suppress(KeyError, ValueError):
            ZoneInfo(value)
    except OSError:
        return False
    return True


def _run(arguments: argparse.Namespace) -> int:
    from oai.errors import ExitCode, ZatvaError

    # What Zatva writes is for this account and its group, as far as the account's own umask allows.
    os.umask(os.umask(_OTHERS) | _OTHERS)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as the program sets it while it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under `nohup`
        signal.signal(signal.SIGHUP, _hang_up)
    invocation = None
    try:
        handler = _handler(arguments.handler)
        invocation = _invocation(arguments)
        return _called(handler, invocation)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        # The reader of standard output closed the pipe, as `head` does; this is not an error.
        return ExitCode.DONE
    except ZatvaError as error:
        return _print_error(error, verbose=arguments.verbose)
    except Exception as error:
        # An interrupt in the middle of a statement can leave a connection that cannot even roll back.
        if _is_from_interrupt(error):
            return _interrupted()
        known = _as_zatva_error(error, invocation)
        if known is None:
            raise
        return _print_error(known, verbose=arguments.verbose)


def _called(handler: Handler, invocation: Invocation) -> int:
    """Run the command, with an audit entry if it changes something."""
    from oai.actions import AUDITED, action_of_command
    from oai.errors import ExitCode

    arguments = invocation.arguments
    action = action_of_command(getattr(arguments, "command", ""))
    if action is None or os.environ.get(AUDITED) or action.previews(vars(arguments)):
        return int(handler(invocation) or ExitCode.DONE)
    return _audited(action, handler, invocation)


def _audited(action: "Action", handler: Handler, invocation: Invocation) -> int:
    """Run the command between `begin` and `settle` of its audit entry; return its exit code."""
    from oai.audit import Actor, begin, settle
    from oai.database import open_database
    from oai.errors import ExitCode, UsageError

    who = Actor(name=account_name(), via="command", address=socket.gethostname())
    with open_database(invocation.settings) as database:
        with database.session() as session:
            begun = begin(session, action.verb, who, _subject(action, invocation))
        # Close all connections, because the command may fork and a child must not inherit an open one.
        database.engine.dispose()
        status = _FAULT
        try:
            code = int(handler(invocation) or ExitCode.DONE)
            status = _DONE
            if code != ExitCode.DONE:
                invocation.noted["details"] = {**invocation.noted.get("details", {}), "exit_code": code}
        except UsageError:
            # Wrong input leaves no entry, unless the command has noted why it could not do its work.
            status = _FAULT if "reason" in invocation.noted.get("details", {}) else _WRONG_INPUT
            raise
        finally:
            days, subject = invocation.settings.web.audit_days, _subject(action, invocation)
            with database.session() as session:
                settle(session, begun, who, subject, status=status, audit_days=days)
    return code


def _subject(action: "Action", invocation: Invocation) -> "Subject":
    """Return the object that the command created and recorded, otherwise the one that its arguments name."""
    from oai.audit import Subject

    noted = invocation.noted
    given = getattr(invocation.arguments, action.target) if action.target else None
    named = " ".join(map(str, given)) if isinstance(given, list) else given
    return Subject(
        kind=action.object_kind,
        number=noted.get("number") or (None if named is None else str(named)),
        name=noted.get("name"),
        details=noted.get("details"),
    )


def account_name() -> str | None:
    """Return the account name; None in containers that run under a user id without a name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def _print_error(error: "ZatvaError", *, verbose: bool) -> int:
    """Print the error; with `verbose`, also the traceback of the exception being handled."""
    if verbose:
        write_error(traceback.format_exc().rstrip())
    write_error(f"zatva: {error}")
    return error.exit_code


def write_error(text: str) -> None:
    """Print the text on standard error, also with `--quiet`, unless nothing can be written there."""
    from oai.console import many_lines

    # The exit code of the command must not become that of a full disk on which standard error is.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{many_lines(text)}\n")


def _as_zatva_error(error: Exception, invocation: Invocation | None) -> "ZatvaError | None":
    # Imported late: most commands need no database, and the module that knows its errors is slow to import.
    from oai.error_translation import as_zatva_error
    from oai.errors import UsageError

    if invocation and isinstance(error, UnicodeEncodeError):
        wrong = error.object[error.start : error.end]  # of an argument, whose other bytes Python has decoded
        if any(wrong in str(value) for value in vars(invocation.arguments).values()):
            return UsageError(f"{error.object!a} is not in UTF-8; write the command in this encoding")
    return as_zatva_error(error, invocation.settings if invocation else None)


def _interrupted() -> int:
    from oai.errors import ExitCode

    write_error("interrupted")
    return ExitCode.INTERRUPTED


def _is_from_interrupt(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _hang_up(number: int, _frame: object) -> None:
    """End as on SIGTERM: the terminal was closed."""
    # The shell sends the signal, and so does the kernel; the second one must not interrupt the cleanup.
    signal.signal(number, signal.SIG_IGN)
    signal.raise_signal(signal.SIGTERM)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _handler(name: str) -> Handler:
    module, function = name.split(":")
    # Imported modules are never garbage. Collecting among them takes a tenth of a command's start-up time,
    # the same again while it runs, and a fifth of a second at its end.
    gc.disable()
    # The import system ignores exceptions of its callbacks, and an interrupt would be lost there.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        handler: Handler = getattr(importlib.import_module(module), function)
    finally:
        gc.freeze()
        gc.enable()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return handler


def _invocation(arguments: argparse.Namespace) -> Invocation:
    import logging

    from oai.console import Console
    from oai.logs import configure
    from oai.private_files import exposed_files, how_to_close
    from oai.settings import load_settings

    overrides: dict[str, Any] = {"data": arguments.data.absolute()} if arguments.data else {}
    writes = getattr(arguments, "writes_settings", False)
    settings = load_settings(arguments.config, may_be_missing=writes, **overrides)
    configure(settings.log, verbose=arguments.verbose, quiet=arguments.quiet)
    for file in exposed_files(settings):
        logging.getLogger(__name__).warning(
            "%s contains secrets and can be read by every account of this machine; run `%s`",
            file, how_to_close(file),
        )  # fmt: skip
    console = Console(as_json=arguments.json, quiet=arguments.quiet)
    return Invocation(arguments=arguments, settings=settings, console=console)
