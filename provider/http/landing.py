"""What a person finds at the base URL: a page on the sets and how to harvest them, and the files it needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from lxml import etree
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp, utc_now
from provider.holdings.sets import MIMETYPE_ROOT
from provider.http.admission import admitted
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
from provider.models import Collection, Domain, Mimetype
from provider.protocol import answers
from provider.protocol.formats import offered_formats
from provider.protocol.formats.format import Format, Site
from provider.protocol.formats.webarchive import SCHEMA

STATIC: Final = Path(__file__).parent / "static"
STYLESHEET_FILE: Final = STATIC / "style.xsl"

VARIES: Final = "Accept-Encoding, Accept, Sec-Fetch-Mode"
"""The request's headers that an answer depends on."""

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
    """Whether HTML is preferred to XML (RFC 9110, section 12.5.1), as only browsers say it.

    XHTML has to be named, too: Java's own client, which harvesters use, asks for HTML unless told otherwise.
    """
    weights = _weights(headers.get("Accept", ""))
    xml = max(weights.get(kind, 0.0) for kind in _XML)
    return _XHTML in weights and weights.get(_HTML, 0.0) > xml


def takes_html_alone(headers: Mapping[str, str]) -> bool:
    """Whether HTML is all that is accepted, so that an answer in XML would be of no use to the client."""
    weights = _weights(headers.get("Accept", ""))
    return weights.get(_HTML, 0.0) > 0 and not any(weights.get(kind, 0.0) > 0 for kind in _XML_AMONG)


def wants_page(headers: Mapping[str, str]) -> bool:
    """Whether a person follows a link here, so that an answer is best shown as a page.

    A harvester may have copied a browser's Accept; this header it has no reason to send.
    """
    return headers.get("Sec-Fetch-Mode") == "navigate" and is_browser(headers)


def as_page(answer: bytes) -> bytes:
    """An answer as HTML in UTF-8, by the stylesheet."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    return bytes(_transform()(etree.fromstring(answer, parser)))


@cache
def _transform() -> etree.XSLT:
    return etree.XSLT(etree.parse(STYLESHEET_FILE))


def _weights(accept: str) -> Mapping[str, float]:
    found = {}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
        try:
            found[kind] = float(quality)
        except ValueError:
            found[kind] = 0.0
    return found


Files = Mapping[str, tuple[Path, str]]

STYLES: Final[Files] = MappingProxyType(
    {
        f"/{answers.STYLESHEET}": (STYLESHEET_FILE, "text/xsl"),
        "/style.css": (STATIC / "style.css", "text/css"),
    }
)
"""What is served below every base URL: path, file, and type."""

FILES: Final[Files] = MappingProxyType({**STYLES, SCHEMA: (STATIC / "webarchive.xsd", "text/xml")})
"""What is served below the archive's."""

_FILES_CACHED: Final = 3600
_MOST_SETS: Final = 12


@dataclass(frozen=True, kw_only=True)
class SetSize:
    """A set and how much is in it."""

    set_spec: str
    name: str
    documents: int


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The uppermost sets of one of the trees."""

    name: str
    sets: Sequence[SetSize]
    cut: bool
    """There are more."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What there is to harvest."""

    documents: int
    trees: Sequence[Tree]


@dataclass(frozen=True, kw_only=True)
class SampleLink:
    """What the examples on the page ask for."""

    set_spec: str
    moment: str
    day: str


def add_files(app: web.Application, files: Files, *, path: str) -> None:
    """Add files below `path`, at which a repository answers."""
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
    """The page for whoever comes to the base URL with a browser and without arguments."""
    site = Site(base_url=request.app[BASE_URL], settings=request.app[SETTINGS].provider)
    database = request.app[DATABASE]

    def work() -> bytes:
        with database.session() as session:
            overview = read_overview(session)
        return render(site, overview, offered_formats(site.settings.formats).values(), utc_now())

    return page_response(await admitted(request, work))


def page_response(body: bytes) -> web.Response:
    """A landing page as HTTP has it."""
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
    """The uppermost sets with their kept counts, the largest first: nothing is counted for it."""
    majors = select(func.coalesce(func.sum(Mimetype.documents), 0)).where(Mimetype.parent_id.is_(None))
    top = select(Collection.id).where(Collection.parent_id.is_(None))
    return Overview(
        documents=int(session.scalar(majors) or 0),
        trees=(
            _tree(session, Collection, "Collections", Collection.parent_id.in_(top)),
            _tree(session, Domain, "Domains", Domain.parent_id.is_(None)),
            _tree(session, Mimetype, "MIME types", Mimetype.parent_id.is_(None)),
        ),
    )


def render(site: Site, overview: Overview, formats: Iterable[Format], now: datetime) -> bytes:
    """The page in HTML and UTF-8; `now` gives the dates in its examples."""
    sets = [set_ for tree in overview.trees for set_ in tree.sets]
    sample = SampleLink(
        set_spec=sets[0].set_spec if sets else MIMETYPE_ROOT,
        moment=format_datestamp(now),
        day=format_datestamp(now)[:10],
    )
    page = templates().get_template("landing.html")
    return page.render(
        settings=site.settings,
        base_url=site.base_url,
        folder=answers.folder(site.base_url),
        overview=overview,
        formats=formats,
        sample=sample,
    ).encode()


def _tree(session: Session, tree: type[Collection | Domain | Mimetype], name: str, uppermost: object) -> Tree:
    wanted = (
        select(tree.set_spec, tree.name, tree.documents)
        .where(uppermost)  # type: ignore[arg-type] # SQLAlchemy's own type is not public
        .order_by(tree.documents.desc(), tree.set_spec)
        .limit(_MOST_SETS + 1)
    )
    rows = session.execute(wanted).all()
    sets = [SetSize(set_spec=spec, name=text, documents=count) for spec, text, count in rows[:_MOST_SETS]]
    return Tree(name=name, sets=sets, cut=len(rows) > _MOST_SETS)


@cache
def templates() -> Environment:
    """The templates of pages."""
    return Environment(
        loader=PackageLoader("provider.http"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
