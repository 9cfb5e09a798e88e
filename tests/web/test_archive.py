"""The archive's pages with real documents: shown, hidden, assigned to collections, and self-tested."""

import asyncio
import io
import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from aiohttp import web
from lxml import html
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session
from warcio.archiveiterator import ArchiveIterator

from oai.audit import AuditEntry
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from provider.app import create_app as create_provider
from provider.clients.models import ProviderClient, ProviderList
from provider.indexing.indexer import IndexOptions, index_file
from provider.indexing.models import IndexFile, IndexRun
from provider.models import ArcProblem, Document, DocumentCollection, DocumentMonth, Mimetype
from tests.provider.archive import Archive
from tests.provider.archives import Page, write_pages
from tests.web.conftest import Browser, Server
from web.archive.pages_activity import SelfTests
from web.models import SelfTest
from web.site.keys import open_executor

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_URL = "http://www.example.cz/1"


@pytest.fixture
def archive(server: Server) -> Archive:
    """Two documents in a collection, with all that the pages show beside them."""
    archive = Archive(server.database, server.settings)
    archive.add(_URL, title="The first page", collections=["collection:serials"])
    archive.add("http://www.example.cz/2", mime_type="image/png")
    with server.database.session() as session:
        document = session.scalars(select(Document).order_by(Document.id)).first()
        assert document is not None
        session.add(DocumentMonth(month=_NOW.date(), mime_major_id=document.mime_major_id, documents=2))
        session.execute(update(Mimetype).values(documents=1))
        session.add(
            ArcProblem(
                arc_id=document.arc_id,
                offset=1234,
                reason="no end of the record",
                failure_code="archive_record_truncated",
                failure_facts={"bytes": 7},
            )
        )
        run = IndexRun(host="store1", again=False)
        session.add(run)
        session.flush()
        session.add(
            IndexFile(run_id=run.id, path="/a/broken.warc.gz", size=9, state="failed", reason="not gzip")
        )
        session.add(IndexFile(run_id=run.id, path="/a/good.warc.gz", size=9, state="done", new=2))
        session.add(_client())
        session.flush()
        session.add(_list())
        session.commit()
    return archive


def _client() -> ProviderClient:
    return ProviderClient(
        key=uuid.UUID(int=1),
        address="192.0.2.1",
        user_agent="GreatHarvester/1",
        sender="someone@example.org",
        first_request=_NOW,
        last_request=_NOW,
        requests=7,
        bytes_sent=12_345,
        refused=0,
    )


def _list() -> ProviderList:
    return ProviderList(
        key=uuid.UUID(int=2),
        client_key=uuid.UUID(int=1),
        verb="ListRecords",
        metadata_prefix="oai_dc",
        set_spec="",
        started=_NOW,
        last_request=_NOW,
        requests=3,
        passed=300,
        complete_size=1000,
    )


_SHOWN: Final = (
    ("/archive", ["http://127.0.0.1:8080/oai", "repositoryName", "deletedRecord", "January 2026", "<svg"]),
    ("/archive/sets?tree=domain", ["domain:cz"]),
    ("/archive/sets?below=domain:cz:example", ["domain:cz:example:www"]),
    ("/archive/sets?tree=mimetype", ["mimetype:image", "mimetype:text"]),
    (f"/archive/documents?url={_URL}", [_URL, "text/html"]),
    ("/archive/documents?url=example.cz&match=domain", [_URL, "http://www.example.cz/2"]),
    ("/archive/documents?url=http://nowhere.example/", ["No archived documents found."]),
    ("/archive/collections", ["collection:serials"]),
    ("/archive/collections/collection:serials", ["Add or remove documents"]),
    ("/archive/indexing", ["store1", "no end of the record", "1,234", "A record ends too early"]),
    ("/archive/indexing", ["Copy the file again from its source"]),
    (
        "/archive/indexing/1",
        [
            "/a/broken.warc.gz",
            "not gzip",
            "/a/good.warc.gz",
            "could not be indexed. See the reason below",
        ],
    ),
    ("/archive/harvesters", ["GreatHarvester/1", "someone@example.org"]),
    (f"/archive/harvesters/{uuid.UUID(int=1)}", ["ListRecords", "1,000", "abandoned"]),
    ("/archive/check", ["Run self-test"]),
    ("/help", ["Rejected record"]),
)
"""Pages, and words on them."""


