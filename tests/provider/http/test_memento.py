"""TimeMaps and TimeGates answer Memento clients (RFC 7089), and list only captures that clients may read."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from pytest_aiohttp import AiohttpClient

from oai.database import Database, open_database
from oai.errors import UsageError
from oai.settings import Settings
from provider.app import create_app
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign
from provider.holdings.lookup import Query
from provider.holdings.mementos import negotiate
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection, hide
from provider.http import memento
from provider.http.memento import TIMEGATE, TIMEMAP, accepted_datetime, original_resource
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access
from tests.plans import work_of
from tests.provider.archives import Page, capture_key, warc_record, write_archive
from tests.provider.conftest import Kept, Provider, small_pages
from tests.provider.http import memento_client
from tests.provider.http.memento_client import Answer, ask
from tests.provider.shared_server import shared_server

HOME = "http://a.example/"
PAGES = [
    Page(url=HOME, date="2007-01-01T00:00:00Z"),
    Page(url="https://www.a.example/", date="2008-06-01T12:00:00Z", status=404),
    Page(url=HOME, date="2010-01-01T00:00:00Z"),
    Page(url=HOME, date="2012-02-03T04:05:06Z"),
    Page(url="http://a.example/x?b=1&a=2", date="2009-02-01T00:00:00Z"),
    Page(url="http://a.example/to?u=http://b.example//c", date="2009-03-01T00:00:00Z"),
    Page(url="http://a.example/a%2Fb;c,d", date="2009-04-01T00:00:00Z"),
]
BASE = "https://proxy.example/prefix/"
DATES = [
    "Mon, 01 Jan 2007 00:00:00 GMT",
    "Sun, 01 Jun 2008 12:00:00 GMT",
    "Fri, 01 Jan 2010 00:00:00 GMT",
    "Fri, 03 Feb 2012 04:05:06 GMT",
]


def key_of(page: Page) -> UUID:
    return capture_key(page.url, datetime.fromisoformat(page.date))


def address(page: Page) -> str:
    return f"{BASE}archive/{key_of(page).hex}"


ADDRESSES = [address(page) for page in PAGES]


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> None:
    write_and_index(database, tmp_path)


@pytest.fixture(scope="module")
def kept_archive(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    write_and_index(kept.open(), tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def visited(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Visits with redirects to the same URL key, and a URL with 3,000 of them in a minute."""
    times = [f"2012-01-01T00:00:{number // 100:02}.{number % 100:02}Z" for number in range(3000)]
    many = [Page(url="http://many.example/", date=time, status=301) for time in times]
    path = tmp_path_factory.mktemp("visits") / "x.warc.gz"
    write_archive(path, [warc_record(page) for page in (*VISITS, *many)])
    database = kept.open()
    index_file(database, path, IndexOptions(margin=1))
    return database


def write_and_index(database: Database, folder: Path) -> None:
    path = write_archive(folder / "x.warc.gz", [warc_record(page) for page in PAGES])
    index_file(database, path, IndexOptions(margin=1))


async def port_of(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient, **changes: object
) -> int:
    """The port of a provider that is behind a proxy, below a path."""
    app = create_app(small_pages(settings, **changes), database, base_url=f"{BASE}oai")
    client = await aiohttp_client(app)
    assert client.port is not None
    return client.port


@pytest.fixture(scope="module")
def port(kept: Kept) -> Iterator[int]:
    with open_database(kept.settings, check_tables=False) as database:
        app = create_app(small_pages(kept.settings), database, base_url=f"{BASE}oai")
        with shared_server(app) as server:
            assert server.port is not None
            yield server.port


@pytest.mark.usefixtures("kept_archive")
async def test_a_timemap_has_all_mementos_of_a_url(port: int) -> None:
    answer = await ask(port, TIMEMAP + HOME)
    assert (answer.status, answer.field("Content-Type")) == (200, "application/link-format")
    span = f'from="{DATES[0]}"; until="{DATES[3]}"'
    assert answer.body.split("\n") == [
        f'<{HOME}>; rel="original",',
        f'<{BASE}timemap/link/{HOME}>; rel="self"; type="application/link-format"; {span},',
        f'<{BASE}timegate/{HOME}>; rel="timegate",',
        f'<{ADDRESSES[0]}>; rel="first memento"; datetime="{DATES[0]}",',
        f'<{ADDRESSES[1]}>; rel="memento"; datetime="{DATES[1]}",',
        f'<{ADDRESSES[2]}>; rel="memento"; datetime="{DATES[2]}",',
        f'<{ADDRESSES[3]}>; rel="last memento"; datetime="{DATES[3]}"',
        "",
    ]


