"""Withheld documents that were never listed: strangers cannot distinguish them from missing documents."""

import base64
import json
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice, product
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pydantic import SecretStr
from pytest_aiohttp import AiohttpClient
from sqlalchemy import make_url, text, update

from oai.database import Database, open_database
from oai.datestamps import utc_now
from oai.models import SigningKey
from oai.settings import Settings
from provider.app import create_app
from provider.holdings.collections import add_collection, assign, lineage
from provider.holdings.identifiers import oai_identifier
from provider.holdings.loads import begin_load
from provider.holdings.selection import Selection
from provider.http.cdx import PURPOSE as RESUME_KEYS
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import UNLISTED, Access, Collection, Document, DocumentCollection, Load, LoadPart
from provider.protocol.tokens import PURPOSE as TOKENS
from provider.titles.access import settle_access
from provider.titles.imports import apply_import, plan_import, title_key
from provider.titles.models import Title, TitleMembership
from provider.titles.publication import count_new
from provider.titles.ranges import RangeRules
from tests.provider.archive import let_keys_be_missing
from tests.provider.archives import Page, capture_key, warc_record, write_archive, write_pages
from tests.provider.conftest import BASE_URL, small_pages
from tests.provider.titles.conftest import entry

Client = TestClient[web.Request, web.Application]

DATE = datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC)
EARLIER = DATE.replace(year=2006)
PAST = datetime(2020, 1, 1, tzinfo=UTC)
SHOWN = [f"http://{host}.example.cz/{name}" for host in "abc" for name in ("", "x", "y")]
MIXED = ["http://a.example.cz/secret", "http://deep.a.example.cz/", "http://a.example.cz/x?secret"]
HIDDEN_HOSTS = ["http://secret.test/", "http://www.secret.test/x", "http://below.secret.example.cz/"]
HIDDEN = [*MIXED, *HIDDEN_HOSTS, *(f"http://{number}.many.secret.test/" for number in range(12))]
REVISIT = "http://c.example.cz/again"
SETS = [
    *("collection", "collection:shown", "collection:empty", "collection:secret", "collection:secret:below"),
    *("collection:secret:empty", "collection:none", "collection:shown:none"),
    *("domain", "domain:cz", "domain:cz:example", "domain:cz:example:a", "domain:cz:example:a:deep"),
    *("domain:cz:example:secret", "domain:cz:example:secret:below", "domain:test", "domain:test:secret"),
    *("domain:test:secret:many", "domain:test:secret:many:3", "domain:test:none", "domain:none"),
    *(
        "mimetype",
        "mimetype:text",
        "mimetype:text:html",
        "mimetype:application",
        "mimetype:application:x-secret",
    ),
    *("mimetype:application:x-none", "mimetype:x-none", "nothing", "nothing:secret"),
    *("title", *(f"title:{title_key('test', name).hex}" for name in ("a", "secret", "closed", "none"))),
]
ALL_URLS = [*SHOWN, *HIDDEN, REVISIT, "http://none.example.cz/"]
ONE_OF_MANY = "http://0.many.secret.test/"
"""The others on hosts below `many` are there for pages that consist of withheld documents only."""
NAMED_URLS = [url for url in ALL_URLS if ".many." not in url or url == ONE_OF_MANY]
KEYS = [*(capture_key(url, DATE) for url in NAMED_URLS), capture_key(REVISIT, EARLIER)]
FORMATS = ("oai_dc", "marc21", "mods", "webarchive")
RANGES = (("", ""), ("2020-01-01T00:00:02Z", ""), ("", "9999-12-31T23:59:59Z"), ("9999-12-31T23:59:59Z", ""))
LOOK_UPS: Sequence[Mapping[str, str]] = (
    {},
    {"limit": "2"},
    {"filter": "!mime:text/html"},
    {"collapse": "urlkey"},
    {"sort": "reverse"},
)
OTHER_DIALECTS: Sequence[Mapping[str, str]] = (
    {"dialect": "pywb", "sort": "reverse"},
    {"dialect": "openwayback", "limit": "-2"},
    {"dialect": "outbackcdx", "matchType": "range"},
)
LISTS = ("ListIdentifiers", "ListRecords")
HTML = "text/html,application/xhtml+xml"
FOLLOWING = re.compile(r">([A-Za-z0-9_.-]+)</resumptionToken")
TOKEN = re.compile(r"((?:\.eJ|eyJ)[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]{20,}")
NOW = re.compile(rf"(?:{utc_now().year}|{utc_now().year + 1})-\d\d-\d\d(?:T[\d:]+Z)?")
MOST_PAGES = 50
_DATED = """
UPDATE document SET datestamp = CAST(:past AS timestamptz) + make_interval(secs => place / 2)
FROM (
    SELECT id, row_number() OVER (ORDER BY id) AS place FROM document WHERE datestamp < :unlisted
) AS shown
WHERE document.id = shown.id
"""


