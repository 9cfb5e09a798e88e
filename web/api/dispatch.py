"""Dispatch of API requests: authentication, validation, the operation's work, response or problem."""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from harvester.reading.errors import ClientError, RepositoryBusyError
from oai.connections import client_left, leave_unread
from oai.database import is_about_a_value, is_timeout
from oai.errors import ConflictError, TryLaterError, UsageError, ZatvaError
from oai.limits import RateLimit
from web.api.faults import ApiError, field_faults, problem
from web.api.operations import PLACES, Call, Operation
from web.auth.access import needs, needs_fresh_sign_in, signed_in
from web.auth.csrf import from_here
from web.site.i18n import _

_TOO_LONG: Final = (
    "the database takes longer over this than the dashboard may; ask for less at once, or use the command "
    "line"
)
LIMITER: Final = web.AppKey("limiter", RateLimit)
CSRF_HEADER: Final = "X-CSRF-Token"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_caller(request: web.Request) -> None:
    """Respond 429 to a caller over the rate limit, and 403 to a browser request that another site caused."""
    who = signed_in(request)
    wait = request.config_dict[LIMITER].wait(f"user {who.user_id}" if who else f"address {request.remote}")
    if wait:
        raise ApiError(
            429,
            f"too many requests; wait {wait:.1f} s (limit: setting web.api_per_minute)",
            headers={"Retry-After": str(int(wait) + 1)},
        )
    # A bearer token is not a cookie: another site cannot make a browser send it.
    if request.method in _SAFE or who is None or who.scopes is not None:
        return
    if not from_here(request):
        raise ApiError(403, "the request came from another site, so no changes were made")
    given = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(given.encode(errors="replace"), who.csrf_token.encode()):
        raise ApiError(
            403, f"a request with a session cookie needs the session's form token in {CSRF_HEADER}"
        )


_log = logging.getLogger(__name__)
_CHANGES: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()
"""The lock of each path, for changes with `If-Match`."""
_JSON: Final = "application/json"


def handler_of(operation: Operation, same_path: Sequence[Operation]) -> Handler:
    """Return the aiohttp handler for the operation's route; `same_path` has all operations of its path."""

    async def handle(request: web.Request) -> web.StreamResponse:  # noqa: PLR0911 one for each kind of fault
        try:
            return await _answer(operation, request, same_path)
        except ApiError as error:
            return problem(error.status, error.detail, errors=error.errors, headers=error.headers)
        except web.HTTPException as error:
            return problem(error.status, error.text or error.reason)
        except (TryLaterError, OperationalError, PoolTimeoutError) as error:
            if is_about_a_value(error):
                return _internal(request, error)
            _log.warning("%s %s: %s", request.method, request.path, error)
            if is_timeout(error):
                return problem(503, _TOO_LONG)
            busy = isinstance(error, RepositoryBusyError)
            detail = str(error) if busy else "the database is not responding; try again in a moment"
            return problem(503, detail, headers={"Retry-After": "5"})
        except ClientError as error:
            return problem(424, str(error))
        except (UsageError, ZatvaError) as error:
            conflicts = operation.body is None or isinstance(error, ConflictError)
            return problem(409 if conflicts else 422, str(error))
        except Exception as error:  # noqa: BLE001 last resort: logged in full, not shown to the caller
            return _internal(request, error)

    handle.__name__ = operation.name
    declared = needs(operation.right)(handle)
    return needs_fresh_sign_in(declared) if operation.session_only else declared


def _internal(request: web.Request, error: Exception) -> web.Response:
    """Log the error, unless the client has left, and return a problem without its details."""
    if not client_left(request, error):
        _log.error("%s %s", request.method, request.path, exc_info=error)
    return problem(500, _("An internal error occurred in Zatva. See the log of the dashboard for details."))


