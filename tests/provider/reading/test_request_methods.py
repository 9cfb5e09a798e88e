"""Answers to requests of other methods than GET are recognised by their request records, and ignored."""

import io
from collections.abc import Callable

import pytest

from provider.reading.captures import Capture, Ignored, read_captures
from tests.provider.archives import Page, request_record, warc_other, warc_record

URL = "https://forms.example/search"


def bodies(records: list[bytes]) -> list[str | int | None]:
    """Return what each record becomes: the kind under which it is ignored, or the length of its content."""
    found = read_captures(io.BytesIO(b"".join(records)))
    return [one.kind if isinstance(one, Ignored) else getattr(one, "length", None) for one in found]


def response(number: int, length: int, concurrent: str = "", url: str = URL, kind: str = "response") -> bytes:
    page = Page(url=url, body=b"x" * length, record_type=kind)
    record = warc_record(page).replace(b"0000-000000000000", b"0000-%012d" % number)
    return record.replace(b"WARC-Date", concurrent.encode() + b"WARC-Date")


def to(number: int) -> str:
    return f"WARC-Concurrent-To: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n"


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("kind", ["response", "revisit"])
def test_an_answer_whose_request_names_it_is_ignored_by_its_method(method: str, kind: str) -> None:
    pair = [response(1, 5, kind=kind), request_record(URL, method, 2, to(1))]
    page = [response(3, 7), request_record(URL, "GET", 4, to(3))]
    assert bodies([*page, *pair]) == [7, "request", method.lower(), "request"]


def test_an_answer_that_names_its_request_is_ignored() -> None:
    assert bodies([request_record(URL, "POST", 2), response(1, 5, to(2))]) == ["request", "post"]


def test_an_answer_and_its_request_are_found_with_other_records_between_them() -> None:
    others = [warc_other("metadata")] * 20 + [response(8, 9), request_record(URL, "GET", 9, to(8))]
    for first, second in ((to(2), ""), ("", to(1))):
        answer, request = response(1, 5, first), request_record(URL, "POST", 2, second)
        assert bodies([answer, *others, request])[0] == "post"
        assert bodies([request, *others, answer])[-1] == "post"


def test_the_second_of_several_named_records_counts_too() -> None:
    assert bodies([response(1, 5), request_record(URL, "POST", 2, to(7) + to(1))]) == ["post", "request"]


PAIRS: dict[str, Callable[[int, str], list[bytes]]] = {
    "answer first": lambda length, method: [response(0, length), request_record(URL, method, 0)],
    "request first": lambda length, method: [request_record(URL, method, 0), response(0, length)],
}


@pytest.mark.parametrize("order", PAIRS)
def test_neighbours_with_one_url_and_date_are_pairs_if_they_name_nothing(order: str) -> None:
    pair = PAIRS[order]
    found = bodies([*pair(7, "GET"), *pair(5, "POST"), *pair(3, "GET"), *pair(2, "HEAD"), *pair(1, "GET")])
    assert [one for one in found if one != "request"] == [7, "post", 3, "head", 1]


@pytest.mark.parametrize("order", PAIRS)
def test_the_number_of_neighbours_in_a_file_makes_no_difference(order: str) -> None:
    page = [warc_other("warcinfo"), *PAIRS[order](7, "GET")]
    found = bodies([*page * 90, *PAIRS[order](5, "POST"), *page * 90])
    assert (found.count("post"), found.count(7)) == (1, 180)
    assert found.index("post") in {270, 271}


def test_an_answer_stays_a_capture_if_no_request_belongs_to_it() -> None:
    elsewhere = "https://forms.example/other"
    assert bodies([response(1, 5), request_record(elsewhere, "POST", 2)]) == [5, "request"]
    assert bodies([response(1, 5), request_record(URL, "POST", 2, to(7))]) == [5, "request"]
    assert bodies([response(1, 5), warc_other("metadata"), request_record(URL, "POST", 2)])[0] == 5
    assert (
        bodies([response(1, 5), *[warc_other("metadata")] * 200, request_record(URL, "POST", 2, to(1))])[0]
        == 5
    )


def test_requests_that_name_no_method_leave_the_answer_a_capture() -> None:
    for line in ("gemini://x.example/\r\n", "GET", "", "get / HTTP/1.1\r\n"):
        record = request_record(URL, line, 2, to(1))
        assert bodies([response(1, 5), record]) == [5, "request"]
    ftp = request_record(URL, "RETR", 2, to(1)).replace(b"application/http", b"text/plain")
    assert bodies([response(1, 5), ftp]) == [5, "request"]


def test_a_method_without_a_name_of_its_own_is_counted_as_other() -> None:
    assert bodies([response(1, 5), request_record(URL, "BREW", 2, to(1))]) == ["other", "request"]


def test_the_order_of_records_is_kept() -> None:
    records = [record for number in range(300) for record in (response(number, number), b"garbage\r\n")]
    found = list(read_captures(io.BytesIO(b"".join(records))))
    assert [one.length for one in found if isinstance(one, Capture)] == list(range(300))
    assert [one.offset for one in found] == sorted(one.offset for one in found)  # type: ignore[union-attr]
