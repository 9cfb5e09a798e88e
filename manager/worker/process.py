"""A harvest as a separate process: start it, watch it, and end it with all its child processes.

The process gets one end of a pipe as its standard input and this process holds the other. However this
process ends, the kernel closes its end, and `--end-with-parent` makes the harvester stop when it sees that.
"""

import asyncio
import codecs
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from oai.child import module_command
from oai.settings import CONFIG_VARIABLE, Settings

HARVESTER: Final = module_command("harvester")
AUDITOR: Final = module_command("harvester.store")
_CHUNK: Final = 65_536
_KEPT: Final = 4000
_DRAIN_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class ProcessOutcome:
    """How a process ended."""

    exit_code: int
    """The exit code, or the negative number of the signal that ended it."""
    said: str
    """The end of its output on standard error."""


class HarvestProcess:
    """A started harvester; `wait` must be awaited to its end."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int, log: int) -> None:
        self._process = process
        self._lifeline = lifeline
        self._said = ""
        self._listening = asyncio.create_task(self._listen(log))

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Start the command in a process group of its own; raises OSError if it cannot be started."""
        standard_input, lifeline = os.pipe()
        log, standard_error = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=standard_input,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=standard_error,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except BaseException:
            os.close(lifeline)
            os.close(log)
            raise
        finally:
            os.close(standard_input)
            os.close(standard_error)
        return cls(process, lifeline, log)

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
        return ProcessOutcome(exit_code=exit_code, said=self._said.strip())

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the whole group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole group with SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # macOS answers "not permitted" for a group that contains only dead processes.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

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
        sys.stderr.write(text)
        self._said = (self._said + text)[-_KEPT:]


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


def runs_job(process_id: int | None, job_id: int) -> bool:
    """Return whether that process of this machine is a harvester of that job: process ids are reused."""
    try:
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"--job-id={job_id}".encode() in words