@pytest.mark.usefixtures("kept_archive")
@pytest.mark.parametrize("examined", [100_000, 1])
async def test_a_timemap_read_in_many_queries_is_complete(
    kept_database: Database,
    kept: Kept,
    aiohttp_client: AiohttpClient,
    monkeypatch: pytest.MonkeyPatch,
    examined: int,
) -> None:
    monkeypatch.setattr(memento, "AT_ONCE", 1)
    port = await port_of(kept_database, kept.settings, aiohttp_client, cdx_examined=examined)
    found = await memento_client.timemap(port, TIMEMAP, HOME)
    assert [one.address for one in found] == ADDRESSES[:4]


ASKED = [
    ("http://a.example/x?b=1&a=2", 4),
    ("http://a.example/x?a=2&b=1", 4),
    ("a.example/x?b=1&a=2", 4),
    ("http:/a.example/x?b=1&a=2", 4),
    ("http%3A%2F%2Fa.example%2Fx%3Fb=1%26a=2", 4),
    ("http://a.example/to?u=http://b.example//c", 5),
    ("http://a.example/a%2Fb;c,d", 6),
    ("HTTPS://WWW.A.example:443/a%252Fb;c,d#f", 6),
]


@pytest.mark.usefixtures("kept_archive")
async def test_the_url_is_the_rest_of_the_request_target(port: int) -> None:
    for asked, page in ASKED:
        in_map = await memento_client.timemap(port, TIMEMAP, asked)
        at_gate = await memento_client.timegate(port, TIMEGATE, asked, datetime(2000, 1, 1, tzinfo=UTC))
        assert [one.address for one in in_map] == [ADDRESSES[page]], asked
        assert [(one.address, one.rel) for one in at_gate] == [(ADDRESSES[page], "first last memento")], asked


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("http://a.example//x/../y?", "http://a.example//x/../y?"),
        ("http://a.example/%c4%8D?q=%2541", "http://a.example/%c4%8D?q=%2541"),
        ("a.example/to?u=http://b.example/", "http://a.example/to?u=http://b.example/"),
        ("a.example:8080/x", "http://a.example:8080/x"),
        ("ftp://a.example/x", "ftp://a.example/x"),
        ("http:/a.example/x", "http://a.example/x"),
        ("HTTPS%3a%2F%2Fa.example%2F%3Fq%3D%2541", "HTTPS://a.example/?q=%41"),
        ("ftp%3A%2F%2Fa.example%2Fx", "ftp://a.example/x"),
        ("ftp:/a.example/x", "ftp://a.example/x"),
        ('http://a.example/"<>\udcff', "http://a.example/%22%3C%3E%FF"),
        ("", "http://"),
    ],
)
def test_the_original_resource_is_escaped_as_a_url(target: str, url: str) -> None:
    assert original_resource(TIMEMAP + target, TIMEMAP) == url
    assert original_resource(f"http://archive.example{TIMEMAP}{target}", TIMEMAP) == url


CHOICES = [
    ("Sat, 01 Jan 2000 00:00:00 GMT", 0),
    (DATES[0], 0),
    ("Mon, 01 Jan 2007 00:00:01 GMT", 0),
    ("Sun, 01 Jun 2008 11:59:59 GMT", 1),
    ("Thu, 31 Dec 2009 00:00:00 GMT", 2),
    ("Thu, 31 Dec 2999 00:00:00 GMT", 3),
    (None, 3),
]


@pytest.mark.usefixtures("kept_archive")
async def test_a_timegate_redirects_to_the_closest_memento(port: int) -> None:
    for wanted, chosen in CHOICES:
        answer = await ask(port, TIMEGATE + HOME, *([f"Accept-Datetime: {wanted}"] if wanted else []))
        assert (answer.status, answer.field("Location")) == (302, ADDRESSES[chosen]), wanted
        assert answer.field("Vary") == "accept-datetime"
        assert not answer.field("Memento-Datetime")
        (links,) = (value for name, value in answer.fields if name == "Link")
        timemap = f'<{BASE}timemap/link/{HOME}>; rel="timemap"; type="application/link-format"'
        assert links.startswith(f'<{HOME}>; rel="original", {timemap}, ')


