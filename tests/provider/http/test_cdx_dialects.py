"""Each dialect of `/cdx` understands arguments as its CDX server does, case by case."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.errors import UsageError
from provider.app import create_app
from provider.holdings.capture import Collapse, FoundCapture
from provider.http.cdx_dialects import DIALECTS, columns_of
from provider.http.cdx_ordering import keep_best_status, keep_first, keep_last
from provider.indexing.indexer import IndexOptions, index_file
from tests.provider.archives import Page, warc_record, write_archive
from tests.provider.conftest import BASE_URL, Kept, Provider, small_pages
from tests.provider.http.test_cdx import compare_spellings

ONE = FoundCapture(
    id=1,
    key=UUID(int=1),
    url="http://a.example/x",
    url_key="example,a)/x",
    archived=datetime(2009, 1, 2, 3, 4, 5, tzinfo=UTC),
    mime_type="text/html",
    http_status=404,
    digest="sha1:ABC",
    length=9,
    offset=0,
    record_type="response",
    access="open",
    deleted=False,
    path="/archive/x.warc.gz",
    packed_length=300,
)

MARKS: Sequence[tuple[str, Mapping[str, bool | None]]] = [
    ("status:404", {"zatva": True, "pywb": True, "outbackcdx": True, "openwayback": True}),
    ("status:40", {"zatva": False, "pywb": True, "outbackcdx": False, "openwayback": False}),
    ("status:4..", {"zatva": True, "pywb": False, "outbackcdx": True, "openwayback": True}),
    ("~status:40", {"zatva": True, "pywb": True, "outbackcdx": True, "openwayback": True}),
    ("~status:04", {"zatva": False, "pywb": False, "outbackcdx": True, "openwayback": True}),
    ("~status:4..", {"zatva": True, "pywb": True, "outbackcdx": False, "openwayback": False}),
    ("=status:404", {"zatva": True, "pywb": True, "outbackcdx": None, "openwayback": None}),
    ("=status:4..", {"zatva": False, "pywb": False, "outbackcdx": None, "openwayback": None}),
    ("!status:404", {"zatva": False, "pywb": False, "outbackcdx": False, "openwayback": False}),
    ("!status:40", {"zatva": True, "pywb": False, "outbackcdx": True, "openwayback": True}),
    ("!~status:04", {"zatva": True, "pywb": True, "outbackcdx": None, "openwayback": None}),
    ("~!status:04", {"zatva": None, "pywb": None, "outbackcdx": False, "openwayback": False}),
    ("statuscode:404", {"zatva": True, "pywb": True, "outbackcdx": True, "openwayback": True}),
    ("s:300", {"zatva": None, "pywb": True, "outbackcdx": None, "openwayback": None}),
    ("redirecturl:-", {"zatva": None, "pywb": None, "outbackcdx": True, "openwayback": True}),
    ("4:404", {"zatva": None, "pywb": None, "outbackcdx": None, "openwayback": True}),
    ("text/html", {"zatva": None, "pywb": True, "outbackcdx": None, "openwayback": False}),
    (".* text/html .*", {"zatva": None, "pywb": False, "outbackcdx": None, "openwayback": True}),
    ("~text/html", {"zatva": None, "pywb": False, "outbackcdx": None, "openwayback": True}),
    ('"mime": "text/html"', {"zatva": None, "pywb": None, "outbackcdx": None, "openwayback": None}),
    ("colour:red", {"zatva": None, "pywb": None, "outbackcdx": None, "openwayback": None}),
    ("status:(", {"zatva": None, "pywb": False, "outbackcdx": None, "openwayback": None}),
    ("~status:(", {"zatva": None, "pywb": None, "outbackcdx": False, "openwayback": False}),
    ("!", {"zatva": None, "pywb": False, "outbackcdx": None, "openwayback": True}),
]
"""Filters and whether each dialect takes a capture with the status 404; None for those that it refuses."""


@pytest.mark.parametrize(("text", "taken"), MARKS)
def test_filter_operators_have_the_meaning_of_each_dialect(
    text: str, taken: Mapping[str, bool | None]
) -> None:
    for name, expected in taken.items():
        if expected is None:
            with pytest.raises(UsageError):
                DIALECTS[name].filters.read([text])
        else:
            (test,) = DIALECTS[name].filters.read([text])
            assert test(ONE) is expected, name


def test_an_empty_filter_matches_everything_if_the_dialect_requires_no_field() -> None:
    assert not DIALECTS["pywb"].filters.read([""])
    assert not DIALECTS["openwayback"].filters.read([""])
    for name in ("zatva", "outbackcdx"):
        with pytest.raises(UsageError):
            DIALECTS[name].filters.read([""])


REVISIT = replace(ONE, record_type="revisit", http_status=None, packed_length=None, digest=None)
ROW = '["example,a)/x","20090102030405"'
LINES = {
    ("zatva", "text"): "example,a)/x 20090102030405 http://a.example/x text/html 404 ABC - - - 0 x.warc.gz\n",
    ("pywb", "text"): "example,a)/x 20090102030405 http://a.example/x text/html 404 ABC 300 0 x.warc.gz\n",
    ("pywb", "cdxj"): 'example,a)/x 20090102030405 {"url": "http://a.example/x", "mime": "text/html", '
    '"status": "404", "digest": "ABC", "length": "300", "offset": "0", "filename": "x.warc.gz"}\n',
    (
        "pywb",
        "json",
    ): '{"urlkey": "example,a)/x", "timestamp": "20090102030405", "url": "http://a.example/x", '
    '"mime": "text/html", "status": "404", "digest": "ABC", "length": "300", "offset": "0", '
    '"filename": "x.warc.gz"}\n',
    ("outbackcdx", "cdx"): "example,a)/x 20090102030405 http://a.example/x text/html 404 ABC - - 300 0 "
    "x.warc.gz\n",
    (
        "outbackcdx",
        "json",
    ): '[["urlkey","timestamp","url","mime","status","digest","redirecturl","robotflags",'
    '"length","offset","filename"],["example,a)/x",20090102030405,"http://a.example/x","text/html",404,"ABC",'
    '"-","-",300,0,"x.warc.gz"]]',
    ("outbackcdx", "jsondict"): '[{"urlkey":"example,a)/x","timestamp":20090102030405,'
    '"url":"http://a.example/x","mime":"text/html","status":404,"digest":"ABC","length":300,"offset":0,'
    '"filename":"x.warc.gz"}]',
    ("outbackcdx", "cdxj"): 'example,a)/x 20090102030405 {"url":"http://a.example/x","mime":"text/html",'
    '"status":"404","digest":"ABC","length":"300","offset":"0","filename":"x.warc.gz"}\n',
    ("openwayback", "text"): "example,a)/x 20090102030405 http://a.example/x text/html 404 ABC - - 300 0 "
    "x.warc.gz\n",
    ("openwayback", "json"): '[["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", '
    '"redirect", "robotflags", "length", "offset", "filename"],\n["example,a)/x", "20090102030405", '
    '"http://a.example/x", "text/html", "404", "ABC", "-", "-", "300", "0", "x.warc.gz"]]\n',
}


@pytest.mark.parametrize(("name", "output"), LINES)
def test_output_has_the_form_of_each_dialect(name: str, output: str) -> None:
    dialect = DIALECTS[name]
    write, columns = dialect.outputs[output].write, columns_of(dialect, [])
    assert write([ONE], columns, None) == LINES[name, output]
    assert write([ONE, REVISIT], columns, "KEY").endswith(
        {
            "text": "\n\nKEY\n",
            "cdx": "\n\nKEY\n",
            "cdxj": "}\n\nKEY\n",
            "jsondict": ',{"resumeKey":"KEY"}]',
            "json": {
                "pywb": '\n{"resumeKey": "KEY"}\n',
                "outbackcdx": ',[],["KEY"]]',
                "openwayback": ',\n[],\n["KEY"]]\n',
            }.get(name, ""),
        }[output]
    )


@pytest.mark.parametrize("name", DIALECTS)
def test_blanks_in_file_names_are_escaped_in_text_output_only(name: str) -> None:
    dialect, one = DIALECTS[name], replace(ONE, path="/archive/a b%20c\td\n\x7f.warc.gz")
    columns = columns_of(dialect, ["filename"])
    text = dialect.outputs["cdx" if name == "outbackcdx" else "text"]
    assert text.write([one], columns, None) == "a%20b%20c%09d%0A%7F.warc.gz\n"
    assert r'"a b%20c\td\n' in dialect.outputs["json"].write([one], columns, None)


def test_an_empty_result_has_the_form_of_each_dialect() -> None:
    empty = {
        (name, output): kind.write([], [], None)
        for name, dialect in DIALECTS.items()
        for output, kind in dialect.outputs.items()
    }
    assert {key: text for key, text in empty.items() if text} == {
        ("outbackcdx", "json"): "[[]]",
        ("outbackcdx", "jsondict"): "[]",
        ("openwayback", "json"): "[]\n",
    }


def test_missing_values_are_omitted_from_objects_and_null_in_rows() -> None:
    columns = {name: columns_of(dialect, ["status", "length"]) for name, dialect in DIALECTS.items()}
    outputs = DIALECTS["outbackcdx"].outputs
    assert outputs["jsondict"].write([REVISIT], columns["outbackcdx"], None) == "[{}]"
    assert (
        outputs["json"].write([REVISIT], columns["outbackcdx"], None) == '[["status","length"],[null,null]]'
    )
    assert DIALECTS["pywb"].outputs["json"].write([REVISIT], columns["pywb"], None) == "{}\n"


def captures(*statuses: int | None) -> list[FoundCapture]:
    return [replace(ONE, id=number, http_status=status) for number, status in enumerate(statuses)]


def numbers(found: Sequence[FoundCapture]) -> list[int]:
    return [one.id for one in found]


def test_collapsing_keeps_the_first_the_last_or_captures_of_improving_status() -> None:
    found = captures(200, 200, 404, 404, 200)
    status = Collapse(field="status")
    assert numbers(keep_first([status])(found)) == [0, 2, 4]
    assert numbers(keep_last(status)(found)) == [1, 3, 4]
    assert numbers(keep_first([status, Collapse(field="timestamp", characters=4)])(found)) == [0]
    assert numbers(keep_first([Collapse(field="timestamp", beside=status_of)])(found)) == [0, 2, 4]
    assert numbers(keep_best_status(4)(captures(404, 404, None, 301, 200, 301))) == [0, 3, 4]


def status_of(one: FoundCapture) -> str:
    return str(one.http_status)


HOME = "http://a.example/"
PAGES = [
    Page(url=HOME, date="2007-01-01T00:00:00Z", body=b"one"),
    Page(url=HOME, date="2007-06-01T00:00:00Z", body=b"one", status=404),
    Page(url="https://www.a.example/", date="2008-01-01T00:00:00Z", body=b"two", status=404),
    Page(url=HOME, date="2009-01-01T00:00:00Z", body=b"one"),
    Page(url="http://a.example/x", date="2009-02-01T00:00:00Z", mime_type="text/plain"),
    Page(url="http://a.example/y", date="2006-03-01T00:00:00Z"),
    Page(url="http://sub.a.example/", date="2009-04-01T00:00:00Z"),
    Page(url="http://b.example/*", date="2009-05-01T00:00:00Z"),
]
ALL_OF_HOME = "200701 200706 200801 200901"


@pytest.fixture(scope="module")
def archive(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("archive") / "x.warc.gz"
    index_file(
        kept.open(),
        write_archive(path, [warc_record(page) for page in PAGES]),
        IndexOptions(margin=1),
    )


ASKED: Mapping[str, Sequence[tuple[str, str]]] = {
    "pywb": [
        ("url=a.example", ALL_OF_HOME),
        ("url=a.example&from=2008&to=2008", "200801"),
        ("url=a.example&from_ts=2008", "200801 200901"),
        ("url=a.example*&from=2009", "200901 200902"),
        ("url=a.example&sort=reverse", "200901 200801 200706 200701"),
        ("url=a.example&reverse=1&limit=1", "200901"),
        ("url=a.example*&sort=reverse&limit=2", "200603 200902"),
        ("url=a.example&closest=200712&limit=2", "200801 200706"),
        ("url=a.example&closest=20080101&sort=reverse", "200801 200706 200901 200701"),
        ("url=a.example&closest=now&limit=1", "200901"),
        ("url=a.example*&closest=2006&limit=2", "200701 200706"),
        ("url=a.example&closest=", ALL_OF_HOME),
        ("url=a.example&collapseTime=4", "200701 200706 200801 200901"),
        ("url=a.example&collapseTime=3", "200701 200706 200901"),
        ("url=a.example&collapseTime=3&sort=reverse", "200901 200706 200701"),
        ("url=a.example&filter==status:404&filter=~timestamp:2008", "200801"),
        ("url=*.a.example&filter=sub", "200904"),
        ("url=*.a.example*", ""),
        ("url=b.example/*", "200905"),
        ("url=a.example&allowFuzzy=0&nosource=true&resolveRevisits=0", ALL_OF_HOME),
        ("url=nowhere.example", ""),
    ],
    "outbackcdx": [
        ("url=a.example", ALL_OF_HOME),
        ("url=a.example&from=2008&to=2008", "200801"),
        ("url=a.example&from=2008&sort=reverse", "200901 200801"),
        ("url=a.example&sort=closest&closest=", ALL_OF_HOME),
        ("url=a.example&sort=closest&closest=20080101&limit=1", "200801"),
        ("url=a.example&collapse=digest", "200701 200801 200901"),
        ("url=a.example&collapseToFirst=timestamp:4", "200701 200801 200901"),
        ("url=a.example&collapseToLast=timestamp:4", "200706 200801 200901"),
        ("url=a.example&collapseToLast=digest&limit=2", "200706 200801"),
        ("url=a.example&collapseToLast=digest&sort=reverse", "200901 200801 200701"),
        ("url=a.example/x&matchType=range", "200902 200603 200904 200905"),
        ("url=a.example/x&matchType=range&limit=2", "200902 200603"),
        ("url=a.example/x&matchType=range&filter=~url:sub", "200904"),
        ("url=*.a.example", "200701 200706 200801 200901 200902 200603 200904"),
        ("url=*.a.example*&output=cdx", ""),
        ("url=a.example&omitSelfRedirects=false&method=GET", ALL_OF_HOME),
    ],
    "openwayback": [
        ("url=a.example", ALL_OF_HOME),
        ("url=a.example*&from=2009", "200901 200902"),
        ("url=a.example&limit=0", ALL_OF_HOME),
        ("url=a.example&limit=-1", "200901"),
        ("url=a.example&limit=-2", "200801 200901"),
        ("url=a.example*&limit=-2", "200902 200603"),
        ("url=a.example&limit=-2&collapse=statuscode", "200706 200901"),
        ("url=a.example&last=true", "200901"),
        ("url=a.example&offset=1&limit=2", "200706 200801"),
        ("url=a.example&offset=3", "200901"),
        ("url=a.example&offset=1&limit=-1", "200901"),
        ("url=a.example&sort=reverse", "200901 200801 200706 200701"),
        ("url=a.example*&sort=reverse&limit=2", "200603 200902"),
        ("url=a.example&sort=closest&closest=20080101&limit=2", "200801 200706"),
        ("url=a.example&collapse=statuscode", "200701 200706 200901"),
        ("url=a.example&collapse=statuscode&sort=reverse", "200901 200801 200701"),
        ("url=a.example&collapse=timestamp:4&collapse=digest", "200701 200801 200901"),
        ("url=a.example&collapse=statuscode&sort=closest&closest=20070601", "200706 200701 200901"),
        ("url=a.example&collapseTime=4", "200701 200801 200901"),
        ("url=a.example&gzip=false&showDupeCount=false", ALL_OF_HOME),
    ],
}


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("name", ASKED)
async def test_captures_are_found_as_by_the_server_of_each_dialect(reading: Provider, name: str) -> None:
    for query, expected in ASKED[name]:
        output = "" if "output" in query else f"&output={'cdx' if name == 'outbackcdx' else 'text'}"
        response = await reading.client.get(f"/cdx?dialect={name}&{query}&fl=timestamp{output}")
        text = await response.text()
        assert (response.status, [line[:6] for line in text.split()]) == (200, expected.split()), query


@pytest.mark.usefixtures("archive")
async def test_the_first_page_is_the_whole_list_in_each_dialect_and_others_are_refused(
    reading: Provider,
) -> None:
    for name in DIALECTS:
        whole, first, second = [
            await reading.client.get(f"/cdx?dialect={name}&url=a.example/*&output=json{more}")
            for more in ("", "&page=0", "&page=1")
        ]
        assert await first.text() == await whole.text() != "", name
        assert (first.status, second.status) == (200, 400), name


REFUSED: Mapping[str, Sequence[tuple[str, str]]] = {
    "pywb": [
        ("url=a.example&limit=x", "limit 'x' is not a number"),
        ("url=a.example&limit=-1", "limit '-1' is not a number"),
        ("url=a.example&output=link", "unknown output 'link'; allowed are cdxj, json, text"),
        ("url=a.example&page=1", "unknown page '1'; allowed are 0"),
        ("url=a.example&showNumPages=true", "unknown showNumPages 'true'; allowed are false, 0"),
        ("url=a.example&resolveRevisits=1", "unknown resolveRevisits '1'"),
        ("url=a.example&collapse=digest", "unknown argument 'collapse'"),
        ("url=a.example&collapseTime=x", "collapseTime 'x' is not a number"),
        ("url=a.example&matchType=range", "unknown matchType 'range'"),
        ("url=a.example&fl=colour", "unknown field 'colour'; the fields are urlkey, timestamp, url"),
        ("url=a.example&sort=reverse&resumeKey=x&collapseTime=4", "resumeKey cannot be combined"),
        ("", "has no host"),
    ],
    "outbackcdx": [
        ("url=a.example&sort=closest", "sort=closest needs the argument closest"),
        ("url=a.example&closest=2008", "closest needs sort=closest"),
        ("url=a.example*&sort=reverse", "needs a single URL"),
        ("url=a.example&matchType=range&sort=reverse", "needs a single URL"),
        ("url=a.example*&from=2008", "from and to need matchType=exact"),
        ("url=a.example&from=2008&sort=closest&closest=2008", "cannot be combined with sort=closest"),
        ("url=a.example&collapse=digest&collapseToLast=digest", "collapseToLast cannot be combined"),
        ("url=a.example&filter=200", "has no field"),
        ("url=a.example&method=POST", "unknown method 'POST'; allowed are GET"),
        ("url=a.example&limit=0", "limit '0' is not a number"),
    ],
    "openwayback": [
        ("url=a.example&closest=2008", "closest needs sort=closest"),
        ("url=a.example&limit=x", "limit 'x' is not a number; write a negative one"),
        ("url=a.example&limit=-0", "limit '-0' is not a number"),
        ("url=a.example&offset=10000", "offset 10000 exceeds the limit"),
        ("url=a.example&showDupeCount=true", "unknown showDupeCount 'true'"),
        ("url=a.example" + "&collapse=urlkey" * 21, "21 collapses exceed the limit of 20"),
        ("url=a.example&sort=default", "unknown sort 'default'; allowed are regular"),
        ("url=a.example&page=1", "unknown page '1'; allowed are 0"),
    ],
    "wayback": [("url=a.example", "unknown dialect 'wayback'; allowed are zatva, pywb, outbackcdx")],
}


async def test_arguments_that_a_dialect_does_not_support_are_refused(reading: Provider) -> None:
    for name, queries in REFUSED.items():
        for query, words in queries:
            response = await reading.client.get(f"/cdx?dialect={name}&{query}")
            text = await response.text()
            assert (response.status, words in text) == (400, True), (name, query, text)
            if name == "pywb":
                assert json.loads(text).keys() == {"message"}


@pytest.mark.usefixtures("archive")
async def test_sorting_is_refused_if_too_many_captures_match(
    kept_database: Database, kept: Kept, aiohttp_client: AiohttpClient
) -> None:
    few = small_pages(kept.settings, cdx_lines=3, cdx_dialect="pywb")
    app = create_app(few, kept_database, base_url=BASE_URL)
    client = await aiohttp_client(app)
    refused = await client.get("/cdx?url=a.example*&sort=reverse")
    assert (refused.status, refused.content_type) == (400, "application/json")
    assert "more than 3 captures match" in await refused.text()
    narrower = await client.get("/cdx?url=a.example*&sort=reverse&filter=a.example/x&output=text&fl=url")
    assert await narrower.text() == "http://a.example/x\n"
    other = await client.get("/cdx?url=a.example&dialect=zatva&fl=status&limit=1")
    assert await other.text() == "200\n"


@pytest.mark.usefixtures("archive")
async def test_dialects_continue_with_a_resume_key(reading: Provider) -> None:
    whole = []
    query = "?url=a.example*&dialect=openwayback&limit=2&offset=1&showResumeKey=true&output=json&fl=timestamp"
    while query:
        response = await reading.client.get(f"/cdx{query}")
        rows = json.loads(await response.text())
        whole += [row[0] for row in rows[1 : -2 if rows[-2] == [] else None]]
        query = response.headers.get("Link", "").partition(">")[0].removeprefix("<")
    assert [one[:6] for one in whole] == ["200706", "200801", "200901", "200902", "200603"]


async def test_the_outbackcdx_dialect_sends_the_url_key_in_a_header(
    provider: Provider, database: Database
) -> None:
    response = await provider.client.get("/cdx?url=http://www.A.example/X/&dialect=outbackcdx")
    assert response.headers["outbackcdx-urlkey"] == "example,a)/x"
    compare_spellings(database)
    refused = await provider.client.get("/cdx?url=a.example&matchType=range&dialect=outbackcdx")
    assert (refused.status, "reindex-keys" in await refused.text()) == (400, True)
