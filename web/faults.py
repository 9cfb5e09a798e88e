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
        text = _("The form could not be read: it is not UTF-8, or broken off.")
        return _answer(request, 400, text, {})
    except RepositoryBusyError as error:
        return _answer(request, 409, told(error), {})
    except (TryLaterError, OperationalError, PoolTimeoutError) as error:
        _log.warning("%s %s: %s", request.method, request.path, error)
        text = _("The database does not answer just now. Try again in a moment.")
        return _answer(request, 503, text, {"Retry-After": "5"})
    except ZatvaError as error:
        return _answer(request, 400, told(error), {})
    except Exception:  # noqa: BLE001 the last resort: logged in full, told to nobody
        _log.exception("%s %s", request.method, request.path)
        text = _("Something went wrong in Zatva itself. The log of the dashboard says more.")
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
        400: _("That cannot be done"),
        401: _("Sign in first"),
        403: _("Not allowed"),
        404: _("There is no such page"),
        405: _("Not possible here"),
        408: _("That took too long"),
        409: _("Not just now"),
        413: _("Too large"),
        503: _("Try again in a moment"),
    }.get(status, _("Something went wrong"))


def _explanation(error: web.HTTPException) -> str:
    """The words that were given with the error, or ours in place of aiohttp's own."""
    given = error.text or ""
    if error.status == 408:  # noqa: PLR2004 our servers' own, in English
        return _("Sending the form took too long, so nothing was changed. Send it again.")
    if given and given != f"{error.status}: {error.reason}":
        return given
    return {
        404: _("It may have been removed, or the address may be mistyped."),
        405: _("This address does not take that kind of request."),
        413: _("The form carries more than this page takes."),
    }.get(error.status, error.reason)


def _kept_headers(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
