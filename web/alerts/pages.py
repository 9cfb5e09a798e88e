"""Alert pages: current alerts, notification rules and the delivery state of each message."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.leader.lock import leader
from manager.notices.addresses import confirm_address, open_address, resend_links, unconfirmed_of
from manager.notices.models import Notice, NoticeRule, NoticeState
from manager.notices.outbox import list_notices
from manager.notices.rules import (
    add_rule,
    change_rule,
    get_rule,
    list_rules,
    put_trial_into_outbox,
    remove_rule,
    replace_key,
)
from manager.schedules.service import ScheduleView, find_schedules
from oai.audit import last_change
from oai.errors import UsageError
from oai.outgoing import MailSettings
from web.alerts.forms import (
    AlertForm,
    channels,
    kinds,
    language_choices,
    occasions,
    reason_of,
    state_words,
    values_of,
)
from web.auth.access import Right, about, asked_for, needs, visible_repositories, who_asks
from web.overview.situation import attention, figures
from web.repositories.forms import repository_choices
from web.schedules.timing import often_here
from web.site.export import KINDS, columns_of, export_list
from web.site.forms import (
    Form,
    StaleFormError,
    filled_from,
    keeping_other_changes,
    locked_row,
    read_form,
)
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import LARGEST_BIGINT, PAGE, as_number, number_in, page_of
from web.site.params import NUMBER, choice_in, number_of
from web.site.render import confirmation, render, with_form_token

_SHOWN: Final = 10
_ALL: Final = "all"
_COLUMNS: Final = columns_of(
    "notice_id", "created", "occasion", "channel", "target", "language", "repository_id", "history_id",
    "rule_id", "state", "tries", "due", "ended", "last_error", "report_id", "report_state",
)  # fmt: skip
_RULE: Final = {**columns_of("repository_name"), **columns_of(
    "rule_id", "repository_id", "recurring_id", "kind", "channel", "target", "language", "added", of="rule",
)}  # fmt: skip


async def show(request: web.Request) -> web.Response:
    """Show current alerts and rules; addresses and messages only to users who may change the rules."""
    who, database, after = who_asks(request), database_of(request), number_in(request, "after") or 0
    among = visible_repositories(who)
    rules = await database.run(list_rules, among=among, limit=PAGE + 1, after=after)
    return render(
        request,
        "alerts.html",
        rules=page_of(rules, lambda view: view.rule.rule_id, behind=after),
        unconfirmed=await database.run(unconfirmed_of, [view.rule for view in rules]),
        notices=await database.run(list_notices, _SHOWN, among=among) if who.may_change else [],
        leader=await database.run(leader),
        attention=await database.run(attention, among, most=PAGE),
        figures=await database.run(figures, among),
        mail_is_set=request.config_dict[SETTINGS].mail.host is not None,
        **_words(),
    )


@needs(Right.HARVEST)
async def deliveries(request: web.Request) -> web.Response:
    """Show the messages, newest first; `before` pages to older messages."""
    before = number_in(request, "before", largest=LARGEST_BIGINT)
    found = await database_of(request).run(_notices(request), limit=PAGE + 1, before=before)
    page = page_of(found, lambda one: one.notice_id, behind=before)
    return render(
        request,
        "alert_deliveries.html",
        page=page,
        notices=page.rows,
        state=_given(request),
        report=_report(request),
        query=urlencode(
            [pair for pair in (("state", _given(request)), ("report", _report(request))) if pair[1]]
        ),
        states=[(state.value, state_words()[state]) for state in NoticeState],
        **_words(),
    )


@needs(Right.HARVEST)
async def download(request: web.Request) -> web.StreamResponse:
    """Export the messages."""
    find = _notices(request)
    return await export_list(request, "deliveries", _COLUMNS, find, before=lambda row: row.notice_id)


@needs(Right.HARVEST)
async def rules_as_file(request: web.Request) -> web.StreamResponse:
    """Export the rules with their addresses; only for users who may change the rules."""
    find = partial(list_rules, among=visible_repositories(who_asks(request)))
    return await export_list(request, "alerts", _RULE, find, after=lambda row: row.rule.rule_id)


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """Show the form for a new rule, once its subject (a repository or all) has been chosen."""
    chosen = request.query.get("repository", "")
    if not chosen:
        repositories, all_too = await repository_choices(request), who_asks(request).sees_everything
        return render(request, "alert_choose.html", repositories=repositories, all=all_too)
    repository = await _chosen(request)
    return await _form(request, repository, Form(values={}))


@needs(Right.HARVEST)
async def add(request: web.Request) -> web.Response:
    """Add the rule, or show the form again with its errors."""
    repository = await _chosen(request)
    asked, form = read_form(AlertForm, await request.post())
    if asked is None:
        return await _form(request, repository, form)
    wanted = asked.wanted(repository.repository_id if repository else None)
    try:
        made = await database_of(request).run(
            add_rule,
            wanted,
            request.config_dict[SETTINGS].webhooks,
            partner=mail_of_partner(request),
            services=services_for(request),
        )
    except UsageError as error:
        return await _form(request, repository, form.with_error("target", error_text(error)))
    about(request, "notification rule", made.rule_id)
    if made.signing_key is not None:
        return render(request, "alert_key.html", rule=made, key=made.signing_key)
    raise web.HTTPSeeOther(await _done(request, made, "alert-added"))


@needs(Right.HARVEST)
async def edit(request: web.Request) -> web.Response:
    """Show the form of an existing rule."""
    rule = await asked_for(request, NoticeRule)
    return await _form(request, await _source(request, rule), Form(values=filled_from(values_of(rule))), rule)


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Change the rule, or show the form again with its errors."""
    rule = await asked_for(request, NoticeRule)
    repository = await _source(request, rule)
    asked, form = read_form(AlertForm, await request.post())
    if asked is None:
        return await _form(request, repository, form, rule)
    number, wanted = rule.rule_id, asked.wanted(rule.repository_id)
    webhooks, partner = request.config_dict[SETTINGS].webhooks, mail_of_partner(request)
    services = services_for(request)

    def work(session: Session) -> NoticeRule:
        last = partial(last_change, session, "notification rule", number)
        with keeping_other_changes(form, lambda: values_of(locked_row(session, NoticeRule, number)), last):
            return change_rule(session, number, wanted, webhooks, partner=partner, services=services)

    try:
        changed = await database_of(request).run(work)
    except (StaleFormError, UsageError) as error:
        return await _form(request, repository, form.refused(error, "target"), rule)
    if changed.signing_key is not None and changed.signing_key != rule.signing_key:
        return render(request, "alert_key.html", rule=changed, key=changed.signing_key)
    raise web.HTTPSeeOther(await _done(request, changed, "alert-changed"))


