"""Rendering of pages: Jinja2 with autoescaping, and the context that every page needs."""

import hashlib
import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harvester.access import access_of
from oai.datestamps import utc_now
from oai.languages import LANGUAGES, SOURCE
from oai.outgoing import mail_link
from oai.rights import Right
from web.auth.access import page_of, signed_in
from web.auth.csrf import FIELD, expected_token
from web.auth.sessions import SignedIn, form_token, new_token, set_form
from web.runs.words import is_made_up
from web.schedules.timing import often_here
from web.site import failures, formats
from web.site.field_help import field_help
from web.site.formats import look_of
from web.site.i18n import _, error_text, language, mark, ngettext
from web.site.plots import run_plots
from web.site.preferences import offers_search_key, theme_of
from web.site.zones import here

_NUMBER: Final = re.compile(r"(%\(\w+\)[sd]) (?=\w)")
"""A placeholder and the blank before its noun."""
_REFUSAL: Final = web.RequestKey("refusal", str)
_SHAPES: Final[Mapping[str, str]] = {
    "ear": (
        '<path d="M8 15V6M8 6c-2 0-3-1.2-3-3 2 0 3 1.2 3 3zm0 0c2 0 3-1.2 3-3-2 0-3 1.2-3 3z'
        "M8 10c-2.2 0-3.5-1.2-3.5-3.2 2.2 0 3.5 1.2 3.5 3.2zm0 0c2.2 0 3.5-1.2 3.5-3.2C9.3"
        " 6.8 8 8 8 10zm0 3.7c-2.2 0-3.5-1.2-3.5-3.2 2.2 0 3.5 1.2 3.5 3.2zm0 0c2.2 0 3.5-1.2"
        ' 3.5-3.2-2.2 0-3.5 1.2-3.5 3.2z"/>'
    ),
    "person": ('<circle cx="8" cy="5" r="2.7"/><path d="M2.8 14c.5-3 2.6-4.6 5.2-4.6s4.7 1.6 5.2 4.6"/>'),
    "lens": '<circle cx="7" cy="7" r="4.5"/><path d="M10.4 10.4L14 14"/>',
    "question": (
        '<circle cx="8" cy="8" r="6.5"/><path d="M6 6.3c0-2.6 4-2.6 4 0 0 1.7-2 1.8-2 3.4M8 11.4v.3"/>'
    ),
    "dot": '<circle cx="8" cy="8" r="2.5"/>',
    "clock": '<circle cx="8" cy="8" r="6"/><path d="M8 4.6V8l2.4 1.6"/>',
    "play": '<path d="M5 3.2v9.6l7.6-4.8z" fill="currentColor"/>',
    "hourglass": (
        '<path d="M4 2.5h8M4 13.5h8M5 2.5c0 3 3 3.8 3 5.5s-3 2.5-3 5.5M11 2.5c0 3-3 3.8-3 5.5s3 2.5 3 5.5"/>'
    ),
    "pause": '<path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2.4"/>',
    "stop": '<rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor"/>',
    "check": '<path d="M3 8.5l3.3 3.3L13 4.8" stroke-width="2"/>',
    "warning": '<path d="M8 2.5l6 11H2zM8 6.8v3M8 11.6v.3"/>',
    "equals": '<path d="M3.5 6h9M3.5 10h9" stroke-width="2"/>',
    "half": ('<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/>'),
    "hand": '<path d="M8 2.5v6M8 11.5v.5" stroke-width="2"/><circle cx="8" cy="8" r="6.5"/>',
    "cross": '<path d="M4 4l8 8M12 4l-8 8" stroke-width="2"/>',
    "skip": '<path d="M3 4l5 4-5 4zM8 4l5 4-5 4z"/>',
    "repeat": '<path d="M13 7a5 5 0 0 0-9-2M3 9a5 5 0 0 0 9 2M4 2v3h3M12 14v-3H9"/>',
    "once": '<path d="M2.5 8H13M9.5 4.5L13 8l-3.5 3.5"/>',
    "plus": '<path d="M8 3v10M3 8h10" stroke-width="2"/>',
    "bin": '<path d="M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9M6.7 7v4M9.3 7v4"/>',
}
STATIC: Final = Path(__file__).parent.parent / "static"
_ENTRY: Final = "[1-9][0-9]{0,18}"
_UNDO: Final = re.compile(
    rf"/(jobs|schedules)/[1-9][0-9]{{0,8}}/(pause|resume)(\?since={_ENTRY})?"
    rf"|/repositories/selected/resume\?since={_ENTRY}(,{_ENTRY}){{0,99}}"
)
_TEMPLATES: Final = Path(__file__).parent.parent / "templates"
TEMPLATES = web.AppKey("templates", Environment)


