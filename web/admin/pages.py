"""Administration pages: index, all users' API tokens, managers and workers, system health."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from manager.models import Worker
from manager.worker.registry import manager_status
from oai.errors import UsageError
from oai.owners import Organisation
from provider.holdings.status import archive_status
from web.admin.installation import database_facts, process_words, rooms
from web.auth.access import about, administrators_only
from web.auth.api_tokens import TokenView, list_tokens, revoke_token
from web.models import ApiToken, User
from web.site.export import AT_ONCE, KINDS, columns_of, export
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, number_in, page_of
from web.site.params import NUMBER, number_of
from web.site.render import render

_TOKEN: Final = columns_of(
    "token_id", "user_name", "name", "scopes", "state", "created", "expires", "last_used", "revoked",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AdminLink:
    """A link to an administration page, with the number of its items if they can be counted."""

    path: str
    title: str
    about: str
    count: int | None = None


@administrators_only
async def front(request: web.Request) -> web.Response:
    """Show the index of the administration pages."""
    users, organisations, tokens, workers = await database_of(request).run(_counts)
    places = [
        AdminLink(path="/admin/users", title=_("Users"), about=_("accounts and roles"), count=users),
        AdminLink(
            path="/admin/organisations",
            title=_("Organisations"),
            about=_("partner institutions"),
            count=organisations,
        ),
        AdminLink(
            path="/admin/tokens", title=_("API tokens"), about=_("access keys for programs"), count=tokens
        ),
        AdminLink(
            path="/admin/workers", title=_("Workers"), about=_("harvest processes by host"), count=workers
        ),
        AdminLink(path="/admin/health", title=_("Health"), about=_("database, disks, archive, this process")),
        AdminLink(path="/admin/audit", title=_("Audit log"), about=_("changes by user, time and origin")),
    ]
    return render(request, "admin.html", places=places)


@administrators_only
async def tokens(request: web.Request) -> web.Response:
    """Show the API tokens of all users, newest first."""
    before = number_in(request, "before")
    found = await database_of(request).run(list_tokens, limit=PAGE + 1, before=before)
    page = page_of(found, lambda token: token.token_id, behind=before)
    return render(request, "admin_tokens.html", page=page)


@administrators_only
async def tokens_as_file(request: web.Request) -> web.StreamResponse:
    """Export the API tokens of all users; the tokens themselves are not stored."""

    async def behind(last: TokenView | None) -> Sequence[TokenView]:
        before = last.token_id if last else None
        return await database_of(request).run(list_tokens, limit=AT_ONCE, before=before)

    return await export(request, "tokens", _TOKEN, behind)


@administrators_only
async def revoke(request: web.Request) -> web.StreamResponse:
    """Revoke an API token."""
    number = number_of(request)
    try:
        row = await database_of(request).run(revoke_token, number)
    except UsageError:
        raise web.HTTPNotFound(text=_("The token does not exist; it may have been removed.")) from None
    about(request, "token", number, row.name)
    raise web.HTTPSeeOther("/admin/tokens?done=token-revoked")


@administrators_only
async def workers(request: web.Request) -> web.Response:
    """Show the leading manager and the workers on all hosts."""
    status = await database_of(request).run(manager_status)
    return render(request, "admin_workers.html", manager=status, workers=status.workers)


@administrators_only
async def health(request: web.Request) -> web.Response:
    """Show the health of manager, archive, disks, database and this process."""
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
    web.get(f"/admin/tokens.{KINDS}", tokens_as_file, allow_head=False),
    web.post(f"/admin/tokens/{NUMBER}/revoke", revoke),
    web.get("/admin/workers", workers),
    web.get("/admin/health", health),
)
