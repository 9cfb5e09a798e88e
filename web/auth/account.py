"""The account page: password, language, time zone, sessions and API tokens of the user."""

import re
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from pydantic import Field
from sqlalchemy.orm import Session

from oai.errors import UsageError, required
from oai.languages import LANGUAGES
from oai.rights import Scope, scopes_for
from oai.sections import WebSettings
from web.auth.access import Right, about, needs, needs_fresh_sign_in, redirect_to_page, who_asks
from web.auth.api_tokens import TokenView, list_tokens, make_token, revoke_token
from web.auth.openid_users import is_connected
from web.auth.organisations import organisation_name
from web.auth.pages import check_password_of, chosen_password, signed_out
from web.auth.sessions import end_sessions, list_sessions, mark_of, session_token
from web.auth.sign_in import known_user
from web.auth.users import locked_user, set_language, set_password, set_time_zone
from web.site.forms import Form, FormModel, empty_is_none, read_form
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, Shown, as_number, number_in, page_of
from web.site.params import NUMBER, number_of
from web.site.render import render
from web.site.zones import zone_choices

_MARK: Final = re.compile(r"[0-9a-f]{16}")
_USUAL_DAYS: Final = 90


class TokenForm(FormModel):
    """A new API token; without a number of days it is valid for `web.token_days`."""

    token_name: str = Field(min_length=1, max_length=100)
    days: int | None = Field(None, ge=1, le=3650)

    _empty_is_none = empty_is_none("days")


@needs(Right.ACCOUNT)
async def account(request: web.Request) -> web.Response:
    """Show the user's account."""
    return await _page(request)


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def change_password(request: web.Request) -> web.StreamResponse:
    """Set a new password and end the sessions on other browsers."""
    who, form = who_asks(request), await request.post()
    database = database_of(request)
    about(request, "user", who.user_id, who.name)
    known = required(await database.run(known_user, who.name), "the user is signed in")
    # A user who signed in by link or through a proxy has no password to enter.
    if known.password_hash is not None:
        try:
            await check_password_of(request, known, known.name, str(form.get("current", "")))
        except UsageError as error:
            return await _page(request, password=Form(values={}).with_error("current", error_text(error)))
    try:
        hashed = await chosen_password(request, form, who.name)
    except UsageError as error:
        return await _page(request, password=Form(values={}).with_error("password", error_text(error)))
    await database.run(set_password, who.user_id, hashed, keep=session_token(request))
    raise web.HTTPSeeOther("/account?done=password-changed")


@needs(Right.ACCOUNT)
async def change_language(request: web.Request) -> web.StreamResponse:
    """Store the language that the user chose, or return to the browser's."""
    who, form = who_asks(request), await request.post()
    code = form.get("language")
    chosen = code if isinstance(code, str) and code in LANGUAGES else None
    await database_of(request).run(set_language, who.user_id, chosen)
    about(request, "user", who.user_id, who.name)
    raise redirect_to_page(form) if "next" in form else web.HTTPSeeOther("/account?done=language-changed")


@needs(Right.ACCOUNT)
async def change_time_zone(request: web.Request) -> web.StreamResponse:
    """Store the time zone that the user chose, or return to the installation's."""
    who, name = who_asks(request), str((await request.post()).get("time_zone", "")).strip()
    about(request, "user", who.user_id, who.name)
    try:
        await database_of(request).run(set_time_zone, who.user_id, name or None)
    except UsageError as error:
        return await _page(
            request, zone=Form(values={"time_zone": name}).with_error("time_zone", error_text(error))
        )
    raise web.HTTPSeeOther("/account?done=time-zone-changed")


@needs(Right.ACCOUNT)
async def end_session(request: web.Request) -> web.StreamResponse:
    """End the session whose mark the form contains, or all sessions including this one."""
    who, mark = who_asks(request), (await request.post()).get("mark")
    about(request, "user", who.user_id, who.name)
    if mark is None:
        await database_of(request).run(end_sessions, who.user_id)
        raise signed_out(request, "signed-out-everywhere")
    if isinstance(mark, str) and _MARK.fullmatch(mark):
        await database_of(request).run(end_sessions, who.user_id, mark=mark)
    raise web.HTTPSeeOther("/account?done=session-ended")


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def add_token(request: web.Request) -> web.Response:
    """Create an API token and show it; it is not shown again."""
    who, posted = who_asks(request), await request.post()
    asked, form = read_form(TokenForm, posted)
    scopes = [scope for scope in Scope if posted.get(f"scope-{scope.value}")]
    if not scopes and "token_name" not in form.errors:
        form = form.with_error("scopes", _("Choose at least one permission."))
    if asked is None or form.errors:
        return await _page(request, token_form=form)
    settings, after = request.config_dict[SETTINGS].web, as_number(str(posted.get("after", "")))
    try:
        made = await database_of(request).run(_make, settings, who.user_id, asked, scopes, after)
    except UsageError as error:
        return await _page(request, token_form=form.with_error("days", error_text(error)))
    if made is None:
        reason = _(
            "This form has already created the token. "
            "If you did not copy it, revoke it and create another one."
        )
        return await _page(request, token_form=form.with_error("token_name", reason))
    number, token = made
    about(request, "token", number, asked.token_name)
    return await _page(request, fresh=token)


