"""Protection against cross-site requests: checks the request's origin and a token in each form.

API operations check the same token in a header, and only for requests authenticated by cookie.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.multipart import BadContentDispositionHeader
from aiohttp.typedefs import Handler
from multidict import MultiMapping

from web.auth.access import UNSENT, canonical, is_api, signed_in
from web.auth.sessions import form_token
from web.site.i18n import _
from web.site.keys import SETTINGS

FIELD: Final = "csrf_token"
_HARMLESS: Final = frozenset({"/preferences"})
"""Forms of pages without a token, whose cookie only decides how pages look; the origin is checked."""
_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""Encodings of forms. Python's others include some that decode to no text, or to half a surrogate pair."""
_FORM: Final = "application/x-www-form-urlencoded"
_SECRETS: Final = frozenset({"password", "again", "current", "code", "token"})
_MOST_KEPT: Final = 256 * 1024
_MOST_BYTES: Final = "most_bytes_of_file"
_POSTED = web.RequestKey("posted", MultiMapping[Any])
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def takes_file(most_bytes: int) -> Callable[[Handler], Handler]:
    """Accept forms with a file for the decorated handler, at most so many bytes in total.

    The handler gets the form from `posted_of`. All other handlers reject such forms unread.
    """

    def declared(handler: Handler) -> Handler:
        setattr(handler, _MOST_BYTES, most_bytes)
        return handler

    return declared


def posted_of(request: web.Request) -> MultiMapping[Any]:
    """Return the form of a handler that `takes_file`."""
    return request[_POSTED]


@web.middleware
async def csrf(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject a change that another site initiated, or whose form lacks the session's token."""
    if request.method in _SAFE_METHODS or canonical(request) is None:
        return await handler(request)
    if canonical(request) in _HARMLESS:
        if not from_here(request):
            raise _elsewhere()
        await _form(request)
    elif not is_api(request):  # the API does its own check
        form = await _form(request)
        try:
            _check(request, form)
            return await handler(request)
        finally:
            _close_files(form)
    return await handler(request)


def _close_files(form: MultiMapping[object]) -> None:
    """Close uploaded files, which aiohttp does only for the request itself, not for a clone."""
    for value in form.values():
        if isinstance(value, web.FileField):
            value.file.close()


async def _form(request: web.Request) -> MultiMapping[object]:
    """Read the form, which aiohttp keeps for the handler. Forms with files stay unread, unless declared."""
    unreadable = web.HTTPBadRequest(text=_("The form could not be read: it is incomplete or not in UTF-8."))
    most = getattr(request.match_info.handler, _MOST_BYTES, None)
    if most is None and request.content_type.startswith("multipart/"):
        raise unreadable
    if (request.charset or "utf-8").lower() not in _CHARSETS:
        raise unreadable
    try:
        # A clone has a limit of its own, and reads the same body.
        form = await (request if most is None else request.clone(client_max_size=most)).post()
    except (ValueError, LookupError, HttpProcessingError, ConnectionResetError, BadContentDispositionHeader):
        # Invalid UTF-8, an unknown charset, bad headers (a warning, where these are errors); or the client
        # has gone in the middle of the body.
        raise unreadable from None
    except web.HTTPRequestEntityTooLarge as error:
        text = _("The form contains more data than this page accepts.")
        raise web.HTTPRequestEntityTooLarge(
            request.client_max_size if most is None else most, text=text
        ) from error
    if most is not None:
        if not all(map(_is_storable, form.values())):  # each part has an encoding of its own
            _close_files(form)
            raise unreadable
        request[_POSTED] = form
    return form


def _is_storable(value: object) -> bool:
    """Return whether a value of a form is no text with half a surrogate pair, which UTF-8 has not."""
    return not isinstance(value, str) or value.encode(errors="replace").decode() == value


def _check(request: web.Request, form: MultiMapping[object]) -> None:
    if not from_here(request):
        raise _elsewhere()
    given, expected = form.get(FIELD), expected_token(request)
    if not isinstance(given, str) or not expected or not _same(given, expected):
        if not request.cookies and (canonical(request) or "").startswith("/sign-in"):
            raise web.HTTPForbidden(
                text=_("This browser sent no cookie. Allow cookies for this address and sign in again.")
            )
        if signed_in(request) is not None:
            request[UNSENT] = _("The form is from a session that has ended, so it was not saved.")
        raise web.HTTPForbidden(
            text=_("The form has expired, so no changes were made. Reload the page and send it again.")
        )


async def fields_to_send_again(request: web.Request) -> Sequence[tuple[str, str]]:
    """Return the fields of a form that was not applied for a page that offers them again."""
    return await fields_sent(request) if UNSENT in request else ()


async def fields_sent(request: web.Request) -> Sequence[tuple[str, str]]:
    """Return the fields of the form that the request sends, without its token, to show them again.

    Empty for a form with secrets or files, a large one, and one that is not known to come from our own pages:
    another site could otherwise have its fields sent by the user's click.
    """
    size = request.content_length
    if "Origin" not in request.headers or not from_here(request):
        return ()
    if request.content_type != _FORM or size is None or size > _MOST_KEPT:
        return ()
    try:
        form = await _form(request)
    except (web.HTTPException, web.RequestPayloadError):
        return ()
    fields = [(name, value) for name, value in form.items() if isinstance(value, str) and name != FIELD]
    return () if _SECRETS & {name for name, _value in fields} else fields


def _elsewhere() -> web.HTTPForbidden:
    return web.HTTPForbidden(text=_("The request came from another site, so no changes were made."))


def expected_token(request: web.Request) -> str | None:
    """Return the token that the form must contain: the session's, or that of an anonymous cookie."""
    who = signed_in(request)
    return who.csrf_token if who else form_token(request)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def from_here(request: web.Request) -> bool:
    """Return whether the browser reports our own origin; clients that are not browsers report none."""
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
    try:
        return urlsplit(origin).netloc in own
    except ValueError:  # no address
        return False
