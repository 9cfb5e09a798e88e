"""Simple and qualified Dublin Core records, and the rows that they become."""

import html
import itertools

import pytest
from lxml import etree

from harvester.bibliographic.batches import values_of
from harvester.bibliographic.converters import converter_for, converter_of_namespace
from harvester.bibliographic.dublin_core import QUALIFIED
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
    'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:marcrel="http://id.loc.gov/vocabulary/relators/"'
)


def _converted(elements: str) -> BibliographicRecord:
    root = etree.fromstring(f"<oai_dc:dc {_NAMESPACES}>{elements}</oai_dc:dc>")
    converter = converter_for(root)
    assert converter is not None
    assert converter.name == "dublin_core"
    return converter.convert(root)


def test_unknown_attributes_and_values_of_punctuation_alone_are_kept_as_notes() -> None:
    record = _converted(
        "<dc:title>T</dc:title><dc:title>=</dc:title><dc:subject>:</dc:subject><dc:publisher>:</dc:publisher>"
        '<dc:creator id="https://orcid.org/1" xsi:nil="false" xml:lang="cs">Novák, Jan</dc:creator>'
    )
    assert (record.title, record.variants, record.subjects, record.publications) == ("T", (), (), ())
    assert [(note.field, note.text, note.fault) for note in record.notes] == [
        ("dc:title", "=", "nothing but punctuation"),
        ("dc:subject", ":", "nothing but punctuation"),
        ("dc:publisher", ":", "nothing but punctuation"),
        ("dc:creator", "id=https://orcid.org/1: Novák, Jan", ""),
        ("dc:creator", "cs: Novák, Jan", ""),
    ]


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
            Related(relation="source", title="Rukopis A"),
            Related(relation="related", title="Slovník staročeský"),
        ),
        notes=(
            Note(field="dc:description", text="Díl první"),
            Note(kind=NoteKind.KEPT, field="dc:language", text="cs"),
            Note(field="dc:rights", text="volné dílo"),
        ),
    )


def test_each_publisher_is_a_statement_of_publication_and_the_first_has_the_date() -> None:
    record = _converted(
        "<dc:publisher>Univerzita Karlova</dc:publisher><dc:publisher>Karolinum</dc:publisher>"
        "<dc:publisher>Karolinum</dc:publisher><dc:date>2003</dc:date>"
    )
    assert record.publications == (
        Publication(publisher="Univerzita Karlova", date="2003"),
        Publication(publisher="Karolinum"),
    )
    assert "karolinum" in values_of(record)["words_c"].split()
    assert [note.field for note in record.notes] == ["dc:title"]


def test_qualified_elements_are_converted_to_variants_subjects_dates_and_notes() -> None:
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


@pytest.mark.parametrize("namespace", sorted(QUALIFIED))
def test_qualified_dublin_core_is_preferred_to_simple_dublin_core(namespace: str) -> None:
    qualified = converter_of_namespace(namespace)
    simple = converter_of_namespace("http://www.openarchives.org/OAI/2.0/oai_dc/")
    assert qualified is not None
    assert simple is not None
    assert (qualified.name, qualified.version) == (simple.name, simple.version)
    assert qualified.rank > simple.rank
    names = f'xmlns:q="{namespace}" {_NAMESPACES}'
    root = etree.fromstring(f"<q:qualifieddc {names}><dc:title>X</dc:title></q:qualifieddc>")
    assert converter_for(root) is qualified


def test_relations_are_titles_numbers_or_addresses() -> None:
    record = _converted(
        "<dc:title>X</dc:title><dcterms:isPartOf>urn:issn:0027-8203</dcterms:isPartOf>"
        '<dcterms:isVersionOf xsi:type="dcterms:URI">https://x.example/1</dcterms:isVersionOf>'
        '<dcterms:replaces rdf:resource="urn:x:2"/>'
        "<dcterms:references>ISBN 80-200-0129-8</dcterms:references>"
        "<dc:relation>https://x.example/3</dc:relation>"
    )
    assert record.related == (
        Related(relation="host", label="isPartOf", identifiers=("urn:issn:0027-8203",)),
        Related(relation="other edition", label="isVersionOf", identifiers=("https://x.example/1",)),
        Related(relation="preceding", label="replaces", identifiers=("urn:x:2",)),
        Related(relation="related", label="references", identifiers=("ISBN 80-200-0129-8",)),
        Related(relation="related", identifiers=("https://x.example/3",)),
    )
    assert record.links == (
        Link(url="https://x.example/1", label="isVersionOf", relation="related"),
        Link(url="https://x.example/3", relation="related"),
    )


