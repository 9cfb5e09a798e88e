"""Rules of who is told what: added, listed, removed, tried."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.models import RecurringJob
from manager.notices.addresses import check_url
from manager.notices.announcing import notices_for
from manager.notices.facts import facts_of_repository, moment
from manager.notices.models import Channel, Kind, Language, Notice, NoticeRule, Occasion
from manager.schedules import database_now
from oai.errors import UsageError
from oai.outgoing import WebhookSettings

_ADDRESS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """A rule as lists show it."""

    rule: NoticeRule
    repository_name: str | None
    """None: all repositories."""


def add_rule(
    session: Session,
    *,
    kind: Kind,
    language: Language,
    mail: Sequence[str] = (),
    webhook: str | None = None,
    repository_id: int | None = None,
    recurring_id: int | None = None,
    settings: WebhookSettings,
) -> NoticeRule:
    """Add a rule: either mail addresses or a web address are told. The caller commits.

    Raises UsageError for an unknown repository or schedule, or an address that cannot be written to.
    """
    if bool(mail) == (webhook is not None):
        raise UsageError("say who is told: either mail addresses or one web address")
    if repository_id is not None and session.get(Repository, repository_id) is None:
        raise UsageError(
            f"repository {repository_id}: there is none of that number; see `zatva repository list`"
        )
    if recurring_id is not None and session.get(RecurringJob, recurring_id) is None:
        raise UsageError(f"schedule {recurring_id}: there is none of that number; see `zatva schedule list`")
    if webhook is not None:
        check_url(webhook, private_networks=settings.private_networks)
    for address in mail:
        if not _ADDRESS.fullmatch(address):
            raise UsageError(f"{address!r} is no mail address; write it as name@library.example")
    rule = NoticeRule(
        repository_id=repository_id,
        recurring_id=recurring_id,
        kind=kind,
        channel=Channel.WEBHOOK if webhook is not None else Channel.MAIL,
        target=webhook if webhook is not None else ", ".join(dict.fromkeys(mail)),
        language=language,
    )
    session.add(rule)
    session.flush()
    session.refresh(rule)
    return rule


def remove_rule(session: Session, rule_id: int) -> None:
    """Remove a rule with its notices; raises UsageError where there is none. The caller commits."""
    session.delete(_rule(session, rule_id))
    session.flush()


def list_rules(session: Session) -> list[RuleView]:
    """All rules by number."""
    query = (
        select(NoticeRule, func.coalesce(Repository.repository_name, Repository.base_url))
        .outerjoin(Repository, Repository.repository_id == NoticeRule.repository_id)
        .order_by(NoticeRule.rule_id)
    )
    return [RuleView(rule=rule, repository_name=name) for rule, name in session.execute(query)]


def trial(session: Session, rule_id: int) -> list[Notice]:
    """A notice to each of the rule's recipients that says that it is a trial, not in the session.

    Raises UsageError where there is no such rule.
    """
    rule = _rule(session, rule_id)
    facts: dict[str, Any] = {
        **facts_of_repository(session, rule.repository_id),
        "kind": rule.kind,
        "at": moment(database_now(session)),
    }
    return notices_for(rule, Occasion.TEST, facts)


def _rule(session: Session, rule_id: int) -> NoticeRule:
    rule = session.get(NoticeRule, rule_id)
    if rule is None:
        raise UsageError(f"rule {rule_id}: there is none of that number; see `zatva notify list`")
    return rule
