"""Records become typed captures; invalid ones are refused with the reason."""

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from provider.reading.archived_record import ArchivedRecord
from provider.reading.captures import Capture, Ignored, read_captures
from provider.reading.framing import FramingProblem
from tests.provider.archives import Page, arc_record, warc_other, warc_record

PAGE = Page(url="http://www.a.example/x?y=1")
HERE = Path(__file__).parents[3].parent / "shared" / "archives"


def read(record: bytes) -> Capture | Ignored | FramingProblem:
    (found,) = read_captures(io.BytesIO(record))
    return found


def capture(record: bytes) -> Capture:
    found = read(record)
    assert isinstance(found, Capture), found
    return found


def test_a_warc_response_becomes_a_capture_with_all_fields() -> None:
    assert capture(warc_record(PAGE)) == Capture(
        offset=0,
        record_type="response",
        url="http://www.a.example/x?y=1",
        host="www.a.example",
        archived=datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC),
        http_status=200,
        mime_type="text/html",
        digest=PAGE.payload_digest,
        length=len(PAGE.body),
        title="A page",
        packed_length=len(warc_record(PAGE)),
    )


def test_an_arc_record_becomes_the_same_capture_as_a_warc_record() -> None:
    facts = capture(arc_record(PAGE))
    assert facts.packed_length == len(arc_record(PAGE))
    assert facts == capture(warc_record(PAGE))._replace(packed_length=facts.packed_length)


def test_a_digest_that_is_missing_is_computed() -> None:
    page = Page(url="http://a.example/", digest=False, body=b"x" * 200_000)
    assert capture(warc_record(page)).digest == page.payload_digest


def test_a_header_without_end_is_reported_with_its_line_endings() -> None:
    found = read(warc_record(PAGE).replace(b"\r\n", b"\r\r\n"))
    assert isinstance(found, FramingProblem)
    assert found.reason.startswith("the WARC header has no end: its lines end in CR CR LF")


def test_a_payload_digest_that_equals_the_block_digest_is_recomputed() -> None:
    of_block = Page(url=PAGE.url, body=PAGE.http).payload_digest
    stated = f"WARC-Payload-Digest: {of_block}\r\nWARC-Block-Digest: {of_block}".encode()
    record = warc_record(PAGE).replace(f"WARC-Payload-Digest: {PAGE.payload_digest}".encode(), stated)
    assert capture(record).digest == PAGE.payload_digest
    record = record.replace(b"application/http; msgtype=response", b"text/dns")
    assert capture(record).digest == of_block


def test_a_stated_digest_is_stored_unchanged() -> None:
    record = warc_record(PAGE).replace(PAGE.payload_digest.encode(), b"md5:0123")
    assert capture(record).digest == "md5:0123"


def test_a_digest_without_an_algorithm_is_a_sha_1_if_it_has_the_form_of_one() -> None:
    for kind in ("response", "revisit"):
        record = warc_record(replace(PAGE, record_type=kind))
        assert capture(record.replace(b"sha1:", b"")).digest == PAGE.payload_digest
        other = capture(record.replace(PAGE.payload_digest.encode(), b"ABC"))
        assert other.digest == (PAGE.payload_digest if kind == "response" else None)


def test_a_resource_has_the_type_and_digest_of_its_block() -> None:
    page = Page(url="http://a.example/logo", record_type="resource", mime_type="image/png", body=b"png")
    found = capture(warc_record(page))
    assert (found.mime_type, found.http_status, found.length) == ("image/png", None, 3)
    assert found.digest == page.payload_digest


@pytest.mark.parametrize(
    ("declared", "expected"),
    [("text/plain", "text/plain"), ("Application/HTTP;msgtype=response", None), ("", None)],
)
def test_a_response_that_is_not_http_has_the_type_of_its_record(declared: str, expected: str | None) -> None:
    page = Page(
        url="whois://whois.a.example/a", record_type="resource", mime_type=declared, body=b"domain: a"
    )
    record = warc_record(page).replace(b"WARC-Type: resource", b"WARC-Type: response")
    found = capture(record)
    assert (found.record_type, found.mime_type, found.http_status) == ("response", expected, None)
    described = ArchivedRecord(io.BytesIO(record), 0).description
    assert (described.content_type, described.length) == (expected, len(page.body))