@pytest.mark.parametrize(
    "number",
    ["10.1000/1", "doi:10.1000/1", "https://doi.org/10.1000/1", "0317-8471", "80-200-0129-8", "info:eu/1",
     "hdl:2027/abc", "ISMN 979-0-2600-0043-8", "urn:nbn:cz:1"],
)  # fmt: skip
@pytest.mark.parametrize("element", ["dcterms:isPartOf", "dc:relation", "dc:source"])
def test_a_relation_that_is_only_a_number_is_an_identifier(element: str, number: str) -> None:
    (related,) = _converted(f"<{element}>{number}</{element}>").related
    assert (related.title, related.identifiers) == ("", (number,))


def test_the_journal_of_an_article_is_its_source() -> None:
    """Open Journal Systems writes the issue, the ISSN and the DOI into `dc:source`."""
    record = _converted(
        "<dc:source>Knihovna; Roč. 3 Č. 2 (2012); 12-25</dc:source><dc:source>1803-8271</dc:source>"
    )
    assert record.related == (
        Related(relation="source", title="Knihovna; Roč. 3 Č. 2 (2012); 12-25"),
        Related(relation="source", identifiers=("1803-8271",)),
    )


@pytest.mark.parametrize("title", ["1990-1995", "Metro: 2033", "Nature, doi:10.1000/1", "ISSN", "12345"])
def test_a_relation_in_words_is_a_title(title: str) -> None:
    (related,) = _converted(f"<dcterms:isPartOf>{title}</dcterms:isPartOf>").related
    assert (related.title, related.identifiers) == (title, ())


@pytest.mark.parametrize(
    ("written", "title", "sorted_as"),
    [
        ("<i>Quercus robur</i> v Čechách", "Quercus robur v Čechách", "quercus robur v cechach"),
        ("<B><em>O</em></B> CO<sub>2</sub>", "O CO₂", "o co2"),
        ("10<sup>-5</sup> a <sup>x</sup>", "10⁻⁵ a x", "10 5 a x"),
        ("Značka <b> v HTML", "Značka <b> v HTML", "znacka b v html"),
        ("a < b > c", "a < b > c", "a b c"),
        ("<i></i>", "<i></i>", "i i"),
    ],
)
def test_markup_is_removed_from_titles(written: str, title: str, sorted_as: str) -> None:
    record = _converted(f"<dc:title>{html.escape(written)}</dc:title>")
    assert (record.title, record.sort_title) == (title, sorted_as)


def test_comments_in_an_element_are_not_part_of_its_text() -> None:
    record = _converted(
        "<!-- a --><dc:title>First part<!-- note --> second</dc:title>"
        "<dc:creator>Novák, Jan<?x?></dc:creator>"
        "<dc:date>1999<!-- --></dc:date><dc:identifier><!-- -->ISBN 80-200-0129-8</dc:identifier>"
    )
    assert (record.title, record.years) == ("First part second", Years(first=1999, last=1999))
    assert [one.name for one in record.contributors] == ["Novák, Jan"]
    assert [one.value for one in record.identifiers] == ["9788020001290"]
    assert record.notes == ()


def test_control_characters_after_a_comment_are_reported() -> None:
    record = _converted("<dc:title>Kni<!-- -->\x85ha</dc:title>")
    assert record.title == "Kni ha"
    assert [note.fault for note in record.notes] == ["control characters, which are removed"]


@pytest.mark.parametrize(
    ("written", "name", "roles"),
    [
        ("World Health Organization (WHO)", "World Health Organization (WHO)", ("cre",)),
        ("Bank, World (USA)", "Bank, World (USA)", ("cre",)),
        ("Novák, Jan (xyz)", "Novák, Jan (xyz)", ("cre",)),
        ("Novák, Jan (AUT)", "Novák, Jan (AUT)", ("cre",)),
        ("Novák, Jan (Ill.)", "Novák, Jan", ("ill",)),
        ("Novák, Jan (pdr)", "Novák, Jan", ("pdr",)),
        ("Novák, Jan [ed.]", "Novák, Jan", ("edt",)),
        ("Novák, Jan (překladatel)", "Novák, Jan", ("trl",)),
    ],
)
def test_only_roles_in_brackets_are_removed_from_a_name(
    written: str, name: str, roles: tuple[str, ...]
) -> None:
    (found,) = _converted(f"<dc:creator>{written}</dc:creator>").contributors
    assert (found.name, found.roles) == (name, roles)


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        (["Text", "Journal article"], RecordKind.ARTICLE),
        (["Text", "info:eu-repo/semantics/article"], RecordKind.ARTICLE),
        (["Collection", "Map", "Image"], RecordKind.MAP),
        (["Article", "Text"], RecordKind.ARTICLE),
        (["Text", "Collection"], RecordKind.BOOK),
        (["Service"], RecordKind.ELECTRONIC),
        (["Nonsense"], RecordKind.OTHER),
        (["Text", "Diplomová práce"], RecordKind.MANUSCRIPT),
        (["text", "model:periodical"], RecordKind.SERIAL),
        (["Text", "Conference paper", "PeerReviewed"], RecordKind.ARTICLE),
    ],
)
def test_a_specific_type_is_preferred_to_a_general_one(types: list[str], kind: RecordKind) -> None:
    assert _converted("".join(f"<dc:type>{one}</dc:type>" for one in types)).kind is kind


