"""Archives in an object store: indexed, served and verified like local ones, and never confused."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request
from obstore.exceptions import GenericError
from pytest_aiohttp import AiohttpClient
from sqlalchemy import select

from oai.database import Database
from oai.errors import RemoteError
from oai.failures import FailureCode
from oai.s3 import as_os_error, writing
from oai.settings import Settings
from provider.app import create_app
from provider.export.warc_download import export_warc
from provider.holdings.fixity import Checker, Fault, FixityChoice
from provider.holdings.lookup import Query
from provider.indexing.archive_search import search
from provider.indexing.indexer import FileReport, IndexOptions, index_file
from provider.models import Arc, Document
from provider.storage import clients
from provider.storage.clients import client_of, forget_clients
from provider.storage.files import Presence, presence
from provider.storage.objects import ReplacedError
from provider.storage.places import ObjectUrl, Place, place_given
from tests.provider.archives import Page, offsets, warc_other, warc_record, write_archive, write_pages
from tests.provider.conftest import BASE_URL
from tests.provider.indexing.indexed import check_counts, counts
from tests.provider.storage.object_store import BUCKET, ObjectStore
from tests.provider.waczs import multi_wacz, wacz

_OPTIONS = IndexOptions(margin=1)
_PAGES = [
    Page(url="http://a.example/", body=b"<title>One</title>" + b"x" * 3000),
    Page(url="http://a.example/two", body=bytes(range(256)) * 900, mime_type="image/png"),
    Page(url="http://b.example/", digest=False),
]
_COLUMNS = (Document.url, Document.offset, Document.length, Document.digest, Document.packed_length)


def _archive(folder: Path, name: str, pages: Sequence[Page] = _PAGES) -> bytes:
    return write_pages(folder / name, pages).read_bytes()


def _index(database: Database, url: str) -> FileReport:
    return index_file(database, place_given(url), _OPTIONS)


def _documents(database: Database) -> list[tuple[Any, ...]]:
    with database.session() as session:
        return [tuple(row) for row in session.execute(select(*_COLUMNS).order_by(Document.url))]


def _address(database: Database, url: str) -> str:
    with database.session() as session:
        return f"/archive/{session.scalars(select(Document.key).where(Document.url == url)).one().hex}"


def _reads(store: ObjectStore) -> list[dict[str, str]]:
    return [fields for method, _path, fields in store.faults.asked if method == "GET"]


@pytest.fixture
async def client(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> TestClient[Request, Application]:
    app = create_app(settings, database, base_url=BASE_URL)
    return await aiohttp_client(app, auto_decompress=False)


@pytest.mark.parametrize("name", ["x.warc.gz", "x.warc.zst", "x.warc", "x.arc.gz", "x.arc"])
def test_an_object_is_indexed_with_the_same_documents_as_a_file(
    database: Database, store: ObjectStore, tmp_path: Path, name: str
) -> None:
    content = _archive(tmp_path, name)
    index_file(database, tmp_path / name, _OPTIONS)
    as_file = _documents(database)
    (tmp_path / name).unlink()

    report = _index(database, store.put(f"crawl/{name}", content))

    assert (counts(report), report.merged.problems) == ((0, 0, 3, 0), ())
    assert _documents(database) == as_file
    assert sum(row[-1] for row in as_file) <= len(content)
    check_counts(database)


@pytest.mark.parametrize("inner", ["", "in.wacz#"])
def test_files_in_a_stored_wacz_are_indexed_with_the_same_documents(
    database: Database, store: ObjectStore, tmp_path: Path, inner: str
) -> None:
    content = _archive(tmp_path, "x.warc.gz")
    index_file(database, tmp_path / "x.warc.gz", _OPTIONS)
    as_file = _documents(database)
    (tmp_path / "x.warc.gz").unlink()

    file = wacz(tmp_path / "1.wacz", {"x.warc.gz": content})
    if inner:
        multi_wacz(file, {"in.wacz": file.read_bytes()})
    store.put("packed/1.wacz", file.read_bytes())
    found = search([place_given(f"s3://{BUCKET}/packed/")]).archives

    assert list(map(str, found)) == [f"s3://{BUCKET}/packed/1.wacz#{inner}archive/x.warc.gz"]
    assert [counts(index_file(database, one, _OPTIONS)) for one in found] == [(0, 0, 3, 0)]
    assert _documents(database) == as_file
    with database.session() as session:
        (check,) = Checker(session=session, choice=FixityChoice()).check()
    assert (check.checked, check.findings) == (3, [])


def test_archive_objects_below_a_prefix_are_found_by_name(store: ObjectStore, tmp_path: Path) -> None:
    content = _archive(tmp_path, "x.warc.gz")
    for name in ("in/2.warc.gz", "in/1.warc.gz", "in/notes.txt", "in/3.warc.gz.open", "out/4.warc.gz"):
        store.put(name, content)
    found = search([place_given(f"s3://{BUCKET}/in/")])

    assert list(map(str, found.archives)) == [f"s3://{BUCKET}/in/{n}.warc.gz" for n in (1, 2)]
    assert list(map(str, found.refused)) == [f"s3://{BUCKET}/in/3.warc.gz.open"]


_FIRST_KEY = (
    "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>short/1.warc.gz</Key><Size>1</Size>"
    '<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"1"</ETag></Contents></ListBucketResult>'
)


def test_a_truncated_listing_is_continued_by_searches_and_refused_by_folders(store: ObjectStore) -> None:
    for number in (1, 2):
        store.put(f"short/{number}.warc.gz", b"x")
    store.faults.instead = lambda path: (
        _FIRST_KEY.encode() if "prefix=short" in path and "start-after" not in path else None
    )
    place = ObjectUrl(f"s3://{BUCKET}/short/")
    assert list(map(str, search([place]).archives)) == [f"{place}{n}.warc.gz" for n in (1, 2)]
    with pytest.raises(OSError, match="lists only some of the objects"):
        client_of(place).folder(place)


def test_an_object_is_read_again_only_if_its_etag_changed(
    database: Database, store: ObjectStore, tmp_path: Path
) -> None:
    content = _archive(tmp_path, "x.warc.gz")
    url = store.put("again/x.warc.gz", content)
    assert counts(_index(database, url)) == (3, 0, 0, 0)
    assert _index(database, url).skipped
    store.put("again/x.warc.gz", content)
    assert _index(database, url).skipped  # with a new date, but the same ETag

    more = [*_PAGES, Page(url="http://c.example/")]
    store.put("again/x.warc.gz", _archive(tmp_path, "y.warc.gz", more))
    assert counts(_index(database, url)) == (1, 3, 0, 0)


async def test_a_record_is_read_with_one_request_for_the_indexed_version(
    database: Database, store: ObjectStore, tmp_path: Path, client: TestClient[Request, Application]
) -> None:
    _index(database, store.put("serve/x.warc.gz", _archive(tmp_path, "x.warc.gz")))
    with database.session() as session:
        tag = session.scalars(select(Arc.tag)).one()
    for page in _PAGES:
        store.faults.asked.clear()
        answer = await client.get(_address(database, page.url))
        assert (answer.status, await answer.read()) == (200, page.body)
        (asked,) = _reads(store)
        assert asked["if-match"] == tag


async def test_a_document_in_a_replaced_object_is_answered_with_503(
    database: Database, store: ObjectStore, tmp_path: Path, client: TestClient[Request, Application]
) -> None:
    url = store.put("swap/x.warc.gz", _archive(tmp_path, "x.warc.gz"))
    _index(database, url)
    address = _address(database, _PAGES[0].url)
    store.put("swap/x.warc.gz", _archive(tmp_path, "y.warc.gz", [Page(url="http://a.example/", body=b"new")]))
    answer = await client.get(address)

    assert answer.status == 503
    assert "was replaced" in await answer.text()
    fault, _reason, checked = _fault(database)
    assert (fault, checked) == (Fault.CHANGED, 0)


def test_a_response_with_another_etag_than_requested_is_refused(store: ObjectStore) -> None:
    place = ObjectUrl(store.put("ignored/x.warc", b"old"))
    client = client_of(place)
    tag = client.facts(place).tag
    store.faults.added = {"ETag": '"new"'}
    with pytest.raises(ReplacedError, match="was replaced"):
        client.read(place, 0, 3, tag)
    store.faults.added = {"ETag": f"W/{tag}"}
    with pytest.raises(OSError, match="no strong ETag"):
        client.facts(place)


def _fault(database: Database) -> tuple[Fault, str, int]:
    with database.session() as session:
        (file,) = Checker(session=session, choice=FixityChoice()).check()
    (finding,) = file.findings
    return finding.fault, finding.reason, file.checked


async def test_missing_forbidden_and_unreachable_objects_are_distinguished(
    database: Database, store: ObjectStore, tmp_path: Path, client: TestClient[Request, Application],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    content = _archive(tmp_path, "x.warc.gz")
    url = store.put("three/x.warc.gz", content)
    _index(database, url)
    address = _address(database, _PAGES[0].url)
    seen: dict[str, tuple[Presence, Fault, str]] = {}

    async def look(name: str) -> None:
        caplog.clear()
        answer = await client.get(address)
        assert answer.status == 503
        assert store.key not in await answer.text()
        words = " ".join(caplog.messages)
        seen[name] = (presence(url), _fault(database)[0], words)

    store.faults.status = 403
    await look("forbidden")
    store.faults.status = 503
    await look("unreachable")
    store.faults.status = 0
    store.delete("three/x.warc.gz")
    await look("gone")

    assert {name: one[:2] for name, one in seen.items()} == {
        "forbidden": (Presence.UNKNOWN, Fault.UNREADABLE),
        "unreachable": (Presence.UNKNOWN, Fault.UNREADABLE),
        "gone": (Presence.GONE, Fault.MISSING),
    }
    assert "check the credentials" in seen["forbidden"][2]
    assert "does not answer as it should" in seen["unreachable"][2]
    assert "there is no such object" in seen["gone"][2]


@pytest.mark.parametrize("status", [403, 503, 0])
def test_documents_move_to_another_file_only_if_their_object_is_gone(
    database: Database, store: ObjectStore, tmp_path: Path, status: int
) -> None:
    content = _archive(tmp_path, "x.warc.gz")
    _index(database, store.put(f"move-{status}/x.warc.gz", content))
    if not status:
        store.delete("move-0/x.warc.gz")
    store.faults.status = status
    report = index_file(database, tmp_path / "x.warc.gz", _OPTIONS)

    assert counts(report) == ((0, 0, 3, 0) if status == 0 else (0, 0, 0, 3))
    check_counts(database)


@pytest.mark.usefixtures("store")
def test_an_object_in_a_missing_bucket_is_unknown_and_not_gone() -> None:
    assert presence("s3://another-bucket/x.warc.gz") is Presence.UNKNOWN
    assert presence(f"s3://{BUCKET}/nothing.warc.gz") is Presence.GONE


def test_requests_are_repeated_after_temporary_failures(
    database: Database, store: ObjectStore, tmp_path: Path
) -> None:
    url = store.put("moment/x.warc.gz", _archive(tmp_path, "x.warc.gz"))
    store.faults.status, store.faults.answers = 503, 5
    assert counts(_index(database, url)) == (3, 0, 0, 0)


def test_occasionally_truncated_responses_are_completed(
    database: Database, store: ObjectStore, tmp_path: Path
) -> None:
    url = store.put("pieces/x.warc.gz", _archive(tmp_path, "x.warc.gz"))
    store.faults.cut, store.faults.cuts = 700, 2
    assert counts(_index(database, url)) == (3, 0, 0, 0)


def test_always_truncated_responses_leave_no_partially_indexed_file(
    database: Database, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PATIENT_RETRY_SECONDS", 0)
    url = store.put("cut/x.warc.gz", _archive(tmp_path, "x.warc.gz"))
    _index(database, store.put("cut/y.warc.gz", _archive(tmp_path, "y.warc.gz", _PAGES[2:])))
    store.faults.cut = 1
    report = _index(database, url)

    assert not report.indexed
    assert report.merged.problems[0].failure.code is FailureCode.ARCHIVE_NOT_READABLE
    store.faults.cut = 0
    assert counts(_index(database, url))[0] == 2


def test_wrong_credentials_are_unknown_presence_until_they_are_corrected(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = store.put("keys/x.warc.gz", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    forget_clients()
    assert presence(url) is Presence.UNKNOWN

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "archive")
    keys = f"[archive]\naws_access_key_id = {store.key}\naws_secret_access_key = {store.secret}\n"
    (tmp_path / "credentials").write_text(keys)
    (tmp_path / "config").write_text(f"[profile archive]\nendpoint_url = {store.faults.address}\n")
    forget_clients()
    assert presence(url) is Presence.HERE


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:9", "http://key:secret@127.0.0.1:9", "http://h:port", "http://"]
)
def test_an_invalid_store_address_is_refused_without_showing_credentials(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    forget_clients()
    url = f"s3://{BUCKET}/x.warc.gz"
    assert presence(url) is Presence.UNKNOWN
    with pytest.raises(OSError, match="is not the address of an object store") as caught:
        client_of(ObjectUrl(url))
    assert "secret" not in str(caught.value)
    with pytest.raises(RemoteError, match="is not the address"), writing(BUCKET, "x"):
        pytest.fail("the block is not reached")


@pytest.mark.usefixtures("store")
def test_an_invalid_key_is_reported_as_a_failure_of_its_file(database: Database) -> None:
    place = ObjectUrl(f"s3://{BUCKET}/p//x.warc.gz")
    assert not index_file(database, place, _OPTIONS).indexed
    with pytest.raises(RemoteError, match="the key is not valid"), writing(BUCKET, place.key):
        pytest.fail("the block is not reached")


def test_empty_variables_are_ignored_and_schemes_are_case_insensitive(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store.put("variables/x.warc.gz", b"x")
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_SKIP_SIGNATURE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.faults.address.replace("http", "HTTP"))
    forget_clients()
    assert presence(url) is Presence.HERE


def test_failures_of_a_store_are_reported_with_the_cause(store: ObjectStore) -> None:
    place = ObjectUrl(f"s3://{BUCKET}/cause/x.warc.gz")
    answer = (
        b'<?xml version="1.0"?>\n<Error>\n<Code>ExpiredToken</Code>\n<Message>It ended.</Message>\n</Error>'
    )
    store.faults.status, store.faults.instead = 400, lambda _path: answer
    with pytest.raises(PermissionError, match=r"check the credentials .*ExpiredToken; Message: It ended"):
        client_of(place).facts(place)
    text = (
        "error sending request\n error: InvalidCertificate(\n  Other(\n   OtherError(\n    CaUsedAsEndEntity,"
    )
    error = as_os_error("s3://b/x", GenericError(text))
    assert str(error).endswith("error sending request (InvalidCertificate: CaUsedAsEndEntity)")


@pytest.mark.parametrize(
    ("status", "added"), [(0, {"Content-Range": "bytes 0-2/3"}), (200, {"Content-Range": "bytes 0-0/3"})]
)
def test_a_store_with_nonstandard_range_responses_is_refused(
    store: ObjectStore, status: int, added: dict[str, str]
) -> None:
    place = ObjectUrl(store.put("ranges/x.warc.gz", b"xyz"))
    store.faults.added, store.faults.left_out = added, ("content-range",)
    if status:
        store.faults.instead = lambda _path: b"x"
    with pytest.raises(OSError, match="the object store does not answer range requests as S3 does"):
        client_of(place).facts(place)


@pytest.mark.parametrize(
    ("scheme", "text", "kind"),
    [
        ("http", r"denied by the object store or the proxy in http_proxy; .*403 Forbidden$", PermissionError),
        ("https", r"store or the proxy in https_proxy does not .*Connect: TunnelUnsuccessful\)$", OSError),
    ],
)
def test_a_proxy_that_refuses_a_request_is_reported(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, scheme: str, text: str, kind: type[OSError]
) -> None:
    store.faults.status, store.faults.instead = 403, lambda _path: b"<!DOCTYPE html>\n<p>Denied."
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{scheme}://store.invalid")
    monkeypatch.setenv(f"{scheme}_proxy", store.faults.address)
    place = ObjectUrl(f"s3://{BUCKET}/proxied/x.warc.gz")
    with pytest.raises(kind, match=text):
        client_of(place).facts(place)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s3://", "names no bucket"),
        ("s3://b/p//x.warc.gz", "empty segment"),
        ("S3://b/p/../x/", "not supported"),
        ("https://user:secret@host/x.warc.gz", "credentials do not belong"),
    ],
)
def test_an_invalid_store_url_is_refused(given: str, message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        place_given(given)
    assert "secret" not in str(caught.value)


def test_the_name_of_a_file_is_the_last_path_segment() -> None:
    places: list[Place] = [
        place_given("s3://b/a/x%20y.warc.gz"), place_given("https://h/a/x%20y.warc.gz?z=1"),
        place_given("/a/x y.warc.gz"),
    ]  # fmt: skip
    assert [place.name for place in places] == ["x%20y.warc.gz", "x y.warc.gz", "x y.warc.gz"]


async def test_documents_listed_in_a_cdx_object_are_served_and_exported(
    database: Database, settings: Settings, store: ObjectStore, tmp_path: Path,
    client: TestClient[Request, Application],
) -> None:  # fmt: skip
    records = [warc_other("warcinfo"), *map(warc_record, _PAGES[:1])]
    content = write_archive(tmp_path / "x.warc.gz", records).read_bytes()
    begin = offsets(tmp_path / "x.warc.gz", records)[1]
    line = f"example,a)/ 20071102030405 http://a.example/ text/html 200 - - - - {begin} x.warc.gz\n"
    store.put("listed/x.warc.gz", content)
    listed = place_given(store.put("listed/list.cdx", f" CDX N b a m s k r M S V g\n{line}".encode()))
    options = IndexOptions(margin=1, archive_dir=place_given(f"s3://{BUCKET}/listed"))
    assert counts(index_file(database, listed, options)) == (1, 0, 0, 0)

    answer = await client.get(_address(database, _PAGES[0].url))
    assert (answer.status, await answer.read()) == (200, _PAGES[0].body)
    exported = b"".join(export_warc(database, settings.provider, Query(url=_PAGES[0].url, limit=10)))
    assert _PAGES[0].body in gzip.decompress(exported)
