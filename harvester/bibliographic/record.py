"""A bibliographic record as produced by converters, independent of its format."""

from dataclasses import dataclass
from enum import StrEnum


class RecordKind(StrEnum):
    """The kind of material, in one word; the facet `type`."""

    BOOK = "book"
    ARTICLE = "article"
    SERIAL = "serial"
    COLLECTION = "collection"
    MANUSCRIPT = "manuscript"
    SCORE = "score"
    MAP = "map"
    PICTURE = "picture"
    FILM = "film"
    MUSIC = "music"
    SOUND = "sound"
    ELECTRONIC = "electronic"
    OBJECT = "object"
    KIT = "kit"
    OTHER = "other"


class NoteKind(StrEnum):
    """Why a text is among the notes."""

    NOTE = "note"
    """It is a note in the record."""
    KEPT = "kept"
    """There is no column for it."""
    BROKEN = "broken"
    """It violates its format; `fault` says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Content of the record that is not in its columns."""

    kind: NoteKind = NoteKind.NOTE
    field: str
    """The field it was in: a MARC tag, `LDR`, or a Dublin Core element."""
    text: str
    """Its content; a MARC field kept with its subfields has each as `$a value`."""
    fault: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Years:
    """A span of years. Years BC are negative; None is an open end."""

    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TitleVariant:
    """Another title of the same publication."""

    kind: str
    """uniform, varying, abbreviated, key, former, linked (in another script), alternative."""
    text: str
    label: str = ""
    """The introduction in catalogues: "Název na obálce"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contributor:
    """A person, a corporate body or a meeting that contributed to it."""

    name: str
    kind: str = "person"
    """person, family, corporate, meeting, or unknown."""
    dates: str = ""
    """As in the record: "asi 1371-1415"."""
    titles: str = ""
    """Words that belong to the name, without its numeration: "český král"."""
    roles: tuple[str, ...] = ()
    """Relator codes such as `aut`; words for which there is no code are kept as found."""
    authority_ids: tuple[str, ...] = ()
    """Without blanks: `jk01092389`, `(DE-588)118639242`, or an address."""
    work: str = ""
    """The contributor's work that is meant, if it is not the one described."""
    main: bool = False
    """Whether this name is the record's main entry."""
    linked: str = ""
    """The name in another script."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A statement of publication, distribution, manufacture or production; each part as found."""

    place: str = ""
    publisher: str = ""
    date: str = ""
    function: str = "publication"
    """production, publication, distribution, manufacture or copyright."""
    other_script: bool = False
    """Whether it repeats another statement in another script (MARC 880)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The series in which it appeared."""

    title: str
    number: str = ""
    issn: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Its topic, or (for a genre) its form."""

    text: str
    """Subdivisions are separated by ` -- `."""
    kind: str = "topic"
    """person, family, corporate, meeting, title, event, chronology, topic, place, keyword, category, class,
    genre."""
    source: str = ""
    """The vocabulary of the term, such as `czenas` or `lcsh`."""
    authority_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Identifier:
    """A number or name that identifies it."""

    scheme: str
    """isbn, issn, ismn, doi, uri, control_number, system, ean, other, or the scheme's name in the record."""
    value: str
    """Normalised if the scheme has a rule: ISBN as 13 digits, ISSN as 1234-5678, DOI in lower case."""
    found: str
    """As written in the record."""
    state: str = "valid"
    """valid, cancelled (marked as wrong in the record), or invalid (wrong check digit)."""
    qualifier: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Related:
    """Another publication that it is part of, derives from, continues or mentions."""

    relation: str
    """host, series, original, source, translation, supplement, preceding, succeeding, …, or related."""
    title: str = ""
    author: str = ""
    part: str = ""
    """The place within it: "Roč. 12, č. 3 (1998), s. 5-18"."""
    publication: str = ""
    identifiers: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An address at which part of it can be read."""

    url: str
    label: str = ""
    relation: str = "resource"
    """resource, version, related, or other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BibliographicRecord:
    """A record. What the format does not provide is empty; what has no column is among the notes."""

    title: str = ""
    subtitle: str = ""
    sort_title: str = ""
    """The title without leading articles, folded (see `text.fold`)."""
    statement: str = ""
    """Statement of responsibility."""
    kind: RecordKind = RecordKind.OTHER
    control_number: str = ""
    control_source: str = ""
    """The source of the control number (MARC 003)."""
    years: Years = Years()
    date_text: str = ""
    """The date as found in the record."""
    country: str = ""
    """The MARC code of the country of publication, such as `xr`."""
    languages: tuple[str, ...] = ()
    """ISO 639-2/B codes, such as `cze`; the main one first."""
    original_languages: tuple[str, ...] = ()
    """The original languages of a translation."""
    edition: str = ""
    extent: str = ""
    variants: tuple[TitleVariant, ...] = ()
    contributors: tuple[Contributor, ...] = ()
    publications: tuple[Publication, ...] = ()
    series: tuple[Series, ...] = ()
    subjects: tuple[Subject, ...] = ()
    genres: tuple[Subject, ...] = ()
    identifiers: tuple[Identifier, ...] = ()
    related: tuple[Related, ...] = ()
    links: tuple[Link, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RawField:
    """A field of the original record, for conditions of filtering sets."""

    name: str
    """A MARC tag, `LDR`, or a Dublin Core element without prefix."""
    indicators: str = ""
    """Two characters; empty for fields without indicators."""
    values: tuple[tuple[str, str], ...] = ()
    """Subfield codes and values; the code is empty in fields without subfields."""