@pytest.mark.parametrize("genre", ["České romány", "info:eu-repo/semantics/publishedVersion", "PeerReviewed"])
def test_an_unknown_type_beside_a_general_one_leaves_its_kind(genre: str) -> None:
    """The Library of Congress's crosswalk from MARC writes the genres (655) as types beside `text`."""
    assert _converted(f"<dc:type>text</dc:type><dc:type>{genre}</dc:type>").kind is RecordKind.BOOK


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("diplomová práce", RecordKind.MANUSCRIPT),
        ("bakalářská práce", RecordKind.MANUSCRIPT),
        ("dizertačná práca", RecordKind.MANUSCRIPT),
        ("Dissertation", RecordKind.MANUSCRIPT),
        ("Master's thesis", RecordKind.MANUSCRIPT),
        ("Master thesis", RecordKind.MANUSCRIPT),
        ("Monograph", RecordKind.BOOK),
        ("Book Section", RecordKind.BOOK),
        ("Book chapter", RecordKind.BOOK),
        ("Technical Report", RecordKind.BOOK),
        ("Conference or Workshop Item", RecordKind.ARTICLE),
        ("info:eu-repo/semantics/conferenceObject", RecordKind.ARTICLE),
        ("Peer-reviewed Article", RecordKind.ARTICLE),
        ("model:monograph", RecordKind.BOOK),
        ("model:periodicalitem", RecordKind.SERIAL),
        ("model:sheetmusic", RecordKind.SCORE),
        ("model:graphic", RecordKind.PICTURE),
        ("model:soundrecording", RecordKind.SOUND),
        ("Musical Score", RecordKind.SCORE),
        ("hudebnina", RecordKind.SCORE),
        ("notated music", RecordKind.SCORE),
        ("Recording, musical", RecordKind.MUSIC),
        ("software, multimedia", RecordKind.ELECTRONIC),
        ("http://purl.org/coar/resource_type/c_6501", RecordKind.ARTICLE),
        ("http://purl.org/coar/resource_type/c_db06", RecordKind.MANUSCRIPT),
        ("http://purl.org/coar/resource_type/c_12cc", RecordKind.MAP),
    ],
)
def test_types_of_repositories_and_libraries_are_known(written: str, kind: RecordKind) -> None:
    assert _converted(f"<dc:type>{written}</dc:type>").kind is kind


@pytest.mark.parametrize(
    ("written", "name", "dates", "roles"),
    [
        ("Hus, Jan, 1371-1415", "Hus, Jan", "1371-1415", ("cre",)),
        ("Hus, Jan (asi 1371-1415)", "Hus, Jan", "asi 1371-1415", ("cre",)),
        ("Hus, Jan, approximately 1369-1415", "Hus, Jan", "approximately 1369-1415", ("cre",)),
        ("Novák, Jan (1950-) [ed.]", "Novák, Jan", "1950-", ("edt",)),
        ("Hugo, Victor (1802-1885). Auteur du texte", "Hugo, Victor", "1802-1885", ("aut",)),
        ("Univerzita (1882-1945). Fakulta", "Univerzita (1882-1945). Fakulta", "", ("cre",)),
        ("Sjezd (1998)", "Sjezd (1998)", "", ("cre",)),
        ("Li, Bo, 1950-2000, 1951", "Li, Bo", "1950-2000, 1951", ("cre",)),
    ],
)
def test_years_of_birth_and_death_are_removed_from_the_name(
    written: str, name: str, dates: str, roles: tuple[str, ...]
) -> None:
    (found,) = _converted(f"<dc:creator>{written}</dc:creator>").contributors
    assert (found.name, found.dates, found.roles) == (name, dates, roles)


