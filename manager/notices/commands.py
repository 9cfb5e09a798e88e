"""Handlers of `zatva notify`: who is notified when harvests fail, change something, or end."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from sqlalchemy.orm import Session

from harvester.harvest.result import get_history
from manager.notices import addresses, outbox, rules
from manager.notices import mutes as mutes_of
from manager.notices.delivery import deliver
from manager.notices.models import Kind, Language, MuteKind, Notice, NoticeRule, NoticeState
from manager.notices.outbox import Claimed, NotSentError, UnconfirmedError
from oai.cli import Invocation, account_name
from oai.datestamps import utc_now
from oai.errors import ExitCode, UsageError, required
from oai.models import columns_of, from_row

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


_MUTE_COLUMNS: Final = {
    "mute_id": "mute",
    "kind": "kind",
    "repository_name": "repository",
    "history_id": "run",
    "starts": "from",
    "ends": "until",
    "made_by": "by",
    "note": "note",
}
_MOST_MUTES: Final = 1000
_DEFAULT_LIMIT: Final = 50


def add_rule(invocation: Invocation) -> None:
    """Add a rule."""
    given = invocation.arguments
    names = [service.name for service in invocation.settings.manager.services]
    with invocation.session() as session:
        wanted = rules.RuleColumns(
            kind=Kind(given.on),
            language=Language(given.language),
            mail=given.mail or (),
            webhook=given.webhook,
            service=given.service,
            repository_id=given.repository,
            recurring_id=given.schedule,
        )
        rule = rules.add_rule(session, wanted, invocation.settings.webhooks, services=names)
        session.commit()
        invocation.about(rule.rule_id)
        words = f"rule {rule.rule_id} added; test it with `zatva notify test {rule.rule_id}`"
        key = {} if rule.signing_key is None else {"signing_key": rule.signing_key}
        invocation.console.result({**_shown(rule), **key}, f"{words}{_key_words(rule.signing_key)}")


def list_rules(invocation: Invocation) -> None:
    """List the rules."""
    with invocation.session() as session:
        rows = [
            {**_shown(view.rule), "repository_name": view.repository_name or "all"}
            for view in rules.list_rules(session)
        ]
    invocation.console.table(
        rows, _RULE_COLUMNS, empty="no notification rules yet; add one with `zatva notify add`"
    )


def remove_rule(invocation: Invocation) -> None:
    """Remove a rule."""
    rule_id = invocation.arguments.rule_id
    with invocation.transaction() as session:
        rules.remove_rule(session, rule_id)
    invocation.console.result({"rule_id": rule_id, "removed": True}, f"rule {rule_id} removed")


def replace_key(invocation: Invocation) -> None:
    """Give a webhook a new signing key, and print it."""
    rule_id = invocation.arguments.rule_id
    with invocation.transaction() as session:
        key = rules.replace_key(session, rule_id, invocation.settings.webhooks)
        begins = required(rules.get_rule(session, rule_id).next_key_from, "it was just set")
    invocation.console.result(
        {"rule_id": rule_id, "signing_key": key, "next_key_from": begins},
        f"rule {rule_id} has a new key, which replaces the old one at {begins:%Y-%m-%d %H:%M} UTC"
        f"{_key_words(key)}",
    )


def resend_links(invocation: Invocation) -> None:
    """Send new links to a rule's addresses that are not confirmed."""
    rule_id = invocation.arguments.rule_id
    with invocation.transaction() as session:
        links = addresses.resend_links(session, rules.get_rule(session, rule_id))
    invocation.console.result({"rule_id": rule_id, "links": links}, f"the manager sends {links} links")


def confirm_addresses(invocation: Invocation) -> None:
    """Confirm a rule's addresses without a link."""
    rule_id = invocation.arguments.rule_id
    with invocation.transaction() as session:
        confirmed = addresses.confirm_all(session, rules.get_rule(session, rule_id))
    invocation.console.result(
        {"rule_id": rule_id, "confirmed": confirmed}, f"addresses confirmed: {confirmed}"
    )


def _shown(rule: NoticeRule) -> dict[str, Any]:
    """Return the rule's columns without its keys, which are shown once."""
    return {
        name: value for name, value in columns_of(rule).items() if name not in ("signing_key", "next_key")
    }


