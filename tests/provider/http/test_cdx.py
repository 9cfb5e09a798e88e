"""The CDX look-up answers as replay software expects, and lists only captures that the client may read."""

import json
from collections.abc import Sequence
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
from provider.holdings.selection import Selection, hide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access
from tests.provider.archives import Page, offsets, warc_record, write_archive
from tests.provider.conftest import BASE_URL, Kept, Provider

PAGES = [
    Page(url="http://a.example/", date="2007-01-01T00:00:00Z"),
    Page(url="http://www.a.example/", date="2008-06-01T12:00:00Z"),
    Page(url="https://a.example/", date="2010-01-01T00:00:00Z"),
    Page(url="http://a.example/x", date="2009-01-01T00:00:00Z", status=404, mime_type="text/plain"),
    Page(url="http://a.example/x?b=1&a=2", date="2009-02-01T00:00:00Z"),
    Page(url="http://sub.a.example:8080/", date="2009-03-01T00:00:00Z"),
    Page(url="http://a.example.com/", date="2009-04-01T00:00:00Z"),
    Page(url="http://ab.example/", date="2009-05-01T00:00:00Z"),
]
BELOW = ("/DIR", "/dir/a", "/dirt", "/q?b=2&a=1")
LONG = "http://long.example/" + "y" * 600
LONGER = "http://longer.example/" + "".join(map(str, range(1500)))


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> Path:
    return write_and_index(database, tmp_path)