def test_languages_of_elements_are_kept() -> None:
    long = "slovo " * 40
    record = _converted(
        '<dc:title xml:lang="cs">Kočky</dc:title><dc:title xml:lang="en">Cats</dc:title>'
        '<dc:subject xml:lang="en">cats</dc:subject><dc:subject>kočky</dc:subject>'
        f'<dc:description xml:lang="cs">{long}</dc:description>'
    )
    assert record.variants == (TitleVariant(kind="alternative", text="Cats", label="en"),)
    kept = {(note.field, note.text) for note in record.notes if note.kind == NoteKind.KEPT}
    assert {("dc:title", "cs: Kočky"), ("dc:subject", "en: cats")} < kept
    (description,) = (text for field, text in kept if field == "dc:description")
    assert description.startswith("cs: slovo slovo")
    assert len(description) < 100


@pytest.mark.parametrize(
    ("element", "subject"),
    [
        ("<dcterms:temporal>středověk</dcterms:temporal>", Subject(text="středověk", kind="chronology")),
        (
            '<dcterms:temporal xsi:type="dcterms:Period">name=Válka; start=1914; end=1918</dcterms:temporal>',
            Subject(text="Válka", kind="chronology"),
        ),
        (
            '<dcterms:spatial xsi:type="dcterms:Point">east=14.4; north=50.1; name=Praha</dcterms:spatial>',
            Subject(text="Praha", kind="place"),
        ),
        (
            '<dc:coverage xsi:type="dcterms:Box">northlimit=1900; eastlimit=2000</dc:coverage>',
            Subject(text="northlimit=1900; eastlimit=2000", kind="place"),
        ),
        (
            '<dcterms:spatial xsi:type="dcterms:ISO3166">CZ</dcterms:spatial>',
            Subject(text="CZ", kind="place", source="ISO3166"),
        ),
        (
            '<dc:subject xsi:type="dcterms:DDC">943.71</dc:subject>',
            Subject(text="943.71", kind="class", source="ddc"),
        ),
        (
            '<dc:subject xsi:type="dcterms:MESH">Lung</dc:subject>',
            Subject(text="Lung", source="MESH"),
        ),
    ],
)
def test_encoding_schemes_of_subjects_and_coverage_are_used(element: str, subject: Subject) -> None:
    assert _converted(f"<dc:title>X</dc:title>{element}").subjects == (subject,)


@pytest.mark.parametrize(
    ("written", "subjects"),
    [
        (
            "ecology; suburbanizace; územní plánování;",
            [("ecology", "topic", ""), ("suburbanizace", "topic", ""), ("územní plánování", "topic", "")],
        ),
        ("výzkum &amp;amp; vývoj; věda", [("výzkum &amp; vývoj", "topic", ""), ("věda", "topic", "")]),
        ("Karel (král; 1316-1378)", [("Karel (král; 1316-1378)", "topic", "")]),
        ("a;b", [("a;b", "topic", "")]),
        ("udc:793", [("793", "class", "udc")]),
        ("UDC: (437.3)&quot;19&quot;", [('(437.3)"19"', "class", "udc")]),
        ("ddc:020; lcc:Z678", [("020", "class", "ddc"), ("Z678", "class", "lcc")]),
        ("info:eu-repo/classification/ddc/590", [("590", "class", "ddc")]),
        ("ddc:neuvedeno", [("ddc:neuvedeno", "topic", "")]),
    ],
)
def test_lists_of_subjects_are_divided_and_classes_are_known_by_their_classification(
    written: str, subjects: list[tuple[str, str, str]]
) -> None:
    found = _converted(f"<dc:subject>{written}</dc:subject>").subjects
    assert [(one.text, one.kind, one.source) for one in found] == subjects


def test_a_subject_with_an_encoding_scheme_is_not_divided() -> None:
    (subject,) = _converted('<dc:subject xsi:type="dcterms:LCSH">Art; History</dc:subject>').subjects
    assert subject == Subject(text="Art; History", source="LCSH")


def test_a_subject_of_many_signs_is_divided_in_linear_time() -> None:
    """Quadratic time would be minutes."""
    for text in ("&amp;" * 300_000, "&amp;" + "a" * 1_000_000, "; " * 300_000, "udc:" * 200_000):
        assert len(_converted(f"<dc:subject>{text}</dc:subject>").subjects) <= 1


