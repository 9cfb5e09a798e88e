"""Objects and filters that an address names, with 404 or 422 if they do not exist."""

from collections.abc import Collection
from datetime import date
from typing import Final

from aiohttp import web

from harvester.models import Repository
from web.auth.access import asked_for
from web.repositories.forms import Details, details
from web.site.i18n import _
from web.site.keys import database_of
from web.site.paging import as_number
from web.site.zones import is_convertible

NUMBER = r"{id:[1-9][0-9]{0,8}}"
"""A numeric path variable, short enough for the database's integers."""
BIG_NUMBER = r"{id:[1-9][0-9]{0,17}}"
"""The same for columns of type bigint."""
_LONGEST_SHOWN: Final = 50


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


def choice_in(request: web.Request, name: str, choices: Collection[str]) -> str:
    """Return a filter in the query string, or an empty text; respond 422 if it is not one of the choices.

    An ignored filter would list everything, above all in exported files, which do not show their filters.
    """
    text = request.query.get(name, "").strip()
    if text and text not in choices:
        raise _unknown(name, text)
    return text


def id_in(request: web.Request, name: str) -> int | None:
    """Return an id in the query string, if any; respond 422 if it is not one."""
    text = request.query.get(name, "")
    number = as_number(text)
    if text and number is None:
        raise _unknown(name, text)
    return number


def day_in(request: web.Request, name: str) -> date | None:
    """Return a day in the query string, if any; respond 422 if it is not one."""
    text = request.query.get(name, "").strip()
    try:
        day = date.fromisoformat(text) if text else None
    except ValueError:
        raise _unknown(name, text) from None
    if day is not None and not is_convertible(day):
        raise _unknown(name, text)
    return day


def _unknown(name: str, text: str) -> web.HTTPException:
    return web.HTTPUnprocessableEntity(
        text=_(
            "The address contains the invalid filter %(name)s=%(value)s. Remove it from the address, or open "
            "the page without filters and choose filters there."
        )
        % {"name": name, "value": text[:_LONGEST_SHOWN]}
    )
