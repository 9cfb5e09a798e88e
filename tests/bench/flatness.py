"""Benchmark: whether the deepest page of a list takes as long as its first, for sets at every level."""

import statistics
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from oai.database import Database
from oai.datestamps import format_datestamp
from oai.settings import Settings
from oai.signing import signing_keys
from oai.vocabulary import Verb
from provider.models import Document
from provider.protocol.repository import Repository, make_repository
from provider.protocol.requests import Pairs
from provider.protocol.scopes import find_scope
from provider.protocol.tokens import PURPOSE, ItemList, Position, Tokens
from tests.bench.measuring import ms, say, timed

TARGET = 1.3
_TIMES = 31
_SETS = (
    None,
    "collection", "collection:serials", "collection:serials:c1",
    "domain", "domain:cz", "domain:cz:site7", "domain:cz:site7:www1",
    "mimetype", "mimetype:text", "mimetype:text:html", "mimetype:application:pdf",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Case:
    name: str
    first: Pairs
    deepest: Pairs
    rows: int


def measure_flatness(database: Database, settings: Settings) -> None:
    """Print first page, deepest full page and ratio of each set of two pages or more, and of a window."""
    repository = make_repository(settings.provider, database, "http://bench.example/oai")
    size = settings.provider.records_per_answer
    say("list", "rows", "first page", "deepest page", f"ratio (at most {TARGET})")
    say("---", "---:", "---:", "---:", "---:")
    for case in _cases(database, size):
        first, deepest = _both(repository, case)
        say(case.name, f"{case.rows:,}", ms(first), ms(deepest), f"{deepest / first:.2f}")


def _both(repository: Repository, case: _Case) -> tuple[float, float]:
    """Return the medians of both, measured alternately, so that other load on the machine affects both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_TIMES):
        for pairs, taken in zip((case.first, case.deepest), times, strict=True):
            taken.append(timed(partial(repository.answer, pairs)))
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


def _cases(database: Database, size: int) -> list[_Case]:
    with database.session() as session:
        tokens = Tokens(signing_keys(session, PURPOSE), timedelta(hours=1))
        session.commit()
        found = [_case(session, tokens, size, set_spec=set_spec) for set_spec in _SETS]
        return [*filter(None, found), *filter(None, [_case(session, tokens, size, window=_middle(session))])]


def _middle(session: Session) -> tuple[datetime, datetime]:
    """Return an interval of ten minutes in the middle of all datestamps."""
    bounds = select(func.min(Document.datestamp), func.max(Document.datestamp))
    earliest, latest = session.execute(bounds).one()
    end = (earliest + (latest - earliest) / 2).replace(microsecond=0)
    return end - timedelta(minutes=10), end


def _case(
    session: Session,
    tokens: Tokens,
    size: int,
    *,
    set_spec: str | None = None,
    window: tuple[datetime, datetime] | None = None,
) -> _Case | None:
    """Return the requests for a list's first and deepest full page; None if it has fewer than two pages."""
    scope = find_scope(session, set_spec)
    now = session.scalars(select(func.date_trunc("second", func.now()))).one()
    begin, end = window or (None, now)
    if scope is None:
        return None
    within = [*scope.conditions, scope.datestamp <= end, *([scope.datestamp >= begin] if begin else [])]
    rows = session.scalar(select(func.count(scope.id)).where(*within)) or 0
    if rows < 2 * size:
        return None
    backwards = select(scope.datestamp, scope.id).where(*within)
    backwards = backwards.order_by(scope.datestamp.desc(), scope.id.desc()).offset(size).limit(1)
    last = session.execute(backwards).one()
    state = ItemList(
        verb=Verb.LIST_RECORDS,
        metadata_prefix="oai_dc",
        set_spec=set_spec,
        from_=begin,
        until=end,
        after=Position(datestamp=last.datestamp, id=last[1]),
        cursor=rows - size,
    )
    return _Case(
        name="ten minutes" if window else set_spec or "all",
        first=_first(set_spec, window),
        deepest=[("verb", Verb.LIST_RECORDS), ("resumptionToken", tokens.write(state, now))],
        rows=rows,
    )


def _first(set_spec: str | None, window: tuple[datetime, datetime] | None) -> Pairs:
    pairs = [("verb", str(Verb.LIST_RECORDS)), ("metadataPrefix", "oai_dc")]
    if set_spec:
        pairs.append(("set", set_spec))
    if window:
        pairs += zip(("from", "until"), map(format_datestamp, window), strict=True)
    return pairs