@dataclass(kw_only=True)
class World:
    """An archive, its documents' addresses, and its provider."""

    database: Database
    folder: Path
    load_id: int = 0
    """The load of all its files, in the list of what is new."""

    def fill(self, *, withheld: bool) -> None:
        """Index open and, in between, withheld documents; some of both after the titles."""
        with self.database.session() as session:
            add_collection(session, "collection:shown", name="All may see it")
            add_collection(session, "collection:empty")
            session.commit()
            self.load_id = begin_load(session, lineage(session, "collection:shown")[0])
        hidden = iter(_in_parts(HIDDEN, 6))
        for number, urls in enumerate(_in_parts(SHOWN, 3)):
            if number == 1:
                self._import_titles(withheld=withheld)
            if withheld:
                self._index_withheld(f"h{number}", next(hidden))
            self._index(f"s{number}", urls, "collection:shown" if number == 1 else None)
        page = Page(url=REVISIT, record_type="revisit", body=b"the same")
        self._index_file(write_archive(self.folder / "r.warc", [warc_record(page)]), None)
        self._settle()

    def _import_titles(self, *, withheld: bool) -> None:
        """Import titles of two sites with open documents, and of two sites that must stay unknown.

        With their documents in sets, of which one then consists of withheld documents only.
        """
        entries = [entry(host, f"http://{host}.example.cz/") for host in "ab"]
        if withheld:
            secret = entry("secret", "http://secret.test/", name="The secret's name", publisher="Secret")
            entries.insert(1, secret)
            entries.append(entry("closed", "http://c.example.cz/", name="Not public", public=False))
        rules = RangeRules(document_sets=True)
        with self.database.session() as session:
            apply_import(session, plan_import(session, "test", entries, rules), rules, margin=0)
            session.commit()
            settle_access(session, margin=1)

    def _index_withheld(self, name: str, urls: Sequence[str]) -> None:
        with self.database.session() as session:
            add_collection(session, "collection:secret:below", name="The secret's name")
            add_collection(session, "collection:secret:empty")
            rule = update(Collection).where(Collection.set_spec == "collection:secret")
            session.execute(rule.values(access=Access.WITHHELD))
            session.commit()
        pages = [Page(url=url, mime_type="application/x-secret") for url in urls]
        pages.append(Page(url=REVISIT, date=f"{EARLIER:%Y-%m-%dT%H:%M:%SZ}", body=b"the same"))
        self._index_file(write_pages(self.folder / f"{name}.warc", pages), "collection:secret:below")
        with self.database.session() as session:
            assign(session, "collection:shown", Selection(url=urls[0]), margin=1)

    def _index(self, name: str, urls: Sequence[str], collection: str | None) -> None:
        pages = [Page(url=url) for url in urls]
        self._index_file(write_pages(self.folder / f"{name}.warc", pages), collection)

    def _index_file(self, path: Path, collection: str | None) -> None:
        with self.database.session() as session:
            ids = lineage(session, collection) if collection else ()
        options = IndexOptions(margin=1, collections=ids, load_id=self.load_id)
        assert not index_file(self.database, path, options).merged.problems

    def _settle(self) -> None:
        """Give both worlds the same datestamps and the same signing keys."""
        with self.database.session() as session:
            count_new(session, margin=0)
            session.execute(text(_DATED), {"past": PAST, "unlisted": UNLISTED})
            dated = update(DocumentCollection).where(DocumentCollection.document_id == Document.id)
            session.execute(dated.values(datestamp=Document.datestamp))
            session.execute(update(Title).where(~Title.deleted).values(datestamp=PAST))
            listed = update(TitleMembership).where(TitleMembership.title_id == Title.title_id)
            session.execute(listed.values(datestamp=Title.datestamp))
            session.execute(update(Load).values(begun=PAST))
            session.execute(update(LoadPart).values(since=PAST, until=PAST))
            for purpose in (TOKENS, RESUME_KEYS):
                session.add(SigningKey(purpose=purpose, key=purpose.encode()))
            session.commit()

    def forget_keys(self) -> None:
        """Restore the state before `zatva provider reindex-keys`."""
        let_keys_be_missing(self.database)
        with self.database.session() as session:
            session.execute(update(Document).values(url_key=None))
            session.commit()


