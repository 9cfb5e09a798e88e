"""How pages behave in this browser, kept in its cookies: theme, key, language before sign-in, and time zone.

A signed-in user's own language and time zone take precedence. The script stores the browser's time zone.
"""

from typing import Final

from aiohttp import web
from multidict import MultiMapping

from oai.languages import LANGUAGES
from oai.rights import Right
from web.auth.access import needs, redirect_to_page
from web.auth.sessions import is_secure
from web.site.i18n import LANGUAGE_COOKIE

THEMES: Final = ("light", "dark")
"""Without one of these, pages follow the system's setting."""
_THEME: Final = "zatva_theme"
_SEARCH_KEY: Final = "zatva_search_key"
_OFF: Final = "off"
CHOICES: Final = frozenset({"theme", "search_key", "language"})
"""The fields of the forms in the header."""
_A_YEAR: Final = 365 * 24 * 3600


def theme_of(request: web.Request) -> str | None:
    """Return the theme that was chosen in this browser; None: the system's."""
    chosen = request.cookies.get(_THEME)
    return chosen if chosen in THEMES else None


def offers_search_key(request: web.Request) -> bool:
    """Return whether `/` leads to the search: software for dictation types it, too (WCAG 2.1.4)."""
    return request.cookies.get(_SEARCH_KEY) != _OFF


@needs(Right.ANYBODY)
async def choose(request: web.Request) -> web.StreamResponse:
    """Store the choices of the form, and return to the page that it was on."""
    form = await request.post()
    response = redirect_to_page(form)
    _keep(request, response, form, _THEME, "theme", THEMES)
    _keep(request, response, form, _SEARCH_KEY, "search_key", (_OFF,))
    _keep(request, response, form, LANGUAGE_COOKIE, "language", tuple(LANGUAGES))
    raise response


def _keep(
    request: web.Request,
    response: web.StreamResponse,
    form: MultiMapping[object],
    cookie: str,
    field: str,
    choices: tuple[str, ...],
) -> None:
    """Set the cookie to the form's choice; a field with any other value deletes it."""
    if field not in form:
        return
    chosen = form.get(field)
    if chosen not in choices:
        response.del_cookie(cookie, path="/")
        return
    response.set_cookie(
        cookie,
        str(chosen),
        path="/",
        max_age=_A_YEAR,
        httponly=True,
        samesite="Lax",
        secure=is_secure(request),
    )


ROUTES = (web.post("/preferences", choose),)
