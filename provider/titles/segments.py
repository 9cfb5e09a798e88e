"""The segments of URL keys: derived from the seeds of all titles and from lists, stored, and followed.

An import says which URLs it changes (`claimed_urls` before and after), and only the keys around them are
divided again: `provider.titles.ranges` says why that is enough. All keys are divided if the rules for seeds
are not those of the stored segments (`TitleDivision`).

Whoever changes segments holds the lock of imports (`provider.titles.access.IMPORTING`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from sqlalchemy import ARRAY, ColumnElement, Integer, any_, func, literal, select
from sqlalchemy.orm import Session

from provider.holdings.url_key_state import hold_rule
from provider.holdings.urlkeys import WwwRule
from provider.models import Access
from provider.titles.access import IMPORTING, note_pending
from provider.titles.address_lists import listed_ranges
from provider.titles.capture_counts import hold_figures
from provider.titles.collection_documents import assign_collections
from provider.titles.document_sets import add_sets, switch_sets
from provider.titles.models import AccessList, SeedKind, Title, TitleSeed, TitleSegment, TitleSet
from provider.titles.publication import publish
from provider.titles.ranges import (
    EVERYTHING,
    Claim,
    Conflict,
    KeyRange,
    RangeRules,
    divide,
    keys_in,
    merged,
    ranges_meeting,
    ranges_of,
    ranges_of_address,
    strictest_access,
)
from provider.titles.segment_rows import division, note_division, replace_rows

_READING: Final = 2
"""Increased when `ranges_of` reads seeds differently, so that all keys are divided again."""


class ClaimedUrl(NamedTuple):
    """A URL that a title, a list or a collection names, with everything that follows from that."""

    url: str
    is_address: bool
    """Whether it is an address of a list, without its scheme."""
    facts: tuple[Any, ...]


def any_id(ids: Iterable[int]) -> ColumnElement[Any]:
    """Return what a column of ids is compared with: one parameter, because IN takes 65,535 at most."""
    return any_(literal(list(ids), ARRAY(Integer)))


def claimed_urls(
    session: Session, source: str, titles: Collection[int], collections: Collection[str]
) -> set[ClaimedUrl]:
    """Return the URLs of these titles and collections (set specs), and of all lists of the source."""
    # The names of a title's collections occur once for the title, not for each seed: both may be thousands.
    of_titles = select(Title.title_id, Title.collections).where(Title.title_id == any_id(titles))
    named = {number: sha256(repr(names).encode()).digest() for number, names in session.execute(of_titles)}
    seeds = (
        select(TitleSeed.url, TitleSeed.kind)
        .add_columns(Title.title_id, Title.access, Title.gone, Title.public)
        .join(Title, Title.title_id == TitleSeed.title_id)
        .where(Title.title_id == any_id(titles))
    )
    found = {
        ClaimedUrl(url, is_address=False, facts=(kind, number, *facts, named[number]))
        for url, kind, number, *facts in session.execute(seeds)
    }
    lists = select(func.unnest(AccessList.addresses), AccessList.access).where(AccessList.source == source)
    found |= {ClaimedUrl(url, is_address=True, facts=(access,)) for url, access in session.execute(lists)}
    sets = select(func.unnest(TitleSet.seeds), TitleSet.set_spec).where(TitleSet.set_spec.in_(collections))
    return found | {ClaimedUrl(url, is_address=False, facts=(spec,)) for url, spec in session.execute(sets)}


def assign_ranges(
    session: Session, rules: RangeRules, changed: Iterable[ClaimedUrl]
) -> tuple[Sequence[Conflict], set[int]]:
    """Divide the keys of changed URLs among all titles and curated collections, and by what lists close.

    Returns the conflicts there, and the titles whose segments have changed.
    """
    www = hold_rule(session)
    # Before anything is divided: the stored segments that stay have to be in the sets of the present setting.
    switched = _switch_sets(session, rules)
    spans = _spans(session, rules, www, changed)
    note_pending(session, assign_collections(session, rules, spans))
    if not spans:
        return [], switched
    if spans == [EVERYTHING]:
        note_division(session, rules=_words(rules, www))
    claims: list[Claim] = []
    facts: dict[int | None, tuple[str | None, bool]] = {}
    for seed, ranges in _seeds(session, rules, www, spans):
        carved = seed.kind == SeedKind.CARVE_OUT
        claims += [Claim(one, seed.title_id, carved, seed.gone) for one in ranges]
        facts[seed.title_id] = seed.access, rules.document_sets and seed.public and not seed.gone
    segments, conflicts = divide(claims, listed_ranges(session, www, spans))
    pieces: list[tuple[KeyRange, _State]] = []
    for one in segments:
        access, in_set = facts.get(one.title_id, (None, False))
        access = strictest_access(rules.carve_out if one.is_carve_out else access, one.listed)
        state = one.title_id, one.is_carve_out, access, in_set and not one.is_carve_out
        pieces.append((one.range, state))
    return conflicts, switched | _replace_segments(session, pieces, spans)


_State = tuple[int | None, bool, str | None, bool]
"""Title, whether it is carved out, who may see its captures, and whether they are in a set."""


def _words(rules: RangeRules, www: WwwRule) -> str:
    return f"{rules.host} {rules.file} {rules.carve_out} {www} {_READING}"


def _spans(
    session: Session, rules: RangeRules, www: WwwRule, changed: Iterable[ClaimedUrl]
) -> Sequence[KeyRange]:
    """Return the keys that have to be divided, as the result of `merged`."""
    if division(session).rules != _words(rules, www):
        return [EVERYTHING]
    return merged(
        found
        for one in changed
        for found in (
            ranges_of_address(f"http://{one.url}", www) if one.is_address else ranges_of(one.url, rules, www)
        )
    )


def _seeds(
    session: Session, rules: RangeRules, www: WwwRule, spans: Sequence[KeyRange]
) -> Iterator[tuple[Any, list[KeyRange]]]:
    """Yield the seeds of all titles that have ranges which meet the spans, with these ranges."""
    seeds = (
        select(TitleSeed.title_id, TitleSeed.url, TitleSeed.kind, Title.access, Title.gone, Title.public)
        .join(Title, Title.title_id == TitleSeed.title_id)
        # What a title closed stays closed when the title is gone: no decision to open it has been made.
        .where(~Title.gone | ((Title.access != Access.OPEN) & (TitleSeed.kind == SeedKind.INCLUDE)))
    )
    for seed in session.execute(seeds):
        if ranges := ranges_meeting(spans, seed.url, rules, www):
            yield seed, ranges


def _replace_segments(
    session: Session, pieces: Iterable[tuple[KeyRange, _State]], spans: Sequence[KeyRange]
) -> set[int]:
    """Store the pieces, and note the ranges whose documents then have another rule or set.

    Returns the titles whose segments have changed.
    """
    removed, added = replace_rows(session, TitleSegment, pieces, spans)
    if added:
        add_sets(session)
    changed = removed | added
    note_pending(
        session,
        [
            (low, high)
            for low, high, _, _, access, in_set in changed
            if access not in {None, Access.OPEN} or in_set
        ],
    )
    return {row[2] for row in changed if row[2] is not None}


def follow_setting(session: Session, rules: RangeRules, *, margin: float) -> int:
    """Divide the keys again if the rules for seeds have changed; add or remove the sets of titles.

    Returns the number of titles that got a new datestamp, because their records have other figures or link
    to these sets. The caller commits, and lets the documents follow (`provider.titles.access.settle_access`).
    """
    session.execute(select(func.pg_advisory_xact_lock(IMPORTING)))
    hold_figures(session)
    _, changed = assign_ranges(session, rules, ())
    return publish(session, changed, changed, margin=margin) if changed else 0


def _switch_sets(session: Session, rules: RangeRules) -> set[int]:
    switched = switch_sets(session, switched_on=rules.document_sets)
    note_pending(session, [(row.low, row.high) for row in switched])
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
    rows = session.execute(select(Title.title_id, Title.name).where(Title.title_id == any_id(ids)))
    names = {row.title_id: row.name for row in rows}
    return [ClaimedTwice(one.range, names[one.kept], names[one.refused]) for one in conflicts]
