"""Handles data from untrusted servers in a process of its own: `python -m harvester.isolated PARENT`.

The dashboard contacts repositories whose addresses people enter. Such a server's answers are received and
parsed in a process with a memory limit, which is started for a single request and ends with it: the data can
neither exhaust the dashboard's memory nor keep it from answering other users.

Arguments and results are pickled, so they are values; errors are raised again in the caller.
"""

import asyncio
import contextlib
import importlib
import os
import pickle
import signal
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from harvester.reading.errors import AnswerTooLargeError
from oai.child import ProcessKilledError, end_with_parent, limit_memory, module_command, share_memory
from oai.errors import required
from oai.failures import FailureCode
from oai.limits import AnswerLimits

_AT_ONCE = 4
"""Maximum number of such processes of one program at a time; further work waits for its turn."""
_LENGTH = struct.Struct(">Q")
_OUT_OF_MEMORY = 77
"""Exit status of a process that met its memory limit; a C library may also end it with a signal."""
_T = TypeVar("_T")
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class _Asked(NamedTuple):
    """The work for the process."""

    module: str
    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    notes: tuple[str, ...]
    memory: int


class _Message(NamedTuple):
    """A message from the process: a named note or, without a name, the result or the error."""

    name: str
    value: Any
    is_error: bool = False


async def isolated(
    work: Callable[..., Awaitable[_T]],
    *arguments: object,
    url: str,
    limits: AnswerLimits,
    notes: Mapping[str, Callable[[Any], None]] | None = None,
    **options: object,
) -> _T:
    """Return the result of a module's coroutine function with these arguments, run in a process.

    `notes` are functions by the names of the arguments under which the work receives them; they are called in
    this process. `url` is the requested address, for messages. Raises what the work raises, and
    AnswerTooLargeError if the process meets `limits.memory`, ProcessKilledError if it is killed. The process
    ends when the caller is cancelled.
    """
    asked = _Asked(work.__module__, work.__qualname__, arguments, options, tuple(notes or ()), limits.memory)
    # One semaphore per event loop; the look-up does not await, so two tasks cannot create two.
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))
    async with turn, started_process() as process:
        try:
            message = await _result(process, asked, notes or {})
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
            status = await process.wait()
            if status == -signal.SIGKILL:
                raise ProcessKilledError("queries the repository", process.pid) from None
            if status > 0 and status != _OUT_OF_MEMORY:
                raise RuntimeError(f"a process for {url} ended with {status}; see its error output") from None
            raise AnswerTooLargeError(url, limits.failure(FailureCode.MEMORY, limits.memory)) from None
    if message.is_error:
        raise message.value
    result: _T = message.value
    return result


@contextlib.asynccontextmanager
async def started_process() -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process for one question; it is killed at the end of the block."""
    command = module_command(__name__, str(os.getpid()))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may have just ended
                process.kill()
        await process.wait()


async def _result(
    process: asyncio.subprocess.Process, asked: _Asked, notes: Mapping[str, Callable[[Any], None]]
) -> _Message:
    requests = required(process.stdin, "a pipe was requested")
    answers = required(process.stdout, "a pipe was requested")
    requests.write(pickle.dumps(asked))
    requests.write_eof()
    while True:
        (length,) = _LENGTH.unpack(await answers.readexactly(_LENGTH.size))
        data = await answers.readexactly(length)
        message: _Message = await asyncio.to_thread(pickle.loads, data)
        if not message.name:
            return message
        notes[message.name](message.value)


def main() -> None:
    """Do the work given on standard input, and write the result to standard output."""
    end_with_parent(int(sys.argv[-1]))
    asked: _Asked = pickle.load(sys.stdin.buffer)  # noqa: S301 from our own parent
    work = getattr(importlib.import_module(asked.module), asked.name)
    notes = {name: partial(_send_note, name) for name in asked.notes}
    share_memory()
    limit_memory(asked.memory)
    try:
        message = _Message("", asyncio.run(work(*asked.arguments, **asked.options, **notes)))
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 raised again in the parent
        message = _Message("", error, is_error=True)
    _send(message)


def _send_note(name: str, value: object) -> None:
    _send(_Message(name, value))


def _send(message: _Message) -> None:
    data = pickle.dumps(message)
    sys.stdout.buffer.write(_LENGTH.pack(len(data)) + data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    # Imported by name, so that its classes are the same as those that other modules import.
    importlib.import_module("harvester.isolated").main()
