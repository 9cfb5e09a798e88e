"""Lists of repositories, chosen by their state and in a chosen order, page by page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import nlargest, nsmallest
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Select, case, cast, exists, func, select, true, tuple_
from sqlalchemy.orm import Session

from harvester.listing import Among, matching_repositories
from harvester.models import Harvest, History, Repository
from manager.jobs.runs import needs_attention
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from oai.folding import folded
from oai.owners import RepositoryOwner


class Order(StrEnum):
    """What a list of repositories is sorted by; repositories with equal values follow by number."""

    NUMBER = "number"
    NAME = "name"
    STATE = "state"
    RECORDS = "records"
    LAST = "last"
    NEXT = "next"


class RepositoryFilter(StrEnum):
    """States to choose repositories by."""

    TROUBLE = "trouble"
    """The last run needs attention."""
    PAUSED = "paused"
    """A schedule is paused."""
    NEVER = "never"
    """No run yet."""


Place = tuple[int | str, int]
"""Value that the list is sorted by, and number of the repository: where a page ends."""
_NEVER_DUE: Final = 2**62
_OF_LAST_RUN: Final = frozenset(
    {Order.STATE, Order.RECORDS, Order.LAST, RepositoryFilter.TROUBLE, RepositoryFilter.NEVER}
)
"""Orders and states that need each repository's last run."""


@dataclass(frozen=True, kw_only=True)
class RepositoryChoice:
    """Which repositories a list has, and in which order."""

    among: Among = None
    search: str | None = None
    state: RepositoryFilter | None = None
    metadata_prefix: str | None = None
    """A format that has been harvested."""
    organisation_id: int | None = None
    order: Order = Order.NUMBER
    descending: bool = False


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A repository in a list."""

    repository: Repository
    place: Place


def list_repositories(
    session: Session, choice: RepositoryChoice, *, limit: int, after: Place | None = None
) -> Sequence[Listed]:
    """Return the chosen repositories in order, after the one at the place `after`."""
    last = _last_run()
    query = matching_repositories(choice.search, choice.among)
    if choice.order in _OF_LAST_RUN or choice.state in _OF_LAST_RUN:
        query = query.outerjoin(last, true())
    query = _chosen(query, choice, last)
    if choice.order is Order.NAME:
        return _by_name(session, query, limit=limit, after=after, descending=choice.descending)
    value = _value(choice.order, last)
    query = query.add_columns(value)
    # With the number, no two places are equal, so that no page omits or repeats repositories of equal values.
    place = tuple_(value, Repository.repository_id)
    if after is not None:
        query = query.where(place < after if choice.descending else place > after)
    columns = (value, Repository.repository_id)
    query = query.order_by(*(one.desc() if choice.descending else one for one in columns)).limit(limit)
    return [
        Listed(repository=repository, place=(found, repository.repository_id))
        for repository, found in session.execute(query)
    ]


def _by_name(
    session: Session, query: Select[Any], *, limit: int, after: Place | None, descending: bool
) -> Sequence[Listed]:
    """Return the repositories by name; folded here, which takes less time than in PostgreSQL."""
    names = session.execute(query.with_only_columns(Repository.repository_id, Repository.display_name))
    places: Iterable[tuple[str, int]] = ((folded(name), number) for number, name in names)
    if after is not None:
        places = (place for place in places if (place < after if descending else place > after))
    kept = (nlargest if descending else nsmallest)(limit, places)
    rows = session.scalars(select(Repository).where(Repository.repository_id.in_(at for _name, at in kept)))
    known = {row.repository_id: row for row in rows}
    return [Listed(repository=known[place[1]], place=place) for place in kept if place[1] in known]


def _last_run() -> Any:  # noqa: ANN401 an SQL expression
    columns = (History.status, History.failure_code, History.record_count, History.harvest_end_time)
    runs = select(*columns).where(
        History.repository_id == Repository.repository_id, History.continued_by.is_(None)
    )
    return runs.order_by(History.history_id.desc()).limit(1).lateral("last_run")


def _value(order: Order, last: Any) -> ColumnElement[Any]:  # noqa: ANN401 an SQL expression
    """Return what the list is sorted by; never NULL, which has no place in a comparison."""
    due = (
        select(func.min(Job.harvest_start_time))
        .where(
            Job.repository_id == Repository.repository_id,
            Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED)),
        )
        .correlate(Repository)
        .scalar_subquery()
    )
    values: dict[Order, ColumnElement[Any]] = {
        Order.NUMBER: Repository.repository_id.expression,
        Order.STATE: case((needs_attention(last.c), 0), (last.c.status.is_(None), 1), else_=2),
        Order.RECORDS: func.coalesce(last.c.record_count, -1),
        Order.LAST: func.coalesce(_microseconds(last.c.harvest_end_time), 0),
        Order.NEXT: func.coalesce(_microseconds(due), _NEVER_DUE),
    }
    return values[order]


def _microseconds(moment: Any) -> ColumnElement[int]:  # noqa: ANN401 an SQL expression
    """Return a time as a whole number, which addresses carry exactly."""
    return cast(func.extract("epoch", moment) * 1_000_000, BigInteger)


def _chosen(query: Select[Any], choice: RepositoryChoice, last: Any) -> Select[Any]:  # noqa: ANN401 an SQL expression
    number = Repository.repository_id
    if choice.state is RepositoryFilter.TROUBLE:
        query = query.where(needs_attention(last.c))
    elif choice.state is RepositoryFilter.NEVER:
        query = query.where(last.c.status.is_(None))
    elif choice.state is RepositoryFilter.PAUSED:
        paused = exists().where(
            RecurringJob.repository_id == number, RecurringJob.state == RecurringState.PAUSED
        )
        query = query.where(paused)
    if choice.metadata_prefix is not None:
        harvested = exists().where(
            Harvest.repository_id == number, Harvest.metadata_prefix == choice.metadata_prefix
        )
        query = query.where(harvested)
    if choice.organisation_id is not None:
        query = query.where(
            exists().where(
                RepositoryOwner.repository_id == number,
                RepositoryOwner.organisation_id == choice.organisation_id,
            )
        )
    return query
