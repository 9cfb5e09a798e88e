"""Middleware that writes the audit log: an entry for each change, a count of each refusal.

The action comes from the route (`oai.actions`), the object from the path or from `about`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.orm import Session

from oai.actions import Action, action_of_route
from oai.audit import (
    OF_ALL_SCHEDULES,
    Actor,
    AuditEntry,
    Begun,
    Snapshot,
    Subject,
    begin,
    last_change,
    record,
    refuse,
    settle,
    snapshot,
)
from oai.errors import UsageError, ZatvaError, required
from oai.rights import Right
from web.auth.access import canonical, is_api, refusal_of, right_of, signed_in, subject_of
from web.auth.identify import client_address
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REDIRECT: Final = 300
_SEE_OTHER: Final = 303
_WRONG_INPUT: Final = 422
_NO_RESPONSE: Final = 500
_LONGEST_FILTERS: Final = 1000
_Result = TypeVar("_Result")
_BEGUN = web.RequestKey("begun", Begun)
_EACH = web.RequestKey("entries_of_changes", list[int])


@web.middleware
async def auditing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write an entry for a request that changes something; every such request passes here."""
    action = _action(request)
    if action is None:
        return await handler(request)
    if _is_refused(request):
        # An attacker can repeat refused requests at will, so they share one entry and take no snapshot.
        return await _refused(request, handler, action)
    return await _follow(request, handler, action)


async def _follow(request: web.Request, handler: Handler, action: Action) -> web.StreamResponse:
    """Run the handler between opening and settling the request's audit entry."""
    database = database_of(request)
    begun = await database.run(begin, action.verb, actor(request), _subject(request, action))
    request[_BEGUN], status = begun, _NO_RESPONSE
    try:
        response = await handler(request)
        status = response.status
    except web.HTTPException as done:
        status = done.status
        raise
    except ZatvaError:
        status = _WRONG_INPUT
        raise
    finally:
        # An entry that changes nothing is deleted, and so is one whose changes have entries of their own.
        if request.get(_EACH) or _is_only_a_step(request, action, status):
            status = _WRONG_INPUT
        await _settle(request, request[_BEGUN], _subject(request, action), status)
    return response


async def renew_snapshot(request: web.Request) -> None:
    """Take the object's values before the change now: others may have changed it while a server was asked."""
    begun = request[_BEGUN]
    before = await database_of(request).run(snapshot, begun.kind, begun.number)
    request[_BEGUN] = replace(begun, before=before)


def undo_mark(request: web.Request) -> str:
    """Return the query string for the address that undoes the request's changes: the ids of their entries."""
    entries = request.get(_EACH, [request[_BEGUN].audit_id])
    return f"?since={','.join(map(str, entries))}"


def check_undo(
    session: Session, request: web.Request, kind: str, number: int, repository_id: int | None = None
) -> None:
    """Respond 409 if the request undoes a change of the object that is not its last one.

    With `repository_id`, pausing and resuming all schedules of the repository are changes, too.
    """
    since = request.query.get("since")
    if since is None:
        return
    if str(_last_change(session, kind, number, repository_id)) != since:
        raise web.HTTPConflict(text=_("It was changed in the meantime, and nothing was undone."))


def check_undo_of_all(session: Session, entry: AuditEntry, schedules: Iterable[int]) -> None:
    """Raise UsageError unless the entry has the last change of each of these schedules of its repository."""
    number = int(required(entry.object_id, "the entry is about a repository"))
    if any(_last_change(session, "schedule", one, number) != entry.audit_id for one in schedules):
        raise UsageError(_("It was changed in the meantime, and nothing was undone."))


def _last_change(session: Session, kind: str, number: int, repository_id: int | None) -> int:
    of_all = last_change(session, "repository", repository_id, OF_ALL_SCHEDULES)
    both = last_change(session, kind, number), of_all
    return max((entry.audit_id for entry in both if entry), default=0)