@pytest.mark.usefixtures("archive")
async def test_each_page_of_the_archive_shows_its_content(administrator: Browser) -> None:
    for path, words in _SHOWN:
        status, page = await administrator.get(path)

        assert status == 200, (path, page)
        for word in words:
            assert word in page, (path, word)


@pytest.mark.usefixtures("archive")
async def test_the_filter_for_files_with_problems_shows_only_those(administrator: Browser) -> None:
    _, page = await administrator.get("/archive/indexing/1?show=troubled")

    assert "/a/broken.warc.gz" in page
    assert "/a/good.warc.gz" not in page


@pytest.mark.usefixtures("archive")
async def test_problems_of_archive_files_are_explained_in_the_readers_language(
    administrator: Browser,
) -> None:
    await administrator.post("/account/language", {"language": "cs"})
    _, page = await administrator.get("/archive/indexing")
    assert "Záznam končí předčasně" in page
    assert "no end of the record" in page


@pytest.mark.usefixtures("archive")
async def test_the_api_returns_problems_of_archive_files_as_codes_with_facts(administrator: Browser) -> None:
    _, problems = await administrator.get("/api/v1/archive/problems")
    _, files = await administrator.get("/api/v1/archive/indexing/1/files")

    (problem,) = json.loads(problems)["items"]
    assert (problem["failure_code"], problem["failure_facts"]) == ("archive_record_truncated", {"bytes": 7})
    assert [file["failure_code"] for file in json.loads(files)["items"]] == [None, None]


async def test_an_empty_archive_says_how_to_fill_it(administrator: Browser) -> None:
    for path, words in (
        ("/archive", "zatva provider index"),
        ("/archive/collections", "No collections yet."),
        ("/archive/harvesters", "No harvesters yet."),
        ("/archive/indexing", "No files queued yet."),
    ):
        status, page = await administrator.get(path)
        assert (status, words in page) == (200, True), path


async def test_a_document_is_hidden_after_confirmation_and_shown_again(
    server: Server, curator: Browser, archive: Archive
) -> None:
    key = uuid.UUID(archive.add("http://www.example.cz/secret").rpartition(":")[2])
    address = f"/archive/documents/{key}"

    _, found = await curator.get("/archive/documents?url=http://www.example.cz/secret")
    assert address in found
    _, asked = await curator.get(f"{address}/hide")
    assert "Hide http://www.example.cz/secret?" in asked
    _, _, target = await curator.post(f"{address}/hide")
    _, page = await curator.get(target)
    assert "The document is hidden" in page
    assert _is_deleted(server, key)
    await curator.post(f"{address}/unhide")
    assert not _is_deleted(server, key)


@pytest.mark.parametrize("match", ["domain", "host", "prefix", "exact"])
async def test_documents_of_a_url_are_found_page_by_page(
    administrator: Browser, archive: Archive, match: str
) -> None:
    path = "" if match == "exact" else "/{}"
    added = [archive.add(f"http://pages.example.org{path.format(one)}") for one in range(51)]
    keys = [str(uuid.UUID(identifier.rpartition(":")[2])) for identifier in added]
    url = "pages.example.org/" if match in {"prefix", "exact"} else "pages.example.org"

    following, listed = f"/api/v1/archive/documents?url={url}&match={match}&limit=20", []
    while following:
        status, answer = await administrator.get(following)
        assert status == 200, answer
        following = json.loads(answer)["next"]
        listed += [document["key"] for document in json.loads(answer)["items"]]
    assert sorted(listed) == sorted(keys)

    _, first = await administrator.get(f"/archive/documents?url={url}&match={match}")
    page: Any = html.fromstring(first)
    (link,) = page.xpath("//nav[@class='pager']/a/@href")
    status, second = await administrator.get(f"/archive/documents{link}")
    assert status == 200
    assert {key for key in keys if key in first + second} == set(keys)


@pytest.mark.parametrize(
    "given", ["site.example.org/sha2*", "http://site.example.org/sha2*", "*.site.example.org"]
)
async def test_documents_are_found_by_a_url_with_an_asterisk(
    administrator: Browser, archive: Archive, given: str
) -> None:
    url = "http://site.example.org/sha256"
    archive.add(url)
    for chosen in ("", "&match=exact", "&match=prefix"):
        assert url in (await administrator.get(f"/archive/documents?url={given}{chosen}"))[1]
    documents = f"/api/v1/archive/documents?url={given}"
    found = json.loads((await administrator.get(documents))[1])["items"]
    assert [one["url"] for one in found] == [url]
    assert json.loads((await administrator.get(f"{documents}&match=exact"))[1])["items"] == []


