"""The records of titles: each subfield read again by our own importer, and the tables of docs/reference."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from lxml import etree

from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.marc21.structure import Level, WrittenRecord
from harvester.bibliographic.marc21.validation import validate, written_records
from harvester.bibliographic.record import BibliographicRecord
from oai.sections import ProviderSettings
from provider.protocol.formats.format import Site
from provider.titles.catalogue import TitleItem
from provider.titles.formats import FORMATS

SUBJECT: Final = {
    "name": "Divadlo. Film", "name_en": "Theatre. Film", "number": 7, "notation": "792",
    "part": "Divadlo", "part_en": "Theatre",
}  # fmt: skip
WHOLE_GROUP: Final = {"name": "Hudba", "name_en": "Music", "number": 9, "notation": "78"}
TITLE: Final = TitleItem(
    key=uuid.UUID(int=5),
    datestamp=datetime(2024, 6, 7, 8, 9, 10, tzinfo=UTC),
    entered=datetime(2023, 4, 5, tzinfo=UTC),
    deleted=False,
    name="Příklad: časopis",
    alternative_names=["Example", "Starý příklad"],
    publisher="Nakladatelství Příklad",
    annotation="Časopis o <ničem>.",
    languages=["cze", "eng"],
    issn="1234-5679",
    catalogue_number="web20132499695",
    classification=["304", "(0.034.2)004.738.12"],
    subjects=[SUBJECT, WHOLE_GROUP],
    keywords=["kultura", "umění"],
    collections=["Volby 2025"],
    licence="cc-by-4.0",
    captures=7,
    first_capture=datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
    last_capture=datetime(2024, 5, 6, tzinfo=UTC),
    captures_by_year={"2020": 3, "2024": 4},
    urls=["http://www.example.cz/", "http://b.cz/"],
    set_specs=["publisher:nakladatelstvi-priklad"],
    has_document_set=True,
    published_in="Praha",
    country="xr",
    first_published=1998,
)
ARCHIVED: Final = "https://wayback.example/*/http://www.example.cz/"
DOCUMENTS: Final = (
    f"https://archive.example/oai?verb=ListRecords&metadataPrefix=oai_dc&set=title:{TITLE.key.hex}"
)
LICENCE_URL: Final = "https://creativecommons.org/licenses/by/4.0/"
PROFILES: Final = ("marc", "nkp")

COMMON: Final[Mapping[str, list[str]]] = {
    "022 $a": ["1234-5679"],
    "035 $a": ["web20132499695"],
    "040 $e": ["rda"],
    "041 $a": ["cze", "eng"],
    "080 $a": ["304", "(0.034.2)004.738.12"],
    "245 $a": ["Příklad: časopis"],
    "246 $a": ["Example", "Starý příklad"],
    "264 $a": ["Praha"],
    "264 $b": ["Nakladatelství Příklad"],
    "264 $c": ["1998-"],
    "336 $a": ["text"],
    "336 $b": ["txt"],
    "336 $2": ["rdacontent"],
    "337 $b": ["c"],
    "337 $2": ["rdamedia"],
    "338 $b": ["cr"],
    "338 $2": ["rdacarrier"],
    "506 $a": ["Open to all."],
    "506 $f": ["Unrestricted online access"],
    "506 $2": ["star"],
    "520 $a": ["Časopis o <ničem>."],
    "540 $a": ["CC BY 4.0"],
    "540 $f": ["CC BY 4.0"],
    "540 $2": ["cc"],
    "540 $u": [LICENCE_URL],
    "653 $a": ["kultura", "umění"],
    "710 $a": ["Webarchiv"],
    "710 $4": ["col"],
    "830 $a": ["Volby 2025"],
}
EXPECTED: Final[Mapping[str, Mapping[str, list[str]]]] = {
    "marc": {
        **COMMON,
        "040 $b": ["eng"],
        "072 $a": ["792", "78"],
        "072 $x": ["Divadlo", "Hudba"],
        "072 $2": ["Conspectus", "Conspectus"],
        "072 $9": ["7", "9"],
        "300 $a": ["1 online resource"],
        "337 $a": ["computer"],
        "338 $a": ["online resource"],
        "588 $a": ["Title from title screen (viewed 2024-05-06)"],
        "655 $a": ["Web sites"],
        "655 $2": ["local"],
        "856 $u": ["http://www.example.cz/", DOCUMENTS],
        "856 $y": ["Live site"],
        "856 $3": ["Records of single captures (OAI-PMH)"],
        "857 $b": ["Webarchiv"],
        "857 $d": ["20200102/20240506"],
        "857 $u": [ARCHIVED],
        "857 $y": ["Archived site"],
    },
    "nkp": {
        **COMMON,
        "040 $b": ["cze"],
        "072 $a": ["792", "792", "78", "78"],
        "072 $x": ["Divadlo", "Theatre", "Hudba", "Music"],
        "072 $2": ["Konspekt", "Conspectus", "Konspekt", "Conspectus"],
        "072 $9": ["7", "7", "9", "9"],
        "080 $2": ["MRF", "MRF"],
        "300 $a": ["1 online zdroj"],
        "337 $a": ["počítač"],
        "338 $a": ["online zdroj"],
        "588 $a": ["Název z titulní obrazovky (náhled 6.5.2024)"],
        "655 $a": ["www dokumenty", "www documents"],
        "655 $2": ["czenas", "eczenas"],
        "655 $7": ["fd186892"],
        "856 $u": ["http://www.example.cz/", ARCHIVED, DOCUMENTS],
        "856 $z": ["archivní verze stránek"],
        "856 $3": ["záznamy jednotlivých archivních verzí (OAI-PMH)"],
        "856 $4": ["N"],
    },
}
"""Every subfield that is written, by profile."""


def notes(record: BibliographicRecord, tag: str, code: str) -> list[str]:
    """The values of a subfield that is kept among the notes: `$a value $b value`, or one text."""
    kept = [note.text for note in record.notes if note.field == tag]
    found = [text for one in kept for text in re.findall(rf"\${code} (.*?)(?= \$\w |$)", one)]
    return found or kept


def subjects(record: BibliographicRecord, kind: str, part: int) -> list[str]:
    return [one.text.split(" -- ")[part] for one in record.subjects if one.kind == kind]


def sources(record: BibliographicRecord, kind: str) -> list[str]:
    return [one.source for one in record.subjects if one.kind == kind and one.source != "udc"]


IMPORTED: Final[Mapping[str, Callable[[BibliographicRecord], Iterable[str]]]] = {
    "022 $a": lambda found: [one.value for one in found.identifiers if one.scheme == "issn"],
    "035 $a": lambda found: [one.value for one in found.identifiers if one.scheme == "system"],
    "041 $a": lambda found: found.languages,
    "072 $a": lambda found: subjects(found, "category", 0),
    "072 $x": lambda found: subjects(found, "category", 1),
    "072 $2": lambda found: sources(found, "category"),
    "080 $a": lambda found: subjects(found, "class", 0),
    "245 $a": lambda found: [found.title],
    "246 $a": lambda found: [one.text for one in found.variants],
    "264 $a": lambda found: [one.place for one in found.publications],
    "264 $b": lambda found: [one.publisher for one in found.publications],
    "264 $c": lambda found: [one.date for one in found.publications],
    "300 $a": lambda found: [found.extent],
    "653 $a": lambda found: subjects(found, "keyword", 0),
    "655 $a": lambda found: [one.text for one in found.genres],
    "655 $2": lambda found: [one.source for one in found.genres],
    "655 $7": lambda found: [one for genre in found.genres for one in genre.authority_ids],
    "710 $a": lambda found: [one.name for one in found.contributors],
    "710 $4": lambda found: [role for one in found.contributors for role in one.roles],
    "830 $a": lambda found: [one.title for one in found.series],
    "856 $u": lambda found: [one.url for one in found.links],
    "856 $y": lambda found: [one.label for one in found.links if one.relation == "resource"],
    "856 $z": lambda found: [one.label for one in found.links if one.relation == "resource" and one.label],
    "856 $3": lambda found: [one.label for one in found.links if one.relation == "related"],
}
"""Where the importer stores a subfield; all others are notes."""
JOINED: Final = frozenset({"506", "540"})
"""Notes that the importer stores as one text of all their subfields."""


@cache
def site(profile: str) -> Site:
    settings = ProviderSettings(
        titles_marc_profile=profile,
        titles_replay_url="https://wayback.example/*/{url}",
        archive_name="Webarchiv",
        rights_open="Open to all.",
    )
    return Site(base_url="https://archive.example/oai/titles", settings=settings)


def written(prefix: str, title: TitleItem = TITLE, profile: str = "marc") -> str:
    return FORMATS[prefix].write(title, site(profile))


def marc(profile: str, title: TitleItem = TITLE) -> WrittenRecord:
    (record,) = written_records(etree.fromstring(written("marc21", title, profile)))
    return record


def subfields(record: WrittenRecord) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for field in record.fields:
        for part in field.subfields:
            found.setdefault(f"{field.tag} ${part.code}", []).append(part.value)
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_each_subfield_has_the_title_s_value(profile: str) -> None:
    assert subfields(marc(profile)) == EXPECTED[profile]


@pytest.mark.parametrize("profile", PROFILES)
def test_our_importer_stores_each_subfield_with_the_same_value(profile: str) -> None:
    found = Marc21Converter().convert(etree.fromstring(written("marc21", profile=profile)))
    for place, values in EXPECTED[profile].items():
        tag, code = place.split(" $")
        if tag in JOINED:
            whole = " ".join(one[0] for name, one in EXPECTED[profile].items() if name.startswith(tag))
            assert notes(found, tag, code) == [whole]
        else:
            stored = IMPORTED[place](found) if place in IMPORTED else notes(found, tag, code)
            assert list(stored) == values, place
    assert not [note for note in found.notes if note.fault]


@pytest.mark.parametrize("profile", PROFILES)
def test_our_importer_reads_the_fixed_fields(profile: str) -> None:
    found = Marc21Converter().convert(etree.fromstring(written("marc21", profile=profile)))
    assert (found.control_number, found.control_source) == (TITLE.key.hex, "webarchive.localdomain")
    assert (found.years.first, found.years.last, found.country) == (1998, None, "xr")
    kept = {note.field: note.text for note in found.notes}
    assert kept["LDR"] == "00000nai a2200000 i 4500"
    assert kept["005"] == "20240607080910.0"
    assert marc(profile).control("006") == "m     o  d        "
    assert marc(profile).control("007") == "cr cn ||||||||"
    assert marc(profile).control("008") == "230405c19989999xr  x w o     0   b2cze d"


@pytest.mark.parametrize("profile", PROFILES)
def test_our_validation_reports_only_a_field_that_the_national_library_prescribes(profile: str) -> None:
    found = [f"{one.tag} {one.place}" for one in validate(marc(profile), Level.CODED_VALUES)]
    assert found == (["856 $4"] if profile == "nkp" else [])


# The tables of docs/reference/title-records.md

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "title-records.md"
DASH: Final = "–"  # noqa: RUF001 as the page writes it
BOOKKEEPING: Final = frozenset({"key", "datestamp", "deleted", "set_specs"})
"""Fields of the header, and of the record itself."""
EMPTY: Final[Mapping[type, Any]] = {list: [], dict: {}, int: 0, str: None}


def table(header: str) -> Iterator[dict[str, str]]:
    """The rows of the table whose first column has this header."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |"))
    names = cells(lines[begin])
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            return
        yield dict(zip(names, cells(line), strict=True))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", cell))


