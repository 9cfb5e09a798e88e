"""A bibliographic record while the fields of a MARC record are read into it."""

from dataclasses import dataclass, field, replace
from typing import Final

from harvester.bibliographic.codes import language_code
from harvester.bibliographic.dates import find_years
from harvester.bibliographic.marc21.fields import OpenField
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
    Series,
    Subject,
    TitleVariant,
    Years,
)
from harvester.bibliographic.text import fold, sort_key

_UNKNOWN: Final = Years()
_LISTS: Final = (
    "languages", "original_languages", "variants", "contributors", "publications", "series", "subjects",
    "genres", "identifiers", "related", "links", "notes",
)  # fmt: skip
"""The repeatable parts of a record."""
_DATING: Final = {"publication": 0, "production": 0, "distribution": 1, "manufacture": 2, "copyright": 3}
"""The order of statements by their functions: the first ones give place, publisher and date."""


@dataclass(kw_only=True)
class MarcDraft:
    """The values collected from the fields so far."""

    title: str = ""
    subtitle: str = ""
    sorting: str = ""
    statement: str = ""
    kind: RecordKind = RecordKind.OTHER
    control_number: str = ""
    control_source: str = ""
    years: Years = _UNKNOWN
    likely_years: Years = _UNKNOWN
    """Years of field 008 whose type of date is missing or wrong; a date in words is preferred."""
    vague: bool = False
    """Whether `years` come from a date with unknown digits."""
    continuing: bool = True
    """Whether it is a serial or an integrating resource, or may be one."""
    country: str = ""
    editions: list[str] = field(default_factory=list)
    extents: list[str] = field(default_factory=list)
    languages: dict[str, None] = field(default_factory=dict)
    original_languages: dict[str, None] = field(default_factory=dict)
    variants: list[TitleVariant] = field(default_factory=list)
    contributors: list[Contributor] = field(default_factory=list)
    links_of_names: dict[tuple[str, str], int] = field(default_factory=dict)
    """Positions of contributors that have another script, by tag and occurrence number."""
    publications: list[Publication] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    known_series: set[tuple[str, str]] = field(default_factory=set)
    """Folded titles and numbers of `series`."""
    subjects: list[Subject] = field(default_factory=list)
    genres: list[Subject] = field(default_factory=list)
    identifiers: list[Identifier] = field(default_factory=list)
    related: list[Related] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def broken(self, where: str, text: str, fault: str) -> None:
        """Note a violation of the MARC format."""
        self.notes.append(Note(kind=NoteKind.BROKEN, field=where, text=text, fault=fault))

    def keep(self, where: str, text: str) -> None:
        """Keep a value that has no column."""
        if text:
            self.notes.append(Note(kind=NoteKind.KEPT, field=where, text=text))

    def keep_rest(self, found: OpenField) -> None:
        """Keep the subfields that no function has taken, with indicators that carry meaning."""
        rest = found.take_rest()
        if rest:
            marks = found.indicators.replace(" ", "#")
            self.keep(found.written, rest if marks == "##" else f"{marks} {rest}")

    def add_languages(self, where: str, codes: list[str], *, original: bool = False) -> None:
        """Add languages; invalid codes are kept among the notes."""
        into = self.original_languages if original else self.languages
        for found in codes:
            code = language_code(found)
            if code is None:
                self.keep(where, found)
            else:
                into[code] = None

    def add_series(self, series: Series) -> None:
        """Add a series, unless the record already has it."""
        key = (fold(series.title), fold(series.number))
        if key not in self.known_series or series.issn:
            self.series.append(series)
        self.known_series.add(key)

    def finish(self) -> BibliographicRecord:
        """Return the record, combining the values of all fields; statements of publication come first."""
        self._name_it()
        self.publications.sort(key=lambda one: _DATING[one.function])
        self.variants = list(dict.fromkeys(self.variants))
        date = self._date()
        years = self._years(date)
        return BibliographicRecord(
            title=self.title,
            subtitle=self.subtitle,
            sort_title=sort_key(self.sorting or self.title),
            statement=self.statement,
            kind=self.kind,
            control_number=self.control_number,
            control_source=self.control_source,
            years=years,
            date_text=date,
            country=self.country,
            edition=" ; ".join(self.editions),
            extent=" ; ".join(self.extents),
            **{name: tuple(getattr(self, name)) for name in _LISTS},
        )

    def _date(self) -> str:
        """Return the date of publication, or else of distribution, manufacture or copyright.

        A date that names a year is preferred to one like "[datum vydání není známo]".
        """
        dates = [one.date for one in self.publications if one.date]
        if len(dates) > 1:
            dates.sort(key=lambda one: find_years(one) == _UNKNOWN)
        return dates[0] if dates else ""

    def _years(self, date: str) -> Years:
        """Return the years of field 008; where it knows none, or not all digits, those of the date."""
        if self.years != _UNKNOWN and not self.vague:
            return self.years
        found = find_years(date)
        if self.years == _UNKNOWN:
            if date and found == _UNKNOWN:
                self.broken("264", date, "no year recognized in this date")
            return found if found != _UNKNOWN else self.likely_years
        return _completed(self.years, found)

    def _name_it(self) -> None:
        """Give a record without field 245 the first of its other titles."""
        if self.title:
            return
        self.broken("245", "", "no title (field 245, subfield a)")
        if self.variants:
            self.title = self.variants[0].text

    def link_name(self, place: int, name: str, also: Contributor) -> None:
        """Add a name's other script, and that field's other values, to the contributor at that position."""
        known = self.contributors[place]
        self.contributors[place] = replace(
            known,
            linked=" ; ".join(part for part in (known.linked, name) if part),
            roles=tuple(dict.fromkeys((*known.roles, *also.roles))),
            authority_ids=tuple(dict.fromkeys((*known.authority_ids, *also.authority_ids))),
        )


def _completed(vague: Years, found: Years) -> Years:
    """Return the years with unknown digits, narrowed to those found in words if they begin within them.

    Where the first year is unknown, those in words count.
    """
    if vague.first is None:
        return Years(first=found.first, last=found.last or vague.last)
    if found.first is None or found.first < vague.first:
        return vague
    last = vague.last if vague.last is None or found.last is None else min(vague.last, found.last)
    return vague if last is not None and last < found.first else Years(first=found.first, last=last)
