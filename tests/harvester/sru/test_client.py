"""The SRU client against a real server with the behaviour and faults of real services."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree

from harvester.client.query_results import UNKNOWN_DATE
from harvester.client.selection import Selection
from harvester.client.transport import open_transport
from harvester.reading.answers import Page, Record
from harvester.reading.errors import (
    CannotDisseminateFormatError,
    HttpStatusError,
    IdDoesNotExistError,
    MalformedAnswerError,
    NoRecordsMatchError,
    NotOaiPmhError,
)
from harvester.reading.list_elements import read_record
from harvester.sru.answers import SruError, SruFormatError, SruQueryError
from harvester.sru.client import SruClient, UnreadableResultError
from oai.errors import UsageError
from oai.failures import Failure, FailureCode
from oai.sections import HarvesterSettings
from oai.vocabulary import OAI_DC_NAMESPACE, Verb
from tests.harvester.sru.fake_sru import ONE, Answer, Book, FakeSru, Fault, books, diagnostics, serve_sru

_EMPTY = (
    f'<searchRetrieveResponse xmlns="{ONE}"><numberOfRecords>15</numberOfRecords></searchRetrieveResponse>'
)
MARC = Selection(metadata_prefix="marcxml", set_spec='dc.title="water"')


@contextlib.asynccontextmanager
async def client_of(fake: FakeSru, **patience: Any) -> AsyncIterator[SruClient]:
    async def at_once(_seconds: float) -> None: ...

    async with serve_sru(fake), open_transport(HarvesterSettings()) as transport:
        yield SruClient(fake.url, transport, **{"retries": 1, "sleep": at_once, **patience})


async def pages(
    fake: FakeSru, selection: Selection = MARC, token: str = "", *, loose: bool = True
) -> list[Page]:
    async with client_of(fake) as client:
        listing = client.pages(Verb.LIST_RECORDS, selection, resumption_token=token, loose=loose)
        return [page async for page in listing]


def names(found: list[Page]) -> list[str]:
    return [header.identifier.rpartition(":")[2] for page in found for header in page.headers]


def numbers(count: int) -> list[str]:
    return [book.number for book in books(count)]


async def only(fake: FakeSru, prefix: str = "marcxml") -> Record:
    found = await pages(fake, Selection(metadata_prefix=prefix))
    return found[0].records[0]


@pytest.mark.parametrize("version", ["1.1", "1.2", "2.0"])
@pytest.mark.parametrize("packing", ["xml", "string"])
async def test_all_records_are_read_in_each_version_and_packing(version: str, packing: str) -> None:
    fake = FakeSru(books=books(25), version=version, packing=packing, cap=10)
    found = await pages(fake)
    assert names(found) == numbers(25)
    assert [page.next_token for page in found] == ["11/25", "21/25", ""]
    assert {page.complete_list_size for page in found} == {25}
    assert not [fault for page in found for fault in page.faults]


async def test_a_request_has_only_the_parameters_of_its_version() -> None:
    fake = FakeSru(books=books(1))
    await pages(fake)
    assert fake.searches() == [
        {
            "operation": "searchRetrieve",
            "version": "1.2",
            "query": 'dc.title="water"',
            "startRecord": "1",
            "maximumRecords": "50",
            "recordSchema": "marcxml",
            "recordPacking": "xml",
        }
    ]
    second = FakeSru(books=books(1), version="2.0")
    await pages(second)
    assert second.searches()[0].keys() == {
        "query", "startRecord", "maximumRecords", "recordSchema", "recordXMLEscaping",
    }  # fmt: skip


async def test_a_record_is_converted_to_an_oai_pmh_record() -> None:
    record = await only(FakeSru(books=[Book(number="  nkc 7 ")]))
    again = read_record(etree.fromstring(record.xml()))
    assert again.header == record.header
    assert record.header.identifier == "sru:127.0.0.1:sru:books:nkc 7"
    assert record.header.datestamp == "2024-01-02T03:04:05Z"
    assert again.metadata is not None
    assert again.metadata.tag == "{http://www.loc.gov/MARC21/slim}record"


async def test_dublin_core_is_stored_in_the_wrapper_of_oai_dc() -> None:
    record = await only(FakeSru(books=books(1)), "oai_dc")
    assert record.metadata is not None
    assert record.metadata.tag == f"{{{OAI_DC_NAMESPACE}}}dc"
    assert record.fields() == {"title": ["Title 0"], "identifier": ["nkc0000"]}
    assert record.header.identifier == "sru:127.0.0.1:sru:books:nkc0000"


@pytest.mark.parametrize(
    "published",
    [
        "ISSN 0317-8471", "ISSN (online): 0317-8471", "urn:issn:0317-8471", "e-ISSN 0317-8471", "0317-847X",
        "ISBN9788020001290", "urn:isbn:80-200-0129-8", "978-80-200-0129-0", "9788020001290",
        "80-200-0129-8 (váz.)",
    ],
)  # fmt: skip
async def test_an_issn_or_isbn_does_not_identify_a_record(published: str) -> None:
    article = await only(FakeSru(books=[Book(number="http://a.example/1", published=published)]), "oai_dc")
    assert article.header.identifier.endswith(":http://a.example/1")
    nameless = await only(FakeSru(books=[Book(number="", published=published)]), "oai_dc")
    assert ":sha256-" in nameless.header.identifier
    by_control_number = await only(FakeSru(books=[Book(number=published)]))
    assert by_control_number.header.identifier.endswith(f":{published}")


@pytest.mark.parametrize(
    "number", ["0317847X", "12345678", "1234567890", "isbns", "2001-12-31", "1-2-3-4", "urn:nbn:cz:1"]
)
async def test_other_numbers_identify_a_record(number: str) -> None:
    record = await only(FakeSru(books=[Book(number="http://a.example/1", published=number)]), "oai_dc")
    assert record.header.identifier.endswith(f":{number}")


@pytest.mark.parametrize(
    ("changed", "datestamp"),
    [("", "1991-07-10T00:00:00Z"), ("00000000000000.0", "1991-07-10T00:00:00Z")],
)
async def test_a_record_without_a_date_of_change_has_its_date_of_entry(changed: str, datestamp: str) -> None:
    record = await only(FakeSru(books=[Book(number="1", changed=changed)]))
    assert record.header.datestamp == datestamp


async def test_a_record_without_date_or_number_has_the_same_header_each_time() -> None:
    fake = FakeSru(books=[Book(number="", title="Nameless")])
    first, second = await only(fake, "oai_dc"), await only(fake, "oai_dc")
    assert first.header == second.header
    assert first.header.datestamp == UNKNOWN_DATE
    assert ":sha256-" in first.header.identifier


async def test_a_record_whose_namespaces_are_declared_outside_it_has_an_identifier() -> None:
    def outside(_asked: dict[str, str], good: bytes) -> bytes:
        declared = b' xmlns:m="http://www.loc.gov/mods/v3"'
        return good.replace(b"<searchRetrieveResponse", b"<searchRetrieveResponse" + declared)

    shelf = [Book(number="", raw="<m:mods><m:note>A note</m:note></m:mods>")]
    nameless = await only(FakeSru(books=shelf, fault=outside))
    assert ":sha256-" in nameless.header.identifier


@pytest.mark.parametrize("version", ["1.2", "2.0"])
async def test_a_marc_record_without_namespace_is_identified_by_its_control_number(version: str) -> None:
    raw = Book(number="nkc1").marcxml().replace(' xmlns="http://www.loc.gov/MARC21/slim"', "")
    record = await only(FakeSru(books=[Book(number="", raw=raw)], version=version))
    assert record.header.identifier.endswith(":nkc1")
    assert record.header.datestamp == "2024-01-02T03:04:05Z"


async def test_a_list_is_resumed_by_a_token() -> None:
    fake = FakeSru(books=books(25), cap=10)
    assert names(await pages(fake, token="21/25")) == numbers(25)[20:]
    with pytest.raises(UsageError, match="not a valid position in a result"):
        await pages(fake, token="x")


async def test_a_server_may_omit_the_next_position() -> None:
    found = await pages(FakeSru(books=books(25), cap=10, tells_next=False))
    assert names(found) == numbers(25)
    assert "nextRecordPosition is missing although there are more records" in found[0].notes


async def test_a_next_position_that_does_not_advance_does_not_cause_a_loop() -> None:
    def stuck(_asked: dict[str, str], good: bytes) -> bytes:
        return good.replace(b"<nextRecordPosition>21<", b"<nextRecordPosition>1<")

    found = await pages(FakeSru(books=books(25), cap=10, fault=stuck))
    assert names(found) == numbers(25)
    assert "nextRecordPosition is 1, but the records continue at 21" in found[1].notes


async def test_a_server_without_number_of_records_is_read_by_its_next_positions() -> None:
    found = await pages(FakeSru(books=books(25), cap=10, sizes=False))
    assert names(found) == numbers(25)
    assert found[-1].complete_list_size is None


@pytest.mark.parametrize("limit", [None, 25])
async def test_a_server_without_size_and_next_positions_is_read_up_to_an_answer_without_records(
    limit: int | None,
) -> None:
    fake = FakeSru(books=books(25), cap=10, sizes=False, tells_next=False, limit=limit)
    found = await pages(fake)
    assert names(found) == numbers(25)
    assert found[-1].next_token == ""
    assert not [fault for page in found for fault in page.faults]


def _counting(number: str) -> Fault:
    """Return a fault that always declares this number of records instead of 25."""

    def counting(_asked: dict[str, str], good: bytes) -> bytes:
        return good.replace(b"<numberOfRecords>25<", f"<numberOfRecords>{number}<".encode())

    return counting


@pytest.mark.parametrize("tells_next", [True, False])
@pytest.mark.parametrize("number", ["15", "19", "24"])
async def test_a_number_of_records_that_is_too_small_does_not_end_the_list(
    number: str,
    tells_next: bool,  # noqa: FBT001 a parameter of the test
) -> None:
    fake = FakeSru(books=books(25), cap=10, tells_next=tells_next, fault=_counting(number))
    found = await pages(fake)
    assert names(found) == numbers(25)
    assert found[-1].complete_list_size == 25
    assert not [fault for page in found for fault in page.faults]
    notes = [note for page in found for note in page.notes]
    assert f"numberOfRecords is {number}, but records were returned up to position 25" in notes
    assert tells_next is not any("nextRecordPosition is missing" in note for note in notes)


@pytest.mark.parametrize("number", ["0", "10", "20"])
async def test_next_positions_lead_beyond_any_number_of_records(number: str) -> None:
    assert names(await pages(FakeSru(books=books(25), cap=10, fault=_counting(number)))) == numbers(25)


@pytest.mark.parametrize(
    ("position", "limit", "requests"), [(26, None, 4), (26, 25, 4), (1, None, 3), (0, None, 3)]
)
async def test_a_next_position_after_the_last_record_ends_the_list(
    position: int, limit: int | None, requests: int
) -> None:
    def always(asked: dict[str, str], good: bytes) -> bytes | None:
        following = f"</records><nextRecordPosition>{position}</nextRecordPosition>".encode()
        return good.replace(b"</records>", following) if asked.get("startRecord") == "21" else None

    fake = FakeSru(books=books(25), cap=10, limit=limit, fault=always)
    found = await pages(fake)
    assert names(found) == numbers(25)
    assert found[-1].complete_list_size == 25
    assert not [said for page in found for said in (*page.faults, *page.notes)]
    assert len(fake.searches()) == requests


async def test_announced_records_that_are_not_returned_are_missing() -> None:
    def stopping(asked: dict[str, str], good: bytes) -> bytes | None:
        if asked.get("startRecord") == "21":
            return _EMPTY.encode()
        return good.replace(b"<numberOfRecords>25<", b"<numberOfRecords>15<")

    found = await pages(FakeSru(books=books(25), cap=10, fault=stopping))
    assert names(found) == numbers(20)
    assert found[-1].complete_list_size == 21
    assert "no records were returned from position 21, although there are 21" in found[-1].notes

    limited = await pages(FakeSru(books=books(25), cap=10, limit=20, fault=_counting("15")))
    assert names(limited) == numbers(20)
    assert limited[-1].faults[0].failure == Failure(code=FailureCode.RECORDS_MISSING, facts={"count": 1})


async def test_a_result_that_shrinks_while_it_is_read_is_a_fault() -> None:
    def shrinking(asked: dict[str, str], good: bytes) -> bytes | None:
        return good.replace(b">25<", b">24<") if asked.get("startRecord") == "11" else None

    found = await pages(FakeSru(books=books(25), cap=10, fault=shrinking))
    faults = [fault.reason for page in found for fault in page.faults]
    assert len(faults) == 1
    assert faults[0].startswith("the number of records fell from 25 to 24 while the result was read")


async def test_a_list_that_ends_too_early_keeps_its_announced_size() -> None:
    def empty(asked: dict[str, str], good: bytes) -> bytes | None:
        if asked.get("startRecord") != "11":
            return None
        return good[: good.index(b"<records>")] + b"</searchRetrieveResponse>"

    found = await pages(FakeSru(books=books(25), cap=10, fault=empty))
    assert len(names(found)) == 10
    assert found[-1].complete_list_size == 25
    assert "no records were returned from position 11, although there are 25" in found[-1].notes


async def test_a_surrogate_diagnostic_is_the_fault_of_one_record() -> None:
    shelf = books(5)
    shelf[2] = Book(number="x", surrogate="64")
    shelf[3] = Book(number="y", raw="<a")
    found = await pages(FakeSru(books=shelf, packing="string"))
    assert names(found) == ["nkc0000", "nkc0001", "nkc0004"]
    reasons = [fault.reason for fault in found[0].faults]
    assert reasons[0] == "record at position 3: diagnostic 64"
    assert reasons[1].startswith("record at position 4: its string is not XML")
    with pytest.raises(MalformedAnswerError, match="position 3"):
        await pages(FakeSru(books=shelf, packing="string"), loose=False)


async def test_further_elements_in_the_data_of_a_record_are_a_fault() -> None:
    first, second = books(2)
    found = await pages(FakeSru(books=[Book(number="x", raw=first.marcxml() + second.marcxml())]))
    assert names(found) == [first.number]
    reasons = [fault.reason for fault in found[0].faults]
    assert reasons == ["record at position 1: only the first element of its recordData is stored"]


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1", "windows-1250", "utf-16", "us-ascii"])
async def test_the_encoding_declared_in_a_string_record_is_ignored(encoding: str) -> None:
    book = Book(number="x", title="Žluťoučký kůň")
    shelf = [replace(book, raw=f'<?xml version="1.0" encoding="{encoding}"?>\n{book.marcxml()}')]
    record = await only(FakeSru(books=shelf, packing="string"))
    assert record.metadata is not None
    assert "Žluťoučký kůň" in "".join(map(str, record.metadata.itertext()))


async def test_diagnostics_are_raised_by_their_code() -> None:
    async with client_of(FakeSru(books=books(25), cap=10, limit=20)) as client:
        with pytest.raises(SruQueryError, match="diagnostic 10: \\(wrong\\); check the CQL of the query"):
            await anext(client.pages(Verb.LIST_RECORDS, Selection(metadata_prefix="dc", set_spec="wrong")))
        with pytest.raises(CannotDisseminateFormatError, match="among the schemas offered: marcxml, dc"):
            await anext(client.pages(Verb.LIST_RECORDS, Selection(metadata_prefix="mods")))
        listing = client.pages(Verb.LIST_RECORDS, MARC)
        assert len([await anext(listing), await anext(listing)]) == 2
        with pytest.raises(SruError, match="no records from this position; narrow the query"):
            await anext(listing)


async def test_a_query_without_hits_is_reported_as_such() -> None:
    with pytest.raises(NoRecordsMatchError):
        await pages(FakeSru())


async def test_a_server_that_does_not_support_explain_can_be_harvested() -> None:
    for version in ("1.1", "1.2"):
        fake = FakeSru(books=books(3), version=version, explains=False)
        assert names(await pages(fake)) == numbers(3)


@pytest.mark.parametrize("version", ["1.1", "1.2", "2.0"])
async def test_each_version_is_tried_on_a_server_that_names_none(version: str) -> None:
    def silent(asked: dict[str, str], good: bytes) -> bytes | None:
        return good.replace(f"<details>{version}<".encode(), b"<details><") if "query" in asked else None

    fake = FakeSru(books=books(3), version=version, explains=False, fault=silent)
    assert names(await pages(fake)) == numbers(3)


async def test_a_server_that_rejects_parameters_of_earlier_versions_is_requested_in_the_later_one() -> None:
    def refusing(asked: dict[str, str], _good: bytes) -> bytes | None:
        refused = diagnostics("8", "operation")
        answer = f"<searchRetrieveResponse xmlns='{ONE}'>{refused}</searchRetrieveResponse>"
        return answer.encode() if "operation" in asked else None

    assert names(await pages(FakeSru(books=books(3), version="2.0", fault=refusing))) == numbers(3)


async def test_a_server_that_supports_no_version_receives_one_request_in_each() -> None:
    def refusing(asked: dict[str, str], _good: bytes) -> bytes | None:
        return (
            f"<searchRetrieveResponse xmlns='{ONE}'>{diagnostics('5', '')}</searchRetrieveResponse>".encode()
            if "query" in asked
            else None
        )

    fake = FakeSru(books=books(3), explains=False, fault=refusing)
    with pytest.raises(SruError, match="diagnostic 5"):
        await pages(fake)
    assert [asked.get("version") for asked in fake.searches()] == ["1.2", "1.1", None]


async def test_only_the_record_that_breaks_a_page_is_lost() -> None:
    def broken(asked: dict[str, str], _good: bytes) -> Answer | None:
        first = int(asked.get("startRecord", 0))
        reached = first <= 14 < first + int(asked.get("maximumRecords", 0))
        return (500, b"sorry") if "query" in asked and reached else None

    fake = FakeSru(books=books(25), cap=10, fault=broken)
    found = await pages(fake)
    assert names(found) == [name for name in numbers(25) if name != "nkc0013"]
    faults = [fault.reason for page in found for fault in page.faults]
    assert len(faults) == 1
    assert "record at position 14 is not available" in faults[0]
    with pytest.raises(HttpStatusError):
        await pages(fake, loose=False)


async def test_an_unreadable_first_record_is_the_only_one_lost() -> None:
    shelf = books(25)
    shelf[0] = Book(number="x", raw="\x0b")
    found = await pages(FakeSru(books=shelf, cap=10))
    assert names(found) == numbers(25)[1:]
    assert [fault.reason[:20] for page in found for fault in page.faults] == ["record at position 1"]


@pytest.mark.parametrize("before", [b"\n", b"\xef\xbb\xbf\r\n ", b" "])
async def test_blanks_before_the_xml_declaration_do_not_matter(before: bytes) -> None:
    def later(_asked: dict[str, str], good: bytes) -> bytes:
        return before + b'<?xml version="1.0" encoding="UTF-8"?>' + good

    assert names(await pages(FakeSru(books=books(3), fault=later))) == numbers(3)


async def test_a_server_without_a_readable_record_is_given_up() -> None:
    def broken(asked: dict[str, str], _good: bytes) -> Answer | None:
        return (500, b"") if "query" in asked else None

    with pytest.raises(UnreadableResultError, match="even one by one"):
        await pages(FakeSru(books=books(25), fault=broken))


async def test_a_page_that_is_not_sru_is_reported_as_such() -> None:
    def web_page(_asked: dict[str, str], _good: bytes) -> bytes:
        return b"<html><body>Welcome</body></html>"

    with pytest.raises(NotOaiPmhError, match="<html> instead of SRU's <searchRetrieveResponse>"):
        await pages(FakeSru(books=books(2), fault=web_page))


async def test_explain_identifies_the_service() -> None:
    async with client_of(FakeSru(books=books(1))) as client:
        identity = await client.identify()
        formats = await client.list_metadata_formats()
        sets = [found async for found in client.list_sets()]
    assert identity.repository_name == "Fake catalogue"
    assert identity.protocol_version == "SRU 1.2"
    assert identity.admin_emails == ("books@fake.example",)
    assert [found.metadata_prefix for found in formats] == ["marcxml", "dc"]
    assert sets == []


async def test_the_address_of_a_service_is_shown_without_credentials() -> None:
    fake = FakeSru(books=books(1))
    async with serve_sru(fake), open_transport(HarvesterSettings()) as transport:
        client = SruClient(fake.url.replace("://", "://me:s%40cret@"), transport, retries=1)
        identity = await client.identify()
        with pytest.raises(SruFormatError) as raised:
            await anext(client.pages(Verb.LIST_RECORDS, Selection(metadata_prefix="mods")))
    assert (client.base_url, identity.base_url) == (fake.url, fake.url)
    assert "cret" not in str(raised.value)


async def test_one_record_is_requested_by_its_identifier() -> None:
    fake = FakeSru(books=books(1))
    async with client_of(fake) as client:
        record = await client.get_record("sru:127.0.0.1:sru:books:nkc0000", "marcxml")
        with pytest.raises(IdDoesNotExistError):
            await client.get_record('sru:127.0.0.1:sru:books:a" or b="', "marcxml")
    assert record.header.identifier.endswith("nkc0000")
    assert fake.searches()[-1]["query"] == 'rec.identifier="a\\" or b=\\""'


async def test_a_selection_by_datestamps_is_rejected() -> None:
    with pytest.raises(UsageError, match="add the dates to the query"):
        await pages(FakeSru(books=books(1)), Selection(metadata_prefix="marcxml", from_="2024-01-01"))
