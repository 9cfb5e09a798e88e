"""Statistics of harvesters: writes the processes' counts to the tables and reads them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from aiohttp import web
from sqlalchemy import NullPool, case, create_engine, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import Database, first_line
from oai.datestamps import utc_now
from oai.logs import RareWarning
from oai.models import Base, from_row
from oai.vocabulary import Verb
from provider.clients.models import ProviderClient, ProviderClientError, ProviderList
from provider.clients.stats import StatsBatch
from provider.http.keys import DATABASE, SETTINGS
from provider.http.middleware import OBSERVERS

_FORGOTTEN_AT_ONCE: Final = 10_000
_ROWS_AT_ONCE: Final = 1000

Place = tuple[datetime, UUID]
"""Position in the order of last requests: the time and the key."""


class ListState(StrEnum):
    """The state of a list."""

    UNDER_WAY = "under way"
    FINISHED = "finished"
    ABANDONED = "abandoned"
    """Not finished, and without a request for a configured time."""


@dataclass(frozen=True, kw_only=True)
class Harvester:
    """A client and its requests so far."""

    key: UUID
    address: str
    user_agent: str
    sender: str
    first_request: datetime
    last_request: datetime
    requests: int
    bytes_sent: int
    refused: int
    errors: dict[str, int]
    """Answers by OAI-PMH error code."""
    under_way: int
    """Lists by their state."""
    finished: int
    abandoned: int


@dataclass(frozen=True, kw_only=True)
class HarvestedList:
    """A list of one client, and the client's progress through it."""

    key: UUID
    client: UUID
    verb: str
    metadata_prefix: str
    set_spec: str
    from_date: datetime | None
    until_date: datetime | None
    started: datetime
    last_request: datetime
    requests: int
    passed: int
    complete_size: int | None
    state: ListState


def write_down(session: Session, batch: StatsBatch) -> None:
    """Add a batch to the tables, one statement per table and part; the caller commits."""
    # Sorted by key, so that processes that write the same rows lock them in the same order and never
    # deadlock.
    clients = sorted(batch.clients.items(), key=lambda pair: pair[0].key)
    rows = [
        {
            "key": client.key,
            "address": client.address,
            "user_agent": client.user_agent,
            "sender": client.sender,
            "first_request": count.first,
            "last_request": count.last,
            "requests": count.requests,
            "bytes_sent": count.sent,
            "refused": count.refused,
        }
        for client, count in clients
    ]
    _upsert(session, ProviderClient, rows, _client_changes)
    errors = [
        {"client_key": client.key, "code": code, "answers": answers}
        for client, count in clients
        for code, answers in sorted(count.codes.items())
    ]
    _upsert(session, ProviderClientError, errors, _error_changes)
    _upsert(session, ProviderList, sorted(_list_rows(batch), key=lambda row: row["key"]), _list_changes)


def forget(session: Session, older_than: timedelta) -> int:
    """Remove clients and lists without a request for that long; return their number. The caller commits."""
    before = utc_now() - older_than
    removed = 0
    for table in (ProviderList, ProviderClient):
        old = select(table.key).where(table.last_request < before).limit(_FORGOTTEN_AT_ONCE)
        removed += len(session.scalars(delete(table).where(table.key.in_(old)).returning(table.key)).all())
    return removed


def harvesters(
    session: Session, *, abandoned_after: timedelta, limit: int | None = None, before: Place | None = None
) -> list[Harvester]:
    """Return the clients, latest first; only those before the position `before`."""
    latest = (ProviderClient.last_request, ProviderClient.key)
    wanted = select(ProviderClient).order_by(*(column.desc() for column in latest)).limit(limit)
    if before is not None:
        wanted = wanted.where(tuple_(*latest) < before)
    clients = session.scalars(wanted).all()
    keys = [client.key for client in clients]
    errors = _errors(session, keys)
    counts = _list_counts(session, keys, abandoned_after)
    return [
        from_row(
            Harvester,
            client,
            errors=errors[client.key],
            under_way=counts.get((client.key, ListState.UNDER_WAY), 0),
            finished=counts.get((client.key, ListState.FINISHED), 0),
            abandoned=counts.get((client.key, ListState.ABANDONED), 0),
        )
        for client in clients
    ]


def harvested_lists(
    session: Session,
    *,
    abandoned_after: timedelta,
    client: UUID | None = None,
    limit: int = 1000,
    before: Place | None = None,
) -> list[HarvestedList]:
    """Return the lists of one client or of all, latest first; only those before the position `before`."""
    latest = (ProviderList.last_request, ProviderList.key)
    wanted = select(ProviderList, _state(abandoned_after)).order_by(*(column.desc() for column in latest))
    if before is not None:
        wanted = wanted.where(tuple_(*latest) < before)
    if client is not None:
        wanted = wanted.where(ProviderList.client_key == client)
    return [
        from_row(HarvestedList, row, client=row.client_key, state=ListState(state))
        for row, state in session.execute(wanted.limit(limit))
    ]