async def test_a_search_for_an_identifier_opens_its_document(
    administrator: Browser, archive: Archive
) -> None:
    identifier = archive.add("http://www.example.cz/one", recognised_type="image/png")

    async with administrator.http.get(
        administrator.base_url + "/archive/documents", params={"url": identifier}
    ) as answer:
        page = await answer.text()
        assert identifier in page
        assert "recognised from the content: image/png" in page
        assert "/archive/documents/" in str(answer.url)


async def test_a_collection_is_added_filled_withheld_renamed_and_removed(
    server: Server, curator: Browser, archive: Archive
) -> None:
    identifier = archive.add("http://news.example.cz/daily")
    new = {"set_spec": "topics:news", "name": "News", "description": ""}

    status, answer_page, target = await curator.post("/archive/collections/new", new)
    assert (status, target) == (303, "/archive/collections/collection:topics:news?done=collection-added"), (
        answer_page
    )
    address = "/archive/collections/collection:topics:news"
    for step, form in (
        ("documents", {"domain": "news.example.cz", "do": "assign"}),
        ("rule", {"access": "withheld", "embargo_until": ""}),
        ("name", {"name": "The news", "description": "Dailies"}),
    ):
        status, answer_page, _ = await curator.post(f"{address}/{step}", form)
        assert status == 303, answer_page

    key = uuid.UUID(identifier.rpartition(":")[2])
    assert _access(server, key) == "withheld"
    _, page = await curator.get(address)
    assert "The news" in page
    assert "Dailies" in page
    await curator.post(f"{address}/remove")
    assert (await curator.get(address))[0] == 404
    assert _access(server, key) == "open"


async def test_documents_are_added_to_a_collection_by_day_of_capture(
    server: Server, curator: Browser, archive: Archive
) -> None:
    for hour in (22, 23):
        archive.add("http://news.example.cz/", archived=datetime(2026, 1, 31, hour, 30, tzinfo=UTC))
    await curator.post("/account/time-zone", {"time_zone": "Europe/Prague"})
    address = "/archive/collections/collection:serials"
    chosen = {"domain": "news.example.cz", "since": "2026-02-01", "until": "2026-02-01"}

    _, page, _ = await curator.post(f"{address}/documents", {**chosen, "do": "preview-assign"})
    status, _, _ = await curator.post(f"{address}/documents", {**chosen, "do": "assign"})

    assert 'name="since" value="2026-02-01"' in page
    assert "later captures are not" in page
    with server.database.session() as session:
        found = session.scalars(
            select(Document.archived)
            .join(DocumentCollection, DocumentCollection.document_id == Document.id)
            .where(DocumentCollection.direct, Document.url == "http://news.example.cz/")
        ).all()
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "collection.assign")).one()
    assert (status, [one.hour for one in found]) == (303, [23])
    assert entry.after is not None
    assert entry.after["selection"] == {
        "domain": "news.example.cz",
        "since": "2026-01-31T23:00:00Z",
        "until": "2026-02-01T22:59:59Z",
    }
    for days in ({"since": "2026-02-02"}, {"domain": ""}):
        assert (await curator.post(f"{address}/documents", {**chosen, **days, "do": "assign"}))[0] == 422


def _previewed(page: str) -> str:
    return str(html.fromstring(page).xpath("string(//input[@name='previewed']/@value)"))


async def test_fields_changed_after_a_preview_are_previewed_again_before_they_are_applied(
    curator: Browser, archive: Archive
) -> None:
    archive.add("http://news.example.cz/")
    archive.add("http://news.example.cz/daily")
    address = "/archive/collections/collection:serials"
    part, whole = {"url_prefix": "http://news.example.cz/d"}, {"url_prefix": "http://news.example.cz/"}
    for form, fields, changed, do in (
        ("documents", part, whole, "assign"),
        ("rule", {"access": "reading-room"}, {"access": "withheld"}, "change"),
    ):
        preview = "preview" if form == "rule" else f"preview-{do}"
        _, page, _ = await curator.post(f"{address}/{form}", {**fields, "do": preview})
        shown = {"previewed": _previewed(page), "do": do}

        status, page, _ = await curator.post(f"{address}/{form}", {**changed, **shown})
        now = {"previewed": _previewed(page), "do": do}

        assert (status, "Nothing is changed yet" in page) == (200, True)
        assert (await curator.post(f"{address}/{form}", {**changed, **now}))[0] == 303


