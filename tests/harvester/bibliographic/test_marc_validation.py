"""Validation of MARC 21 on three levels."""

import re

import pytest
from lxml import etree

from harvester.bibliographic.marc21.designations import DESIGNATIONS
from harvester.bibliographic.marc21.structure import Level, read_written
from harvester.bibliographic.marc21.validation import validate, written_records
from tests.harvester.bibliographic.marc import FIXED, LEADER, marcxml

GOOD = (
    "001 nr1",
    "005 20240131120000.0",
    "007 ta",
    "020 ## $a80-200-0129-8$q(váz.)",
    "041 0# $acze$beng",
    "043 ## $ae-xr---",
    "044 ## $axr",
    "100 1# $aHus, Jan$d1371-1415$4aut$7jn19981001473",
    "245 10 $aKnihy kacířů :$bvýbor$n2.$pDíl",
    "264 #1 $aPraha :$bAcademia,$c2015",
    "300 ## $a120 stran",
    "655 #7 $aedice$2czenas",
    "910 ## $xlocal$?anything",
    "990 ## $aBK",
)
_SLIM = "http://www.loc.gov/MARC21/slim"


def found(*lines: str, leader: str = LEADER, fixed: str | None = FIXED, level: int = 3) -> list[str]:
    """Return the findings as `level code tag#occurrence place` for a record given as lines."""
    return findings(marcxml(*lines, leader=leader, fixed=fixed), level=level)


def findings(xml: str, *, level: int = 3) -> list[str]:
    """Return the findings of MARCXML."""
    (record,) = written_records(etree.fromstring(xml))
    return [
        f"{one.level:d} {one.code} {one.tag}{'' if one.occurrence == 1 else f'#{one.occurrence}'}{one.place}"
        for one in validate(record, Level(level))
    ]


def changed(*lines: str, leader: str = LEADER, fixed: str = FIXED, drop: tuple[str, ...] = ()) -> list[str]:
    """Return the findings of the good record with fields removed and added."""
    kept = [one for one in GOOD if one[:3] not in drop]
    # Control fields come first.
    return found(*sorted([*kept, *lines], key=lambda line: line[:3] > "009"), leader=leader, fixed=fixed)


def fixed(place: int, text: str) -> str:
    """Return field 008 of the tests' records with other characters at a position."""
    return f"{FIXED[:place]}{text}{FIXED[place + len(text) :]}"


def test_a_good_record_has_no_findings() -> None:
    assert found(*GOOD) == []


def structure(inner: str, leader: str = f"<leader>{LEADER}</leader>") -> list[str]:
    return findings(f'<record xmlns="{_SLIM}">{leader}{inner}</record>', level=1)


def field(inner: str = '<subfield code="a">T</subfield>', tag: str = "245", marks: str = "10") -> str:
    """Return a data field; indicators are in `marks`, comma-separated if one is not a single character."""
    first, second = marks.split(",") if "," in marks else list(marks)
    return f'<datafield tag="{tag}" ind1="{first}" ind2="{second}">{inner}</datafield>'


@pytest.mark.parametrize(
    ("xml", "finding"),
    [
        (field(), None),
        (f"<!-- a comment -->{field()}", None),
        ('<controlfield tag="00A">x<!-- a comment --></controlfield>', None),
        (field(marks=",0"), "indicator_form 245ind1"),
        (field(marks="1,10"), "indicator_form 245ind2"),
        (field(tag="24"), "data_field_tag 24"),
        (field(tag="008"), "data_field_tag 008"),
        (field('<subfield code="ab">T</subfield>'), "subfield_code 245"),
        (field("<subfield>T</subfield>"), "subfield_code 245"),
        (field(""), "no_subfields 245"),
        (field('x<subfield code="a">T</subfield>'), "stray_text 245"),
        (field('<subfield code="a">T<b>c</b></subfield>'), "unknown_element 245"),
        (field('<b>c</b><subfield code="a">T</subfield>'), "unknown_element 245"),
        ('<controlfield tag="245">x</controlfield>', "control_field_tag 245"),
        (
            '<controlfield tag="001"><subfield code="a">1</subfield></controlfield>',
            "control_field_content 001",
        ),
        ("<note>x</note>", "unknown_element record"),
        (f'{field()}<controlfield tag="001">1</controlfield>', "element_order 001"),
        (f"{field()} text {field()}", "stray_text record"),
        (f"<leader>{LEADER}</leader>", "leader_repeated LDR#2"),
    ],
)
def test_structure_is_checked(xml: str, finding: str | None) -> None:
    assert structure(xml) == ([] if finding is None else [f"1 {finding}"])