SECURE = "https://www.b.example/"
VISITS = [
    Page(url="http://b.example/", date="2015-01-01T10:00:00Z", status=301, body=b""),
    Page(url=SECURE, date="2015-01-01T10:00:00Z"),
    Page(url=SECURE, date="2017-01-01T10:00:00Z"),
    Page(url="http://b.example/", date="2017-01-01T10:00:30Z", status=302, body=b""),
    Page(url="http://b.example/", date="2019-01-01T10:00:00Z", status=308, body=b""),
    Page(url=SECURE, date="2019-01-01T10:05:00Z", status=404),
    Page(url="http://b.example/", date="2021-01-01T10:00:00Z", status=301, body=b""),
    Page(url=SECURE, date="2021-01-01T10:00:01Z", status=304, record_type="revisit", body=b""),
    *(
        Page(url=url, date=f"2023-01-01T10:00:{second:02}Z", status=status, body=b"")
        for second, (url, status) in enumerate(
            (("http://b.example/", 301), (SECURE, 503), (SECURE, 304), (SECURE, 404), (SECURE, 200))
        )
    ),
]


@pytest.mark.parametrize(
    ("moment", "chosen"),
    [
        (datetime(2014, 1, 1, tzinfo=UTC), 1),
        (datetime(2016, 12, 31, tzinfo=UTC), 2),
        (datetime(2017, 3, 1, tzinfo=UTC), 2),
        (datetime(2018, 12, 1, tzinfo=UTC), 4),
        (datetime(2020, 12, 31, tzinfo=UTC), 7),
        (datetime(2022, 12, 31, tzinfo=UTC), 12),
        (None, 12),
    ],
)
def test_a_timegate_passes_over_a_redirect_of_the_same_visit(
    visited: Database, moment: datetime | None, chosen: int
) -> None:
    query = Query(url="b.example", limit=1, examined=1000)
    with visited.session() as session:
        named = negotiate(session, query, moment)
    assert named is not None
    assert named.chosen.key == key_of(VISITS[chosen])


def test_the_look_up_beside_a_redirect_reads_a_limited_number_of_rows(visited: Database) -> None:
    query = Query(url="many.example", limit=1, examined=1000)
    with work_of(visited, "ix_document", "url_key") as work, visited.session() as session:
        named = negotiate(session, query, datetime(2000, 1, 1, tzinfo=UTC))
    assert named is not None
    assert named.chosen.archived == datetime(2012, 1, 1, tzinfo=UTC)
    assert work
    assert max(work) < 3000  # each part of a plan counts its rows again


RELATIONS = [
    (2000, ["first memento", "next memento", "last memento"]),
    (2008, ["first prev memento", "memento", "next memento", "last memento"]),
    (2010, ["first memento", "prev memento", "memento", "last next memento"]),
    (2020, ["first memento", "prev memento", "last memento"]),
]


@pytest.mark.usefixtures("kept_archive")
async def test_the_link_header_of_a_timegate_lists_mementos_for_aggregators(port: int) -> None:
    for year, relations in RELATIONS:
        found = await memento_client.timegate(port, TIMEGATE, HOME, datetime(year, 6, 1, tzinfo=UTC))
        assert [one.rel for one in found] == relations
        assert found == sorted(found, key=lambda one: one.moment)


@pytest.mark.usefixtures("kept_archive")
async def test_a_memento_links_to_original_timegate_and_timemap(port: int) -> None:
    """This includes archived errors."""
    answer = await ask(port, ADDRESSES[1].removeprefix(BASE[:-1]))
    assert (answer.status, answer.field("X-Archive-Orig-Status")) == (200, "404")
    assert answer.field("Memento-Datetime") == DATES[1]
    url = PAGES[1].url
    assert answer.field("Link") == (
        f'<{url}>; rel="original", <{BASE}timegate/{url}>; rel="timegate", '
        f'<{BASE}timemap/link/{url}>; rel="timemap"; type="application/link-format"'
    )


@pytest.mark.parametrize(("length", "named"), [(1000, True), (100_000, False)])
async def test_the_link_header_of_a_long_url_stays_below_the_limits_of_proxies(
    database: Database,
    settings: Settings,
    aiohttp_client: AiohttpClient,
    tmp_path: Path,
    length: int,
    named: bool,  # noqa: FBT001 from the table above
) -> None:
    port = await port_of(database, settings, aiohttp_client)
    page = Page(url=f"http://a.example/{'x' * length}")
    index_file(database, write_archive(tmp_path / "x.warc", [warc_record(page)]), IndexOptions(margin=1))
    answer = await ask(port, address(page).removeprefix(BASE[:-1]))
    assert answer.field("Link") == (f'<{page.url}>; rel="original"' if named else "")


