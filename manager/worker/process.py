"""A harvest as a process of its own: started, watched, ended with all that it started.

The process gets one end of a pipe as its standard input and we hold the other. However we end, the kernel
closes our end, and `--end-with-parent` makes the harvester stop when it sees that.
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

from oai.settings import CONFIG_VARIABLE, Settings

HARVESTER: Final = (sys.executable, "-m", "harvester")
_CHUNK: Final = 65_536
_KEPT: Final = 4000
_DRAIN_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class ProcessOutcome:
    """How a process ended."""

    exit_code: int
    """Its exit code, or the number of the signal that ended it, below zero."""
    said: str
    """The last that it said on standard error."""


class HarvestProcess:
    """A harvester that was started; `wait` must be awaited to its end."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int, log: int) -> None:
        self._process = process
        self._lifeline = lifeline
        self._said = ""
        self._listening = asyncio.create_task(self._listen(log))

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Start the command in a process group of its own; raises OSError where it cannot be started."""
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
        """Its process id, which is also its group's."""
        return self._process.pid

    async def wait(self) -> ProcessOutcome:
        """Wait for the end; what is left of its group is ended, too."""
        exit_code = await self._process.wait()
        self._signal(signal.SIGKILL)
        os.close(self._lifeline)
        # What it started in a group of its own may hold the log's other end for ever.
        await asyncio.wait([self._listening], timeout=_DRAIN_SECONDS)
        self._listening.cancel()
        await asyncio.wait([self._listening])
        return ProcessOutcome(exit_code=exit_code, said=self._said.strip())

    def ask_to_stop(self) -> None:
        """Ask the whole group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # macOS answers "not permitted" for a group of which only the dead are left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _listen(self, log: int) -> None:
        """Pass its log on, whole lines at a time, and keep the end of it."""
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
    """The variables that give a child process the same settings, those of the command line included."""
    url = settings.database_url
    variables = {
        "ZATVA_DATA": str(settings.data.absolute()),
        "ZATVA_DATABASE_URL": "" if url is None else url.get_secret_value(),
    }
    if settings.toml_file is not None:
        variables[CONFIG_VARIABLE] = str(settings.toml_file.absolute())
    return variables


def host_name() -> str:
    """The name of this machine, as `oai_job.host` gives it."""
    return socket.gethostname()


def runs_job(process_id: int | None, job_id: int) -> bool:
    """Whether that process of this machine is a harvester of that job: the number may have a new owner."""
    try:
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"--job-id={job_id}".encode() in words
