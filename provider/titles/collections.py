"""Descriptions of curated collections: a text, a picture, a place in the list, and URLs of their own.

Titles name the collections that they are in. A source may also describe these sets `collection:…`, and what
it describes is shown in ListSets and on the public pages. The captures of their URLs, and of their titles,
are sets of `/oai` (`provider.titles.collection_documents`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.errors import Phrase
from provider.titles.entries import CollectionEntry
from provider.titles.import_warnings import of_collection
from provider.titles.models import TitleSet
from provider.titles.sets import collection_spec

_NOTHING: Final[Mapping[str, Any]] = {
    "description": None, "picture": None, "position": None, "seeds": [], "described_by": None,
}  # fmt: skip


@dataclass(kw_only=True)
class CollectionChanges:
    """What an import would change in the descriptions of collections."""

    changed: dict[str, CollectionEntry] = field(default_factory=dict)
    """New and changed descriptions, by setSpec."""
    gone: dict[str, str] = field(default_factory=dict)
    """SetSpec and name of each collection that the source describes no longer."""
    seeds_stored: int = 0
    """URLs of all collections that the source describes."""
    seeds_removed: int = 0
    """Those that their collections would no longer have."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)

    @property
    def names(self) -> list[str]:
        """The names of all these collections."""
        return sorted([*(one.collection for one in self.changed.values()), *self.gone.values()])


def compare_collections(
    session: Session, source: str, found: Iterable[CollectionEntry], *, complete: bool
) -> tuple[CollectionChanges, list[Phrase]]:
    """Compare descriptions with the stored ones; returns the changes, and warnings.

    Unless the source was read completely, descriptions that are missing in it stay.
    """
    rows = session.scalars(select(TitleSet).where(TitleSet.described_by.is_not(None)))
    stored = {row.set_spec: row for row in rows}
    changes, warnings = CollectionChanges(), []
    seen: dict[str, str] = {}
    for one in found:
        spec = collection_spec(one.collection)
        known = stored.get(spec) if spec else None
        why_not = _why_not_stored(source, spec, seen, known)
        if why_not is not None:
            warnings.append(of_collection(one.collection, why_not))
        else:
            seen[spec] = one.collection
            values = _values(one)
            if known is None or any(_is_other(getattr(known, name), new) for name, new in values.items()):
                changes.changed[spec] = one
    mine = [row for row in stored.values() if row.described_by == source]
    if complete:
        changes.gone = {row.set_spec: row.name for row in mine if row.set_spec not in seen}
    changes.seeds_stored = sum(len(row.seeds) for row in mine)
    changes.seeds_removed = sum(
        len(set(row.seeds).difference(_seeds_then(row, changes))) for row in mine if row.seeds
    )
    return changes, warnings


def _why_not_stored(source: str, spec: str, seen: Mapping[str, str], known: TitleSet | None) -> Phrase | None:
    if not spec:
        return Phrase("its name has no letter or digit for a setSpec")
    if spec in seen:
        return Phrase("%(other)s has the same set, %(set)s", other=repr(seen[spec]), set=spec)
    if known and known.described_by != source:
        other = repr(known.described_by)
        return Phrase("the source %(source)s describes its set, %(set)s", source=other, set=spec)
    return None


def _is_other(old: object, new: object) -> bool:
    """Return whether values differ; an empty text is none, because CSV has no difference between them."""
    return (None if old == "" else old) != (None if new == "" else new)


def _seeds_then(row: TitleSet, changes: CollectionChanges) -> Collection[str]:
    if row.set_spec in changes.gone:
        return ()
    changed = changes.changed.get(row.set_spec)
    return row.seeds if changed is None or changed.seeds is None else changed.seeds


def store_collections(session: Session, source: str, changes: CollectionChanges) -> None:
    """Write the descriptions. Sets without a listed title are stored, too, and are not shown."""
    for spec, one in changes.changed.items():
        values = {**_values(one), "described_by": source}
        adding = insert(TitleSet).values(set_spec=spec, **values)
        session.execute(adding.on_conflict_do_update(index_elements=[TitleSet.set_spec], set_=values))
    if changes.gone:
        session.execute(update(TitleSet).where(TitleSet.set_spec.in_(changes.gone)).values(_NOTHING))


def _values(entry: CollectionEntry) -> Mapping[str, Any]:
    values: dict[str, Any] = {
        "name": entry.collection,
        "description": entry.annotation,
        "picture": entry.picture,
        "position": entry.position,
    }
    return values if entry.seeds is None else {**values, "seeds": list(entry.seeds)}


def described(session: Session, set_spec: str) -> TitleSet | None:
    """Return the set if a source describes it. Only sets with a listed title may be shown."""
    found = session.get(TitleSet, set_spec)
    return found if found is not None and found.described_by else None
