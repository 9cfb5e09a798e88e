"""The error tree, and the exit code that each branch ends a command with.

::

    ZatvaError                 1  a fault
    ├── UsageError             2  the command line asks for something impossible
    │   └── ConflictError      2  it is impossible in the current state of an object
    ├── SettingsError          6  a setting is wrong or missing
    ├── DatabaseNotReadyError  6  no database, one that is full or gone, or tables of another version
    ├── ProtocolError          -  one of the eight OAI-PMH errors (specification, section 3.6)
    ├── MalformedXmlError      4  bytes that are not well-formed XML, or XML that is refused
    │   └── XmlLimitError      4  XML that exceeds a limit on size or depth
    ├── RemoteError            4  the remote server failed
    ├── StrictCheckError       5  strict checking stopped the work
    ├── TryLaterError         75  the same may succeed later, as if the remote server is busy
    └── InterruptedRunError  130  the user interrupted; the work can be resumed

A message states what was found, where, and what to do.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import Any, ClassVar, Final, Self, TypeVar

from oai.datestamps import format_datestamp
from oai.failures import Failure, FailureCode
from oai.vocabulary import ErrorCode

_Value = TypeVar("_Value")


class ExitCode(IntEnum):
    """Exit status of a command."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    RECORDS_REFUSED = 3
    REMOTE_FAILED = 4
    STRICT_CHECK = 5
    NOT_READY = 6
    TRY_LATER = 75
    INTERRUPTED = 130


class Phrase(str):
    """Translatable text with the values of its placeholders; as a string, it is the English text.

    It may be a value inside a message.
    """

    __slots__ = ("error",)

    error: "ZatvaError"

    def __new__(cls, words: str, **values: object) -> Self:
        """Return the phrase; `words` has placeholders if there are values."""
        error = ZatvaError(words, **values)
        phrase = super().__new__(cls, str(error))
        phrase.error = error
        return phrase

    def in_words(
        self, translate: Callable[[str], str], clock: Callable[[datetime], str] = format_datestamp
    ) -> str:
        """Return the phrase in another language, as `ZatvaError.in_words` does."""
        return self.error.in_words(translate, clock)


class ZatvaError(Exception):
    """The root: any error that Zatva itself raises.

    A message that pages show is given with placeholders (`%(name)s`) and their values separately, so that
    it can be translated. A time among the values is a UTC datestamp, unless the page shows it otherwise.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAULT
    failure: Failure | None = None
    """The failure as a code with facts, if the error has one; rows store it besides the message. An error
    without one uses that of its cause (`failure_of`).
    """

    def __init__(self, message: str = "", **values: object) -> None:
        super().__init__(
            message % {name: _plain(value) for name, value in values.items()} if values else message
        )
        self._words, self._values = message, values

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Support pickling for other processes; a subclass's constructor need not take the message."""
        return _rebuilt, (type(self), self.args, self.__dict__)

    def in_words(
        self, translate: Callable[[str], str], clock: Callable[[datetime], str] = format_datestamp
    ) -> str:
        """Return the message in another language; `translate` keeps the placeholders, `clock` shows times."""
        words = translate(self._words)
        values = {name: _in_words(value, translate, clock) for name, value in self._values.items()}
        return words % values if values else words

    def parts(self) -> dict[str, Any]:
        """Return the message as JSON for another process, in which `of_parts` makes an error of it."""
        values = {name: _parts(value) for name, value in self._values.items()}
        return {"words": self._words, "values": values}

    @classmethod
    def of_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return an error with this message."""
        values = {
            name: ZatvaError.of_parts(value) if isinstance(value, dict) else value
            for name, value in parts["values"].items()
        }
        return cls(parts["words"], **values)


def required(value: _Value | None, why: str) -> _Value:
    """Return a value that exists for the reason `why`. Raises RuntimeError if it does not."""
    if value is None:
        raise RuntimeError(f"internal error: missing although {why}")
    return value


def of_kind(value: object, kind: type[_Value], why: str) -> _Value:
    """Return a value that has that class for the reason `why`. Raises RuntimeError if it has not."""
    if not isinstance(value, kind):
        raise RuntimeError(f"internal error: not {kind.__name__} although {why}")  # noqa: TRY004 no argument
    return value


def failure_of(error: BaseException) -> Failure:
    """Return the failure of the error as a code with facts: its own, or that of its nearest cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ZatvaError) and cause.failure is not None:
            url = getattr(cause, "url", "")
            facts = {"url": url, **cause.failure.facts} if url else cause.failure.facts
            return Failure(code=cause.failure.code, facts=facts)
        cause = cause.__cause__
    if isinstance(error, ZatvaError):
        return Failure(code=_OF_CLASS.get(error.exit_code, FailureCode.OTHER))
    return Failure(code=FailureCode.INTERNAL_ERROR, facts={"error": type(error).__name__})