@needs(Right.HARVEST)
async def test(request: web.Request) -> web.Response:
    """Queue a test message, which the manager sends."""
    rule = await asked_for(request, NoticeRule)
    await database_of(request).run(put_trial_into_outbox, number_of(request))
    raise web.HTTPSeeOther(await _done(request, rule, "alert-tried"))


async def _done(request: web.Request, rule: NoticeRule, done: str) -> str:
    """Return the page after that step, which names the next one if addresses are not confirmed."""
    if await database_of(request).run(unconfirmed_of, [rule]):
        settings = request.config_dict[SETTINGS]
        saved = "alert-unconfirmed" if settings.web.base_url and settings.mail.host else "alert-unlinked"
        done = "alert-untried" if done == "alert-tried" else saved
    return f"/alerts?done={done}"


@needs(Right.HARVEST)
async def confirm_new_key(request: web.Request) -> web.Response:
    """Ask for confirmation before the signing key is replaced."""
    rule = await asked_for(request, NoticeRule)
    hours = request.config_dict[SETTINGS].webhooks.overlap_hours
    return confirmation(
        request,
        _("Replace the signing key for %(target)s?") % {"target": rule.target},
        _("For %(hours)s hours, messages are signed with both keys; then only with the new one.")
        % {"hours": f"{hours:g}"},
        steps=[(_("Alerts"), "/alerts")],
        button=_("Replace key"),
    )


@needs(Right.HARVEST)
async def new_key(request: web.Request) -> web.Response:
    """Replace the signing key of a webhook, and show the new one once."""
    rule = await asked_for(request, NoticeRule)
    key = await database_of(request).run(replace_key, rule.rule_id, request.config_dict[SETTINGS].webhooks)
    return render(request, "alert_key.html", rule=rule, key=key)


@needs(Right.HARVEST)
async def resend(request: web.Request) -> web.Response:
    """Send new links to the addresses of the rule that are not confirmed."""
    await asked_for(request, NoticeRule)
    await database_of(request).run(send_links, number_of(request))
    raise web.HTTPSeeOther("/alerts?done=links-sent")


def send_links(session: Session, number: int) -> int:
    """Send new links to the addresses of a rule that are not confirmed; return their number."""
    return resend_links(session, get_rule(session, number))


@needs(Right.ANYBODY)
async def show_confirmation(request: web.Request) -> web.Response:
    """Show the recipient the button that confirms: programs that scan mail follow links."""
    address_id, code = _link(request.query)
    found = await database_of(request).run(open_address, address_id, code)
    if found is None:
        return render(request, "address_expired.html", status=410)
    address, organisation = found
    return with_form_token(
        request, "address_confirm.html", address=address, organisation=organisation, code=code
    )


@needs(Right.ANYBODY)
async def confirm(request: web.Request) -> web.Response:
    """Confirm the recipient's address."""
    address_id, code = _link(await request.post())
    address = await database_of(request).run(confirm_address, address_id, code)
    if address is None:
        return render(request, "address_expired.html", status=410)
    about(request, "notification address", address.address_id, address.address)
    raise web.HTTPSeeOther("/alerts/confirmed")


