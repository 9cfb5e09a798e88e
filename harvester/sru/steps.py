"""Where a list continues after an answer to a search, and what is wrong with that answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harvester.client.query_results import QueryCursor
from harvester.reading.answers import Fault
from harvester.sru.answers import SruResult
from oai.failures import Failure, FailureCode

_PARTIAL: Final = frozenset({"58", "59"})
"""Diagnostics beside records: the result set is partial, with unpredictable or with valid results."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What follows from an answer."""

    place: QueryCursor
    """The position from which to continue."""
    ended: bool
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def next_step(start: QueryCursor, result: SruResult, *, announces: bool = False) -> Step:
    """Return the position after an answer that began at `start`.

    `announces` says whether earlier answers of the list announced a next position.
    """
    following = start.position + len(result.records)
    size = _size(start, result)
    if size is None:
        # A server that never announces a next position shows the end only by an answer without records.
        at_end = announces and not result.next_position  # some servers write 0
    else:
        # numberOfRecords may be an estimate. If anything contradicts it, the position behind the last known
        # record is requested, too: the answer is empty or a diagnostic if there is no such record.
        doubtful = _is_too_small(result, following) or announces_more(result, following)
        at_end = following > size and not doubtful
    ended = at_end or not result.records
    place = QueryCursor(position=following, size=size)
    return Step(
        place=place,
        ended=ended,
        notes=tuple(_oddities(start, result, place, ended=ended)),
        faults=tuple(_faults(start, result, size)),
    )


def _size(start: QueryCursor, result: SruResult) -> int | None:
    """Return numberOfRecords or, if it is too small, the number of records that there are at least."""
    following = start.position + len(result.records)
    if result.size is None or (not result.records and _is_too_small(result, following)):
        return start.size
    if not _is_too_small(result, following):
        return result.size
    return following if announces_more(result, following) else following - 1


def _is_too_small(result: SruResult, following: int) -> bool:
    return result.size is not None and result.size < following - 1


def announces_more(result: SruResult, following: int) -> bool:
    """Return whether an answer announces records from the position `following` on."""
    return result.next_position is not None and result.next_position >= following


def _oddities(start: QueryCursor, result: SruResult, place: QueryCursor, *, ended: bool) -> Iterator[str]:
    size, declared, following = result.size, result.next_position, place.position
    if size is None:
        yield "the answer does not declare the number of records (numberOfRecords)"
    elif not result.records:
        if not start.is_past_end:
            known = max(size, start.size or 0)
            yield f"no records were returned from position {start.position:,}, although there are {known:,}"
    elif _is_too_small(result, following):
        yield f"numberOfRecords is {size:,}, but records were returned up to position {following - 1:,}"
    elif start.size is not None and size > start.size:
        yield "numberOfRecords grew while the result was read; it may have to be harvested again"
    if ended or place.is_past_end or (size is None and not declared):
        return
    if declared is None:
        yield "nextRecordPosition is missing although there are more records"
    elif declared != following:
        yield f"nextRecordPosition is {declared:,}, but the records continue at {following:,}"


def _faults(start: QueryCursor, result: SruResult, size: int | None) -> Iterator[Fault]:
    yield from start.faults(size)
    for diagnostic in result.diagnostics:
        if diagnostic.code in _PARTIAL:
            reason = f"the result is not complete; the server says: {diagnostic.in_words()}"
            failure = Failure(code=FailureCode.RECORDS_MISSING)
            yield Fault(offset=-1, reason=reason, raw=b"", failure=failure)
    for found in result.records:
        if found.reason:
            reason = f"record at position {found.position:,}: {found.reason}"
            failure = Failure(code=FailureCode.RECORD_STRUCTURE)
            yield Fault(offset=-1, reason=reason, raw=found.raw, failure=failure)
