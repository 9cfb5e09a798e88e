"""Searches among bibliographic records as addresses carry them, limited to what whoever asks may see."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field, ValidationError, field_validator
from sqlalchemy.orm import Session

from harvester.bibliographic.facets import Facets, count_facets
from harvester.bibliographic.record import Kind
from harvester.bibliographic.restricting import Search
from harvester.bibliographic.searching import HitPage, Order, search
from harvester.models import Repository
from web.access import visible_repositories
from web.forms import FormModel
from web.sessions import SignedIn
from web.words import _

_NOBODYS: Final = 0
"""The number of no repository: whoever sees none finds nothing."""


class RecordSearch(FormModel):
    """What is searched for; what is not given asks for nothing."""

    find: str = Field("", max_length=1000, description="Words to search for; accents and case are ignored.")
    repository: int | None = Field(None, ge=1, le=999_999_999, description="Limit to this repository.")
    language: str = Field("", pattern="^[a-z]{0,3}$", description="ISO 639-2/B code, such as cze.")
    kind: Kind | None = Field(None, description="Type of the described item.")
    year_from: int | None = Field(None, ge=-9999, le=9999, description="Published in this year or later.")
    year_to: int | None = Field(None, ge=-9999, le=9999, description="Published in this year or earlier.")
    identifier: str = Field("", max_length=400, description="ISBN, ISSN or another number, complete.")
    order: Order | None = Field(
        None, description="Order; by relevance if there are words, otherwise by title."
    )

    @property
    def any(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.model_dump(exclude_defaults=True))

    def query(self, **changes: object) -> str:
        """The query of an address with this search, or with it changed; empty without any."""
        asked = {**self.model_dump(mode="json", exclude_defaults=True), **changes}
        return urlencode({name: value for name, value in asked.items() if value not in (None, "")})


class TypedSearch(RecordSearch):
    """The search as a form sends it, empty fields included."""

    @field_validator("repository", "kind", "year_from", "year_to", "order", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value


@dataclass(frozen=True, kw_only=True)
class Found:
    """A page of hits, how all hits spread, and the names of their repositories."""

    page: HitPage
    facets: Facets
    names: dict[int, str]


def asked_in(request: web.Request) -> RecordSearch:
    """The search in the address; answers 404 for what no page of ours leads to."""
    try:
        return TypedSearch.model_validate(dict(request.query))
    except ValidationError:
        raise web.HTTPNotFound(text=_("This page of the list does not exist.")) from None


def restricted(session: Session, who: SignedIn, asked: RecordSearch) -> Search:
    """The search among the repositories that somebody sees."""
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
    session: Session, who: SignedIn, asked: RecordSearch, *, after: str | None, limit: int
) -> HitPage:
    """A page of hits. Raises UsageError where `after` is no key of a page."""
    return search(session, restricted(session, who, asked), order=asked.order, after=after, limit=limit)


def find_with_facets(
    session: Session, who: SignedIn, asked: RecordSearch, *, after: str | None, limit: int
) -> Found:
    """A page of hits with all that its page shows. Raises UsageError as `find_hits` does."""
    page = find_hits(session, who, asked, after=after, limit=limit)
    facets = count_facets(session, restricted(session, who, asked))
    numbers = {int(one.value) for one in facets.sources} | {hit.repository_id for hit in page.hits}
    rows = [session.get_one(Repository, number) for number in sorted(numbers)]
    names = {row.repository_id: row.repository_name or row.base_url for row in rows}
    return Found(page=page, facets=facets, names=names)
