"""A command as a separate process, such as a harvest: start it, watch it, and end it with all its children.

The process gets one end of a pipe as its standard input and this process holds the other. However this
process ends, the kernel closes its end, and `--end-with-parent` makes the harvester stop when it sees that.
"""

import asyncio
import codecs
import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, Self

from oai import logs, prefork
from oai.actions import AUDITED
from oai.child import module_command, words_of_module
from oai.console import PROGRESS_LINE
from oai.settings import CONFIG_VARIABLE, Settings

logger = logging.getLogger("manager.worker")

HARVESTER: Final = module_command("harvester")
AUDITOR: Final = module_command("harvester.store")
EXPORTER: Final = module_command("provider.export")
_CHUNK: Final = 65_536
_KEPT: Final = 4000
_DRAIN_SECONDS: Final = 2.0
_PRELOADED: Final = "harvester.preloaded"
_NOT_STARTED: Final = 127
"""Exit code of a command that could not be started, as in shells."""


@dataclass(frozen=True, kw_only=True)
class ProcessOutcome:
    """How a process ended."""

    exit_code: int
    """The exit code, or the negative number of the signal that ended it."""
    stderr: str
    """The end of its output on standard error."""

    @property
    def last_line(self) -> str:
        """The last line of that output, or the exit code if there was no output."""
        return last_message(self.stderr) or f"the process ended with exit code {self.exit_code}"


def last_message(stderr: str) -> str:
    """Return the last line of a process's output that is not about progress; empty if there is none.

    It is without NUL, which PostgreSQL text cannot contain.
    """
    lines = [line.strip() for line in stderr.replace("\0", "").split("\n")]
    return next((line for line in reversed(lines) if line and not PROGRESS_LINE.fullmatch(line)), "")


class _Started(Protocol):
    """A process that was started in one way or the other."""

    @property
    def pid(self) -> int:
        """Its process id."""

    async def wait(self) -> int:
        """Wait for its end and return its exit code, or the negative number of the signal that ended it."""


class PreforkedProcess:
    """A process that a prefork server started; its parent is the server, which reports its end."""

    def __init__(self, pid: int, reports: asyncio.StreamReader, connection: asyncio.StreamWriter) -> None:
        self.pid = pid
        self._reports = reports
        self._connection = connection

    async def wait(self) -> int:
        """Wait for its end; without the server its exit code cannot be known, and the process is killed."""
        with contextlib.closing(self._connection):
            line = await self._reports.readline()
        if line:
            return int(line)
        _signal_group(self.pid, signal.SIGKILL)
        return -signal.SIGKILL


class PreforkServer:
    """The process from which a worker's harvests are forked: started with the first, and again if it ends.

    It imports `module` beforehand. Used by coroutines of one event loop.
    """

    def __init__(self, module: str = _PRELOADED) -> None:
        self._module = module
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        standard_input: int,
        standard_error: int,
    ) -> PreforkedProcess:
        """Start a module as a process with a group of its own. Raises OSError if that is impossible."""
        requests = self._running()
        nothing = os.open(os.devnull, os.O_WRONLY)
        try:
            # In a thread: while the server still imports modules, a full queue of requests blocks.
            reports = await asyncio.to_thread(
                prefork.request,
                requests,
                words,
                environment,
                (standard_input, nothing, standard_error),
                folder=_folder(),
                new_session=True,
            )
        finally:
            os.close(nothing)
        reader, writer = await asyncio.open_connection(sock=reports)
        line = await reader.readline()
        if not line:
            writer.close()
            raise OSError("the process from which harvests are forked gave no process")
        return PreforkedProcess(int(line), reader, writer)

    async def close(self) -> None:
        """End the server; processes that it started and that still run are not affected."""
        if self._requests is not None and self._process is not None:
            self._requests.close()
            await asyncio.to_thread(self._process.wait)
        self._requests = self._process = None

    def _running(self) -> socket.socket:
        if self._requests is not None and self._process is not None:
            if self._process.poll() is None:
                return self._requests
            self._requests.close()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                prefork.server_command(theirs.fileno(), self._module),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._requests