async def change_one(
    request: web.Request, subject: Subject, work: Callable[[], Awaitable[_Result]]
) -> _Result:
    """Make one of several changes of a request, with an entry of its own instead of the request's.

    Returns what the work returns. A mapping is added to the details of the entry.
    """
    action = _action(request)
    if action is None:
        raise RuntimeError(f"{request.path}: no action in oai.actions")
    verb = subject.action or action.verb
    begun = await database_of(request).run(begin, verb, actor(request), subject)
    request[_EACH] = [*request.get(_EACH, []), begun.audit_id]
    status = _NO_RESPONSE
    try:
        result = await work()
        if isinstance(result, Mapping):
            subject = replace(subject, details={**(subject.details or {}), **result})
        status = _REDIRECT
    except ZatvaError:
        status = _WRONG_INPUT
        raise
    finally:
        await _settle(request, begun, subject, status)
    return result


def record_beside(
    session: Session,
    request: web.Request,
    action: str,
    kind: str,
    number: int,
    name: str | None,
    *,
    before: Snapshot | None = None,
) -> None:
    """Write the entry of what the request does besides the change of its own object. The caller commits.

    A new object's columns are in it, and of an object whose state `before` is given, those that changed, as
    in the entry of the page that does only this.
    """
    session.flush()
    made = snapshot(session, kind, str(number)) if before or action.endswith(".add") else None
    earlier = columns = None
    if made is not None and before is not None:
        changed = {name for name, value in made.columns.items() if value != before.columns.get(name)}
        earlier, columns = ({name: one.columns.get(name) for name in changed} for one in (before, made))
    elif made is not None:
        columns = {name: value for name, value in made.columns.items() if value is not None}
    subject = Subject(kind=kind, number=str(number), name=name, before=earlier, details=columns)
    record(session, action, actor(request), subject, status=_SEE_OTHER, audit_days=0)


async def _settle(request: web.Request, begun: Begun, subject: Subject, status: int) -> None:
    await database_of(request).run(
        settle,
        begun,
        actor(request),
        subject,
        status=status,
        audit_days=request.config_dict[SETTINGS].web.audit_days,
    )


def _is_only_a_step(request: web.Request, action: Action, status: int) -> bool:
    """Return whether a page only shows the next step of a form; a page that made a change redirects."""
    return status < _REDIRECT and not is_api(request) and not action.shows_secret


def _subject(request: web.Request, action: Action) -> Subject:
    """Return the object that the handler noted, or the one whose id is in the path."""
    noted = subject_of(request)
    if noted is None:
        return Subject(kind=action.object_kind, number=next(iter(request.match_info.values()), None))
    return noted


async def count_refusal(request: web.Request, action: str, status: int) -> None:
    """Count a refusal that the status does not distinguish from wrong input, such as a wrong password."""
    await database_of(request).run(refuse, action, actor(request), subject_of(request), status)


async def record_export(request: web.Request, name: str, kind: str, *, title: str | None = None) -> None:
    """Write an entry for what is exported to a file: a list with the filters of the request, or `title`."""
    # The database takes no NUL, and one entry must not fill the log.
    filters = (title or request.query_string).replace("\0", "\N{REPLACEMENT CHARACTER}")[:_LONGEST_FILTERS]
    await database_of(request).run(
        record,
        f"{name.rstrip('-0123456789')}.export",
        actor(request),
        Subject(kind="export", number=kind, name=filters or None),
        status=200,
        audit_days=request.config_dict[SETTINGS].web.audit_days,
    )


def actor(request: web.Request) -> Actor:
    """Return the user and address of the request; for a sign-in, the user who signs in."""
    who, noted = signed_in(request), subject_of(request)
    name = who.name if who else None
    if who is None and noted is not None and noted.kind == "user":
        name = noted.name
    return Actor(
        user_id=who.user_id if who else None,
        name=name,
        via=who.way if who else "none",
        address=client_address(request),
    )


def _action(request: web.Request) -> Action | None:
    path = canonical(request)
    if request.method in _SAFE_METHODS or path is None:
        return None
    control = request.match_info.get("control")
    return action_of_route(request.method, path.replace("{control}", control) if control else path)


def _is_refused(request: web.Request) -> bool:
    """Return whether `web.auth.access` will reject the request."""
    if signed_in(request) is None:
        return right_of(request.match_info.handler, request.method) is not Right.ANYBODY
    return refusal_of(request) is not None


async def _refused(request: web.Request, handler: Handler, action: Action) -> web.StreamResponse:
    status = 401 if signed_in(request) is None else 403
    subject = Subject(kind=action.object_kind)
    await database_of(request).run(refuse, action.verb, actor(request), subject, status)
    return await handler(request)