@pytest.mark.parametrize("by_api", [True, False])
async def test_renaming_a_collection_updates_the_datestamps_of_its_documents(
    server: Server, archive: Archive, administrator: Browser, *, by_api: bool
) -> None:
    archive.add("http://news.example.cz/daily")
    with server.database.session() as session:
        session.execute(update(Document).values(datestamp=_NOW))
        session.commit()
    collection, new = "/archive/collections/collection:serials", {"name": "Periodicals", "description": "All"}
    if by_api:
        headers = {"X-CSRF-Token": await administrator.token()}
        url = f"{server.base_url}/api/v1{collection}"
        async with administrator.http.patch(url, json=new, headers=headers) as answer:
            changed = await answer.json()
            assert (answer.status, changed["name"], changed["description"]) == (200, *new.values())
    else:
        assert (await administrator.post(f"{collection}/name", new))[0] == 303
    with server.database.session() as session:
        later = session.scalars(select(Document.url).where(Document.datestamp > _NOW)).all()
    assert later == [_URL]


async def test_documents_are_searched_by_day_of_capture(curator: Browser, archive: Archive) -> None:
    for day in range(1, 29):
        archive.add("http://news.example.cz/", archived=datetime(2026, 2, day, 12, tzinfo=UTC))
    await curator.post("/account/time-zone", {"time_zone": "Europe/Prague"})

    for url in ("http://news.example.cz/", "example.cz"):
        asked = f"url={quote(url, safe='')}&since=2026-02-03&until=2026-02-04"
        _, page = await curator.get(f"/archive/documents?{asked}")
        root: Any = html.fromstring(page)
        times = root.xpath("//td[@data-label='Captured']//time/@datetime")
        assert [one[:10] for one in times] == ["2026-02-03", "2026-02-04"], url
        assert page.count('name="since" value="2026-02-03"') == 2, "search and larger files"
        assert "Take these down" not in page, "a take-down has no days"
        assert "since=2026-02-03&amp;until=2026-02-04" in page

        _, none = await curator.get(f"/archive/documents?url={url}&since=2026-02-04&until=2026-02-03")
        assert "No archived documents found." in none, url
    assert (await curator.get("/archive/documents?url=example.cz&since=x"))[0] == 422


async def test_captures_are_downloaded_as_warc(
    server: Server, viewer: Browser, owner: Browser, tmp_path: Path
) -> None:
    path = write_pages(tmp_path / "x.warc.gz", [Page(url="http://a.example/")])
    index_file(server.database, path, IndexOptions(margin=1))
    _, page = await viewer.get("/archive/documents?url=a.example")
    assert "/archive/documents.warc.gz?url=a.example" in page
    address = f"{viewer.base_url}/archive/documents.warc.gz"
    async with viewer.http.get(address, params={"url": "a.example", "match": "host"}) as answer:
        data = await answer.read()
        assert (answer.status, answer.content_type) == (200, "application/warc")
    assert [one.rec_type for one in ArchiveIterator(io.BytesIO(data))] == ["warcinfo", "response"]
    for params, status in (({"url": "b.example", "match": "host"}, 404), ({"url": ""}, 400)):
        async with viewer.http.get(address, params=params) as answer:
            assert answer.status == status
    assert (await owner.get("/archive/documents.warc.gz?url=a.example"))[0] == 403


async def test_a_change_of_a_collection_is_previewed_by_page_api_and_command(
    server: Server, curator: Browser, archive: Archive, administrator: Browser
) -> None:
    identifier = archive.add("http://news.example.cz/daily")
    address = "/archive/collections/collection:serials"
    chosen = {"domain": "news.example.cz"}
    status, page, _ = await curator.post(f"{address}/documents", {**chosen, "do": "preview-assign"})
    assert (status, "It concerns 1 document." in page, "Access to them does not change." in page) == (
        200,
        True,
        True,
    )
    await curator.post(f"{address}/documents", {**chosen, "do": "assign"})

    rule = {"access": "withheld", "embargo_until": ""}
    status, page, _ = await curator.post(f"{address}/rule", {**rule, "do": "preview"})
    assert (status, "document: Open → Withheld" in page or "documents: Open → Withheld" in page) == (
        200,
        True,
    )
    headers = {"X-CSRF-Token": await administrator.token()}
    url = f"{server.base_url}/api/v1/archive/collections/collection:serials/preview"
    for body, expected in (
        ({"rule": {"access": "withheld"}}, 200),
        ({"take_out": chosen}, 200),
        ({}, 422),
        ({"rule": {"access": "open"}, "assign": chosen}, 422),
    ):
        async with administrator.http.post(url, json=body, headers=headers) as answer:
            assert answer.status == expected
            if "rule" in body and expected == 200:
                assert (await answer.json())["access"][0]["after"] == "withheld"
    assert _access(server, uuid.UUID(identifier.rpartition(":")[2])) == "open", "nothing is changed"


