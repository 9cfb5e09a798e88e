"""Who may do what, and see what. Everything needs a sign-in unless its route says otherwise.

What a route asks for stands on its handler: ``@needs(Right.HARVEST)``. Where nothing stands, a GET needs
`Right.LOOK`, and every other method `Right.ADMINISTER`: what was forgotten is closed.

What is bound to a repository is got through ``who, job = await asked_for(request, Job)``, which answers 404
for what is not there and for what is not theirs alike. Lists are limited by `visible_repositories(who)`, a
SELECT of numbers for ``column.in_(…)``, or None for everything. What is not asked for by address (a choice in
a form) goes through `asked_for(request, Repository, number)`, too.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy import Select, select
from sqlalchemy.orm import Session
from yarl import URL

from harvester.harvest.models import Quarantined
from harvester.models import History, Repository
from harvester.rule_lab.models import Rule
from manager.models import Job, RecurringJob
from manager.notices.models import NoticeRule
from oai.audit import Subject
from oai.models import Base
from oai.owners import RepositoryOwner
from oai.rights import Right
from web.auth.sessions import SignedIn
from web.site.i18n import _
from web.site.keys import database_of

__all__ = [
    "Right",
    "access",
    "administrators_only",
    "asked_for",
    "canonical",
    "find_visible",
    "is_api",
    "is_static",
    "let_in",
    "needs",
    "repositories_of",
    "right_of",
    "signed_in",
    "visible_repositories",
    "who_asks",
]


_SUBJECT = web.RequestKey("subject", Subject)


def about(request: web.Request, kind: str, number: object, name: str | None = None, **details: Any) -> None:  # noqa: ANN401 whatever JSON holds
    """Note what the request is about, and what it did beside; a later note replaces an earlier one."""
    request[_SUBJECT] = Subject(kind=kind, number=str(number), name=name, details=details)


def subject_of(request: web.Request) -> Subject | None:
    """What the request is about, as far as it was noted."""
    return request.get(_SUBJECT)


STREAMS: Final = frozenset({"/events"})
"""Paths that answer 401 instead of leading to the sign-in page: scripts ask for them, not people."""
_API: Final = "/api/"
_API_PAGES: Final = frozenset({"/api/docs"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_STATIC: Final = "/static"
_RIGHT: Final = "needed_right"

_Row = TypeVar("_Row", bound=Base)
_SIGNED_IN = web.RequestKey("signed_in", SignedIn)


def needs(right: Right) -> Callable[[Handler], Handler]:
    """Say what right a handler's routes need."""

    def mark(handler: Handler) -> Handler:
        setattr(handler, _RIGHT, right)
        return handler

    return mark


administrators_only: Final = needs(Right.ADMINISTER)
"""For pages that nobody else may even look at."""


def right_of(handler: object, method: str) -> Right:
    """The right that the handler asks for; where it does not say, what goes without saying."""
    default = Right.LOOK if method in _SAFE_METHODS else Right.ADMINISTER
    right: Right = getattr(handler, _RIGHT, default)
    return right


def signed_in(request: web.Request) -> SignedIn | None:
    """Who asks, or None for a stranger."""
    return request.get(_SIGNED_IN)


def who_asks(request: web.Request) -> SignedIn:
    """Who asks; for handlers that strangers do not reach. Answers 401 to one all the same."""
    who = signed_in(request)
    if who is None:
        raise web.HTTPUnauthorized(text=_("Sign in first."))
    return who


def visible_repositories(who: SignedIn) -> Select[int] | None:
    """The numbers of the repositories that somebody sees, as a SELECT; None for all."""
    return None if who.sees_everything else repositories_of(who.organisation_id)


def repositories_of(organisation_id: int | None) -> Select[int]:
    """The numbers of an organisation's repositories."""
    return select(RepositoryOwner.repository_id).where(RepositoryOwner.organisation_id == organisation_id)


