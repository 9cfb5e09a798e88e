"""Records with missing or wrong namespace declarations are read if the intended meaning is certain."""

import pytest
from lxml import etree

from harvester.reading.answers import Page
from harvester.reading.errors import MalformedAnswerError
from harvester.reading.replies import read_page
from harvester.reading.salvage import WELL_KNOWN, with_one_address_each
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, XSI_NAMESPACE, Verb
from oai.xml import parse
from tests.harvester.fake_repository import FakeRepository, Item

DC = f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}">'
DC += "<dc:title>A</dc:title></oai_dc:dc>"
SEVERAL = "a namespace has several addresses; the first is used"


def page_of(*metadata: str) -> Page:
    items = [Item(identifier=f"oai:a:{number}", metadata=found) for number, found in enumerate(metadata)]
    body = FakeRepository(items=items, url="http://a.example/oai").answer({"verb": "ListRecords"}).encode()
    with pytest.raises(MalformedAnswerError):
        read_page(body, Verb.LIST_RECORDS, url="http://a.example/oai")
    return read_page(body, Verb.LIST_RECORDS, url="http://a.example/oai", loose=True)


@pytest.mark.parametrize("prefix", WELL_KNOWN)
def test_an_undeclared_well_known_prefix_gets_its_namespace(prefix: str) -> None:
    page = page_of(f"<{prefix}:a/>", DC)
    stored = etree.fromstring(page.records[0].xml())
    assert stored.find(f"*/{{{WELL_KNOWN[prefix]}}}a") is not None
    assert f"the prefix {prefix!r} is not declared; it is read as {WELL_KNOWN[prefix]!r}" in page.notes
    assert not page.faults


@pytest.mark.parametrize("name", ["http://x.example/a b", "oai_dc:dc", "http://knihovna.example/č", "C:\\x"])
def test_a_namespace_name_need_not_be_a_uri(name: str) -> None:
    page = page_of(f'<d xmlns="{name}"><title>A</title></d>', DC)
    root = parse(page.records[0].xml(), source="stored")
    assert root.find(f"*/{{{name}}}d") is not None
    assert len(page.records) == 2
    assert not page.faults
    assert f"xmlns: '{name}' is not a valid URI" in page.notes


def test_a_namespace_name_with_a_brace_is_rejected() -> None:
    page = page_of('<d xmlns="http://x.example/{v}"><title>A</title></d>', DC)
    assert [record.fields() for record in page.records] == [{"title": ["A"]}]
    assert "'http://x.example/{v}' is not a valid URI" in page.faults[0].reason


def test_an_undeclared_attribute_prefix_is_stored_with_its_declaration() -> None:
    page = page_of(DC.replace("<oai_dc:dc", '<oai_dc:dc xsi:schemaLocation="a b"'))
    root = etree.fromstring(page.records[0].xml()).find(f"*/{{{OAI_DC_NAMESPACE}}}dc")
    assert root is not None
    assert root.get(f"{{{XSI_NAMESPACE}}}schemaLocation") == "a b"


def test_undeclared_prefixes_are_noted_once_per_page_and_its_other_records_stay_unchanged() -> None:
    bare = "<oai_dc:dc><dc:title>A</dc:title></oai_dc:dc>"
    page = page_of(bare, DC, bare)
    assert [record.fields() for record in page.records] == [{"title": ["A"]}] * 3
    assert len([note for note in page.notes if "is not declared" in note]) == 2
    assert page.records[1].xml().count(b"xmlns:dc=") == 1
    assert page.records[0].xml() != page.records[1].xml()


def test_a_record_with_an_undeclared_unknown_prefix_is_rejected() -> None:
    page = page_of("<x:a/>", DC)
    assert [header.identifier for header in page.headers] == ["oai:a:1"]
    (fault,) = page.faults
    assert fault.reason.startswith("record 'oai:a:0': Namespace prefix x on a is not defined")


def test_the_first_of_several_addresses_in_a_declaration_is_the_namespace() -> None:
    page = page_of(DC.replace(DC_NAMESPACE, f"{DC_NAMESPACE}\n  http://dublincore.org/simpledc.xsd"))
    assert page.records[0].fields() == {"title": ["A"]}
    assert page.notes[1:] == (SEVERAL,)
    assert f'xmlns:dc="{DC_NAMESPACE}"'.encode() in page.records[0].xml()


def test_several_addresses_at_the_root_are_read_in_the_same_way() -> None:
    body = FakeRepository(items=[Item(identifier="oai:a:1")]).answer({"verb": "ListRecords"}).encode()
    body = body.replace(b'OAI/2.0/">', b'OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">', 1)
    page = read_page(body, Verb.LIST_RECORDS, url="http://a.example/oai", loose=True)
    assert [header.identifier for header in page.headers] == ["oai:a:1"]


@pytest.mark.parametrize(
    "markup",
    [
        b"""<a b='x xmlns="http://a/ http://b/"'/>""",
        b"""<a xmlns="http://a/"/>""",
        b"""<a xmlns="http://a/ b"/>""",
        b"""<![CDATA[<a xmlns="http://a/ http://b/"/>]]>""",
        b"""<!-- <a xmlns="http://a/ http://b/"/> -->""",
        b"""<a title="http://a/ http://b/"/>""",
    ],
)
def test_only_a_declaration_with_several_addresses_is_changed(markup: bytes) -> None:
    assert with_one_address_each(markup) == markup