@pytest.mark.parametrize(
    ("leader", "finding"),
    [
        ("", "leader_missing"),
        ("<leader>00000nam</leader>", "leader_length"),
        ("<leader>00000nam a2200000 i 4501</leader>", "leader_form"),
        ("<leader>     nam a22      i 4500</leader>", None),
        ("<leader>00000nam#a2200000#i#4500</leader>", "leader_form"),
    ],
)
def test_structure_of_the_leader_is_checked(leader: str, finding: str | None) -> None:
    assert structure(field(), leader) == ([] if finding is None else [f"1 {finding} LDR"])


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("248 ## $ax", "undefined_field 248"),
        ("440 #0 $ax", "obsolete_field 440"),
        ("002 x", "undefined_field 002"),
        ("300 1# $ax", "undefined_indicator 300#2ind1"),
        ("650 09 $ax$2eczenas", None),
        ("300 ## $ax$zy", "undefined_subfield 300#2$z"),
        ("300 ## $ax$9y", None),
        ("300 ## $ax$82\\x$83\\x$6880-01", None),
        ("490 0# $ax$lone$ltwo", "repeated_subfield 490$l"),
        ("800 1# $aHus, Jan$tKnihy$7am", None),
        ("883 0# $81\\p$ax$c0,95$d20130529$qDE-101", None),
        ("590 ## $?x", None),
        ("659 ## $?x", None),
        ("866 30 $av. 1-", None),
        ("880 10 $6245-01$aTitul", None),
        ("880 10 $6245-01$zTitul", "undefined_subfield 880$z"),
        ("880 10 $aTitul", "missing_linkage 880$6"),
        ("880 ## $6999-01$?x", None),
        ("110 2# $aČSAV", "several_main_entries 110"),
        ("245 10 $aAgain", "repeated_field 245#2"),
    ],
)
def test_fields_indicators_and_subfields_have_to_be_defined(line: str, finding: str | None) -> None:
    assert changed(line) == ([] if finding is None else [f"2 {finding}"])


@pytest.mark.parametrize("tag", ["001", "245"])
def test_required_fields_have_to_be_present(tag: str) -> None:
    assert changed(drop=(tag,)) == [f"2 missing_field {tag}"]


def test_the_table_has_each_field_once_and_no_subfield_twice() -> None:
    for tag, one in DESIGNATIONS.items():
        assert re.fullmatch(r"\d{3}", tag)
        assert not one.once & one.repeated, tag
        assert all(one.indicators) or tag < "010", tag
    assert list(DESIGNATIONS) == sorted(DESIGNATIONS)


@pytest.mark.parametrize(
    ("leader", "finding"),
    [
        ("00000xam a2200000 i 4500", "LDR/05"),
        ("00000nbm a2200000 i 4500", "LDR/06"),
        ("00000nam a2200000 x 4500", "LDR/18"),
        ("00000nam a22000009i 4500", "LDR/17"),
    ],
)
def test_codes_of_the_leader_are_checked(leader: str, finding: str) -> None:
    assert changed(leader=leader)[0] == f"3 undefined_code {finding}"


@pytest.mark.parametrize(
    ("place", "text", "finding"),
    [
        (0, "241315", "date_form 008/00-05"),
        (6, "z", "undefined_code 008/06"),
        (7, "x015", "date_form 008/07-10"),
        (6, "m20152010", "dates_reversed 008/07-14"),
        (11, "20x5", "date_form 008/11-14"),
        (6, "m20159999", None),
        (6, "e20150131", None),
        (6, "e20151331", "date_form 008/11-14"),
        (6, "q20102019", None),
        (6, "nuuuuuuuu", None),
        (6, "n    2015", "date_form 008/11-14"),
        (6, "b        ", None),
        (6, "s20152016", "date_form 008/11-14"),
        (6, "c20152018", "date_form 008/11-14"),
        (6, "u199uuuuu", None),
        (15, "zz ", "undefined_country 008/15-17"),
        (15, "cs ", "former_country 008/15-17"),
        (22, "y", "undefined_code 008/22"),
        (33, "9", "undefined_code 008/33"),
        (35, "xyz", "undefined_language 008/35-37"),
        (35, "scc", "former_language 008/35-37"),
        (39, "9", "undefined_code 008/39"),
        (35, "   ", None),
    ],
)
def test_positions_of_008_are_checked(place: int, text: str, finding: str | None) -> None:
    found = changed(fixed=fixed(place, text), drop=("041", "044"))
    assert found == ([] if finding is None else [f"3 {finding}"])


