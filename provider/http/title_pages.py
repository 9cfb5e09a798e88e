"""`/titles`: the public pages of the listed titles, and a search over them, for people.

A title that is not listed has no page. A page has no scripts; the data in it is for search engines.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from aiohttp import web
from markupsafe import Markup
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.languages import LANGUAGES, SOURCE
from provider.http import landing
from provider.http.admission import admitted
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
from provider.http.middleware import readable_rules
from provider.http.texts import Texts, chosen, short_code
from provider.models import UNLISTED, Access
from provider.protocol.formats.format import Site
from provider.titles.captures import newest_captures
from provider.titles.catalogue import TitleItem, has_titles, title_by_key, titles_settings
from provider.titles.chart import chart, years_of
from provider.titles.collections import described
from provider.titles.formats import documents_url, public_page
from provider.titles.licences import licence_by_key
from provider.titles.linked_data import archived_url, json_ld, records_of, signposts
from provider.titles.models import TitleSet
from provider.titles.search import (
    TREES,
    FoundTitle,
    TitleQuery,
    UnknownPlaceError,
    choices,
    find_titles,
)
from provider.titles.sets import set_part

PATH: Final = "/titles"
_LONGEST: Final = 200
"""Characters of a search."""
_KEY: Final = re.compile(r"[0-9a-f]{32}")
_SET_PART: Final = re.compile(r"[a-z0-9.-]{1,100}")
_EVER_LISTED: Final = UNLISTED - timedelta(seconds=1)
"""The last datestamp of a title that is or was listed. A page shows a change before it is due in lists."""
_WEB: Final = frozenset({"http", "https"})
"""Schemes of addresses that are linked; `javascript:` would act in the archive's name."""
_LANG: Final = "lang"
_WORDS: Final = "q"
_AFTER: Final = "after"
_PARAMETERS: Final = (_LANG, _WORDS, *TREES, _AFTER)
"""Others are ignored: sites that link here add their own."""
_SECURITY: Final = landing.PAGE_HEADERS["Content-Security-Policy"].replace(
    "form-action 'none'", "form-action 'self'"
)


class WrongParameterError(Exception):
    """A parameter has an impossible value: key of the text that says so, and its values."""

    def __init__(self, key: str, **values: str) -> None:
        super().__init__(key)
        self.key = key
        self.values = values


class Page:
    """What the template of a page is given: its language, and links that keep a chosen language."""

    def __init__(self, request: web.Request, *, up: str) -> None:
        self._request = request
        self._up = up
        """The relative address of the folder of `/titles`; relative, because a proxy may put it anywhere."""
        self.texts = chosen(request.query, request.headers.get("Accept-Language", ""))
        asked = request.query.get(_LANG)
        self.kept: Mapping[str, str] = {_LANG: asked} if asked and asked in LANGUAGES else {}

    def link(self, path: str = "titles", **parameters: str | None) -> str:
        """Return a relative link; parameters without a value are left out."""
        given = {name: value for name, value in parameters.items() if value} | dict(self.kept)
        return f"{self.file(path)}{'?' if given else ''}{urlencode(given)}"

    def file(self, path: str) -> str:
        """Return a relative link to something without a language."""
        return f"{self._up}{path}"

    def languages(self) -> list[tuple[str, str, str]]:
        """Return code, name, and address of this page in each language."""
        query = self._request.query
        kept = {name: query[name] for name in _PARAMETERS if query.get(name)}
        return [(code, name, f"?{urlencode({**kept, _LANG: code})}") for code, name in LANGUAGES.items()]

    def render(self, template: str, **values: object) -> bytes:
        """Return the page as HTML in UTF-8."""
        settings = titles_settings(self._request.app[SETTINGS].provider)
        page = landing.templates().get_template(template)
        return page.render(page=self, t=self.texts, settings=settings, **values).encode()

    def notice(self, status: int, key: str, **values: str) -> web.Response:
        """Return a page that only says something, in the texts `<key>_title` and `<key>`."""
        begin = "wrong" if key.startswith("wrong") else key
        text = self.texts(key, **values)
        return self.response(
            self.render("notice.html", title=self.texts(f"{begin}_title"), text=text), status=status
        )

    def response(
        self,
        body: bytes,
        *,
        status: int = 200,
        link: str | None = None,
        private: bool = False,
        picture: str | None = None,
    ) -> web.Response:
        """Return a page as an HTTP response. `picture` is the URL of a picture that it shows."""
        headers = {
            **landing.PAGE_HEADERS,
            "Content-Security-Policy": f"{_SECURITY}; img-src {_origin(picture)}" if picture else _SECURITY,
            "Content-Language": self.texts.code,
            "Cache-Control": "private, no-cache" if private else "no-cache",
            "Vary": "Accept-Language",
            "X-Content-Type-Options": "nosniff",
        }
        if link is not None:
            headers["Link"] = link
        return web.Response(status=status, body=body, headers=headers)


