"""CDX look-ups that filter, collapse, sort and continue with a resume key, as CDX servers do."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient
from sqlalchemy import text

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access
from tests.provider.archives import Page, warc_record, write_archive
from tests.provider.conftest import BASE_URL, Kept, Provider, small_pages
from tests.provider.http.test_cdx import compare_spellings

HOME = "http://a.example/"
PAGES = [
    Page(url=HOME, date="2007-01-01T00:00:00Z", body=b"one"),
    Page(url=HOME, date="2007-06-01T00:00:00Z", body=b"one"),
    Page(url="https://www.a.example/", date="2008-01-01T00:00:00Z", body=b"two"),
    Page(url=HOME, date="2009-01-01T00:00:00Z", body=b"one", status=404),
    Page(url="http://a.example/x", date="2009-02-01T00:00:00Z", mime_type="text/plain"),
    Page(url="https://a.example/x", date="2009-01-01T00:00:00Z", mime_type="image/png"),
    Page(url="http://www.a.example/y", date="2009-03-01T00:00:00Z"),
    Page(url="http://a.example/z", date="2009-04-01T00:00:00Z"),
    Page(url="http://a.example:8080/x", date="2009-04-01T00:00:00Z"),
    Page(url="http://sub.a.example/x", date="2009-04-01T00:00:00Z"),
    Page(url="http://www.sub.a.example/x", date="2009-05-01T00:00:00Z"),
    Page(url="http://www.www.a.example/", date="2009-05-01T00:00:00Z"),
    Page(url="http://empty.deep.a.example/", date="2009-05-01T00:00:00Z"),
    Page(url="http://z.a.example/", date="2009-05-01T00:00:00Z"),
    Page(url="http://a.example/" + "y" * 600, date="2010-01-01T00:00:00Z"),
    Page(url="https://a.example/" + "y" * 601, date="2010-01-01T00:00:00Z"),
    Page(url="http://a.example/" + "y" * 602, date="2010-01-01T00:00:00Z"),
    Page(url="http://b.example/", date="2010-01-01T00:00:00Z"),
]


SLASHLESS = [
    Page(url="http://s.example", date="2007-01-01T00:00:00Z"),
    Page(url="https://www.s.example/", date="2008-01-01T00:00:00Z"),
    Page(url="http://s.example", date="2009-01-01T00:00:00Z"),
    Page(url="http://www.s.example?a=1", date="2010-01-01T00:00:00Z"),
    Page(url="http://s.example/x", date="2011-01-01T00:00:00Z"),
    *(
        Page(url=url, date="2012-01-01T00:00:00Z")
        for url in ("http://s.example.com", "http://s.examples/", "http://s.example:8080")
    ),
]


def write_and_index(database: Database, folder: Path) -> None:
    path = write_archive(folder / "x.warc.gz", [warc_record(page) for page in [*PAGES, *SLASHLESS]])
    index_file(database, path, IndexOptions(margin=1))


@pytest.fixture(scope="module", autouse=True)
def archive(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    write_and_index(kept.open(), tmp_path_factory.mktemp("archive"))


async def years(provider: Provider, query: str) -> list[str]:
    """Return the times of the lines, shortened to year and month."""
    response = await provider.client.get(f"/cdx?{query}&fl=timestamp")
    assert response.status == 200, await response.text()
    return [line[:6] for line in (await response.text()).split()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("filter=status:200", "200701 200706 200801"),
        ("filter=statuscode:4..", "200901"),
        ("filter=status:40", ""),
        ("filter=~status:40", "200901"),
        ("filter=~status:04", ""),
        ("filter==status:404", "200901"),
        ("filter==status:4..", ""),
        ("filter=!status:404", "200701 200706 200801"),
        ("filter=!~status:2", "200901"),
        ("filter=!=status:200", "200901"),
        ("filter=url:https.*&filter=status:200", "200801"),
        ("filter=url:https.*&filter=status:404", ""),
        ("filter=urlkey:example,a\\)/", "200701 200706 200801 200901"),
        ("collapse=timestamp:4", "200701 200801 200901"),
        ("collapse=digest", "200701 200801 200901"),
        ("collapse=urlkey", "200701"),
        ("collapse=status", "200701 200901"),
        ("collapse=digest&filter=url:http:.*", "200701"),
        ("collapse=timestamp:4&from=200702", "200706 200801 200901"),
        ("collapse=timestamp:4&limit=2", "200701 200801"),
        ("sort=reverse", "200901 200801 200706 200701"),
        ("sort=reverse&limit=1", "200901"),
        ("sort=reverse&limit=1&filter=status:200", "200801"),
        ("sort=reverse&closest=2007", "200901 200801 200706 200701"),
        ("sort=reverse&to=200801&from=200702", "200801 200706"),
        ("closest=200712&limit=2", "200801 200706"),
        ("closest=200712&limit=2&filter=status:404", "200901"),
        ("closest=1000&sort=closest", "200701 200706 200801 200901"),
        ("closest=9999", "200901 200801 200706 200701"),
        ("closest=200706&sort=closest&collapse=digest", "200706 200801 200901"),
    ],
)
async def test_captures_are_filtered_collapsed_and_sorted(
    reading: Provider, query: str, expected: str
) -> None:
    assert await years(reading, f"url={HOME}&{query}") == expected.split()


async def test_collapsing_by_urlkey_lists_each_key_once(reading: Provider) -> None:
    response = await reading.client.get("/cdx?url=a.example/*&collapse=urlkey&fl=urlkey")
    keys = (await response.text()).split()
    assert keys[:4] == ["example,a)/", "example,a)/x", "example,a)/y", "example,a)/" + "y" * 600]
    assert len(keys) == len(set(keys)) == 7


@pytest.mark.parametrize("root", ["http://s.example/", "s.example", "https://www.s.example"])
async def test_a_root_archived_without_slash_is_found_below_the_root(reading: Provider, root: str) -> None:
    query = f"url={root}*&fl=timestamp"
    whole = [line[:4] for line in await lines(reading, query)]
    assert sorted(whole) == ["2007", "2008", "2009", "2010", "2011"]
    for limit in (1, 2):
        pieces = await in_pieces(reading, f"{query}&limit={limit}")
        assert [line[:4] for piece in pieces for line in piece] == whole


WHOLE = [
    "url=a.example",
    "url=a.example&sort=reverse",
    "url=a.example&closest=2008",
    "url=a.example/*",
    "url=a.example&matchType=host",
    "url=a.example&matchType=domain",
    "url=*.example",
    "url=*.a.example&filter=!status:404",
    "url=*.a.example&from=2009&to=2009",
    "url=a.example&collapse=digest",
    "url=*.a.example&collapse=status",
    "url=nowhere.example",
]


@pytest.fixture
def keyed(request: pytest.FixtureRequest, kept_database: Database) -> Iterator[bool]:
    """Whether captures are found by keys, and not by spelling."""
    if not request.param:
        compare_spellings(kept_database)
    yield request.param
    compare_keys(kept_database)


def compare_keys(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE url_key_fill SET finished = now()"))


@pytest.mark.parametrize(
    ("limit", "keyed"),
    [
        (1, True),
        (2, False),
        pytest.param(3, True, marks=pytest.mark.long),
        pytest.param(1, False, marks=pytest.mark.long),
    ],
    indirect=["keyed"],
)
@pytest.mark.parametrize("query", WHOLE)
@pytest.mark.usefixtures("keyed")
async def test_limited_answers_together_equal_the_unlimited_one(
    reading: Provider, query: str, limit: int
) -> None:
    whole = await lines(reading, query)
    pieces = await in_pieces(reading, f"{query}&limit={limit}")
    assert sorted(line for piece in pieces for line in piece) == sorted(whole)
    assert all(len(piece) <= limit for piece in pieces)


@pytest.mark.parametrize("query", ["url=a.example/*", "url=a.example&matchType=host", "url=*.example"])
async def test_limited_answers_are_sorted_by_key(reading: Provider, query: str) -> None:
    pieces = await in_pieces(reading, f"{query}&limit=2")
    keys = [line.split()[:2] for piece in pieces for line in piece]
    assert keys == sorted(keys)


@pytest.mark.parametrize("keyed", [False], indirect=True)
@pytest.mark.usefixtures("keyed")
async def test_a_resume_key_of_a_look_up_by_spelling_is_refused_once_keys_are_complete(
    reading: Provider, kept_database: Database
) -> None:
    query = "url=*.a.example"
    key = (await piece(reading, f"{query}&limit=4", ""))[1]
    compare_keys(kept_database)
    response = await reading.client.get(f"/cdx?{query}&resumeKey={key}")
    assert (response.status, "start again from the beginning" in await response.text()) == (400, True)


async def test_a_limit_of_captures_examined_omits_none_when_continued(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient, tmp_path: Path
) -> None:
    write_and_index(database, tmp_path)
    withhold(database, "http://a.example/")
    app = create_app(small_pages(settings, cdx_examined=3), database, base_url=BASE_URL)
    bounded = Provider(client=await aiohttp_client(app))
    app = create_app(small_pages(settings), database, base_url=BASE_URL)
    free = Provider(client=await aiohttp_client(app))
    # Look-ups by spelling use another statement; one look-up of each kind suffices.
    for keyed, queries in ((True, WHOLE), (False, WHOLE[::3])):
        if not keyed:
            compare_spellings(database)
        for query in queries:
            whole = await lines(free, query)
            pieces = await in_pieces(bounded, query)
            assert sorted(line for piece in pieces for line in piece) == sorted(whole), (keyed, query)


@pytest.mark.parametrize("query", [query for query in WHOLE if "filter" in query or "collapse" in query])
async def test_a_time_limit_of_filters_omits_no_captures_when_continued(
    reading: Provider, kept_database: Database, kept: Kept, aiohttp_client: AiohttpClient, query: str
) -> None:
    app = create_app(small_pages(kept.settings, cdx_filter_seconds=1e-9), kept_database, base_url=BASE_URL)
    bounded = Provider(client=await aiohttp_client(app))
    query += "&filter=url:http.*"
    whole = await lines(reading, query)
    pieces = await in_pieces(bounded, query)
    assert len(pieces) > len(whole) > 0
    assert [line for piece in pieces for line in piece] == whole


@pytest.mark.parametrize(
    ("query", "continues"),
    [("", True), ("*&dialect=openwayback&sort=reverse", False), ("&dialect=openwayback&last=true", False)],
)
async def test_filters_that_take_too_long_are_refused_unless_the_client_continues(
    kept_database: Database, kept: Kept, aiohttp_client: AiohttpClient, query: str, *, continues: bool
) -> None:
    app = create_app(small_pages(kept.settings, cdx_filter_seconds=1e-9), kept_database, base_url=BASE_URL)
    client = await aiohttp_client(app)
    asked = f"/cdx?url=a.example{query}&filter=status:200"
    response = await client.get(asked)
    assert response.status == 400
    assert "or of 1e-09 seconds for its filters, was reached" in await response.text()
    assert ("showResumeKey" in await response.text()) is continues
    assert (await client.get(f"{asked}&showResumeKey=true")).status == (200 if continues else 400)


def withhold(database: Database, prefix: str) -> None:
    with database.session() as session:
        add_collection(session, "collection:c")
        session.commit()
        assign(session, "collection:c", Selection(url_prefix=prefix), margin=1)
        set_rule(session, "collection:c", Rule(access=Access.WITHHELD), margin=1)


async def test_a_look_up_beyond_the_limit_is_refused_unless_the_client_continues(
    kept_database: Database, kept: Kept, aiohttp_client: AiohttpClient
) -> None:
    app = create_app(small_pages(kept.settings, cdx_examined=3), kept_database, base_url=BASE_URL)
    provider = Provider(client=await aiohttp_client(app))
    response = await provider.client.get("/cdx?url=*.a.example&filter=status:404")
    assert response.status == 400
    assert "the limit of 3 captures per request" in await response.text()
    assert "showResumeKey=true" in await response.text()


async def lines(provider: Provider, query: str) -> list[str]:
    response = await provider.client.get(f"/cdx?{query}")
    assert response.status == 200, await response.text()
    assert "Link" not in response.headers
    return (await response.text()).splitlines()


async def in_pieces(provider: Provider, query: str) -> list[list[str]]:
    """Return the answers of a look-up that is continued to its end."""
    pieces: list[list[str]] = []
    key = ""
    while True:
        answer, key = await piece(provider, query, key)
        pieces.append(answer)
        if not key:
            return pieces
        assert len(pieces) < 200


async def piece(provider: Provider, query: str, key: str) -> tuple[list[str], str]:
    """Return the lines of the answer that continues at the key, and the next key."""
    response = await provider.client.get(
        f"/cdx?{query}&showResumeKey=true" + (f"&resumeKey={key}" if key else "")
    )
    answer = await response.text()
    assert response.status == 200, answer
    before, _, following = f"\n{answer}".rpartition("\n\n") if "\n\n" in f"\n{answer}" else (answer, "", "")
    following = following.strip()
    assert not following or f"resumeKey={following}" in response.headers["Link"]
    return before.split("\n")[1:] if following else answer.splitlines(), following


async def test_the_link_header_leads_to_the_next_answer(reading: Provider) -> None:
    response = await reading.client.get("/cdx?url=a.example&limit=3&fl=timestamp")
    address = response.headers["Link"].removeprefix("<").partition(">")[0]
    assert response.headers["Link"].endswith('>; rel="next"')
    following = await reading.client.get(f"/cdx{address}")
    assert await following.text() == "20090101000000\n"
    assert "Link" not in following.headers


async def test_json_and_cdxj_output_end_with_the_resume_key(reading: Provider) -> None:
    query = "/cdx?url=a.example&limit=1&showResumeKey=true&output="
    first, last = (await (await reading.client.get(f"{query}json")).text()).splitlines()
    assert json.loads(first)["url"] == HOME
    assert json.loads(last).keys() == {"resumeKey"}
    _, empty, key = (await (await reading.client.get(f"{query}cdxj")).text()).splitlines()
    assert (empty, key) == ("", json.loads(last)["resumeKey"])


@pytest.mark.parametrize(
    "other",
    [
        {"url": "b.example"},
        {"matchType": "prefix"},
        {"sort": "reverse"},
        {"closest": "2008"},
    ],
)
async def test_a_resume_key_is_valid_for_its_look_up_only(
    reading: Provider, other: Mapping[str, str]
) -> None:
    asked = {"url": "a.example", "limit": "1", "showResumeKey": "true"}
    text = await (await reading.client.get("/cdx", params=asked)).text()
    key = text.split()[-1]
    same = await reading.client.get("/cdx", params={**asked, "resumeKey": key})
    response = await reading.client.get("/cdx", params={**asked, **other, "resumeKey": key})
    assert (same.status, response.status) == (200, 400)
    assert "does not belong to this look-up" in await response.text()


async def test_requests_as_pywb_sends_them_are_answered(reading: Provider) -> None:
    """Pywb 2.10 sends these requests for a URL and for a prefix."""
    exact = await years(reading, f"url={HOME}&closest=20080102000000&sort=closest&limit=2")
    wide = await years(reading, f"url={HOME}&closest=20080102000000&sort=closest&matchType=prefix")
    assert exact == ["200801", "200706"]
    assert len(wide) == 11