def _rebuilt(kind: type[ZatvaError], args: tuple[object, ...], state: dict[str, object]) -> ZatvaError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def _plain(value: object) -> object:
    return format_datestamp(value) if isinstance(value, datetime) else value


def _in_words(value: object, translate: Callable[[str], str], clock: Callable[[datetime], str]) -> object:
    if isinstance(value, ZatvaError | Phrase):
        return value.in_words(translate, clock)
    return clock(value) if isinstance(value, datetime) else value


def _parts(value: object) -> object:
    if isinstance(value, Phrase):
        value = value.error
    return value.parts() if isinstance(value, ZatvaError) else _plain(value)


_OF_CLASS: Final[Mapping[ExitCode, FailureCode]] = {
    ExitCode.USAGE: FailureCode.REQUEST_INVALID,
    ExitCode.NOT_READY: FailureCode.REQUEST_INVALID,
    ExitCode.STRICT_CHECK: FailureCode.INVALID,
    ExitCode.TRY_LATER: FailureCode.SERVER_BUSY,
    ExitCode.INTERRUPTED: FailureCode.INTERRUPTED,
}
"""Codes of errors without their own code, by branch of the tree."""


class UsageError(ZatvaError):
    """The command line asks for something impossible."""

    exit_code = ExitCode.USAGE


class ConflictError(UsageError):
    """What is asked for is impossible in the current state of an object; the API responds 409."""


class SettingsError(ZatvaError):
    """A setting is wrong or missing."""

    exit_code = ExitCode.NOT_READY


class DatabaseNotReadyError(ZatvaError):
    """The database cannot be reached or written to, or its tables are not those of this version."""

    exit_code = ExitCode.NOT_READY
    failure = Failure(code=FailureCode.DATABASE)


class ProtocolError(ZatvaError):
    """One OAI-PMH error condition (specification, section 3.6)."""

    exit_code = ExitCode.REMOTE_FAILED

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class MalformedXmlError(ZatvaError):
    """Bytes that are not well-formed XML, or XML that is refused (document type declaration, size)."""

    exit_code = ExitCode.REMOTE_FAILED

    def __init__(
        self,
        source: str,
        reason: str,
        *,
        line: int = 0,
        column: int = 0,
        code: FailureCode = FailureCode.RECORD_XML,
    ) -> None:
        where = f"{source}, line {line}, column {column}" if line else source
        super().__init__(f"{where}: {reason}")
        self.failure = Failure(code=code, facts={"line": line, "column": column} if line else {})
        self.source = source
        self.reason = reason
        self.line = line
        self.column = column


class XmlLimitError(MalformedXmlError):
    """XML with more elements, levels or bytes than the limits allow; `failure` states which."""

    failure: Failure

    def __init__(self, source: str, failure: Failure) -> None:
        super().__init__(source, failure.sentence())
        self.failure = failure


class RemoteError(ZatvaError):
    """The remote server failed."""

    exit_code = ExitCode.REMOTE_FAILED


class StrictCheckError(ZatvaError):
    """Strict checking found a fault and stopped the work."""

    exit_code = ExitCode.STRICT_CHECK


class TryLaterError(ZatvaError):
    """The same may succeed later, for example because the remote server asked to wait."""

    exit_code = ExitCode.TRY_LATER


class InterruptedRunError(ZatvaError):
    """The user interrupted; the work can be resumed."""

    exit_code = ExitCode.INTERRUPTED