@pytest.fixture(scope="module")
def kept_archive(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_and_index(kept.open(), tmp_path_factory.mktemp("archive"))


def write_and_index(database: Database, folder: Path) -> Path:
    """The pages in one file, and two captures that differ behind the indexed part of the URL."""
    others = [
        Page(url=url)
        for url in (
            LONG + "1",
            LONG + "2",
            LONGER + "1",
            LONGER + "2",
            "ftp://f.example/x",
            "http://me@u.example/",
        )
    ]
    below = [Page(url=f"http://p.example{path}") for path in BELOW]
    records = [warc_record(page) for page in [*PAGES, *others, *below]]
    path = write_archive(folder / "x.warc.gz", records)
    index_file(database, path, IndexOptions(margin=1))
    return path


async def lines(provider: Provider, **arguments: str) -> Sequence[str]:
    parameters = {name.rstrip("_"): value for name, value in arguments.items()}
    response = await provider.client.get("/cdx", params=parameters)
    text = await response.text()
    assert response.status == 200, text
    return text.splitlines()


async def found(provider: Provider, **arguments: str) -> list[tuple[str, str]]:
    """URL and year of each line."""
    rows = [line.split(" ") for line in await lines(provider, **arguments)]
    return [(row[2], row[1][:4]) for row in rows]


def compare_spellings(database: Database) -> None:
    """Change the archive into one with incomplete keys."""
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE url_key_fill SET finished = NULL"))


HOME = [("http://a.example/", "2007"), ("http://www.a.example/", "2008"), ("https://a.example/", "2010")]
X = [("http://a.example/x", "2009"), ("http://a.example/x?b=1&a=2", "2009")]
SUB = [("http://sub.a.example:8080/", "2009")]


FOUND: list[tuple[dict[str, str], list[tuple[str, str]]]] = [
    ({"url": "http://a.example/"}, HOME),
    ({"url": "a.example"}, HOME),
    ({"url": "https://www.A.example"}, HOME),
    ({"url": "http://a.example/", "from_": "2008"}, HOME[1:]),
    ({"url": "http://a.example/", "to": "2008"}, HOME[:2]),
    ({"url": "http://a.example/", "to": "200805"}, HOME[:1]),
    ({"url": "http://a.example/", "to": "20080601120000"}, HOME[:2]),
    ({"url": "http://a.example/", "from_": "20080601120001"}, HOME[2:]),
    ({"url": "http://a.example/", "limit": "1"}, HOME[:1]),
    ({"url": "http://a.example/", "closest": "2008", "sort": "closest"}, [HOME[1], HOME[0], HOME[2]]),
    ({"url": "http://a.example/", "closest": "20110101", "limit": "1"}, HOME[2:]),
    ({"url": "http://a.example/", "closest": ""}, HOME),
    ({"url": "http://a.example/x"}, X[:1]),
    ({"url": "http://a.example/x", "matchType": "prefix"}, X),
    ({"url": "http://a.example/x*"}, X),
    ({"url": "http://a.example/", "matchType": "prefix", "closest": "2008"}, HOME + X),
    ({"url": "a.example", "matchType": "host"}, HOME + X),
    ({"url": "a.example", "matchType": "domain"}, HOME + X + SUB),
    ({"url": "*.a.example"}, HOME + X + SUB),
    ({"url": "http://sub.a.example:8080/"}, SUB),
    ({"url": "http://sub.a.example/"}, []),
    ({"url": "http://nowhere.example/"}, []),
    ({"url": "nowhere.example", "matchType": "domain"}, []),
    ({"url": "ftp://f.example/x"}, [("ftp://f.example/x", "2007")]),
    ({"url": "ftp://f.example/", "matchType": "prefix"}, [("ftp://f.example/x", "2007")]),
    ({"url": "http://me@u.example/"}, [("http://me@u.example/", "2007")]),
    ({"url": LONG + "2"}, [(LONG + "2", "2007")]),
    ({"url": LONG, "matchType": "prefix"}, [(LONG + "1", "2007"), (LONG + "2", "2007")]),
    ({"url": LONGER + "2"}, [(LONGER + "2", "2007")]),
    ({"url": LONGER, "matchType": "prefix"}, [(LONGER + "1", "2007"), (LONGER + "2", "2007")]),
]


@pytest.mark.parametrize(("asked", "expected"), FOUND)
@pytest.mark.usefixtures("kept_archive")
async def test_captures_are_found_by_url_and_time(
    reading: Provider, asked: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert await found(reading, **asked) == expected


@pytest.mark.usefixtures("archive")
async def test_captures_are_found_by_spelling_while_keys_are_incomplete(
    provider: Provider, database: Database
) -> None:
    compare_spellings(database)
    for asked, expected in FOUND:
        assert await found(provider, **asked) == expected, asked
    assert await found(provider, url="http://a.example/X") == []


SPELLINGS = [
    ("http://k.example/%C4%8De", "http://k.example/%c4%8de"),
    ("http://k.example/%C4%8De", "http://k.example/če"),
    ("http://K.example/Page", "https://www.k.example/page"),
    ("http://k.example/q?b=2&A=1", "http://k.example/q?a=1&b=2"),
    ("http://k.example/~me", "http://k.example/%7Eme"),
    ("http://k.example/d/../r", "http://k.example/r"),
    ("http://k.example/s?PHPSESSID=" + "a" * 32, "http://k.example/s"),
    ("http://K.example/P/", "http://www2.k.example/p"),
]


@pytest.mark.parametrize("match", ["exact", "prefix"])
async def test_a_url_is_found_in_every_spelling_of_its_key(
    provider: Provider, database: Database, tmp_path: Path, match: str
) -> None:
    records = [warc_record(Page(url=archived)) for archived, _ in SPELLINGS[1:]]
    index_file(database, write_archive(tmp_path / "x.warc", records), IndexOptions(margin=1))
    for archived, asked in SPELLINGS:
        assert (archived, "2007") in await found(provider, url=asked, matchType=match)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"url": "http://p.example/dir/", "matchType": "prefix"}, ["/dir/a"]),
        ({"url": "http://p.example/DIR*"}, ["/DIR", "/dir/a", "/dirt"]),
        ({"url": "http://p.example/q?a=1*"}, ["/q?b=2&a=1"]),
        ({"url": "http://p.example/q?b=2*"}, []),
        ({"url": "http://p.example/*"}, ["/DIR", "/dir/a", "/dirt", "/q?b=2&a=1"]),
    ],
)
@pytest.mark.usefixtures("kept_archive")
async def test_a_prefix_search_compares_keys_as_pywb_does(
    reading: Provider, asked: dict[str, str], expected: list[str]
) -> None:
    assert [url for url, _ in await found(reading, **asked)] == [
        f"http://p.example{path}" for path in expected
    ]