def _make(
    session: Session,
    settings: WebSettings,
    user_id: int,
    asked: TokenForm,
    scopes: Sequence[Scope],
    after: int | None,
) -> tuple[int, str] | None:
    """Create the token; return None if one of that name was created after the token numbered `after`."""
    # Locked, because a second click on the button sends the form a second time.
    locked_user(session, user_id)
    since = [] if after is None else list_tokens(session, user_id, limit=PAGE)
    if any(token.token_id > (after or 0) and token.name == asked.token_name for token in since):
        return None
    return make_token(session, settings, user_id, name=asked.token_name, scopes=scopes, days=asked.days)


@needs(Right.ACCOUNT)
async def end_token(request: web.Request) -> web.StreamResponse:
    """Revoke one of the user's own API tokens."""
    who, number = who_asks(request), number_of(request)
    try:
        row = await database_of(request).run(revoke_token, number, user_id=who.user_id)
    except UsageError:
        raise web.HTTPNotFound(text=_("The token does not exist; it may have been removed.")) from None
    about(request, "token", number, row.name)
    raise web.HTTPSeeOther("/account?done=token-revoked")


async def _page(
    request: web.Request,
    *,
    password: Form | None = None,
    token_form: Form | None = None,
    zone: Form | None = None,
    fresh: str | None = None,
) -> web.Response:
    """Render the page; the token `fresh` is shown but not stored."""
    who, database, cookie = who_asks(request), database_of(request), session_token(request)
    shown = [form for form in (password, token_form, zone) if form is not None]
    settings, openid = request.config_dict[SETTINGS].web, request.config_dict[SETTINGS].openid
    known = await database.run(known_user, who.name)
    has_password = known is not None and known.password_hash is not None
    connected = openid.issuer is not None and await database.run(is_connected, who.user_id, openid.issuer)
    return render(
        request,
        "account.html",
        status=422 if any(form.errors for form in shown) else 200,
        password=password or Form(values={}),
        token_form=token_form or Form(values={"days": _usual_days(settings), "scope-read": "yes"}),
        zone_form=zone or Form(values={"time_zone": who.time_zone or ""}),
        zones=zone_choices(),
        fresh=fresh,
        organisation=await database.run(organisation_name, who.organisation_id),
        has_password=has_password,
        may_confirm=has_password or who.has_second_factor or connected or who.is_fresh(settings),
        provider=openid.name if openid.issuer else None,
        is_connected=connected,
        least=settings.password_length,
        most_days=f"{settings.token_days:g}",
        sessions=await database.run(list_sessions, who.user_id),
        here=mark_of(cookie) if cookie else None,
        newest_tokens=await database.run(list_tokens, who.user_id, limit=1),
        token_page=await _tokens(request),
        scopes=scopes_for(who.role),
        scope_words=_scope_words(),
    )


def _scope_words() -> dict[str, str]:
    return {
        "read": _("read: see what you can see"),
        "harvest": _("harvest: change repositories, schedules and jobs"),
        "archive": _("archive: change collections and documents"),
        "admin": _("admin: change users, organisations and tokens"),
    }


def _usual_days(settings: WebSettings) -> str:
    return f"{min(_USUAL_DAYS, settings.token_days):g}"


async def _tokens(request: web.Request) -> Shown[TokenView]:
    """Return a page of the user's own API tokens, newest first."""
    before = number_in(request, "before")
    found = await database_of(request).run(
        list_tokens, who_asks(request).user_id, limit=PAGE + 1, before=before
    )
    return page_of(found, lambda token: token.token_id, behind=before)


ROUTES = (
    web.get("/account", account),
    web.post("/account/password", change_password),
    web.post("/account/language", change_language),
    web.post("/account/time-zone", change_time_zone),
    web.post("/account/sessions/end", end_session),
    web.post("/account/tokens", add_token),
    web.post(f"/account/tokens/{NUMBER}/revoke", end_token),
)
