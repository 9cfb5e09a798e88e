"""Errors as responses: pages for people, plain text for scripts."""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from yarl import URL

from harvester.reading.errors import RepositoryBusyError
from oai.connections import break_off, client_left, leave_unread
from oai.database import is_about_a_value, is_timeout
from oai.errors import TryLaterError, UsageError, ZatvaError
from web.api.faults import DOCS, problem
from web.auth.access import STREAMS, UNSENT, canonical, is_api, right_of, signed_in
from web.auth.csrf import fields_sent, fields_to_send_again
from web.auth.identify import fresh_session
from web.auth.sessions import set_session
from web.site.forms import BASED_ON, PREVIEWED
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS
from web.site.render import render

_log = logging.getLogger("web.faults")
_PREPARED: Final = web.RequestKey("prepared", web.StreamResponse)
_INTERNAL: Final = 500
_NOT_TYPED: Final = frozenset(
    f"{BASED_ON} {PREVIEWED} described digest folder left_out next prefix sure uri "  # which pages need
    "access action channel deletion_policy format kind match metadata_prefix protocol role time_zone "
    "validation".split()
)
"""Hidden fields and choices, without their numbers: `uri-1`."""
_CREDENTIALS: Final = re.compile(r"(://)[^\s/?#]*@")
"""Those of each URL in a text, which may be a list of URLs."""
_TYPED: Final = re.compile(r"\S\s+\S|\S{12}")
"""What is worth copying: more than a number, a choice or a word."""


class RemediableConflict(web.HTTPConflict):
    """Status 409 with a link to the page where the user can do something about it."""

    def __init__(self, text: str, *, path: str, label: str) -> None:
        super().__init__(text=text)
        self.remedy = (path, label)


@contextmanager
def conflicts() -> Iterator[None]:
    """Respond 409 with the sentence of a UsageError of the body."""
    try:
        yield
    except UsageError as error:
        raise web.HTTPConflict(text=error_text(error)) from None


@web.middleware
async def faults(request: web.Request, handler: Handler) -> web.StreamResponse:  # noqa: PLR0911 one for each kind of error
    """Convert every error to a response that says what happened and what to do."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return await _raised(request, error)
    except web.RequestPayloadError:
        leave_unread(request)
        text = _("The form could not be read: it is incomplete or not in UTF-8.")
        return _answer(request, 400, text, {})
    except RepositoryBusyError as error:
        return _answer(request, 409, error_text(error), {})
    except (TryLaterError, OperationalError, PoolTimeoutError) as error:
        return _not_now(request, error)
    except ZatvaError as error:
        return _answer(request, 400, error_text(error), {})
    except Exception as error:  # noqa: BLE001 last resort: logged in full, not shown to the caller
        return _internal(request, error)


@web.middleware
async def unfinished(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Break off a response that an error ends in the middle: a second one would be part of its content."""
    try:
        return await handler(request)
    except asyncio.CancelledError:
        if _PREPARED in request:
            break_off(request)  # the dashboard ends, which HTTP/1.0 would show as the end of the file
        raise
    except Exception as error:
        response: web.StreamResponse | None = request.get(_PREPARED)
        if response is None:
            raise
        if not client_left(request, error):
            is_known = isinstance(error, ZatvaError | OperationalError | PoolTimeoutError)
            shown = None if is_known else error
            _log.error("%s: the download ended early: %s", request.path, error, exc_info=shown)
            break_off(request)
        return response


async def mark_prepared(request: web.Request, response: web.StreamResponse) -> None:
    """Remember the response whose headers are sent now, for `unfinished`."""
    request[_PREPARED] = response


async def _page_above(request: web.Request) -> str:
    """Return the nearest page above an address that takes only forms, such as `/errors/1/again`, or "".

    Users open such addresses, which are those of the pages that answer forms. A schedule has no page but its
    form.
    """
    who = signed_in(request)
    if request.method not in {"GET", "HEAD"} or is_api(request) or who is None:
        return ""
    steps = request.rel_url.raw_path.split("/")
    for end in range(len(steps) - 1, 1, -1):
        for path in ("/".join(steps[:end]), "/".join([*steps[:end], "edit"])):
            above = request.clone(method="GET", rel_url=URL(path, encoded=True))
            found = await request.app.router.resolve(above)
            if found.http_exception is None and right_of(found.handler, "GET") in who.rights:
                return path
    return ""


async def _raised(request: web.Request, error: web.HTTPException) -> web.StreamResponse:
    if fields := await fields_to_send_again(request):
        return _send_again(request, error, fields)
    if error.status < 400:  # noqa: PLR2004 a redirect
        if UNSENT in request and request.content_type.startswith("multipart/"):
            return _choose_again(request, error)
        raise error
    # An address that answers GET, such as a download, takes more than forms.
    only_forms = error.status == 405 and "GET" not in error.headers.get("Allow", "")  # noqa: PLR2004
    if only_forms and (page := await _page_above(request)):
        raise web.HTTPSeeOther(page) from None
    typed = await _typed(request, error.status)
    remedy = error.remedy if isinstance(error, RemediableConflict) else None
    text = _explanation(request, error)
    return _answer(request, error.status, text, _kept_headers(error), remedy, typed=typed)


