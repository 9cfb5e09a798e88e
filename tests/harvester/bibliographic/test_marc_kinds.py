"""Namespaces, formats and kinds of MARC records, and several records in one document."""

from dataclasses import replace

import pytest
from lxml import etree

from harvester.bibliographic.converters import converter_for
from harvester.bibliographic.imports import list_omissions
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.record import Link, NoteKind
from tests.harvester.bibliographic.conftest import Catalogue, counts
from tests.harvester.bibliographic.marc import converted, marcxml

_SLIM = "http://www.loc.gov/MARC21/slim"
_OAI = "http://www.openarchives.org/OAI/2.0/"
_HOLDINGS = "00000nx  a2200000zn 4500"


def _collection(*records: str) -> etree._Element:
    return etree.fromstring(f'<collection xmlns="{_SLIM}">{"".join(records)}</collection>')


@pytest.mark.parametrize(
    "namespace",
    [_SLIM, f"{_SLIM}/", "info:lc/xmlns/marcxchange-v1", "info:lc/xmlns/marcxchange-v2", "", _OAI],
)
def test_marc_is_read_in_every_namespace_in_which_it_is_published(namespace: str) -> None:
    text = marcxml("100 1# $aHus, Jan$4aut", "245 10 $aKnihy").replace(_SLIM, namespace)
    element = etree.fromstring(text)
    converter = converter_for(element)
    assert converter is not None
    record = converter.convert(element)
    assert (record.title, record.contributors[0].name) == ("Knihy", "Hus, Jan")
    assert record.languages == ("cze",)
    assert not [note for note in record.notes if note.kind is NoteKind.BROKEN]


def test_a_record_that_is_not_marc_is_not_read_as_marc() -> None:
    assert converter_for(etree.fromstring(f'<record xmlns="{_OAI}"><header/></record>')) is None


_ALEPH = (
    "<oai_marc{}>{}<fixfield id='001'>nkc1</fixfield><fixfield id='008'>150312s2014^^^^xr^^u||||||||||0||b0"
    "cze^^</fixfield><varfield id='245' i1='1' i2='0'><subfield label='a'>Echa :</subfield>"
    "<subfield label='b'>fórum</subfield></varfield></oai_marc>"
)


@pytest.mark.parametrize(
    ("attributes", "leader"),
    [
        ("", "<fixfield id='LDR'>^^^^^nas^a22^^^^^^a^4500</fixfield>"),
        (" xmlns='http://www.openarchives.org/OAI/1.1/oai_marc' status='n' type='a' level='s'", ""),
        (f" xmlns='{_OAI}'", "<fixfield id='LDR'>-----nas-a22------a-4500</fixfield>"),
    ],
)
def test_oai_marc_of_aleph_is_read(attributes: str, leader: str) -> None:
    element = etree.fromstring(_ALEPH.format(attributes, leader))
    converter = converter_for(element)
    assert converter is not None
    record = converter.convert(element)
    assert (record.title, record.subtitle, record.kind.value) == ("Echa", "fórum", "serial")
    assert (record.control_number, record.years.first, record.country) == ("nkc1", 2014, "xr")
    assert not [note for note in record.notes if note.kind is NoteKind.BROKEN]


def test_quotation_marks_around_a_fixed_field_of_oai_marc_are_removed() -> None:
    element = etree.fromstring(_ALEPH.format("", "").replace("nkc1", '"nkc1"'))
    assert Marc21Converter().convert(element).control_number == "nkc1"


@pytest.mark.parametrize(
    ("leader", "kind"),
    [
        ("00000nz  a2200000n  4500", "authority"), ("00000nu  a2200000zn 4500", "holdings"),
        ("00000nv  a2200000zn 4500", "holdings"), ("00000nx  a2200000zn 4500", "holdings"),
        ("00000ny  a2200000zn 4500", "holdings"), ("00000nw  a2200000n  4500", "classification"),
        ("00000nq  a2200000n  4500", "community information"), ("-----nx--a22-----n--450", "holdings"),
    ],
)  # fmt: skip
def test_the_kind_of_a_declined_record_is_named(leader: str, kind: str) -> None:
    element = etree.fromstring(marcxml("245 10 $aX", leader=leader))
    reason = Marc21Converter().declined(element)
    assert reason == f"not bibliographic: MARC {kind} data, by type of record (leader position 6)"


def test_the_type_attribute_decides_if_the_leader_does_not() -> None:
    def declined(leader: str, attributes: str) -> str:
        text = marcxml("245 10 $aX", leader=leader).replace("<record", f"<record {attributes}")
        return Marc21Converter().declined(etree.fromstring(text))

    assert "MARC authority data" in declined("00000n   a2200000n  4500", "type='Authority'")
    assert declined("00000nam a2200000n  4500", "type='Holdings'") == ""
    assert declined("00000n   a2200000n  4500", "type='Bibliographic'") == ""
    assert "'UNIMARC', not MARC 21" in declined("00000nam a2200000n  4500", "format='UNIMARC'")


def test_an_undeclared_unimarc_record_is_left_out() -> None:
    coded = "100 ## $a20120101d2012    m  y0frey50      ba"
    folded = "100 ## $a20010315d1998 m y0czey0103 ba"
    for begin in ([coded], [folded], []):
        unimarc = marcxml(*begin, "200 1# $aLe livre", "210 ## $aParis")
        assert "UNIMARC's" in Marc21Converter().declined(etree.fromstring(unimarc))
    for fields in ((coded, "200 1# $aX", "245 10 $aX"), ("100 1# $aHus, Jan", "200 ## $aX")):
        assert Marc21Converter().declined(etree.fromstring(marcxml(*fields))) == ""


