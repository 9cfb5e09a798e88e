"""Authorization: who may do and see what. Every route needs a sign-in unless it is declared public.

A handler declares the right that its routes need with ``@needs(Right.HARVEST)``. Without a declaration, GET
needs `Right.LOOK` and every other method `Right.ADMINISTER`, so that a forgotten declaration denies access.

Handlers fetch an object that belongs to a repository with ``await asked_for(request, Job)``, which answers
404 both for an object that does not exist and for one that the user may not see. Lists are limited by
`visible_repositories(who)`, a SELECT of ids for ``column.in_(…)``, or None for no limit. An object that is
not named by the path (a choice in a form) is fetched with `asked_for(request, Repository, number)`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy import Select, select
from sqlalchemy.orm import Session
from yarl import URL

from harvester import locks
from harvester.harvest.models import Quarantined
from harvester.models import History, Repository
from harvester.rule_lab.models import Rule
from harvester.store.models import StoreAudit
from manager.models import Job, RecurringJob, StoreAuditSchedule
from manager.notices.models import Mute, NoticeRule
from oai.audit import Subject
from oai.models import Base
from oai.owners import RepositoryOwner
from oai.rights import Right, Role, rights_of
from web.auth.sessions import SignedIn
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of

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
    "local_path",
    "needs",
    "needs_fresh_sign_in",
    "redirect_to_page",
    "refusal_of",
    "repositories_of",
    "right_of",
    "several_asked_for",
    "signed_in",
    "visible_repositories",
    "who_asks",
]


_SUBJECT = web.RequestKey("subject", Subject)
KIND_OF_ROW: Final[Mapping[type[Any], str]] = {
    Repository: "repository",
    RecurringJob: "schedule",
    Job: "job",
    History: "run",
    Rule: "rule",
    NoticeRule: "notification rule",
    Mute: "mute",
    StoreAudit: "store audit",
    StoreAuditSchedule: "audit schedule",
    Quarantined: "error",
}


def about(
    request: web.Request,
    kind: str,
    number: object,
    name: str | None = None,
    *,
    action: str | None = None,
    **details: Any,  # noqa: ANN401 any JSON value
) -> None:
    """Note the request's subject and details for the audit log; a later call replaces an earlier one.

    `action` is the verb, if the route has several.
    """
    stored = None if number is None else str(number)
    request[_SUBJECT] = Subject(kind=kind, number=stored, name=name, details=details, action=action)


def subject_of(request: web.Request) -> Subject | None:
    """Return the subject that was noted for the request, if any."""
    return request.get(_SUBJECT)


STREAMS: Final = frozenset({"/events"})
"""Paths that answer 401 instead of redirecting to the sign-in page, because scripts request them."""
_API: Final = "/api/"
_API_PAGES: Final = frozenset({"/api/docs", "/api/docs/try"})
_ANSWERS_TO_FORMS: Final = frozenset({"/repositories/new"})
"""Pages whose later steps have no address of their own."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_STATIC: Final = "/static"
_RIGHT: Final = "needed_right"
_FRESH: Final = "needs_fresh_sign_in"
_SETTING_UP: Final = frozenset(
    {"/account/second-factor", "/account/second-factor/enable", "/sign-in/again", "/sign-out"}
)
"""Where a user may go who has yet to set up the second factor that the settings demand."""

LONGEST_RETURN: Final = 1000
"""Longest address to return to after signing in: many proxies accept no more than 4 kB of headers."""

UNSENT = web.RequestKey("unsent", str)
"""Why the form that the request sends was not applied; the page that answers it offers to send it again."""

_Row = TypeVar("_Row", bound=Base)
_SIGNED_IN = web.RequestKey("signed_in", SignedIn)


def needs(right: Right) -> Callable[[Handler], Handler]:
    """Declare the right that a handler's routes need."""

    def mark(handler: Handler) -> Handler:
        setattr(handler, _RIGHT, right)
        return handler

    return mark


def needs_fresh_sign_in(handler: Handler) -> Handler:
    """Declare that the handler's routes need a user who has just proved who they are; no API token does.

    For steps that would outlast a stolen session: other users' rights, tokens, passwords, second factors.
    """
    setattr(handler, _FRESH, True)
    return handler


def is_for_fresh_sign_in(handler: object) -> bool:
    """Return whether the handler's routes need a user who has just proved who they are."""
    return getattr(handler, _FRESH, False)


administrators_only: Final = needs(Right.ADMINISTER)
"""For pages that only administrators may open."""


def right_of(handler: object, method: str) -> Right:
    """Return the right that the handler declares, or the default right for the method."""
    default = Right.LOOK if method in _SAFE_METHODS else Right.ADMINISTER
    right: Right = getattr(handler, _RIGHT, default)
    return right


