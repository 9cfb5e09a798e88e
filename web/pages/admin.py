"""Administration: where its pages are, everybody's API tokens, the manager and its workers."""

import asyncio
from dataclasses import dataclass

from aiohttp import web
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from manager.models import Worker
from manager.status import manager_status
from oai.errors import UsageError
from provider.holdings.status import archive_status
from web.access import administrators_only
from web.api_tokens import list_tokens, revoke_token
from web.installation import database_facts, process_words, rooms
from web.keys import SETTINGS
from web.lookups import NUMBER, number_of
from web.models import ApiToken, Organisation, User
from web.rendering import render
from web.subject import about
from web.threads import database_of
from web.words import _


@dataclass(frozen=True, kw_only=True)
class Place:
    """A page of the administration, and how much there is on it where that can be counted."""

    path: str
    title: str
    about: str
    count: int | None = None


@administrators_only
async def front(request: web.Request) -> web.Response:
    """Where everything is."""
    users, organisations, tokens, workers = await database_of(request).run(_counts)
    places = [
        Place(path="/admin/users", title=_("Users"), about=_("who signs in, as what"), count=users),
        Place(
            path="/admin/organisations",
            title=_("Organisations"),
            about=_("whose repositories they are"),
            count=organisations,
        ),
        Place(path="/admin/tokens", title=_("API tokens"), about=_("keys of programs"), count=tokens),
        Place(
            path="/admin/workers", title=_("Workers"), about=_("who harvests, on which host"), count=workers
        ),
        Place(path="/admin/health", title=_("Health"), about=_("database, disks, archive, this process")),
        Place(path="/admin/audit", title=_("Audit log"), about=_("who did what, when, from where")),
    ]
    return render(request, "admin.html", places=places)


@administrators_only
async def tokens(request: web.Request) -> web.Response:
    """Everybody's API tokens."""
    return render(request, "admin_tokens.html", tokens=await database_of(request).run(list_tokens))


@administrators_only
async def revoke(request: web.Request) -> web.StreamResponse:
    """Revoke a token."""
    number = number_of(request)
    try:
        row = await database_of(request).run(revoke_token, number)
    except UsageError:
        raise web.HTTPNotFound(text=_("There is no such token; it may have been removed.")) from None
    about(request, "token", number, row.name)
    raise web.HTTPSeeOther("/admin/tokens?done=token-revoked")


@administrators_only
async def workers(request: web.Request) -> web.Response:
    """The leading manager, and the workers of all hosts."""
    status = await database_of(request).run(manager_status)
    return render(request, "admin_workers.html", manager=status, workers=status.workers)


@administrators_only
async def health(request: web.Request) -> web.Response:
    """How the parts are: manager, archive, disks, database, this process."""
    database = database_of(request)
    return render(
        request,
        "admin_health.html",
        manager=await database.run(manager_status),
        archive=await database.run(archive_status),
        rooms=await asyncio.to_thread(rooms, request.config_dict[SETTINGS]),
        database=await database.run(database_facts),
        process=process_words(),
        pending=database.pending,
    )


def _counts(session: Session) -> tuple[int, int, int, int]:
    users, organisations, workers = (
        session.scalars(select(func.count()).select_from(table)).one()
        for table in (User, Organisation, Worker)
    )
    good = (ApiToken.expires.is_(None) | (ApiToken.expires > func.now())) & ApiToken.revoked.is_(None)
    live = session.scalars(select(func.count()).select_from(ApiToken).where(good)).one()
    return users, organisations, live, workers


ROUTES = (
    web.get("/admin", front),
    web.get("/admin/tokens", tokens),
    web.post(f"/admin/tokens/{NUMBER}/revoke", revoke),
    web.get("/admin/workers", workers),
    web.get("/admin/health", health),
)
