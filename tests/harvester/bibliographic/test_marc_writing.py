"""MARC records written as ISO 2709 and as lines."""

import io
import shutil
import subprocess

import pytest
from lxml import etree
from pymarc import MARCReader, Record

from harvester.bibliographic.marc21.iso2709 import UnwritableRecordError, to_iso2709
from harvester.bibliographic.marc21.structure import WrittenRecord, marc_lines
from harvester.bibliographic.marc21.validation import written_records
from harvester.z3950.client import marcxml as read_iso2709
from tests.harvester.bibliographic.marc import FIXED, LEADER, marcxml

_SLIM = "http://www.loc.gov/MARC21/slim"
_LINES = (
    "001 nr1",
    "245 10 $aŽluťoučký kůň :$b馬, 🐎 a $ jiné",
    "245 10 $aOpakované$$prázdné",
    "700 1# $aHus, Jan,$d1371-1415$4aut$7jn19981001473",
    "856 40 $uhttps://x.example/?a=1&b=<2>",
    "9AB ##$1 $aLocal",
)


def written(*lines: str, leader: str = LEADER) -> WrittenRecord:
    """Return a record from lines."""
    (record,) = written_records(etree.fromstring(marcxml(*lines, leader=leader)))
    return record


def read_back(data: bytes) -> list[Record]:
    """Return the records that pymarc reads; None for one that it cannot read."""
    records = list(MARCReader(io.BytesIO(data)))
    assert None not in records
    return records


def facts(record: WrittenRecord | Record) -> list[tuple[object, ...]]:
    """Return the fields of our record or one of pymarc's in the same form."""
    if isinstance(record, WrittenRecord):
        return [
            (one.tag, one.data) if one.data is not None else (one.tag, *one.indicators, *one.subfields)
            for one in record.fields
        ]
    return [
        (one.tag, one.data)
        if one.control_field
        else (one.tag, *(one.indicators or ()), *((part.code, part.value) for part in one.subfields))
        for one in record.fields
    ]


def test_pymarc_reads_the_same_fields() -> None:
    record = written(*_LINES)
    (read,) = read_back(to_iso2709(record))
    assert facts(read) == facts(record)
    assert str(read.leader)[5:9] == LEADER[5:9]
    assert str(read.leader)[9] == "a"
    assert str(read.leader)[17:] == LEADER[17:20] + "4500"


def test_several_records_are_written_in_order() -> None:
    records = [written(f"001 nr{number}", *_LINES[1:]) for number in range(3)]
    read = read_back(b"".join(map(to_iso2709, records)))
    assert [facts(one) for one in read] == [facts(one) for one in records]


@pytest.mark.skipif(shutil.which("yaz-marcdump") is None, reason="yaz-marcdump is not installed")
def test_yaz_reads_the_same_lines() -> None:
    record = written(*_LINES)
    command = ["yaz-marcdump", "-i", "marc", "-o", "line", "/dev/stdin"]
    done = subprocess.run(command, input=to_iso2709(record), capture_output=True, check=True)
    assert done.stderr == b""
    read = done.stdout.decode().splitlines()
    ours = [line.replace("#", " ", 2) for line in marc_lines(record)[1:]]
    assert [" ".join(line.split()) for line in read[1:] if line] == [" ".join(line.split()) for line in ours]


def test_the_positions_that_iso_2709_defines_are_set() -> None:
    data = to_iso2709(written("001 1", leader=f"{'':5}nas  {'':7} i {'':4}"))
    assert data[:24] == b"%05dnas a2200049 i 4500" % len(data)


def xml(inner: str, leader: str = f"<leader>{LEADER}</leader>") -> WrittenRecord:
    """Return a record in MARCXML."""
    (record,) = written_records(etree.fromstring(f'<record xmlns="{_SLIM}">{leader}{inner}</record>'))
    return record


_SUBFIELD = '<subfield code="a">x</subfield>'


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (written(f"500 ## $a{'x' * 9_995}"), "field 500 has 10,000 bytes"),
        (written(*(f"500 ## $a{'ž' * 4_900}" for _ in range(11))), "at most 99,999"),
        (written("001 1", leader="00000nam"), "24 ASCII characters"),
        (written("001 1", leader="00000nám a2200000 i 4500"), "24 ASCII characters"),
        (xml(f'<datafield tag="5é0" ind1=" " ind2=" ">{_SUBFIELD}</datafield>'), "the tag '5é0'"),
        (xml(f'<datafield tag="005" ind1=" " ind2=" ">{_SUBFIELD}</datafield>'), "the tag '005'"),
        (xml('<controlfield tag="245">x</controlfield>'), "the tag '245'"),
        (xml('<controlfield tag="SYS">123</controlfield>'), "the tag 'SYS'"),
        (xml(f'<datafield tag="500" ind1="10" ind2=" ">{_SUBFIELD}</datafield>'), "'10'"),
        (xml(f'<datafield tag="500" ind1="ž" ind2=" ">{_SUBFIELD}</datafield>'), "'ž'"),
        (xml('<datafield tag="500" ind1=" " ind2=" "><subfield>x</subfield></datafield>'), "''"),
        (xml(f'<datafield tag="500" ind1=" " ind2=" ">text{_SUBFIELD}</datafield>'), "stray_text in 500"),
        (xml(f"<leader>{LEADER}</leader>"), "leader_repeated"),
    ],
)
def test_records_that_iso_2709_cannot_represent_are_rejected(record: WrittenRecord, words: str) -> None:
    with pytest.raises(UnwritableRecordError, match=words):
        to_iso2709(record)


def test_the_longest_field_and_a_missing_indicator_are_written() -> None:
    assert facts(read_back(to_iso2709(written(f"500 ## $a{'x' * 9_994}")))[0])[-1][1:3] == (" ", " ")
    record = xml(f'<datafield tag="500" ind2="1">{_SUBFIELD}</datafield>')
    assert facts(read_back(to_iso2709(record))[0]) == [("500", " ", "1", ("a", "x"))]


def test_the_field_fmt_of_aleph_is_written_as_aleph_writes_it() -> None:
    data = to_iso2709(xml('<controlfield tag="FMT">BK</controlfield>'))
    assert data.endswith(b"FMT000300000\x1eBK\x1e\x1d")
    (read,) = written_records(read_iso2709(data))
    assert facts(read) == [("FMT", "BK")]
    assert facts(read_back(data)[0]) == [("FMT", "B", "K")]


def test_a_record_is_written_as_lines() -> None:
    assert marc_lines(written("001 nr1", "245 1# $aTitle :$brest")) == [
        f"LDR    {LEADER}",
        f"008    {FIXED}",
        "001    nr1",
        "245 1# $a Title : $b rest",
    ]
    assert marc_lines(
        xml('<datafield tag="500" ind1=" " ind2=" "><subfield code="a">x\ny</subfield></datafield>')
    )[1:] == ["500 ## $a x y"]
