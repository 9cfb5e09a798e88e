"""The text of titles' front pages, by which the search on the public pages finds titles, too.

A front page is the newest capture of a title's main address that everyone may see. Its words are stored with
the documents they were read from, and a search uses them only while those documents are open: text that is
withheld later is not found from that moment on, and is removed when the title is looked at again.
"""

import logging
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, and_, func, literal, select, text
from sqlalchemy.orm import Session, aliased

from oai.database import Database
from oai.errors import UsageError
from oai.folding import folded_sql
from oai.sections import ProviderSettings
from provider.holdings.capture import FoundCapture
from provider.holdings.documents import Holding, NotServedError, holdings, open_holding
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import Query, find_captures
from provider.holdings.sets import host_of
from provider.models import UNLISTED, Access, Document
from provider.reading.archived_record import ArchivedRecord
from provider.reading.content import DamageError
from provider.reading.titles import may_have_title
from provider.reading.visible_text import PAGE_BYTES, visible_text
from provider.titles.models import TitleFrontPage

_log = logging.getLogger(__name__)

AT_ONCE: Final = 20
"""Titles that are looked at between two chances to stop."""
_EXAMINED: Final = 2000
_TRIED: Final = 3
"""Captures that are tried if the newest one cannot be read."""
_LOCK: Final = 0x7A_61_74_74_66  # "zattf"
_ENTER: Final = """
INSERT INTO title_front_page (title_id)
SELECT title_id FROM title_search
WHERE NOT EXISTS (SELECT FROM title_front_page WHERE title_front_page.title_id = title_search.title_id)
ON CONFLICT DO NOTHING
"""
_WAITING: Final = """
SELECT front.title_id, front.changes, front.document_id, front.holder_id, (
    SELECT url FROM title_seed WHERE title_seed.title_id = front.title_id AND kind = 'include'
    ORDER BY main DESC, position LIMIT 1
) AS url
FROM title_front_page AS front
WHERE front.changes <> front.seen ORDER BY front.title_id LIMIT :most
"""
_STORE: Final = f"""
UPDATE title_front_page SET seen = :changes, document_id = :document_id, holder_id = :holder_id,
    words = to_tsvector('simple', {folded_sql("CAST(:words AS text)")})
WHERE title_id = :title_id
"""  # noqa: S608 constant text
_SAME: Final = "UPDATE title_front_page SET seen = :changes WHERE title_id = :title_id"
_MARK: Final = "UPDATE title_front_page SET changes = changes + 1 WHERE title_id = ANY(CAST(:ids AS int[]))"
_FORGET: Final = """
UPDATE title_front_page SET document_id = NULL, holder_id = NULL, words = NULL, changes = changes + 1
WHERE document_id = ANY(CAST(:ids AS bigint[])) OR holder_id = ANY(CAST(:ids AS bigint[]))
"""

_MARK_DATED: Final = """
UPDATE title_front_page SET changes = changes + 1
WHERE title_id IN (
    SELECT segment.title_id FROM document CROSS JOIN LATERAL (
        SELECT title_id, high FROM title_segment WHERE low <= document.url_key ORDER BY low DESC LIMIT 1
    ) AS segment
    WHERE document.datestamp > (SELECT counted FROM title_extent) AND document.datestamp < :unlisted
        AND document.url_key < segment.high
)
"""


class _Read(NamedTuple):
    """The text of a front page, and the documents whose rules apply to it; all None if there is none."""

    document_id: int | None
    holder_id: int | None
    """The document with the payload: another one than the capture if that is a revisit."""
    words: str | None


class _UnreadableError(Exception):
    """A capture that cannot be read; another time it may be."""


_NONE: Final = _Read(None, None, None)


def mark_front_pages(session: Session, title_ids: Collection[int]) -> None:
    """Note that these titles may have another front page; costs little if none was ever read."""
    session.execute(text(_MARK), {"ids": sorted(title_ids)})


def forget_front_pages(session: Session, documents: Sequence[int]) -> None:
    """Remove the words that were read from these documents, whose content has been replaced."""
    session.execute(text(_FORGET), {"ids": list(documents)})


def mark_dated(session: Session) -> None:
    """Note that titles with documents that are dated later than the last count may have another front page.

    Counting does not see documents that are listed before and after, but may now be seen by others.
    """
    if session.scalar(text("SELECT EXISTS (SELECT FROM title_front_page)")):
        session.execute(text(_MARK_DATED), {"unlisted": UNLISTED})


