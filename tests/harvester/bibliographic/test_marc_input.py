"""MARC records read one by one from files and from the store, and converted."""

import gzip
from pathlib import Path

import pytest
from lxml import etree

from harvester.bibliographic.marc21.iso2709 import to_iso2709
from harvester.bibliographic.marc21.structure import read_written
from harvester.bibliographic.marc_input import read_marc_file, stored_marc_input
from harvester.bibliographic.stored_marc import marc_source
from oai.errors import UsageError
from tests.harvester.bibliographic.conftest import Catalogue, catalogue
from tests.harvester.bibliographic.marc import marcxml

__all__ = ["catalogue"]

RECORD = marcxml("001 web1", "245 10 $aPříklad")
OTHER = marcxml("001 web2", "245 10 $aJiný")
AUTHORITY = marcxml("100 1# $aHus, Jan", leader="00000nz  a2200000n  4500")
COLLECTION = '<collection xmlns="http://www.loc.gov/MARC21/slim">{}</collection>'
ANSWER = (
    '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords>'
    "<record><header/><metadata>{}</metadata></record><record><header/><metadata>{}</metadata></record>"
    "</ListRecords></OAI-PMH>"
)


def exchanged(*records: str) -> bytes:
    return b"".join(to_iso2709(read_written(etree.fromstring(one))) for one in records)


OAI_MARC = (
    '<oai_marc status="n" type="a" level="i"><fixfield id="001">"web1"</fixfield>'
    '<varfield id="245" i1="0" i2="0"><subfield label="a">Příklad</subfield></varfield></oai_marc>'
)


def read(file: Path) -> list[tuple[str, str, str]]:
    """Return place, control number and title of each record; fast and full reading must agree."""
    found = []
    for one in read_marc_file(file):
        record = one.converted()
        assert (record.control_number, record.title) == (one.control_number, one.title)
        found.append((one.place, record.control_number, record.title))
    return found


@pytest.mark.parametrize(
    ("content", "last"),
    [
        (COLLECTION.format(RECORD + AUTHORITY + OTHER).encode(), 3),
        (b"\xef\xbb\xbf\n" + COLLECTION.format(RECORD + OTHER).encode(), 2),
        (ANSWER.format(RECORD, OTHER).encode(), 2),
        (COLLECTION.format(RECORD + OTHER).encode("utf-16"), 2),
        (b"\xfe\xff" + COLLECTION.format(RECORD + OTHER).encode("utf-16-be"), 2),
        (('<?xml version="1.0"?>' + COLLECTION.format(RECORD + OTHER)).encode("utf-16-be"), 2),
        (exchanged(RECORD, AUTHORITY, OTHER), 3),
        (exchanged(RECORD) + b"\r\n" + exchanged(OTHER) + b"\r\n", 2),
        (b"\xef\xbb\xbf" + exchanged(RECORD, OTHER), 2),
        (exchanged(RECORD) + b"\n \n" + b"\0" * 200_000 + exchanged(OTHER) + b"\r\n\x1a", 2),
        (ANSWER.format(OAI_MARC, OTHER).encode(), 2),
    ],
)
def test_a_file_may_be_marcxml_or_iso_2709(tmp_path: Path, content: bytes, last: int) -> None:
    file = tmp_path / "records"
    file.write_bytes(content)
    assert read(file) == [
        ("records, record 1", "web1", "Příklad"),
        (f"records, record {last}", "web2", "Jiný"),
    ]


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (COLLECTION.format(RECORD).encode()[:-5], "records, all after record 1", "line 1"),
        (
            COLLECTION.format(f"{RECORD}\n{OTHER.replace('Jiný', 'Jin&nbsp;ý')}").encode(),
            "records, all after record 1",
            "Entity 'nbsp' not defined",
        ),
        ("<!DOCTYPE a><a/>".encode("utf-16"), "records", "DOCTYPE"),
        (b"<!DOCTYPE a><a/>", "records", "DOCTYPE"),
        (exchanged(RECORD) + b"x" * 200_000, "records, record 2", "99,999 bytes without the end of a record"),
        (exchanged(RECORD) + b"00050nam\x1d", "records, record 2", "not a MARC record"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, place: str, reason: str
) -> None:
    file = tmp_path / "records"
    file.write_bytes(content)
    last = list(read_marc_file(file))[-1]
    assert (last.place, last.element) == (place, None)
    assert reason in last.unreadable


@pytest.mark.parametrize("length", [120_000, 2_000_000])
def test_records_after_one_that_is_too_long_are_read(tmp_path: Path, length: int) -> None:
    file = tmp_path / "records"
    file.write_bytes(exchanged(RECORD) + b"x" * length + b"\x1d" + exchanged(OTHER))
    first, long, *following = list(read_marc_file(file))
    assert (first.control_number, long.place) == ("web1", "records, record 2")
    assert "longer than 99,999 bytes" in long.unreadable
    assert [one.control_number for one in following] == ["web2"]


def test_no_record_is_lost_in_concatenated_files_with_byte_order_marks(tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_bytes(b"".join(b"\xef\xbb\xbf" + exchanged(record) for record in (RECORD, OTHER)))
    assert [one.control_number for one in read_marc_file(file)] == ["web1", "web2"]


@pytest.mark.parametrize("content", [gzip.compress(exchanged(RECORD)), b"PK\x03\x04\x1d", b"=001  web1\n"])
def test_a_file_of_another_kind_is_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "records"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="use MARCXML or ISO 2709"):
        list(read_marc_file(file))


def test_a_file_without_records_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_text(COLLECTION.format(AUTHORITY))
    with pytest.raises(UsageError, match="no bibliographic MARC record in it"):
        list(read_marc_file(file))
    with pytest.raises(UsageError, match="no such file"):
        list(read_marc_file(tmp_path / "missing"))


async def test_stored_records_include_deleted_and_damaged_ones(catalogue: Catalogue) -> None:
    catalogue.delete(1)
    await catalogue.harvest()
    ((name,),) = catalogue.rows("SELECT filename FROM oai_record WHERE identifier = 'oai:fake.example:1'")
    (catalogue.folder / name).unlink()
    source = marc_source(catalogue.database, catalogue.settings, catalogue.repository_id)
    found = {one.place: one for one in stored_marc_input(catalogue.database, source)}
    assert "No such file" in found["oai:fake.example:1"].unreadable
    assert found["oai:fake.example:2"].deleted
    third = found["oai:fake.example:3"]
    assert (third.identifier, third.control_number) == ("oai:fake.example:3", "nr3")
