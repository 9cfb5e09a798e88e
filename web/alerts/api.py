"""REST API: notification rules and the delivery state of each message."""

from datetime import datetime
from typing import Any, Final

from pydantic import ConfigDict, Field

from harvester.models import Repository
from manager.notices.models import NoticeRule, NoticeState
from manager.notices.outbox import list_notices
from manager.notices.rules import add_rule, change_rule, list_rules, put_trial_into_outbox, remove_rule
from oai.rights import Right
from web.alerts.forms import AlertForm
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operation
from web.api.paging import after, page_of
from web.api.shapes import Out, Page, Paged
from web.auth.access import about, asked_for, visible_repositories

_TAG: Final = "alerts"


class AlertRuleOut(Out):
    """A notification rule."""

    rule_id: int
    repository_id: int | None = Field(description="Null: all repositories.")
    recurring_id: int | None = Field(description="The schedule; null: all harvests.")
    kind: str = Field(description="error, change, always, daily or weekly.")
    channel: str = Field(description="mail or webhook.")
    target: str
    language: str
    added: datetime


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


async def _list(call: Call) -> Page[AlertRuleOut]:
    rows = await call.database.run(
        list_rules,
        among=visible_repositories(call.who),
        limit=call.asked(Paged).limit + 1,
        after=after(call, int) or 0,
    )
    return page_of(
        call, rows, lambda view: AlertRuleOut.model_validate(view.rule), lambda view: view.rule.rule_id
    )


async def _add(call: Call) -> AlertRuleOut:
    asked = call.sent(NewAlertRule)
    if asked.repository_id is not None:
        await asked_for(call.request, Repository, asked.repository_id)
    elif not call.who.sees_everything:
        fault = FieldFault(pointer="/repository_id", detail="choose one of your repositories")
        raise ApiError(
            422, "you cannot create a rule for all repositories; choose one of yours", errors=[fault]
        )
    wish = asked.wish(asked.repository_id)
    made = await call.database.run(add_rule, wish, call.settings.webhooks)
    about(call.request, "notification rule", made.rule_id)
    return AlertRuleOut.model_validate(made)


async def _show(call: Call) -> AlertRuleOut:
    return AlertRuleOut.model_validate(await _asked(call))


async def _change(call: Call) -> AlertRuleOut:
    rule = await _asked(call)
    wish = call.sent(AlertRuleChange).wish(rule.repository_id)
    changed = await call.database.run(change_rule, rule.rule_id, wish, call.settings.webhooks)
    return AlertRuleOut.model_validate(changed)


async def _remove(call: Call) -> None:
    await call.database.run(remove_rule, (await _asked(call)).rule_id)


async def _try(call: Call) -> Tried:
    number = (await _asked(call)).rule_id
    return Tried(messages=await call.database.run(put_trial_into_outbox, number))


async def _deliveries(call: Call) -> Page[DeliveryOut]:
    query = call.asked(DeliveryQuery)
    rows = await call.database.run(
        list_notices,
        query.limit + 1,
        before=after(call, int),
        among=visible_repositories(call.who),
        rule_id=query.rule,
        state=query.state,
    )
    return page_of(call, rows, DeliveryOut.model_validate, lambda row: row.notice_id)


async def _asked(call: Call) -> NoticeRule:
    _, row = await asked_for(call.request, NoticeRule, call.place["alert_rule"])
    return row


def _step(name: str, step: str, summary: str, work: Any, **more: Any) -> Operation:  # noqa: ANN401 as declared
    declared = {"answer": AlertRuleOut, "right": Right.HARVEST, **more}
    path = f"/alert-rules/{{alert_rule}}{step}"
    return Operation(name=name, path=path, tag=_TAG, summary=summary, work=work, **declared)


OPERATIONS: Final = (
    Operation(
        name="listAlertRules",
        method="GET",
        path="/alert-rules",
        tag=_TAG,
        summary="List notification rules by number.",
        right=Right.HARVEST,
        work=_list,
        query=Paged,
        answer=Page[AlertRuleOut],
    ),
    Operation(
        name="addAlertRule",
        method="POST",
        path="/alert-rules",
        tag=_TAG,
        summary="Add a notification rule for one repository or all repositories.",
        right=Right.HARVEST,
        work=_add,
        body=NewAlertRule,
        answer=AlertRuleOut,
        status=201,
        faults=frozenset({404}),
    ),
    _step("getAlertRule", "", "Show a notification rule.", _show, method="GET"),
    _step("changeAlertRule", "", "Change a notification rule.", _change, method="PUT", body=AlertRuleChange),
    _step(
        "removeAlertRule",
        "",
        "Remove a notification rule and its unsent messages.",
        _remove,
        method="DELETE",
        answer=None,
        status=204,
    ),
    _step(
        "tryAlertRule",
        "/test",
        "Send a test message to the recipients of a rule.",
        _try,
        method="POST",
        answer=Tried,
        status=201,
    ),
    Operation(
        name="listDeliveries",
        method="GET",
        path="/alert-deliveries",
        tag=_TAG,
        summary="List sent and pending messages, newest first.",
        right=Right.HARVEST,
        work=_deliveries,
        query=DeliveryQuery,
        answer=Page[DeliveryOut],
    ),
)
