"""What could not be taken in, as a value: which part of the repository, why, and the bytes that came."""

import hashlib
import uuid
from dataclasses import dataclass

from harvester.store.paths import identifier_key
from oai.errors import StrictCheckError
from oai.failures import Failure

_KEY_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A record, or a part of an answer, that could not be read."""

    reason: str
    url: str
    identifier: str | None = None
    """Where it is known, or the broken bytes name one."""
    offset: int | None = None
    """Where the bytes begin in the answer; None where the whole answer is meant."""
    raw: bytes = b""
    size: int | None = None
    """Of what could not be read, if `raw` is only its beginning."""
    failure: Failure
    """Why, as a code with facts."""

    def in_words(self) -> str:
        """For the run's warnings."""
        where = f", byte {self.offset:,}" if self.offset is not None else ""
        named = f"record {self.identifier!r}: "
        shown = named if self.identifier and self.identifier not in self.reason else ""
        told = self.reason.removeprefix(f"{self.url}: ")
        return f"{self.url}{where}: {shown}{told}"

    def noted(self) -> Failure:
        """For the run's warnings: with `fault_key`, by which its row in `oai_quarantine` is found."""
        return Failure(code=self.failure.code, facts={**self.failure.facts, "fault_key": self.key().hex})

    def key(self) -> uuid.UUID:
        """What makes it the same fault when it is met again."""
        if self.identifier is not None:
            return identifier_key(self.identifier)
        told = self.raw or f"{self.url} {self.reason}".encode()
        return uuid.UUID(bytes=hashlib.sha256(told).digest()[:_KEY_BYTES])


class RefusedRecordError(StrictCheckError):
    """A record ended a strict run; the run keeps it in quarantine."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal
