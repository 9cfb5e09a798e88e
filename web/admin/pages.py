"""Administration pages: index, audit log, all users' API tokens, managers and workers, system health."""

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field, field_validator
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from manager.models import Worker
from manager.notices.letters import Letter, compose, send
from manager.notices.outbox import NotSentError, RefusedError, UnconfirmedError
from manager.worker.registry import all_workers, drain, manager_status
from oai.actions import VERB_OF_OLD, title_of
from oai.audit import KIND_TITLES, Filter, audit_vocabulary, list_entries
from oai.datestamps import utc_now
from oai.disk import disks_of
from oai.errors import UsageError
from oai.folding import folded
from oai.owners import Organisation
from oai.settings_view import HIDDEN, settings_in_effect
from provider.holdings.status import archive_status
from web.admin.changes import changes_of
from web.admin.installation import database_facts, disk_spaces, process_words, unsent_messages
from web.admin.limits import limits_in_effect
from web.auth.access import about, administrators_only
from web.auth.api_tokens import list_tokens, revoke_token
from web.models import ApiToken, User
from web.site.export import KINDS, columns_of, export_list
from web.site.forms import Form, FormModel, read_form
from web.site.i18n import _, mark
from web.site.keys import SETTINGS, database_of
from web.site.paging import LARGEST_BIGINT, PAGE, number_in, page_of
from web.site.params import NUMBER, day_in, number_of
from web.site.render import confirmation, render
from web.site.zones import midnight

_TOKEN: Final = columns_of(
    "token_id", "user_name", "name", "scopes", "state", "created", "expires", "last_used", "revoked",
)  # fmt: skip
_FIELDS: Final = ("user", "action", "kind", "number")
_DAYS: Final = ("since", "until")
_COLUMNS: Final = columns_of(
    "at", "user_name", "via", "action", "object_kind", "object_id", "object_name", "status", "address",
    "before", "after", "count",
)  # fmt: skip
_NO_WORKER: Final = mark("The worker does not exist; it may have ended.")
_ADDRESS: Final = re.compile(r"[^\s@,<>]+@[^\s@,<>]+")


class MailForm(FormModel):
    """The recipient of a test mail."""

    to: str = Field(max_length=254)

    @field_validator("to")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if _ADDRESS.fullmatch(value) is None:
            values = {"address": repr(value)}
            raise ValueError(
                _("%(address)s is not a mail address; write it as name@library.example") % values
            )
        return value


@dataclass(frozen=True, kw_only=True)
class AdminLink:
    """A link to an administration page, with the number of its items if they can be counted."""

    path: str
    title: str
    about: str
    count: int | None = None


@administrators_only
async def front(request: web.Request) -> web.Response:
    """Show the index of the administration pages."""
    users, organisations, tokens, workers = await database_of(request).run(_counts)
    places = [
        AdminLink(path="/admin/users", title=_("Users"), about=_("accounts and roles"), count=users),
        AdminLink(
            path="/admin/organisations",
            title=_("Organisations"),
            about=_("partner institutions"),
            count=organisations,
        ),
        AdminLink(
            path="/admin/tokens", title=_("API tokens"), about=_("access keys for programs"), count=tokens
        ),
        AdminLink(
            path="/admin/workers", title=_("Workers"), about=_("harvest processes by host"), count=workers
        ),
        AdminLink(path="/admin/health", title=_("Health"), about=_("database, disks, archive, this process")),
        AdminLink(path="/admin/limits", title=_("Limits"), about=_("limits and current use")),
        AdminLink(path="/admin/settings", title=_("Settings"), about=_("values, and where they come from")),
        AdminLink(path="/admin/audit", title=_("Audit log"), about=_("changes by user, time and origin")),
    ]
    return render(request, "admin.html", places=places)


@administrators_only
async def settings(request: web.Request) -> web.Response:
    """Show the settings in effect, with the place that each comes from."""
    words, changed = request.query.get("words", "").strip().lower(), "changed" in request.query
    found = [
        replace(line, about=_(line.about))
        for line in settings_in_effect(request.config_dict[SETTINGS])
        # The names are English, and so are the descriptions in the manual.
        if words in f"{line.name} {_(line.about)} {line.about}".lower() and (line.source or not changed)
    ]
    return render(request, "admin_settings.html", lines=found, words=words, changed=changed, hidden=HIDDEN)


