"""A bibliographic record as converters give it, whatever its format was."""

from dataclasses import dataclass
from enum import StrEnum


class RecordKind(StrEnum):
    """What is described, in one word; the facet `type`."""

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
    """Why something stands among the notes."""

    NOTE = "note"
    """It is a note."""
    KEPT = "kept"
    """No column is made for it."""
    BROKEN = "broken"
    """It is not as its format wants it; `fault` says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """What the record says beside its columns."""

    kind: NoteKind = NoteKind.NOTE
    field: str
    """Where it stood: a MARC tag, `LDR`, or a Dublin Core element."""
    text: str
    """Its content; of a MARC field that is kept with its subfields, each as `$a value`."""
    fault: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Years:
    """A span of years. Years before Christ are negative; None is an open end."""

    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TitleVariant:
    """Another title of the same thing."""

    kind: str
    """uniform, varying, abbreviated, key, former, linked (in another script), alternative."""
    text: str
    label: str = ""
    """As a catalogue would introduce it: "Název na obálce"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contributor:
    """A person, a corporate body or a meeting with a part in it."""

    name: str
    kind: str = "person"
    """person, family, corporate, meeting, or unknown."""
    dates: str = ""
    """As found: "asi 1371-1415"."""
    titles: str = ""
    """Numeration and words that belong to the name: "IV., český král"."""
    roles: tuple[str, ...] = ()
    """Relator codes such as `aut`; words for which there is no code stand as they were found."""
    authority_ids: tuple[str, ...] = ()
    """Without blanks: `jk01092389`, `(DE-588)118639242`, or an address."""
    work: str = ""
    """The work of theirs that is meant, where it is another than the one described."""
    main: bool = False
    """Whether the record stands under this name."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The series that it appeared in."""

    title: str
    number: str = ""
    issn: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What it is about, or (among the genres) what it is."""

    text: str
    """Subdivisions follow after ` -- `."""
    kind: str = "topic"
    """person, corporate, meeting, title, event, chronology, topic, place, keyword, category, class, genre."""
    source: str = ""
    """The list of terms that it comes from, such as `czenas` or `lcsh`."""
    authority_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Identifier:
    """A number or name by which it is known."""

    scheme: str
    """isbn, issn, ismn, doi, uri, control_number, system, ean, other, or as the record names it."""
    value: str
    """Normalised where the scheme has a rule: ISBN as 13 digits, ISSN as 1234-5678, DOI in lower case."""
    found: str
    """As it was written."""
    state: str = "valid"
    """valid, cancelled (said to be wrong), or invalid (its check digit is)."""
    qualifier: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Related:
    """Another publication that it belongs to, comes from, continues or mentions."""

    relation: str
    """host, series, original, translation, supplement, preceding, succeeding, …, or related."""
    title: str = ""
    author: str = ""
    part: str = ""
    """Where in it: "Roč. 12, č. 3 (1998), s. 5-18"."""
    publication: str = ""
    identifiers: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An address at which something of it can be read."""

    url: str
    label: str = ""
    relation: str = "resource"
    """resource, version, related, or other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BibliographicRecord:
    """One record. What a format has no word for is empty; what has no column is among the notes."""

    title: str = ""
    subtitle: str = ""
    sort_title: str = ""
    """The title without leading articles, folded (see `folding`)."""
    statement: str = ""
    """Statement of responsibility."""
    kind: RecordKind = RecordKind.OTHER
    control_number: str = ""
    control_source: str = ""
    """Whose control number it is (MARC 003)."""
    years: Years = Years()
    date_text: str = ""
    """The date as found."""
    country: str = ""
    """MARC code of the country of publication, such as `xr`."""
    languages: tuple[str, ...] = ()
    """ISO 639-2/B codes, such as `cze`; the main one first."""
    original_languages: tuple[str, ...] = ()
    """Of a translation."""
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
    """A field of the record as it came, for conditions of filtering sets."""

    name: str
    """MARC tag, `LDR`, or Dublin Core element without prefix."""
    indicators: str = ""
    """Two characters; empty for fields without."""
    values: tuple[tuple[str, str], ...] = ()
    """Subfield code and value; the code is empty where there are no subfields."""
