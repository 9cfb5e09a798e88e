"""Keeps other sites from posting in a user's name: where the request comes from, and a token in each form.

Operations of the API ask for the same token in a header, and only of those who come with a cookie.
"""

import hmac
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from web.auth.access import canonical, is_api, signed_in
from web.auth.sessions import form_token
from web.site.i18n import _
from web.site.keys import SETTINGS

FIELD: Final = "csrf_token"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({"same-origin", "none"})


@web.middleware
async def csrf(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a change that another site asks for, or whose form lacks this session's token."""
    if request.method in _SAFE_METHODS or canonical(request) is None:
        return await handler(request)
    who = signed_in(request)
    # A bearer token is no cookie: no other site can make a browser send it. The API looks for itself.
    if is_api(request) or (who is not None and who.scopes is not None):
        return await handler(request)
    if not from_here(request):
        raise web.HTTPForbidden(text=_("The request came from another site, so no changes were made."))
    try:
        given = (await request.post()).get(FIELD)
    except ValueError:
        raise web.HTTPBadRequest(
            text=_("The form could not be read: it is incomplete or not in UTF-8.")
        ) from None
    expected = expected_token(request)
    if not isinstance(given, str) or not expected or not _same(given, expected):
        raise web.HTTPForbidden(
            text=_("The form has expired, so no changes were made. Reload the page and send it again.")
        )
    return await handler(request)


def expected_token(request: web.Request) -> str | None:
    """What the form has to carry: the session's token, or the value of a stranger's cookie."""
    who = signed_in(request)
    return who.csrf_token if who else form_token(request)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def from_here(request: web.Request) -> bool:
    """Whether the browser says that one of our own pages asks; programs that are no browsers say nothing."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site not in _OWN_SITES:
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    own = {request.host}
    base_url = request.config_dict[SETTINGS].web.base_url
    if base_url:
        own.add(urlsplit(base_url).netloc)
    return urlsplit(origin).netloc in own