def signed_in(request: web.Request) -> SignedIn | None:
    """Return the signed-in user, or None for an anonymous request."""
    return request.get(_SIGNED_IN)


def who_asks(request: web.Request) -> SignedIn:
    """Return the signed-in user. Responds 401 to an anonymous request, which should not get this far."""
    who = signed_in(request)
    if who is None:
        raise web.HTTPUnauthorized(text=_("Sign in first."))
    return who


def visible_repositories(who: SignedIn) -> Select[int] | None:
    """Return a SELECT of the ids of the repositories that the user may see; None for all."""
    return None if who.sees_everything else repositories_of(who.organisation_id)


def repositories_of(organisation_id: int | None) -> Select[int]:
    """Return a SELECT of the ids of an organisation's repositories."""
    return select(RepositoryOwner.repository_id).where(RepositoryOwner.organisation_id == organisation_id)


def find_visible(session: Session, who: SignedIn, kind: type[_Row], number: int) -> _Row | None:
    """Return the row with that id if it exists and the user may see its repository.

    Rows without a repository are visible only to users who see every repository.
    """
    row = session.get(kind, number)
    if row is None or who.sees_everything:
        return row
    repository_id: int | None = getattr(row, "repository_id")  # noqa: B009 every kind has it, but their base class has not
    seen = visible_repositories(who)
    if repository_id is None or seen is None:
        return None
    one = select(RepositoryOwner.repository_id).where(
        RepositoryOwner.repository_id == repository_id, RepositoryOwner.repository_id.in_(seen)
    )
    return row if session.scalar(one) is not None else None


async def asked_for(
    request: web.Request, kind: type[_Row], number: int | None = None, *, being_removed: bool = False
) -> _Row:
    """Return the requested row, by `number` or by the `{id}` in the path.

    `kind` is the table's class: `Repository`, `RecurringJob`, `Job`, `History`, or another with a
    `repository_id`. Responds 404 with the same text if the row does not exist and if the user may not see it.
    Responds 409 for a repository that is being removed, of which pages would show only a part, except with
    `being_removed`.
    Notes the first row for the audit log: the one that the path names is fetched before those of the form.
    """
    who = who_asks(request)
    wanted = int(request.match_info["id"]) if number is None else number
    row, name, is_half = await database_of(request).run(_find_with_name, who, kind, wanted)
    if row is None:
        raise web.HTTPNotFound(text=_no_such(kind) % {"number": wanted})
    if is_half and not being_removed:
        raise web.HTTPConflict(
            text=_(
                "Repository %(number)s is being removed. If that was interrupted, remove it again in the "
                "list of repositories."
            )
            % {"number": wanted}
        )
    if subject_of(request) is None:
        about(request, KIND_OF_ROW.get(kind, kind.__tablename__), wanted, name)
    return row


async def several_asked_for(
    request: web.Request, kind: type[_Row], numbers: Iterable[int], *, being_removed: bool = False
) -> tuple[dict[int, _Row], dict[int, str]]:
    """Return the rows that are ticked in a form, by id, and why each other one is not available.

    Responds as `asked_for` if none is available.
    """
    found: dict[int, _Row] = {}
    missing: dict[int, web.HTTPException] = {}
    for number in numbers:
        try:
            found[number] = await asked_for(request, kind, number, being_removed=being_removed)
        except (web.HTTPNotFound, web.HTTPConflict) as error:
            missing[number] = error
    if missing and not found:
        raise next(iter(missing.values()))
    return found, {number: error.text or "" for number, error in missing.items()}


def is_api(request: web.Request) -> bool:
    """Return whether the request is for an API operation, which answers with status codes, not redirects."""
    path = canonical(request) or request.path
    return path.startswith(_API) and path not in _API_PAGES


def refusal_of(request: web.Request) -> str | None:
    """Return why the signed-in caller may not make this request, or None; anonymous callers get None."""
    who, handler = signed_in(request), request.match_info.handler
    if who is None:
        return None
    right = right_of(handler, request.method)
    if right is not Right.ANYBODY and right not in who.rights:
        return _refusal(who, right)
    # Programs change things through the API, where each operation says whether a token is enough.
    changes_by_page = request.method not in _SAFE_METHODS and not is_api(request)
    if who.scopes is not None and (changes_by_page or is_for_fresh_sign_in(handler)):
        return _("API tokens cannot do this; sign in to the dashboard with a browser.")
    return None


