"""Finds out who asks: by an API token, by the session's cookie, or by a trusted proxy's word."""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.orm import Session

from oai.sections import WebSettings
from web.access import is_static, let_in
from web.api_tokens import find_token
from web.cookies import session_token
from web.keys import SETTINGS
from web.languages import speak
from web.proxies import client_address, proxied_user
from web.sessions import SignedIn, find_session, start_session
from web.threads import database_of
from web.users import find_user
from web.words import _
from web.zones import live_in

_BEARER: Final = "bearer "
_NEW_SESSION = web.RequestKey("new_session", str)


@web.middleware
async def sessions(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find out who asks, and note it for `web.access.signed_in`.

    Who comes with a token that is not good is told so, whatever cookie comes along.
    """
    if is_static(request):
        return await handler(request)
    given = request.headers.get("Authorization", "")
    if given.lower().startswith(_BEARER):
        who = await database_of(request).run(find_token, given[len(_BEARER) :].strip())
        if who is None:
            raise web.HTTPUnauthorized(
                text=_("The API token is unknown, revoked or expired."),
                headers={"WWW-Authenticate": "Bearer"},
            )
    else:
        who = await _on_a_browser(request)
    if who is not None:
        let_in(request, who)
        if who.language:
            speak(who.language)
        live_in(who.time_zone)
    return await handler(request)


def fresh_session(request: web.Request) -> str | None:
    """The cookie's value of a session that was begun for this request, at a proxy's word."""
    return request.get(_NEW_SESSION)


async def _on_a_browser(request: web.Request) -> SignedIn | None:
    token, name = session_token(request), proxied_user(request)
    who = await database_of(request).run(find_session, token) if token else None
    if name is None:
        # Such a session is the proxy's word, and goes with it.
        return who if who is None or who.way != "proxy" else None
    if who is not None and who.name == name and who.way == "proxy":
        return who
    return await _at_a_proxys_word(request, name)


async def _at_a_proxys_word(request: web.Request, name: str) -> SignedIn:
    found = await database_of(request).run(
        _begin,
        request.config_dict[SETTINGS].web,
        name,
        client_address(request),
        request.headers.get("User-Agent"),
    )
    if found is None:
        raise web.HTTPForbidden(
            text=_(
                "You are signed in elsewhere as %(name)s, a user unknown to Zatva. Ask an "
                "administrator for an account."
            )
            % {"name": name}
        )
    who, request[_NEW_SESSION] = found
    return who


def _begin(
    session: Session, settings: WebSettings, name: str, address: str | None, browser: str | None
) -> tuple[SignedIn, str] | None:
    user = find_user(session, name)
    if user is None or user.disabled is not None:
        return None
    token = start_session(session, settings, user.user_id, way="proxy", address=address, browser=browser)
    session.flush()
    who = find_session(session, token)
    return None if who is None else (who, token)
