"""Errors as answers: a real page for people, plain text for scripts."""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from harvester.reading.errors import RepositoryBusyError
from oai.connections import leave_unread
from oai.errors import TryLaterError, ZatvaError
from web.access import STREAMS, canonical, is_api
from web.api.faults import problem
from web.rendering import render
from web.words import _, told

_log = logging.getLogger(__name__)


@web.middleware
async def faults(request: web.Request, handler: Handler) -> web.StreamResponse:  # noqa: PLR0911 each fault has its own
    """Turn whatever goes wrong into an answer that says what it was and what to do."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:  # noqa: PLR2004 a redirect
            raise
        return _answer(request, error.status, _explanation(error), _kept_headers(error))
    except web.RequestPayloadError:
        leave_unread(request)
        text = _("The form could not be read: it is incomplete or not in UTF-8.")
        return _answer(request, 400, text, {})
    except RepositoryBusyError as error:
        return _answer(request, 409, told(error), {})
    except (TryLaterError, OperationalError, PoolTimeoutError) as error:
        _log.warning("%s %s: %s", request.method, request.path, error)
        text = _("The database is not responding. Try again in a moment.")
        return _answer(request, 503, text, {"Retry-After": "5"})
    except ZatvaError as error:
        return _answer(request, 400, told(error), {})
    except Exception:  # noqa: BLE001 the last resort: logged in full, told to nobody
        _log.exception("%s %s", request.method, request.path)
        text = _("An internal error occurred in Zatva. See the log of the dashboard for details.")
        return _answer(request, 500, text, {})


def _answer(request: web.Request, status: int, text: str, headers: dict[str, str]) -> web.StreamResponse:
    if canonical(request) in STREAMS or canonical(request) == "/static":
        return web.Response(status=status, text=text, headers=headers)
    if is_api(request):
        return problem(status, text, headers=headers)
    return render(
        request, "fault.html", status=status, headers=headers, title=_title(status), text=text, code=status
    )


def _title(status: int) -> str:
    return {
        400: _("Request not possible"),
        401: _("Sign-in required"),
        403: _("Access denied"),
        404: _("Page not found"),
        405: _("Method not allowed"),
        408: _("Request timed out"),
        409: _("Not possible in the current state"),
        413: _("Request too large"),
        503: _("Try again in a moment"),
    }.get(status, _("Internal error"))


def _explanation(error: web.HTTPException) -> str:
    """The words that were given with the error, or ours in place of aiohttp's own."""
    given = error.text or ""
    if error.status == 408:  # noqa: PLR2004 our servers' own, in English
        return _("The form took too long to send, so no changes were made. Send it again.")
    if given and given != f"{error.status}: {error.reason}":
        return given
    return {
        404: _("It may have been removed, or the address may contain a mistake."),
        405: _("This address does not accept that request method."),
        413: _("The form contains more data than this page accepts."),
    }.get(error.status, error.reason)


def _kept_headers(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
