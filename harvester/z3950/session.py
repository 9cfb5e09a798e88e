"""A session of `yaz-client`: a process that receives commands and writes records to a file."""

import asyncio
import contextlib
import re
import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from harvester.client.query_results import QueryCursor
from harvester.reading.errors import (
    PRIVATE_SETTINGS,
    AnswerTooLargeError,
    BadArgumentError,
    CannotDisseminateFormatError,
    ClientError,
    OaiError,
    TransportError,
    TransportKind,
)
from oai.errors import SettingsError, UsageError, required
from oai.failures import FailureCode
from oai.limits import AnswerLimits
from oai.reach import UnreachableZoneError, Zone, ZoneOf, check_address
from oai.sections import HarvesterSettings

SCHEME: Final = "z3950"
_USUAL_PORT: Final = 210
_USUAL_DATABASE: Final = "Default"
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+|[0-9A-Fa-f:.]+")
_DATABASE: Final = re.compile(r"[A-Za-z0-9._+-]+")
LONGEST_QUERY: Final = 4096
"""In bytes. `yaz-client` splits a line at 10,240 bytes, and executes the second part as a command."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_HITS: Final = re.compile(r"^Number of hits: ([0-9]{1,18})", re.MULTILINE)
_RECORDS: Final = re.compile(r"^(?:Records: ([0-9]{1,9})|No records\.)$", re.MULTILINE)
_DIAGNOSTIC: Final = re.compile(r"^ +\[([0-9]+)\] (.*)$", re.MULTILINE)
_WRONG_QUERY: Final = re.compile(r"^Prefix query error: (.*)$", re.MULTILINE)
_PRESENT: Final = re.compile(r"^(?:Z> )*Sent presentRequest", re.MULTILINE)
_SERVER: Final = tuple(re.compile(f"^{word} *: (.*)$", re.MULTILINE) for word in ("Name", "Version"))
_CONNECTED: Final = "Connection accepted by"
_REJECTED: Final = "Connection rejected by"
_REASON: Final = re.compile(r"^.*? (?=code=)| Options: .*")
"""What precedes and follows a server's reason for rejecting a connection."""
_SHOW: Final = "show "
_TEMPORARY: Final = "diagnostic 2"
_OUT_OF_RANGE: Final = "13"
_NO_SYNTAX: Final = frozenset({"227", "238", "239"})
PROGRAM: Final = "yaz-client"
_PIECE: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database at a server."""

    host: str
    port: int
    database: str

    def target(self) -> str:
        """As `yaz-client` takes it."""
        return f"tcp:{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/{self.database}"


def read_address(url: str) -> Address:
    """The address that a URL names. Raises UsageError where it is none."""
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        raise _no_address(url)  # what follows would leave some of these out
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    database = unquote(parts.path.removeprefix("/")) or _USUAL_DATABASE
    # Accepted characters become part of a command line, so each of them is listed.
    fits = parts.scheme == SCHEME and _HOST.fullmatch(host) and _DATABASE.fullmatch(database)
    if not fits or port == 0 or parts.username or parts.query or parts.fragment:
        raise _no_address(url)
    return Address(host=host, port=port or _USUAL_PORT, database=database)


def _no_address(url: str) -> UsageError:
    return UsageError(
        "%(url)s is not a Z39.50 address; write it as z3950://host:port/database", url=repr(url)
    )


class Z3950Error(OaiError):
    """The server's diagnostic, from the set Bib-1; `code` is `diagnostic` and its number."""


class Z3950FormatError(Z3950Error, CannotDisseminateFormatError):
    """The server does not deliver records in that syntax."""


class Z3950QueryError(Z3950Error, BadArgumentError):
    """`yaz-client` does not accept the query."""


@dataclass(frozen=True, kw_only=True)
class ClientOutput:
    """The output of a session of `yaz-client`."""

    connected: bool
    rejected: bool
    size: int | None
    """How many records the search found."""
    received: int | None
    """How many records it received; None without an answer to a request for records."""
    diagnostic: tuple[str, str] | None
    """Number and text, of the search or of the records."""
    wrong_query: str
    server: str
    """The server's name and version, as it reports them."""
    where: str
    """The output about the connection, on one line."""


def check_query(query: str) -> str:
    """Return the query. Raises UsageError if it is empty or could contain more than one command."""
    found = _CONTROL.search(query)
    if found is not None:
        raise UsageError(f"the query contains {found[0]!r}; write it on one line")
    if not query.strip():
        raise UsageError(
            "Z39.50 cannot request all records; give a query in PQF with --query, such as '@attr "
            '1=4 "water"\''
        )
    size = len(query.encode())
    if size > LONGEST_QUERY:
        raise UsageError(f"the query has {size:,} bytes; give at most {LONGEST_QUERY:,}")
    return query