def _key_words(key: str | None) -> str:
    return "" if key is None else f"\nsigning key, which is not shown again: {key}"


def list_sent(invocation: Invocation) -> None:
    """List the notices that were sent or are waiting, newest first."""
    given = invocation.arguments
    with invocation.session() as session:
        limit = None if given.report and given.limit == _DEFAULT_LIMIT else given.limit
        found = outbox.list_notices(session, limit, report_id=given.report)
        if given.report and not found:
            raise UsageError(f"no report {given.report}; list notifications with `zatva notify sent`")
        rows = [{**columns_of(notice), "report_state": notice.report_state} for notice in found]
    if not invocation.console.as_json:
        for row in rows:
            row["state"] = _state_words(row)
    invocation.console.table(rows, _NOTICE_COLUMNS, empty="no notifications yet")


def _state_words(row: Mapping[str, Any]) -> str:
    if row["state"] != NoticeState.COLLECTED:
        return str(row["state"])
    return f"in report {row['report_id']} ({row['report_state']})" if row["report_id"] else "in a report"


def try_rule(invocation: Invocation) -> ExitCode:
    """Send a test notice to each of a rule's recipients immediately, and print the result."""
    rule_id = invocation.arguments.rule_id
    with invocation.session() as session:
        claimed = [_now(session, notice) for notice in rules.trial(session, rule_id)]
    outcome = ExitCode.DONE
    for notice in claimed:
        try:
            asyncio.run(deliver(notice, invocation.settings))
        except NotSentError as error:
            outcome = max(outcome, error.exit_code)
            state = "unsure" if isinstance(error, UnconfirmedError) else "not sent"
            invocation.console.result(
                {"target": notice.target, "sent": False, "reason": str(error)},
                f"{notice.target}: {state}: {error}",
            )
        else:
            invocation.console.result({"target": notice.target, "sent": True}, f"{notice.target}: sent")
    return outcome


def mute(invocation: Invocation) -> None:
    """Mute a repository or all for a time."""
    given = invocation.arguments
    kind = MuteKind.MAINTENANCE if given.maintenance else MuteKind.MUTED
    with invocation.session() as session:
        row = mutes_of.mute(
            session,
            given.repository,
            kind,
            note=given.note,
            ends=utc_now() + timedelta(hours=given.hours),
            by=account_name() or "",
        )
        session.commit()
        shown = columns_of(row)
    invocation.about(row.mute_id)
    words = f"mute {row.mute_id} until {row.ends:%Y-%m-%d %H:%M} UTC"
    invocation.console.result(shown, f"{words}; end it with `zatva notify unmute {row.mute_id}`")


def mutes(invocation: Invocation) -> None:
    """List what is acknowledged, muted or in maintenance, newest first."""
    with invocation.session() as session:
        found = mutes_of.list_mutes(session, among=None, limit=_MOST_MUTES, past=invocation.arguments.past)
        rows = [{**columns_of(row), "repository_name": name or "all"} for row, name in found]
    invocation.console.table(rows, _MUTE_COLUMNS, empty="nothing is muted")


def unmute(invocation: Invocation) -> None:
    """End a mute now."""
    number = invocation.arguments.mute_id
    with invocation.transaction() as session:
        mutes_of.end_mute(session, number)
    invocation.console.result({"mute_id": number, "ended": True}, f"mute {number} has ended")


def acknowledge(invocation: Invocation) -> None:
    """Acknowledge a failed run."""
    given = invocation.arguments
    with invocation.session() as session:
        get_history(session, given.history_id)
        row = mutes_of.acknowledge(session, given.history_id, note=given.note, by=account_name() or "")
        session.commit()
        shown = columns_of(row)
    invocation.console.result(shown, f"run {given.history_id} is acknowledged (mute {row.mute_id})")


def _now(session: Session, notice: Notice) -> Claimed:
    return from_row(
        Claimed,
        notice,
        notice_id=0,
        created=utc_now(),
        tries=1,
        keys=outbox.keys_of(session, notice),
        zone=None,
        ordered_by=outbox.ordered_by(session, notice.rule_id),
    )