async def test_a_line_has_eleven_fields(reading: Provider, kept_archive: Path) -> None:
    (line,) = await lines(reading, url="http://a.example/x")
    digest = PAGES[3].payload_digest.removeprefix("sha1:")
    place = offsets(kept_archive, [warc_record(page) for page in PAGES])[3]
    assert line == (
        f"example,a)/x 20090101000000 http://a.example/x text/plain 404 {digest} - - - {place} x.warc.gz"
    )


@pytest.mark.usefixtures("kept_archive")
async def test_json_output_has_one_object_per_line(reading: Provider) -> None:
    (line,) = await lines(reading, url="http://a.example/x", output="json", fl="original,statuscode,offset")
    assert json.loads(line) == {
        "url": "http://a.example/x",
        "status": "404",
        "offset": json.loads(line)["offset"],
    }
    (line,) = await lines(reading, url="http://a.example/x", output="cdxj")
    key, timestamp, rest = line.split(" ", 2)
    assert (key, timestamp) == ("example,a)/x", "20090101000000")
    assert json.loads(rest).keys() == {"url", "mime", "status", "digest", "offset", "filename"}


@pytest.mark.parametrize("argument", ["fl", "fields"])
@pytest.mark.usefixtures("kept_archive")
async def test_a_field_that_is_named_several_times_is_written_once(reading: Provider, argument: str) -> None:
    named = await lines(reading, url="http://a.example/x", **{argument: "url,mime"})
    assert await lines(reading, url="http://a.example/x", **{argument: "url,mime" + ",url" * 1000}) == named


@pytest.mark.usefixtures("kept_archive")
async def test_a_look_up_without_captures_is_answered_with_200(reading: Provider) -> None:
    response = await reading.client.head("/cdx?url=nowhere.example")
    assert (response.status, response.content_type) == (200, "text/plain")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "no host"),
        ("url=", "no host"),
        ("url=/path", "no host"),
        ("url=a.example&matchType=range", "unknown matchType 'range'; allowed are exact"),
        ("url=a.example&output=xml", "output 'xml'"),
        ("url=a.example&limit=0", "limit '0'"),
        ("url=a.example&limit=-3", "limit '-3'"),
        ("url=a.example&limit=²", "limit '²'"),
        ("url=a.example&limit=" + "9" * 5000, "limit '999"),
        ("url=a.example&from=yesterday", "from 'yesterday'"),
        ("url=a.example&from=20071301", "from '20071301'"),
        ("url=a.example&to=200713", "to '200713'"),
        ("url=a.example&closest=20070230", "closest '20070230'"),
        ("url=a.example&fl=colour", "field 'colour'"),
        ("url=a.example&gzip=false", "unknown argument 'gzip'"),
        ("url=a.example&url=b.example", "argument 'url' is given more than once"),
        ("url=a.example&collapse=digest&collapse=urlkey", "argument 'collapse' is given more than once"),
        ("url=a.example&sort=random", "unknown sort 'random'; allowed are default"),
        ("url=a.example/%23!/user/jan*", "ends in a fragment, in dots or within an escape"),
        ("url=a.example/x/..&matchType=prefix", "ends in a fragment, in dots or within an escape"),
        ("url=a.example/%25C4%258*", "ends in a fragment, in dots or within an escape"),
        ("url=a.example*&sort=reverse", "needs a single URL and cannot be combined with"),
        ("url=a.example&filter=200", "filter '200' has no field"),
        ("url=a.example&filter=colour:red", "unknown field 'colour'; the fields are urlkey"),
        ("url=a.example&filter=status:(", "'(' is not an RE2 regular expression: missing ): ("),
        ("url=a.example&filter=status:" + "x" * 1001, "1,001 characters"),
        (
            "url=a.example&filter=url:[\\pL]{12}",
            "instructions, more than 10,000; use fewer",
        ),
        ("url=a.example" + "&filter=status:200" * 21, "21 filters exceed the limit of 20"),
        ("url=a.example&collapse=colour", "unknown field 'colour'; the fields are urlkey"),
        ("url=a.example&collapse=timestamp:0", "collapse 'timestamp:0'"),
        ("url=a.example&collapse=timestamp:", "collapse 'timestamp:'"),
        ("url=a.example&collapse=timestamp:" + "9" * 5000, "collapse 'timestamp:999"),
        ("url=a.example&showResumeKey=yes", "showResumeKey 'yes'"),
        ("url=a.example&resumeKey=WzEsbnVsbCxudWxsXQ.nobody", "does not belong to this look-up"),
        ("url=a.example&resumeKey=1", "does not belong to this look-up"),
    ],
)
async def test_an_invalid_argument_is_answered_with_400_and_named(
    reading: Provider, query: str, words: str
) -> None:
    response = await reading.client.get(f"/cdx?{query}")
    assert response.status == 400
    assert words in await response.text()


