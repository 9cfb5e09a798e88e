"""Answers of the protocol as values."""

import pytest
from lxml import etree

from harvester.reading.answers import author_and_year_of, title_of

_MARC = '<record xmlns="http://www.loc.gov/MARC21/slim">{}</record>'
_DC = "http://purl.org/dc/elements/1.1/"
_FIELD = (
    '<datafield tag="{}"><subfield code="a">{}</subfield><subfield code="c">J. Collins</subfield></datafield>'
)


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        (
            "<dc><dc:title xmlns:dc='x'> </dc:title><dc:title xmlns:dc='x'>Water\n and  fire</dc:title></dc>",
            "Water and fire",
        ),
        (_MARC.format(_FIELD.format("100", "no") + _FIELD.format("245", "How to /")), "How to / J. Collins"),
        (_MARC.format(_FIELD.format("100", "no")), ""),
        (
            "<mods xmlns='m'><titleInfo><nonSort>The</nonSort><title>Tempest</title></titleInfo></mods>",
            "Tempest",
        ),
        ("<dc><title>H<sub>2</sub>O <!-- not this -->and you</title></dc>", "H2O and you"),
        ("", ""),
    ],
    ids=["Dublin Core", "MARC 21", "MARC 21 without", "MODS", "markup", "nothing"],
)
def test_a_record_is_named_by_its_title_in_any_format(metadata: str, title: str) -> None:
    assert title_of(etree.fromstring(f"<record><header/><metadata>{metadata}</metadata></record>")) == title


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (
            f"<dc xmlns='{_DC}'><date>1899-05</date><creator>Neruda, Jan</creator></dc>",
            ("Neruda, Jan", "1899"),
        ),
        (
            _MARC.format(
                "<datafield tag='100'><subfield code='a'>Němcová, Božena,</subfield></datafield>"
                "<datafield tag='264'><subfield code='c'>[1855]</subfield></datafield>"
            ),
            ("Němcová, Božena", "1855"),
        ),
        (f"<dc xmlns='{_DC}'><date>undated</date></dc>", ("", "")),
    ],
)
def test_the_first_author_and_the_year_of_a_record_are_found(metadata: str, found: tuple[str, str]) -> None:
    record = etree.fromstring(f"<record><header/><metadata>{metadata}</metadata></record>")
    assert author_and_year_of(record) == found