def test_a_record_with_the_status_deleted_is_left_out() -> None:
    deleted = marcxml("245 10 $aSmazaný záznam", leader="00000dam a2200000 i 4500")
    reason = "a deleted record, by its status (leader position 5)"
    cut = marcxml("245 10 $aNotový rukopis", leader="00714 dm a2200205 a 450")
    assert Marc21Converter().declined(etree.fromstring(cut)) == ""
    assert Marc21Converter().declined(etree.fromstring(deleted)) == reason
    collection = _collection(deleted, marcxml("245 10 $aKniha"))
    assert Marc21Converter().declined(collection) == ""
    assert Marc21Converter().convert(collection).title == "Kniha"


def test_the_bibliographic_record_of_a_collection_is_converted_with_its_holdings() -> None:
    collection = _collection(
        marcxml("852 ## $aABA001$hI 1", "856 40 $uhttps://x.example/1", leader=_HOLDINGS, fixed=None),
        marcxml("001 nr1", "245 10 $aKniha"),
        marcxml("100 1# $aHus, Jan", leader="00000nz  a2200000n  4500", fixed=None),
    )
    record = Marc21Converter().convert(collection)
    assert (record.title, record.links) == ("Kniha", (Link(url="https://x.example/1"),))
    kept = {note.field: note.text for note in record.notes if note.kind is NoteKind.KEPT}
    assert kept["852"] == "$a ABA001 $h I 1"
    assert "authority record:" in kept["record"]
    assert "Hus, Jan" in kept["record"]
    fields = list(Marc21Converter().fields(collection))
    assert [one.name for one in fields] == ["LDR", "008", "001", "245", "852", "856"]


def test_further_bibliographic_records_of_a_collection_are_named_in_the_notes() -> None:
    record = Marc21Converter().convert(_collection(marcxml("245 10 $aPrvní"), marcxml("245 10 $aDruhý")))
    (note,) = [note for note in record.notes if note.fault]
    assert record.title == "První"
    assert "Druhý" in note.text
    assert note.fault == "another bibliographic record in the same collection; only the first one has a row"


def test_a_collection_without_bibliographic_records_is_declined() -> None:
    authority = marcxml("100 1# $aHus", leader="00000nz  a2200000n  4500")
    holdings = marcxml("852 ## $aX", leader=_HOLDINGS)
    assert "MARC authority and holdings data" in Marc21Converter().declined(_collection(authority, holdings))
    assert "contains no record" in Marc21Converter().declined(_collection())


async def test_records_of_other_kinds_are_left_out_with_the_reason_and_without_an_error(
    catalogue: Catalogue,
) -> None:
    item = catalogue.fake.items[0]
    authority = marcxml("001 nr1", "100 1# $aHus, Jan", leader="00000nz  a2200000n  4500")
    catalogue.fake.items[0] = replace(item, metadata=authority)
    await catalogue.harvest()
    facts = catalogue.imported()
    assert (counts(facts), facts.state) == ({"seen": 3, "new": 2, "refused": 1}, "completed")
    with catalogue.database.session() as session:
        (omission,) = list_omissions(session)
    assert (omission.identifier, omission.kind) == (item.identifier, "refused")
    assert "MARC authority data" in omission.reason
    assert counts(catalogue.imported()) == {}


@pytest.mark.parametrize("anew", [True, False])
def test_rows_of_an_earlier_converter_are_rewritten(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, *, anew: bool
) -> None:
    """With --anew, or without it because the converter's version changed."""
    good = Marc21Converter.convert
    with monkeypatch.context() as earlier:
        earlier.setattr(
            Marc21Converter,
            "convert",
            lambda self, element: replace(good(self, element), title=f"{good(self, element).title}."),
        )
        if not anew:
            earlier.setattr(Marc21Converter, "version", 1)
        catalogue.imported()
    assert catalogue.titles() == ["The Czech Language.", "Knihy kacířů.", "Slovník staré češtiny."]
    assert counts(catalogue.imported(anew=anew)) == {"seen": 3, "updated": 3}
    assert catalogue.titles() == ["The Czech Language", "Knihy kacířů", "Slovník staré češtiny"]


def test_a_row_of_an_authority_record_is_removed_by_the_next_import(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.imported()
    monkeypatch.setattr(Marc21Converter, "declined", lambda _self, _element: "not bibliographic")
    assert counts(catalogue.imported(anew=True)) == {"seen": 3, "deleted": 3, "refused": 3}
    assert catalogue.titles() == []


def test_an_abbreviated_role_becomes_a_code() -> None:
    words = ("comp.", "tr.", "illustr.", "překl.", "sest.", "vyd.", "ed. and tr.", "opisovatel a not")
    record = converted("245 10 $aX", *(f"700 1# $aNovák, Jan,$e{word}" for word in words))
    assert [one.roles for one in record.contributors] == [
        ("com",), ("trl",), ("ill",), ("trl",), ("com",), ("pbl",), ("edt", "trl"), ("opisovatel a not",),
    ]  # fmt: skip