def _errors(session: Session, keys: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Return for each client the answers by error code."""
    found: dict[UUID, dict[str, int]] = {key: {} for key in keys}
    for error in session.scalars(
        select(ProviderClientError)
        .where(ProviderClientError.client_key.in_(keys))
        .order_by(ProviderClientError.code)
    ):
        found[error.client_key][error.code] = error.answers
    return found


def _list_counts(
    session: Session, keys: Sequence[UUID], abandoned_after: timedelta
) -> dict[tuple[UUID, str], int]:
    state = _state(abandoned_after).label("state")
    counted = (
        select(ProviderList.client_key, state, func.count())
        .where(ProviderList.client_key.in_(keys))
        .group_by(ProviderList.client_key, state)
    )
    return {(key, found): number for key, found, number in session.execute(counted)}


def _state(abandoned_after: timedelta) -> Any:  # noqa: ANN401 an SQL expression
    """Return the state as an SQL expression; a finished list that is requested again is under way."""
    return case(
        (ProviderList.finished >= ProviderList.last_request, ListState.FINISHED.value),
        (ProviderList.last_request < utc_now() - abandoned_after, ListState.ABANDONED.value),
        else_=ListState.UNDER_WAY.value,
    )


def _list_rows(batch: StatsBatch) -> Iterator[dict[str, Any]]:
    for list_, count in batch.lists.items():
        yield {
            "key": list_.key,
            "client_key": list_.client.key,
            "verb": list_.verb,
            "metadata_prefix": list_.metadata_prefix,
            "set_spec": list_.set_spec,
            "from_date": list_.from_,
            "until_date": list_.until,
            "started": count.first,
            "last_request": count.last,
            "requests": count.requests,
            "passed": count.passed,
            "complete_size": count.size,
            "finished": count.finished,
        }


def _upsert(session: Session, table: type[Base], rows: list[dict[str, Any]], changes: Any) -> None:  # noqa: ANN401 defined below
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        new = insert(table).values(rows[start : start + _ROWS_AT_ONCE])
        session.execute(
            new.on_conflict_do_update(index_elements=list(table.__table__.primary_key), set_=changes(new))
        )


def _client_changes(new: Insert) -> dict[str, Any]:
    # Computed from the row as it is when locked, so that no count of a concurrent process is lost.
    own, more = ProviderClient, new.excluded
    return {
        "first_request": func.least(own.first_request, more.first_request),
        "last_request": func.greatest(own.last_request, more.last_request),
        **{name: getattr(own, name) + more[name] for name in ("requests", "bytes_sent", "refused")},
    }


def _error_changes(new: Insert) -> dict[str, Any]:
    return {"answers": ProviderClientError.answers + new.excluded.answers}


def _list_changes(new: Insert) -> dict[str, Any]:
    own, more = ProviderList, new.excluded
    # Keys of set lists contain no time of the first request, so a repeated list updates the same row.
    furthest = func.greatest(own.passed, more.passed)
    return {
        "started": func.least(own.started, more.started),
        "last_request": func.greatest(own.last_request, more.last_request),
        "requests": own.requests + more.requests,
        "passed": case((own.verb == Verb.LIST_SETS.value, more.passed), else_=furthest),
        "complete_size": func.coalesce(more.complete_size, own.complete_size),
        "finished": func.greatest(own.finished, more.finished),
    }


_SECONDS: Final = 5.0
_HOUR: Final = 3600.0
_OPTIONS: Final = "-c timezone=UTC -c statement_timeout=5000 -c lock_timeout=2000 -c synchronous_commit=off"

_log = logging.getLogger("provider.http.bookkeeping")


class StatsWriter:
    """Writes batches to the database over a dedicated connection, open only while it writes."""

    def __init__(self, database: Database, *, kept: timedelta) -> None:
        self._kept = kept
        self._unsaved = RareWarning(_log)
        self._engine = create_engine(
            database.url,
            poolclass=NullPool,
            connect_args={
                "options": _OPTIONS,
                "application_name": "zatva bookkeeping",
                "connect_timeout": 5,
            },
        )
        self._next_forgetting = time.monotonic()

    def write(self, batch: StatsBatch) -> bool:
        """Write a batch, and periodically delete old rows; return whether the batch was written."""
        is_written = False
        try:
            with self._engine.connect() as connection, Session(connection) as session:
                write_down(session, batch)
                session.commit()
                is_written = True
                if time.monotonic() > self._next_forgetting:
                    self._forget(session)
        except SQLAlchemyError as error:
            self._unsaved.warn(f"statistics of harvesters could not be saved: {first_line(error)}")
        return is_written

    def _forget(self, session: Session) -> None:
        self._next_forgetting = time.monotonic() + _HOUR
        try:
            forget(session, self._kept)
            session.commit()
        except SQLAlchemyError as error:
            _log.info("statistics of old harvesters could not be deleted: %s", first_line(error))


async def write_statistics(app: web.Application) -> AsyncIterator[None]:
    """Write the counts in a thread while the application runs, and a last time when it stops.

    A batch that cannot be written stays in memory, which the tally limits, until the next attempt.
    """
    tally = app[OBSERVERS].tally
    writer = StatsWriter(app[DATABASE], kept=timedelta(days=app[SETTINGS].provider.client_days))
    stopping = asyncio.Event()

    # `take` and `put_back` run in the event loop's thread; only the batch that was taken, which no other
    # code still refers to, goes to the thread.
    async def write() -> None:
        batch = tally.take()
        if batch.clients and not await asyncio.to_thread(writer.write, batch):
            tally.put_back(batch)

    async def keep_writing() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _SECONDS)
            await write()

    task = asyncio.create_task(keep_writing())
    yield
    stopping.set()
    await task
