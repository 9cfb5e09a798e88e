import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.reading.answers import Page
from harvester.reading.errors import (
    MalformedAnswerError,
    NoRecordsMatchError,
    NotOaiPmhError,
    OaiError,
    oai_error,
)
from harvester.reading.facts import read_identity
from harvester.reading.replies import read_page
from oai.failures import Failure, FailureCode, failure_in
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, Item, many

_URL = "http://fake.example/oai"


def _body(items: Sequence[Item], *, verb: str = "ListRecords", page_size: int = 100) -> bytes:
    return FakeRepository(items=list(items), page_size=page_size).answer({"verb": verb}).encode()


def _read(body: bytes, *, loose: bool = False) -> Page:
    return read_page(body, Verb.LIST_RECORDS, url=_URL, loose=loose)


def _names(page: Page) -> list[str]:
    return [header.identifier for header in page.headers]


def test_a_page_has_records_token_and_response_date() -> None:
    items = [
        Item(identifier="oai:a:1", sets=("x", "y:z")),
        Item(identifier="oai:a:2", deleted=True),
        Item(identifier="oai:a:3"),
    ]
    page = _read(_body(items, page_size=2))
    assert _names(page) == ["oai:a:1", "oai:a:2"]
    assert page.headers[0].set_specs == ("x", "y:z")
    assert page.headers[1].deleted
    assert page.next_token == "2|||"
    assert page.token is not None
    assert (page.token.cursor, page.token.complete_list_size) == (0, 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", page.response_date)


@pytest.mark.parametrize(
    ("date", "received", "stamp"),
    [
        ("2024-06-01T12:00:00Z", datetime(2020, 1, 1, tzinfo=UTC), "2024-06-01T12:00:00Z"),
        ("2024-06-01T14:00:00.5+02:00", None, "2024-06-01T12:00:00Z"),
        ("2024-06-01", None, "2024-06-01T00:00:00Z"),
        ("2024-06-01T12:00:00", None, "2024-06-01T12:00:00Z"),
        ("yesterday", datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00Z"),
        ("", datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "2020-01-01T00:00:00Z"),
    ],
)
def test_a_header_without_a_datestamp_gets_the_date_of_the_answer(
    date: str, received: datetime | None, stamp: str
) -> None:
    fake = FakeRepository(items=[Item(identifier="oai:a:1", datestamp=""), *many(1)], now=date or "<!-- -->")
    body = fake.answer({"verb": "ListRecords"}).encode()
    page = read_page(body, Verb.LIST_RECORDS, url=_URL, loose=True, received=received)
    assert [(header.datestamp, header.undated) for header in page.headers] == [
        (stamp, True),
        ("2024-01-01T00:00:00Z", False),
    ]
    assert [record.header for record in page.records] == list(page.headers)
    assert b"<datestamp/>" in page.records[0].xml()


def test_headers_are_read_from_list_identifiers() -> None:
    page = read_page(_body(many(3), verb="ListIdentifiers"), Verb.LIST_IDENTIFIERS, url=_URL)
    assert len(page.headers) == 3
    assert page.records == ()


def test_an_oai_error_is_raised_with_its_code_even_if_unknown() -> None:
    with pytest.raises(OaiError, match="noRecordsMatch") as caught:
        _read(_body([]))
    assert caught.value.response_date
    with pytest.raises(OaiError) as caught:
        _read(_body([]).replace(b"noRecordsMatch", b"madeUp"))
    assert caught.value.code == "madeUp"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><body>Down for maintenance</body></html>", "OAI-PMH"),
        (b"<!DOCTYPE html><html><p>x</html>", "HTML"),
        (b"<!DOCTYPE html><html><p>OAI-PMH is down: &lt;OAI-PMH></html>", "HTML"),
        (b"Fatal error in index.php", "Fatal error"),
        (b"", "not XML"),
        (b"<rss/>", "'rss'"),
    ],
)
def test_an_answer_that_is_not_oai_pmh_is_reported_with_its_first_bytes(body: bytes, words: str) -> None:
    for loose in (False, True):
        with pytest.raises(NotOaiPmhError, match=words):
            _read(body, loose=loose)


