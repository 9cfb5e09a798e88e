"""The newest captures of a title's addresses, and the conditions under which they can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.sections import ProviderSettings
from provider.holdings.capture import FoundCapture
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import Query, find_captures
from provider.holdings.rules import rights_of
from provider.models import Access, Document
from provider.titles.catalogue import TitleItem

MOST: Final = 10
_MOST_URLS: Final = 5
_EXAMINED: Final = 2000
"""Index rows read for one address, so that a page takes as long however many captures there are."""
_LISTED: Final = (Access.OPEN, Access.READING_ROOM, Access.EMBARGO)


@dataclass(frozen=True, kw_only=True)
class NewestCaptures:
    """The newest captures of a title."""

    readable: Sequence[FoundCapture]
    """Those that the reader may open, newest first; at most `MOST`."""
    conditions: Sequence[str]
    """The rights statements of all of them, from the settings; the most permissive one first."""


def newest_captures(
    session: Session, settings: ProviderSettings, title: TitleItem, readable: Sequence[Access]
) -> NewestCaptures:
    """Return the newest captures of the title's first addresses that have any.

    `readable` are the access rules of documents that the reader may open.
    """
    for url in (title.urls or ())[:_MOST_URLS]:
        listed = _newest(session, url, _LISTED)
        if listed:
            return NewestCaptures(
                readable=_newest(session, url, readable), conditions=_conditions(session, settings, listed)
            )
    return NewestCaptures(readable=(), conditions=())


def _newest(session: Session, url: str, rules: Sequence[Access]) -> Sequence[FoundCapture]:
    wanted = Query(url=url, order=ReadOrder.REVERSE, limit=MOST, examined=_EXAMINED, rules=rules)
    try:
        return find_captures(session, wanted).found
    except UsageError:  # a seed that is no URL with a host; its import has reported it
        return ()


def _conditions(session: Session, settings: ProviderSettings, found: Sequence[FoundCapture]) -> Sequence[str]:
    rules = select(Document.access, Document.embargo_until).where(Document.id.in_([one.id for one in found]))
    order = list(Access)
    rows = sorted(session.execute(rules.distinct()), key=lambda row: order.index(Access(row.access)))
    return list(dict.fromkeys(rights_of(settings, row.access, row.embargo_until) for row in rows))
