"""Which captures an export has: those of look-ups, of a set or of a title, within times."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from sqlalchemy import Select, select, true
from sqlalchemy.orm import Session

from oai.database import Database
from oai.datestamps import format_datestamp
from oai.errors import UsageError
from provider.export.sorted_lines import SortedLines
from provider.holdings.lookup import MatchType, Query, find_captures
from provider.models import UNLISTED, Document
from provider.protocol.scopes import find_scope
from provider.titles.document_sets import documents_between
from provider.titles.models import TitleSegment

_AT_ONCE: Final = 1000
_DIGITS: Final = 19
"""Of a bigint, so that the order of texts is that of numbers."""


class ChosenTitle(NamedTuple):
    """A title whose captures are exported."""

    title_id: int
    name: str


@dataclass(frozen=True, kw_only=True)
class ExportChoice:
    """What to export: look-ups, a set or a title."""

    look_ups: Sequence[tuple[str, MatchType]] = ()
    set_spec: str | None = None
    title: ChosenTitle | None = None
    since: datetime | None = None
    """First capture time."""
    until: datetime | None = None
    """Last capture time."""

    def words(self) -> str:
        """Return a description, also for the file that is written."""
        if self.title is not None:
            what = f"title {self.title.name}"
        else:
            what = f"set {self.set_spec}" if self.set_spec is not None else _urls(self.look_ups)
        since = f", from {format_datestamp(self.since)}" if self.since else ""
        until = f", until {format_datestamp(self.until)}" if self.until else ""
        return f"{what}{since}{until}"

    def as_json(self) -> dict[str, Any]:
        """Return it as stored with a file that is prepared for download."""
        return {
            "look_ups": [list(one) for one in self.look_ups],
            "set": self.set_spec,
            "title": self.title,
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
        }

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Self:
        """Return what `as_json` stored."""
        return cls(
            look_ups=[(url, MatchType(match)) for url, match in values["look_ups"]],
            set_spec=values["set"],
            title=ChosenTitle(*values["title"]) if values["title"] else None,
            since=datetime.fromisoformat(values["since"]) if values["since"] else None,
            until=datetime.fromisoformat(values["until"]) if values["until"] else None,
        )


def choose(
    database: Database, choice: ExportChoice, chosen: SortedLines, on_found: Callable[[int], None]
) -> list[str]:
    """Add the ids of all captures that were ever listed; return the URLs without any.

    Documents that have always been withheld are not chosen, because the file must not show that they
    exist. Raises UsageError for an unknown set and a URL without a host.
    """
    if choice.set_spec is not None or choice.title is not None:
        with database.session() as session:
            for number in _of_one_statement(session, choice):
                chosen.add(_line(number))
                on_found(chosen.added)
        return []
    without = []
    for url, match in choice.look_ups:
        before = chosen.added
        for numbers in _of_look_up(database, url, match, choice):
            for number in numbers:
                chosen.add(_line(number))
            on_found(chosen.added)
        if chosen.added == before:
            without.append(url)
    return without


def numbers(chosen: SortedLines) -> Iterator[int]:
    """Yield the ids in their order, in which captures of the same archive file mostly follow each other."""
    return map(int, chosen)


def _line(number: int) -> bytes:
    return b"%0*d" % (_DIGITS, number)


def check_choice(session: Session, choice: ExportChoice) -> None:
    """Raise UsageError for an unknown set and a URL without a host."""
    if choice.set_spec is not None:
        _in_set(session, choice.set_spec)
    for url, match in choice.look_ups:
        find_captures(session, Query(url=url, match=match, limit=1))


def _of_one_statement(session: Session, choice: ExportChoice) -> Iterator[int]:
    found = _in_title(choice.title) if choice.title else _in_set(session, choice.set_spec)
    found = found.where(Document.datestamp < UNLISTED)
    if choice.since is not None:
        found = found.where(Document.archived >= choice.since)
    if choice.until is not None:
        found = found.where(Document.archived <= choice.until)
    # One statement: documents that change meanwhile move to the end of the set's index, but are in it once.
    yield from session.scalars(found, execution_options={"yield_per": _AT_ONCE})


def _in_set(session: Session, set_spec: str | None) -> Select[Any]:
    scope = find_scope(session, set_spec)
    if scope is None:
        raise UsageError("no set %(set)s; see `zatva provider collection list`", set=repr(set_spec))
    found: Select[Any] = select(Document.id)
    if scope.id is not Document.id:
        found = found.join_from(Document, scope.id.class_, scope.id == Document.id)
    return found.where(*scope.conditions)


def _in_title(title: ChosenTitle) -> Select[Any]:
    # No two ranges overlap, so each document is found once.
    inside = documents_between(TitleSegment.low, TitleSegment.high)
    return (
        select(Document.id)
        .select_from(TitleSegment)
        .join(inside, true())
        .join(Document, Document.id == inside.c.id)
        .where(TitleSegment.title_id == title.title_id, ~TitleSegment.is_carve_out)
    )


def _of_look_up(
    database: Database, url: str, match: MatchType, choice: ExportChoice
) -> Iterator[Sequence[int]]:
    # Hidden documents are included, so that they are counted among those left out.
    query = Query(url=url, match=match, since=choice.since, until=choice.until, limit=_AT_ONCE, hidden=True)
    while True:
        with database.session() as session:
            result = find_captures(session, query)
            found = [one.id for one in result.found]
            listed = select(Document.id).where(Document.id.in_(found), Document.datestamp < UNLISTED)
            yield session.scalars(listed).all()
        if result.end is None:
            return
        query = replace(query, begin=result.end)


def _urls(look_ups: Sequence[tuple[str, MatchType]]) -> str:
    if len(look_ups) > 1:
        return f"captures of {len(look_ups):,} URLs"
    ((url, match),) = look_ups
    return f"captures of {url}" if match is MatchType.EXACT else f"captures of {url} ({match})"
