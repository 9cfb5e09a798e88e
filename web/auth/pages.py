"""Sign-in by password or one-time link, second factor, signing in again, sign-out."""

import math
from datetime import datetime
from functools import partial
from typing import Any

from aiohttp import web
from multidict import MultiMapping
from sqlalchemy.orm import Session
from yarl import URL

from oai.errors import UsageError, required
from web.auth.access import Right, about, is_for_fresh_sign_in, local_path, needs, who_asks
from web.auth.attempts import (
    TooManyAttemptsError,
    attempt,
    code_place,
    is_known_browser,
    place_of,
    remember_browser,
    succeeded,
)
from web.auth.audit import count_refusal
from web.auth.identify import client_address
from web.auth.openid_users import is_connected
from web.auth.passwords import HASHING, hash_password, password_fits
from web.auth.second_factor import RECOVERY_CODE, accepted_factor
from web.auth.sessions import (
    WaitingForCode,
    browser_token,
    end_session,
    find_waiting,
    forget,
    leave,
    session_token,
    set_browser,
    set_session,
    start_session,
    was_confirmed,
)
from web.auth.sign_in import Known, known_user, open_link, use_link
from web.auth.users import set_password
from web.models import LinkKind
from web.site.forms import Form
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.render import render, with_form_token

_LONGEST_NAME = 100


@needs(Right.ANYBODY)
async def ask(request: web.Request) -> web.Response:
    """Show the sign-in form, or the button that confirms a one-time link.

    Opening the link does not sign in: programs that scan mail follow links but do not press buttons.
    """
    token = request.query.get("token")
    if token is None:
        # From here, because our forms lead to our own site alone (form-action), also by redirects.
        there = {"Refresh": "0; url=/sign-in/openid/sign-out"} if "there" in request.query else None
        return with_form_token(
            request,
            "sign_in.html",
            headers=there,
            form=Form(values={}),
            **_sign_in_options(request, local_path(request.query)),
        )
    link = await database_of(request).run(open_link, token)
    if link is None:
        return render(request, "sign_in_expired.html", status=410)
    return with_form_token(request, "sign_in_button.html", token=token, link=link, **_rules(request))


@needs(Right.ANYBODY)
async def sign_in(request: web.Request) -> web.StreamResponse:
    """Start a new session, which replaces any existing one."""
    form = await request.post()
    token = form.get("token")
    if isinstance(token, str):
        return await _by_link(request, form, token)
    return await _by_password(request, form)


@needs(Right.ACCOUNT)
async def sign_out(request: web.Request) -> web.StreamResponse:
    """End the session."""
    token = session_token(request)
    if token:
        await database_of(request).run(end_session, token)
    raise signed_out(request, "signed-out")


def signed_out(request: web.Request, done: str) -> web.HTTPException:
    """Return the redirect to the sign-in page, from which `openid.end_session` leads to the provider's."""
    openid = request.config_dict[SETTINGS].openid
    there = openid.issuer is not None and openid.end_session and who_asks(request).way == "openid"
    response = web.HTTPSeeOther(f"/sign-in?done={done}{'&there=1' if there else ''}")
    leave(request, response)
    return response


async def _by_link(request: web.Request, form: MultiMapping[object], token: str) -> web.StreamResponse:
    database = database_of(request)
    link = await database.run(open_link, token)
    hashed = None
    if link is not None and link.kind is LinkKind.INVITATION:
        try:
            hashed = await chosen_password(request, form, link.user_name)
        except UsageError as error:
            shown = Form(values={}).with_error("password", error_text(error))
            return render(
                request, "sign_in_button.html", status=422, token=token, link=link, **_rules(request, shown)
            )
    used = await database.run(_use, token, hashed)
    if used is None:
        return render(request, "sign_in_expired.html", status=410)
    could_set_one = request.config_dict[SETTINGS].openid.passwords and used.password_hash is None
    # Once the sign-in is no longer recent, a user who has none could not set one.
    lacks_one = could_set_one and not await provider_of(request, used.user_id)
    raise await enter(request, used, way="link", following="/?done=no-password" if lacks_one else "/")


