"""Who may do what: everything needs a sign-in, and changing things needs an administrator.

A new route is closed to strangers and its POST to viewers unless its path is named here.
"""

from aiohttp import web
from aiohttp.typedefs import Handler

from web.cookies import session_token
from web.sessions import SignedIn, find_session
from web.threads import database_of
from web.words import _

PUBLIC = frozenset({"/sign-in", "/static"})
"""Paths that strangers may ask for."""
STREAMS = frozenset({"/events"})
"""Paths that answer 401 instead of leading to the sign-in page: scripts ask for them, not people."""
EVERYONE_MAY_POST = frozenset({"/sign-in", "/sign-out"})
"""Paths whose POST changes nothing but the user's own session."""
FOR_ADMINISTRATORS = "administrators_only"

_SIGNED_IN = web.RequestKey("signed_in", SignedIn)


def administrators_only(handler: Handler) -> Handler:
    """Mark a page that viewers may not even look at, such as a form that they could not send."""
    setattr(handler, FOR_ADMINISTRATORS, True)
    return handler


def signed_in(request: web.Request) -> SignedIn | None:
    """Who asks, or None for a stranger."""
    return request.get(_SIGNED_IN)


@web.middleware
async def sessions(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find out who asks."""
    token = session_token(request)
    if token and canonical(request) != "/static":
        who = await database_of(request).run(find_session, token)
        if who is not None:
            request[_SIGNED_IN] = who
    return await handler(request)


@web.middleware
async def access(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn away strangers, and viewers who would change something."""
    path = canonical(request)
    if path is None or path in PUBLIC:
        return await handler(request)
    who = signed_in(request)
    if who is None:
        if path in STREAMS:
            raise web.HTTPUnauthorized(text=_("Sign in first."))
        raise web.HTTPSeeOther("/sign-in")
    changes = request.method not in {"GET", "HEAD"} and path not in EVERYONE_MAY_POST
    closed = getattr(request.match_info.handler, FOR_ADMINISTRATORS, False)
    if (changes or closed) and not who.may_change:
        raise web.HTTPForbidden(text=_("You are a viewer: you can look at everything, but not change it."))
    return await handler(request)


def canonical(request: web.Request) -> str | None:
    """The path of the request's route as it was declared, or None where there is no such route."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else None
