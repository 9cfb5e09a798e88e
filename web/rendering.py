"""Pages out of templates: plain Jinja2 with escaping on, and what every page needs at hand."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from web import formats
from web.access import signed_in
from web.csrf import FIELD, expected_token
from web.icons import icon
from web.notices import notice_of
from web.rights import Right
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


def make_environment() -> Environment:
    """The templates, ready to render; a name that a template does not get is an error."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]
    environment.filters.update(
        number=formats.number,
        moment=formats.moment,
        hour=formats.hour,
        duration=formats.duration,
        size=formats.size,
        reason=formats.reason,
    )
    environment.globals.update(icon=icon, look_of=look_of, static=_static_urls().__getitem__)
    return environment


def render(
    request: web.Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,  # noqa: ANN401 whatever the template shows
) -> web.Response:
    """The page as an answer; besides `context` the template knows who asks, where, and the form token."""
    page = request.config_dict[TEMPLATES].get_template(template)
    shared = {
        "who": signed_in(request),
        "path": request.path,
        "language": language.get(),
        "zone": here().key,
        "tabs": _tabs(signed_in(request)),
        "notice": notice_of(request.query.get("done")),
        "csrf_field": FIELD,
        "csrf_token": expected_token(request),
    }
    text = page.render({**shared, **context})
    return web.Response(text=text, content_type="text/html", status=status, headers=headers)


def _tabs(who: SignedIn | None) -> tuple[Tab, ...]:
    archive = (Tab(path="/archive", title=_("Archive")),)
    administration = (Tab(path="/admin", title=_("Administration")),)
    return (
        Tab(path="/", title=_("Overview")),
        Tab(path="/repositories", title=_("Repositories")),
        Tab(path="/schedules", title=_("Schedules")),
        Tab(path="/jobs", title=_("Current jobs")),
        Tab(path="/runs", title=_("History")),
        Tab(path="/records", title=_("Records")),
        Tab(path="/imports", title=_("Imports")),
        Tab(path="/rules", title=_("Rules")),
        Tab(path="/alerts", title=_("Alerts")),
        *(archive if who is not None and who.may(Right.LOOK_AROUND) else ()),
        *(administration if who is not None and who.may(Right.ADMINISTER) else ()),
    )


def _static_urls() -> dict[str, str]:
    """Each static file's address with a mark of its content, so that browsers may keep it for ever."""
    return {
        file.name: f"/static/{file.name}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        for file in STATIC.iterdir()
        if file.is_file()
    }
