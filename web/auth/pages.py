"""Sign-in by password or one-time link, acceptance of an invitation, sign-out."""

import asyncio
import math
from typing import Any

from aiohttp import web
from multidict import MultiMapping
from sqlalchemy.orm import Session

from oai.errors import UsageError, required
from web.auth.access import Right, about, needs, signed_in
from web.auth.audit import count_refusal
from web.auth.identify import client_address
from web.auth.passwords import attempt, hash_password, password_fits, succeeded, too_many
from web.auth.sessions import (
    end_session,
    forget,
    form_token,
    new_token,
    session_token,
    set_form,
    set_session,
    start_session,
)
from web.auth.sign_in import Known, OpenLink, known_user, open_link, use_link
from web.auth.users import set_password
from web.models import LinkKind
from web.site.forms import Form
from web.site.i18n import _, told
from web.site.keys import SETTINGS, database_of
from web.site.render import render

_LONGEST_NAME = 100


@needs(Right.ANYBODY)
async def ask(request: web.Request) -> web.Response:
    """Show the sign-in form, or the button that confirms a one-time link.

    Opening the link does not sign in: programs that scan mail follow links but do not press buttons.
    """
    token = request.query.get("token")
    if token is None:
        return _with_form_token(request, "sign_in.html", form=Form(values={}), next=_next(request.query))
    link = await database_of(request).run(open_link, token)
    if link is None:
        return render(request, "sign_in_expired.html", status=410)
    return _with_form_token(request, "sign_in_button.html", token=token, link=link, **_rules(request))


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
    response = web.HTTPSeeOther("/sign-in?done=signed-out")
    forget(request, response)
    raise response


async def _by_link(request: web.Request, form: MultiMapping[object], token: str) -> web.StreamResponse:
    database = database_of(request)
    link = await database.run(open_link, token)
    hashed = None
    if link is not None and link.kind is LinkKind.INVITATION:
        try:
            hashed = await chosen_password(request, form, link.user_name)
        except UsageError as error:
            shown = Form(values={}).with_error("password", told(error))
            return render(
                request, "sign_in_button.html", status=422, token=token, link=link, **_rules(request, shown)
            )
    used = await database.run(_use, token, hashed)
    if used is None:
        return render(request, "sign_in_expired.html", status=410)
    return await _enter(request, used.user_id, used.user_name, way="link", following="/")


async def _by_password(request: web.Request, form: MultiMapping[object]) -> web.StreamResponse:
    database, settings = database_of(request), request.config_dict[SETTINGS].web
    name, password, following = _text(form, "name").strip(), _text(form, "password"), _next(form)
    shown = Form(values={"name": name})
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        return _again(request, shown.with_error("name", _("Enter your user name.")), following)
    address = client_address(request)
    wait = await database.run(attempt, settings, address=address, user_name=name)
    if wait is not None:
        await count_refusal(request, "sign-in.limited", 429)
        headers = {"Retry-After": str(math.ceil(wait))}
        return _again(
            request, shown.with_error("name", too_many(wait)), following, status=429, headers=headers
        )
    known = await database.run(known_user, name)
    if not await _fits(known, password):
        if known is not None:
            about(request, "user", known.user_id, known.name)
        await count_refusal(request, "sign-in.refused", 422)
        words = _("Wrong user name or password. An administrator can send you a link to set a new password.")
        return _again(request, shown.with_error("password", words), following)
    known = required(known, "only a user's password fits")
    await database.run(succeeded, address=address, user_name=name)
    return await _enter(request, known.user_id, known.name, way="password", following=following)


async def _fits(known: Known | None, password: str) -> bool:
    return await asyncio.to_thread(password_fits, known.password_hash if known else None, password)


async def chosen_password(request: web.Request, form: MultiMapping[object], user_name: str) -> str:
    """Return the hash of the password entered twice. Raises UsageError if it is not acceptable."""
    password = _text(form, "password")
    if password != _text(form, "again"):
        raise UsageError(_("The passwords do not match."))
    least = request.config_dict[SETTINGS].web.password_length
    return await asyncio.to_thread(hash_password, password, least=least, user_name=user_name)


def _use(session: Session, token: str, password_hash: str | None) -> OpenLink | None:
    link = use_link(session, token)
    if link is not None and password_hash is not None:
        set_password(session, link.user_id, password_hash)
    return link


async def _enter(
    request: web.Request, user_id: int, name: str, *, way: str, following: str
) -> web.StreamResponse:
    """Start the session with a new identifier, so that one planted before the sign-in is useless."""
    database, old = database_of(request), session_token(request)
    if old:
        await database.run(end_session, old)
    value = await database.run(
        start_session,
        request.config_dict[SETTINGS].web,
        user_id,
        way=way,
        address=client_address(request),
        browser=request.headers.get("User-Agent"),
    )
    about(request, "user", user_id, name)
    response = web.HTTPSeeOther(following)
    forget(request, response)
    set_session(request, response, value)
    raise response


def _with_form_token(
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


def _again(
    request: web.Request,
    form: Form,
    following: str,
    *,
    status: int = 422,
    headers: dict[str, str] | None = None,
) -> web.Response:
    return render(request, "sign_in.html", status=status, headers=headers, form=form, next=following)


def _rules(request: web.Request, form: Form | None = None) -> dict[str, Any]:
    least = request.config_dict[SETTINGS].web.password_length
    return {"form": form or Form(values={}), "least": least}


def _next(values: MultiMapping[object]) -> str:
    """Return the target after sign-in: a path on this site, or the overview."""
    text = values.get("next", "/")
    if not isinstance(text, str) or not text.startswith("/") or text.startswith(("//", "/\\")):
        return "/"
    return text if text.isprintable() else "/"


def _text(form: MultiMapping[object], name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


ROUTES = (
    web.get("/sign-in", ask),
    web.post("/sign-in", sign_in),
    web.post("/sign-out", sign_out),
)
