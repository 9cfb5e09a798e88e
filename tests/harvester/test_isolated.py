"""Work in a separate process: results, errors and notes are returned; memory and time are limited."""

import asyncio
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harvester.isolated import isolated
from harvester.reading.errors import (
    AnswerTooLargeError,
    HttpStatusError,
    ServerBusyError,
    TransportError,
    TransportKind,
)
from oai.child import ProcessKilledError
from oai.errors import UsageError
from oai.failures import FailureCode
from oai.limits import AnswerLimits

URL = "http://a.example/oai"
LIMITS = AnswerLimits(memory=64 * 1024**2, section="web")
ERRORS: dict[str, Exception] = {
    "status": HttpStatusError(URL, 404, "Not Found"),
    "busy": ServerBusyError(URL, 503, 7.5),
    "dns": TransportError(URL, TransportKind.DNS, "unknown"),
    "usage": UsageError("no %(thing)s", thing="such"),
    "too large": AnswerTooLargeError(URL, LIMITS.failure(FailureCode.MEMORY, 5)),
}


async def add(one: int, other: int, *, more: int = 0, tell: Callable[[int], None] | None = None) -> int:
    for number in (one, other):
        if tell is not None:
            tell(number)
    return one + other + more


async def fail(name: str) -> None:
    raise ERRORS[name]


async def swell(size: int) -> int:
    return len(bytearray(size))


async def hang(file: str) -> None:
    await asyncio.to_thread(Path(file).write_text, str(os.getpid()))
    await asyncio.sleep(3600)


async def process_id() -> int:
    return os.getpid()


async def die() -> None:
    os._exit(3)


async def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def test_the_result_and_the_notes_come_from_another_process() -> None:
    heard: list[int] = []
    assert await isolated(add, 1, 2, url=URL, limits=LIMITS, more=4, notes={"tell": heard.append}) == 7
    assert heard == [1, 2]
    assert await isolated(process_id, url=URL, limits=LIMITS) != os.getpid()


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pickled_with_all_their_attributes(name: str) -> None:
    passed = pickle.loads(pickle.dumps(ERRORS[name]))  # noqa: S301 our own
    assert (type(passed), str(passed), vars(passed)) == (
        type(ERRORS[name]), str(ERRORS[name]), vars(ERRORS[name]),
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["busy", *(pytest.param(one, marks=pytest.mark.long) for one in ERRORS if one != "busy")]
)
async def test_errors_are_raised_here_with_all_their_attributes(name: str) -> None:
    with pytest.raises(type(ERRORS[name])) as caught:
        await isolated(fail, name, url=URL, limits=LIMITS)
    assert (str(caught.value), vars(caught.value)) == (str(ERRORS[name]), vars(ERRORS[name]))


async def test_more_memory_than_allowed_is_a_failure_that_names_the_setting() -> None:
    assert await isolated(swell, 16 * 1024**2, url=URL, limits=LIMITS) == 16 * 1024**2
    with pytest.raises(AnswerTooLargeError) as caught:
        await isolated(swell, 512 * 1024**2, url=URL, limits=LIMITS)
    assert caught.value.failure == LIMITS.failure(FailureCode.MEMORY, LIMITS.memory)
    assert "web.max_memory" in str(caught.value)


async def test_a_process_ends_with_the_process_that_waits_for_it(tmp_path: Path) -> None:
    file = tmp_path / "process"
    waiting = asyncio.create_task(isolated(hang, str(file), url=URL, limits=LIMITS))
    async with asyncio.timeout(60):
        while not (file.exists() and file.read_text()):  # noqa: ASYNC110 another process writes it
            await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


async def test_an_error_of_our_own_is_not_reported_as_an_exceeded_limit() -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        await isolated(die, url=URL, limits=LIMITS)


async def test_a_process_killed_by_the_system_is_not_reported_as_an_exceeded_limit() -> None:
    with pytest.raises(ProcessKilledError, match="ended by signal 9") as caught:
        await isolated(be_killed, url=URL, limits=LIMITS)
    assert caught.value.failure is not None
    assert caught.value.failure.code is FailureCode.PROCESS_SIGNALLED