def searching(query: str, *, start: int, most: int) -> Sequence[str]:
    """Return the commands that search, and show `most` records from `start` on. Raises UsageError."""
    search = ["format usmarc", f"find {check_query(query)}"]
    return [*search, f"{_SHOW}{start}+{most}"] if most else search


def read_output(text: str) -> ClientOutput:
    """Parse a session's output. Text of a record is never mistaken for output of the client before it."""
    parted = _PRESENT.search(text)
    before = text[: parted.start()] if parted else text
    behind = text[parted.start() :] if parted else ""
    hits, delivered = _HITS.search(before), _RECORDS.search(behind)
    diagnostic = _DIAGNOSTIC.search(before) or (None if delivered else _DIAGNOSTIC.search(behind))
    wrong = _WRONG_QUERY.search(before)
    return ClientOutput(
        connected=_CONNECTED in before,
        rejected=_REJECTED in before,
        size=int(hits[1]) if hits else None,
        received=int(delivered[1] or 0) if delivered else None,
        diagnostic=(diagnostic[1], diagnostic[2].strip()) if diagnostic else None,
        wrong_query=wrong[1] if wrong else "",
        server=" ".join(found[1].strip() for match in _SERVER if (found := match.search(before)))[:200],
        where=_REASON.sub("", " ".join(before.replace("Z> ", " ").split()))[:200],
    )


def is_out_of_range(error: Z3950Error) -> bool:
    """Return whether the requested records do not exist, or the server does not deliver them."""
    return error.code == f"diagnostic {_OUT_OF_RANGE}"


def error_of(output: ClientOutput, url: str) -> Z3950Error | None:
    """Return the error with which the session ended; None if it was successful."""
    if output.wrong_query:
        words = f"the query is not valid PQF: {output.wrong_query}"
        return Z3950QueryError(url, "query", words)
    if output.diagnostic is None:
        return None
    number, words = output.diagnostic
    if number in _NO_SYNTAX:
        return Z3950FormatError(url, f"diagnostic {number}", f"{words}; the server does not return MARC 21")
    advice = "; narrow the query and harvest in parts" if number == _OUT_OF_RANGE else ""
    return Z3950Error(url, f"diagnostic {number}", words + advice)


@dataclass(frozen=True, kw_only=True)
class SessionAnswer:
    """The result of a session."""

    size: int
    """How many records the search found."""
    received: int
    """How many of the requested records the server reports as delivered."""
    records: bytes
    """Records in ISO 2709, concatenated."""
    traffic: int
    """The total size in bytes."""


def program() -> str:
    """Return the path of `yaz-client`. Raises SettingsError if it is not installed."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise SettingsError(
            f"Z39.50 needs the program {PROGRAM}, which was not found; install it (Debian and "
            "Ubuntu: `apt install yaz`), then run the same command again"
        )
    return found


async def ask(
    address: Address, url: str, query: str, settings: HarvesterSettings, *, place: QueryCursor, most: int
) -> SessionAnswer:
    """Search, and fetch at most `most` records from the position on.

    Servers refuse to deliver more records than there are, so if the position has no size, they are counted
    first. Raises SettingsError, UsageError, TransportError, AnswerTooLargeError, and Z3950Error with the
    server's diagnostic.
    """
    size = place.size
    if size is None:
        counted = await _searched(address, url, searching(query, start=1, most=0), settings)
        size = counted.size
    for last in (False, True):
        wanted = min(most, max(size - place.position + 1, 0))
        lines = searching(query, start=place.position, most=wanted)
        try:
            return await _searched(address, url, lines, settings)
        except ResultChangedError as error:
            if last:
                raise
            size = error.size
    raise AssertionError("unreachable: the last try returns or raises")


class ResultChangedError(Z3950Error):
    """The result has become shorter than the requested range."""

    def __init__(self, error: Z3950Error, size: int) -> None:
        super().__init__(error.url, error.code, error.message)
        self.size = size


async def _searched(
    address: Address, url: str, lines: Sequence[str], settings: HarvesterSettings
) -> SessionAnswer:
    """Run a session that searches."""
    text, records = await _session(address, url, lines, settings)
    output = read_output(text)
    _check_connected(output, url)
    error = error_of(output, url)
    if error is not None and not output.received:
        if is_out_of_range(error) and output.size is not None:
            raise ResultChangedError(error, output.size)
        raise error
    if output.size is None:
        raise TransportError(url, TransportKind.DISCONNECTED, f"no answer to the search: {output.where}")
    if output.received is None and any(line.startswith(_SHOW) for line in lines):
        raise TransportError(url, TransportKind.DISCONNECTED, "no answer to the request for records")
    return SessionAnswer(
        size=output.size, received=output.received or 0, records=records, traffic=len(records) + len(text)
    )


async def initialise_session(address: Address, url: str, settings: HarvesterSettings) -> str:
    """Connect, and return the server's name and version as it reports them; raises as `ask` does."""
    text, _ = await _session(address, url, [], settings)
    output = read_output(text)
    _check_connected(output, url)
    return output.server


