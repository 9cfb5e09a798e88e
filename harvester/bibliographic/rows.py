"""A converted record as the values of its rows."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from harvester.bibliographic.folding import fold
from harvester.bibliographic.record import (
    BibliographicRecord,
    Contributor,
    Identifier,
    Link,
    Note,
    NoteKind,
    Publication,
    Related,
    Series,
    Subject,
    TitleVariant,
)

_WORDS: Final = 100_000
"""Characters of one weight that are indexed: what PostgreSQL keeps of a record's words has an end."""
_YEARS: Final = (-9999, 9999)
_UNDATED: Final = -32768
_DIGEST: Final = 16
_NUMBERS: Final = frozenset({"isbn", "issn", "issn-l", "ismn", "ean"})

_FIELDS: Final = {
    kind: tuple(kind.__dataclass_fields__)
    for kind in (Contributor, Identifier, Link, Note, Publication, Related, Series, Subject, TitleVariant)
}
_PARTS: Final = ("publications", "series", "subjects", "genres", "related", "links", "notes")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)

Values = dict[str, Any]


def values_of(record: BibliographicRecord) -> Values:
    """The columns of `bibliographic_record` that tell what the record is; `words_*` make up its words."""
    main = record.publications[0] if record.publications else Publication()
    return {
        "control_number": record.control_number,
        "control_source": record.control_source,
        "kind": record.kind.value,
        "title": record.title,
        "subtitle": record.subtitle,
        "sort_title": record.sort_title,
        "statement": record.statement,
        "place": main.place,
        "publisher": main.publisher,
        "date_text": record.date_text,
        "year_from": _year(record.years.first),
        "year_to": _year(record.years.last),
        "sort_year": _UNDATED if record.years.first is None else _year(record.years.first),
        "country": record.country,
        "edition": record.edition,
        "extent": record.extent,
        "languages": record.languages,
        "original_languages": record.original_languages,
        "titles": as_json(record.variants),
        **{name: as_json(getattr(record, name)) for name in _PARTS},
        **_words(record),
    }


def as_json(items: Iterable[Any]) -> list[Values]:
    """The parts of a record as objects."""
    return [{name: getattr(item, name) for name in _FIELDS[type(item)]} for item in items]


class Texts(NamedTuple):
    """A converted record as JSON texts, one for its row and one for its rows in each other table."""

    values: str
    contributors: str
    identifiers: str

    def digest(self) -> bytes:
        """The digest of all that was converted."""
        return hashlib.sha256(f"[{', '.join(self)}]".encode()).digest()[:_DIGEST]


def texts_of(record: BibliographicRecord) -> Texts:
    """The record's rows; written once, for its digest and for the server."""
    parts = (values_of(record), as_json(record.contributors), as_json(record.identifiers))
    return Texts._make(map(_ENCODER.encode, parts))


def _words(record: BibliographicRecord) -> dict[str, str]:
    """The words of a record by their weight."""
    names = [
        part for one in record.contributors for part in (one.name, one.titles, one.linked, one.work) if part
    ]
    topics = [one.text for one in (*record.subjects, *record.genres)]
    topics += [one.title for one in record.series]
    topics += [one.title for one in record.related]
    for statement in record.publications:
        topics += [statement.place, statement.publisher]
    notes = [note.text for note in record.notes if note.kind is NoteKind.NOTE]
    titles = [record.title, record.subtitle, *(one.text for one in record.variants)]
    return {
        "words_a": _folded(titles),
        "words_b": _folded([*names, record.statement]),
        "words_c": " ".join((_folded(topics), *map(_number, record.identifiers))),
        "words_d": _folded(notes),
    }


def _folded(texts: list[str]) -> str:
    return fold(" ".join(texts)[:_WORDS])


def _number(found: Identifier) -> str:
    """A number as one word, as a reader's query has it (see `queries`)."""
    return (found.value.replace("-", "") if found.scheme in _NUMBERS else fold(found.value)).lower()


def _year(year: int | None) -> int | None:
    return year if year is None or _YEARS[0] <= year <= _YEARS[1] else None