@administrators_only
async def tokens(request: web.Request) -> web.Response:
    """Show the API tokens of all users, newest first."""
    before = number_in(request, "before")
    found = await database_of(request).run(list_tokens, limit=PAGE + 1, before=before)
    page = page_of(found, lambda token: token.token_id, behind=before)
    return render(request, "admin_tokens.html", page=page)


@administrators_only
async def tokens_as_file(request: web.Request) -> web.StreamResponse:
    """Export the API tokens of all users; the tokens themselves are not stored."""
    return await export_list(request, "tokens", _TOKEN, list_tokens, before=lambda row: row.token_id)


@administrators_only
async def revoke(request: web.Request) -> web.StreamResponse:
    """Revoke an API token."""
    number = number_of(request)
    try:
        row = await database_of(request).run(revoke_token, number)
    except UsageError:
        raise web.HTTPNotFound(text=_("The token does not exist; it may have been removed.")) from None
    about(request, "token", number, row.name)
    raise web.HTTPSeeOther("/admin/tokens?done=token-revoked")


@administrators_only
async def workers(request: web.Request) -> web.Response:
    """Show the leading manager and the workers on all hosts."""
    status = await database_of(request).run(manager_status)
    return render(request, "admin_workers.html", manager=status, workers=status.workers)


@administrators_only
async def confirm_drain(request: web.Request) -> web.Response:
    """Ask for confirmation before a worker is drained, and warn if no other worker takes jobs."""
    number = number_of(request)
    found = {worker.worker_id: worker for worker in await database_of(request).run(all_workers)}
    if number not in found:
        raise web.HTTPNotFound(text=_(_NO_WORKER))
    is_last = not any(worker.takes_jobs for other, worker in found.items() if other != number)
    lines = [_("It takes no new harvest or file, finishes those it has, and ends; this cannot be undone.")]
    if is_last:
        lines.append(
            _(
                "No other worker takes jobs: no harvest starts until you restart the manager "
                "or start another worker."
            )
        )
    worker = found[number]
    return confirmation(
        request,
        _("Drain worker %(host)s, process %(process)s?")
        % {"host": worker.host, "process": worker.process_id},
        *lines,
        steps=[(_("Administration"), "/admin"), (_("Workers"), "/admin/workers")],
        button=_("Drain"),
    )


@administrators_only
async def drain_worker(request: web.Request) -> web.Response:
    """Let a worker take no new work and end when its harvests have ended."""
    number = number_of(request)
    try:
        await database_of(request).run(drain, [number])
    except UsageError:
        raise web.HTTPNotFound(text=_(_NO_WORKER)) from None
    about(request, "worker", number)
    raise web.HTTPSeeOther("/admin/workers?done=worker-draining")


@administrators_only
async def health(request: web.Request) -> web.Response:
    """Show the health of manager, archive, disks, database, mail and this process."""
    return await _health(request, Form(values={}))


@administrators_only
async def test_mail(request: web.Request) -> web.Response:
    """Send a test mail with the dashboard's settings, and show what the mail server answered."""
    asked, form = read_form(MailForm, await request.post())
    if asked is None:
        return await _health(request, form)
    mail = request.config_dict[SETTINGS].mail
    letter = Letter(
        subject=_("Test message"), body=_("Zatva can send e-mail with its present settings.") + "\n"
    )
    number = f"test.{uuid.uuid4().hex}"
    message = compose(
        letter, sender=mail.sender, to=asked.to, number=number, date=utc_now(), prefix=mail.subject_prefix
    )
    about(request, "mail", asked.to)
    try:
        await asyncio.to_thread(send, message, mail)
    except NotSentError as error:
        return await _health(request, form.with_error("to", _unsent(error)))
    raise web.HTTPSeeOther("/admin/health?done=mail-sent")


@administrators_only
async def limits(request: web.Request) -> web.Response:
    """Show the limits in effect, with what is used of them."""
    settings = request.config_dict[SETTINGS]
    return render(
        request, "admin_limits.html", groups=await database_of(request).run(limits_in_effect, settings)
    )


async def _health(request: web.Request, form: Form) -> web.Response:
    database, settings = database_of(request), request.config_dict[SETTINGS]
    return render(
        request,
        "admin_health.html",
        status=422 if form.errors else 200,
        form=form,
        mail=settings.mail,
        base_url=settings.web.base_url,
        unsent=await database.run(unsent_messages),
        manager=await database.run(manager_status),
        archive=await database.run(archive_status),
        disk_spaces=await database.run(
            disk_spaces, await asyncio.to_thread(disks_of, settings), settings.harvester
        ),
        database=await database.run(database_facts),
        process=process_words(),
        pending=database.pending,
    )


