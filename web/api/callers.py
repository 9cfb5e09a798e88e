"""What the API asks of callers beyond their rights: patience, and for a browser's session the form token."""

import hmac
from typing import Final

from aiohttp import web

from web.access import signed_in
from web.api.faults import ApiError
from web.api.limits import LIMITER
from web.csrf import from_here

CSRF_HEADER: Final = "X-CSRF-Token"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_caller(request: web.Request) -> None:
    """Answer 429 to whoever asks too often, and 403 where another site may have a browser ask."""
    who = signed_in(request)
    wait = request.config_dict[LIMITER].wait(f"user {who.user_id}" if who else f"address {request.remote}")
    if wait:
        raise ApiError(
            429,
            f"too many requests; wait {wait:.1f} s (limit: setting web.api_per_minute)",
            headers={"Retry-After": str(int(wait) + 1)},
        )
    # A bearer token is no cookie: no other site can make a browser send it.
    if request.method in _SAFE or who is None or who.scopes is not None:
        return
    if not from_here(request):
        raise ApiError(403, "the request came from another site, so no changes were made")
    given = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(given.encode(errors="replace"), who.csrf_token.encode()):
        raise ApiError(
            403, f"a request with a session cookie needs the session's form token in {CSRF_HEADER}"
        )
