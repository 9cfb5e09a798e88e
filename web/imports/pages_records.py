"""Harvested records as a catalogue: faceted search, export, and the full record."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.facets import Facets, count_facets
from harvester.bibliographic.models import BibliographicRow
from harvester.bibliographic.record import NoteKind, RecordKind
from harvester.bibliographic.record_view import FoundRecord, get_record, made_from
from harvester.bibliographic.search import (
    FoundWords,
    HitPage,
    Search,
    SearchOrder,
    search,
)
from harvester.models import Repository
from oai.errors import UsageError
from web.auth.access import asked_for, visible_repositories, who_asks
from web.auth.sessions import SignedIn
from web.imports import record_words
from web.site.formats import language_name
from web.site.forms import Form, FormModel, empty_is_none, read_form
from web.site.i18n import _
from web.site.keys import PAGE_SIZES, database_of
from web.site.params import BIG_NUMBER
from web.site.render import render

_ADDRESSES: Final = ("http://", "https://")
MOST_SOURCES: Final = 50
"""Repositories by which a search can be narrowed down, those with the most hits."""
_NOBODYS: Final = 0
"""An id that no repository has: a user without visible repositories finds nothing."""
_OBVIOUS: Final = frozenset({"kind: unknown", "function: publication"})
"""Qualifiers that say nothing to readers."""
_ASSIGNED: Final = frozenset({
    "kind", "scheme", "state", "relation", "function", "label", "main", "other_script",
})  # fmt: skip
"""Qualifiers whose values Zatva assigns; those of the others are the record's, such as the vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One value of a record, such as a title, name or subject."""

    text: str
    details: str
    """Qualifiers of the value, in the words of the tables."""
    address: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A heading with its values."""

    title: str
    parts: list[Part]


def kinds() -> dict[str, str]:
    """Return the kinds of records with labels."""
    return {
        RecordKind.BOOK.value: _("book"),
        RecordKind.ARTICLE.value: _("article"),
        RecordKind.SERIAL.value: _("serial"),
        RecordKind.COLLECTION.value: _("collection of items"),
        RecordKind.MANUSCRIPT.value: _("manuscript"),
        RecordKind.SCORE.value: _("score"),
        RecordKind.MAP.value: _("map"),
        RecordKind.PICTURE.value: _("picture"),
        RecordKind.FILM.value: _("film"),
        RecordKind.MUSIC.value: _("music"),
        RecordKind.SOUND.value: _("spoken word or sound"),
        RecordKind.ELECTRONIC.value: _("electronic resource"),
        RecordKind.OBJECT.value: _("object"),
        RecordKind.KIT.value: _("kit"),
        RecordKind.OTHER.value: _("other"),
    }


def chapters(found: FoundRecord) -> list[Chapter]:
    """Return the record's repeatable fields; empty ones and notes are left out."""
    lists = (
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
    made = [Chapter(title=title, parts=_parts(parts, main)) for title, parts, main in lists]
    return [one for one in made if one.parts]


def notes(found: FoundRecord) -> list[Chapter]:
    """Return what has no column of its own: broken data, then fields without a column, then notes."""
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
    labels = record_words.labels()
    words = dict.fromkeys(_ASSIGNED, record_words.values()) | {"roles": record_words.roles()}
    return [_part(one, main, {*main, *hidden}, labels, words) for one in given]


def _part(
    given: Mapping[str, Any],
    main: tuple[str, ...],
    shown: set[str],
    labels: Mapping[str, str],
    words: Mapping[str, Mapping[str, str]],
) -> Part:
    text = ", ".join(str(given[name]) for name in main if given.get(name))
    details = [
        f"{labels.get(name, name)}: {_text(name, value, words.get(name, {}))}"
        for name, value in given.items()
        if name not in shown and value and f"{name}: {value}" not in _OBVIOUS
    ]
    address = text if main == ("url",) and text.startswith(_ADDRESSES) else None
    return Part(text=text or "–", details=" · ".join(details), address=address)  # noqa: RUF001 en dash intended


def _text(name: str, value: object, words: Mapping[str, str]) -> str:
    values = [str(one) for one in (value if isinstance(value, list | tuple) else [value])]
    return ", ".join(record_words.fault(one) if name == "fault" else words.get(one, one) for one in values)


class RecordSearch(FormModel):
    """Search criteria; an absent criterion does not restrict."""

    find: str = Field("", max_length=1000, description="Words to search for; accents and case are ignored.")
    repository: int | None = Field(None, ge=1, le=999_999_999, description="Limit to this repository.")
    language: str = Field("", pattern="^[a-z]{0,3}$", description="ISO 639-2/B code, such as cze.")
    kind: RecordKind | None = Field(None, description="Type of the described item.")
    year_from: int | None = Field(None, ge=-9999, le=9999, description="Published in this year or later.")
    year_to: int | None = Field(None, ge=-9999, le=9999, description="Published in this year or earlier.")
    identifier: str = Field("", max_length=400, description="ISBN, ISSN or another number, complete.")
    order: SearchOrder | None = Field(
        None, description="Order; by relevance if there are words, otherwise by title."
    )

    @property
    def any(self) -> bool:
        """Return whether there is any criterion."""
        return bool(self.model_dump(exclude_defaults=True))

    def query(self, **changes: object) -> str:
        """Return the query string of this search with the changes applied; empty without criteria."""
        asked = {**self.model_dump(mode="json", exclude_defaults=True), **changes}
        return urlencode({name: value for name, value in asked.items() if value not in (None, "")})


class TypedSearch(RecordSearch):
    """The search as a form submits it, including empty fields."""

    _empty_is_none = empty_is_none("repository", "kind", "year_from", "year_to", "order")


@dataclass(frozen=True, kw_only=True)
class FoundRecords:
    """A page of hits, the facets of all hits, and the names of their repositories."""

    page: HitPage
    facets: Facets
    names: dict[int, str]


_NO_RECORDS: Final = FoundRecords(
    page=HitPage(hits=(), next=None),
    facets=Facets(total=0, whole=True, sources=(), languages=(), decades=(), kinds=()),
    names={},
)
_TYPED: Final = frozenset({"find", "identifier", "year_from", "year_to"})
"""Criteria that users type. The others come from links, so an invalid value is a wrong address (404)."""


def asked_in(request: web.Request) -> RecordSearch:
    """Return the search in the query string; respond 404 for values that our pages never link to."""
    try:
        return TypedSearch.model_validate(dict(request.query))
    except ValidationError:
        raise web.HTTPNotFound(text=_("This page of the list does not exist.")) from None


def restricted(session: Session, who: SignedIn, asked: RecordSearch) -> Search:
    """Return the search restricted to the repositories that the user may see."""
    seen = visible_repositories(who)
    chosen = [] if asked.repository is None else [asked.repository]
    if seen is not None:
        own = session.scalars(seen).all()
        chosen = [one for one in own if not chosen or one in chosen] or [_NOBODYS]
    return Search(
        text=asked.find,
        repositories=chosen,
        languages=[asked.language] if asked.language else (),
        kinds=[asked.kind.value] if asked.kind else (),
        year_from=asked.year_from,
        year_to=asked.year_to,
        identifier=asked.identifier,
    )


def find_hits(
    session: Session,
    who: SignedIn,
    asked: RecordSearch,
    *,
    after: str | None,
    limit: int,
) -> HitPage:
    """Return a page of hits. Raises UsageError if `after` is not a key of a page."""
    wanted = restricted(session, who, asked)
    return search(session, wanted, order=asked.order, after=after, limit=limit)


def find_with_facets(
    session: Session, who: SignedIn, asked: RecordSearch, *, after: str | None, limit: int
) -> FoundRecords:
    """Return a page of hits with all that its page shows. Raises UsageError like `find_hits`."""
    page = find_hits(session, who, asked, after=after, limit=limit)
    facets = count_facets(session, restricted(session, who, asked))
    facets = replace(facets, sources=facets.sources[:MOST_SOURCES])
    numbers = {int(one.value) for one in facets.sources} | {hit.repository_id for hit in page.hits}
    named = select(Repository.repository_id, Repository.display_name)
    rows = session.execute(named.where(Repository.repository_id.in_(numbers)))
    return FoundRecords(page=page, facets=facets, names={row[0]: row[1] for row in rows})


async def listing(request: web.Request) -> web.Response:
    """Show the hits in pages, with facets."""
    asked, form = read_form(TypedSearch, request.query)
    if asked is None:
        if not set(form.errors) <= _TYPED:
            raise web.HTTPNotFound(text=_("This page of the list does not exist."))
        return _page(request, TypedSearch(), form, _NO_RECORDS)
    after, limit = request.query.get("after") or None, request.app[PAGE_SIZES].records
    try:
        found = await database_of(request).run(
            find_with_facets, who_asks(request), asked, after=after, limit=limit
        )
    except UsageError:
        raise web.HTTPNotFound(text=_("This page of the list does not exist.")) from None
    return _page(request, asked, form, found)


def _page(request: web.Request, asked: RecordSearch, form: Form, found: FoundRecords) -> web.Response:
    named = kinds()
    orders = {
        SearchOrder.RELEVANCE: _("best matches first"),
        SearchOrder.TITLE: _("title"),
        SearchOrder.NEWEST: _("newest first"),
    }
    return render(
        request,
        "bibliographic_records.html",
        status=form.status,
        asked=asked,
        form=form,
        found=found,
        marked=FoundWords.of(asked.find).split,
        source_name=lambda number: found.names.get(int(number), "-"),  # removed just now
        language_name=language_name,
        kind_name=lambda kind: named.get(kind, kind),
        kinds=named,
        orders={one.value: title for one, title in orders.items()},
        first=not request.query.get("after"),
    )


async def show(request: web.Request) -> web.Response:
    """Show the full record."""
    row = await asked_for(request, BibliographicRow)
    database = database_of(request)
    found = await database.run(get_record, row.bibliographic_id)
    return render(
        request,
        "bibliographic_record.html",
        found=found,
        stored=await database.run(made_from, row),
        chapters=chapters(found),
        notes=notes(found),
        kinds=kinds(),
    )


ROUTES = (
    web.get("/records", listing),
    web.get(f"/records/bibliographic/{BIG_NUMBER}", show),
)