def without(field: str) -> TitleItem:
    """The title without one field; for `subjects.part`, without that part of each subject."""
    name, _, part = field.partition(".")
    if part == "name":
        return TITLE._replace(subjects=[{**one, "name": "?"} for one in TITLE.subjects])
    if part:
        left = [{key: one[key] for key in one if key != part} for one in TITLE.subjects]
        return TITLE._replace(subjects=left)
    value = getattr(TITLE, name)
    changed: dict[str, Any] = {name: "?" if name == "name" else EMPTY.get(type(value))}
    return TITLE._replace(**changed)


def carries(prefix: str, field: str) -> bool:
    return any(written(prefix, without(field), one) != written(prefix, profile=one) for one in PROFILES)


def test_the_table_names_each_field_and_the_formats_that_carry_it() -> None:
    rows = {names_in(row["field"])[0]: row for row in table("field")}
    parts = [f"subjects.{part}" for part in SUBJECT]
    fields = [name for name in TitleItem._fields if name not in {*BOOKKEEPING, "subjects"}]
    assert sorted(rows) == sorted([*fields, *parts])
    carried = {
        (prefix, field): row[f"`{prefix}`"] != DASH for field, row in rows.items() for prefix in FORMATS
    }
    assert carried == {(prefix, field): carries(prefix, field) for prefix, field in carried}


@pytest.mark.parametrize("header", ["field", "element"])
def test_the_tables_name_only_what_the_records_have(header: str) -> None:
    there = {
        "oai_dc": {f"dc:{etree.QName(one).localname}" for one in etree.fromstring(written("oai_dc"))},
        "mods": set(paths(etree.fromstring(written("mods")))),
        "marc21": {*EXPECTED["marc"], *EXPECTED["nkp"], "008/00-05", "008/07-10", "008/15-17", "008/35-37"},
    }
    for row in table(header):
        for prefix, known in there.items():
            assert set(names_in(row[f"`{prefix}`"])) <= known, row


def paths(root: etree._Element) -> Iterator[str]:
    for element in root.iterdescendants(etree.Element):
        steps = [etree.QName(one).localname for one in (element, *element.iterancestors())]
        yield "/".join(reversed(steps[:-1]))


def test_the_table_has_the_fourteen_elements_of_the_report() -> None:
    assert [row["element"] for row in table("element")] == [
        "Collector", "Contributor", "Creator", "Date", "Description", "Extent", "Genre/Form", "Language",
        "Relation", "Rights", "Source of Description", "Subject", "Title", "URL",
    ]  # fmt: skip
