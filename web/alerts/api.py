"""REST API: notification rules and the delivery state of each message."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Final

from pydantic import ConfigDict, Field

from manager.notices.addresses import unconfirmed_of
from manager.notices.models import NoticeRule, NoticeState
from manager.notices.outbox import list_notices
from manager.notices.rules import (
    add_rule,
    change_rule,
    list_rules,
    put_trial_into_outbox,
    remove_rule,
    replace_key,
)
from oai.errors import required
from oai.rights import Right
from web.alerts.forms import AlertForm
from web.alerts.pages import mail_of_partner, send_links, services_for
from web.api.operations import Call, Operations
from web.api.paging import after, list_page, page_of
from web.api.shapes import Out, Page, Paged
from web.auth.access import about, visible_repositories
from web.site.paging import LARGEST_BIGINT

OPERATIONS: Final = Operations("alerts")


class AlertRuleOut(Out):
    """A notification rule."""

    rule_id: int
    repository_id: int | None = Field(description="Null: all repositories.")
    recurring_id: int | None = Field(description="The schedule; null: all harvests.")
    kind: str = Field(description="error, change, always, daily or weekly.")
    channel: str = Field(description="mail, webhook or service.")
    target: str
    language: str
    added: datetime
    unconfirmed: list[str] = Field(
        [], description="Addresses that receive nothing before they are confirmed."
    )


class AlertRuleMade(AlertRuleOut):
    """A rule after it was added or changed."""

    signing_key: str | None = Field(
        None, description="The key with which posts are signed, if it is new; it is not shown again."
    )


class KeyOut(Out):
    """A new signing key, which is not shown again."""

    rule_id: int
    signing_key: str
    next_key_from: datetime = Field(description="When it replaces the old one; until then, both are used.")


class LinksOut(Out):
    """The number of links to confirm an address; the manager sends them."""

    links: int


class AlertRuleChange(AlertForm):
    """The whole new rule; its repository does not change."""

    model_config = ConfigDict(extra="forbid")


class NewAlertRule(AlertRuleChange):
    """A rule that is to be."""

    repository_id: int | None = Field(
        None,
        ge=1,
        le=999_999_999,
        description="Null for callers who see all repositories: all repositories.",
    )


class Tried(Out):
    """The number of recipients of a test message; the manager sends it."""

    messages: int


class DeliveryQuery(Paged):
    """Filters for messages."""

    rule: int | None = Field(None, ge=1, le=999_999_999, description="Messages of this rule only.")
    state: NoticeState | None = Field(None, description="Messages in this state only.")
    report: int | None = Field(
        None, ge=1, le=LARGEST_BIGINT, description="Messages in the report of this number only."
    )


class DeliveryOut(Out):
    """A message and its delivery state."""

    notice_id: int
    rule_id: int | None = Field(description="Null: sent by a hook in the settings.")
    repository_id: int | None
    history_id: int | None = Field(description="The run that the message reports.")
    occasion: str
    channel: str
    target: str
    language: str
    state: str
    created: datetime
    due: datetime = Field(description="Time of the next attempt, unless the message is sent or given up.")
    tries: int
    ended: datetime | None
    last_error: str | None
    report_id: int | None = Field(description="The message that reports it together with others.")
    report_state: str | None = Field(description="The state of that message.")


@OPERATIONS.add("GET /alert-rules", "listAlertRules", Right.HARVEST, query=Paged)
async def _list(call: Call) -> Page[AlertRuleOut]:
    """List notification rules by number."""
    rows = await call.database.run(
        list_rules,
        among=visible_repositories(call.who),
        limit=call.asked(Paged).limit + 1,
        after=after(call, int) or 0,
    )
    waiting = await call.database.run(unconfirmed_of, [view.rule for view in rows])
    return page_of(call, rows, lambda view: _out(view.rule, waiting), lambda view: view.rule.rule_id)


@OPERATIONS.add(
    "POST /alert-rules", "addAlertRule", Right.HARVEST, body=NewAlertRule, status=201, faults={404}
)
async def _add(call: Call) -> AlertRuleMade:
    """Add a notification rule for one repository or all repositories."""
    asked = call.sent(NewAlertRule)
    await call.check_repository(asked.repository_id, "create a rule for all repositories")
    wanted = asked.wanted(asked.repository_id)
    made = await call.database.run(
        add_rule,
        wanted,
        call.settings.webhooks,
        partner=mail_of_partner(call.request),
        services=services_for(call.request),
    )
    about(call.request, "notification rule", made.rule_id)
    return await _made(call, made, made.signing_key)


@OPERATIONS.add("GET /alert-rules/{alert_rule}", "getAlertRule", Right.HARVEST)
async def _show(call: Call) -> AlertRuleOut:
    """Show a notification rule."""
    rule = await call.row(NoticeRule, "alert_rule")
    return _out(rule, await call.database.run(unconfirmed_of, [rule]))


@OPERATIONS.add("PUT /alert-rules/{alert_rule}", "changeAlertRule", Right.HARVEST, body=AlertRuleChange)
async def _change(call: Call) -> AlertRuleMade:
    """Change a notification rule."""
    rule = await call.row(NoticeRule, "alert_rule")
    wanted = call.sent(AlertRuleChange).wanted(rule.repository_id)
    changed = await call.database.run(
        change_rule,
        rule.rule_id,
        wanted,
        call.settings.webhooks,
        partner=mail_of_partner(call.request),
        services=services_for(call.request),
    )
    return await _made(
        call, changed, None if changed.signing_key == rule.signing_key else changed.signing_key
    )


@OPERATIONS.add("POST /alert-rules/{alert_rule}/key", "replaceAlertRuleKey", Right.HARVEST, status=201)
async def _replace_key(call: Call) -> KeyOut:
    """Replace the signing key of a webhook; for a while, posts are signed with both."""
    number = (await call.row(NoticeRule, "alert_rule")).rule_id
    key = await call.database.run(replace_key, number, call.settings.webhooks)
    rule = await call.row(NoticeRule, "alert_rule")
    begins = required(rule.next_key_from, "it was just set")
    return KeyOut(rule_id=number, signing_key=key, next_key_from=begins)


@OPERATIONS.add(
    "POST /alert-rules/{alert_rule}/confirmations", "resendConfirmations", Right.HARVEST, status=201
)
async def _resend(call: Call) -> LinksOut:
    """Send new links to the addresses of a rule that are not confirmed."""
    number = (await call.row(NoticeRule, "alert_rule")).rule_id
    return LinksOut(links=await call.database.run(send_links, number))


def _out(rule: NoticeRule, waiting: Mapping[int, list[str]]) -> AlertRuleOut:
    found = AlertRuleOut.model_validate(rule)
    return found.model_copy(update={"unconfirmed": waiting.get(rule.rule_id, [])})


async def _made(call: Call, rule: NoticeRule, key: str | None) -> AlertRuleMade:
    shown = _out(rule, await call.database.run(unconfirmed_of, [rule]))
    return AlertRuleMade(**shown.model_dump(), signing_key=key)


@OPERATIONS.add("DELETE /alert-rules/{alert_rule}", "removeAlertRule", Right.HARVEST)
async def _remove(call: Call) -> None:
    """Remove a notification rule and its unsent messages."""
    await call.database.run(remove_rule, (await call.row(NoticeRule, "alert_rule")).rule_id)


@OPERATIONS.add("POST /alert-rules/{alert_rule}/test", "tryAlertRule", Right.HARVEST, status=201)
async def _try(call: Call) -> Tried:
    """Send a test message to the recipients of a rule."""
    number = (await call.row(NoticeRule, "alert_rule")).rule_id
    return Tried(messages=await call.database.run(put_trial_into_outbox, number))


@OPERATIONS.add("GET /alert-deliveries", "listDeliveries", Right.HARVEST, query=DeliveryQuery)
async def _deliveries(call: Call) -> Page[DeliveryOut]:
    """List sent and pending messages, newest first."""
    query = call.asked(DeliveryQuery)
    find = partial(
        list_notices,
        among=visible_repositories(call.who),
        rule_id=query.rule,
        state=query.state,
        report_id=query.report,
    )
    shown = DeliveryOut.model_validate
    return await list_page(call, find, shown, largest=LARGEST_BIGINT, before=lambda row: row.notice_id)
