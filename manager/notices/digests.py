"""The weekly digest for the administrator of a harvested repository, who has agreed to it.

It is offered on the repository's report card, for the addresses that the repository itself publishes, and is
sent after the recipient has confirmed it by a mail. It ends when the recipient stops it, or when the report
card's link is revoked.
"""

import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Integer,
    LargeBinary,
    and_,
    column,
    delete,
    exists,
    func,
    select,
    table,
    update,
)
from sqlalchemy.orm import Session

from harvester.harvest.quarantine import unread_parts
from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN
from manager.jobs.runs import TROUBLED, was_started
from manager.notices.announcements import facts_of_repository, moment
from manager.notices.models import Channel, Language, Notice, NoticeDigest, Occasion
from manager.schedules.service import database_now
from oai.errors import UsageError
from oai.outgoing import is_mail_address

_BYTES: Final = 16
_EVERY: Final = timedelta(days=7)
_BETWEEN: Final = timedelta(days=1)
"""Between two mails that ask for confirmation."""
_VALID: Final = timedelta(days=90)
_ERRORS: Final = 10
# The dashboard's table of links; its package is above this one.
_CARDS: Final = table(
    "web_report_card",
    column("repository_id", Integer),
    column("token_hash", LargeBinary),
    column("expires", DateTime(timezone=True)),
)


def addresses_of(repository: Repository) -> list[str]:
    """Return the usable addresses that the repository publishes for its administrators."""
    parts = (part.strip() for part in (repository.admin_email or "").split(","))
    return [part for part in parts if is_mail_address(part)]


def offer_digest(
    session: Session, repository: Repository, address: str, language: Language, card: str
) -> None:
    """Write a mail that asks the address to confirm; `card` is the token of the report card's link.

    The caller commits. Raises UsageError for an address that the repository does not publish, and if it was
    asked within the last day.
    """
    if address not in addresses_of(repository):
        raise UsageError("choose an address that the repository publishes in Identify")
    now = database_now(session)
    row = session.get(NoticeDigest, repository.repository_id, with_for_update=True)
    if row is not None and row.asked > now - _BETWEEN:
        raise UsageError("a message was sent within the last day; look into the mailbox, or try tomorrow")
    if row is None:
        row = NoticeDigest(repository_id=repository.repository_id)
        session.add(row)
    row.address, row.language, row.card = address, language, card
    row.token, row.asked, row.confirmed = secrets.token_urlsafe(_BYTES), now, None
    row.written = None
    session.flush()
    session.add(_mail(row, Occasion.DIGEST_CONFIRM, facts_of_repository(session, row.repository_id)))


def find_digest(session: Session, token: str) -> tuple[NoticeDigest, Repository] | None:
    """Return the digest that a mail's link names, with its repository."""
    row = session.scalars(select(NoticeDigest).where(NoticeDigest.token == token)).one_or_none()
    return None if row is None else (row, session.get_one(Repository, row.repository_id))


def confirm_digest(session: Session, token: str) -> bool:
    """Begin to send the digest; return False if the link is not valid any more. The caller commits."""
    now = func.now()
    changed = update(NoticeDigest).where(NoticeDigest.token == token).values(confirmed=now, written=now)
    return session.scalar(changed.returning(NoticeDigest.repository_id)) is not None


def stop_digest(session: Session, token: str) -> None:
    """Send no more digests. The caller commits."""
    row = session.scalars(select(NoticeDigest).where(NoticeDigest.token == token)).one_or_none()
    if row is not None:
        session.delete(row)


def end_digests(session: Session, repository_ids: Collection[int]) -> None:
    """Send no more digests of these repositories, nor those that wait to be sent. The caller commits."""
    session.execute(delete(NoticeDigest).where(NoticeDigest.repository_id.in_(repository_ids)))
    waiting = delete(Notice).where(
        Notice.repository_id.in_(repository_ids),
        Notice.occasion.in_((Occasion.DIGEST, Occasion.DIGEST_CONFIRM)),
        Notice.ended.is_(None),
    )
    session.execute(waiting)


def write_digests(session: Session) -> int:
    """Write the digests that are due, and keep their report cards open; return their number.

    The caller commits. A week without a harvest has no digest.
    """
    # One that was written in the future, by a clock that was ahead, is due, too.
    is_due = ~NoticeDigest.written.between(func.now() - _EVERY, func.now())
    due = select(NoticeDigest).where(NoticeDigest.confirmed.is_not(None), is_due, _has_card())
    written = 0
    for row in session.scalars(due.with_for_update(skip_locked=True)).all():
        facts = _facts(session, row)
        row.written = database_now(session)
        session.execute(
            update(_CARDS)
            .where(_CARDS.c.repository_id == row.repository_id)
            .values(expires=func.now() + _VALID)
        )
        if facts["runs"]:
            session.add(_mail(row, Occasion.DIGEST, facts))
            written += 1
    session.flush()
    return written


def _has_card() -> ColumnElement[bool]:
    digest = func.sha256(func.convert_to(NoticeDigest.card, "UTF8"))
    return exists().where(
        _CARDS.c.repository_id == NoticeDigest.repository_id,
        _CARDS.c.token_hash == digest,
        _CARDS.c.expires > func.now(),
    )


def _facts(session: Session, row: NoticeDigest) -> dict[str, Any]:
    since = History.harvest_end_time >= row.written
    ours = and_(History.repository_id == row.repository_id, History.status.not_in(NOT_RUN), was_started())
    runs, troubled, records, changed = session.execute(
        select(
            func.count(),
            func.count().filter(History.status.in_(TROUBLED)),
            func.coalesce(func.sum(History.record_count), 0),
            func.coalesce(func.sum(History.new_count + History.updated_count + History.deleted_count), 0),
        ).where(ours, since, History.continued_by.is_(None))
    ).one()
    unread = unread_parts(session, row.repository_id, most=_ERRORS)
    now = database_now(session)
    return {
        **facts_of_repository(session, row.repository_id),
        "since": moment(row.written or now),
        "until": moment(now),
        "runs": runs,
        "troubled": troubled,
        "records": int(records),
        "changed": int(changed),
        "errors": unread.records,
        "examples": [
            {"identifier": one.identifier or "", "failure": one.failure.as_json()} for one in unread.latest
        ],
        "unlisted": unread.unlisted.failure.as_json() if unread.unlisted else None,
    }


def _mail(row: NoticeDigest, occasion: Occasion, facts: dict[str, Any]) -> Notice:
    return Notice(
        repository_id=row.repository_id,
        occasion=occasion,
        channel=Channel.MAIL,
        target=row.address,
        language=row.language,
        facts={**facts, "card": row.card, "token": row.token},
    )