async def _by_password(request: web.Request, form: MultiMapping[object]) -> web.StreamResponse:
    if not request.config_dict[SETTINGS].openid.passwords:
        raise web.HTTPForbidden(text=_("Signing in with passwords is turned off here."))
    name, password, following = _text(form, "name").strip(), _text(form, "password"), local_path(form)
    shown = Form(values={"name": name})
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        return _again(request, shown.with_error("name", _("Enter your user name.")), following)
    known = await database_of(request).run(known_user, name)
    try:
        await check_password_of(request, known, name, password)
    except TooManyAttemptsError as error:
        shown = shown.with_error("name", error_text(error))
        return _again(request, shown, following, status=429, headers=_retry_after(error))
    except UsageError:
        words = _("Wrong user name or password. An administrator can send you a link to set a new password.")
        return _again(request, shown.with_error("password", words), following)
    known = required(known, "only a user's password fits")
    raise await enter(request, known, way="password", following=following)


async def check_password_of(request: web.Request, known: Known | None, name: str, password: str) -> None:
    """Count an attempt and check the password of a user, who may be unknown.

    Raises TooManyAttemptsError, or UsageError for a wrong password; both are counted in the audit log.
    """
    if known is not None:
        about(request, "user", known.user_id, known.name)
    try:
        fits = await _fits(request, known, name, password)
    except TooManyAttemptsError:
        await count_refusal(request, "sign-in.limited", 429)
        raise
    if not fits:
        await count_refusal(request, "sign-in.refused", 422)
        raise UsageError(_("The current password is not correct."))


def _retry_after(error: UsageError) -> dict[str, str]:
    """Return the header with the seconds to wait, if there were too many attempts."""
    return {"Retry-After": str(math.ceil(error.seconds))} if isinstance(error, TooManyAttemptsError) else {}


async def _fits(request: web.Request, known: Known | None, name: str, password: str) -> bool:
    """Count an attempt at its place, whose count a success resets, and check the password."""
    database, hashing = database_of(request), request.config_dict[HASHING]
    place = await database.run(
        place_of,
        address=client_address(request),
        browser=browser_token(request),
        user_id=known.user_id if known else None,
    )
    with hashing.attempt_from(place):
        wait = await database.run(attempt, request.config_dict[SETTINGS].web, place=place, user_name=name)
        if wait is not None:
            raise TooManyAttemptsError(wait)
        check = partial(password_fits, known.password_hash if known else None, password)
        fits = await hashing.run(check, is_known=is_known_browser(place))
    if fits:
        await database.run(succeeded, place=place, user_name=name)
    return fits


async def chosen_password(request: web.Request, form: MultiMapping[object], user_name: str) -> str:
    """Return the hash of the password entered twice. Raises UsageError if it is not acceptable."""
    password = _text(form, "password")
    if password != _text(form, "again"):
        raise UsageError(_("The passwords do not match."))
    least = request.config_dict[SETTINGS].web.password_length
    hashing = request.config_dict[HASHING]
    work = partial(hash_password, password, least=least, user_name=user_name)
    with hashing.attempt_from(f"user {user_name}"):
        return await hashing.run(work, is_known=True)


def _use(session: Session, token: str, password_hash: str | None) -> Known | None:
    link = use_link(session, token)
    if link is None:
        return None
    if password_hash is not None:
        set_password(session, link.user_id, password_hash)
    session.flush()
    return known_user(session, link.user_name)


