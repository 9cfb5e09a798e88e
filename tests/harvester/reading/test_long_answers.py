"""Long answers for which a regular expression that matches a byte in several ways would never end."""

import pytest

from harvester.reading.answers import Page
from harvester.reading.errors import MalformedAnswerError
from harvester.reading.replies import read_page
from oai.vocabulary import OAI_NAMESPACE, Verb

_URL = "http://fake.example/oai"
_ROOT = f'<OAI-PMH xmlns="{OAI_NAMESPACE}">'.encode()
_DATE = b"<responseDate>2024-06-01T12:00:00Z</responseDate>"
_LIST = b"<ListRecords>"
_HEAD = _ROOT + _DATE + _LIST
_END = b"</ListRecords></OAI-PMH>"
_MANY = 300_000


def _record(name: bytes, content: bytes = b"x") -> bytes:
    return (
        b"<record><header><identifier>%b</identifier><datestamp>2020-01-01</datestamp></header>"
        b'<metadata><a xmlns="http://a.example/">%b</a></metadata></record>' % (name, content)
    )


_BROKEN = _record(b"broken", b"a & b")
_TWO = _record(b"two")


def _read(body: bytes) -> Page:
    return read_page(body, Verb.LIST_RECORDS, url=_URL, loose=True)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_HEAD + _BROKEN + b"<!-- c -->" * _MANY + b"text" + _TWO + _END, id="comments"),
        pytest.param(_HEAD + _BROKEN + b" <!--" * _MANY + b"-->" + _TWO + _END, id="comments in a comment"),
        pytest.param(_HEAD + _BROKEN + b"\n" * _MANY + b"text" + _TWO + _END, id="blanks"),
        pytest.param(
            _ROOT + b"<responseDate>" + b" " * _MANY + b"<x/></responseDate>" + _LIST + _BROKEN + _TWO + _END,
            id="blanks in the responseDate",
        ),
        pytest.param(
            _ROOT + b"<responseDate " * _MANY + b"><x/>" + _DATE + _LIST + _BROKEN + _TWO + _END,
            id="responseDates that do not end",
        ),
        pytest.param(_HEAD + _record(b" " * _MANY + b"<x/>", b"a & b") + _TWO + _END, id="blanks in a name"),
        pytest.param(
            _HEAD + _record(b"a", b"<a " + b"b" * _MANY + b"&") + _TWO + _END, id="a long attribute"
        ),
        pytest.param(_HEAD + _record(b"a", b"<" + b"a" * _MANY + b" &") + _TWO + _END, id="a long word"),
        pytest.param(_HEAD + _record(b"a", b"<a" * _MANY + b" &") + _TWO + _END, id="many angle brackets"),
        pytest.param(
            _HEAD + _record(b"a", b"<a' \"<a\" '" * _MANY + b" &") + _TWO + _END,
            id="quotes that do not match",
        ),
        pytest.param(_HEAD + _record(b"a", b"<a " + b"/" * _MANY + b" &") + _TWO + _END, id="slashes"),
        pytest.param(
            _HEAD + _TWO + _BROKEN + b"<resumptionToken>" * _MANY + _END,
            id="resumptionTokens that do not end",
        ),
        pytest.param(_HEAD + _TWO + b"<record " * _MANY, id="records that do not end"),
        pytest.param(
            b"<!DOCTYPE OAI-PMH>" + b"<?xml " * _MANY + b">" + _HEAD + _TWO + _END,
            id="declarations that do not end",
        ),
        pytest.param(
            b"<!DOCTYPE OAI-PMH [" + b"<!-- c -->" * _MANY + b"]>" + _HEAD + _BROKEN + _TWO + _END,
            id="comments in a DOCTYPE",
        ),
    ],
)
def test_a_sound_record_of_a_long_broken_answer_is_read(body: bytes) -> None:
    assert [header.identifier for header in _read(body).headers] == ["two"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<OAI-PMH " * _MANY, id="roots that do not end"),
        pytest.param(_ROOT + b"<ListRecords " * _MANY, id="lists that do not end"),
        pytest.param(b"<!DOCTYPE OAI-PMH [" + b"<!-- c -->" * _MANY + _HEAD + _TWO + _END, id="comments"),
        pytest.param(b"<!DOCTYPE OAI-PMH [" + b"<!--" * _MANY + _HEAD + _TWO + _END, id="unclosed comments"),
        pytest.param(b"<!DOCTYPE OAI-PMH [" * _MANY + _HEAD + _TWO + _END, id="DOCTYPEs that do not end"),
        pytest.param(b"<!DOCTYPE OAI-PMH [" + b"<\"'\">'" * _MANY + _HEAD + _TWO + _END, id="quotes"),
    ],
)
def test_a_long_answer_without_a_readable_list_is_rejected(body: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        _read(body)


def test_a_broken_record_between_comments_is_not_taken_for_a_comment() -> None:
    one = _record(b"one").removeprefix(b"<record><header>")
    page = _read(_HEAD + _record(b"zero") + b"<!-- a --><rder>" + one + b"<!-- b -->" + _END)
    # Without a tag that names a record, only the one before it can be reported.
    reason = "it cannot be separated from a broken neighbouring record"
    assert [fault.reason for fault in page.faults] == [f"record 'zero': {reason}"]