def _in_parts(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (values[begin : begin + size] for begin in range(0, len(values), size))


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def _protocol(path: str) -> Iterator[Ask]:
    def ask(verb: str, **arguments: str) -> Ask:
        given = {name.rstrip("_"): value for name, value in arguments.items() if value}
        return Ask(path=path, query={"verb": verb, **given})

    yield from (Ask(path=path), Ask(path=path, headers={"Accept": HTML}))
    yield from (ask("Identify"), ask("ListSets"), ask("ListMetadataFormats"), ask("Nonsense"))
    yield Ask(path=path, query={"verb": "ListSets"}, headers={"Accept": HTML, "Sec-Fetch-Mode": "navigate"})
    # Both verbs select records by the same code, and all formats find a record by the same.
    lists, formats = cycle(LISTS), cycle(FORMATS)
    for set_spec, (from_, until) in product(("", "collection:secret", "collection:shown"), RANGES):
        yield ask(next(lists), metadataPrefix="oai_dc", set=set_spec, from_=from_, until=until)
    for set_spec in SETS:
        yield ask(next(lists), metadataPrefix="oai_dc", set=set_spec)
    for prefix, set_spec in product(FORMATS, ("", "domain:test:secret", "domain:cz:example:a")):
        yield ask("ListRecords", metadataPrefix=prefix, set=set_spec)
    for key in KEYS:
        identifier = oai_identifier("archive.example", key)
        yield ask("ListMetadataFormats", identifier=identifier)
        yield ask("GetRecord", identifier=identifier, metadataPrefix=next(formats))


def _documents() -> Iterator[Ask]:
    for key, headers in product(KEYS, ({}, {"Range": "bytes=1-3"}, {"If-None-Match": "*"})):
        yield Ask(path=f"/archive/{key.hex}", headers=headers)


def _look_ups() -> Iterator[Ask]:
    hosts = ["a.example.cz", "secret.test", "many.secret.test", "example.cz", "test", "none.test"]
    wild = [*(f"{host}/*" for host in hosts), *(f"*.{host}" for host in hosts)]
    for url in (*NAMED_URLS, *wild):
        yield Ask(path="/cdx", query={"url": url})
    for url, more in (*zip(NAMED_URLS, cycle(LOOK_UPS), strict=False), *product(wild, LOOK_UPS)):
        yield Ask(path="/cdx", query={"url": url, "showResumeKey": "true", **more})
    for url, more in product(wild[::5], OTHER_DIALECTS):
        yield Ask(path="/cdx", query={"url": url, **more})
    for host in hosts:
        yield Ask(path="/cdx", query={"url": host, "matchType": "host", "showResumeKey": "true"})


def _mementos(path: str) -> Iterator[Ask]:
    for url in (*NAMED_URLS, "http://none.test/"):
        yield Ask(path=f"{path}{url}")
    for url in (*NAMED_URLS[::2], "http://none.test/"):
        yield Ask(path=f"{path}{url}", headers={"Accept-Datetime": "Mon, 01 Jan 2001 00:00:00 GMT"})


TITLES = [title_key("test", name) for name in ("a", "secret", "closed", "none")]


def _titles() -> Iterator[Ask]:
    path = "/oai/titles"
    sets = ("", "publisher", "publisher:p", "publisher:secret", "publisher:none")
    yield from (Ask(path=path, query={"verb": verb}) for verb in ("Identify", "ListSets"))
    for verb, set_spec in product(LISTS, sets):
        query = {"verb": verb, "metadataPrefix": "oai_dc", **({"set": set_spec} if set_spec else {})}
        yield Ask(path=path, query=query)
    for key in TITLES:
        named = f"oai:archive.example:title:{key.hex}"
        yield Ask(path=path, query={"verb": "ListMetadataFormats", "identifier": named})
        yield Ask(path=path, query={"verb": "GetRecord", "identifier": named, "metadataPrefix": "marc21"})


def _pages_of_titles() -> Iterator[Ask]:
    yield from (Ask(path=f"/titles/{key.hex}", query={"lang": "cs"}) for key in TITLES)
    for words in ("", "title", "secret", "none"):
        yield Ask(path="/titles", query={"q": words})
    yield from (Ask(path="/titles", query={"publisher": name}) for name in ("p", "secret", "none"))


ASKED: Mapping[str, Callable[[], Iterator[Ask]]] = {
    "/oai": lambda: _protocol("/oai"),
    # The same endpoint over another table, in which no document of the archive is.
    "/oai/aggregate": lambda: islice(_protocol("/oai/aggregate"), None, None, 3),
    "/archive/{key}": _documents,
    "/cdx": _look_ups,
    "/timemap/link/{url}": lambda: _mementos("/timemap/link/"),
    "/timegate/{url}": lambda: _mementos("/timegate/"),
    "/oai/titles": _titles,
    "/titles/{key}": _pages_of_titles,
    "/sitemap-titles-{part}.xml": lambda: iter([Ask(path="/sitemap-titles-all.xml")]),
}
"""Routes with arguments, and what is asked of them; all others are asked once."""
READERS_OF_KEYS = ("/cdx", "/timemap/link/{url}", "/timegate/{url}")
"""Routes whose answers depend on the keys of URLs, which an old archive does not have yet."""
WITHOUT_KEYS = 4
"""Every so manieth question is asked again without keys: neither 3 nor 5 variants come around with it."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer without its times."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    following: Ask | None = field(compare=False)
    """What asks for the next page."""


async def _reply(client: Client, method: str, ask: Ask) -> Reply:
    posted = method == "POST"
    response = await client.request(
        method,
        ask.path,
        headers=ask.headers,
        allow_redirects=False,
        data=ask.query if posted else None,
        params=None if posted else ask.query,
    )
    # The length of a compressed answer depends on the times in it; without compression it is the body's.
    timed = {"Date", "Content-Length"}
    headers = sorted((name, value) for name, value in response.headers.items() if name not in timed)
    text = (await response.read()).decode()
    link, token = response.links.get("next"), FOLLOWING.search(text)
    following = None
    if link is not None and ask.path == "/cdx":
        following = Ask(path=ask.path, query=dict(parse_qsl(urlsplit(str(link["url"])).query)))
    elif token is not None:
        following = Ask(path=ask.path, query={"verb": ask.query["verb"], "resumptionToken": token[1]})
    body = TOKEN.sub(_timeless, NOW.sub("now", text))
    return Reply(status=response.status, headers=tuple(headers), body=body, following=following)


def _timeless(token: re.Match[str]) -> str:
    """Return the fields of a token without those that are times, and without its signature."""
    raw = base64.urlsafe_b64decode(token[1].lstrip(".") + "==")
    fields = json.loads(zlib.decompress(raw) if token[1].startswith(".") else raw)
    return str(sorted((name, value) for name, value in fields.items() if name not in "eu"))


async def _whole(client: Client, method: str, ask: Ask) -> list[Reply]:
    """Return the answer and all pages that follow it."""
    replies = [await _reply(client, method, ask)]
    while (following := replies[-1].following) is not None:
        assert len(replies) < MOST_PAGES
        replies.append(await _reply(client, method, following))
    return replies


@pytest.fixture
async def worlds(
    settings: Settings,
    maintenance: psycopg.Connection,
    template: str,
    tmp_path: Path,
) -> AsyncIterator[tuple[World, World]]:
    """Two archives: in one, withheld documents are among the others."""
    assert settings.database_url is not None
    url = make_url(settings.database_url.get_secret_value())
    name = f"{url.database}_twin"
    maintenance.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    twin = SecretStr(url.set(database=name).render_as_string(hide_password=False))
    made = []
    with ExitStack() as opened:
        for address, withheld in ((settings.database_url, True), (twin, False)):
            own = settings.model_copy(update={"database_url": address})
            database = opened.enter_context(open_database(own, check_tables=False))
            world = World(database=database, folder=tmp_path / str(withheld))
            world.fill(withheld=withheld)
            made.append(world)
        yield made[0], made[1]
    maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_unlisted_withheld_documents_are_indistinguishable_from_missing_ones(
    worlds: tuple[World, World],
    settings: Settings,
    aiohttp_client: AiohttpClient,
    request: pytest.FixtureRequest,
) -> None:
    chosen = small_pages(
        settings, cdx_examined=4, cdx_lines=3, formats=tuple(FORMATS), namespace="archive.example"
    )
    apps = [create_app(chosen, world.database, base_url=BASE_URL) for world in worlds]
    clients = [await aiohttp_client(app) for app in apps]
    routes = [(route.method, route.resource.canonical) for route in clients[0].app.router.routes()]  # type: ignore[union-attr]
    assert {*ASKED} <= {path for _, path in routes}
    for method, path in routes:
        assert path in ASKED or "{" not in path, "say what is to be asked of the new route"
        await _compare(clients, method, path)
    feed = await (await clients[0].get("/loads.atom")).text()
    assert f"{len(SHOWN) + 1} new captures in collection:shown" in feed
    for world in worlds:
        world.forget_keys()
    for method, path in routes:
        if path in READERS_OF_KEYS:
            step = 1 if request.config.getoption("--long") else WITHOUT_KEYS
            await _compare(clients, method, path, state="without keys", step=step)


async def _compare(
    clients: Sequence[Client], method: str, path: str, *, state: str = "with keys", step: int = 1
) -> None:
    """Send both worlds the same requests: by GET every `step`-th, by others (same code) every tenth."""
    asked = list(ASKED[path]()) if path in ASKED else [Ask(path=path)]
    for ask in asked[:: step if method == "GET" else 10]:
        with_them, without = [await _whole(client, method, ask) for client in clients]
        assert with_them == without, (method, ask, state)
