"""What a record says becomes a typed capture; what cannot be is refused with the reason."""

import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

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


def test_a_warc_response_gives_all_its_facts() -> None:
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
    )


def test_an_arc_record_gives_the_same_facts_as_a_warc_one() -> None:
    assert capture(arc_record(PAGE)) == capture(warc_record(PAGE))


def test_a_digest_that_is_missing_is_computed() -> None:
    page = Page(url="http://a.example/", digest=False, body=b"x" * 200_000)
    assert capture(warc_record(page)).digest == page.payload_digest


def test_a_digest_that_is_there_is_taken_as_it_is() -> None:
    record = warc_record(PAGE).replace(PAGE.payload_digest.encode(), b"md5:0123")
    assert capture(record).digest == "md5:0123"


def test_a_resource_has_the_type_and_digest_of_its_block() -> None:
    page = Page(url="http://a.example/logo", record_type="resource", mime_type="image/png", body=b"png")
    found = capture(warc_record(page))
    assert (found.mime_type, found.http_status, found.length) == ("image/png", None, 3)
    assert found.digest == page.payload_digest


def test_a_revisit_without_digest_gets_none() -> None:
    page = Page(url="http://a.example/", record_type="revisit", body=b"", digest=False, status=304)
    found = capture(warc_record(page))
    assert (found.digest, found.http_status, found.length) == (None, 304, 0)


def test_an_arc_record_without_http_headers_is_all_content() -> None:
    record = b"http://a.example/ 192.0.2.1 20071102030405 text/plain 11\nhello\nworld\n"
    found = capture(record)
    assert (found.length, found.mime_type, found.http_status) == (11, "text/plain", None)
    # The digest of these eleven bytes, worked out by other means.
    assert found.digest == "sha1:PW4CPQIK7QLRTBRVALHZKOLXGGZDXC5O"


@pytest.mark.parametrize("kind", ["warcinfo", "request", "metadata", "conversion"])
def test_other_records_are_counted_by_their_type(kind: str) -> None:
    assert read(warc_other(kind)) == Ignored(kind=kind)


def test_an_unheard_of_type_is_counted_as_other() -> None:
    assert read(warc_other("x" * 500)) == Ignored(kind="other")


@pytest.mark.parametrize("write", [warc_record, arc_record])
def test_a_name_look_up_is_no_document(write: Callable[[Page], bytes]) -> None:
    assert read(write(Page(url="dns:a.example"))) == Ignored(kind="dns")


def test_a_blank_in_a_url_is_written_as_blanks_are() -> None:
    for write in (warc_record, arc_record):
        assert capture(write(Page(url="http://a.example/a b"))).url == "http://a.example/a%20b"


def test_brackets_around_a_url_are_no_part_of_it() -> None:
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
def test_a_capture_time_is_as_fine_as_it_is_stated(date: str, moment: datetime) -> None:
    assert capture(warc_record(Page(url="http://a.example/", date=date))).archived == moment


@pytest.mark.parametrize(
    "date", ["2007-13-01T00:00:00Z", "2007-02-30", "yesterday", "", "0000-01-01T00:00:00Z"]
)
def test_an_impossible_capture_time_is_refused(date: str) -> None:
    found = read(warc_record(Page(url="http://a.example/", date=date)))
    assert isinstance(found, FramingProblem)
    assert "not a valid capture time" in found.reason


@pytest.mark.parametrize("date", ["20071301000000", "201404010000000000", "2007"])
def test_an_impossible_arc_date_is_refused(date: str) -> None:
    found = read(arc_record(PAGE, date=date))
    assert isinstance(found, FramingProblem)
    assert "not a valid capture time" in found.reason


@pytest.mark.parametrize(
    "url", ["", "no url", "/relative", "http://", "http:///x", "http://" + "a" * 300, "http://a.example/\x07"]
)
def test_a_target_that_is_no_url_is_refused(url: str) -> None:
    found = read(warc_record(Page(url=url)))
    assert isinstance(found, FramingProblem)
    assert "URL" in found.reason


def test_a_refused_record_does_not_cost_the_next_one() -> None:
    both = warc_record(Page(url="no url")) + warc_record(PAGE)
    first, second = read_captures(io.BytesIO(both))
    assert isinstance(first, FramingProblem)
    assert isinstance(second, Capture)


def test_folded_and_odd_header_lines_are_understood() -> None:
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
