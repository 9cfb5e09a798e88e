"""Which runs the history shows: the filters of its address, read, and written again for links."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from harvester.vocabulary import RunStatus
from manager.runs import TROUBLED, Choice
from web.access import visible_repositories, who_asks
from web.lookups import chosen_repository
from web.zones import midnight

_DAY: Final = timedelta(days=1)
TROUBLE: Final = "trouble"
"""The filter for every status that somebody should look at."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The filters of the history as they stand in the address."""

    repository: int | None
    status: str
    prefix: str
    words: str
    since: date | None
    until: date | None

    @property
    def any(self) -> bool:
        """Whether anything is filtered."""
        return any((self.repository, self.status, self.prefix, self.words, self.since, self.until))

    def query(self, **more: object) -> str:
        """The address's query with these filters, and what is added; `?` and all, or nothing."""
        pairs = {
            "repository": self.repository,
            "status": self.status,
            "format": self.prefix,
            "find": self.words,
            "since": self.since,
            "until": self.until,
            **more,
        }
        given = {name: str(value) for name, value in pairs.items() if value}
        return f"?{urlencode(given)}" if given else ""

    def choice(self, request: web.Request) -> Choice:
        """The runs that they choose, among those that may be seen."""
        statuses = None
        if self.status == TROUBLE:
            statuses = frozenset(status.value for status in TROUBLED)
        elif self.status:
            statuses = frozenset({self.status})
        return Choice(
            repository_id=self.repository,
            statuses=statuses,
            metadata_prefix=self.prefix or None,
            words=self.words or None,
            since=midnight(self.since) if self.since else None,
            until=midnight(self.until + _DAY) if self.until else None,
            among=visible_repositories(who_asks(request)),
        )


def filters_of(request: web.Request) -> Filters:
    """The filters in the address; what cannot be read is left out."""
    query = request.query
    status = query.get("status", "")
    return Filters(
        repository=chosen_repository(request),
        status=status if status == TROUBLE or status in set(RunStatus) else "",
        prefix=query.get("format", "").strip(),
        words=query.get("find", "").strip().replace("\0", ""),
        since=_date(query.get("since", "")),
        until=_date(query.get("until", "")),
    )


def _date(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if date.min < found < date.max else None