def with_word(word: str) -> Select[int]:
    """Select the ids of titles whose front page, which everyone may see, has a word; `word` is a tsquery."""
    document, holder = aliased(Document), aliased(Document)
    return (
        select(TitleFrontPage.title_id)
        .join(document, and_(document.id == TitleFrontPage.document_id, _is_open(document)))
        .join(holder, and_(holder.id == TitleFrontPage.holder_id, _is_open(holder)))
        .where(TitleFrontPage.words.op("@@")(func.to_tsquery(text("'simple'"), word)))
    )


def _is_open(document: type[Document]) -> ColumnElement[bool]:
    return and_(document.access == literal(Access.OPEN.value), ~document.deleted)


def read_front_pages(database: Database, settings: ProviderSettings) -> int:
    """Read the front pages of up to `AT_ONCE` titles that may have another one; return how many titles.

    Commits after each. Returns 0 if there are none, and while another process does the same.
    """
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}):
            return 0
        try:
            with database.session() as session:
                session.execute(text(_ENTER))
                waiting = session.execute(text(_WAITING), {"most": AT_ONCE}).all()
                session.commit()
            for one in waiting:
                _follow(database, settings, one)
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
    return len(waiting)


def _follow(database: Database, settings: ProviderSettings, title: Row[Any]) -> None:
    """Store the text of a title's front page, or that it has none."""
    with database.session() as session:
        found = _newest(session, title.url) if title.url else ()
        held = {one.key: one for one in holdings(session, [one.id for one in found])}
    # The content of a revisit may have become available from another document.
    is_same = bool(found) and found[0].id == title.document_id == title.holder_id
    read = (
        None
        if is_same
        else _first(database, settings, [(one, held[one.key]) for one in found if one.key in held])
    )
    values = {"title_id": title.title_id, "changes": title.changes}
    with database.session() as session:
        session.execute(text(_SAME if read is None else _STORE), values | (read._asdict() if read else {}))
        session.commit()


def _first(
    database: Database, settings: ProviderSettings, found: Sequence[tuple[FoundCapture, Holding]]
) -> _Read | None:
    """Return the text of the first capture that is a page; None if the text that is stored has to stay.

    It stays if a capture cannot be read now, as after a failure of the storage: it may be the same.
    """
    stays = False
    for capture, holding in found:
        try:
            read = _text(database, settings, capture, holding)
        except _UnreadableError as error:
            _log.warning("the front page %s of %s was not read: %s", capture.key, capture.url, error)
            stays = True
        else:
            if read is not None:
                return read
    return None if stays else _NONE


def _newest(session: Session, url: str) -> Sequence[FoundCapture]:
    """Return the newest captures of an address that everyone may see and that may be pages, newest first."""
    wanted = Query(
        url=url,
        order=ReadOrder.REVERSE,
        limit=_TRIED,
        examined=_EXAMINED,
        rules=(Access.OPEN,),
        filters=(_may_be_page,),
    )
    try:
        return find_captures(session, wanted).found
    except UsageError:  # a seed that is no URL with a host; its import has reported it
        return ()


def _may_be_page(one: FoundCapture) -> bool:
    return one.record_type == "revisit" or may_have_title(one.mime_type, one.http_status)


def _text(
    database: Database, settings: ProviderSettings, capture: FoundCapture, holding: Holding
) -> _Read | None:
    """Return the text of a capture that everyone may see; None if it is no page.

    Raises _UnreadableError if it cannot be read.
    """
    try:
        opened = open_holding(database.read, settings, holding, None)
    except NotServedError as error:
        raise _UnreadableError(str(error)) from error
    try:
        description = opened.record.description
        # Between are further rules, which the search does not check.
        if opened.between or not may_have_title(description.content_type, description.http_status):
            return None
        payload = opened.held if opened.held is not None else _beginning(opened.record)
    except (DamageError, OSError) as error:
        raise _UnreadableError(str(error)) from error
    finally:
        opened.record.close()
    coding = description.content_encoding or "identity"
    head = f"\ncontent-type: {description.content_type}\ncontent-encoding: {coding}\n"
    with database.session() as session:
        key = Document.key == opened.holder.key
        holder_id = session.scalars(select(Document.id).where(key)).one()
    words = visible_text(payload, head.encode("latin-1", "replace"), host_of(capture.url) or "")
    return _Read(document_id=capture.id, holder_id=holder_id, words=words)


def _beginning(record: ArchivedRecord) -> bytes:
    """Return the beginning of a payload that is not held in memory."""
    found = b""
    for block in record.blocks(None):
        found += block
        if len(found) >= PAGE_BYTES:
            break
    return found