async def test_pages_say_which_collection_closes_subcollections_and_documents(
    curator: Browser, archive: Archive
) -> None:
    identifier = archive.add("http://a.example/", collections=["collection:serials:spring"])
    listing, serials, spring, document = (
        "/archive/collections", "/archive/collections/collection:serials",
        "/archive/collections/collection:serials:spring",
        f"/archive/documents/{uuid.UUID(identifier.rpartition(':')[2])}",
    )  # fmt: skip
    rule = {"access": "reading room", "embargo_until": "", "do": "change"}

    async def cause(page: str) -> list[str]:
        root: Any = html.fromstring((await curator.get(page))[1])
        words = (" ".join(one.text_content().split()) for one in root.xpath("//main//td | //main//p"))
        return [one for one in words if "by the rule of" in one]

    pages = (listing, serials, spring, document)
    assert [await cause(page) for page in pages] == [[]] * len(pages)

    await curator.post(f"{serials}/rule", rule)
    closed = "reading room by the rule of Collection collection:serials"
    assert [await cause(page) for page in pages] == [[closed], [], [closed], [closed]]
    _, text = await curator.get(spring)
    assert f'by the rule of <a href="{serials}">' in " ".join(text.split())
    assert "own rule is less strict: open." in text

    await curator.post(f"{spring}/rule", {**rule, "access": "withheld"})
    assert [await cause(page) for page in (listing, spring)] == [[], []]
    assert await cause(document) == ["withheld by the rule of Collection collection:serials:spring"]


async def test_the_audit_log_has_the_selection_and_the_move_of_a_collection_by_page_and_api(
    server: Server, archive: Archive, administrator: Browser
) -> None:
    archive.add("http://news.example.cz/daily")
    old, new = "collection:serials", "collection:periodicals"
    chosen = {"domain": "news.example.cz"}
    await administrator.post(f"/archive/collections/{old}/documents", {**chosen, "do": "assign"})
    headers = {"X-CSRF-Token": await administrator.token()}
    for what, body in (("take-out", chosen), ("assign", chosen), ("move", {"set_spec": new})):
        url = f"{server.base_url}/api/v1/archive/collections/{old}/{what}"
        async with administrator.http.post(url, json=body, headers=headers) as answer:
            assert answer.status == 200

    with server.database.session() as session:
        wanted = AuditEntry.object_kind == "collection"
        entries = session.scalars(select(AuditEntry).where(wanted).order_by(AuditEntry.audit_id)).all()
    assert [(entry.action.partition(".")[2], entry.object_id) for entry in entries] == [
        ("assign", old),
        ("take-out", old),
        ("assign", old),
        ("move", new),
    ]
    *filed, moved = [(entry.before or {}, entry.after or {}) for entry in entries]
    assert [after["selection"] for _, after in filed] == [chosen] * 3
    assert [(before["documents"], after["documents"]) for before, after in filed] == [(1, 2), (2, 1), (1, 2)]
    assert (moved[0]["set_spec"], moved[1]["set_spec"]) == (old, new)
    _, page = await administrator.get("/admin/audit")
    assert "domain: news.example.cz" in page


async def test_a_collection_withheld_in_the_meantime_is_not_removed_without_asking(
    server: Server, curator: Browser, archive: Archive
) -> None:
    key = uuid.UUID(archive.add("http://news.example.cz/daily").rpartition(":")[2])
    address = "/archive/collections/collection:serials"
    await curator.post(f"{address}/documents", {"domain": "news.example.cz", "do": "assign"})
    confirmed = await _hidden(curator, f"{address}/remove")
    await curator.post(f"{address}/rule", {"access": "withheld", "embargo_until": ""})

    status, page, _ = await curator.post(f"{address}/remove", confirmed)

    assert (status, "The collection was changed in the meantime" in page) == (409, True)
    assert _access(server, key) == "withheld"
    assert (await curator.post(f"{address}/remove", await _hidden(curator, f"{address}/remove")))[0] == 303
    assert _access(server, key) == "open"