async def _answer(
    operation: Operation, request: web.Request, same_path: Sequence[Operation]
) -> web.StreamResponse:
    check_caller(request)
    call = Call(
        request=request,
        place={name: PLACES[name].read(request.match_info[name]) for name in operation.places},
        query=_query(operation, request),
        body=await _body(operation, request),
    )
    if operation.is_conditional and request.if_match is not None:
        # Of two programs that name the same ETag at once, the second one waits and then gets 412.
        async with _CHANGES.setdefault(request.path, asyncio.Lock()):
            await _check_unchanged(call, same_path)
            found = await operation.work(call)
    else:
        found = await operation.work(call)
    if isinstance(found, web.StreamResponse):
        return found
    if found is None:
        return web.Response(status=operation.status)
    headers = {**_links(found), **_tags(found, same_path)}
    return web.Response(
        body=found.model_dump_json().encode(), status=operation.status, content_type=_JSON, headers=headers
    )


async def _check_unchanged(call: Call, same_path: Sequence[Operation]) -> None:
    """Respond 412 if `If-Match` names neither the object's ETag nor `*`."""
    reader = next((one for one in same_path if one.method == "GET"), None)
    found = await reader.work(replace(call, query=reader.query())) if reader else None
    now = _tags(found, same_path).get("ETag", "") if isinstance(found, BaseModel) else ""
    if not {tag.value for tag in call.request.if_match or () if not tag.is_weak} & {"*", now.strip('"')}:
        wrong = "the object was changed since you read it, so no changes were made; read it again"
        raise ApiError(412, wrong if now else "nothing at this address has an ETag; leave out If-Match")


def _tags(found: BaseModel, same_path: Sequence[Operation]) -> dict[str, str]:
    """Return the ETag of an object that can be changed: a hash of what a change replaces.

    Facts that only Zatva changes, such as the next run, are not among it. If neither the object nor a part of
    it contains the changeable fields by name, the hash is of all of it.
    """
    changers = [one for one in same_path if one.is_conditional]
    if not any(one.method == "GET" and one.answer is type(found) for one in same_path) or not changers:
        return {}
    names = {name for one in changers if one.body is not None for name in one.body.model_fields}
    parts = [part for _, part in found if isinstance(part, BaseModel)]
    whole = next((one for one in (found, *parts) if names and names <= {*type(one).model_fields}), None)
    text = found.model_dump_json() if whole is None else whole.model_dump_json(include=names)
    return {"ETag": f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'}


def _links(found: BaseModel) -> dict[str, str]:
    following = getattr(found, "next", None)
    return {"Link": f'<{following}>; rel="next"'} if isinstance(following, str) else {}


def _query(operation: Operation, request: web.Request) -> BaseModel:
    given: dict[str, str] = {}
    for name, value in request.query.items():
        if name in given:
            raise ApiError(422, f"the query parameter {name!r} is repeated; give it once")
        given[name] = value
    return _checked(lambda: operation.query.model_validate(given), query=True)


async def _body(operation: Operation, request: web.Request) -> BaseModel | None:
    model = operation.body
    if model is None:
        return None
    if request.content_type != _JSON and not request.can_read_body:
        raise ApiError(415, f"there is no body; send JSON as {_JSON}")
    if request.content_type != _JSON:
        raise ApiError(415, f"the content type of the body is {request.content_type!r}; send {_JSON}")
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge:
        most = request.client_max_size
        raise ApiError(413, f"the body is larger than the limit of {most:,} bytes; send less") from None
    except web.RequestPayloadError:
        leave_unread(request)
        wrong = "the body is incomplete, or not compressed as Content-Encoding says"
        raise ApiError(400, wrong, headers={"Connection": "close"}) from None
    context = await operation.context(request)
    return _checked(lambda: model.model_validate_json(data, strict=True, context=context), query=False)


def _checked(validate: Callable[[], BaseModel], *, query: bool) -> BaseModel:
    try:
        return validate()
    except ValidationError as error:
        found: list[Mapping[str, Any]] = list(error.errors(include_url=False, include_input=False))
        if found[0]["type"] == "json_invalid":
            raise ApiError(400, f"the body is not valid JSON: {found[0]['msg']}") from None
        raise ApiError(
            422, "see `errors` for each invalid value", errors=field_faults(found, query=query)
        ) from None