async def _session(
    address: Address, url: str, lines: Sequence[str], settings: HarvesterSettings
) -> tuple[str, bytes]:
    """Run a session; return the program's output, and the records that it wrote."""
    path = program()
    commands = [f"open {address.target()}", *lines, "quit"]
    with tempfile.TemporaryDirectory(prefix="zatva-z3950-") as folder:
        file = Path(folder) / "records.mrc"
        text = await _run_client(
            path, file, "".join(f"{line}\n" for line in commands).encode(), url, settings
        )
        return text, file.read_bytes() if file.exists() else b""


def _check_connected(output: ClientOutput, url: str) -> None:
    if output.rejected:
        raise TransportError(
            url, TransportKind.REFUSED, f"the server rejected the connection: {output.where}"
        )
    if not output.connected:
        if "resolve" in output.where:
            raise TransportError(url, TransportKind.DNS, "the host name is not known; check the spelling")
        raise TransportError(url, TransportKind.REFUSED, f"no connection to the server: {output.where}")


async def _run_client(path: str, file: Path, lines: bytes, url: str, settings: HarvesterSettings) -> str:
    """Send the commands and return the program's output; kill it if output or file exceed the limits."""
    process = await asyncio.create_subprocess_exec(
        path,
        "-m",
        str(file),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=file.parent,  # otherwise a file of defaults in the working directory would be read
        env={"HOME": str(file.parent), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    try:
        async with asyncio.timeout(settings.timeout):
            return await _output(process, lines, url, settings.limits)
    except TimeoutError:
        reason = f"no complete answer in {settings.timeout:g} seconds; see setting timeout"
        raise TransportError(url, TransportKind.TIMEOUT, reason) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                process.kill()
        await process.wait()


async def _output(process: asyncio.subprocess.Process, lines: bytes, url: str, limits: AnswerLimits) -> str:
    requests = required(process.stdin, "a pipe was requested")
    answers = required(process.stdout, "a pipe was requested")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the output before it says why
        requests.write(lines)
        await requests.drain()
        requests.close()
    pieces: list[bytes] = []
    size = 0
    # It shows each record in words too, so that this is no less than what is in the file.
    while piece := await answers.read(_PIECE):
        size += len(piece)
        if size > limits.answer_bytes:
            raise AnswerTooLargeError(url, limits.failure(FailureCode.ANSWER_BYTES, limits.answer_bytes))
        pieces.append(piece)
    await process.wait()
    return b"".join(pieces).decode("utf-8", errors="replace")


async def locate(address: Address, url: str, *, private: bool, zone_of: ZoneOf) -> tuple[Address, Zone]:
    """Return the database with the host's IP address, and its zone: a name might lead elsewhere next time.

    Raises TransportError if the host is not known, or if one of its addresses is not allowed.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TransportError(url, TransportKind.DNS, f"the host name is not known ({error})") from error
    # A server with both usually listens at IPv4, while some of its IPv6 addresses are only announced.
    names = [str(entry[4][0]) for entry in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)]
    try:
        zones = [check_address(name, private=private, zone_of=zone_of) for name in names]
    except UnreachableZoneError as error:
        raise TransportError(url, TransportKind.PRIVATE, f"{error}; {PRIVATE_SETTINGS}") from None
    return replace(address, host=names[0]), zones[0]


def is_passing(error: ClientError) -> bool:
    """Return whether another attempt may succeed."""
    passing = {TransportKind.TIMEOUT, TransportKind.DISCONNECTED, TransportKind.REFUSED}
    if isinstance(error, Z3950Error):
        return error.code == _TEMPORARY
    return isinstance(error, TransportError) and error.kind in passing
