"""Read a result page by page; leniently, skipping the parts that cannot be read."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from harvester.client.query_results import UNKNOWN_DATE, QueryCursor, wrapped
from harvester.reading.answers import Fault, Page, ResumptionToken
from harvester.reading.errors import (
    AnswerTooLargeError,
    ClientError,
    HttpStatusError,
    MalformedAnswerError,
    NoRecordsMatchError,
    TransportError,
    TransportKind,
)
from harvester.sru.answers import SruResult, as_oai_dc
from oai.datestamps import format_datestamp, utc_now
from oai.errors import failure_of
from oai.failures import Failure, FailureCode


@dataclass(frozen=True, kw_only=True)
class Step:
    """What follows from an answer."""

    place: QueryCursor
    """The position from which to continue."""
    ended: bool
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    def resumption_token(self, start: QueryCursor) -> ResumptionToken:
        """Return the token after the page that began at `start`; its value is empty at the end."""
        value = "" if self.ended else self.place.token()
        return ResumptionToken(value=value, cursor=start.position - 1, complete_list_size=self.place.size)


def next_step(start: QueryCursor, result: SruResult) -> Step:
    """Return the position after an answer that began at `start`."""
    came = len(result.records)
    following = start.position + came
    size = start.size if result.size is None else result.size
    at_end = result.next_position is None if size is None else following > size
    ended = at_end or not came
    return Step(
        place=QueryCursor(position=following, size=size),
        ended=ended,
        notes=tuple(_oddities(start, result, following, ended=ended)),
        faults=tuple(_faults(start, result)),
    )


def _oddities(start: QueryCursor, result: SruResult, following: int, *, ended: bool) -> Iterator[str]:
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


def _faults(start: QueryCursor, result: SruResult) -> Iterator[Fault]:
    yield from start.faults(result.size)
    for found in result.records:
        if found.metadata is None:
            reason = f"record at position {found.position:,}: {found.reason}"
            failure = Failure(code=FailureCode.RECORD_STRUCTURE)
            yield Fault(offset=-1, reason=reason, raw=found.raw, failure=failure)


_MOST_UNREADABLE: Final = 20
_SERVER_ERROR: Final = 500

Search = Callable[[int, int], Awaitable[tuple[SruResult, str]]]
"""Requests records, given the first position and their number; returns the answer and its address."""


class UnreadableResultError(ClientError):
    """So many records in a row fail, even singly, that no further ones are requested."""

    def __init__(self, url: str, position: int, error: ClientError) -> None:
        super().__init__(
            f"{url}: the records up to position {position:,} cannot be read, not even one by one "
            f"({error}); narrow the query to exclude them"
        )
        self.url = url


@dataclass(kw_only=True)
class Reader:
    """Reads the pages of one result."""

    url: str
    """The address of the service."""
    prefix: str
    """The prefix of the records' identifiers."""
    as_dc: bool
    search: Search
    brisk: Search
    """The same with few retries, for requests of which many fail."""
    place: QueryCursor
    loose: bool
    most: int | None = None
    """The reduced page size, if larger pages failed."""
    unreadable: int = 0
    """Records in a row that could not be read."""

    async def page(self, usual: int) -> Page:
        """Return the next page; `usual` is the page size when there are no errors."""
        search = self.brisk if self.unreadable else self.search
        while True:
            most = min(self.most or usual, usual)
            try:
                result, url = await search(self.place.position, most)
            except ClientError as error:
                if not self.loose or not _may_be_one_record(error):
                    raise
                search, self.most = self.brisk, max(most // 2, 1)
                if most == 1:
                    return self._passed_over(error)
                continue
            self.most = None if self.most is None or self.most * 2 >= usual else self.most * 2
            self.unreadable = 0
            return self._taken(result, url)

    def _taken(self, result: SruResult, url: str) -> Page:
        start = self.place
        if result.size == 0 and not result.records:
            raise NoRecordsMatchError(
                url, "noRecordsMatch", "the query finds no records", response_date=format_datestamp(utc_now())
            )
        step = next_step(start, result)
        self.place = step.place
        page = self._page(result, url, start, step)
        if page.faults and not self.loose:
            raise MalformedAnswerError(url, page.faults[0].reason)
        return page

    def _page(self, result: SruResult, url: str, start: QueryCursor, step: Step) -> Page:
        records = tuple(
            wrapped(
                as_oai_dc(found.metadata) if self.as_dc else found.metadata,
                prefix=self.prefix,
                own=found.identifier,
            )
            for found in result.records
            if found.metadata is not None
        )
        notes = [f"the server says: {told.in_words()}" for told in result.diagnostics]
        if any(record.header.datestamp == UNKNOWN_DATE for record in records):
            notes.append(f"records without a date of change are dated {UNKNOWN_DATE}")
        return Page(
            url=url,
            response_date=format_datestamp(utc_now()),
            headers=tuple(record.header for record in records),
            records=records,
            token=step.resumption_token(start),
            faults=step.faults,
            notes=(*step.notes, *notes),
        )

    def _passed_over(self, error: ClientError) -> Page:
        """Return a page that contains only the fault of the one record that failed."""
        self.unreadable += 1
        start = self.place
        if self.unreadable > _MOST_UNREADABLE or (start.size is None and start.position == 1):
            raise UnreadableResultError(self.url, start.position, error) from error
        self.place = replace(start, position=start.position + 1)
        ended = start.size is not None and self.place.position > start.size
        reason = f"record at position {start.position:,} is not available: {error}"
        return Page(
            url=self.url,
            response_date=format_datestamp(utc_now()),
            token=ResumptionToken(
                value="" if ended else self.place.token(),
                cursor=start.position - 1,
                complete_list_size=start.size,
            ),
            faults=(Fault(offset=-1, reason=reason, raw=error.raw, failure=failure_of(error)),),
        )


def _may_be_one_record(error: ClientError) -> bool:
    """Return whether a single record may be the cause of the failure."""
    if isinstance(error, TransportError):
        return error.kind in {TransportKind.TIMEOUT, TransportKind.DISCONNECTED}
    if isinstance(error, HttpStatusError):
        return error.status >= _SERVER_ERROR
    return isinstance(error, (AnswerTooLargeError, MalformedAnswerError))
