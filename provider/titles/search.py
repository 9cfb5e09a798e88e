"""Searches the listed titles by words and sets, in pages ordered by name (keyset pagination)."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Row, func, literal, select, text, tuple_, union_all
from sqlalchemy.orm import Session, aliased

from oai.folding import folded
from provider.titles.folding import SORT_NAME, prefix_queries, prefix_query
from provider.titles.front_pages import with_word
from provider.titles.models import Title, TitleMembership, TitleSearch, TitleSet

PAGE: Final = 50
MOST_COUNTED: Final = 1000
"""With more titles than that, a search says only that there are more."""
MOST_CHOICES: Final = 300
"""A tree with more sets is not offered as a list of choices."""
TREES: Final = ("subject", "collection", "licence", "publisher")


@dataclass(frozen=True, kw_only=True)
class TitleQuery:
    """What is searched for; nothing means all titles."""

    words: str = ""
    sets: Mapping[str, str] = field(default_factory=dict)
    """The part of a setSpec after the colon, by tree."""
    after: uuid.UUID | None = None
    """Key of the last title of the page before."""
    front_pages: bool = False
    """Whether words may also be in the text of the title's front page."""


@dataclass(frozen=True, kw_only=True)
class FoundTitle:
    """A title in a list."""

    key: uuid.UUID
    name: str
    publisher: str | None
    captures: int
    first_capture: datetime | None
    last_capture: datetime | None


@dataclass(frozen=True, kw_only=True)
class TitlePage:
    """A page of found titles."""

    titles: Sequence[FoundTitle]
    count: int
    """Number of all found titles, at most `MOST_COUNTED`."""
    more: bool
    """Whether there are more than `count`."""
    following: uuid.UUID | None
    """The place after which the next page begins; None on the last page."""


class UnknownPlaceError(Exception):
    """`after` is not the key of a title."""


def find_titles(session: Session, query: TitleQuery) -> TitlePage:
    """Return a page of the titles that have all the words and are in all the sets.

    A word matches words of a title that begin with it, whatever their case and accents. Raises
    UnknownPlaceError.
    """
    conditions = _conditions(query)
    counted = select(literal(1)).select_from(TitleSearch).where(*conditions).limit(MOST_COUNTED + 1)
    count = session.scalar(select(func.count()).select_from(counted.subquery())) or 0
    place = tuple_(TitleSearch.sort_name, TitleSearch.key)
    if query.after is not None:
        conditions.append(place > tuple_(_sort_name(session, query.after), query.after))
    wanted = (
        select(TitleSearch.title_id)
        .where(*conditions)
        .order_by(TitleSearch.sort_name, TitleSearch.key)
        .limit(PAGE + 1)
    )
    rows = _rows(session, list(session.scalars(wanted)))
    following = rows[PAGE - 1].key if len(rows) > PAGE else None
    return TitlePage(
        titles=[FoundTitle(**row._mapping) for row in rows[:PAGE]],  # noqa: SLF001 public in SQLAlchemy
        count=min(count, MOST_COUNTED),
        more=count > MOST_COUNTED,
        following=following,
    )


def _conditions(query: TitleQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.words.strip() and query.front_pages:
        conditions += map(_has_word, prefix_queries(query.words))
    elif query.words.strip():
        wanted = func.to_tsquery(text("'simple'"), prefix_query(query.words))
        conditions.append(TitleSearch.words.op("@@")(wanted))
    for tree, part in query.sets.items():
        member = select(literal(1)).where(
            TitleMembership.title_id == TitleSearch.title_id, TitleMembership.set_spec == f"{tree}:{part}"
        )
        conditions.append(member.exists())
    return conditions


def _has_word(word: str) -> ColumnElement[bool]:
    """Return the condition for a word, as a tsquery, in a title or its front page; each by its index."""
    own = aliased(TitleSearch)
    wanted = func.to_tsquery(text("'simple'"), word)
    return TitleSearch.title_id.in_(
        union_all(select(own.title_id).where(own.words.op("@@")(wanted)), with_word(word))
    )


def _sort_name(session: Session, key: uuid.UUID) -> str:
    """Return by what a title is sorted, from its own row: it may have left the list in the meantime."""
    statement = text(f"SELECT {SORT_NAME} FROM title WHERE key = :key")  # noqa: S608 constant text
    found = session.scalar(statement, {"key": key})
    if found is None:
        raise UnknownPlaceError
    return str(found)


def _rows(session: Session, title_ids: Sequence[int]) -> Sequence[Row[tuple[object, ...]]]:
    columns = [getattr(Title, name) for name in FoundTitle.__dataclass_fields__]
    return session.execute(
        select(*columns)
        .join(TitleSearch, TitleSearch.title_id == Title.title_id)
        .where(Title.title_id.in_(title_ids))
        .order_by(TitleSearch.sort_name, TitleSearch.key)
    ).all()


def choices(session: Session, tree: str, chosen: str | None) -> Sequence[tuple[str, str]]:
    """Return part of the setSpec and name of the sets of a tree that have a listed title.

    In the order of their positions, those without one last and by name without accents.

    If there are more than `MOST_CHOICES`, only the chosen one.
    """
    # With a limit, because PostgreSQL would read all memberships to find the sets of EXISTS.
    listed = (
        select(TitleMembership.title_id)
        .join(TitleSearch, TitleSearch.title_id == TitleMembership.title_id)
        .where(TitleMembership.set_spec == TitleSet.set_spec)
        .correlate(TitleSet)
        .limit(1)
        .scalar_subquery()
        .is_not(None)
    )
    wanted = (
        select(TitleSet.set_spec, TitleSet.name, TitleSet.position)
        .where(TitleSet.set_spec > f"{tree}:", TitleSet.set_spec < f"{tree};", listed)
        .limit(MOST_CHOICES + 1)
    )
    found = list(session.execute(wanted))
    if len(found) > MOST_CHOICES:
        known = select(TitleSet.name).where(TitleSet.set_spec == f"{tree}:{chosen}", listed)
        name = session.scalar(known)
        return [(chosen, name)] if chosen and name else []
    found.sort(key=lambda row: (row.position is None, row.position, folded(row.name)))
    return [(row.set_spec.partition(":")[2], row.name) for row in found]
