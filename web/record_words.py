"""Words of bibliographic records on pages: kinds, and a whole record as headings with what stands below."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from harvester.bibliographic.record import Kind, NoteKind
from harvester.bibliographic.showing import FoundRecord
from web.words import _

_ADDRESSES: Final = ("http://", "https://")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A title, name, subject or the like of a record."""

    text: str
    details: str
    """What else is said of it, in the words of the tables."""
    address: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A heading with its parts."""

    title: str
    parts: list[Part]


def kinds() -> dict[str, str]:
    """What may be described, in words."""
    return {
        Kind.BOOK.value: _("book"),
        Kind.ARTICLE.value: _("article"),
        Kind.SERIAL.value: _("serial"),
        Kind.COLLECTION.value: _("collection of items"),
        Kind.MANUSCRIPT.value: _("manuscript"),
        Kind.SCORE.value: _("score"),
        Kind.MAP.value: _("map"),
        Kind.PICTURE.value: _("picture"),
        Kind.FILM.value: _("film"),
        Kind.MUSIC.value: _("music"),
        Kind.SOUND.value: _("spoken word or sound"),
        Kind.ELECTRONIC.value: _("electronic resource"),
        Kind.OBJECT.value: _("object"),
        Kind.KIT.value: _("kit"),
        Kind.OTHER.value: _("other"),
    }


def chapters(found: FoundRecord) -> list[Chapter]:
    """All that the record has more than one of, without the empty ones and the notes."""
    told = (
        (_("Names"), map(asdict, found.contributors), ("name",)),
        (_("Other titles"), found.titles, ("text",)),
        (_("Published"), found.publications, ("place", "publisher", "date")),
        (_("Series"), found.series, ("title",)),
        (_("Subjects"), found.subjects, ("text",)),
        (_("Genres"), found.genres, ("text",)),
        (_("Numbers"), map(asdict, found.identifiers), ("value",)),
        (_("Related publications"), found.related, ("title",)),
        (_("Links"), found.links, ("url",)),
    )
    made = [Chapter(title=title, parts=_parts(parts, main)) for title, parts, main in told]
    return [one for one in made if one.parts]


def notes(found: FoundRecord) -> list[Chapter]:
    """What the record says beside its columns: what is broken first, then what has no column, then notes."""
    titles = (
        (NoteKind.BROKEN, _("Fields that could not be converted")),
        (NoteKind.KEPT, _("Other fields")),
        (NoteKind.NOTE, _("Notes")),
    )
    made = [
        Chapter(
            title=title,
            parts=_parts([one for one in found.notes if one.get("kind") == kind.value], ("text",), {"kind"}),
        )
        for kind, title in titles
    ]
    return [one for one in made if one.parts]


def _parts(
    given: Iterable[Mapping[str, Any]], main: tuple[str, ...], hidden: Iterable[str] = ()
) -> list[Part]:
    return [_part(one, main, {*main, *hidden}) for one in given]


def _part(given: Mapping[str, Any], main: tuple[str, ...], shown: set[str]) -> Part:
    text = ", ".join(str(given[name]) for name in main if given.get(name))
    details = [f"{name}: {_text(value)}" for name, value in given.items() if name not in shown and value]
    address = text if main == ("url",) and text.startswith(_ADDRESSES) else None
    return Part(text=text or "–", details=" · ".join(details), address=address)  # noqa: RUF001 a dash on purpose


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
