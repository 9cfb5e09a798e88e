"""Notes every change for the audit log: who did what to which object, when, from which address."""

from types import MappingProxyType
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from web.access import canonical, signed_in
from web.keys import SETTINGS
from web.log_entries import audit
from web.proxies import client_address
from web.subject import Subject, subject_of
from web.threads import database_of

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FIRST_FAILURE: Final = 400
_SINGULAR: Final = MappingProxyType(
    {
        "repositories": "repository",
        "schedules": "schedule",
        "jobs": "job",
        "runs": "run",
        "records": "record",
        "documents": "document",
        "collections": "collection",
        "users": "user",
        "organisations": "organisation",
        "tokens": "token",
        "imports": "import",
    }
)


@web.middleware
async def auditing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note every change that succeeded: the one place where they all come by."""
    if request.method in _SAFE_METHODS or canonical(request) is None:
        return await handler(request)
    try:
        response = await handler(request)
    except web.HTTPException as done:
        if done.status < _FIRST_FAILURE:
            await note(request, done.status)
        raise
    if response.status < _FIRST_FAILURE:
        await note(request, response.status)
    return response


async def note(request: web.Request, status: int, *, action: str | None = None) -> None:
    """Write what this request did; `action` where its address does not say it."""
    who, subject = signed_in(request), subject_of(request) or _by_address(request)
    user_id, user_name = (who.user_id, who.name) if who else (None, None)
    if who is None and subject is not None and subject.kind == "user":
        user_name = subject.name
    await database_of(request).run(
        audit,
        request.config_dict[SETTINGS].web,
        action=action or action_of(request),
        user_id=user_id,
        user_name=user_name,
        via=who.way if who else "none",
        object_kind=subject.kind if subject else None,
        object_id=subject.number if subject else None,
        object_name=subject.name if subject else None,
        status=status,
        address=client_address(request),
    )


def action_of(request: web.Request) -> str:
    """What is done, by method and address: `schedules.pause`, `api.v1.schedules.delete`."""
    path = canonical(request) or request.path
    words = [part for part in path.split("/") if part and not part.startswith("{")]
    return ".".join(words if request.method == "POST" else [*words, request.method.lower()]) or "/"


def _by_address(request: web.Request) -> Subject | None:
    """The object by its number in the address, where the page has not named it."""
    number = next(iter(request.match_info.values()), None)
    path = (canonical(request) or "").split("/")
    place = next((at for at, part in enumerate(path) if part.startswith("{")), 0)
    if number is None or not place:
        return None
    return Subject(kind=_SINGULAR.get(path[place - 1], path[place - 1]), number=str(number))
