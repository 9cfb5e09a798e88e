"""Objects that a path or query names, with 404 if they do not exist."""

from aiohttp import web

from harvester.models import Repository
from web.auth.access import asked_for
from web.repositories.forms import Details, details
from web.site.i18n import _
from web.site.keys import database_of
from web.site.paging import as_number

NUMBER = r"{id:[1-9][0-9]{0,8}}"
"""A numeric path variable, short enough for the database's integers."""
BIG_NUMBER = r"{id:[1-9][0-9]{0,17}}"
"""The same for columns of type bigint."""


def number_of(request: web.Request) -> int:
    """Return the number in the path."""
    return int(request.match_info["id"])


async def repository_of(request: web.Request, repository_id: int) -> Details:
    """Return the repository with that id; respond 404 if the user cannot see such a repository."""
    await asked_for(request, Repository, repository_id)
    found = await database_of(request).run(details, repository_id)
    if found is None:
        raise web.HTTPNotFound(
            text=_("Repository %(number)s does not exist; it may have been removed.")
            % {"number": repository_id}
        )
    return found


def chosen_repository(request: web.Request) -> int | None:
    """Return the repository id in the query string, if any; respond 404 if it is not a number."""
    text = request.query.get("repository", "")
    if not text:
        return None
    number = as_number(text)
    if number is None:
        raise web.HTTPNotFound(text=_("The repository does not exist."))
    return number
