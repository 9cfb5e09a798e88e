"""Sets `collection:…` of documents in `/oai`: the captures of curated collections.

With the setting `title_document_sets`, a curated collection has the captures of its titles, whether they are
public or not, and those of its own URLs (`title_set.seeds`). A document may be in several of them, so they
are rows of `document_collection` like collections of the staff, of which they are marked `from_titles`. They
have no rule of their own and open nothing. When an import changes titles or collections, the ranges of URL
keys that now belong to others are noted as pending, and their documents follow in batches
(`provider.titles.access`); documents that are indexed later are put into their collections at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlalchemy import any_, delete, exists, func, select
from sqlalchemy.orm import Session, aliased

from provider.holdings.collections import add_collection
from provider.holdings.url_key_state import hold_rule
from provider.models import Access, Collection, DocumentCollection
from provider.titles.models import CollectionSegment, SeedKind, Title, TitleSeed, TitleSet
from provider.titles.ranges import (
    EVERYTHING,
    KeyRange,
    Member,
    RangeRules,
    divide_members,
    ranges_meeting,
)
from provider.titles.segment_rows import division, note_division, replace_rows
from provider.titles.sets import collection_spec

_TREE: Final = "collection:"


def staff_collections(session: Session) -> set[str]:
    """Return the set specs of collections that belong to the staff."""
    return set(session.scalars(select(Collection.set_spec).where(~Collection.from_titles)))


def assign_collections(
    session: Session, rules: RangeRules, spans: Sequence[KeyRange]
) -> list[tuple[str, str]]:
    """Store which ranges of keys are in which collections; returns the ranges where this changes.

    Only the keys in `spans`, a result of `merged`, are divided again, or all keys if there are other
    collections than before. Curated collections whose set spec a collection of the staff has are left out.
    The caller holds the lock of imports.
    """
    names = _names(session) if rules.document_sets else {}
    ids = _ids(session, names) if names else {}
    collections = sorted(ids.values())
    if division(session).collections != collections:
        spans = [EVERYTHING]
        note_division(session, collections=collections)
    if not spans:
        return []
    pieces = divide_members(_members(session, rules, ids, spans) if ids else ())
    removed, added = replace_rows(
        session, CollectionSegment, ((found, (ids,)) for found, ids in pieces), spans
    )
    return [(low, high) for low, high, _ in removed | added]


def _names(session: Session) -> dict[str, str]:
    """Return the names of the collections that titles or descriptions name, by set spec."""
    found = session.scalars(select(func.unnest(Title.collections)).where(~Title.gone).distinct())
    names = {spec: name for name in sorted(found) if (spec := collection_spec(name))}
    described = select(TitleSet.set_spec, TitleSet.name).where(
        TitleSet.set_spec.startswith(_TREE), TitleSet.described_by.is_not(None)
    )
    return names | {row.set_spec: row.name for row in session.execute(described)}


def _ids(session: Session, names: Mapping[str, str]) -> dict[str, int]:
    """Return the ids of the collections by set spec, without those of the staff; creates what is missing."""
    taken = staff_collections(session)
    texts = session.execute(select(TitleSet.set_spec, TitleSet.description))
    descriptions = {row.set_spec: row.description or "" for row in texts}
    columns = select(Collection.set_spec, Collection.id, Collection.name, Collection.description)
    known = {row.set_spec: row for row in session.execute(columns.where(Collection.from_titles))}
    ids: dict[str, int] = {}
    for spec, name in names.items():
        stored = known.get(spec)
        if stored and (stored.name, stored.description) == (name, descriptions.get(spec, "")):
            ids[spec] = stored.id
        elif spec not in taken:
            made = add_collection(session, spec, name=name, description=descriptions.get(spec, ""))
            made.from_titles = True
            ids[spec] = made.id
    session.flush()
    return ids


def _members(
    session: Session, rules: RangeRules, ids: Mapping[str, int], spans: Sequence[KeyRange]
) -> Iterator[Member]:
    """Yield the ranges that meet the spans."""
    www = hold_rule(session)
    of_titles = (
        select(TitleSeed.title_id, TitleSeed.url, TitleSeed.kind, Title.collections)
        .join(Title, Title.title_id == TitleSeed.title_id)
        .where(~Title.gone, func.cardinality(Title.collections) > 0)
    )
    for row in session.execute(of_titles):
        for found in ranges_meeting(spans, row.url, rules, www):
            specs = {collection_spec(name) for name in row.collections}
            mine = tuple(sorted(ids[spec] for spec in specs if spec in ids))
            yield Member(found, (row.title_id, True), () if row.kind == SeedKind.CARVE_OUT else mine)
    named = select(TitleSet.set_spec, TitleSet.seeds).where(TitleSet.set_spec.in_(ids))
    for spec, seeds in session.execute(named):
        for url in seeds:
            for found in ranges_meeting(spans, url, rules, www):
                yield Member(found, (ids[spec], False), (ids[spec],))


def remove_empty(session: Session) -> None:
    """Remove curated collections that no range names any more, after their last document has left them.

    One with an access rule of the staff stays, because it would be open if it came again.
    """
    below = aliased(Collection)
    session.execute(
        delete(Collection).where(
            Collection.from_titles,
            Collection.access == Access.OPEN,
            ~exists().where(Collection.id == any_(CollectionSegment.collections)),
            ~exists().where(DocumentCollection.collection_id == Collection.id),
            ~exists().where(below.parent_id == Collection.id),
        )
    )
