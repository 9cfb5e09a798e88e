"""Pages out of templates: plain Jinja2 with escaping on, and what every page needs at hand."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harvester.access import access_of
from oai.rights import Right
from web import failures, formats
from web.access import signed_in
from web.csrf import FIELD, expected_token
from web.icons import icon
from web.notices import notice_of
from web.run_words import is_made_up
from web.sessions import SignedIn
from web.states import look_of
from web.words import _, language, ngettext
from web.zones import here

STATIC: Final = Path(__file__).parent / "static"
_TEMPLATES: Final = Path(__file__).parent / "templates"

TEMPLATES = web.AppKey("templates", Environment)


@dataclass(frozen=True, kw_only=True)
class Tab:
    """An entry of the navigation."""

    path: str
    title: str
    current: str | None
    """What `aria-current` says: page on its own page, true on those below it."""


@cache
def environment() -> Environment:
    """The templates, ready to render, once per process; a name that a template does not get is an error."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.policies["ext.i18n.trimmed"] = True
    made.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(
        number=formats.number,
        moment=formats.moment,
        hour=formats.hour,
        duration=formats.duration,
        size=formats.size,
        reason=formats.reason,
    )
    made.globals.update(
        icon=icon,
        look_of=look_of,
        static=_static_urls().__getitem__,
        access_of=access_of,
        failures=failures,
        is_made_up=is_made_up,
    )
    return made


def render(
    request: web.Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,  # noqa: ANN401 whatever the template shows
) -> web.Response:
    """The page as an answer; besides `context` the template knows who asks, where, and the form token."""
    page, who = request.config_dict[TEMPLATES].get_template(template), signed_in(request)
    shared = {
        "who": who,
        "language": language.get(),
        "zone": here().key,
        "tabs": _tabs(request.path, who),
        "seldom_tabs": _seldom_tabs(request.path, who),
        "notice": notice_of(request.query.get("done")),
        "csrf_field": FIELD,
        "csrf_token": expected_token(request),
    }
    text = page.render({**shared, **context})
    return web.Response(text=text, content_type="text/html", status=status, headers=headers)


def _tabs(path: str, who: SignedIn | None) -> list[Tab]:
    """What is needed daily; more would not fit into one row."""
    archive = {"/archive": _("Archive")} if who is not None and who.may(Right.LOOK_AROUND) else {}
    titles = {
        "/": _("Overview"),
        "/repositories": _("Repositories"),
        "/schedules": _("Schedules"),
        "/jobs": _("Current jobs"),
        "/runs": _("History"),
        "/records": _("Records"),
        "/alerts": _("Alerts"),
        **archive,
    }
    return [_tab(path, place, title) for place, title in titles.items()]


def _seldom_tabs(path: str, who: SignedIn | None) -> list[Tab]:
    """What is set up once and then left alone."""
    administration = {"/admin": _("Administration")} if who is not None and who.may(Right.ADMINISTER) else {}
    titles = {"/imports": _("Imports"), "/rules": _("Rules"), **administration}
    return [_tab(path, place, title) for place, title in titles.items()]


def _tab(path: str, place: str, title: str) -> Tab:
    below = place != "/" and path.startswith(f"{place}/")
    return Tab(path=place, title=title, current="page" if path == place else "true" if below else None)


def _static_urls() -> dict[str, str]:
    """Each static file's address with a mark of its content, so that browsers may keep it for ever."""
    return {
        file.name: f"/static/{file.name}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        for file in STATIC.iterdir()
        if file.is_file()
    }