@pytest.mark.parametrize(
    "hostile", ["url=%00a.example/", "url=http://a.example/%00", "url=%ff%fe", "url=" + "a" * 9000]
)
@pytest.mark.usefixtures("kept_archive")
async def test_hostile_urls_are_answered_with_200_or_400(reading: Provider, hostile: str) -> None:
    for more in ("", "&matchType=prefix", "&matchType=domain"):
        assert (await reading.client.get(f"/cdx?{hostile}{more}")).status in {200, 400}


@pytest.mark.usefixtures("archive")
async def test_a_revisit_has_the_mime_type_warc_revisit(
    provider: Provider, database: Database, tmp_path: Path
) -> None:
    page = Page(url="http://r.example/", record_type="revisit")
    index_file(database, write_archive(tmp_path / "r.warc", [warc_record(page)]), IndexOptions(margin=1))
    (line,) = await lines(provider, url="r.example")
    assert line.split(" ")[3] == "warc/revisit"


async def test_a_time_in_the_first_year_has_14_digits(
    provider: Provider, database: Database, tmp_path: Path
) -> None:
    page = Page(url="http://old.example/", date="0001-01-01T00:00:00Z")
    index_file(database, write_archive(tmp_path / "x.warc", [warc_record(page)]), IndexOptions(margin=1))
    (line,) = await lines(provider, url="old.example")
    assert line.split(" ")[1] == "00010101000000"


@pytest.mark.parametrize(
    ("access", "listed"),
    [(Access.OPEN, True), (Access.READING_ROOM, False), (Access.WITHHELD, False)],
)
@pytest.mark.usefixtures("archive")
async def test_a_look_up_lists_only_captures_that_the_client_may_read(
    database: Database,
    settings: Settings,
    aiohttp_client: AiohttpClient,
    access: Access,
    listed: bool,  # noqa: FBT001 from the table above
) -> None:
    with database.session() as session:
        add_collection(session, "collection:c")
        session.commit()
        assign(session, "collection:c", Selection(domain="a.example"), margin=1)
        set_rule(session, "collection:c", Rule(access=access), margin=1)
    for room, seen in (((), listed), (("127.0.0.1/32",), listed or access is Access.READING_ROOM)):
        changes = {"reading_room": room, "trusted_proxies": ()}
        chosen = settings.provider.model_copy(update=changes)
        app = create_app(settings.model_copy(update={"provider": chosen}), database, base_url=BASE_URL)
        served = Provider(client=await aiohttp_client(app))
        assert bool(await lines(served, url="a.example")) == seen


@pytest.mark.usefixtures("archive")
async def test_hidden_documents_are_not_listed(provider: Provider, database: Database) -> None:
    with database.session() as session:
        hide(session, Selection(url="http://a.example/x"), margin=1)
    assert await lines(provider, url="a.example/x") == []
