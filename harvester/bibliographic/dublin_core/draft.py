"""A bibliographic record while a Dublin Core record's elements are read into it."""

from dataclasses import dataclass, field
from typing import Final

from harvester.bibliographic.dates import find_years
from harvester.bibliographic.dublin_core.reading import Element
from harvester.bibliographic.folding import sort_key
from harvester.bibliographic.record import (
    BibliographicRecord,
    Contributor,
    Identifier,
    Kind,
    Link,
    Note,
    NoteKind,
    Publication,
    Related,
    Subject,
    TitleVariant,
    Years,
)

_NOT_PUBLISHED: Final = frozenset({"modified", "available", "valid", "dateSubmitted", "dateAccepted"})


@dataclass(kw_only=True)
class Draft:
    """What the elements have given so far."""

    titles: list[Element] = field(default_factory=list)
    contributors: list[Contributor] = field(default_factory=list)
    publishers: list[str] = field(default_factory=list)
    dates: list[Element] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    subjects: list[Subject] = field(default_factory=list)
    genres: list[Subject] = field(default_factory=list)
    identifiers: list[Identifier] = field(default_factory=list)
    related: list[Related] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, found: Element, kind: NoteKind = NoteKind.NOTE, fault: str = "") -> None:
        """Put the element among the notes."""
        self.notes.append(Note(kind=kind, field=f"dc:{found.term}", text=found.text, fault=fault))

    def finish(self) -> BibliographicRecord:
        """The record, with what the elements give together."""
        title = self._title()
        date = self._date()
        for publisher in self.publishers[1:]:
            self.notes.append(Note(kind=NoteKind.KEPT, field="dc:publisher", text=publisher))
        publisher = self.publishers[0] if self.publishers else ""
        publications = (Publication(publisher=publisher, date=date),) if publisher or date else ()
        return BibliographicRecord(
            title=title,
            sort_title=sort_key(title),
            kind=self.kinds[0] if self.kinds else Kind.OTHER,
            years=find_years(date) if date else Years(),
            date_text=date,
            languages=tuple(self.languages),
            extent=" ; ".join(self.formats),
            variants=tuple(
                TitleVariant(kind="alternative", text=one.text, label=one.language)
                for one in self.titles
                if one.text != title
            ),
            contributors=tuple(self.contributors),
            publications=publications,
            subjects=tuple(self.subjects),
            genres=tuple(self.genres),
            identifiers=tuple(self.identifiers),
            related=tuple(self.related),
            links=tuple(self.links),
            notes=tuple(self.notes),
        )

    def _title(self) -> str:
        """The first title that is no alternative one."""
        if not self.titles:
            fault = "no title (dc:title)"
            self.notes.append(Note(kind=NoteKind.BROKEN, field="dc:title", text="", fault=fault))
            return ""
        return next((one.text for one in self.titles if one.term == "title"), self.titles[0].text)

    def _date(self) -> str:
        """The date of publication: the first that names a year; the others are notes."""
        dated = [one for one in self.dates if find_years(one.text) != Years()]
        published = [one for one in dated if one.term not in _NOT_PUBLISHED]
        chosen = next(
            iter(sorted(published, key=lambda one: one.term != "issued") or dated or self.dates), None
        )
        for one in self.dates:
            if one is not chosen:
                self.note(one, NoteKind.KEPT)
            elif one not in dated:
                self.note(one, NoteKind.BROKEN, "no year recognized in this date")
        return chosen.text if chosen is not None else ""