def _unsent(error: NotSentError) -> str:
    """Return why a mail was not sent, with what the mail server said."""
    words = _("The mail server could not be used: `%(answer)s`")
    if isinstance(error, RefusedError):
        words = _("The mail server rejected the message: `%(answer)s`")
    if isinstance(error, UnconfirmedError):
        words = _("The mail server did not confirm the message: `%(answer)s`")
    return words % {"answer": error}


def _counts(session: Session) -> tuple[int, int, int, int]:
    users, organisations, workers = (
        session.scalars(select(func.count()).select_from(table)).one()
        for table in (User, Organisation, Worker)
    )
    good = (ApiToken.expires > func.now()) & ApiToken.revoked.is_(None)
    live = session.scalars(select(func.count()).select_from(ApiToken).where(good)).one()
    return users, organisations, live, workers


@administrators_only
async def audit_log(request: web.Request) -> web.Response:
    """Show the newest entries that match the filter; `before` pages to older entries."""
    database, given = database_of(request), _given(request)
    before = number_in(request, "before", largest=LARGEST_BIGINT)
    entries = await database.run(list_entries, _filter(given), limit=PAGE + 1, before=before)
    return render(
        request,
        "admin_audit.html",
        page=page_of(entries, lambda entry: entry.audit_id, behind=before),
        changes=changes_of,
        titled=_action_title,
        kind=_kind_title,
        form=Form(values=given),
        choices=await _choices(request, given),
        query=urlencode(given),
    )


async def _choices(request: web.Request, given: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return the options of the filters: what the last entries contain, and what is chosen now."""
    found = await database_of(request).run(audit_vocabulary)
    # A verb of today also finds the entries of earlier versions.
    verbs = {VERB_OF_OLD.get(verb, verb) for verb in found.actions}
    columns = (
        ("user", found.users, str),
        ("action", verbs, _action_title),
        ("kind", found.kinds, _kind_title),
    )
    return {
        name: [("", _("all")), *_options({*values, given.get(name, "")} - {""}, title)]
        for name, values, title in columns
    }


def _options(values: Iterable[str], title: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the options of a filter in the order of their texts."""
    return sorted(((one, title(one)) for one in values), key=lambda option: folded(option[1]))


def _action_title(verb: str) -> str:
    return _(title_of(verb))


def _kind_title(kind: str) -> str:
    return _(KIND_TITLES.get(kind, kind))


@administrators_only
async def audit_log_as_file(request: web.Request) -> web.StreamResponse:
    """Export the entries that match the filter, newest first; times are UTC."""
    find = partial(list_entries, wanted=_filter(_given(request)))
    return await export_list(request, "audit", _COLUMNS, find, before=lambda row: row.audit_id)


def _given(request: web.Request) -> dict[str, str]:
    """Return the filter from the query string; no text column contains control characters."""
    given = {name: request.query.get(name, "").strip() for name in _FIELDS}
    for name in _DAYS:
        day = day_in(request, name)
        given[name] = day.isoformat() if day else ""
    return {name: text for name, text in given.items() if text and text.isprintable()}


def _filter(given: dict[str, str]) -> Filter:
    days = {name: date.fromisoformat(given[name]) for name in _DAYS if name in given}
    since, until = days.get("since"), days.get("until")
    return Filter(
        **{name: text for name, text in given.items() if name not in _DAYS},
        since=midnight(since) if since else None,
        until=midnight(until + timedelta(days=1)) if until else None,
    )


ROUTES = (
    web.get("/admin", front),
    web.get("/admin/settings", settings),
    web.get("/admin/tokens", tokens),
    web.get(f"/admin/tokens.{KINDS}", tokens_as_file, allow_head=False),
    web.post(f"/admin/tokens/{NUMBER}/revoke", revoke),
    web.get("/admin/workers", workers),
    web.get(f"/admin/workers/{NUMBER}/drain", confirm_drain),
    web.post(f"/admin/workers/{NUMBER}/drain", drain_worker),
    web.get("/admin/health", health),
    web.post("/admin/health/mail", test_mail),
    web.get("/admin/limits", limits),
    web.get("/admin/audit", audit_log),
    web.get(f"/admin/audit.{KINDS}", audit_log_as_file, allow_head=False),
)