async def enter(
    request: web.Request, user: Known, *, way: str, following: str, since: datetime | None = None
) -> web.HTTPException:
    """Start the session, with a new identifier, so that one planted before the sign-in is useless.

    Returns the redirect to the page, or to the one that asks a user with a second factor for it. `since` is
    the UTC time at which the user proved who they are, if that was before now.
    """
    started, remembered = await _start(request, user, way=way, waits=user.has_second_factor, since=since)
    if user.has_second_factor:
        about(request, "user", user.user_id, user.name, awaits="second factor")
        response = web.HTTPSeeOther(str(URL("/sign-in/code").with_query({"next": following})))
    else:
        about(request, "user", user.user_id, user.name)
        response = web.HTTPSeeOther(following)
    _set_cookies(request, response, started, remembered)
    return response


def _set_cookies(
    request: web.Request, response: web.StreamResponse, started: str, remembered: str | None
) -> None:
    forget(request, response)
    set_session(request, response, started)
    if remembered is not None:
        set_browser(request, response, remembered)


async def _start(
    request: web.Request, user: Known, *, way: str, waits: bool, since: datetime | None = None
) -> tuple[str, str | None]:
    """End the old session; return the cookies of the new one and, if the user is in, of the browser."""
    settings, old, address = (
        request.config_dict[SETTINGS].web,
        session_token(request),
        client_address(request),
    )
    browser = request.headers.get("User-Agent")

    def start(session: Session) -> tuple[str, str | None]:
        if old:
            end_session(session, old)
        started = start_session(
            session,
            settings,
            user.user_id,
            way=way,
            awaits_code=waits,
            address=address,
            browser=browser,
            confirmed=since,
        )
        return started, None if waits else remember_browser(session, settings, user.user_id)

    return await database_of(request).run(start)


@needs(Right.ANYBODY)
async def ask_code(request: web.Request) -> web.Response:
    """Ask for the second factor of a sign-in whose password or link was right."""
    await _waiting(request)
    return with_form_token(request, "sign_in_code.html", form=Form(values={}), next=local_path(request.query))


@needs(Right.ANYBODY)
async def enter_code(request: web.Request) -> web.StreamResponse:
    """Finish the sign-in with a code of the authenticator app or a recovery code."""
    waiting, form = await _waiting(request), await request.post()
    following = local_path(form)
    try:
        factor = await check_code(request, waiting.user_id, waiting.name, _text(form, "code"))
    except UsageError as error:
        shown = Form(values={}).with_error("code", error_text(error))
        headers = _retry_after(error)
        status = 429 if headers else 422
        return render(
            request, "sign_in_code.html", status=status, headers=headers, form=shown, next=following
        )
    known = Known(user_id=waiting.user_id, name=waiting.name, password_hash=None, has_second_factor=True)
    started, remembered = await _start(request, known, way=waiting.way, waits=False)
    about(request, "user", waiting.user_id, waiting.name, second_factor=factor)
    spent = factor == RECOVERY_CODE
    response = web.HTTPSeeOther("/account/second-factor?done=recovery-code-used" if spent else following)
    _set_cookies(request, response, started, required(remembered, "the user is in"))
    raise response


async def check_code(request: web.Request, user_id: int, name: str, code: str) -> str:
    """Count an attempt and check a second factor; return what was accepted (`accepted_factor`).

    Attempts are counted by user: only who knows the password gets here, so strangers cannot delay the user.
    Raises TooManyAttemptsError, or UsageError for a wrong code; both are counted in the audit log.
    """
    database, place = database_of(request), code_place(user_id)
    wait = await database.run(attempt, request.config_dict[SETTINGS].web, place=place, user_name=name)
    about(request, "user", user_id, name)
    if wait is not None:
        await count_refusal(request, "sign-in.limited", 429)
        raise TooManyAttemptsError(wait)
    factor = await database.run(accepted_factor, user_id, code)
    if factor is None:
        await count_refusal(request, "sign-in.refused", 422)
        raise UsageError(
            _("The code is not right, or was used before. Enter the next one that the app shows.")
        )
    await database.run(succeeded, place=place, user_name=name)
    return factor


async def _waiting(request: web.Request) -> WaitingForCode:
    token = session_token(request)
    waiting = await database_of(request).run(find_waiting, token) if token else None
    if waiting is None:
        raise web.HTTPSeeOther("/sign-in")
    return waiting


