"""The segments of URL keys: derived from the seeds of all titles and from lists, stored, and followed.

Whoever changes them holds the lock of imports (`provider.titles.access.IMPORTING`).
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from sqlalchemy import func, insert, select, text
from sqlalchemy.orm import Session

from provider.holdings.www_rule import hold_rule
from provider.models import Access
from provider.titles.access import IMPORTING, note_pending
from provider.titles.address_lists import listed_ranges
from provider.titles.capture_counts import hold_figures
from provider.titles.collection_documents import assign_collections
from provider.titles.document_sets import add_sets, switch_sets
from provider.titles.models import SeedKind, Title, TitleSeed, TitleSegment
from provider.titles.publication import publish
from provider.titles.ranges import (
    Claim,
    Conflict,
    KeyRange,
    RangeRules,
    divide,
    keys_in,
    ranges_of,
    strictest_access,
)


def assign_ranges(session: Session, rules: RangeRules) -> tuple[Sequence[Conflict], set[int]]:
    """Divide the keys among all titles and curated collections, and by what lists close.

    Returns the conflicts, and the titles whose segments have changed.
    """
    seeds = session.execute(
        select(TitleSeed.title_id, TitleSeed.url, TitleSeed.kind, Title.access, Title.gone, Title.public)
        .join(Title, Title.title_id == TitleSeed.title_id)
        # What a title closed stays closed when the title is gone: no decision to open it has been made.
        .where(~Title.gone | ((Title.access != Access.OPEN) & (TitleSeed.kind == SeedKind.INCLUDE)))
    )
    www = hold_rule(session)
    claims = []
    access: dict[int | None, str | None] = {}
    in_sets: set[int] = set()
    for seed in seeds:
        access[seed.title_id] = seed.access
        if rules.document_sets and seed.public and not seed.gone:
            in_sets.add(seed.title_id)
        carved = seed.kind == SeedKind.CARVE_OUT
        claims += [
            Claim(found, seed.title_id, carved, seed.gone) for found in ranges_of(seed.url, rules, www)
        ]
    segments, conflicts = divide(claims, listed_ranges(session, www))
    wanted: set[_Row] = {
        (
            *one.range,
            one.title_id,
            one.is_carve_out,
            strictest_access(rules.carve_out if one.is_carve_out else access.get(one.title_id), one.listed),
            one.title_id in in_sets and not one.is_carve_out,
        )
        for one in segments
    }
    note_pending(session, assign_collections(session, rules))
    return conflicts, _replace_segments(session, wanted)


_SEGMENT: Final = ("low", "high", "title_id", "is_carve_out", "access", "in_set")
_Row = tuple[str, str, int | None, bool, str | None, bool]
"""Low, high, title, whether it is carved out, who may see its captures, and whether they are in a set."""


def _replace_segments(session: Session, wanted: set[_Row]) -> set[int]:
    """Store the segments, and note the ranges whose documents then have another rule or set.

    Returns the titles whose segments have changed.
    """
    columns = tuple(getattr(TitleSegment, name) for name in _SEGMENT)
    stored: set[_Row] = {tuple(row) for row in session.execute(select(*columns))}
    removed, added = stored - wanted, wanted - stored
    if removed:
        lows = [row[0] for row in removed]
        session.execute(
            text("DELETE FROM title_segment WHERE low = ANY(CAST(:lows AS text[]))"), {"lows": lows}
        )
    if added:
        session.execute(
            insert(TitleSegment),
            [dict(zip(_SEGMENT, row, strict=True)) for row in sorted(added, key=itemgetter(0))],
        )
        add_sets(session)
    followed = [row for row in removed | added if row[4] not in {None, Access.OPEN} or row[5]]
    note_pending(session, [row[:2] for row in followed])
    return {row[2] for row in removed | added if row[2] is not None}


def follow_setting(session: Session, rules: RangeRules, *, margin: float) -> int:
    """Give the titles' documents sets, or take them away, if the setting is no longer what it was.

    Returns the number of titles that got a new datestamp, because their records link to these sets. The
    caller commits, and lets the documents follow (`provider.titles.access.settle_access`).
    """
    session.execute(select(func.pg_advisory_xact_lock(IMPORTING)))
    hold_figures(session)
    switched = switch(session, rules)
    return publish(session, switched, (), margin=margin) if switched else 0


def switch(session: Session, rules: RangeRules) -> set[int]:
    """Let segments follow the setting, and note their ranges; returns the titles concerned."""
    switched = switch_sets(session, switched_on=rules.document_sets)
    ranges = [(row.low, row.high) for row in switched] + assign_collections(session, rules)
    note_pending(session, ranges)
    return {row.title_id for row in switched}


class ClaimedTwice(NamedTuple):
    """A range of URL keys that two titles claim, with their names."""

    range: KeyRange
    kept_by: str
    refused_to: str

    @property
    def keys(self) -> str:
        """The range as people read it (`keys_in`)."""
        return keys_in(self.range)


def name_conflicts(session: Session, conflicts: Sequence[Conflict]) -> list[ClaimedTwice]:
    """Return the conflicts with the names of their titles."""
    ids = {number for one in conflicts for number in (one.kept, one.refused)}
    rows = session.execute(select(Title.title_id, Title.name).where(Title.title_id.in_(ids)))
    names = {row.title_id: row.name for row in rows}
    return [ClaimedTwice(one.range, names[one.kept], names[one.refused]) for one in conflicts]