def icon(name: str) -> Markup:
    """Return the icon as inline SVG, hidden from screen readers because a word is always beside it."""
    return Markup(  # noqa: S704 our own drawings
        f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">{_SHAPES[name]}</svg>'
    )


_SENTENCES: Final[Mapping[str, str]] = {
    "repository-added": mark("The repository was added. Schedule its first harvest next."),
    "repository-planned": mark("The repository was added, and its first harvest is planned."),
    "repository-removed": mark("The repository was removed. Its files are kept."),
    "repository-being-removed": mark(
        "The repository has many records; its removal continues in the background. Its files are kept."
    ),
    "repositories-being-removed": mark("The removal continues in the background. The files are kept."),
    "repository-changed": mark("The repository was changed."),
    "repository-moved": mark(
        "The repository was changed. Because its address is new, the next harvest requests all records."
    ),
    "repository-asked": mark("The repository's details were refreshed."),
    "repository-unlocked": mark("The lock was cleared. Harvests that wait begin within moments."),
    "alert-added": mark("The rule was added. Send a test message to check the delivery."),
    "alert-unconfirmed": mark(
        "The rule is saved. An address that is not confirmed gets a link by mail when it is first entered; "
        "messages to it, also tests, follow once the recipient has confirmed it."
    ),
    "alert-unlinked": mark(
        "The rule is saved, but links to confirm its addresses cannot be sent, so nothing is sent to them: "
        "ask an administrator to set web.base_url and mail.host, or to confirm the addresses."
    ),
    "alert-changed": mark("The rule was changed."),
    "alert-removed": mark("The rule was removed."),
    "links-sent": mark("The manager is sending the links; see their state under Messages."),
    "alert-tried": mark("The manager is sending a test message; see its state under Messages."),
    "alert-untried": mark(
        "Addresses that are not confirmed get the test message once their recipients have confirmed them; if "
        "no link arrives, ask an administrator to confirm the addresses."
    ),
    "repair-chosen": mark("Such records are repaired from the next harvest on."),
    "acknowledged": mark(
        "The failure is acknowledged until its harvest succeeds or fails for another reason."
    ),
    "mail-sent": mark("The mail server has accepted the message."),
    "worker-draining": mark("The worker takes no new work and ends when its harvests have ended."),
    "muted": mark("Saved. You can end the mute or maintenance at any time."),
    "unmuted": mark("The mute or maintenance has ended."),
    "audit-queued": mark("The audit is queued and starts as soon as a worker is free."),
    "audit-schedule-set": mark("The schedule of audits was set."),
    "audit-schedule-removed": mark("The schedule of audits was removed."),
    "schedule-changed": mark("The schedule was changed; its next run is being planned."),
    "schedule-changed-by-name": mark(
        "The schedule was changed. The set was entered by its name; the schedule has its short name "
        "(setSpec)."
    ),
    "job-paused": mark("The job is paused until you resume it. A running harvest finishes its page first."),
    "job-resumed": mark("The job was resumed."),
    "job-killed": mark("The harvest is being killed. Committed records are kept."),
    "run-released": mark("The run was approved."),
    "run-released-all": mark("The run was approved. The next harvest requests all records."),
    "runs-removed": mark("The entries were removed from the history."),
    "repositories-run": mark("The harvests were requested."),
    "repositories-paused": mark("The schedules of the selected repositories are paused."),
    "repositories-pause-undone": mark("The pause was undone: the schedules that it had paused were resumed."),
    "repositories-resumed": mark("The schedules of the selected repositories were resumed."),
    "repositories-removed": mark("The selected repositories were removed. Their files are kept."),
    "harvest-asked": mark("The harvest was requested."),
    "schedule-added": mark("The schedule was added."),
    "schedule-added-by-name": mark(
        "The schedule was added. The set was entered by its name; the schedule has its short name (setSpec)."
    ),
    "schedule-paused": mark("The schedule is paused. A harvest that is already running continues."),
    "schedule-resumed": mark("The schedule was resumed."),
    "schedule-removed": mark("The schedule was removed."),
    "job-removed": mark("The job was removed."),
    "job-stopping": mark("The job is stopping: it finishes its page and keeps what it has stored."),
    "job-stopping-and-paused": mark(
        "The job is stopping: it finishes its page and keeps what it has stored. Its schedule is paused."
    ),
    "run-removed": mark("The entry was removed from the history."),
    "document-hidden": mark("The document is hidden; harvesters see it as deleted."),
    "document-shown": mark("The document is no longer hidden."),
    "aggregate-added": mark("The repository's records are being published."),
    "aggregate-withdrawn": mark(
        "The repository is being withdrawn; harvesters will see its records as deleted."
    ),
    "collection-added": mark("The collection was created. Add documents next."),
    "collection-changed": mark("The collection was changed."),
    "collection-removed": mark("The collection was removed. Its documents stay in the archive."),
    "rule-made": mark("The rule was saved. No schedule uses it yet: choose one below."),
    "rule-made-for-schedule": mark("The rule was saved, and the new schedule uses it."),
    "rule-made-for-schedules": mark("The rule was saved, and all new schedules use it."),
    "rule-saved-unused": mark("The rule was saved."),
    "rule-saved": mark("The rule was saved; the next harvest uses this version."),
    "everything-asked": mark(
        "All records are requested again: now, or with the next run of a schedule that is paused or has to "
        "wait."
    ),
    "rule-restored": mark("The earlier version was restored."),
    "rule-removed": mark("The rule was removed. Its file is kept."),
    "replay-begun": mark("The replay has started; its result will appear in the history."),
    "import-begun": mark("The import has started; its figures are updated on this page."),
    "import-changed": mark("The import settings were saved."),
    "set-saved": mark("The filtering set was saved."),
    "set-removed": mark("The filtering set was removed."),
    "rule-changed": mark("The rule was changed; it is being applied to the documents."),
    "documents-assigned": mark("The documents were added to the collection."),
    "documents-taken-out": mark("The documents were removed from the collection."),
    "check-started": mark("The self-test has started. Refresh the page in a moment."),
    "signed-out": mark("You are signed out."),
    "no-password": mark(
        "You have no password yet. Set one now on the page of your account; later, this needs a new link."
    ),
    "files-queued": mark("The files are queued; this page reloads by itself."),
    "digest-asked": mark("A message with a link to confirm is on its way."),
    "digest-confirmed": mark("The digest will come after each week with harvests."),
    "card-revoked": mark("The link to the report card is no longer valid."),
    "card-checked": mark("The check has begun; load this page again in a minute."),
    "card-too-soon": mark("The last check was less than an hour ago; try again later."),
    "export-queued": mark("The file is queued; this page reloads by itself."),
    "export-removed": mark("The file was removed."),
    "taken-down": mark("The take-down was registered."),
    "titles-imported": mark("The titles were imported."),
    "take-down-ended": mark("The take-down has ended."),
    "no-sign-out-there": mark("The other service has no page for signing out. Close the browser."),
    "account-connected": mark("Your account is connected; you can sign in with it."),
    "account-disconnected": mark("Your account at the other service is no longer connected."),
    "signed-out-everywhere": mark("You are signed out in all browsers."),
    "password-changed": mark("The password was changed. Other browsers were signed out."),
    "codes-shown": mark("The recovery codes were shown once. If you have not saved them, create new ones."),
    "second-factor-off": mark("The second factor is turned off."),
    "second-factor-reset": mark(
        "The second factor was reset. The user signs in with the password alone until it is set up again."
    ),
    "recovery-code-used": mark("You used a recovery code, which is now spent."),
    "language-changed": mark("The language was changed."),
    "time-zone-changed": mark("The time zone was changed."),
    "session-ended": mark("The browser was signed out."),
    "token-revoked": mark("The token was revoked and is no longer valid."),
    "user-changed": mark("The user was changed."),
    "user-disabled": mark(
        "The user was disabled: all sessions ended, and API tokens are no longer accepted."
    ),
    "user-enabled": mark("The user was enabled."),
    "organisation-added": mark("The organisation was added."),
    "organisation-changed": mark("The organisation was changed."),
    "organisation-removed": mark(
        "The organisation was removed. Its repositories now belong to the administrators."
    ),
    "repositories-given": mark("The repositories with their schedules and jobs were assigned."),
}


