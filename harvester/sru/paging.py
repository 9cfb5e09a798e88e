"""Where a result is to be gone on with, judged from what came; does no input or output.

Servers cap how many records come at once, leave nextRecordPosition out, count anew for each request. So the
next position is always behind the records that came, and what the server says otherwise is noted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harvester.client.places import Place
from harvester.reading.answers import Fault, ResumptionToken
from harvester.sru.answers import Result
from oai.failures import Failure, FailureCode


@dataclass(frozen=True, kw_only=True)
class Step:
    """What follows from an answer."""

    place: Place
    """Where to go on."""
    ended: bool
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    def resumption_token(self, start: Place) -> ResumptionToken:
        """The token of the page that began at the place; its value is empty at the end."""
        value = "" if self.ended else self.place.token()
        return ResumptionToken(value=value, cursor=start.position - 1, complete_list_size=self.place.size)


def next_step(start: Place, result: Result) -> Step:
    """Where to go on behind an answer that began at the place."""
    came = len(result.records)
    following = start.position + came
    size = start.size if result.size is None else result.size
    at_end = result.next_position is None if size is None else following > size
    ended = at_end or not came
    return Step(
        place=Place(position=following, size=size),
        ended=ended,
        notes=tuple(_oddities(start, result, following, ended=ended)),
        faults=tuple(_faults(start, result)),
    )


def _oddities(start: Place, result: Result, following: int, *, ended: bool) -> Iterator[str]:
    size, told = result.size, result.next_position
    if size is None:
        yield "the answer does not declare the number of records (numberOfRecords)"
    elif not result.records:
        yield f"no records were returned from position {start.position:,}, although there are {size:,}"
    elif start.size is not None and size > start.size:
        yield "numberOfRecords grew while the result was read; it may have to be harvested again"
    if ended or not result.records:
        return
    if told is None:
        yield "nextRecordPosition is missing although there are more records"
    elif told != following:
        yield f"nextRecordPosition is {told:,}, but the records continue at {following:,}"


def _faults(start: Place, result: Result) -> Iterator[Fault]:
    yield from start.faults(result.size)
    for found in result.records:
        if found.metadata is None:
            reason = f"record at position {found.position:,}: {found.reason}"
            failure = Failure(code=FailureCode.RECORD_STRUCTURE)
            yield Fault(offset=-1, reason=reason, raw=found.raw, failure=failure)
