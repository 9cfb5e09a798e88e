"""The headers that every answer carries: what a browser may load, and what may be kept."""

from types import MappingProxyType
from typing import Final

from aiohttp import web

from web.access import canonical
from web.cookies import set_session
from web.identifying import fresh_session

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'"
)
EVERYWHERE: Final = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        # A sign-in link's token stands in its address; other sites never see our addresses.
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
)
_A_YEAR: Final = "public, max-age=31536000, immutable"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers to an answer that is about to be sent."""
    response.headers.update(EVERYWHERE)
    token = fresh_session(request)
    if token:
        # The answer's own cookies stand in its headers already; one that is added to them now is lost.
        carrier = web.Response()
        set_session(request, carrier, token)
        for cookie in carrier.cookies.values():
            response.headers.add("Set-Cookie", cookie.OutputString())
    if canonical(request) != "/static":
        response.headers.setdefault("Cache-Control", "no-store")
    elif response.status < 300 and "v" in request.query:  # noqa: PLR2004 the successes
        response.headers["Cache-Control"] = _A_YEAR
    else:
        response.headers["Cache-Control"] = "no-cache"