@needs(Right.ANYBODY)
async def confirmed(request: web.Request) -> web.Response:
    """Confirm to the recipient that it worked."""
    return render(request, "address_confirmed.html")


def _link(given: Mapping[str, object]) -> tuple[int, str]:
    """Return the number and code of a link; 0, which no address has, if it is incomplete."""
    return as_number(str(given.get("address", ""))) or 0, str(given.get("code", ""))


def mail_of_partner(request: web.Request) -> MailSettings | None:
    """Return the mail settings if the user is a partner, whose addresses must be confirmed."""
    return None if who_asks(request).sees_everything else request.config_dict[SETTINGS].mail


def services_for(request: web.Request) -> list[str]:
    """Return the names of the services that the user's rules may use: administrators' alone."""
    if not who_asks(request).may(Right.ADMINISTER):
        return []
    return [service.name for service in request.config_dict[SETTINGS].manager.services]


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a rule is removed."""
    rule = await asked_for(request, NoticeRule)
    return confirmation(
        request,
        _("Remove the notification rule?"),
        _("Recipient: %(target)s") % {"target": rule.target},
        _("Its messages are removed, too; messages that are not sent yet will not be sent."),
        steps=[(_("Alerts"), "/alerts")],
        button=_("Remove rule"),
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the rule."""
    await asked_for(request, NoticeRule)
    await database_of(request).run(remove_rule, number_of(request))
    raise web.HTTPSeeOther("/alerts?done=alert-removed")


def _words() -> dict[str, Any]:
    return {
        "kinds": dict(kinds()),
        "channels": dict(channels()),
        "language_names": dict(language_choices()),
        "occasions": occasions(),
        "state_words": state_words(),
        "reason_of": reason_of,
    }


def _given(request: web.Request) -> str:
    return choice_in(request, "state", list(NoticeState))


def _report(request: web.Request) -> int | None:
    return number_in(request, "report", largest=LARGEST_BIGINT)


def _notices(request: web.Request) -> Callable[..., list[Notice]]:
    among, state = visible_repositories(who_asks(request)), _given(request)
    return partial(
        list_notices,
        among=among,
        state=NoticeState(state) if state else None,
        report_id=_report(request),
    )


async def _chosen(request: web.Request) -> Repository | None:
    """Return the repository of the new rule, or None for all; respond 404 if the user cannot see it."""
    if request.query.get("repository") == _ALL and who_asks(request).sees_everything:
        return None
    number = number_in(request, "repository")
    if number is None:
        raise web.HTTPNotFound(text=_("Choose a repository first."))
    return await asked_for(request, Repository, number)


async def _source(request: web.Request, rule: NoticeRule) -> Repository | None:
    number = rule.repository_id
    if number is None:
        return None
    return await database_of(request).run(lambda session: session.get(Repository, number))


async def _form(
    request: web.Request, repository: Repository | None, form: Form, rule: NoticeRule | None = None
) -> web.Response:
    schedules = await database_of(request).run(_schedules, repository)
    return render(
        request,
        "alert_rule.html",
        status=form.status,
        form=form,
        rule=rule,
        repository=repository,
        name=repository.display_name if repository else _("all repositories"),
        schedules=[("", _("All schedules, and harvests without a schedule")), *schedules],
        kinds=kinds(),
        channels=channels() if services_for(request) else channels()[:-1],
        services=services_for(request),
        language_choices=language_choices(),
    )


def _schedules(session: Session, repository: Repository | None) -> list[tuple[int, str]]:
    if repository is None:
        return []
    views = find_schedules(session, repository_id=repository.repository_id)
    return [(view.schedule.id, " · ".join(filter(None, _facts_of(view)))) for view in views]


def _facts_of(view: ScheduleView) -> Sequence[str | None]:
    schedule = view.schedule
    when = often_here(schedule.frequency, schedule.time_zone, view.next_due) if schedule.frequency else None
    return schedule.metadata_prefix, schedule.set_spec, when


ROUTES = (
    web.get("/alerts", show),
    web.get("/alerts/deliveries", deliveries),
    web.get(f"/alerts/deliveries.{KINDS}", download, allow_head=False),
    web.get(f"/alerts/rules.{KINDS}", rules_as_file, allow_head=False),
    web.get("/alerts/rules/new", new),
    web.post("/alerts/rules/new", add),
    web.get(f"/alerts/rules/{NUMBER}", edit),
    web.post(f"/alerts/rules/{NUMBER}", change),
    web.post(f"/alerts/rules/{NUMBER}/test", test),
    web.get(f"/alerts/rules/{NUMBER}/key", confirm_new_key),
    web.post(f"/alerts/rules/{NUMBER}/key", new_key),
    web.post(f"/alerts/rules/{NUMBER}/confirmations", resend),
    web.get("/alerts/confirm", show_confirmation),
    web.post("/alerts/confirm", confirm),
    web.get("/alerts/confirmed", confirmed),
    web.get(f"/alerts/rules/{NUMBER}/remove", confirm_removal),
    web.post(f"/alerts/rules/{NUMBER}/remove", remove),
)