def notice_of(done: str | None) -> str | None:
    """Return the sentence for `?done=…`, or None for an unknown word."""
    sentence = _SENTENCES.get(done or "")
    return None if sentence is None else _(sentence)


def undo_of(path: str | None) -> str | None:
    """Return the path that `?undo=…` names if it is one that undoes an action, otherwise None."""
    return path if path and _UNDO.fullmatch(path) else None


@dataclass(frozen=True, kw_only=True)
class Tab:
    """An entry of the navigation."""

    path: str
    title: str
    current: str | None
    """Value of `aria-current`: page on its own page, true on pages below it."""


def _counted(singular: str, plural: str, count: int) -> str:
    """Return the plural form for that number; in Czech and Slovak, a line never ends after a number."""
    found = ngettext(singular, plural, count)
    return found if language.get() == SOURCE else _NUMBER.sub("\\1\u00a0", found)


@cache
def environment() -> Environment:
    """Return the template environment; an undefined name in a template is an error."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"],
    )  # fmt: skip
    made.policies["ext.i18n.trimmed"] = True
    made.install_gettext_callables(_, _counted, newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(
        number=formats.number,
        some=formats.some,
        is_past=formats.is_past,
        moment=formats.moment,
        exact=formats.exact,
        elapsed=formats.elapsed,
        second=formats.second,
        hour=formats.hour,
        month=formats.month,
        duration=formats.duration,
        coded=formats.coded,
        decimal=formats.decimal,
        language_name=formats.language_name,
        day=formats.day,
        short_day=formats.short_day,
        datestamp=formats.datestamp,
        size=formats.size,
        reason=formats.reason,
        often_here=often_here,
    )
    made.globals.update(
        icon=icon, look_of=look_of, static=_static_urls().__getitem__, access_of=access_of, failures=failures,
        field_help=field_help, is_made_up=is_made_up, mail_link=mail_link, error_text=error_text,
        run_plots=run_plots, harvest_name=formats.harvest_name, version=importlib.metadata.version("zatva"),
    )  # fmt: skip
    return made


def render(
    request: web.Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,  # noqa: ANN401 any template variable
) -> web.Response:
    """Render the page; besides `context` the template gets the user, the path and the form token."""
    page, who = request.config_dict[TEMPLATES].get_template(template), signed_in(request)
    shared = {
        "who": who,
        "language": language.get(),
        "languages": LANGUAGES,
        "theme": theme_of(request),
        "search_key": offers_search_key(request),
        "rendered_at": utc_now().isoformat(),
        "answers_form": request.method == "POST" and _REFUSAL not in request,
        "here": page_of(request),
        "zone": here().key,
        "tabs": _tabs(request.path, who),
        "overflow_tabs": _overflow_tabs(request.path, who),
        "notice": notice_of(request.query.get("done")),
        "undo": undo_of(request.query.get("undo")),
        "refusal": request.get(_REFUSAL, ""),
        "csrf_field": FIELD,
        "csrf_token": expected_token(request),
    }
    text = page.render({**shared, **context})
    return web.Response(text=text, content_type="text/html", status=status, headers=headers)


def confirmation(
    request: web.Request,
    title: str,
    *lines: str,
    steps: Sequence[tuple[str, str]],
    button: str,
    back: str | None = None,
    **context: Any,  # noqa: ANN401 any template variable
) -> web.Response:
    """Render the page that asks `title` and says in `lines` what happens, with the button that does it.

    `back` is where the other button leads, by default to the last of `steps`.
    """
    context.update(title=title, lines=lines, steps=steps, button=button, back=back or steps[-1][1])
    return render(request, "confirm.html", **context)


async def refuse(request: web.Request, page: Handler, reason: str) -> web.StreamResponse:
    """Return, with status 409, the page from which something was asked, with the reason at its top."""
    request[_REFUSAL] = reason
    answer = await page(request)
    answer.set_status(web.HTTPConflict.status_code)
    return answer


def pages_of(path: str, who: SignedIn) -> list[Tab]:
    """Return the entries of the navigation, and the pages that the header and the footer link to."""
    others = {"/help": _("Help"), "/api/docs": _("API"), "/account": _("Account")}
    more = [_tab(path, place, title) for place, title in others.items()]
    return [*_tabs(path, who), *_overflow_tabs(path, who), *more]


def _tabs(path: str, who: SignedIn | None) -> list[Tab]:
    """Return the tabs for daily use; more would not fit into one row."""
    archive = {"/archive": _("Archive")} if who is not None and who.may(Right.LOOK_AROUND) else {}
    titles = {
        "/": _("Overview"),
        "/repositories": _("Repositories"),
        "/schedules": _("Schedules"),
        "/jobs": _("Current jobs"),
        "/runs": _("History"),
        "/records": _("Records"),
        "/alerts": _("Alerts"),
        **archive,
    }
    return [_tab(path, place, title) for place, title in titles.items()]


def _overflow_tabs(path: str, who: SignedIn | None) -> list[Tab]:
    """Return the tabs for what is rarely changed."""
    administration = {"/admin": _("Administration")} if who is not None and who.may(Right.ADMINISTER) else {}
    titles = {
        "/imports": _("Imports"),
        "/rules": _("Rules"),
        "/store-audits": _("Store audits"),
        **administration,
    }
    return [_tab(path, place, title) for place, title in titles.items()]


def _tab(path: str, place: str, title: str) -> Tab:
    # A broken record belongs to the run that met it.
    path = path.replace("/errors/", "/runs/errors/", 1)
    below = place != "/" and path.startswith(f"{place}/")
    return Tab(path=place, title=title, current="page" if path == place else "true" if below else None)


def _static_urls() -> dict[str, str]:
    """Return each static file's URL with a hash of its content, so that browsers may cache it for good."""
    return {
        file.name: f"/static/{file.name}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        for file in STATIC.iterdir()
        if file.is_file()
    }


def with_form_token(
    request: web.Request,
    template: str,
    **context: Any,  # noqa: ANN401 any template variable
) -> web.Response:
    """Render a page whose form must repeat the value of the cookie that is set with this response."""
    if signed_in(request) is not None or form_token(request):
        return render(request, template, **context)
    value = new_token()
    response = render(request, template, csrf_token=value, **context)
    set_form(request, response, value)
    return response
