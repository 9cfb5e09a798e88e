"""Work on what strangers send, in a process of its own: `python -m harvester.isolated PARENT`.

The dashboard asks repositories whose addresses people type. Whatever such a server answers is received and
read in a process with a memory limit, which is started for the one question and ends with it: it cannot take
the memory of the dashboard, and does not keep it from answering others.

Arguments and results are pickled, so they are values; errors are raised where the work was asked for.
"""

import asyncio
import contextlib
import importlib
import os
import pickle
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from harvester.reading.errors import AnswerTooLargeError
from oai.child import limit_memory, outlive_no_parent, share_memory
from oai.errors import required
from oai.failures import FailureCode
from oai.limits import AnswerLimits

_AT_ONCE = 4
"""Such processes of one program at a time; further work waits for its turn."""
_LENGTH = struct.Struct(">Q")
_OUT_OF_MEMORY = 77
"""Exit status of a process that met its limit; a library in C may also end it by a signal."""
_T = TypeVar("_T")
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class _Asked(NamedTuple):
    """Work for the process."""

    module: str
    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    notes: tuple[str, ...]
    memory: int


class _Message(NamedTuple):
    """What the process sends: a note under its name, or, without a name, the result or the error."""

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
    """The result of a module's coroutine function with these arguments and options, from a process.

    `notes` are functions, by the names of the arguments under which the work is given them; they are called
    here. `url` is what is asked, for messages. Raises what the work raises, and AnswerTooLargeError if the
    process meets `limits.memory`. The process ends when the caller is cancelled.
    """
    asked = _Asked(work.__module__, work.__qualname__, arguments, options, tuple(notes or ()), limits.memory)
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))
    async with turn, _process() as process:
        try:
            message = await _result(process, asked, notes or {})
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
            status = await process.wait()
            if status > 0 and status != _OUT_OF_MEMORY:
                raise RuntimeError(f"a process for {url} ended with {status}; see its error output") from None
            raise AnswerTooLargeError(url, limits.failure(FailureCode.MEMORY, limits.memory)) from None
    if message.is_error:
        raise message.value
    result: _T = message.value
    return result


@contextlib.asynccontextmanager
async def _process() -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-P", "-m", __name__, str(os.getpid())]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended this moment
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
    """Do the work that standard input asks for, and write what comes of it to standard output."""
    outlive_no_parent(int(sys.argv[-1]))
    asked: _Asked = pickle.load(sys.stdin.buffer)  # noqa: S301 from our own parent
    work = getattr(importlib.import_module(asked.module), asked.name)
    notes = {name: partial(_tell, name) for name in asked.notes}
    share_memory()
    limit_memory(asked.memory)
    try:
        message = _Message("", asyncio.run(work(*asked.arguments, **asked.options, **notes)))
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 it is raised in the parent
        message = _Message("", error, is_error=True)
    _send(message)


def _tell(name: str, value: object) -> None:
    _send(_Message(name, value))


def _send(message: _Message) -> None:
    data = pickle.dumps(message)
    sys.stdout.buffer.write(_LENGTH.pack(len(data)) + data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    # Its values are of the module as it is imported elsewhere.
    importlib.import_module("harvester.isolated").main()