def find_visible(session: Session, who: SignedIn, kind: type[_Row], number: int) -> _Row | None:
    """The row of that number where there is one and its repository is one that somebody sees.

    Rows of no repository are seen by those who see every repository.
    """
    row = session.get(kind, number)
    if row is None or who.sees_everything:
        return row
    repository_id: int | None = getattr(row, "repository_id")  # noqa: B009 every kind has it, their base has not
    seen = visible_repositories(who)
    if repository_id is None or seen is None:
        return None
    one = select(RepositoryOwner.repository_id).where(
        RepositoryOwner.repository_id == repository_id, RepositoryOwner.repository_id.in_(seen)
    )
    return row if session.scalar(one) is not None else None


async def asked_for(
    request: web.Request, kind: type[_Row], number: int | None = None
) -> tuple[SignedIn, _Row]:
    """Who asks, and the row that they ask for, by `number` or by the `{id}` in the address.

    `kind` is the table's class: `Repository`, `RecurringJob`, `Job`, `History`, or any other that has a
    `repository_id`. Answers 404 for what is not there, and no differently for what is not theirs. The
    row is noted for the audit log.
    """
    who = who_asks(request)
    wanted = int(request.match_info["id"]) if number is None else number
    row, name = await database_of(request).run(_find_with_name, who, kind, wanted)
    if row is None:
        raise web.HTTPNotFound(text=_no_such(kind) % {"number": wanted})
    about(request, _KINDS.get(kind, kind.__tablename__), wanted, name)
    return who, row


def is_api(request: web.Request) -> bool:
    """Whether an operation of the API is asked for, by a program: it gets status codes, and no redirects."""
    path = canonical(request) or request.path
    return path.startswith(_API) and path not in _API_PAGES


@web.middleware
async def access(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn away strangers, and those who lack the right that the route asks for."""
    path = canonical(request)
    if path is None or path == _STATIC:
        return await handler(request)
    right = right_of(request.match_info.handler, request.method)
    who = signed_in(request)
    if right is Right.ANYBODY:
        return await handler(request)
    if who is None:
        raise _turned_away(request, path)
    if right not in who.rights:
        raise web.HTTPForbidden(text=_refusal(who, right))
    return await handler(request)


def canonical(request: web.Request) -> str | None:
    """The path of the request's route as it was declared, or None where there is no such route."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else None


def is_static(request: web.Request) -> bool:
    """Whether one of our own files is asked for, which is everybody's."""
    return canonical(request) == _STATIC


def let_in(request: web.Request, who: SignedIn) -> None:
    """Note who asks; for the middleware that finds it out."""
    request[_SIGNED_IN] = who


def _turned_away(request: web.Request, path: str) -> web.HTTPException:
    if path in STREAMS or is_api(request):
        return web.HTTPUnauthorized(text=_("Sign in first."), headers={"WWW-Authenticate": "Bearer"})
    if request.method not in _SAFE_METHODS or path == "/":
        return web.HTTPSeeOther("/sign-in")
    return web.HTTPSeeOther(str(URL("/sign-in").with_query({"next": request.path_qs})))


def _refusal(who: SignedIn, right: Right) -> str:
    if who.scopes is not None:
        return _("The token does not have the required scope.")
    if who.may_change or right is not Right.HARVEST:
        return _("Your role does not allow that. Ask an administrator.")
    return _("Your role is viewer: you cannot make changes.")


def _find_with_name(
    session: Session, who: SignedIn, kind: type[_Row], number: int
) -> tuple[_Row | None, str | None]:
    row = find_visible(session, who, kind, number)
    repository_id = getattr(row, "repository_id", None)
    repository = session.get(Repository, repository_id) if repository_id is not None else None
    return row, None if repository is None else repository.repository_name or repository.base_url


_KINDS: Final[Mapping[type[Any], str]] = MappingProxyType(
    {
        Repository: "repository",
        RecurringJob: "schedule",
        Job: "job",
        History: "run",
        Rule: "rule",
        NoticeRule: "notification rule",
        Quarantined: "error",
    }
)


def _no_such(kind: type[Any]) -> str:
    return {
        Repository: _("Repository %(number)s does not exist; it may have been removed."),
        RecurringJob: _("Schedule %(number)s does not exist; it may have been removed."),
        Job: _("Job %(number)s does not exist; it ended or was removed. See the history."),
        Rule: _("Rule %(number)s does not exist; it may have been removed."),
        History: _("Run %(number)s is not in the history; it may have been removed."),
    }.get(kind, _("Item %(number)s does not exist; it may have been removed."))