def test_the_components_of_a_point_are_kept_in_a_note() -> None:
    value = "name=Praha; east=14.4; north=50.1"
    record = _converted(f'<dcterms:spatial xsi:type="dcterms:Point">{value}</dcterms:spatial>')
    assert Note(kind=NoteKind.KEPT, field="dc:spatial", text=f"Point: {value}") in record.notes


@pytest.mark.parametrize(
    ("elements", "date"),
    [
        ("<dcterms:created>1890</dcterms:created><dc:date>1901</dc:date>", "1901"),
        ("<dcterms:created>1890</dcterms:created><dcterms:issued>1902</dcterms:issued>", "1902"),
        ("<dcterms:available>2020</dcterms:available><dcterms:created>1890</dcterms:created>", "1890"),
        ("<dcterms:available>2020</dcterms:available>", "2020"),
        ("<dc:date>info:eu-repo/date/embargoEnd/2027-01-01</dc:date><dc:date>2019</dc:date>", "2019"),
        ("<dc:date>2011-05-17T08:00:00Z</dc:date><dc:date>1898</dc:date>", "1898"),
        ("<dc:date>2011-05-17T08:00:00Z</dc:date>", "2011-05-17T08:00:00Z"),
        ('<dcterms:issued xsi:type="dcterms:W3CDTF">1901/1910-05</dcterms:issued>', "1901/1910-05"),
    ],
)
def test_the_date_of_publication_is_chosen_by_its_element(elements: str, date: str) -> None:
    assert _converted(f"<dc:title>X</dc:title>{elements}").date_text == date


def test_an_extent_is_not_a_media_type() -> None:
    record = _converted(
        '<dc:format xsi:type="dcterms:IMT">application/pdf</dc:format><dcterms:extent>674 s.</dcterms:extent>'
        "<dcterms:medium>pergamen</dcterms:medium>"
    )
    assert record.extent == "674 s."
    texts = {(note.field, note.text) for note in record.notes if note.kind == NoteKind.KEPT}
    assert {("dc:format", "application/pdf"), ("dc:medium", "pergamen")} <= texts


def test_thousands_of_formats_and_languages_are_converted_in_linear_time() -> None:
    """Quadratic time would be minutes."""
    codes = ["".join(letters) for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3)]
    formats = "".join(f"<dc:format>{number}</dc:format>" for number in range(40_000))
    record = _converted(formats + "".join(f"<dc:language>{code}</dc:language>" for code in codes))
    assert record.extent.count(";") == 39_999
    assert len(record.languages) > 17_000


def test_of_an_element_with_many_attributes_only_the_first_become_notes() -> None:
    attributes = " ".join(f'n{number}="{number}"' for number in range(100_000))
    record = _converted(f"<dc:title>T</dc:title><dc:creator {attributes}>Novák, Jan</dc:creator>")
    first = [f"n{number}={number}: Novák, Jan" for number in range(100)]
    assert [note.text for note in record.notes] == first


def test_a_citation_becomes_a_note_and_a_relator_element_a_role() -> None:
    record = _converted(
        "<dcterms:bibliographicCitation>Naše řeč, 80, 1997, s. 1-10</dcterms:bibliographicCitation>"
        "<marcrel:ill>Aleš, Mikoláš, 1852-1913</marcrel:ill>"
    )
    assert Note(field="dc:bibliographicCitation", text="Naše řeč, 80, 1997, s. 1-10") in record.notes
    assert record.identifiers == ()
    assert record.contributors == (
        Contributor(name="Aleš, Mikoláš", kind="unknown", dates="1852-1913", roles=("ill",)),
    )


def test_conditions_find_a_refined_element_by_both_names() -> None:
    root = etree.fromstring(
        f"<dc {_NAMESPACES}><dcterms:spatial>Praha</dcterms:spatial><dc:title>X</dc:title></dc>"
    )
    converter = converter_for(root)
    assert converter is not None
    fields = [(one.name, one.values[0][1]) for one in converter.fields(root)]
    assert fields == [("coverage", "Praha"), ("spatial", "Praha"), ("title", "X")]