def _origin(url: str) -> str:
    """Return the URL's scheme and server, of which a policy may have nothing else."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{quote(parts.hostname or '', safe='.-')}{port}"


def add_routes(app: web.Application) -> None:
    """Add the paths of the pages; they answer 404 until a title is listed."""
    app.router.add_get(PATH, _search, allow_head=True)
    landing.add_files(app, {"/style.css": landing.STYLES["/style.css"]}, path=PATH)
    app.router.add_get(f"{PATH}/{{key}}", _title, allow_head=True)


async def _answered(request: web.Request, page: Page, work: Callable[[], web.Response]) -> web.Response:
    """Do the work of a page; a wrong parameter gets 400, in words."""
    try:
        _check_parameters(request)
        return await admitted(request, work)
    except WrongParameterError as error:
        return page.notice(400, error.key, **error.values)


def _check_parameters(request: web.Request) -> None:
    for name in _PARAMETERS:
        if len(request.query.getall(name, [])) > 1:
            raise WrongParameterError("wrong_repeated", name=name)
    lang = request.query.get(_LANG) or None
    if lang is not None and lang not in LANGUAGES:
        raise WrongParameterError("wrong_lang", value=repr(lang[:40]), choices=", ".join(LANGUAGES))


def read_query(given: Mapping[str, str]) -> TitleQuery:
    """Return what a search asks for. Raises WrongParameterError."""
    words, after = given.get(_WORDS, ""), given.get(_AFTER) or None
    if len(words) > _LONGEST:
        raise WrongParameterError("wrong_long", count=str(len(words)), most=str(_LONGEST))
    if after is not None and not _KEY.fullmatch(after):
        raise WrongParameterError("wrong_after", value=repr(after[:40]))
    sets = {tree: given[tree] for tree in TREES if given.get(tree)}
    for tree, part in sets.items():
        if not _SET_PART.fullmatch(part):
            raise WrongParameterError("wrong_set", name=tree, value=repr(part[:40]))
    return TitleQuery(words=words, sets=sets, after=None if after is None else uuid.UUID(hex=after))


async def _search(request: web.Request) -> web.Response:
    page, database = Page(request, up=""), request.app[DATABASE]

    def work() -> web.Response:
        settings = request.app[SETTINGS].provider
        query = replace(read_query(request.query), front_pages=settings.title_front_pages)
        with database.session() as session:
            if not has_titles(session):
                return page.notice(404, "none")
            try:
                found = find_titles(session, query)
            except UnknownPlaceError:
                raise WrongParameterError("wrong_after", value=repr(request.query[_AFTER])) from None
            offered = {tree: choices(session, tree, query.sets.get(tree)) for tree in TREES}
            collection = _collection(session, query.sets.get("collection"), offered["collection"])
        kept = {_WORDS: query.words, **query.sets}
        following = None if found.following is None else page.link(**kept, after=found.following.hex)
        return page.response(
            page.render(
                "title_search.html",
                query=query,
                found=found,
                offered=offered,
                following=following,
                kept=kept,
                period=period,
                collection=collection,
            ),
            picture=None if collection is None else collection.picture,
        )

    return await _answered(request, page, work)


def _collection(session: Session, chosen: str | None, offered: Sequence[tuple[str, str]]) -> TitleSet | None:
    """Return the description of the chosen collection, if it has a listed title."""
    shown = chosen is not None and any(part == chosen for part, _ in offered)
    return described(session, f"collection:{chosen}") if shown else None


async def _title(request: web.Request) -> web.Response:
    page, database = Page(request, up="../"), request.app[DATABASE]
    key, readable = request.match_info["key"], readable_rules(request)
    settings = titles_settings(request.app[SETTINGS].provider)
    site = Site(base_url=request.app[BASE_URL].rstrip("/") + PATH, settings=settings)

    def work() -> web.Response:
        if not _KEY.fullmatch(key):
            return page.notice(404, "not_found")
        with database.session() as session:
            title = title_by_key(session, uuid.UUID(hex=key), _EVER_LISTED)
            if title is None:
                return page.notice(404, "not_found")
            if title.deleted:
                return page.notice(410, "gone")
            newest = newest_captures(session, settings, title, readable)
        shown = _shown(page.texts, title, site, newest.conditions)
        body = page.render("title.html", title=title, newest=newest, **shown)
        private = Access.READING_ROOM in readable
        return page.response(body, link=signposts(title, site), private=private)

    return await _answered(request, page, work)


def _shown(t: Texts, title: TitleItem, site: Site, conditions: Sequence[str]) -> dict[str, object]:
    """Return what the template shows of a title besides its own fields."""
    url = public_page(title, site)
    return {
        "url": url,
        "subjects": [
            (_subject(t, subject), set_part(str(subject.get("number", subject["name"]))))
            for subject in title.subjects
        ],
        "collections": [(name, set_part(name)) for name in title.collections],
        "publisher_part": set_part(title.publisher) if title.publisher else "",
        "licence": licence_by_key(title.licence) if title.licence else None,
        "period": period(t, title),
        "years": (years := years_of(title.captures_by_year)),
        "chart": _chart(t, years),
        "live_link": bool(title.url and urlsplit(title.url).scheme in _WEB),
        "archived": archived_url(title, site),
        "records": records_of(title, site),
        "documents_url": documents_url(title, site),
        "citation": _citation(t, title, site.settings.archive_name or "", url),
        "json_ld": json_ld(title, site, conditions, [short_code(code) for code in title.languages]),
    }


def _subject(t: Texts, subject: Mapping[str, Any]) -> str:
    return str((t.code == SOURCE and subject.get("name_en")) or subject["name"])


def period(t: Texts, title: TitleItem | FoundTitle) -> str:
    """Return the days of the first and the last capture in words; empty if there are none."""
    if title.first_capture is None or title.last_capture is None:
        return ""
    first, last = t.day(title.first_capture), t.day(title.last_capture)
    return first if first == last else t("period_between", first=first, last=last)


def _chart(t: Texts, years: Sequence[tuple[int, int]]) -> Markup:
    if not years:
        return Markup("")
    best = max(years, key=lambda one: one[1])
    label = t(
        "by_year_alt",
        first=str(years[0][0]),
        last=str(years[-1][0]),
        year=str(best[0]),
        count=t.count("captures", best[1]),
    )
    return chart(
        years,
        label=label,
        number=t.number,
        caption=lambda year, count: f"{year}: {t.count('captures', count)}",
    )


def _citation(t: Texts, title: TitleItem, archive: str, url: str) -> str:
    """Return a citation in one line, in the manner of ISO 690."""
    cited = t(
        "cite", name=title.name, archive=archive, period=period(t, title), today=t.day(utc_now()), url=url
    )
    return t("cite_by", publisher=title.publisher, citation=cited) if title.publisher else cited
