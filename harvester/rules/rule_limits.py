"""Limit the evaluation of rules, so that no rule can hang a harvest on any record.

lxml cannot be interrupted while it evaluates an XPath, nor re2 while it searches. Evaluations with a short
time bound run in this process; those that may take long run in a separate process, which is killed at the
limit. For the reasons, with measurements, see docs/decisions/0007-limits-of-rules.md.
"""

import contextlib
import json
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lxml import etree

from harvester.rules.rule_expressions import (
    TOO_LONG,
    Expression,
    ExpressionError,
    FoundNode,
    RecordPath,
    TooMuchError,
    degree,
)
from oai.child import module_command
from oai.errors import Phrase, required

_BYTES_PER_NODE: Final = 8
"""For a record that is all markup; library records have 12 to 30."""
_LOST: Final = Phrase("the process that evaluated it ended, possibly because memory ran out")


@dataclass(frozen=True, kw_only=True)
class RuleLimits:
    """What one rule file may use on one record, and when it counts as unusable."""

    seconds: float = 10
    """For all its expressions together."""
    characters: int = 50_000_000
    """In the values found by all its expressions together."""
    records: int = 20
    """How many records may exceed a limit; at the next one, the rule file counts as invalid."""
    steps: float = 20_000_000
    """The maximum estimate for evaluation in this process: a tenth of a second, about a second at worst."""


class Evaluator:
    """Evaluates the expressions of one rule file; safe to share between threads.

    `clock` returns monotonic seconds.
    """

    def __init__(
        self, limits: RuleLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or RuleLimits()
        self.clock = clock
        self.worker = _Worker()
        self._met = 0
        self._lock = threading.Lock()

    def on(self, record: etree._Element) -> "Evaluation":
        """Begin with a record; its time limit starts now."""
        return Evaluation(self, record)

    def too_often(self) -> bool:
        """Count a record that exceeded a limit, and return whether there have been too many."""
        # Every thread that shares this object counts here.
        with self._lock:
            self._met += 1
            return self._met > self.limits.records


class Evaluation:
    """The evaluation of a rule file's expressions on one record; used by one thread."""

    def __init__(self, evaluator: Evaluator, record: etree._Element) -> None:
        self.limits = evaluator.limits
        self.too_often = evaluator.too_often
        self._evaluator = evaluator
        self._record = record
        self._deadline = evaluator.clock() + evaluator.limits.seconds
        self._characters = 0

    def find(self, path: RecordPath) -> list[FoundNode]:
        """Return what the XPath yields.

        Raises TooMuchError if a limit is exceeded, and ExpressionError if it cannot be evaluated.
        """
        self._watch(0)
        power = degree(path.expression)
        if power > 1:
            record = etree.tostring(self._record, encoding="unicode", with_tail=False)
            if (len(record) / _BYTES_PER_NODE) ** power > self.limits.steps:
                return self._find_elsewhere(path, record)
        return path.find(self._record, watch=self._watch)

    def matches(self, expression: Expression, value: str) -> bool:
        """Return whether the pattern occurs anywhere in the value.

        Raises TooMuchError if a limit is exceeded.
        """
        self._watch(0)
        if expression.size * len(value) <= self.limits.steps:
            return expression.matches(value)
        answer = self._ask(
            task="matches", pattern=expression.pattern, ignore_case=expression.ignore_case, value=value
        )
        return bool(answer["matches"])

    def check(self) -> None:
        """Raise TooMuchError if the time is over."""
        self._watch(0)

    def _find_elsewhere(self, path: RecordPath, record: str) -> list[FoundNode]:
        answer = self._ask(
            task="find",
            expression=path.expression,
            namespaces=dict(path.namespaces),
            record=record,
            characters=self.limits.characters - self._characters,
        )
        elements = list(self._record.iter())
        found = [
            FoundNode(value=value, bearer=None if number is None else elements[number])
            for value, number in answer["found"]
        ]
        self._watch(sum(len(each.value) for each in found))
        return found

    def _ask(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401 any JSON value
        worker = self._evaluator.worker
        if worker.pid is None:
            begun = self._evaluator.clock()
            worker.start()
            self._deadline += self._evaluator.clock() - begun  # which is not the record's fault
        seconds = self._deadline - self._evaluator.clock()
        answer = worker.ask({**request, "seconds": max(seconds, 0)}, seconds=max(seconds, 0))
        if "late" in answer:
            raise self._late()
        if "too_much" in answer:
            raise TooMuchError.of_parts(answer["too_much"])
        if "error" in answer:
            raise ExpressionError.of_parts(answer["error"])
        return answer

    def _watch(self, characters: int) -> None:
        """Add this number of characters; raise TooMuchError if they or the time exceed the limit."""
        self._characters += characters
        if self._characters > self.limits.characters:
            raise TooMuchError(TOO_LONG, count=f"{self.limits.characters:,}")
        if self._evaluator.clock() > self._deadline:
            raise self._late()

    def _late(self) -> TooMuchError:
        seconds = f"{self.limits.seconds:g}"
        return TooMuchError("the file's rules take longer than %(seconds)s seconds on it", seconds=seconds)


class _Worker:
    """The process for long evaluations; it starts at the first request and ends with this object."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Return the process id, if the process is running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process if it is not running, and wait until it takes requests."""
        with self._lock:
            self._process = self._process or self._started()

    def ask(self, request: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        """Return the answer, or why there is none: the process is killed when the time is over."""
        line = json.dumps(request).encode() + b"\n"
        # One request at a time, because threads share the process and its two pipes.
        with self._lock:
            # The process may have been killed from outside; if it is lost again, the record is the cause.
            for _ in range(2):
                answer = self._try(line, seconds)
                if answer is not None:
                    return answer
        return {"too_much": TooMuchError(_LOST).parts()}

    def _try(self, request: bytes, seconds: float) -> dict[str, Any] | None:
        process = self._process = self._process or self._started()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            line = _exchange(process, request)
        finally:
            # Joined, so that a late kill cannot hit a process that already serves the next request.
            timer.cancel()
            timer.join()
        if late.is_set() or not line.endswith(b"\n"):
            _end(process)
            self._process = None
            return {"late": True} if late.is_set() else None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        # Without -P, a folder in the working directory with a package's name would be imported instead.
        command = module_command("harvester.rules.rule_worker")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        weakref.finalize(self, _end, process)
        # Imports take long on a busy machine, and a record's time begins afterwards. If the process ends
        # instead of saying that it is ready, the request finds that out.
        required(process.stdout, "a pipe was requested").readline()
        return process


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Send a request and return the answer; incomplete if the process ends meanwhile."""
    requests = required(process.stdin, "a pipe was requested")
    answers = required(process.stdout, "a pipe was requested")
    try:
        requests.write(request)
        requests.flush()
        return answers.readline()
    except OSError:
        return b""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            # Closing flushes the unsent rest, which fails because the process is gone.
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()
