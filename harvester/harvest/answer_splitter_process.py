"""A process that splits one large answer: `python -m harvester.harvest.answer_splitter_process FD PARENT`.

The parent passes the answer's file as an open descriptor. The process runs under a memory limit, so that no
answer, whatever its content, can exhaust the memory of the harvest or of the machine.
"""

import signal
import sys
from collections.abc import Iterator
from typing import Any

from harvester.reading.errors import AnswerTooLargeError
from harvester.reading.replies import Unread
from harvester.reading.splitting import Part, Splitting
from harvester.reading.spooled import Spooled
from oai.child import Answer, Companion, CompanionEndedError, ProcessKilledError, limit_memory, serve
from oai.errors import of_kind
from oai.failures import FailureCode

_MEMORY = "memory"


class SplittingProcess:
    """The splitting process as its parent sees it; start it in a thread that outlives it."""

    def __init__(self, unread: Unread) -> None:
        self._unread = unread
        number = of_kind(unread.body, Spooled, "an answer in memory needs no process").fileno()
        self._companion = Companion(__name__, str(number), files=[number])

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        self._companion.kill()

    def split(self) -> Splitting:
        """Split the answer as `Unread.split` does.

        Raises AnswerTooLargeError if the process meets its memory limit, ProcessKilledError if it is killed.
        """
        self._ask(*self._unread[1:])
        token: str = self._received()
        return Splitting(token=token, parts=self._parts())

    def _parts(self) -> Iterator[Part]:
        last = False
        while not last:
            self._ask()
            part: Part = self._received()
            last = part.last
            yield part
        self._companion.close()

    def _ask(self, *request: object) -> None:
        try:
            self._companion.send(*request)
        except CompanionEndedError as error:
            raise self._ended(error) from None

    def _received(self) -> Any:  # noqa: ANN401 depends on the request
        try:
            answer = self._companion.receive()
        except CompanionEndedError as error:
            raise self._ended(error) from None
        if answer == _MEMORY:
            raise self._beyond_memory()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _ended(self, error: CompanionEndedError) -> AnswerTooLargeError | ProcessKilledError:
        """Return the error to raise; a memory limit within a C library ends the process in other ways."""
        if error.status == -signal.SIGKILL:
            return ProcessKilledError("splits a large answer", self._companion.number)
        return self._beyond_memory()

    def _beyond_memory(self) -> AnswerTooLargeError:
        limits = self._unread.limits
        return AnswerTooLargeError(self._unread.url, limits.failure(FailureCode.MEMORY, limits.memory))


class _Work:
    """The worker side: the answer, and how far it is split."""

    def __init__(self, body: Spooled) -> None:
        self._body = body
        self._parts: Iterator[Part] = iter(())

    def __call__(self, answer: Answer, *request: object) -> None:
        """Check the answer, or send its next part."""
        try:
            answer(self._next(*request))
        except MemoryError:
            self._parts = iter(())  # free the memory that sending this reply needs
            answer(_MEMORY)
        except Exception as error:  # noqa: BLE001 raised again in the parent
            answer(error)

    def _next(self, *request: object) -> object:
        if not request:
            return next(self._parts)
        unread = Unread._make((self._body, *request))
        limit_memory(unread.limits.memory, mapped=len(self._body))
        splitting = unread.split()
        self._parts = splitting.parts
        return splitting.token


if __name__ == "__main__":
    serve(_Work(Spooled(int(sys.argv[1]))))