@pytest.mark.parametrize("page", [b"<!doctype html>", b"<?xml version='1.0'?>"])
def test_the_page_of_a_bot_check_is_reported_as_such(page: bytes) -> None:
    page += b"<html><head><title>Making sure you&#39;re not a bot!</title></head></html>"
    with pytest.raises(NotOaiPmhError, match="ask the repository's administrator") as caught:
        _read(page, loose=True)
    assert "base URL" not in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [b"\x01", b"&nbsp;", b"a & b", b"\xff\xfe", b"<br>", b"<unclosed", b"&bomb;"],
    ids=["control", "entity", "ampersand", "encoding", "tag", "half a tag", "unknown entity"],
)
def test_one_broken_record_is_skipped_and_reported(damage: bytes) -> None:
    body = _body(many(5)).replace(b"Title 2 ", b"Title 2 " + damage)
    with pytest.raises(MalformedAnswerError):
        _read(body)
    page = _read(body, loose=True)
    assert _names(page) == [f"oai:fake.example:{number}" for number in (0, 1, 3, 4)]
    assert len(page.faults) == 1
    assert "oai:fake.example:2" in page.faults[0].reason
    assert body[page.faults[0].offset :].startswith(page.faults[0].raw)
    assert not page.cut_off


def test_a_salvaged_record_has_the_same_bytes_as_one_parsed_strictly() -> None:
    from lxml import etree  # noqa: PLC0415 beside the only use

    good = _read(_body(many(3)))
    page = _read(_body(many(3)).replace(b"Title 1 ", b"\x02"), loose=True)
    strict = [etree.tostring(record.element, with_tail=False) for record in good.records]
    assert [etree.tostring(record.element, with_tail=False) for record in page.records] == [
        strict[0],
        strict[2],
    ]


def test_the_note_about_a_broken_answer_has_a_code() -> None:
    page = _read(_body(many(3)).replace(b"Title 1 ", b"Title & 1 "), loose=True)
    (note,) = page.notes
    assert note.endswith("its parts were read one by one")
    assert failure_in(note) == Failure(code=FailureCode.ANSWER_IN_PARTS)


def test_the_token_of_a_broken_page_is_found() -> None:
    page = _read(_body(many(9), page_size=3).replace(b"Title 1 ", b"&"), loose=True)
    assert page.next_token == "3|||"
    assert page.complete_list_size == 9


def test_a_truncated_page_is_marked_as_such() -> None:
    whole = _body(many(9), page_size=5)
    page = _read(whole[: whole.index(b"Title 3 ")], loose=True)
    assert len(page.records) == 3
    assert page.cut_off
    assert page.faults


def test_a_record_inside_the_metadata_of_another_one_is_ignored() -> None:
    inner = f"<box xmlns='u'>{Item(identifier='inner').record()}{Item(identifier='inner2').record()}</box>"
    items = [Item(identifier="one"), Item(identifier="two", metadata=inner), Item(identifier="three")]
    broken = _body(items).replace(b"A title", b"\x01", 1)
    assert _names(_read(broken, loose=True)) == ["two", "three"]


def test_a_record_in_cdata_or_a_comment_is_ignored() -> None:
    for opening, closing in (("<![CDATA[", "]]>"), ("<!--", "-->")):
        hidden = f"<t>{opening}</t></metadata></record>{Item(identifier='hidden').record()}{closing}</t>"
        items = [Item(identifier="one"), Item(identifier="two", metadata=hidden), Item(identifier="three")]
        broken = _body(items).replace(b"A title", b"\x01", 1)
        assert _names(_read(broken, loose=True)) == ["two", "three"]


def _with_doctype(doctype: bytes, body: bytes) -> bytes:
    return b'<?xml version="1.0"?>' + doctype + body.split(b"?>", 1)[1]


def test_a_document_type_declaration_is_an_error_in_strict_and_removed_in_lenient_reading() -> None:
    body = _with_doctype(b'<!DOCTYPE OAI-PMH [<!ENTITY a "aaaa">]>', _body(many(3)))
    with pytest.raises(MalformedAnswerError, match="DOCTYPE"):
        _read(body)
    page = _read(body, loose=True)
    assert len(page.records) == 3
    assert any("document type" in note for note in page.notes)


