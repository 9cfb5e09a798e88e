"""Dublin Core records, simple and qualified, and the rows that they become."""

from lxml import etree

from harvester.bibliographic.converters import converter_for
from harvester.bibliographic.record import (
    BibliographicRecord,
    Contributor,
    Identifier,
    Link,
    Note,
    NoteKind,
    Publication,
    RecordKind,
    Related,
    Subject,
    TitleVariant,
    Years,
)

_NAMESPACES = (
    'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
)


def _converted(elements: str) -> BibliographicRecord:
    root = etree.fromstring(f"<oai_dc:dc {_NAMESPACES}>{elements}</oai_dc:dc>")
    converter = converter_for(root)
    assert converter is not None
    assert converter.name == "dublin_core"
    return converter.convert(root)


def test_all_fifteen_elements() -> None:
    record = _converted(
        "<dc:title>Staročeský slovník</dc:title><dc:creator>Gebauer, Jan, 1838-1907</dc:creator>"
        "<dc:subject>čeština</dc:subject><dc:description>Díl první</dc:description>"
        "<dc:publisher>Academia</dc:publisher><dc:contributor>Smetánka, Emil (editor)</dc:contributor>"
        "<dc:date>1903</dc:date><dc:type>Text</dc:type><dc:format>674 s.</dc:format>"
        "<dc:identifier>ISBN 80-200-0129-8</dc:identifier><dc:source>Rukopis A</dc:source>"
        "<dc:language>cs</dc:language><dc:relation>Slovník staročeský</dc:relation>"
        "<dc:coverage>15. století</dc:coverage><dc:rights>volné dílo</dc:rights>"
    )
    assert record == BibliographicRecord(
        title="Staročeský slovník",
        sort_title="starocesky slovnik",
        kind=RecordKind.BOOK,
        years=Years(first=1903, last=1903),
        date_text="1903",
        languages=("cze",),
        extent="674 s.",
        contributors=(
            Contributor(name="Gebauer, Jan", kind="unknown", dates="1838-1907", roles=("cre",), main=True),
            Contributor(name="Smetánka, Emil", kind="unknown", roles=("edt",)),
        ),
        publications=(Publication(publisher="Academia", date="1903"),),
        subjects=(Subject(text="čeština"), Subject(text="15. století", kind="chronology")),
        genres=(Subject(text="Text", kind="genre"),),
        identifiers=(Identifier(scheme="isbn", value="9788020001290", found="ISBN 80-200-0129-8"),),
        related=(
            Related(relation="original", title="Rukopis A"),
            Related(relation="related", title="Slovník staročeský"),
        ),
        notes=(
            Note(field="dc:description", text="Díl první"),
            Note(kind=NoteKind.KEPT, field="dc:language", text="cs"),
            Note(field="dc:rights", text="volné dílo"),
        ),
    )


def test_qualified_elements_say_more() -> None:
    record = _converted(
        '<dcterms:alternative xml:lang="en">A Dictionary</dcterms:alternative>'
        '<dc:title xml:lang="cs">Slovník</dc:title><dcterms:modified>2020-01-01</dcterms:modified>'
        '<dcterms:issued xsi:type="dcterms:W3CDTF">1998-03</dcterms:issued>'
        '<dc:subject xsi:type="dcterms:LCSH">Czech language</dc:subject>'
        "<dcterms:isPartOf>Naše řeč</dcterms:isPartOf><dcterms:spatial>Praha</dcterms:spatial>"
        "<dcterms:abstract>O slovech</dcterms:abstract>"
    )
    assert record.title == "Slovník"
    assert record.variants == (TitleVariant(kind="alternative", text="A Dictionary", label="en"),)
    assert (record.years, record.date_text) == (Years(first=1998, last=1998), "1998-03")
    assert record.subjects == (
        Subject(text="Czech language", source="LCSH"),
        Subject(text="Praha", kind="place"),
    )
    assert record.related == (Related(relation="host", title="Naše řeč", label="isPartOf"),)
    texts = {(note.field, note.text) for note in record.notes}
    assert ("dc:modified", "2020-01-01") in texts
    assert ("dc:abstract", "O slovech") in texts
    assert ("dc:issued", "W3CDTF: 1998-03") in texts


def test_identifiers_are_told_apart() -> None:
    record = _converted(
        "<dc:title>X</dc:title><dc:identifier>https://doi.org/10.1000/A.1</dc:identifier>"
        "<dc:identifier>http://repository.example/1</dc:identifier>"
        "<dc:identifier>ISSN 0027-8203</dc:identifier>"
        "<dc:identifier>uuid:1234</dc:identifier><dc:identifier>ISBN 80-200-0129-0</dc:identifier>"
    )
    assert [(one.scheme, one.value, one.state) for one in record.identifiers] == [
        ("doi", "10.1000/a.1", "valid"),
        ("uri", "http://repository.example/1", "valid"),
        ("issn", "0027-8203", "valid"),
        ("other", "uuid:1234", "valid"),
        ("isbn", "8020001290", "invalid"),
    ]
    assert record.links == (Link(url="https://doi.org/10.1000/A.1"), Link(url="http://repository.example/1"))


def test_what_cannot_be_read_is_told() -> None:
    record = _converted(
        "stray<dc:language>tongues</dc:language><dc:date>bez data</dc:date><dc:nonsense>x</dc:nonsense>"
    )
    assert {note.field: note.fault for note in record.notes if note.fault} == {
        "dc:dc": "text between the elements",
        "dc:language": "unknown language",
        "dc:title": "no title (dc:title)",
        "dc:date": "no year recognized in this date",
    }
    assert Note(kind=NoteKind.KEPT, field="dc:nonsense", text="x") in record.notes


def test_a_container_of_another_name_is_known_by_its_elements() -> None:
    root = etree.fromstring(f"<x {_NAMESPACES}><dc:title>Kniha</dc:title></x>")
    converter = converter_for(root)
    assert converter is not None
    assert converter.convert(root).title == "Kniha"


def test_no_converter_reads_what_is_neither() -> None:
    assert converter_for(etree.fromstring("<mods xmlns='http://www.loc.gov/mods/v3'/>")) is None
