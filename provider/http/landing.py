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
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp, utc_now
from provider.holdings.sets import MIMETYPE_ROOT
from provider.http.admission import admitted
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
from provider.http.readable import PAGE_HEADERS, STATIC, STYLESHEET_FILE, VARIES
from provider.models import Collection, Domain, Mimetype
from provider.protocol import answers
from provider.protocol.formats import offered_formats
from provider.protocol.formats.format import Format, Site
from provider.protocol.formats.webarchive import SCHEMA

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
class Sample:
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
    sample = Sample(
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