@pytest.mark.parametrize(
    "entity", [b"'text'", b"SYSTEM 'file:///etc/hostname'", b"PUBLIC 'x' 'http://127.0.0.1:9/'"]
)
def test_no_entity_is_ever_expanded(entity: bytes) -> None:
    body = _with_doctype(b"<!DOCTYPE OAI-PMH [<!ENTITY a %b>]>" % entity, _body(many(3)))
    page = _read(body.replace(b"Title 1 ", b"&a;"), loose=True)
    assert _names(page) == ["oai:fake.example:0", "oai:fake.example:2"]


@pytest.mark.parametrize(
    "subset", [b'<!ATTLIST header status CDATA "deleted">', b"<!ENTITY % x SYSTEM 'http://127.0.0.1:9/'> %x;"]
)
def test_a_document_type_that_could_change_records_is_rejected_at_any_level(subset: bytes) -> None:
    body = _with_doctype(b"<!DOCTYPE OAI-PMH [%b]>" % subset, _body(many(2)))
    for loose in (False, True):
        with pytest.raises(MalformedAnswerError, match="DOCTYPE"):
            _read(body, loose=loose)


def test_content_around_the_answer_is_noted_and_no_record_is_lost() -> None:
    body = b"\n<b>Notice</b>: x\n" + _body(many(9), page_size=3) + b"\n<b>Notice</b>: y\n"
    with pytest.raises(MalformedAnswerError):
        _read(body)
    page = _read(body, loose=True)
    assert (len(page.records), page.next_token, page.faults, page.cut_off) == (3, "3|||", (), False)
    assert page.notes == ("there is content before the XML", "there is content after the XML")


def test_a_truncated_answer_without_a_declaration_keeps_its_records() -> None:
    body = _body(many(3))
    page = _read(body[body.index(b"<OAI-PMH") : -40], loose=True)
    assert (_names(page), page.cut_off) == (["oai:fake.example:0", "oai:fake.example:1"], True)


@pytest.mark.parametrize("namespace", [b"", b"https://www.openarchives.org/OAI/2.0/", b"urn:x"])
def test_another_namespace_is_read_leniently_and_records_get_the_protocols_namespace(
    namespace: bytes,
) -> None:
    body = _body(many(3), page_size=2).replace(
        b'"http://www.openarchives.org/OAI/2.0/"', b'"' + namespace + b'"', 1
    )
    with pytest.raises(MalformedAnswerError, match="namespace"):
        _read(body)
    page = _read(body, loose=True)
    assert len(page.records) == 2
    assert page.records[0].element.tag == "{http://www.openarchives.org/OAI/2.0/}record"
    assert page.records[0].metadata is not None
    assert page.next_token == "2|||"


def test_a_token_in_the_wrong_place_is_found() -> None:
    body = _body(many(9), page_size=3)
    token = re.search(rb"<resumptionToken.*</resumptionToken>", body)
    assert token is not None
    outside = body.replace(token[0], b"").replace(b"</ListRecords>", b"</ListRecords>" + token[0])
    elsewhere = body.replace(b"<resumptionToken ", b'<resumptionToken xmlns="" ')
    for odd in (outside, elsewhere):
        with pytest.raises(MalformedAnswerError):
            _read(odd)
        assert _read(odd, loose=True).next_token == "3|||"


def test_a_bare_ampersand_in_a_token_is_read_literally() -> None:
    page = _read(_body(many(9), page_size=3).replace(b">3|||<", b">a=1&b=&amp;2<"), loose=True)
    assert page.next_token == "a=1&b=&2"
    assert len(page.records) == 3


def test_records_with_another_prefix_are_not_lost_silently() -> None:
    body = _body(many(3)).replace(b"<record>", b'<o:record xmlns:o="http://www.openarchives.org/OAI/2.0/">')
    body = body.replace(b"</record>", b"</o:record>").replace(b"Title 1 ", b"&")
    page = _read(body, loose=True)
    assert page.faults


def test_a_header_in_place_of_a_record_is_a_fault() -> None:
    body = _body(many(2), verb="ListIdentifiers").replace(b"ListIdentifiers", b"ListRecords")
    page = _read(body, loose=True)
    assert (page.records, len(page.faults)) == ((), 2)