@pytest.mark.parametrize("write", [warc_record, arc_record])
def test_an_icy_response_is_read_like_an_http_response(write: Callable[[Page], bytes]) -> None:
    page = Page(url="http://radio.example/stream", mime_type="audio/mpeg", body=b"\xff\xfbmusic")
    record = write(page).replace(b"HTTP/1.1 200 Anything", b"ICY 200 Anything else")
    found = capture(record)
    assert (found.mime_type, found.http_status, found.length) == ("audio/mpeg", 200, len(page.body))
    assert found.digest == page.payload_digest
    described = ArchivedRecord(io.BytesIO(record), 0).description
    assert (described.content_type, described.http_status) == ("audio/mpeg", 200)


@pytest.mark.parametrize("write", [warc_record, arc_record])
def test_interim_responses_before_the_final_response_are_skipped(
    write: Callable[[Page], bytes],
) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 103\r\nContent-Type: a/b\r\nLink: </x>\r\n\r\n"
    plain = write(PAGE)
    length = len(PAGE.http)
    record = plain.replace(b"HTTP/1.1 200", interim + b"HTTP/1.1 200")
    record = record.replace(f"{length}\n".encode(), f"{length + len(interim)}\n".encode())
    record = record.replace(f": {length}\r\n".encode(), f": {length + len(interim)}\r\n".encode())
    assert capture(record)._replace(packed_length=None) == capture(plain)._replace(packed_length=None)
    opened = ArchivedRecord(io.BytesIO(record), 0)
    assert opened.description == ArchivedRecord(io.BytesIO(plain), 0).description
    assert b"".join(opened.blocks(PAGE.payload_digest)) == PAGE.body
    assert b"".join(opened.block()) == interim + PAGE.http
    assert opened.block_length == len(interim) + length


@pytest.mark.parametrize("head", ["101 Switching Protocols", "100 Continue"])
def test_a_response_with_only_an_informational_status_keeps_it(head: str) -> None:
    status = int(head[:3])
    body = b"HTTP/1.1 200 OK\r\n\r\n" if status == 101 else b"any content"
    page = Page(url="http://a.example/", status=status, body=body)
    found = capture(warc_record(page))
    assert (found.http_status, found.length, found.digest) == (status, len(body), page.payload_digest)


def test_no_digest_is_computed_for_a_revisit_without_one() -> None:
    page = Page(url="http://a.example/", record_type="revisit", body=b"", digest=False, status=304)
    found = capture(warc_record(page))
    assert (found.digest, found.http_status, found.length) == (None, 304, 0)


@pytest.mark.parametrize(("status", "kept"), [(304, False), (200, True)])
def test_digest_of_an_empty_body_is_kept_unless_status_is_304(status: int, *, kept: bool) -> None:
    page = Page(url="http://a.example/", record_type="revisit", body=b"", status=status)
    assert capture(warc_record(page)).digest == (page.payload_digest if kept else None)


def test_an_arc_record_without_http_headers_consists_of_content() -> None:
    record = b"http://a.example/ 192.0.2.1 20071102030405 text/plain 11\nhello\nworld\n"
    found = capture(record)
    assert (found.length, found.mime_type, found.http_status) == (11, "text/plain", None)
    # The digest of these eleven bytes, computed by another program.
    assert found.digest == "sha1:PW4CPQIK7QLRTBRVALHZKOLXGGZDXC5O"


@pytest.mark.parametrize("kind", ["warcinfo", "request", "metadata", "conversion"])
def test_other_records_are_counted_by_their_type(kind: str) -> None:
    assert read(warc_other(kind)) == Ignored(kind=kind)


def test_records_of_unknown_type_are_counted_as_other() -> None:
    assert read(warc_other("x" * 500)) == Ignored(kind="other")


@pytest.mark.parametrize("kind", ["WARC-Type: \r\n", ""])
def test_a_record_without_a_type_is_a_problem(kind: str) -> None:
    found = read(warc_record(PAGE).replace(b"WARC-Type: response\r\n", kind.encode()))
    assert isinstance(found, FramingProblem)
    assert (found.failure.code, found.reason) == ("archive_record_invalid", "the record has no type")


@pytest.mark.parametrize("write", [warc_record, arc_record])
@pytest.mark.parametrize("url", ["http:/a.example/x", "https:a.example", "FTP:/a.example/"])
def test_a_url_with_too_few_slashes_is_a_problem(write: Callable[[Page], bytes], url: str) -> None:
    found = read(write(Page(url=url)))
    assert isinstance(found, FramingProblem)
    assert "has no valid host name" in found.reason


def test_a_segmented_record_is_reported_and_its_continuation_ignored() -> None:
    first = warc_record(PAGE).replace(b"WARC-Date", b"WARC-Segment-Number: 1\r\nWARC-Date")
    rest = warc_other("continuation").replace(b"WARC-Date", b"WARC-Segment-Number: 2\r\nWARC-Date")
    problem, ignored, other = read_captures(io.BytesIO(first + rest + warc_record(PAGE)))
    assert isinstance(problem, FramingProblem)
    assert (problem.offset, problem.failure.code) == (0, "archive_record_segmented")
    assert ignored == Ignored(kind="continuation")
    assert isinstance(other, Capture)