class HarvestProcess:
    """A started harvester; `wait` must be awaited to its end."""

    def __init__(self, process: _Started, lifeline: int, log: int, origin: Mapping[str, int]) -> None:
        self._process = process
        self._origin = {**origin, "process": process.pid}
        self._lifeline = lifeline
        self._stderr = ""
        self._listening = asyncio.create_task(self._listen(log))

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        server: PreforkServer | None = None,
        *,
        origin: Mapping[str, int] = MappingProxyType({}),
    ) -> Self:
        """Start the command in a process group of its own; raises OSError if it cannot be started.

        A command of `module_command` is forked from the `server`, if one is given. The lines that it logs
        are written with `origin`, such as its job, and its process id.
        """
        standard_input, lifeline = os.pipe()
        log, standard_error = os.pipe()
        try:
            process = await started(
                command,
                {**os.environ, **environment},
                server,
                standard_input=standard_input,
                standard_error=standard_error,
            )
        except BaseException:
            os.close(lifeline)
            os.close(log)
            raise
        finally:
            os.close(standard_input)
            os.close(standard_error)
        return cls(process, lifeline, log, origin)

    @property
    def process_id(self) -> int:
        """Return its process id, which is also its group's."""
        return self._process.pid

    async def wait(self) -> ProcessOutcome:
        """Wait for the end; processes left in its group are killed as well."""
        exit_code = await self._process.wait()
        self._signal(signal.SIGKILL)
        os.close(self._lifeline)
        # A child process in another group may keep the log's other end open indefinitely.
        await asyncio.wait([self._listening], timeout=_DRAIN_SECONDS)
        self._listening.cancel()
        await asyncio.wait([self._listening])
        return ProcessOutcome(exit_code=exit_code, stderr=self._stderr.strip())

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the whole group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole group with SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        _signal_group(self._process.pid, number)

    async def _listen(self, log: int) -> None:
        """Copy its log to standard error, in whole lines, and keep the last part."""
        reader = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(log, "rb", buffering=0)
        )
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        unfinished = ""
        with contextlib.closing(pipe):
            while chunk := await reader.read(_CHUNK):
                whole, newline, unfinished = (unfinished + decode(chunk)).rpartition("\n")
                self._pass_on(whole + newline)
        self._pass_on(unfinished)

    def _pass_on(self, text: str) -> None:
        logs.pass_on(text, logger, self._origin)
        self._stderr = (self._stderr + text)[-_KEPT:]


async def run_to_end(command: Sequence[str], settings: Settings) -> ProcessOutcome:
    """Run the command with the given settings; on cancellation, ask it to stop and wait for its end."""
    try:
        process = await HarvestProcess.start(command, {**environment_for(settings), AUDITED: "1"})
    except OSError as error:
        return ProcessOutcome(exit_code=_NOT_STARTED, stderr=f"{command[0]}: {error.strerror}")
    waiting = asyncio.create_task(process.wait())
    try:
        # Cancelling the request must not cancel the wait, or the child would be left without a parent that
        # reaps it.
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        process.ask_to_stop()
        await waiting
        raise


async def started(
    command: Sequence[str],
    environment: Mapping[str, str],
    server: PreforkServer | None,
    *,
    standard_input: int,
    standard_error: int,
) -> _Started:
    """Start a command: one of our modules by forking if there is a server for that, or as a new program."""
    if server is not None:
        try:
            return await server.start(
                words_of_module(command),
                environment,
                standard_input=standard_input,
                standard_error=standard_error,
            )
        except OSError as error:
            logger.warning("%s; starting a new interpreter instead", error)
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=standard_input,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=standard_error,
        cwd=_folder(),
        env=environment,
        start_new_session=True,
    )


def _folder() -> str:
    """Return the working folder, or `/` if it was removed: a harvest could not import its records there."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"


def _signal_group(group: int, number: signal.Signals) -> None:
    # macOS answers "not permitted" for a group that contains only dead processes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def environment_for(settings: Settings) -> dict[str, str]:
    """Return the variables that give a child process the same settings, including command-line ones."""
    url = settings.database_url
    variables = {
        "ZATVA_DATA": str(settings.data.absolute()),
        "ZATVA_DATABASE_URL": "" if url is None else url.get_secret_value(),
    }
    if settings.toml_file is not None:
        variables[CONFIG_VARIABLE] = str(settings.toml_file.absolute())
    return variables


def host_name() -> str:
    """Return the name of this machine, in the format of `oai_job.host`."""
    return socket.gethostname()
