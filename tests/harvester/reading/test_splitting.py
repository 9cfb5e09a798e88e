"""Large answers are read in parts: the same records as from the whole, and faults are isolated."""

from collections.abc import Callable

import pytest
from lxml import etree

from harvester.reading import replies
from harvester.reading.answers import Fault, Page, Record
from harvester.reading.errors import AnswerTooLargeError, MalformedAnswerError, NotOaiPmhError, OaiError
from harvester.reading.replies import Unread
from harvester.reading.spooled import Spooled
from oai.failures import FailureCode
from oai.limits import AnswerLimits
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, Item

URL = "http://a.example/oai"
MARC = (
    '<collection xmlns="http://www.loc.gov/MARC21/slim"><record><leader>x</leader></record>'
    "<record><header>y</header></record></collection>"
)
ITEMS = [
    Item(identifier="oai:a:1", title="Žluťoučký & <kůň>", sets=("s", "s:t")),
    Item(identifier="oai:a:2", deleted=True),
    Item(identifier="oai:a:3", metadata=MARC),
    *(Item(identifier=f"oai:a:{number}", title="x" * 5000) for number in range(4, 900)),
]


def answer(items: list[Item] = ITEMS, *, more: bool = False) -> bytes:
    """Return one answer with all the items; with `more`, it has a token."""
    extra = [Item(identifier="oai:a:more")] if more else []
    fake = FakeRepository(items=items + extra, page_size=len(items), url=URL)
    return fake.answer({"verb": "ListRecords", "metadataPrefix": "oai_dc"}).encode()


def unread(body: bytes, *, loose: bool = True, limits: AnswerLimits | None = None) -> Unread:
    spooled = Spooled()
    spooled.append(body)
    return Unread(spooled, Verb.LIST_RECORDS, URL, "text/xml", loose, limits or AnswerLimits())


def pages(large: Unread) -> list[Page]:
    async def nothing() -> Page:
        raise AssertionError

    found = [replies.with_rest(large.of(part).read(), part, nothing) for part in large.split().parts]
    assert [page.part for page in found] == list(range(1, len(found) + 1))
    assert [page.rest is None for page in found] == [False] * (len(found) - 1) + [True]
    return found


def faults(found: list[Page]) -> list[Fault]:
    return [fault for page in found for fault in page.faults]


def names(found: list[Page]) -> list[str]:
    return [header.identifier for page in found for header in page.headers]


def _in_another_namespace(body: bytes) -> bytes:
    return body.replace(b'http://www.openarchives.org/OAI/2.0/"><resp', b'http://x.example/"><resp')


def _of_1_1(body: bytes) -> bytes:
    verb = b'<ListRecords xmlns="http://www.openarchives.org/OAI/1.1/OAI_ListRecords">'
    rest = body.partition(b"<ListRecords>")[2]
    return (
        b'<?xml version="1.0" encoding="UTF-8"?>' + verb
        + b"<responseDate>2024-01-01T00:00:00Z</responseDate><requestURL>http://a.example</requestURL>"
        + rest.removesuffix(b"</OAI-PMH>")
    )  # fmt: skip


def _metadata(record: Record) -> bytes:
    if record.metadata is None:
        return b""
    return etree.tostring(record.metadata, method="c14n", exclusive=True)


def _prefixed(body: bytes) -> bytes:
    """Use a prefix for the protocol's elements, as some servers do."""
    for name in ("OAI-PMH", "responseDate", "request", "ListRecords", "record", "header", "identifier",
                 "datestamp", "setSpec", "metadata"):  # fmt: skip
        body = body.replace(f"<{name}".encode(), f"<o:{name}".encode())
        body = body.replace(f"</{name}>".encode(), f"</o:{name}>".encode())
    return body.replace(b"<o:OAI-PMH xmlns=", b"<o:OAI-PMH xmlns:o=")


@pytest.mark.parametrize(
    "change", [bytes, _in_another_namespace, _of_1_1, _prefixed, lambda body: body + b"\n<!-- end -->"]
)
def test_the_parts_have_the_same_records_as_the_whole_byte_for_byte(change: Callable[[bytes], bytes]) -> None:
    plain = [item for item in ITEMS if change is not _prefixed or not item.metadata]
    body = change(answer(plain, more=True))
    whole = replies.read_page(body, Verb.LIST_RECORDS, url=URL, loose=True)
    found = pages(unread(body))
    assert len(found) > 2
    records = [record for page in found for record in page.records]
    # What is moved into the protocol's namespace gets a prefix, which may differ.
    shape = _metadata if change in {_in_another_namespace, _of_1_1} else Record.xml
    assert [shape(record) for record in records] == [shape(record) for record in whole.records]
    assert [record.header for record in records] == [record.header for record in whole.records]
    assert [page.next_token for page in found] == [""] * (len(found) - 1) + [whole.next_token]
    assert {page.response_date for page in found} == {whole.response_date}
    assert {note for page in found for note in page.notes} == set(whole.notes)
    assert faults(found) == list(whole.faults)


def test_an_xml_id_may_occur_in_each_part() -> None:
    metadata = f'<a xmlns="urn:a" xml:id="p1">{"x" * 5000}</a>'
    items = [Item(identifier=f"oai:a:{number}", metadata=metadata) for number in range(900)]
    found = pages(unread(answer(items), loose=False))
    assert (len(found) > 1, faults(found), len(names(found))) == (True, [], 900)