def test_a_single_record_is_read_from_a_broken_answer() -> None:
    fake = FakeRepository(items=many(1))
    body = fake.answer({"verb": "GetRecord", "identifier": "oai:fake.example:0"}).encode()
    broken = body.replace(b"</request>", b"?a&b</request>")
    with pytest.raises(MalformedAnswerError):
        read_page(broken, Verb.GET_RECORD, url=_URL)
    page = read_page(broken, Verb.GET_RECORD, url=_URL, loose=True)
    assert _names(page) == ["oai:fake.example:0"]


def test_a_record_without_identifier_is_a_fault() -> None:
    body = _body(many(3)).replace(b"<identifier>oai:fake.example:1</identifier>", b"")
    with pytest.raises(MalformedAnswerError, match="identifier"):
        _read(body)
    page = _read(body, loose=True)
    assert len(page.records) == 2
    assert "identifier" in page.faults[0].reason


@given(
    damage=st.binary(max_size=12),
    at=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 400),
    nested=st.booleans(),
)
def test_salvage_never_invents_a_record(damage: bytes, at: float, length: int, nested: bool) -> None:  # noqa: FBT001
    inner = f"<box xmlns='u'>{Item(identifier='inner').record()}{Item(identifier='inner').record()}</box>"
    items = [*many(3), Item(identifier="box", metadata=inner if nested else ""), *many(3, start=3)]
    body = _body(items)
    start = body.index(b"<ListRecords>") + int(at * (len(body) - body.index(b"<ListRecords>")))
    broken = body[:start] + damage + body[start + length :]
    try:
        page = _read(broken, loose=True)
    except (MalformedAnswerError, NotOaiPmhError, OaiError):
        return
    known = {item.identifier for item in items}
    lost = len(items) - len(page.records)
    changed = [name for name in _names(page) if name not in known]
    # A byte inside a name may change while the XML stays valid, but no record may be added.
    assert len(changed) <= 1
    assert "inner" not in _names(page)
    assert lost >= 0


def test_identify_is_read() -> None:
    identity = read_identity(_body([], verb="Identify"), url=_URL)
    assert identity.repository_name == "Fake"
    assert identity.granularity == "YYYY-MM-DDThh:mm:ssZ"
    assert identity.admin_emails == ("admin@fake.example",)


def test_values_of_identify_are_truncated_to_what_lists_can_show() -> None:
    long = "N \n" * 1_000_000
    body = _body([], verb="Identify").replace(b">Fake<", f">{long}<".encode())
    address = b"<adminEmail>admin@fake.example</adminEmail>"
    identity = read_identity(body.replace(address, address * 1000), url=_URL)
    assert identity.repository_name == "N " * 249 + "N"
    assert identity.admin_emails == ("admin@fake.example",) * 20


def test_the_message_of_an_error_is_one_line_of_bounded_length() -> None:
    error = oai_error(_URL, "c" * 1000, "so\n" + "x" * 1_000_000)
    assert error.message == "so " + "x" * 497
    assert len(str(error)) < 700


NONE_MATCH = b"""<?xml version="1.0"?><o:OAI-PMH xmlns:o="http://www.openarchives.org/OAI/2.0/">
<o:responseDate>2024-06-01T12:00:00Z</o:responseDate><o:request verb="ListRecords">http://x/oai?a&b</o:request>
<o:error code='noRecordsMatch'>none & nothing &lt;"""


def test_an_error_is_read_in_an_answer_that_is_not_well_formed() -> None:
    with pytest.raises(NoRecordsMatchError) as raised:
        read_page(NONE_MATCH, Verb.LIST_RECORDS, url="http://x/oai", loose=True)
    assert (raised.value.message, raised.value.response_date) == ("none & nothing <", "2024-06-01T12:00:00Z")
    with pytest.raises(MalformedAnswerError):
        read_page(NONE_MATCH, Verb.LIST_RECORDS, url="http://x/oai")


@pytest.mark.parametrize(
    "body",
    [
        NONE_MATCH.replace(b"noRecordsMatch", b"noMore"),
        NONE_MATCH.replace(b"<o:error", b"<o:ListRecords/><o:error"),
        NONE_MATCH + b"<o:record>",
        NONE_MATCH + b"<resumptionToken/>",
    ],
)
def test_no_error_is_read_in_a_broken_answer_with_another_code_or_beside_a_list(body: bytes) -> None:
    try:
        page = read_page(body, Verb.LIST_RECORDS, url="http://x/oai", loose=True)
    except MalformedAnswerError:
        return
    assert page.cut_off or page.faults