async def _hidden(browser: Browser, path: str) -> dict[str, str]:
    """The hidden fields of the confirmation on a page."""
    tree: Any = html.fromstring((await browser.get(path))[1])
    fields = tree.xpath("//main//input[@type='hidden']")
    return {field.name: field.value for field in fields if field.name != "csrf_token"}


_FAULTY = (
    ("rule", {"access": "embargo", "embargo_until": ""}, "An embargo requires an end date"),
    ("rule", {"access": "embargo", "embargo_until": "2001-01-01"}, "has already ended"),
    ("documents", {"do": "assign"}, "Enter an archive file, a URL prefix, or a domain."),
    ("documents", {"archive_file": "nowhere.warc", "do": "assign"}, "nowhere.warc"),
    (
        "documents",
        {"domain": "nowhere.example", "do": "assign"},
        'aria-describedby="domain-fault domain-hint"',
    ),
    (
        "documents",
        {"domain": "nowhere.example", "archive_file": "nowhere.warc", "do": "assign"},
        "nowhere.warc",
    ),
    ("name", {"name": ""}, "Fill in this field."),
)


@pytest.mark.usefixtures("archive")
async def test_a_form_of_a_collection_shows_its_errors(curator: Browser) -> None:
    for step, form, words in _FAULTY:
        status, page, _ = await curator.post(f"/archive/collections/collection:serials/{step}", form)

        assert status == 422, words
        assert words in page


@pytest.mark.usefixtures("archive")
async def test_a_viewer_sees_the_archive_and_changes_nothing(viewer: Browser) -> None:
    _, page = await viewer.get("/archive/collections/collection:serials")
    assert "Add or remove documents" not in page
    for path in ("/archive/collections/collection:serials/rule", "/archive/check"):
        status, _, _ = await viewer.post(path, {"access": "withheld"})
        assert status == 403


async def test_the_self_test_runs_in_the_background_and_its_findings_are_stored(
    server: Server, settings: Settings, archive: Archive, administrator: Browser
) -> None:
    archive.add_many(3)
    runner = web.AppRunner(create_provider(settings, server.database, base_url="http://127.0.0.1/oai"))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/oai"
    threads = open_executor(server.database)
    tests = SelfTests(database=threads)
    try:
        row = await tests.start(address, asked_by="Alena")
        await _ended(threads, row.self_test_id)
    finally:
        await tests.close()
        threads.close()
        await runner.cleanup()

    await administrator.post("/account/language", {"language": "cs"})
    _, page = await administrator.get(f"/archive/check/{row.self_test_id}")
    assert "Ostatní kontroly" in page
    assert len(re.findall(r"identify\.", page)) > 3
    assert "Každá odpověď je správně utvořené XML" in page
    assert '<span lang="en">' not in page, "all checks are named in the reader's language"


async def test_the_self_test_of_a_provider_without_answer_fails_with_advice(
    server: Server, administrator: Browser
) -> None:
    status, _, target = await administrator.post("/archive/check")
    assert status == 303
    threads = open_executor(server.database)
    await _ended(threads, 1)
    threads.close()

    _, page = await administrator.get(target)
    assert "check the address and that the server answers" in page


async def _ended(threads: DatabaseExecutor, number: int) -> None:
    """Wait until the row of the self-test shows its end."""
    while not await threads.run(_has_ended, number):  # noqa: ASYNC110 only the database shows it
        await asyncio.sleep(0.05)


def _has_ended(session: Session, number: int) -> bool:
    ended = select(func.count()).where(SelfTest.self_test_id == number, SelfTest.ended.is_not(None))
    return bool(session.scalar(ended))


def _is_deleted(server: Server, key: uuid.UUID) -> bool:
    with server.database.session() as session:
        return session.scalars(select(Document.deleted).where(Document.key == key)).one()


def _access(server: Server, key: uuid.UUID) -> str:
    with server.database.session() as session:
        return session.scalars(select(Document.access).where(Document.key == key)).one()