def test_the_token_is_known_before_the_records_are_read() -> None:
    assert unread(answer(more=True)).split().token.startswith(str(len(ITEMS)))
    assert unread(answer()).split().token == ""


def test_text_in_another_encoding_is_decoded() -> None:
    body = answer().decode().replace("UTF-8", "windows-1250").encode("windows-1250")
    title = pages(unread(body))[0].records[0].fields()["title"]
    assert title == ["Žluťoučký & <kůň>"]


def test_a_broken_record_is_skipped_and_named_and_the_others_are_read() -> None:
    body = answer().replace(b"oai:a:7</identifier>", b"oai:a:7</identifier><b>", 1)
    found = pages(unread(body))
    assert set(names(found)) == {item.identifier for item in ITEMS} - {"oai:a:7"}
    (fault,) = faults(found)
    assert "oai:a:7" in fault.reason
    assert body[fault.offset :].startswith(b"<record><header><identifier>oai:a:7<")
    with pytest.raises(MalformedAnswerError, match="not well-formed"):
        unread(body, loose=False).split()


def test_the_received_part_of_a_truncated_answer_is_read() -> None:
    body = answer()
    found = pages(unread(body[: len(body) - 5000]))
    assert found[-1].cut_off
    assert len(names(found)) >= len(ITEMS) - 4


def test_too_many_elements_around_the_records_are_rejected_with_the_name_of_the_setting() -> None:
    body = answer().replace(b"</ListRecords>", b"<a/>" * 20_000 + b"</ListRecords>")
    limits = AnswerLimits(part_elements=15_000)
    found = pages(unread(body, limits=limits))
    assert names(found) == [item.identifier for item in ITEMS]
    (fault,) = faults(found)
    assert fault.failure is not None
    assert fault.failure.code is FailureCode.PART_ELEMENTS
    assert fault.failure.facts["setting"] == "harvester.max_part_elements"
    with pytest.raises(AnswerTooLargeError):
        unread(body, limits=limits, loose=False).split()


def test_text_that_looks_like_elements_is_not_counted() -> None:
    text = Item(identifier="oai:a:text", metadata="<m><![CDATA[" + "<a>" * 20_000 + "]]></m>")
    found = pages(unread(answer([*ITEMS, text]), limits=AnswerLimits(part_elements=15_000)))
    assert (len(names(found)), faults(found)) == (len(ITEMS) + 1, [])


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("<m>" + "x" * 2_000_000 + "</m>", FailureCode.PART_BYTES),
        ("<m " + " ".join(f'a{n}="{n}"' for n in range(200_000)) + "/>", FailureCode.PART_BYTES),
        ("<m>" + "<a/>" * 12_000 + "</m>", FailureCode.PART_ELEMENTS),
        ("<m>" + "<a>" * 400 + "</a>" * 400 + "</m>", FailureCode.PART_DEPTH),
        ("<m>" + "<a>" * 9_000 + "</a>" * 9_000 + "</m>", FailureCode.PART_DEPTH),
    ],
)
def test_only_the_record_that_exceeds_a_limit_is_lost(metadata: str, code: FailureCode) -> None:
    items = [*ITEMS[:10], Item(identifier="oai:a:large", metadata=metadata), *ITEMS[10:]]
    body = answer(items)
    limits = AnswerLimits(part_bytes=1_000_000, part_elements=10_000)
    found = pages(unread(body, limits=limits))
    assert names(found) == [item.identifier for item in ITEMS]
    (fault,) = faults(found)
    assert fault.failure is not None
    assert (fault.failure.code, fault.failure.facts["offset"]) == (code, fault.offset)
    assert body[fault.offset :].startswith(b"<record><header><identifier>oai:a:large<")
    assert fault.size in {None, len(items[10].record())}


def test_an_answer_beyond_the_limits_and_without_records_is_rejected() -> None:
    body = answer([]).replace(
        b"</OAI-PMH>", b"<ListRecords>" + b"<a/>" * 20_000 + b"</ListRecords></OAI-PMH>"
    )
    large = unread(body, limits=AnswerLimits(part_elements=15_000))
    with pytest.raises(AnswerTooLargeError) as caught:
        pages(large)
    assert caught.value.failure.code is FailureCode.PART_ELEMENTS


def test_an_error_or_another_format_is_raised_as_for_a_small_answer() -> None:
    error = b'<error code="badArgument">no</error><ListRecords>'
    with pytest.raises(OaiError, match="badArgument"):
        unread(answer().replace(b"<ListRecords>", error)).split()
    html = b"<html>" + b"<p>x</p>" * 10_000 + b"</html>"
    with pytest.raises((NotOaiPmhError, MalformedAnswerError)):
        unread(html).split()


def test_a_document_type_is_rejected() -> None:
    body = answer().replace(b"<OAI-PMH", b"<!DOCTYPE OAI-PMH [<!ENTITY a 'b'>]><OAI-PMH", 1)
    with pytest.raises(MalformedAnswerError, match="DOCTYPE"):
        unread(body).split()


def test_a_part_with_an_undeclared_well_known_prefix_is_read_whole() -> None:
    body = answer().replace(b' xmlns:dc="http://purl.org/dc/elements/1.1/"', b"", 1)
    found = pages(unread(body))
    assert faults(found) == []
    assert names(found) == [item.identifier for item in ITEMS]
    assert any("the prefix 'dc' is not declared" in note for page in found for note in page.notes)