async def _typed(request: web.Request, status: int) -> Sequence[str]:
    """Return the texts that were typed into a form whose object is gone or no longer the user's."""
    if request.method != "POST" or status not in {403, 404, 409} or is_api(request):
        return ()
    sent = [(name.partition("-")[0], text) for name, text in await fields_sent(request)]
    typed = [text for name, text in sent if name not in _NOT_TYPED and _TYPED.search(text)]
    return list(dict.fromkeys(_CREDENTIALS.sub(r"\1", text) for text in typed))


def _not_now(request: web.Request, error: Exception) -> web.StreamResponse:
    """Return the answer to an error that may go away, of the database mostly."""
    if is_about_a_value(error):
        return _internal(request, error)
    _log.warning("%s %s: %s", request.method, request.path, error)
    if is_timeout(error):
        text = _(
            "The database takes longer over this than the dashboard may. Choose less at once, for "
            "example by filters, or use the command line."
        )
        return _answer(request, 503, text, {}, title=_("This takes too long"))
    text = _("The database is not responding. Try again in a moment.")
    return _answer(request, 503, text, {"Retry-After": "5"})


def _internal(request: web.Request, error: Exception) -> web.StreamResponse:
    """Log the error, unless the client has left, and return an answer without its details."""
    if not client_left(request, error):
        _log.error("%s %s", request.method, request.path, exc_info=error)
    text = _("An internal error occurred in Zatva. See the log of the dashboard for details.")
    return _answer(request, 500, text, {})


def _answer(
    request: web.Request,
    status: int,
    text: str,
    headers: dict[str, str],
    remedy: tuple[str, str] | None = None,
    *,
    title: str | None = None,
    typed: Sequence[str] = (),
) -> web.StreamResponse:
    if canonical(request) in STREAMS or canonical(request) == "/static":
        return web.Response(status=status, text=text, headers=headers)
    if is_api(request):
        return problem(status, text, headers=headers)
    shown = {"title": title or _title(status), "text": text, "code": status, "remedy": remedy, "typed": typed}
    return render(request, "fault.html", status=status, headers=headers, **shown)


def _send_again(
    request: web.Request, error: web.HTTPException, fields: Sequence[tuple[str, str]]
) -> web.StreamResponse:
    """Return a page with the fields of a form that was not applied, which the user sends again by a click."""
    to_sign_in = error.headers.get("Location", "").partition("?")[0]
    return render(
        request,
        "send_again.html",
        status=401 if to_sign_in else error.status,
        why=request[UNSENT],
        to_sign_in=to_sign_in,
        fields=fields,
    )


def _choose_again(request: web.Request, to_sign_in: web.HTTPException) -> web.StreamResponse:
    """Return a page that says that a form with a file was not applied; a page cannot keep the file."""
    text = " ".join((request[UNSENT], _("Sign in, and choose the file again.")))
    return _answer(request, 401, text, {}, (to_sign_in.headers["Location"], _("Sign in")))


def _title(status: int) -> str:
    return {
        400: _("Request not possible"),
        401: _("Sign-in required"),
        403: _("Access denied"),
        404: _("Page not found"),
        405: _("Method not allowed"),
        408: _("Request timed out"),
        409: _("Not possible in the current state"),
        410: _("No longer available"),
        413: _("Request too large"),
        503: _("Try again in a moment"),
    }.get(status, _("Internal error") if status >= _INTERNAL else _("Request not possible"))


def _explanation(request: web.Request, error: web.HTTPException) -> str:
    """Return the text given with the error, or ours in place of aiohttp's."""
    given = error.text or ""
    if error.status == 408:  # noqa: PLR2004 raised by our servers, in English
        return _("The form took too long to send, so no changes were made. Send it again.")
    if given and given != f"{error.status}: {error.reason}":
        return given
    if error.status == 405 and request.method == "GET" and not is_api(request):  # noqa: PLR2004 as above
        return _(
            "This address only takes what a form sends, so it cannot be opened or reloaded. Go back to the "
            "page with the form."
        )
    if error.status == 404 and is_api(request):  # noqa: PLR2004 as above
        return _("The API has no operation at this address; see %(docs)s.") % {"docs": DOCS}
    return {
        404: _("It may have been removed, or the address may contain a mistake."),
        405: _("This address does not accept that request method."),
        413: _("The form contains more data than this page accepts."),
    }.get(error.status, error.reason)


def _kept_headers(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}


CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'"
)
EVERYWHERE: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # The path of a sign-in link contains its token; no referrer is sent to other sites.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_DAY_SECONDS: Final = 86_400
_A_YEAR: Final = "public, max-age=31536000, immutable"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the security and caching headers to a response before it is sent."""
    response.headers.update(EVERYWHERE)
    settings = request.config_dict[SETTINGS].web
    if settings.hsts_days and (settings.base_url or "").startswith("https:"):
        response.headers["Strict-Transport-Security"] = f"max-age={settings.hsts_days * _DAY_SECONDS}"
    token = fresh_session(request)
    if token:
        # The response's own cookies are already in its headers; cookies added to the response now would be
        # lost.
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
