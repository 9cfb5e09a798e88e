"""Notification rules: add, change, list, remove and test them."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Select, delete, exists, func, select
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.models import RecurringJob
from manager.notices.addresses import note_addresses
from manager.notices.announcements import facts_of_repository, moment, notices_for
from manager.notices.models import Channel, Kind, Language, Notice, NoticeRule, Occasion
from manager.notices.webhooks import check_url
from manager.schedules.service import database_now
from oai.database import one_at_a_time
from oai.errors import UsageError
from oai.outgoing import MailSettings, WebhookSettings, is_mail_address

BETWEEN_TRIALS: Final = timedelta(minutes=1)
"""The minimum interval between tests of a rule, so that users cannot fill a mailbox with tests."""
MOST_ADDRESSES: Final = 20

_KEY_BYTES: Final = 32
_SUMMARIES: Final = (Kind.DAILY, Kind.WEEKLY)


@dataclass(frozen=True, kw_only=True)
class RuleColumns:
    """The wanted columns of a rule: its target is mail addresses, a web address, or a service's name."""

    kind: Kind
    language: Language
    mail: Sequence[str] = ()
    webhook: str | None = None
    service: str | None = None
    """Name of a service in `manager.services`."""
    repository_id: int | None = None
    """None: all repositories."""
    recurring_id: int | None = None
    """None: all its schedules, and harvests without a schedule."""


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """A rule as lists show it."""

    rule: NoticeRule
    repository_name: str | None
    """None: all repositories."""


def add_rule(
    session: Session,
    wanted: RuleColumns,
    settings: WebhookSettings,
    *,
    partner: MailSettings | None = None,
    services: Collection[str] = (),
) -> NoticeRule:
    """Add a rule; a webhook gets a signing key of its own. The caller commits.

    `partner` are the mail settings if a partner adds it: its addresses are then confirmed first. `services`
    are the names of the services that the caller may use.
    Raises UsageError for an unknown repository or schedule, a schedule of another repository, an address
    to which notices cannot be sent, or a rule that exists already.
    """
    one_at_a_time(session, "add notice rule")
    columns = _columns(session, wanted, settings, services)
    same = [getattr(NoticeRule, name).is_not_distinct_from(value) for name, value in columns.items()]
    known = session.scalar(select(NoticeRule.rule_id).where(*same).limit(1))
    if known is not None:
        raise UsageError("rule %(rule)s says the same; it would send each message twice", rule=known)
    rule = NoticeRule(**columns)
    _sign(rule)
    session.add(rule)
    session.flush()
    session.refresh(rule)
    note_addresses(session, rule, partner=partner)
    return rule


def change_rule(
    session: Session,
    rule_id: int,
    wanted: RuleColumns,
    settings: WebhookSettings,
    *,
    partner: MailSettings | None = None,
    services: Collection[str] = (),
) -> NoticeRule:
    """Change a rule to these columns; `partner`, `services`, errors as for `add_rule`. The caller commits.

    If the rule becomes a summary, its first period begins now.
    """
    columns = _columns(session, wanted, settings, services)
    rule = get_rule(session, rule_id)
    was_mail = rule.channel == Channel.MAIL
    known = rule.target.split(", ") if was_mail else ()
    shared = rule.channel == Channel.WEBHOOK and rule.signing_key is rule.next_key is None
    elsewhere = shared and rule.target != columns["target"]
    if wanted.kind in _SUMMARIES and rule.kind != wanted.kind:
        rule.summarised = database_now(session)
    for name, value in columns.items():
        setattr(rule, name, value)
    # The common key signs for its present receiver only: another one could replay what it is sent.
    if elsewhere or was_mail or rule.channel != Channel.WEBHOOK:
        _sign(rule)
    session.flush()
    note_addresses(session, rule, known=known, partner=partner)
    return rule


def replace_key(session: Session, rule_id: int, settings: WebhookSettings) -> str:
    """Give a webhook a new signing key, and return it; it is not shown again. The caller commits.

    For `webhooks.overlap_hours`, posts are signed with both keys. Raises UsageError if the rule sends mail.
    """
    rule = get_rule(session, rule_id, lock=True)
    if rule.channel != Channel.WEBHOOK:
        raise UsageError("rule %(rule)s is not a webhook, so it has no signing key", rule=rule_id)
    now = database_now(session)
    if rule.next_key is not None and rule.next_key_from is not None and rule.next_key_from <= now:
        rule.signing_key = rule.next_key
    rule.next_key = secrets.token_urlsafe(_KEY_BYTES)
    rule.next_key_from = now + timedelta(hours=settings.overlap_hours)
    session.flush()
    return rule.next_key


def _sign(rule: NoticeRule) -> None:
    """Give a rule that has become a webhook its key, and take it from one that has become mail."""
    webhook = rule.channel == Channel.WEBHOOK
    rule.signing_key = secrets.token_urlsafe(_KEY_BYTES) if webhook else None
    rule.next_key = rule.next_key_from = None


def remove_rule(session: Session, rule_id: int) -> None:
    """Remove a rule and its notices; raises UsageError if there is no such rule. The caller commits."""
    session.delete(get_rule(session, rule_id))
    session.flush()


