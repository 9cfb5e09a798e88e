"""CDX and CDXJ files list captures, which the archive files complete later."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from oai.failures import Failure, FailureCode
from provider.indexing.indexer import FileReport, IndexOptions, index_file
from provider.models import Arc, Document
from provider.reading.captures import Ignored
from provider.reading.cdx_files import FaultyLine, ListedCapture, read_cdx
from provider.storage.files import look_at
from tests.provider.archives import Page, offsets, warc_other, warc_record, write_archive, write_pages

OPTIONS = IndexOptions(margin=1)
AGAIN = IndexOptions(margin=1, again=True)
DIGEST = "A" * 32
HEADER_9 = " CDX N b a m s k r V g"
HEADER_11 = " CDX N b a m s k r M S V g"
LINE_9 = f"example,a)/ 20071102030405 http://a.example/ text/html 200 {DIGEST} - 1234 x.warc.gz"
LINE_11 = f"example,a)/ 20071102030405 http://a.example/ text/html 200 {DIGEST} - - 500 1234 sub/x.warc.gz"
JSON = (
    'example,a)/ 20071102030405 {"url": "http://a.example/", "mime": "text/html", "status": "200",'
    f' "digest": "sha1:{DIGEST}", "length": "500", "offset": "1234", "filename": "x.warc.gz"}}'
)
EXPECTED = ListedCapture(
    url="http://a.example/",
    host="a.example",
    archived=datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC),
    http_status=200,
    mime_type="text/html",
    digest=f"sha1:{DIGEST}",
    record_type="response",
    file_name="x.warc.gz",
    offset=1234,
)
PAGES = [Page(url=f"http://www.a.example/{number}") for number in range(3)]


def write(path: Path, *lines: str) -> Path:
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path) -> list[ListedCapture | FaultyLine | Ignored]:
    return list(read_cdx(look_at(path), lambda _: None))


def cdxj(path: Path, pages: list[Page], archive: Path) -> Path:
    """A list of the pages of an archive file that begins with a warcinfo record."""
    places = offsets(archive, [warc_other("warcinfo"), *map(warc_record, pages)])[1:]
    lines = []
    for page, place in zip(pages, places, strict=False):
        digits = "".join(filter(str.isdigit, page.date))[:14]
        facts = {
            "url": page.url,
            "mime": "warc/revisit" if page.record_type == "revisit" else page.mime_type,
            "status": str(page.status),
            "digest": page.payload_digest,
            "offset": str(place),
            "filename": archive.name,
        }
        lines.append(f"key {digits} {json.dumps(facts)}")
    return write(path, *lines)


def counts(report: FileReport) -> tuple[int, int, int, int, int]:
    merged = report.merged
    return merged.new, merged.unchanged, merged.moved, merged.duplicates, merged.completed


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("x.cdx", [HEADER_9, LINE_9]),
        ("x.cdx.gz", [HEADER_11, LINE_11]),
        ("x.cdxj", [JSON]),
        ("x.cdxj.gz", ["!OpenWayback-CDXJ 1.0", JSON, ""]),
    ],
)
def test_lines_of_all_forms_are_read_as_captures(tmp_path: Path, name: str, lines: list[str]) -> None:
    assert read(write(tmp_path / name, *lines)) == [EXPECTED]


def test_only_ascii_blanks_separate_columns(tmp_path: Path) -> None:
    """A URL may contain other blanks, such as those that `/cdx` writes unescaped."""
    (found,) = read(
        write(tmp_path / "x.cdx", HEADER_9, LINE_9.replace("example/ ", "example/\xa0\u3000\x85 "))
    )
    assert isinstance(found, ListedCapture)
    assert found.url == "http://a.example/\xa0\u3000\x85"


def test_revisits_and_times_with_fractions_are_read(tmp_path: Path) -> None:
    line = JSON.replace("text/html", "warc/revisit").replace("20071102030405", "20071102030405678")
    (found,) = read(write(tmp_path / "x.cdxj", line))
    assert isinstance(found, ListedCapture)
    assert (found.record_type, found.mime_type) == ("revisit", None)
    assert found.archived == datetime(2007, 11, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("x.cdx", LINE_9.replace(" 200 ", " "), "8 columns, but the first line of the file declares 9"),
        ("x.cdx", LINE_9.replace("20071102030405", "20071302030405"), "not a valid capture time"),
        ("x.cdx", LINE_9.replace("20071102030405", "2007"), "not a time stamp of 14"),
        ("x.cdx", LINE_9.replace("1234", "-"), "offset missing"),
        ("x.cdx", LINE_9.replace("1234", "12x"), "not a number of bytes"),
        ("x.cdx", LINE_9.replace("http://a.example/", "nonsense"), "is not a URL"),
        ("x.cdxj", "key 20071102030405", "not a sort key, time stamp and JSON object"),
        ("x.cdxj", "key 20071102030405 {", "not JSON"),
        ("x.cdxj", JSON.replace("filename", "file"), "filename missing"),
        ("x.cdxj", JSON.replace("http://a", r"http://\ud83d/a"), "half of a surrogate pair"),
        ("x.cdxj", JSON.replace('.gz"', r'\u0000.gz"'), "filename with NUL"),
        ("x.cdxj", JSON.replace('.gz"', f'{"ů" * 600}.gz"'), "a file name of more than 1,000 bytes"),
        ("x.cdxj", f"key 20071102030405 {'[' * 50_000}", "not JSON"),
    ],
)
def test_a_faulty_line_is_reported_with_its_number(tmp_path: Path, name: str, line: str, reason: str) -> None:
    good = [HEADER_9, LINE_9] if name == "x.cdx" else ["!header", JSON]
    first, faulty, last = read(write(tmp_path / name, *good, line, good[1]))
    assert first == last == EXPECTED
    assert isinstance(faulty, FaultyLine)
    assert faulty.reason.startswith("line 3: ")
    assert reason in faulty.reason
    assert faulty.offset == sum(len(one) + 1 for one in good)


def test_a_cdx_file_without_header_line_is_refused(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path / "x.cdx", LINE_9))
    assert isinstance(found, FaultyLine)
    assert "names the columns" in found.reason


def test_damaged_gzip_ends_the_file_with_a_faulty_line(tmp_path: Path) -> None:
    path = write(tmp_path / "x.cdxj.gz", *[JSON] * 2000)
    path.write_bytes(path.read_bytes()[:-20])
    *captures, last = read(path)
    assert isinstance(last, FaultyLine)
    assert "gzip" in last.reason
    assert all(isinstance(one, ListedCapture) for one in captures)


@pytest.mark.parametrize("url", ["dns:a.example", "metadata://gnu.org/wget.log", "file:///a.png"])
def test_lines_with_urls_of_other_schemes_are_ignored(tmp_path: Path, url: str) -> None:
    line = JSON.replace("http://a.example/", url)
    assert read(write(tmp_path / "x.cdxj", line)) == [Ignored(kind=url.partition(":")[0])]


@pytest.mark.parametrize("kind", ["request", "metadata", "warcinfo", "conversion"])
def test_lines_of_records_that_are_not_documents_are_counted_by_type(tmp_path: Path, kind: str) -> None:
    # As CDX-Writer with --all-records and OpenWayback write them; their other columns may be empty.
    columns = f"example,a)/ 20071102030405 http://a.example/ warc/{kind} - {DIGEST} - 1234 x.warc.gz"
    empty = columns.replace("20071102030405", "-").replace("http://a.example/", "-")
    assert read(write(tmp_path / "x.cdx", HEADER_9, columns, empty)) == [Ignored(kind=kind)] * 2


def test_the_warcinfo_line_of_cdx_writer_is_ignored(tmp_path: Path) -> None:
    line = LINE_9.replace("http://a.example/", "warcinfo:/x.warc.gz/tool").replace("text/html", "warc-info")
    assert read(write(tmp_path / "x.cdx", HEADER_9, line)) == [Ignored(kind="warcinfo")]


def test_a_resource_record_is_listed_as_a_resource(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path / "x.cdxj", JSON.replace("text/html", "warc/resource")))
    assert isinstance(found, ListedCapture)
    assert (found.record_type, found.mime_type) == ("resource", None)


BARE = LINE_9.replace("text/html 200", "- -").replace("1234", "99")
METADATA = LINE_9.replace("text/html 200", "unk -").replace("1234", "2345")


@pytest.mark.parametrize(
    "lines",
    [[LINE_9, BARE], [BARE, LINE_9], [LINE_9, BARE, METADATA], [BARE, LINE_9, METADATA]],
    ids=["response first", "request first", "crawler's order", "sorted"],
)
def test_request_and_metadata_lines_of_a_response_are_ignored(tmp_path: Path, lines: list[str]) -> None:
    # As pywb's `cdx-indexer -a` writes them.
    found = read(write(tmp_path / "x.cdx", HEADER_9, *lines))
    assert [one for one in found if isinstance(one, ListedCapture)] == [EXPECTED]
    assert found.count(Ignored(kind="other")) == len(lines) - 1


def test_a_line_without_status_is_kept_if_no_response_is_adjacent(tmp_path: Path) -> None:
    others = [LINE_9.replace("a.example/", f"{name}.example/") for name in "bc"]
    found = read(write(tmp_path / "x.cdx", HEADER_9, others[0], BARE, BARE, others[1], METADATA))
    assert [(one.url, one.offset) for one in found if isinstance(one, ListedCapture)] == [
        ("http://b.example/", 1234),
        ("http://a.example/", 99),
        ("http://a.example/", 99),
        ("http://c.example/", 1234),
        ("http://a.example/", 2345),
    ]


def test_only_responses_of_a_list_of_all_records_become_documents(database: Database, tmp_path: Path) -> None:
    request = "example,a)/ 20071102030405 http://a.example/ warc/request - - - 99 x.warc.gz"
    metadata = request.replace("request - -", f"metadata - {'B' * 32}").replace("99", "2345")
    report = index_file(database, write(tmp_path / "x.cdx", HEADER_9, request, LINE_9, metadata), OPTIONS)
    assert counts(report) == (1, 0, 0, 0, 0)
    assert (report.ignored, report.merged.problems) == ({"request": 1, "metadata": 1}, ())
    with database.session() as session:
        assert session.scalars(select(Document.offset)).all() == [1234]


@pytest.mark.parametrize("name", ["x.warc.gz", "x.warc"])
def test_listed_captures_become_documents_that_the_archive_file_completes(
    database: Database, tmp_path: Path, name: str
) -> None:
    archive = write_pages(tmp_path / "archive" / name, PAGES)
    listed = cdxj(tmp_path / "x.cdxj", PAGES, archive)
    assert counts(index_file(database, listed, OPTIONS)) == (3, 0, 0, 0, 0)
    with database.session() as session:
        (arc,) = session.scalars(select(Arc))
        assert (arc.path, arc.name, arc.documents) == (None, "x.warc", 3)
        before = session.execute(select(Document.key, Document.datestamp, Document.offset)).all()
        assert set(session.scalars(select(Document.length))) == {None}
    assert counts(index_file(database, archive, IndexOptions(margin=60))) == (0, 3, 0, 0, 3)
    with database.session() as session:
        (arc,) = session.scalars(select(Arc))
        assert (arc.path, arc.documents) == (str(archive), 3)
        after = session.execute(select(Document.key, Document.datestamp, Document.offset)).all()
        facts = session.execute(select(Document.length, Document.title).distinct()).all()
        assert [tuple(row) for row in facts] == [(len(PAGES[0].body), "A page")]
    assert {row.key for row in after} == {row.key for row in before}
    # Records contain title and length, so that harvesters need the change.
    assert min(row.datestamp for row in after) > max(row.datestamp for row in before)
    assert counts(index_file(database, archive, AGAIN)) == (0, 3, 0, 0, 0)
    assert counts(index_file(database, listed, OPTIONS)) == (0, 3, 0, 0, 0)


def test_a_listed_time_without_fraction_creates_no_second_document(
    database: Database, tmp_path: Path
) -> None:
    page = Page(url="http://a.example/", date="2007-11-02T03:04:05.678Z")
    archive = write_pages(tmp_path / "archive" / "x.warc.gz", [page])
    listed = cdxj(tmp_path / "x.cdxj", [page], archive)
    for order in ([listed, archive], [archive, listed]):
        for path in order:
            index_file(database, path, AGAIN)
    with database.session() as session:
        assert len(session.scalars(select(Document)).all()) == 1


def test_a_list_does_not_change_documents_of_an_indexed_archive_file(
    database: Database, tmp_path: Path
) -> None:
    archive = write_pages(tmp_path / "archive" / "x.warc.gz", PAGES)
    index_file(database, archive, OPTIONS)
    moved = [*PAGES[1:], PAGES[0]]
    assert counts(index_file(database, cdxj(tmp_path / "x.cdxj", moved, archive), OPTIONS)) == (0, 3, 0, 0, 0)
    assert counts(index_file(database, archive, AGAIN)) == (0, 3, 0, 0, 0)


def test_a_new_list_updates_the_places_in_files_that_are_not_indexed(
    database: Database, tmp_path: Path
) -> None:
    for name, expected in (("x.warc", (3, 0, 0, 0, 0)), ("x.warc.gz", (0, 0, 3, 0, 0))):
        listed = cdxj(tmp_path / "x.cdxj", PAGES, tmp_path / name)
        assert counts(index_file(database, listed, OPTIONS)) == expected


PREFLIGHT = Page(url="http://a.example/api", status=204, body=b"", mime_type=None)
POSTED = replace(PREFLIGHT, status=200, body=b"{}", mime_type="application/json")
REVISIT = replace(PAGES[0], record_type="revisit")


@pytest.mark.parametrize(
    ("pages", "duplicates"),
    [([PREFLIGHT, POSTED], 0), ([PAGES[0], REVISIT], 1), ([REVISIT, PAGES[0]], 1)],
)
def test_a_document_keeps_its_place_if_another_capture_of_its_second_is_listed(
    database: Database, tmp_path: Path, pages: list[Page], duplicates: int
) -> None:
    kept = next(page for page in pages if page.record_type == "response")
    steps = (("x.warc.gz", 1, 0, 0), ("x.warc.gz", 0, 1, 0), ("x.warc", 0, 0, 1), ("x.warc", 0, 1, 0))
    for name, *expected in steps:
        archive = tmp_path / name
        place = offsets(archive, [warc_other("warcinfo"), *map(warc_record, pages)])[1 + pages.index(kept)]
        report = index_file(database, cdxj(tmp_path / "x.cdxj", pages, archive), AGAIN)
        assert counts(report) == (*expected, duplicates, 0)
        codes = [problem.failure.code for problem in report.merged.problems]
        assert codes == [FailureCode.ARCHIVE_TIME_REPEATED] * (1 - duplicates)
        with database.session() as session:
            rows = session.execute(select(Document.offset, Document.digest, Document.record_type)).all()
        assert [tuple(row) for row in rows] == [(place, kept.payload_digest, "response")]


def test_listed_files_get_their_paths_from_the_archive_folder(database: Database, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive" / "x.warc.gz", [warc_other("warcinfo")])
    listed = write(tmp_path / "x.cdxj", JSON, JSON.replace("x.warc.gz", "gone.warc.gz").replace("/a.", "/b."))
    for folder in (None, tmp_path / "archive" / ".." / "archive"):
        index_file(database, listed, IndexOptions(margin=1, archive_dir=folder))
    with database.session() as session:
        rows = session.execute(select(Arc.name, Arc.path).order_by(Arc.name)).all()
        assert [tuple(row) for row in rows] == [("gone.warc", None), ("x.warc", str(archive))]
    assert not index_file(database, archive, OPTIONS).skipped


def test_a_listed_file_is_recognised_if_its_path_was_stored_with_dots(
    database: Database, tmp_path: Path
) -> None:
    archive = write_archive(tmp_path / "x.warc.gz", [warc_other("warcinfo")])
    (tmp_path / "sub").mkdir()
    index_file(database, tmp_path / "sub" / ".." / "x.warc.gz", OPTIONS)
    index_file(database, write(tmp_path / "x.cdxj", JSON), IndexOptions(margin=1, archive_dir=tmp_path))
    with database.session() as session:
        assert session.scalars(select(Arc.path)).all() == [str(archive)]


def test_a_listed_name_that_two_files_have_is_reported_as_ambiguous(
    database: Database, tmp_path: Path
) -> None:
    for folder, page in zip("pq", PAGES, strict=False):
        index_file(database, write_pages(tmp_path / folder / "x.warc.gz", [page]), OPTIONS)
    report = index_file(database, write(tmp_path / "x.cdxj", JSON), OPTIONS)
    assert counts(report) == (0, 0, 0, 0, 0)
    (problem,) = report.merged.problems
    assert "2 archive files are named 'x.warc'" in problem.reason
    facts = {"name": "x.warc", "count": 2}
    assert problem.failure == Failure(code=FailureCode.ARCHIVE_NAME_AMBIGUOUS, facts=facts)


def test_other_content_at_the_same_url_and_time_is_a_problem(database: Database, tmp_path: Path) -> None:
    index_file(database, write(tmp_path / "x.cdxj", JSON), OPTIONS)
    report = index_file(database, write(tmp_path / "y.cdxj", JSON.replace(DIGEST, "B" * 32)), OPTIONS)
    assert counts(report) == (0, 0, 0, 0, 0)
    assert "the digest differs from" in report.merged.problems[0].reason
    assert report.merged.problems[0].failure.code == FailureCode.ARCHIVE_DIGEST_DIFFERS


def test_indexing_reports_a_faulty_line_with_its_number(database: Database, tmp_path: Path) -> None:
    report = index_file(database, write(tmp_path / "x.cdxj", JSON, "key 20071102030405"), OPTIONS)
    assert [problem.failure for problem in report.merged.problems] == [
        Failure(code=FailureCode.ARCHIVE_LINE_INVALID, facts={"line": 2})
    ]


@pytest.mark.parametrize("mime", ["text/html", "warc/revisit", "image/png"])
def test_a_listed_document_gets_digest_and_type_from_the_record_in_its_file(
    database: Database, tmp_path: Path, mime: str
) -> None:
    archive = write_pages(tmp_path / "archive" / "x.warc.gz", PAGES[:1])
    listed = cdxj(tmp_path / "x.cdxj", PAGES[:1], archive)
    text = listed.read_text().replace(PAGES[0].payload_digest, f"sha1:{DIGEST}").replace("text/html", mime)
    listed.write_text(text.replace('"200"', '"404"'))
    assert counts(index_file(database, listed, OPTIONS)) == (1, 0, 0, 0, 0)
    report = index_file(database, archive, OPTIONS)
    assert (counts(report), report.merged.problems) == ((0, 1, 0, 0, 1), ())
    with database.session() as session:
        found = session.scalars(select(Document)).one()
    assert (found.digest, found.record_type, found.http_status, found.length) == (
        PAGES[0].payload_digest, "response", 200, len(PAGES[0].body),
    )  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS"])
def test_lines_of_answers_to_other_methods_than_get_are_ignored(tmp_path: Path, method: str) -> None:
    url = "https://forms.example/search"
    fields = {"url": url, "mime": "text/html", "status": "200", "offset": "0", "filename": "x.warc.gz"}
    key = f"example,forms)/search?__wb_method={method.lower()}&name=jana"
    listed = [
        f"example,forms)/search 20200101100000 {json.dumps(fields | {'method': method})}",
        f"{key} 20200101100000 {json.dumps(fields)}",
        f"example,forms)/search 20200101100000 {json.dumps(fields | {'method': 'GET'})}",
    ]
    *ignored, page = read(write(tmp_path / "x.cdxj", *listed))
    assert ignored == [Ignored(kind=method.lower())] * 2
    assert isinstance(page, ListedCapture)
    columns = f"{key} 20200101100000 {url} text/html 200 - - 0 x.warc.gz"
    assert read(write(tmp_path / "x.cdx", HEADER_9, columns)) == ignored[:1]


@pytest.mark.parametrize("beside", [{"mime": "unk"}, {"mime": "-"}])
@pytest.mark.parametrize("is_first", [True, False])
def test_metadata_and_request_beside_an_ignored_answer_are_ignored_too(
    tmp_path: Path, beside: dict[str, str], *, is_first: bool
) -> None:
    fields = {"url": "https://forms.example/search", "filename": "x.warc.gz"}
    answer = fields | {"mime": "text/html", "status": "200", "offset": "0", "method": "POST"}
    lines = [answer, fields | {"offset": "600"} | beside]
    listed = [
        f"example,forms)/search 20200101100000 {json.dumps(line)}"
        for line in (lines[::-1] if is_first else lines)
    ]
    found = read(write(tmp_path / "x.cdxj", *listed))
    assert sorted(one.kind for one in found if isinstance(one, Ignored)) == ["other", "post"]