@pytest.mark.usefixtures("kept_archive")
async def test_a_url_without_mementos_is_answered_with_404(port: int) -> None:
    for path in (TIMEMAP, TIMEGATE):
        for url, status, words in (
            ("http://nowhere.example/", 404, "the archive has no capture of http://nowhere.example/"),
            ("http://a.example/%0A", 404, "the archive has no capture"),
            ("http://%00/", 404, "the archive has no capture"),
            ("", 400, "has no host"),
            ("http:///x", 400, "has no host"),
        ):
            answer = await ask(port, path + url)
            assert (answer.status, words in answer.body) == (status, True), answer


@pytest.mark.usefixtures("kept_archive")
async def test_an_invalid_accept_datetime_is_answered_with_400(port: int) -> None:
    answer = await ask(port, TIMEGATE + HOME, "Accept-Datetime: 2008-06-01")
    assert (answer.status, answer.field("Vary")) == (400, "accept-datetime")
    assert (
        "Accept-Datetime '2008-06-01' is not one date such as 'Thu, 31 May 2007 20:35:00 GMT'" in answer.body
    )


@pytest.mark.parametrize(
    "fields",
    [
        [""],
        ["31 May 2007 20:35:00 GMT"],
        ["Thu, 31 May 2007 20:35:00 +0200"],
        ["Sat, 30 Feb 2008 00:00:00 GMT"],
        ["Thu, 31 May 2007 25:00:00 GMT"],
        [DATES[0], DATES[1]],
    ],
)
def test_accept_datetime_must_be_one_date_in_gmt(fields: list[str]) -> None:
    with pytest.raises(UsageError):
        accepted_datetime(fields)


@pytest.mark.usefixtures("kept_archive")
async def test_head_requests_are_answered_without_a_body(reading: Provider) -> None:
    for path in (TIMEMAP, TIMEGATE):
        response = await reading.client.head(path + HOME, allow_redirects=False)
        assert (response.status, await response.read()) == (200 if path == TIMEMAP else 302, b"")


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("access", [Access.WITHHELD, Access.READING_ROOM])
async def test_only_mementos_that_the_client_may_read_are_listed(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient, access: Access
) -> None:
    with database.session() as session:
        add_collection(session, "collection:c")
        session.commit()
        since_2010 = Selection(domain="a.example", since=datetime(2010, 1, 1, tzinfo=UTC))
        assign(session, "collection:c", since_2010, margin=1)
        set_rule(session, "collection:c", Rule(access=access), margin=1)
        hide(session, Selection(key=key_of(PAGES[1])), margin=1)
    outside = await port_of(database, settings, aiohttp_client, trusted_proxies=())
    inside = await port_of(
        database, settings, aiohttp_client, trusted_proxies=(), reading_room=("127.0.0.1/32",)
    )
    in_room = [0, 2, 3] if access is Access.READING_ROOM else [0]
    for port, expected in ((outside, [0]), (inside, in_room)):
        wanted = [ADDRESSES[number] for number in expected]
        assert [one.address for one in await memento_client.timemap(port, TIMEMAP, HOME)] == wanted
        gate = await memento_client.timegate(port, TIMEGATE, HOME, datetime(2009, 12, 1, tzinfo=UTC))
        assert [one.address for one in gate] == wanted
    answers: list[Answer] = [await ask(one, TIMEMAP + HOME) for one in (outside, inside)]
    assert [one.field("Cache-Control") for one in answers] == ["no-cache", "private, no-cache"]


@pytest.mark.usefixtures("kept_archive")
async def test_a_timemap_that_cannot_be_completed_is_aborted_and_logged(
    kept_database: Database,
    kept: Kept,
    aiohttp_client: AiohttpClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(*_: object) -> object:
        raise UsageError("the position is gone")

    monkeypatch.setattr(memento, "AT_ONCE", 1)
    monkeypatch.setattr(memento, "next_piece", fails)
    port = await port_of(kept_database, kept.settings, aiohttp_client)
    with pytest.raises(ValueError, match="invalid literal"):  # the last chunk is missing
        await ask(port, TIMEMAP + HOME)
    assert f"the TimeMap of {HOME} was not completed: the position is gone" in caplog.text
