"""A record matches a document if type, URL, time and length are those in the index."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from provider.holdings.record_matching import difference

TIME = datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC)
LISTED = {"length": None}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, None),
        ({"archived": TIME + timedelta(milliseconds=500)}, None),
        ({"length": 6}, "the record declares 5 bytes of content, but 6 when it was indexed"),
        ({"length": 4}, "the record declares 5 bytes of content, but 4 when it was indexed"),
        ({"record_type": "revisit"}, "a record of type 'response' was found, not 'revisit'"),
        ({"url": "http://b.cz/"}, "a record of http://a.cz/ was found"),
        ({"url": "https://a.cz/"}, "a record of http://a.cz/ was found"),
        ({"archived": TIME + timedelta(seconds=1)}, "a record of 2007-11-02T03:04:05Z was found"),
        (LISTED, None),
        (LISTED | {"record_type": "revisit"}, None),
        (LISTED | {"url": "https://A.cz"}, None),
        (LISTED | {"url": "http://www.a.cz/"}, "a record of http://a.cz/ was found"),
        (LISTED | {"archived": TIME + timedelta(seconds=1)}, "a record of 2007-11-02T03:04:05Z was found"),
    ],
)
def test_a_record_differs_from_its_row_in_type_url_time_or_length(
    row: dict[str, object], expected: str | None
) -> None:
    record = {"record_type": "response", "target": "http://a.cz/", "length": 5}
    found: Any = SimpleNamespace(**record, date="2007-11-02T03:04:05Z", is_arc=False)
    indexed = {"record_type": "response", "url": "http://a.cz/", "length": 5, "archived": TIME}
    assert difference(found, SimpleNamespace(**{**indexed, **row})) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"record_type": "request"}, "a record of type 'request' was found, not 'response'"),
        ({"target": "no URL"}, "a different record was found: 'no URL' is not a URL"),
        ({"date": "yesterday"}, "a different record was found: 'yesterday' is not a valid capture time"),
        ({"date": "20071102030405", "is_arc": True}, None),
    ],
)
def test_a_record_that_is_not_a_capture_does_not_match(
    change: dict[str, object], expected: str | None
) -> None:
    record = {"record_type": "response", "target": "http://a.cz/", "length": 5, "is_arc": False}
    found: Any = SimpleNamespace(**{**record, "date": "2007-11-02T03:04:05Z", **change})
    indexed: Any = SimpleNamespace(record_type="response", url="http://a.cz/", length=None, archived=TIME)
    assert difference(found, indexed) == expected
