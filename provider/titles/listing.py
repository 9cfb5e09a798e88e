"""Titles for those who maintain them: a list of all titles, listed or not, and everything about one."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, text
from sqlalchemy.orm import Session

from oai.folding import contains_folded, folded_sql
from provider.holdings.url_key_state import www_rule
from provider.titles.folding import folded_words
from provider.titles.models import Title, TitleMembership, TitleSeed, TitleSet
from provider.titles.ranges import RangeRules, keys_in, ranges_of

MOST_SEEDS: Final = 200
"""Seeds that are shown of a title; it may have ten thousand."""
MOST_SEARCHED: Final = 50_000
"""Titles that `find_by_name` searches, in some tenths of a second."""
_SEARCHED: Final = (
    "concat_ws(' ', title.name, array_to_string(title.alternative_names, ' '), title.publisher,"
    " title.source_key)"
)
_OWNERS: Final = """
SELECT asked.low, found.title_id, found.is_carve_out, title.name
FROM unnest(CAST(:lows AS text[])) AS asked(low)
CROSS JOIN LATERAL (
    SELECT * FROM title_segment WHERE title_segment.low <= asked.low COLLATE "C" ORDER BY low DESC LIMIT 1
) AS found
JOIN title ON title.title_id = found.title_id
WHERE asked.low COLLATE "C" < found.high
"""


class Standing(StrEnum):
    """Whether a title is listed, or the first reason why it is not."""

    LISTED = "listed"
    GONE = "gone"
    """Its source no longer contains it."""
    NOT_PUBLIC = "not public"
    NO_CAPTURES = "no captures"
    """The archive has no capture of it that may be listed."""


def standing_of(title: Title) -> Standing:
    """Return whether a title is listed, or why not."""
    if not title.deleted:
        return Standing.LISTED
    if title.gone:
        return Standing.GONE
    return Standing.NO_CAPTURES if title.public else Standing.NOT_PUBLIC


_CONDITIONS: Final[dict[Standing, ColumnElement[bool]]] = {
    Standing.LISTED: ~Title.deleted,
    Standing.GONE: and_(Title.deleted, Title.gone),
    Standing.NOT_PUBLIC: and_(Title.deleted, ~Title.gone, ~Title.public),
    Standing.NO_CAPTURES: and_(Title.deleted, ~Title.gone, Title.public),
}


def list_titles(
    session: Session,
    *,
    limit: int,
    after: int = 0,
    words: str = "",
    source: str = "",
    standing: Standing | None = None,
) -> Sequence[Title]:
    """Return titles with higher numbers than `after`, in the order in which they were first imported.

    Each of the words has to be part of the names, the publisher or the key, whatever its case and accents, or
    of the URL of a seed.
    """
    conditions = [Title.title_id > after, *map(_has, folded_words(words))]
    if source:
        conditions.append(Title.source == source)
    if standing is not None:
        conditions.append(_CONDITIONS[standing])
    return session.scalars(select(Title).where(*conditions).order_by(Title.title_id).limit(limit)).all()


def _has(word: str) -> ColumnElement[bool]:
    texts: ColumnElement[str] = func.concat(text(folded_sql(_SEARCHED)))
    seed = exists().where(
        TitleSeed.title_id == Title.title_id, TitleSeed.url.icontains(word, autoescape=True)
    )
    return or_(texts.contains(word, autoescape=True), seed)


def find_by_name(session: Session, words: str, *, limit: int) -> Sequence[Title]:
    """Return titles in whose names, publisher or key each of the words is, the last imported ones first.

    Only the last `MOST_SEARCHED` titles are searched: no index has the names of titles that are not listed.
    """
    text_of = func.concat_ws(
        " ", Title.name, func.array_to_string(Title.alternative_names, " "), Title.publisher, Title.source_key
    )
    last = select(Title.title_id, text_of.label("searched")).order_by(Title.title_id.desc())
    last_ones = last.limit(MOST_SEARCHED).subquery()
    conditions = [contains_folded(last_ones.c.searched, word) for word in folded_words(words)]
    found = select(Title).join(last_ones, last_ones.c.title_id == Title.title_id).where(*conditions)
    return session.scalars(found.order_by(Title.title_id.desc()).limit(limit)).all()


def sources(session: Session) -> Sequence[str]:
    """Return the names of the sources from which titles were imported."""
    return session.scalars(select(Title.source).distinct().order_by(Title.source)).all()


class SeedRange(NamedTuple):
    """A range of URL keys that a seed means, and to whom it belongs."""

    keys: str
    """See `keys_in`."""
    owner_id: int | None
    """The title to which the first key of the range belongs; None if to no title."""
    owner: str | None
    """Its name."""
    is_carve_out: bool


class ShownSeed(NamedTuple):
    """A seed of a title with the ranges that it means; none if its URL has no host."""

    seed: TitleSeed
    ranges: Sequence[SeedRange]


@dataclass(frozen=True, kw_only=True)
class TitleDetails:
    """Everything that is known about a title."""

    title: Title
    standing: Standing
    seeds: Sequence[ShownSeed]
    """At most `MOST_SEEDS`, in the order of the source."""
    seed_count: int
    sets: Sequence[TitleSet]
    """Without the roots of their trees."""


def title_details(session: Session, wanted: int | uuid.UUID, rules: RangeRules) -> TitleDetails | None:
    """Return everything about the title with that number or key; None if it does not exist."""
    column = Title.key if isinstance(wanted, uuid.UUID) else Title.title_id
    title = session.scalars(select(Title).where(column == wanted)).one_or_none()
    if title is None:
        return None
    of_title = TitleSeed.title_id == title.title_id
    seeds = session.scalars(
        select(TitleSeed).where(of_title).order_by(TitleSeed.position).limit(MOST_SEEDS)
    ).all()
    member = TitleSet.set_spec == TitleMembership.set_spec
    sets = session.scalars(
        select(TitleSet)
        .join(TitleMembership, member)
        .where(TitleMembership.title_id == title.title_id, TitleSet.set_spec.contains(":"))
        .order_by(TitleSet.set_spec)
    ).all()
    return TitleDetails(
        title=title,
        standing=standing_of(title),
        seeds=_with_ranges(session, seeds, rules),
        seed_count=session.scalar(select(func.count()).select_from(TitleSeed).where(of_title)) or 0,
        sets=sets,
    )


def _with_ranges(session: Session, seeds: Sequence[TitleSeed], rules: RangeRules) -> list[ShownSeed]:
    rule = www_rule(session)
    meant = [(seed, ranges_of(seed.url, rules, rule)) for seed in seeds]
    lows = [one.low for _seed, ranges in meant for one in ranges]
    owners = {row.low: row for row in session.execute(text(_OWNERS), {"lows": lows})}
    return [
        ShownSeed(
            seed,
            [
                SeedRange(keys_in(one), owner.title_id, owner.name, owner.is_carve_out)
                if (owner := owners.get(one.low)) is not None
                else SeedRange(keys_in(one), None, None, is_carve_out=False)
                for one in ranges
            ],
        )
        for seed, ranges in meant
    ]
