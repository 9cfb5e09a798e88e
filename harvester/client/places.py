"""Places in the result of a query, which are told by position, and stand in resumption tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harvester.reading.answers import Fault
from oai.errors import UsageError
from oai.failures import Failure, FailureCode

_TOKEN: Final = re.compile(r"([1-9][0-9]{0,17})(?:/([0-9]{1,18}))?")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place in a result: the position to go on from, and how many records there were so far."""

    position: int = 1
    size: int | None = None

    def token(self) -> str:
        """As a resumption token."""
        return f"{self.position}" if self.size is None else f"{self.position}/{self.size}"

    def faults(self, size: int | None) -> Iterator[Fault]:
        """What is wrong where an answer that begins here says that the result has another size by now.

        What was taken out before this place has moved later records to positions that were read already.
        """
        if size is not None and self.size is not None and size < self.size:
            failure = Failure(code=FailureCode.RECORDS_MISSING, facts={"count": self.size - size})
            reason = (
                f"the number of records fell from {self.size:,} to {size:,} while the result was "
                "read, so records may be missing; harvest again"
            )
            yield Fault(offset=-1, reason=reason, raw=b"", failure=failure)


def read_place(token: str) -> Place:
    """The place that a token names; the beginning where it is empty. Raises UsageError."""
    if not token:
        return Place()
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise UsageError(f"{token!r} is not a valid position in a result; harvest with --full")
    return Place(position=int(match[1]), size=int(match[2]) if match[2] else None)