@web.middleware
async def access(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject anonymous requests, users without the right that the route needs, and changes by API tokens."""
    path = canonical(request)
    if path is None or path == _STATIC:
        return await handler(request)
    refusal = refusal_of(request)
    if refusal is not None:
        raise web.HTTPForbidden(text=refusal)
    if right_of(request.match_info.handler, request.method) is Right.ANYBODY:
        return await handler(request)
    who = signed_in(request)
    if who is None:
        raise _not_signed_in(request, path)
    _check_sign_in(request, who, path)
    return await handler(request)


def _check_sign_in(request: web.Request, who: SignedIn, path: str) -> None:
    """Send a user to set up the second factor, or to sign in again, before this step."""
    if who.scopes is not None:
        return
    settings = request.config_dict[SETTINGS]
    if who.lacks_second_factor(settings) and path not in _SETTING_UP:
        if path in STREAMS or is_api(request):
            raise web.HTTPForbidden(text=_("Set up your second factor first, on the page of your account."))
        raise web.HTTPSeeOther("/account/second-factor")
    if is_for_fresh_sign_in(request.match_info.handler) and not who.is_fresh(settings.web):
        if is_api(request):
            raise web.HTTPForbidden(text=_("Sign in again: this step needs a recent sign-in."))
        request[UNSENT] = _("This step needs a recent sign-in, so the form was not saved.")
        raise _sign_in_at("/sign-in/again", page_of(request))


def page_of(request: web.Request) -> str:
    """Return the page from which the request was sent, to which the user returns after signing in again."""
    if request.method in _SAFE_METHODS:
        return request.path_qs
    # The site's own pages send their address (Referrer-Policy: same-origin); the query is not needed.
    try:
        return URL(request.headers.get("Referer", "/")).path or "/"
    except ValueError:
        return "/"


def local_path(values: Mapping[str, object]) -> str:
    """Return the field `next`, to which a form leads: a path on this site, otherwise the overview."""
    text = values.get("next", "/")
    if not isinstance(text, str) or not text.startswith("/") or text.startswith(("//", "/\\")):
        return "/"
    return text if text.isascii() and text.isprintable() and len(text) <= LONGEST_RETURN else "/"


def redirect_to_page(form: Mapping[str, object]) -> web.HTTPException:
    """Return the redirect to the page that this form was on, which is its field `next`.

    A page that is itself the answer to a form receives the form again (307), because it shows its entries.
    """
    path = local_path(form)
    return (web.HTTPTemporaryRedirect if path in _ANSWERS_TO_FORMS else web.HTTPSeeOther)(path)


def canonical(request: web.Request) -> str | None:
    """Return the declared path of the request's route, or None if no route matches."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else None


def is_static(request: web.Request) -> bool:
    """Return whether the request is for a static file, which is public."""
    return canonical(request) == _STATIC


def let_in(request: web.Request, who: SignedIn) -> None:
    """Note the authenticated user on the request; called by the `sessions` middleware."""
    request[_SIGNED_IN] = who


def _not_signed_in(request: web.Request, path: str) -> web.HTTPException:
    if path in STREAMS or is_api(request):
        return web.HTTPUnauthorized(text=_("Sign in first."), headers={"WWW-Authenticate": "Bearer"})
    if request.method not in _SAFE_METHODS:
        request[UNSENT] = _("Your session has ended, so the form was not saved.")
    page = page_of(request)
    return web.HTTPSeeOther("/sign-in") if "/" in {path, page} else _sign_in_at("/sign-in", page)


def _sign_in_at(path: str, page: str) -> web.HTTPSeeOther:
    """Return the redirect to a sign-in page from which the user returns to this page."""
    query = {"next": page} if len(page) <= LONGEST_RETURN else {}
    return web.HTTPSeeOther(str(URL(path).with_query(query)))


def _refusal(who: SignedIn, right: Right) -> str:
    if right in rights_of(who.role, organisation_id=who.organisation_id, scopes=None):
        return _("The token does not have the required scope.")
    if who.role is not Role.VIEWER or right is not Right.HARVEST:
        return _("Your role does not allow that. Ask an administrator.")
    return _("Your role is viewer: you cannot make changes.")


def _find_with_name(
    session: Session, who: SignedIn, kind: type[_Row], number: int
) -> tuple[_Row | None, str | None, bool]:
    row = find_visible(session, who, kind, number)
    repository_id = getattr(row, "repository_id", None)
    repository = session.get(Repository, repository_id) if repository_id is not None else None
    is_half = kind is Repository and bool(locks.being_removed(session, [number]))
    return row, None if repository is None else repository.display_name, is_half


def _no_such(kind: type[Any]) -> str:
    return {
        Repository: _("Repository %(number)s does not exist; it may have been removed."),
        RecurringJob: _("Schedule %(number)s does not exist; it may have been removed."),
        Job: _("Job %(number)s does not exist; it ended or was removed. See the history."),
        Rule: _("Rule %(number)s does not exist; it may have been removed."),
        History: _("Run %(number)s is not in the history; it may have been removed."),
    }.get(kind, _("Item %(number)s does not exist; it may have been removed."))
