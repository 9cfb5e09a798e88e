"""Handlers of `zatva notify`: who is notified when harvests fail, change something, or end."""

import asyncio
from typing import Final

from manager.notices import outbox, rules
from manager.notices.delivery import deliver
from manager.notices.models import Kind, Language, Notice
from manager.notices.outbox import Claimed, NotSentError
from oai.cli import Invocation
from oai.database import open_database
from oai.datestamps import utc_now
from oai.errors import ExitCode
from oai.models import columns_of

_RULE_COLUMNS: Final = {
    "rule_id": "rule",
    "repository_name": "repository",
    "recurring_id": "schedule",
    "kind": "on",
    "channel": "by",
    "target": "to",
    "language": "language",
}
_NOTICE_COLUMNS: Final = {
    "notice_id": "notice",
    "created": "written",
    "occasion": "about",
    "channel": "by",
    "target": "to",
    "history_id": "run",
    "state": "state",
    "tries": "tries",
    "last_error": "because",
}


def add_rule(invocation: Invocation) -> ExitCode:
    """Add a rule."""
    given = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        wish = rules.Wish(
            kind=Kind(given.on),
            language=Language(given.language),
            mail=given.mail or (),
            webhook=given.webhook,
            repository_id=given.repository,
            recurring_id=given.schedule,
        )
        rule = rules.add_rule(session, wish, invocation.settings.webhooks)
        session.commit()
        invocation.about(rule.rule_id)
        invocation.console.result(
            columns_of(rule), f"rule {rule.rule_id} added; test it with `zatva notify test {rule.rule_id}`"
        )
    return ExitCode.DONE


def list_rules(invocation: Invocation) -> ExitCode:
    """List the rules."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [
            {**columns_of(view.rule), "repository_name": view.repository_name or "all"}
            for view in rules.list_rules(session)
        ]
    invocation.console.table(
        rows, _RULE_COLUMNS, empty="no notification rules yet; add one with `zatva notify add`"
    )
    return ExitCode.DONE


def remove_rule(invocation: Invocation) -> ExitCode:
    """Remove a rule."""
    rule_id = invocation.arguments.rule_id
    with open_database(invocation.settings) as database, database.session() as session:
        rules.remove_rule(session, rule_id)
        session.commit()
    invocation.console.result({"rule_id": rule_id, "removed": True}, f"rule {rule_id} removed")
    return ExitCode.DONE


def list_sent(invocation: Invocation) -> ExitCode:
    """List the notices that were sent or are waiting, newest first."""
    with open_database(invocation.settings) as database, database.session() as session:
        rows = [columns_of(notice) for notice in outbox.list_notices(session, invocation.arguments.limit)]
    invocation.console.table(rows, _NOTICE_COLUMNS, empty="no notifications yet")
    return ExitCode.DONE


def try_rule(invocation: Invocation) -> ExitCode:
    """Send a test notice to each of a rule's recipients immediately, and print the result."""
    rule_id = invocation.arguments.rule_id
    with open_database(invocation.settings) as database, database.session() as session:
        notices = rules.trial(session, rule_id)
    outcome = ExitCode.DONE
    for notice in notices:
        try:
            asyncio.run(deliver(_now(notice), invocation.settings))
        except NotSentError as error:
            outcome = ExitCode.REMOTE_FAILED
            invocation.console.result(
                {"target": notice.target, "sent": False, "reason": str(error)},
                f"{notice.target}: not sent: {error}",
            )
        else:
            invocation.console.result({"target": notice.target, "sent": True}, f"{notice.target}: sent")
    return outcome


def _now(notice: Notice) -> Claimed:
    return Claimed(
        notice_id=0,
        occasion=notice.occasion,
        channel=notice.channel,
        target=notice.target,
        language=notice.language,
        facts=notice.facts,
        created=utc_now(),
        tries=1,
    )
