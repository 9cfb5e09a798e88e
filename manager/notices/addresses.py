"""Mail addresses given by partners: each is confirmed by a link mailed to it before it receives notices.

Otherwise an account of a partner would be enough to send mail to strangers from the institution's server.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from manager.notices.models import (
    Channel,
    Notice,
    NoticeAddress,
    NoticeMailCount,
    NoticeRule,
    Occasion,
    UnsentReason,
)
from manager.notices.outbox import Claimed, NotSentError, postpone
from manager.schedules.service import database_now
from oai.errors import UsageError
from oai.outgoing import MailSettings
from oai.owners import Organisation, RepositoryOwner, owner_of
from oai.signing import signing_keys

VALID: Final = timedelta(days=7)
"""How long a link is valid."""
BETWEEN_LINKS: Final = timedelta(days=1)
"""The minimum interval between two links to one address."""
MOST_LINKS: Final = 3
"""How many links one address gets, if it does not confirm."""
MOST_OPEN: Final = 20
"""Addresses of one organisation that may wait for confirmation: more strangers get no mail."""

_HOUR: Final = func.date_trunc("hour", func.now())
_PURPOSE: Final = "mail address"


def note_addresses(
    session: Session, rule: NoticeRule, *, known: Iterable[str] = (), partner: MailSettings | None
) -> None:
    """Note the rule's addresses, except `known` ones, and send a link to each one that needs confirmation.

    `partner` are the mail settings if a partner gives the addresses; None: an administrator vouches for them.
    Only rules about an organisation's repository are concerned. Raises UsageError if too many addresses of
    the organisation are not confirmed. The caller commits.
    """
    organisation = _organisation_of(session, rule)
    if organisation is None:
        return
    for address in _addresses(rule) - {one.lower() for one in known}:
        trusted = partner is None or address.rpartition("@")[2] in partner.allowed_domains
        if _note(session, organisation, address, trusted=trusted):
            _check_open(session, organisation)
            _send_link(session, organisation, rule, address)


def resend_links(session: Session, rule: NoticeRule) -> int:
    """Send a new link to each address of the rule that is not confirmed; returns their number.

    Raises UsageError if there is none, or if the last link is less than a day old. The caller commits.
    """
    organisation = _organisation_of(session, rule)
    unconfirmed = _unconfirmed(session, organisation, rule) if organisation is not None else []
    if organisation is None or not unconfirmed:
        raise UsageError("all addresses of rule %(rule)s are confirmed", rule=rule.rule_id)
    now = database_now(session)
    open_ones = [one for one in unconfirmed if one.links < MOST_LINKS]
    if not open_ones:
        raise UsageError(
            "%(count)s links were sent to each address; ask an administrator to confirm it", count=MOST_LINKS
        )
    due = [one for one in open_ones if one.asked <= now - BETWEEN_LINKS]
    if not due:
        raise UsageError("links were sent less than a day ago; look into the mailbox, or try again later")
    for one in due:
        one.asked = now
        session.flush()
        _check_open(session, organisation)
        _send_link(session, organisation, rule, one.address)
    return len(due)


def confirm_all(session: Session, rule: NoticeRule) -> int:
    """Confirm all addresses of the rule without a link; returns how many. The caller commits."""
    organisation = _organisation_of(session, rule)
    found = _unconfirmed(session, organisation, rule) if organisation is not None else []
    for one in found:
        one.confirmed = database_now(session)
    session.flush()
    return len(found)


def unconfirmed_of(session: Session, rules: Iterable[NoticeRule]) -> Mapping[int, list[str]]:
    """Return the addresses that are not confirmed, by the number of each rule that has some."""
    rows = session.execute(
        select(RepositoryOwner.repository_id, NoticeAddress.address)
        .join(NoticeAddress, NoticeAddress.organisation_id == RepositoryOwner.organisation_id)
        .where(
            NoticeAddress.confirmed.is_(None),
            RepositoryOwner.repository_id.in_([rule.repository_id for rule in rules if rule.repository_id]),
        )
    )
    open_ones = {(repository_id, address) for repository_id, address in rows}
    found = {
        rule.rule_id: sorted(one for one in _addresses(rule) if (rule.repository_id, one) in open_ones)
        for rule in rules
    }
    return {rule_id: addresses for rule_id, addresses in found.items() if addresses}


def with_link(session: Session, facts: Mapping[str, Any], dashboard: str | None) -> dict[str, Any]:
    """Return the facts of a confirmation mail with its link, which is stored nowhere."""
    if not dashboard:
        raise NotSentError(UnsentReason.NO_LINK)
    address_id, asked = int(facts["address_id"]), str(facts["asked"])
    code = _codes(session, address_id, asked)[0]
    return {**facts, "link": f"{dashboard.rstrip('/')}/alerts/confirm?address={address_id}&code={code}"}


def open_address(session: Session, address_id: int, code: str) -> tuple[NoticeAddress, Organisation] | None:
    """Return the address of a link and its organisation; None if the link is not valid (any more)."""
    found = session.get(NoticeAddress, address_id)
    if found is None or database_now(session) - found.asked > VALID:
        return None
    codes = _codes(session, address_id, _moment(found.asked))
    if not any(hmac.compare_digest(each.encode(), code.encode()) for each in codes):
        return None
    organisation = session.get(Organisation, found.organisation_id)
    return None if organisation is None else (found, organisation)


def confirm_address(session: Session, address_id: int, code: str) -> NoticeAddress | None:
    """Confirm the address of a link; None if the link is not valid. The caller commits."""
    found = open_address(session, address_id, code)
    if found is None:
        return None
    address, _ = found
    if address.confirmed is None:
        address.confirmed = database_now(session)
        session.flush()
    return address


def _organisation_of(session: Session, rule: NoticeRule) -> Organisation | None:
    if rule.repository_id is None or rule.channel != Channel.MAIL:
        return None
    return owner_of(session, rule.repository_id)


def _addresses(rule: NoticeRule) -> set[str]:
    return {one.strip().lower() for one in rule.target.split(",")} if rule.channel == Channel.MAIL else set()


def _unconfirmed(session: Session, organisation: Organisation, rule: NoticeRule) -> list[NoticeAddress]:
    query = select(NoticeAddress).where(
        NoticeAddress.organisation_id == organisation.organisation_id,
        NoticeAddress.address.in_(_addresses(rule)),
        NoticeAddress.confirmed.is_(None),
    )
    return list(session.scalars(query.order_by(NoticeAddress.address).with_for_update()))


def _note(session: Session, organisation: Organisation, address: str, *, trusted: bool) -> bool:
    """Note an address, and return whether it is new and needs confirmation."""
    values = {"organisation_id": organisation.organisation_id, "address": address}
    if trusted:
        sure = insert(NoticeAddress).values(**values, confirmed=func.now())
        session.execute(
            sure.on_conflict_do_update(
                index_elements=list(values),
                set_={"confirmed": func.coalesce(NoticeAddress.confirmed, func.now())},
            )
        )
        return False
    new = insert(NoticeAddress).values(**values).on_conflict_do_nothing().returning(NoticeAddress.address_id)
    return session.scalar(new) is not None


def _check_open(session: Session, organisation: Organisation) -> None:
    # Locked, so that requests at the same time count each other's addresses.
    session.execute(
        select(Organisation.organisation_id)
        .where(Organisation.organisation_id == organisation.organisation_id)
        # Not FOR UPDATE, which would wait for the foreign keys of each other's new rows: a deadlock.
        .with_for_update(key_share=True)
    )
    waiting = select(func.count()).where(
        NoticeAddress.organisation_id == organisation.organisation_id,
        NoticeAddress.confirmed.is_(None),
        NoticeAddress.asked > func.now() - VALID,
    )
    if (session.scalar(waiting) or 0) > MOST_OPEN:
        raise UsageError(
            "%(count)s addresses of your organisation are not confirmed yet; confirm them first, or ask an "
            "administrator",
            count=MOST_OPEN,
        )


def _send_link(session: Session, organisation: Organisation, rule: NoticeRule, address: str) -> None:
    row = session.execute(
        update(NoticeAddress)
        .where(
            NoticeAddress.organisation_id == organisation.organisation_id, NoticeAddress.address == address
        )
        .values(asked=func.now(), links=NoticeAddress.links + 1)
        .returning(NoticeAddress.address_id, NoticeAddress.asked)
    ).one()
    session.add(
        Notice(
            rule_id=rule.rule_id,
            repository_id=rule.repository_id,
            occasion=Occasion.CONFIRM,
            channel=Channel.MAIL,
            target=address,
            language=rule.language,
            # Nothing that a partner chose: the text must not carry words to a stranger.
            facts={
                "address_id": row.address_id,
                "asked": _moment(row.asked),
                "organisation": organisation.name,
            },
        )
    )
    session.flush()


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _codes(session: Session, address_id: int, asked: str) -> list[str]:
    """Return the code of a link by the present signing key, then those by former keys."""
    text = f"{address_id} {asked}".encode()
    return [hmac.new(key, text, hashlib.sha256).hexdigest() for key in signing_keys(session, _PURPOSE)]


def admit(session: Session, claimed: Claimed, *, per_hour: int) -> bool:
    """Count a mail for its organisation; False if the hour's number is used up, and the mail is postponed.

    The institution's own mails are not limited. The caller commits.
    """
    organisation = session.scalar(
        select(RepositoryOwner.organisation_id)
        .join(NoticeRule, NoticeRule.repository_id == RepositoryOwner.repository_id)
        .join(Notice, Notice.rule_id == NoticeRule.rule_id)
        .where(Notice.notice_id == claimed.notice_id)
    )
    if organisation is None or per_hour == 0 or _counted(session, organisation, per_hour):
        return True
    postpone(session, claimed, _HOUR + timedelta(hours=1), UnsentReason.POSTPONED % {"number": per_hour})
    return False


def _counted(session: Session, organisation: int, per_hour: int) -> bool:
    """Count one more mail unless there are enough; one statement, so that no two senders count the same."""
    first = insert(NoticeMailCount).values(organisation_id=organisation, hour=_HOUR, mails=1)
    same = NoticeMailCount.hour == first.excluded.hour
    counted = first.on_conflict_do_update(
        index_elements=[NoticeMailCount.organisation_id],
        set_={"hour": first.excluded.hour, "mails": case((same, NoticeMailCount.mails + 1), else_=1)},
        where=or_(~same, NoticeMailCount.mails < per_hour),
    )
    return session.scalar(counted.returning(NoticeMailCount.mails)) is not None
