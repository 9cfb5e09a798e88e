"""The page for browsers at the base URL: the sets and how to harvest them, with the files it needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from lxml import etree
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp, utc_now
from oai.languages import weights
from oai.outgoing import mail_link
from oai.xml import PARSER_OPTIONS
from provider.holdings.loads import ListedLoad, LoadedSet, list_loads
from provider.holdings.mark import begin_at_mark
from provider.holdings.sets import MIMETYPE_ROOT
from provider.holdings.unlisted import is_public
from provider.http.admission import admitted
from provider.http.keys import BASE_URL, DATABASE, FORMATS, SETTINGS
from provider.models import Collection, Domain, Mimetype
from provider.protocol import answers
from provider.protocol.formats import oai_dc
from provider.protocol.formats.format import Format, Site
from provider.protocol.formats.webarchive import SCHEMA

STATIC: Final = Path(__file__).parent / "static"
STYLESHEET_FILE: Final = STATIC / "style.xsl"

VARIES: Final = "Accept-Encoding, Accept, Sec-Fetch-Mode"
"""The request headers that an answer depends on."""

PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}

_HTML: Final = "text/html"
_XHTML: Final = "application/xhtml+xml"
_XML: Final = ("text/xml", "application/xml")
_XML_AMONG: Final = frozenset({*_XML, "text/*", "application/*", "*/*", "*"})


def is_browser(headers: Mapping[str, str]) -> bool:
    """Return whether HTML is preferred to XML (RFC 9110, section 12.5.1), which only browsers request.

    XHTML has to be named, too: Java's standard client, which harvesters use, asks for HTML by default.
    """
    found = weights(headers.get("Accept", ""))
    xml = max(found.get(kind, 0.0) for kind in _XML)
    return _XHTML in found and found.get(_HTML, 0.0) > xml


def takes_html_alone(headers: Mapping[str, str]) -> bool:
    """Return whether only HTML is accepted, so that the client could not use an answer in XML."""
    found = weights(headers.get("Accept", ""))
    return found.get(_HTML, 0.0) > 0 and not any(found.get(kind, 0.0) > 0 for kind in _XML_AMONG)


def wants_page(headers: Mapping[str, str]) -> bool:
    """Return whether a browser navigates here, so that an answer is best shown as a page.

    A harvester may send a copy of a browser's Accept header, but has no reason to send Sec-Fetch-Mode.
    """
    return headers.get("Sec-Fetch-Mode") == "navigate" and is_browser(headers)


def as_page(answer: bytes) -> bytes:
    """Return an answer as HTML in UTF-8, transformed by the stylesheet."""
    parser = etree.XMLParser(huge_tree=True, **PARSER_OPTIONS)
    return bytes(_transform()(etree.fromstring(answer, parser)))


@cache
def _transform() -> etree.XSLT:
    return etree.XSLT(etree.parse(STYLESHEET_FILE))


Files = Mapping[str, tuple[Path, str]]

STYLES: Final[Files] = {
    f"/{answers.STYLESHEET}": (STYLESHEET_FILE, "text/xsl"),
    "/style.css": (STATIC / "style.css", "text/css"),
}
"""Files below every base URL: path, file, and type."""

FILES: Final[Files] = {**STYLES, SCHEMA: (STATIC / "webarchive.xsd", "text/xml")}
"""Files below the archive's base URL."""


def schemas_of(formats: Iterable[Format]) -> Files:
    """Return the schemas of plug-ins, which the provider serves."""
    return {one.schema: (one.schema_file, "text/xml") for one in formats if one.schema_file is not None}


_FILES_CACHED: Final = 3600
_MOST_SETS: Final = 12
_LOADS_SHOWN: Final = 3
_MOST_DOMAINS: Final = 5
"""Number of sets of top-level domains that are named of a load."""


@dataclass(frozen=True, kw_only=True)
class SetSize:
    """A set and the number of its documents."""

    set_spec: str
    name: str
    documents: int


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The top-level sets of one of the trees."""

    name: str
    sets: Sequence[SetSize]
    cut: bool
    """Whether there are more sets."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The holdings that can be harvested."""

    documents: int
    trees: Sequence[Tree]


@dataclass(frozen=True, kw_only=True)
class SampleLink:
    """Values for the example requests on the page."""

    set_spec: str
    moment: str
    day: str


