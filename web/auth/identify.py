"""Identifies the caller: by API token, by session cookie, or by the header of a trusted proxy."""

import ipaddress
from functools import cache
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.orm import Session

from oai.proxies import Network, is_trusted, visitor
from oai.sections import WebSettings
from web.auth.access import is_static, let_in
from web.auth.api_tokens import find_token
from web.auth.sessions import SignedIn, find_session, session_token, start_session
from web.auth.users import find_user
from web.site.i18n import _, speak
from web.site.keys import SETTINGS, database_of
from web.site.zones import live_in

_BEARER: Final = "bearer "
_NEW_SESSION = web.RequestKey("new_session", str)


def client_address(request: web.Request) -> str | None:
    """Return the client's address: of the connection, or of the hop before the last trusted proxy."""
    forwarded = request.headers.getall("X-Forwarded-For", [])
    address = visitor(request.remote, forwarded, _trusted(request)).address
    return str(address) if address is not None else request.remote


def proxied_user(request: web.Request) -> str | None:
    """Return the user name that a trusted proxy passes in `web.proxy_user_header`, if set; else None."""
    header = request.config_dict[SETTINGS].web.proxy_user_header
    if header is None or not is_trusted(request.remote, _trusted(request)):
        return None
    given = request.headers.getall(header, [])
    # Two such headers: a client tries to inject one beside the proxy's.
    if len(given) != 1:
        return None
    return given[0].encode(errors="replace").decode().strip() or None


def _trusted(request: web.Request) -> tuple[Network, ...]:
    return _networks(request.config_dict[SETTINGS].web.trusted_proxies)


@cache
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


@web.middleware
async def sessions(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Identify the caller and note the user for `web.auth.access.signed_in`.

    An invalid API token gets 401, even if the request also carries a valid cookie.
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
    """Return the cookie value of a session that was started for this request on the proxy's authority."""
    return request.get(_NEW_SESSION)


async def _on_a_browser(request: web.Request) -> SignedIn | None:
    token, name = session_token(request), proxied_user(request)
    who = await database_of(request).run(find_session, token) if token else None
    if name is None:
        # A proxy session is valid only while the proxy names the user.
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