@pytest.mark.parametrize(
    ("type_and_level", "positions", "finding"),
    [
        ("as", "qr p       0   a0", None),
        ("as", "yr p       0   a0", "3 undefined_code 008/18"),
        ("cm", "sya||||||||||||||", None),
        ("cm", "syf||||||||||||||", "3 undefined_code 008/20"),
        ("em", "a      a  f  0   ", None),
        ("gm", "090 g          vl", None),
        ("mm", "    g   k        ", "3 undefined_code 008/26"),
        ("pc", "     o           ", None),
    ],
)
def test_positions_of_008_depend_on_the_material(
    type_and_level: str, positions: str, finding: str | None
) -> None:
    leader = f"00000n{type_and_level} a2200000 i 4500"
    assert changed(leader=leader, fixed=fixed(18, positions)) == ([] if finding is None else [finding])


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("005 20241331120000.0", "time_form 005#2"),
        ("006 a|||||||||||||||||", None),
        ("006 a||||", "field_length 006"),
        ("006 x|||||||||||||||||", "undefined_code 006/00"),
        ("006 sy|||||||||||||||0", "undefined_code 006/01"),
        ("007 cr||||", None),
        ("007 cr |||||||||||", None),
        ("007 tax", "field_length 007#2"),
        ("007 x", "undefined_code 007#2/00"),
        ("020 ## $a80-200-0129-9", "check_digit 020#2$a"),
        ("020 ## $abrož.", "number_form 020#2$a"),
        ("020 ## $z80-200-0129-9", None),
        ("022 ## $a0028-0837", "check_digit 022$a"),
        ("022 ## $a0028-0836$l0028-0836", None),
        ("024 2# $aM-2600-0043-8", None),
        ("024 2# $aM-2600-0043-9", "check_digit 024$a"),
        ("024 3# $a8590236077225", None),
        ("024 3# $a8590236077221", "check_digit 024$a"),
        ("041 1# $aczeeng", "several_codes 041#2$a"),
        ("041 1# $aqqq", "undefined_language 041#2$a"),
        ("041 17 $acs$2rfc5646", None),
        ("043 ## $ae-xr--", "area_form 043#2$a"),
        ("044 ## $axrx", "undefined_country 044#2$a"),
    ],
)
def test_other_coded_values_are_checked(line: str, finding: str | None) -> None:
    lines = [one for one in changed(line) if one.startswith("3")]
    assert lines == ([] if finding is None else [f"3 {finding}"])


def test_codes_that_differ_from_008_are_reported() -> None:
    assert changed("041 0# $aeng", drop=("041",)) == ["3 languages_differ 041$a"]
    assert changed("044 ## $axo$axr", drop=("044",)) == ["3 countries_differ 044$a"]


@pytest.mark.parametrize(
    ("coded", "written", "agree"),
    [
        ("s2015    ", "2015", True),
        ("s2015    ", "[2014]", False),
        ("s2015    ", "©2015", True),
        ("t20152014", "2015, ©2014", True),
        ("q20102019", "[mezi 2010 a 2019?]", True),
        ("q20102019", "[2020]", False),
        ("c20159999", "2015-", True),
        ("m20152018", "2019", False),
        ("s201u    ", "[2012?]", True),
        ("s2015    ", "[b.r.]", True),
        ("nuuuuuuuu", "2015", True),
    ],
)
def test_the_date_of_publication_has_to_agree_with_008(coded: str, written: str, *, agree: bool) -> None:
    found = [
        one for one in changed(f"264 #1 $c{written}", fixed=fixed(6, coded), drop=("264",)) if "differ" in one
    ]
    assert found == ([] if agree else ["3 dates_differ 264$c"])


def test_a_finding_shows_the_found_and_the_allowed_values() -> None:
    (record,) = written_records(etree.fromstring(marcxml(*GOOD, "300 ## $ax$z" + "long " * 40)))
    (finding,) = validate(record)
    assert (finding.tag, finding.occurrence, finding.place) == ("300", 2, "$z")
    assert finding.found.startswith("long long")
    assert len(finding.found) == 80
    assert finding.expected == "one of the subfields 37abcefg"


def test_a_record_is_validated_as_written() -> None:
    xml = marcxml("245 10 $a Title  with blanks $b", fixed=None)
    record = read_written(etree.fromstring(xml))
    assert record.leader == LEADER
    assert [(one.tag, one.indicators, one.subfields) for one in record.fields] == [
        ("245", ("1", "0"), (("a", " Title  with blanks "), ("b", "")))
    ]


def test_records_of_other_kinds_are_not_validated() -> None:
    assert written_records(etree.fromstring(marcxml(leader="00000nz  a2200000n  4500"))) == []


def test_oai_marc_records_from_aleph_are_validated() -> None:
    xml = (
        '<oai_marc xmlns="http://www.openarchives.org/OAI/1.1/oai_marc" status="n" type="a" level="m">'
        '<fixfield id="LDR">00000nam^^2200000^i^4500</fixfield><fixfield id="001">"nr1"</fixfield>'
        f'<fixfield id="008">"{FIXED}"</fixfield>'
        '<varfield id="245" i1="1" i2="0"><subfield label="q">x</subfield></varfield></oai_marc>'
    )
    assert findings(xml) == ["2 undefined_subfield 245$q"]