def add_files(app: web.Application, files: Files, *, path: str) -> None:
    """Add files below `path`, the path of a repository."""
    for name, (file, kind) in files.items():
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Cache-Control": f"public, max-age={_FILES_CACHED}",
            "X-Content-Type-Options": "nosniff",
        }
        body = file.read_bytes()

        async def serve(
            _: web.Request, body: bytes = body, headers: dict[str, str] = headers
        ) -> web.Response:
            return web.Response(body=body, headers=headers)

        app.router.add_get(path + name, serve, allow_head=True)


async def landing_page(request: web.Request) -> web.Response:
    """Return the page for browsers that open the base URL without arguments."""
    site = Site(base_url=request.app[BASE_URL], settings=request.app[SETTINGS].provider)
    database = request.app[DATABASE]

    def work() -> bytes:
        with database.session() as session:
            loads = list_loads(session, begin_at_mark(session), limit=_LOADS_SHOWN)
            overview = read_overview(session)
        return render(site, overview, request.app[FORMATS].values(), utc_now(), loads=loads)

    return page_response(await admitted(request, work))


def page_response(body: bytes) -> web.Response:
    """Return a landing page as an HTTP response."""
    return web.Response(
        body=body,
        headers={
            **PAGE_HEADERS,
            "Cache-Control": "no-cache",
            "Vary": VARIES,
            "X-Content-Type-Options": "nosniff",
        },
    )


def read_overview(session: Session) -> Overview:
    """Return the top-level sets with their kept counts, largest first, without counting documents."""
    majors = select(func.coalesce(func.sum(Mimetype.documents - Mimetype.unlisted), 0)).where(
        Mimetype.parent_id.is_(None)
    )
    top = select(Collection.id).where(Collection.parent_id.is_(None))
    return Overview(
        documents=int(session.scalar(majors) or 0),
        trees=(
            _tree(session, Collection, "Collections", Collection.parent_id.in_(top)),
            _tree(session, Domain, "Domains", Domain.parent_id.is_(None)),
            _tree(session, Mimetype, "MIME types", Mimetype.parent_id.is_(None)),
        ),
    )


def render(
    site: Site,
    overview: Overview,
    formats: Iterable[Format],
    now: datetime,
    *,
    loads: Sequence[ListedLoad] = (),
) -> bytes:
    """Return the page as HTML in UTF-8; `now` provides the dates in its examples."""
    sets = [set_ for tree in overview.trees for set_ in tree.sets]
    sample = SampleLink(
        set_spec=sets[0].set_spec if sets else MIMETYPE_ROOT,
        moment=format_datestamp(now),
        day=format_datestamp(now)[:10],
    )
    return page_of(site, "landing.html", overview=overview, formats=formats, sample=sample, loads=loads)


def page_of(site: Site, template: str, **shown: object) -> bytes:
    """Return the page of a repository as HTML in UTF-8."""
    page = templates().get_template(template)
    folder = answers.folder(site.base_url)
    return page.render(settings=site.settings, base_url=site.base_url, folder=folder, **shown).encode()


def _tree(session: Session, tree: type[Collection | Domain | Mimetype], name: str, uppermost: object) -> Tree:
    documents = tree.documents - tree.unlisted
    wanted = (
        select(tree.set_spec, tree.name, documents)
        .where(uppermost, is_public(tree))  # type: ignore[arg-type] # SQLAlchemy's type is not public
        .order_by(documents.desc(), tree.set_spec)
        .limit(_MOST_SETS + 1)
    )
    rows = session.execute(wanted).all()
    sets = [SetSize(set_spec=spec, name=text, documents=count) for spec, text, count in rows[:_MOST_SETS]]
    return Tree(name=name, sets=sets, cut=len(rows) > _MOST_SETS)


def request_for(base_url: str, load: ListedLoad, verb: str, set_spec: str | None = None) -> str:
    """Return the URL of a request that selects what a load has listed; relative without a base URL."""
    arguments = {
        "verb": verb,
        "metadataPrefix": oai_dc.FORMAT.prefix,
        **({"set": set_spec} if set_spec else {}),
        "from": format_datestamp(load.since),
        "until": format_datestamp(load.until),
    }
    return f"{base_url}?{urlencode(arguments, safe=':')}"


def sets_of(load: ListedLoad) -> Sequence[LoadedSet]:
    """Return the sets that are named of a load: its collection, and the largest top-level domains."""
    return (*([load.collection] if load.collection else []), *load.domains[:_MOST_DOMAINS])


@cache
def templates() -> Environment:
    """Return the environment of the page templates."""
    made = Environment(
        loader=PackageLoader("provider.http"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "mail_link": mail_link,
        "datestamp": format_datestamp,
        "request": request_for,
        "sets": sets_of,
    }
    return made
