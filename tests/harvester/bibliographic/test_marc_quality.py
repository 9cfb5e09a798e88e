"""The report on a folder of MARC records."""

from pathlib import Path

import pymarc
import pytest

from tests.bench.marc_quality import faulty_stop, measure, report
from tests.harvester.bibliographic.marc import marcxml

_DATED = "100 1# $aHus, Jan,$d1371-1415."
_AUTHORITY = "00000nz  a2200000n  4500"


@pytest.mark.parametrize("text", ["Hus, Jan.", "1371-1415.", "1962-.", "[1998]."])
def test_a_full_stop_after_a_word_or_number_is_reported(text: str) -> None:
    assert faulty_stop(text)


@pytest.mark.parametrize("text", ["Hus, Jan", "Novák, J.", "Wiley, Inc.", "s.r.o.", "Echa ...", ""])
def test_a_full_stop_of_an_abbreviation_is_not_reported(text: str) -> None:
    assert not faulty_stop(text)


def test_records_of_both_file_formats_are_counted_by_outcome(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        f"<collection>{marcxml('245 10 $aX', _DATED)}{marcxml('100 1# $aY', leader=_AUTHORITY)}</collection>"
    )
    (tmp_path / "broken.xml").write_text("<record>")
    record = pymarc.Record()
    record.add_field(pymarc.Field("245", pymarc.Indicators("1", "0"), [pymarc.Subfield("a", "Titul.")]))  # type: ignore[no-untyped-call]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.mrc").write_bytes(record.as_marc())
    quality = measure(tmp_path)
    assert (quality.records, quality.refused.total(), quality.stopped.total()) == (4, 2, 0)
    assert quality.values["titles"] == 2
    assert "persons: 0 of 1 end in a stop (0.0%)" in list(report(quality))