@needs(Right.ACCOUNT)
async def ask_again(request: web.Request) -> web.Response:
    """Ask a signed-in user to prove again who they are, before a step that needs it."""
    return await _again_page(request, Form(values={}), local_path(request.query))


@needs(Right.ACCOUNT)
async def sign_in_again(request: web.Request) -> web.StreamResponse:
    """Check password and second factor, as far as the user has them, and return to the step."""
    who, form, database = who_asks(request), await request.post(), database_of(request)
    following, shown = local_path(form), Form(values={})
    known = required(await database.run(known_user, who.name), "the user is signed in")
    if known.password_hash is None and not known.has_second_factor:
        raise web.HTTPConflict(text=_("You have no password: sign out, and sign in again."))
    field = "password"
    try:
        if known.password_hash is not None:
            await check_password_of(request, known, known.name, _text(form, "password"))
        field = "code"
        if known.has_second_factor:
            await check_code(request, known.user_id, known.name, _text(form, "code"))
    except UsageError as error:
        return await _again_page(request, shown.with_error(field, error_text(error)), following)
    await database.run(was_confirmed, required(session_token(request), "the user has a session"))
    about(request, "user", who.user_id, who.name)
    raise web.HTTPSeeOther(following)


async def _again_page(request: web.Request, form: Form, following: str) -> web.Response:
    who = who_asks(request)
    known = await database_of(request).run(known_user, who.name)
    ours = who.has_second_factor and request.config_dict[SETTINGS].openid.second_factor == "ours"
    return render(
        request,
        "sign_in_again.html",
        status=422 if form.errors else 200,
        form=form,
        next=following,
        back=_page_before(request, following),
        has_password=known is not None and known.password_hash is not None,
        provider=None if ours else await provider_of(request, who.user_id),
    )


def _page_before(request: web.Request, path: str) -> str:
    """Return the page, or the overview if the page would lead here again: it needs a recent sign-in, too."""
    plain = path.partition("?")[0]
    for route in request.app.router.routes():
        if route.method == "GET" and is_for_fresh_sign_in(route.handler):
            info = route.get_info()
            pattern = info.get("pattern")
            if plain == info.get("path") or (pattern and pattern.fullmatch(plain)):
                return "/"
    return path


async def provider_of(request: web.Request, user_id: int) -> str | None:
    """Return the name of the OpenID provider if the user has connected an account there."""
    openid = request.config_dict[SETTINGS].openid
    if openid.issuer is None:
        return None
    connected = await database_of(request).run(is_connected, user_id, openid.issuer)
    return openid.name if connected else None


def _again(
    request: web.Request,
    form: Form,
    following: str,
    *,
    status: int = 422,
    headers: dict[str, str] | None = None,
) -> web.Response:
    return render(
        request,
        "sign_in.html",
        status=status,
        headers=headers,
        form=form,
        **_sign_in_options(request, following),
    )


def _sign_in_options(request: web.Request, following: str) -> dict[str, Any]:
    """Return what the sign-in page offers, and where it leads."""
    openid = request.config_dict[SETTINGS].openid
    return {
        "next": following,
        "provider": openid.name if openid.issuer else None,
        "passwords": openid.passwords,
        "leaving": request.query.get("done", "").startswith("signed-out"),
    }


def _rules(request: web.Request, form: Form | None = None) -> dict[str, Any]:
    least = request.config_dict[SETTINGS].web.password_length
    return {"form": form or Form(values={}), "least": least}


def _text(form: MultiMapping[object], name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


ROUTES = (
    web.get("/sign-in", ask),
    web.post("/sign-in", sign_in),
    web.get("/sign-in/code", ask_code),
    web.post("/sign-in/code", enter_code),
    web.get("/sign-in/again", ask_again),
    web.post("/sign-in/again", sign_in_again),
    web.post("/sign-out", sign_out),
)