def test_identifiers_are_recognised_by_their_scheme() -> None:
    record = _converted(
        "<dc:title>X</dc:title><dc:identifier>https://doi.org/10.1000/A.1</dc:identifier>"
        "<dc:identifier>http://repository.example/1</dc:identifier>"
        "<dc:identifier>ISSN 0027-8203</dc:identifier>"
        "<dc:identifier>uuid:1234</dc:identifier><dc:identifier>ISBN 80-200-0129-0</dc:identifier>"
        "<dc:identifier>ISMN 979-0-2600-0043-8</dc:identifier><dc:identifier>0000000000</dc:identifier>"
        "<dc:identifier>9790260000438</dc:identifier><dc:identifier>M-2600-0043-8</dc:identifier>"
        "<dc:identifier>978-80-200-0129-0 (1. sv.)</dc:identifier>"
        "<dc:identifier>ISBN 80-200-0129-8 (váz.), 80-200-1333-4</dc:identifier>"
        "<dc:identifier>ISBN 80-200-0129-8, 1998</dc:identifier>"
    )
    assert [(one.scheme, one.value, one.state) for one in record.identifiers] == [
        ("doi", "10.1000/a.1", "valid"),
        ("uri", "http://repository.example/1", "valid"),
        ("issn", "0027-8203", "valid"),
        ("other", "uuid:1234", "valid"),
        ("isbn", "8020001290", "invalid"),
        ("ismn", "9790260000438", "valid"),
        ("other", "0000000000", "valid"),
        ("ismn", "9790260000438", "valid"),
        ("ismn", "9790260000438", "valid"),
        ("isbn", "9788020001290", "valid"),
        ("isbn", "9788020001290", "valid"),
        ("isbn", "9788020013330", "valid"),
        ("isbn", "9788020001290", "valid"),
    ]
    assert [one.found for one in record.identifiers[-3:]] == [
        "ISBN 80-200-0129-8 (váz.)",
        "80-200-1333-4",
        "ISBN 80-200-0129-8, 1998",
    ]
    assert record.links == (Link(url="https://doi.org/10.1000/A.1"), Link(url="http://repository.example/1"))


@pytest.mark.parametrize(
    ("written", "languages", "kind"),
    [
        ("eng; cze", ("eng", "cze"), NoteKind.KEPT),
        ("en-US,de", ("eng", "ger"), NoteKind.KEPT),
        ("http://id.loc.gov/vocabulary/iso639-2/cze", ("cze",), NoteKind.KEPT),
        ("https://x.example/abc", (), NoteKind.BROKEN),
        ("zxx", (), NoteKind.KEPT),
        ("und; cs", ("cze",), NoteKind.KEPT),
        ("English, Old", (), NoteKind.BROKEN),
        ("en-US; cmn", ("eng", "cmn"), NoteKind.KEPT),
        ("cze; klingon", ("cze",), NoteKind.BROKEN),
        ("cs-CZ;", ("cze",), NoteKind.KEPT),
        ("en-GB, unknown", ("eng",), NoteKind.KEPT),
        ("cze/eng", ("cze", "eng"), NoteKind.KEPT),
        ("Czech / English", ("cze", "eng"), NoteKind.KEPT),
        ("pt/br", (), NoteKind.BROKEN),
        ("Czech (cze); German (deu)", ("cze", "ger"), NoteKind.KEPT),
        ("English (UK)", (), NoteKind.BROKEN),
        ("Greek, Ancient", (), NoteKind.BROKEN),
    ],
)
def test_languages_in_lists_and_addresses_are_read(
    written: str, languages: tuple[str, ...], kind: NoteKind
) -> None:
    record = _converted(f"<dc:title>X</dc:title><dc:language>{written}</dc:language>")
    assert record.languages == languages
    assert [(one.kind, one.text) for one in record.notes] == [(kind, written)]


def test_values_that_cannot_be_read_are_reported() -> None:
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


def test_a_container_of_another_name_is_recognised_by_its_elements() -> None:
    root = etree.fromstring(f"<x {_NAMESPACES}><dc:title>Kniha</dc:title></x>")
    converter = converter_for(root)
    assert converter is not None
    assert converter.convert(root).title == "Kniha"


def test_an_openaire_record_is_not_read_as_dublin_core() -> None:
    datacite = 'xmlns:datacite="http://datacite.org/schema/kernel-4"'
    root = etree.fromstring(
        f'<resource xmlns="http://namespace.openaire.eu/schema/oaire/" {datacite} {_NAMESPACES}>'
        "<datacite:titles><datacite:title>Kniha</datacite:title></datacite:titles>"
        "<dc:publisher>Academia</dc:publisher><dcterms:audience>Researchers</dcterms:audience></resource>"
    )
    assert converter_for(root) is None


def test_no_converter_reads_a_record_in_mods() -> None:
    assert converter_for(etree.fromstring("<mods xmlns='http://www.loc.gov/mods/v3'/>")) is None
