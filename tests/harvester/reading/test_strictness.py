"""Strict reading rejects what the protocol's schema rejects outside the metadata, and no more."""

import pytest

from harvester.reading.errors import MalformedAnswerError, OaiError
from harvester.reading.replies import read_page
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, Item

URL = "http://a.example/oai"
ITEMS = [Item(identifier="oai:a:1", sets=("a:b-c",)), Item(identifier="oai:a:2", deleted=True)]
GOOD = FakeRepository(items=[*ITEMS, Item(identifier="oai:a:3")], page_size=2, url=URL).answer(
    {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
)
STAMP = "<datestamp>2024-01-01T00:00:00Z<"
METADATA = "<metadata><oai_dc:dc "
ALL_METADATA = GOOD[GOOD.index("<metadata>") : GOOD.index("</metadata>")]
XSI = "http://www.w3.org/2001/XMLSchema-instance"

REFUSED = {
    "two elements in metadata": (METADATA, '<metadata><x xmlns="urn:x"/><oai_dc:dc '),
    "metadata in the protocol's namespace": (ALL_METADATA, "<metadata><x/>"),
    "metadata without a namespace": (ALL_METADATA, '<metadata><x xmlns=""/>'),
    "text in metadata": (METADATA, "<metadata>x<oai_dc:dc "),
    "a datestamp with ZZ": (STAMP, "<datestamp>2008-06-17T15:34:32ZZ<"),
    "a datestamp without hyphens": (STAMP, "<datestamp>20200106<"),
    "a datestamp with slashes": (STAMP, "<datestamp>13/01/2020<"),
    "a datestamp with an offset": (STAMP, "<datestamp>2020-01-06T00:00:00+01:00<"),
    "a datestamp without a zone": (STAMP, "<datestamp>2020-01-06T00:00:00<"),
    "an impossible day": (STAMP, "<datestamp>2020-02-30<"),
    "an empty datestamp": (STAMP, "<datestamp><"),
    "a setSpec with a blank": ("<setSpec>a:b-c", "<setSpec>a: b"),
    "a setSpec that ends in a colon": ("<setSpec>a:b-c", "<setSpec>a:"),
    "a status of its own": ('status="deleted"', 'status="gone"'),
    "a status in capitals": ('status="deleted"', 'status="Deleted"'),
    "another attribute of a header": ('status="deleted"', 'status="deleted" x="1"'),
    "the datestamp before the identifier": (
        "<identifier>oai:a:1</identifier>" + STAMP + "/datestamp>",
        STAMP + "/datestamp><identifier>oai:a:1</identifier>",
    ),
    "something else in a header": ("<setSpec>", "<extra/><setSpec>"),
    "an empty about": ("</metadata>", "</metadata><about/>"),
    "an attribute of a record": ("<record>", '<record id="1">'),
    "a cursor that is no number": ('cursor="0"', 'cursor="one"'),
    "a list of no records by its own word": ('completeListSize="3"', 'completeListSize="0"'),
    "an expirationDate in words": ('cursor="0"', 'cursor="0" expirationDate="tomorrow"'),
    "no responseDate": ("<responseDate>", "<x:responseDate xmlns:x='urn:x'/><responseDate>"),
    "a responseDate that is none": ("<responseDate>", "<responseDate>on "),
    "no request": (f"<request>{URL}</request>", ""),
    "an unknown verb in the request": ("<request>", '<request verb="List">'),
    "an unknown argument in the request": ("<request>", '<request prefix="oai_dc">'),
    "something behind the list": ("</ListRecords>", "</ListRecords><extra/>"),
    "text between the records": ("</record>", "</record>x"),
}
KEPT = {
    "nothing changed": ("", ""),
    "a day": (STAMP, "<datestamp>2020-01-06<"),
    "a fraction of a second, which the schema lets pass": (STAMP, "<datestamp>2020-01-06T00:00:00.5Z<"),
    "blanks around a datestamp": (STAMP, "<datestamp> 2020-01-06 <"),
    "comments": ("<header>", "<!-- a --><header><!-- b -->"),
    "a comment within an identifier": ("oai:a:1<", "oai:<!-- c -->a:1<"),
    "the request's arguments": ("<request>", '<request verb="ListRecords" metadataPrefix="oai_dc">'),
    "a schema location": ("<request>", f'<request xmlns:xsi="{XSI}" xsi:schemaLocation="a b">'),
    "an about container": ("</metadata>", '</metadata><about><x xmlns="urn:x"/></about>'),
    "a token that expires": ('cursor="0"', 'cursor="0" expirationDate="2030-01-01T00:00:00+01:00"'),
}  # fmt: skip


def changed(old: str, new: str) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new, 1).encode()


@pytest.mark.parametrize("case", REFUSED)
def test_strict_reading_rejects_a_violation_of_the_schema(case: str) -> None:
    with pytest.raises(MalformedAnswerError) as caught:
        read_page(changed(*REFUSED[case]), Verb.LIST_RECORDS, url=URL)
    assert caught.value.reason


@pytest.mark.parametrize("case", KEPT)
def test_strict_reading_accepts_what_the_schema_allows(case: str) -> None:
    page = read_page(changed(*KEPT[case]), Verb.LIST_RECORDS, url=URL)
    assert [header.identifier for header in page.headers] == ["oai:a:1", "oai:a:2"]
    assert page.next_token.startswith("2")


def test_records_next_to_no_records_match_are_read_leniently_and_rejected_strictly() -> None:
    error = '<error code="noRecordsMatch">nothing</error>'
    for place in ("<ListRecords>", "</OAI-PMH>"):
        body = GOOD.replace(place, error + place).encode()
        page = read_page(body, Verb.LIST_RECORDS, url=URL, loose=True)
        assert len(page.records) == 2
        assert any("noRecordsMatch" in note for note in page.notes)
        with pytest.raises(MalformedAnswerError, match="noRecordsMatch"):
            read_page(body, Verb.LIST_RECORDS, url=URL)
    with pytest.raises(OaiError, match="badArgument"):
        read_page(body.replace(b"noRecordsMatch", b"badArgument"), Verb.LIST_RECORDS, url=URL, loose=True)


def test_strict_reading_rejects_a_list_without_records() -> None:
    body = GOOD[: GOOD.index("<record>")] + GOOD[GOOD.index("<resumptionToken") :]
    with pytest.raises(MalformedAnswerError, match="noRecordsMatch"):
        read_page(body.encode(), Verb.LIST_RECORDS, url=URL)


@pytest.mark.parametrize("text", ["<!-- c --><![CDATA[t&k]]>", "t<!-- c -->&amp;k", "<?x y?>t&amp;<!-- -->k"])
def test_a_token_is_its_text_without_comments(text: str) -> None:
    start, end = GOOD.index('">2'), GOOD.index("</resumptionToken>")
    body = GOOD[: start + 2] + text + GOOD[end:]
    for loose in (True, False):
        page = read_page(body.encode(), Verb.LIST_RECORDS, url=URL, loose=loose)
        assert (page.next_token, page.faults, len(page.records)) == ("t&k", (), 2)
