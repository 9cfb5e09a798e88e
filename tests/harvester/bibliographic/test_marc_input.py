"""MARC records read from files and from the store, converted one after the other."""

from pathlib import Path

import pytest
from lxml import etree

from harvester.bibliographic.marc21.iso2709 import to_iso2709
from harvester.bibliographic.marc21.structure import read_written
from harvester.bibliographic.marc_input import ConvertedMarc, convert_marc_file, convert_stored_marc
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


def numbers(found: list[ConvertedMarc]) -> list[str]:
    return [one.record.control_number if one.record else one.unreadable for one in found]


@pytest.mark.parametrize(
    "content",
    [
        COLLECTION.format(RECORD + AUTHORITY + OTHER).encode(),
        b"\xef\xbb\xbf\n" + COLLECTION.format(RECORD + OTHER).encode(),
        ANSWER.format(RECORD, OTHER).encode(),
        exchanged(RECORD, AUTHORITY, OTHER),
        exchanged(RECORD) + b"\r\n" + exchanged(OTHER) + b"\r\n",
    ],
)
def test_a_file_has_marcxml_or_iso_2709(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "records"
    file.write_bytes(content)
    found = list(convert_marc_file(file))
    assert numbers(found) == ["web1", "web2"]
    assert found[0].record is not None
    assert (found[0].place, found[0].record.title) == ("records, record 1", "Příklad")


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (COLLECTION.format(RECORD).encode()[:-5], "records, all after record 1", "line 1"),
        (b"<!DOCTYPE a><a/>", "records", "DOCTYPE"),
        (exchanged(RECORD) + b"x" * 200_000, "records, record 2", "99,999 bytes without the end of a record"),
        (exchanged(RECORD) + b"00050nam\x1d", "records, record 2", "not a MARC record"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: bytes, place: str, reason: str) -> None:
    file = tmp_path / "records"
    file.write_bytes(content)
    last = list(convert_marc_file(file))[-1]
    assert (last.place, last.record) == (place, None)
    assert reason in last.unreadable


def test_a_file_without_records_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_text(COLLECTION.format(AUTHORITY))
    with pytest.raises(UsageError, match="no bibliographic MARC record in it"):
        list(convert_marc_file(file))
    with pytest.raises(UsageError, match="no such file"):
        list(convert_marc_file(tmp_path / "missing"))


async def test_stored_records_come_with_those_that_are_deleted_or_damaged(catalogue: Catalogue) -> None:
    catalogue.delete(1)
    await catalogue.harvest()
    ((name,),) = catalogue.rows("SELECT filename FROM oai_record WHERE identifier = 'oai:fake.example:1'")
    (catalogue.folder / name).unlink()
    source = marc_source(catalogue.database, catalogue.settings, catalogue.repository_id)
    found = {one.place: one for one in convert_stored_marc(catalogue.database, source)}
    assert "No such file" in found["oai:fake.example:1"].unreadable
    assert found["oai:fake.example:2"].deleted
    third = found["oai:fake.example:3"]
    assert third.record is not None
    assert (third.identifier, third.record.control_number) == ("oai:fake.example:3", "nr3")
