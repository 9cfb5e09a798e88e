"""Identifies the caller: by API token, by session cookie, or by the header of a trusted proxy."""

import ipaddress
import logging
from collections.abc import Collection
from functools import cache, lru_cache
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.orm import Session

from oai.audit import Actor, Subject, record, refuse
from oai.proxies import LOOPBACK, Network, is_public, is_trusted, visitor
from oai.sections import WebSettings
from web.auth.access import STREAMS, canonical, is_static, let_in
from web.auth.api_tokens import find_token, find_tokens
from web.auth.sessions import (
    SignedIn,
    continue_session,
    find_session,
    find_sessions,
    session_token,
    start_session,
    was_active,
)
from web.auth.users import LONGEST_NAME, find_user
from web.site.i18n import _, use_language
from web.site.keys import SETTINGS, database_of
from web.site.zones import live_in

_log = logging.getLogger(__name__)
_BEARER: Final = "bearer "
_PROXY: Final = "proxy"
_FORWARDED: Final = "X-Forwarded-For"
_NEW_SESSION = web.RequestKey("new_session", str)


def client_address(request: web.Request) -> str | None:
    """Return the client's address: of the connection, or of the hop before the last trusted proxy.

    Without `web.trusted_proxies`, processes of this machine are trusted for it: most installations have their
    proxy there. What that can forge is an address in limits and in the audit log, never a user.
    """
    forwarded = request.headers.getall(_FORWARDED, [])
    trusted = _networks(_listed(request)) or LOOPBACK
    if forwarded and request.remote and not is_trusted(request.remote, trusted):
        _warn_of_proxy(_own_network(request.remote))
    address = visitor(request.remote, forwarded, trusted).address
    return str(address) if address is not None else request.remote


def proxied_user(request: web.Request) -> str | None:
    """Return the user name that a trusted proxy passes in `web.proxy_user_header`, if set; else None.

    The proxy must be listed: on a machine with several accounts, any process could name an administrator.
    """
    header = request.config_dict[SETTINGS].web.proxy_user_header
    if header is None or not is_trusted(request.remote, _networks(_listed(request))):
        return None
    given = request.headers.getall(header, [])
    # Two such headers: a client tries to inject one beside the proxy's.
    if len(given) != 1:
        return None
    return given[0].encode(errors="replace").decode().strip() or None


def _listed(request: web.Request) -> tuple[str, ...]:
    return request.config_dict[SETTINGS].web.trusted_proxies


@cache
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def _own_network(address: str) -> str | None:
    """Return the address if it is in a private network, as proxies are; strangers' are not worth a line."""
    try:
        return None if is_public(address) else address
    except ValueError:
        return None


@lru_cache(maxsize=100)
def _warn_of_proxy(address: str | None) -> None:
    """Log once that a proxy is not listed; then all users behind it share one limit."""
    if address is not None:
        _log.warning(
            "requests come through a proxy at %s that web.trusted_proxies does not list: all its users count "
            "as one address. If the proxy is yours, add it",
            address,
        )


@web.middleware
async def sessions(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Identify the caller and note the user for `web.auth.access.signed_in`.

    An invalid API token gets 401, even if the request also carries a valid cookie.
    """
    if is_static(request):
        return await handler(request)
    token = _api_token(request)
    if token is not None:
        who = await database_of(request).run(find_token, token)
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
            use_language(who.language)
        live_in(who.time_zone)
    return await handler(request)


def _api_token(request: web.Request) -> str | None:
    given = request.headers.get("Authorization", "")
    return given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else None


def credential(request: web.Request) -> str:
    """Return what identified the caller: the API token, or the cookie value of the session."""
    return _api_token(request) or fresh_session(request) or session_token(request) or ""


def identified(session: Session, credentials: Collection[str]) -> dict[str, SignedIn]:
    """Return the caller that each credential identifies now; those that no longer do are missing."""
    return find_sessions(session, credentials) | find_tokens(session, credentials)


def fresh_session(request: web.Request) -> str | None:
    """Return the cookie value of a session that was started for this request on the proxy's authority."""
    return request.get(_NEW_SESSION)


async def _on_a_browser(request: web.Request) -> SignedIn | None:
    token, name = session_token(request), proxied_user(request)
    who = await database_of(request).run(_seen, request, token) if token else None
    if name is None:
        # A proxy session is valid only while the proxy names the user.
        return who if who is None or who.way != _PROXY else None
    if who is not None and who.name == name and who.way == _PROXY:
        return who
    return await _at_a_proxys_word(request, name, has_cookie=token is not None)


def _seen(session: Session, request: web.Request, token: str) -> SignedIn | None:
    """Find the session; a request of its user, other than that of a live page, keeps it from being idle."""
    who = find_session(session, token)
    if who is not None and canonical(request) not in STREAMS:
        was_active(session, request.config_dict[SETTINGS].web, token)
    return who


async def _at_a_proxys_word(request: web.Request, name: str, *, has_cookie: bool) -> SignedIn:
    found = await database_of(request).run(
        _begin,
        request.config_dict[SETTINGS].web,
        name,
        client_address(request),
        request.headers.get("User-Agent"),
        has_cookie=has_cookie,
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
    session: Session,
    settings: WebSettings,
    name: str,
    address: str | None,
    browser: str | None,
    *,
    has_cookie: bool,
) -> tuple[SignedIn, str] | None:
    """Start or continue the user's session; the audit log gets each start and each refusal."""
    user = find_user(session, name)
    number = user.user_id if user else None
    who = Actor(user_id=number, name=name[:LONGEST_NAME], via=_PROXY, address=address)
    subject = Subject(kind="user", number=None if number is None else str(number), name=who.name)
    if user is None or user.disabled is not None:
        refuse(session, "sign-in.refused", who, subject, 403)
        return None
    token = None
    if not has_cookie:
        token = continue_session(session, settings, user.user_id, address=address, browser=browser)
    if token is None:
        token = start_session(session, settings, user.user_id, way=_PROXY, address=address, browser=browser)
        record(session, "sign-in", who, subject, status=303, audit_days=settings.audit_days)
    session.flush()
    signed_in = find_session(session, token)
    return None if signed_in is None else (signed_in, token)