def end_rules(session: Session, repository_ids: Collection[int]) -> int:
    """Remove the rules about repositories that leave their organisation; return their number.

    Their messages end with them. Rules about all repositories and rules that send to services stay: only
    administrators add them. The caller commits.
    """
    ended = delete(NoticeRule).where(
        NoticeRule.repository_id.in_(repository_ids), NoticeRule.channel != Channel.SERVICE
    )
    return len(session.scalars(ended.returning(NoticeRule.rule_id)).all())


def list_rules(
    session: Session, *, among: Select[int] | None = None, limit: int | None = None, after: int = 0
) -> list[RuleView]:
    """Return rules ordered by number, starting after number `after`.

    `among` selects the repositories whose rules are returned; rules about all repositories are then excluded.
    """
    query = (
        select(NoticeRule, Repository.display_name)
        .outerjoin(Repository, Repository.repository_id == NoticeRule.repository_id)
        .where(NoticeRule.rule_id > after)
        .order_by(NoticeRule.rule_id)
        .limit(limit)
    )
    if among is not None:
        query = query.where(NoticeRule.repository_id.in_(among))
    return [RuleView(rule=rule, repository_name=name) for rule, name in session.execute(query)]


def trial(session: Session, rule_id: int) -> list[Notice]:
    """Return a test notice to each of the rule's recipients, not added to the session.

    Raises UsageError if there is no such rule.
    """
    rule = get_rule(session, rule_id)
    facts: dict[str, Any] = {
        **facts_of_repository(session, rule.repository_id),
        "kind": rule.kind,
        "at": moment(database_now(session)),
    }
    return notices_for(rule, Occasion.TEST, facts)


def put_trial_into_outbox(session: Session, rule_id: int) -> int:
    """Let the leading manager send a test notice once; returns the number of recipients. The caller commits.

    Raises UsageError if there is no such rule, or if it was tested a moment ago.
    """
    get_rule(session, rule_id, lock=True)
    lately = exists().where(
        Notice.rule_id == rule_id,
        Notice.occasion == Occasion.TEST,
        Notice.created > func.now() - BETWEEN_TRIALS,
    )
    if session.scalar(select(lately)):
        raise UsageError("rule %(rule)s was tested less than a minute ago; try again later", rule=rule_id)
    notices = trial(session, rule_id)
    session.add_all(notices)
    session.flush()
    return len(notices)


def get_rule(session: Session, rule_id: int, *, lock: bool = False) -> NoticeRule:
    """Return the rule with that number. Raises UsageError if there is none."""
    rule = session.get(NoticeRule, rule_id, with_for_update=lock or None)
    if rule is None:
        raise UsageError(f"no notification rule {rule_id}; list rules with `zatva notify list`")
    return rule


def _columns(
    session: Session, wanted: RuleColumns, settings: WebhookSettings, services: Collection[str]
) -> dict[str, Any]:
    """Return the rule's columns after checking them."""
    _check_source(session, wanted)
    _check_recipients(wanted, settings, services)
    channel, target = Channel.MAIL, ", ".join(dict.fromkeys(wanted.mail))
    if wanted.webhook is not None:
        channel, target = Channel.WEBHOOK, wanted.webhook
    elif wanted.service is not None:
        channel, target = Channel.SERVICE, wanted.service
    return {
        "repository_id": wanted.repository_id,
        "recurring_id": wanted.recurring_id,
        "kind": wanted.kind,
        "channel": channel,
        "target": target,
        "language": wanted.language,
    }


def _check_source(session: Session, wanted: RuleColumns) -> None:
    number = wanted.repository_id
    if number is not None and session.get(Repository, number) is None:
        raise UsageError(
            "no repository %(number)s; list repositories with `zatva repository list`", number=number
        )
    if wanted.recurring_id is None:
        return
    schedule = session.get(RecurringJob, wanted.recurring_id)
    if number is not None and (schedule is None or schedule.repository_id != number):
        # The same words for one of another repository, which the caller may not see.
        raise UsageError(
            "repository %(number)s has no schedule %(schedule)s; choose one of its schedules",
            number=number,
            schedule=wanted.recurring_id,
        )
    if schedule is None:
        raise UsageError(
            "no schedule %(number)s; list schedules with `zatva schedule list`",
            number=wanted.recurring_id,
        )


def _check_recipients(wanted: RuleColumns, settings: WebhookSettings, services: Collection[str]) -> None:
    if bool(wanted.mail) + (wanted.webhook is not None) + (wanted.service is not None) != 1:
        raise UsageError("give one kind of recipient: mail addresses, one web address or one service")
    if wanted.service is not None and wanted.service not in services:
        raise UsageError(
            "there is no service %(name)s; the services are: %(names)s",
            name=repr(wanted.service),
            names=", ".join(services) or "none",
        )
    if wanted.webhook is not None:
        check_url(wanted.webhook, private_networks=settings.private_networks)
    if len(wanted.mail) > MOST_ADDRESSES:
        raise UsageError(
            "%(count)s mail addresses are too many; give at most %(most)s",
            count=len(wanted.mail),
            most=MOST_ADDRESSES,
        )
    for address in wanted.mail:
        if not is_mail_address(address):
            raise UsageError(
                "%(address)s is not a mail address; write it as name@library.example", address=repr(address)
            )