@pytest.mark.parametrize("write", [warc_record, arc_record])
def test_dns_records_are_ignored(write: Callable[[Page], bytes]) -> None:
    assert read(write(Page(url="dns:a.example"))) == Ignored(kind="dns")


def test_metadata_records_of_wget_are_ignored_with_or_without_brackets() -> None:
    for target in ("metadata://gnu.org/software/wget/warc/wget.log", "<metadata://gnu.org/MANIFEST.txt>"):
        page = Page(url=target, record_type="resource", mime_type="text/plain", body=b"--warc-file\n")
        assert read(warc_record(page)) == Ignored(kind="metadata")


@pytest.mark.parametrize("url", ["file:///cap.png", "file://localhost/srv/site/index.html"])
def test_records_with_file_urls_are_ignored(url: str) -> None:
    page = Page(url=url, record_type="resource", mime_type="image/png", body=b"png")
    assert read(warc_record(page)) == Ignored(kind="file")


def test_a_blank_in_a_url_is_escaped() -> None:
    for write in (warc_record, arc_record):
        assert capture(write(Page(url="http://a.example/a b"))).url == "http://a.example/a%20b"


def test_angle_brackets_around_a_url_are_removed() -> None:
    assert capture(warc_record(Page(url="<http://a.example/>"))).url == "http://a.example/"


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("2016-01-11T23:24:25.412030Z", datetime(2016, 1, 11, 23, 24, 25, 412_030, tzinfo=UTC)),
        ("2016-01-11T23:24:25.4Z", datetime(2016, 1, 11, 23, 24, 25, 400_000, tzinfo=UTC)),
        ("2016-01-11T23:24:25.123456789Z", datetime(2016, 1, 11, 23, 24, 25, 123_456, tzinfo=UTC)),
        ("2016-01", datetime(2016, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_capture_time_is_read_with_its_precision(date: str, moment: datetime) -> None:
    assert capture(warc_record(Page(url="http://a.example/", date=date))).archived == moment


@pytest.mark.parametrize(
    "date",
    [
        "2007-13-01T00:00:00Z",
        "2007-02-30",
        "yesterday",
        "",
        "0000-01-01T00:00:00Z",
        "2009-03-99T08:43:19-0800",
        "0001-01-01T00:00:00+0100",
    ],
)
def test_an_impossible_capture_time_is_refused(date: str) -> None:
    found = read(warc_record(Page(url="http://a.example/", date=date)))
    assert isinstance(found, FramingProblem)
    assert "not a valid capture time" in found.reason


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("2016020900", datetime(2016, 2, 9, tzinfo=UTC)),
        ("200011101120", datetime(2000, 11, 10, 11, 20, tzinfo=UTC)),
        ("2000111011203", datetime(2000, 11, 10, 11, 20, 30, tzinfo=UTC)),
        ("201512000000000", datetime(2015, 12, 1, tzinfo=UTC)),
        ("20151200000000", datetime(2015, 12, 1, tzinfo=UTC)),
        ("2000082305410049", datetime(2000, 8, 23, 5, 41, tzinfo=UTC)),
        ("200009180023002953", datetime(2000, 9, 18, 0, 23, tzinfo=UTC)),
        ("20160211000000jpg", datetime(2016, 2, 11, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("before", [[], [arc_record(PAGE)]])
def test_an_arc_date_of_another_length_is_truncated_or_padded_to_14_digits(
    date: str, moment: datetime, before: list[bytes]
) -> None:
    # After another record, the line must also be recognised as the beginning of a record.
    *others, found = read_captures(io.BytesIO(b"".join([*before, arc_record(PAGE, date=date)])))
    assert [getattr(one, "date_adjusted", None) for one in others] == [False] * len(before)
    assert isinstance(found, Capture), found
    assert (found.archived, found.date_adjusted) == (moment, True)


@pytest.mark.parametrize(
    "line",
    [
        b"http://a.example/tv/a b.asp 192.0.2.1 20000824015105 text/html; Charset=iso-8859-1 %d\n",
        b"http://a.example/tv/a b.asp 192.0.2.1 20000824015105 text/html;charset=x; q=1 %d\n",
        b"http://a.example/tv/a b.asp 192.0.2.1 20000824015105  %d\n",
        b"http://a.example/tv/a b.asp 20000824015105 192.0.2.1 text/html %d\n",
    ],
    ids=["parameter", "parameters", "no type", "transposed"],
)
def test_arc_headers_of_alexas_crawlers_are_read(line: bytes) -> None:
    record = line % len(PAGE.http) + PAGE.http + b"\n"
    first, second = read_captures(io.BytesIO(record * 2))
    for found in (first, second):
        assert isinstance(found, Capture), found
        assert (found.url, found.date_adjusted) == ("http://a.example/tv/a%20b.asp", False)
        assert found.archived == datetime(2000, 8, 24, 1, 51, 5, tzinfo=UTC)
        assert found.length == len(PAGE.body)


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("2009-03-65T08:43:19-0800", datetime(2009, 3, 6, 16, 43, 19, tzinfo=UTC)),
        ("2009-01-13T22:46:01-0800", datetime(2009, 1, 14, 6, 46, 1, tzinfo=UTC)),
        ("2009-02-12T01:02:03-0800", datetime(2009, 2, 12, 9, 2, 3, tzinfo=UTC)),
        ("2020-01-02T03:04:09.1234567+01:00", datetime(2020, 1, 2, 2, 4, 9, 123456, tzinfo=UTC)),
        ("2012-02-10T21:50:59+01:00", datetime(2012, 2, 10, 20, 50, 59, tzinfo=UTC)),
    ],
)
def test_dates_of_clueweb_with_day_of_year_and_offset_are_read(date: str, moment: datetime) -> None:
    found = capture(warc_record(Page(url="http://a.example/", date=date)))
    assert (found.archived, found.date_adjusted) == (moment, True)


@pytest.mark.parametrize(
    ("write", "date", "microsecond"),
    [
        (warc_record, "2016-12-31T23:59:60Z", 0),
        (warc_record, "2016-12-31T23:59:60.25Z", 250_000),
        (warc_record, "2016-12-31T15:59:60-0800", 0),
        (arc_record, "20161231235960", 0),
    ],
)
def test_a_leap_second_is_read_as_the_second_before_it(
    write: Callable[[Page], bytes], date: str, microsecond: int
) -> None:
    found = capture(write(Page(url="http://a.example/", date=date)))
    assert found.archived == datetime(2016, 12, 31, 23, 59, 59, microsecond, tzinfo=UTC)
    assert found.date_adjusted


@pytest.mark.parametrize("date", ["20071301000000", "2007", "200711020", "a0d1fdddf3165d04", "2" * 19])
def test_an_impossible_arc_date_is_refused(date: str) -> None:
    found = read(arc_record(PAGE, date=date))
    assert isinstance(found, FramingProblem)
    assert "not a valid capture time" in found.reason


@pytest.mark.parametrize(
    "url", ["", "no url", "/relative", "http://", "http:///x", "http://" + "a" * 300, "http://a.example/\x07"]
)
def test_a_target_that_is_not_a_url_is_refused(url: str) -> None:
    found = read(warc_record(Page(url=url)))
    assert isinstance(found, FramingProblem)
    assert "URL" in found.reason


def test_the_record_after_a_refused_one_is_read() -> None:
    both = warc_record(Page(url="no url")) + warc_record(PAGE)
    first, second = read_captures(io.BytesIO(both))
    assert isinstance(first, FramingProblem)
    assert isinstance(second, Capture)


def test_a_record_with_a_too_long_http_header_is_refused_and_the_next_one_read() -> None:
    """The rest of the header is read neither as payload nor as records."""
    forged = warc_record(Page(url="http://forged.example/"))
    long = replace(PAGE, http_headers="X-Long: " + "x" * 1_048_576 + "\r\n", body=b"\n" + forged)
    following = warc_record(replace(PAGE, url="http://b.example/"))
    problem, found = read_captures(io.BytesIO(warc_record(long) + following))
    assert isinstance(problem, FramingProblem)
    assert problem.reason == "the HTTP header is longer than 1,048,576 bytes"
    assert isinstance(found, Capture)
    assert found.url == "http://b.example/"


def test_folded_and_unusual_header_lines_are_read() -> None:
    record = warc_record(PAGE).replace(b"WARC-Type: response", b"warc-type:response\r\nX-Y: a\r\n b")
    assert capture(record).record_type == "response"


@pytest.mark.skipif(not HERE.is_dir(), reason="the sample archives are not here")
def test_every_sample_archive_can_be_read_to_its_end() -> None:
    found = []
    for path in sorted(HERE.glob("*arc*")):
        with path.open("rb") as file:
            found += list(read_captures(file))
    assert sum(isinstance(one, Capture) for one in found) == 196
    assert sum(isinstance(one, FramingProblem) for one in found) == 4
