"""Imports of titles: compares what a source contains with what is stored, and applies the differences.

An import is repeatable: run again, it changes nothing. A source that could not be read in full, or that is
empty, never means that titles are gone.
"""

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import Phrase, UsageError
from oai.sections.provider import ListMeaning
from provider.holdings.url_key_state import www_rule
from provider.holdings.urlkeys import WwwRule
from provider.models import UNLISTED
from provider.titles.access import IMPORTING
from provider.titles.address_lists import ListPlan, plan_lists, store_lists
from provider.titles.capture_counts import hold_figures
from provider.titles.cells import saved_as_numbers, with_plain_exponent
from provider.titles.collection_documents import staff_collections
from provider.titles.collections import CollectionChanges, compare_collections, store_collections
from provider.titles.entries import (
    AddressList,
    CollectionEntry,
    NotDescribed,
    Read,
    Refused,
    Remark,
    TitleEntry,
)
from provider.titles.import_warnings import change_warnings, collection_warnings, of_title, title_warnings
from provider.titles.licences import licence_of
from provider.titles.models import Title, TitleSeed
from provider.titles.publication import publish
from provider.titles.ranges import Conflict, RangeRules
from provider.titles.segments import any_id, assign_ranges, claimed_urls, follow_setting

_FIELDS: Final = (
    "name", "alternative_names", "publisher", "annotation", "languages", "issn", "catalogue_number",
    "classification", "subjects", "keywords", "collections", "state", "public", "access", "contract_from",
    "contract_to",
)  # fmt: skip
_ALWAYS: Final = 20
"""Titles, or addresses of lists, that an import may always change or remove without approval."""
_KEY_BYTES: Final = 16
NO_MEANINGS: Final[Mapping[str, ListMeaning]] = {}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A title that an import adds or changes."""

    entry: TitleEntry
    licence: str | None
    title_id: int | None
    """None for a new title."""
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The stored and the new value of each changed field; `seeds` are its URLs."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the changed fields."""
        return tuple(self.changes)


@dataclass(kw_only=True)
class ImportPlan:
    """What an import would do."""

    source: str
    new: list[Difference] = field(default_factory=list)
    changed: list[Difference] = field(default_factory=list)
    gone: list[tuple[int, str, str]] = field(default_factory=list)
    """Id, key and name of each title that the source no longer contains."""
    unchanged: int = 0
    collections: CollectionChanges = field(default_factory=CollectionChanges)
    refused: list[Refused] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Those about titles and collections are a `Phrase`, which pages translate."""
    kept_because: str | None = None
    """Why titles that are missing from the source are kept."""
    stored: int = 0
    """Titles of the source that were stored and not gone before."""
    lists: list[ListPlan] = field(default_factory=list)

    @property
    def weight(self) -> int:
        """The number of stored titles that it changes or removes."""
        return len(self.changed) + len(self.gone)

    @property
    def not_taken(self) -> list[Refused]:
        """What is refused of titles and of lists."""
        return [*self.refused, *(one for listed in self.lists for one in listed.refused)]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers for reports and the audit log."""
        counts = {
            "new": len(self.new),
            "changed": len(self.changed),
            "gone": len(self.gone),
            "unchanged": self.unchanged,
            "not_taken": len(self.not_taken),
        }
        if self.collections:
            counts["collections"] = len(self.collections.names)
        if self.lists:
            counts["addresses_added"] = sum(one.added for one in self.lists)
            counts["addresses_removed"] = sum(one.removed for one in self.lists)
        return counts

    @property
    def changes_nothing(self) -> bool:
        """Whether everything is stored as it was found."""
        lists = any(one.added or one.removed for one in self.lists)
        return not (self.new or self.weight or self.collections or lists)

    def exceeds(self, percent: float) -> bool:
        """Return whether it changes or removes more than this share of one kind of what the source has."""
        return any(is_mass_change(number, stored, percent) for number, stored in self._shares())

    def check(self, percent: float) -> None:
        """Raise UsageError if it changes or removes more than this share of one kind of what the source has.

        The kinds are titles, addresses of lists, and URLs of collections.
        """
        if not self.exceeds(percent):
            return
        _, (removed, listed), (left, named) = self._shares()
        would = f"change {len(self.changed)} and remove {len(self.gone)} of {self.stored} titles"
        would += f", and change or remove {removed} of {listed} addresses of lists" if removed else ""
        would += f", and remove {left} of {named} URLs of collections" if left else ""
        raise needs_approval("import", would, percent)

    def _shares(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return, of titles, addresses and URLs of collections, how many it changes, and of how many."""
        removed, listed = sum(one.removed for one in self.lists), sum(one.stored for one in self.lists)
        collections = self.collections
        return (
            (self.weight, self.stored),
            (removed, listed),
            (collections.seeds_removed, collections.seeds_stored),
        )


def is_mass_change(number: int, stored: int, percent: float) -> bool:
    """Return whether a change of this number of stored things needs approval."""
    return number > max(_ALWAYS, int(stored * percent / 100))


def needs_approval(work: str, would: str, percent: float) -> UsageError:
    """Return the error for an import, or other work, that would make a mass change."""
    return UsageError(
        f"the {work} would {would}, which is more than {percent:g} % (provider.title_change_percent). Look "
        f"at what --dry-run lists, and repeat the {work} with --approve if that is what you want"
    )


def plan_import(
    session: Session,
    source: str,
    found: Iterable[Read],
    rules: RangeRules,
    meanings: Mapping[str, ListMeaning] = NO_MEANINGS,
) -> ImportPlan:
    """Compare the entries with the stored titles and lists of the source; nothing is changed.

    `meanings` are those of lists, by key or title (`provider.titles.address_lists`). Waits for another import
    to end, and keeps others away until the transaction ends.
    """
    # Before the lock, for which those who add documents wait: a database may be slow to answer.
    plan = ImportPlan(source=source)
    entries = _sorted(plan, found)
    session.execute(select(func.pg_advisory_xact_lock(IMPORTING)))
    www = www_rule(session)
    stored = {title.source_key: title for title in session.scalars(_stored(source))}
    seeds = _seeds_of(session, source)
    plan.stored = sum(not title.gone for title in stored.values())
    missing = [title for key, title in stored.items() if key not in entries.titles and not title.gone]
    _refuse_changed_keys(plan, entries.titles, stored, missing)
    for key, entry in entries.titles.items():
        _compare(plan, entry, stored.get(key), seeds, rules, www)
    reason = _why_kept(plan, entries.titles)
    plan.kept_because = reason if missing else None
    if reason is None:
        plan.gone = [(title.title_id, title.source_key, title.name) for title in missing]
    complete = reason is None and entries.is_described
    plan.collections, warnings = compare_collections(session, source, entries.collections, complete=complete)
    plan.warnings += warnings
    taken = staff_collections(session) if rules.document_sets else set()
    titles = entries.titles.values()
    plan.warnings += collection_warnings(titles, entries.collections, taken, rules, www)
    plan.lists, unknown = plan_lists(session, source, entries.lists, meanings)
    plan.warnings += [*unknown, *(one.warning for one in plan.lists if one.warning)]
    return plan


@dataclass(kw_only=True)
class _Entries:
    """What a source contains, by kind."""

    titles: dict[str, TitleEntry] = field(default_factory=dict)
    """By key."""
    collections: list[CollectionEntry] = field(default_factory=list)
    lists: list[AddressList] = field(default_factory=list)
    is_described: bool = True
    """Whether descriptions of collections could be read."""


def _sorted(plan: ImportPlan, found: Iterable[Read]) -> _Entries:
    """Return the entries by kind; what is refused or remarked goes into the plan."""
    entries = _Entries()
    for one in found:
        if isinstance(one, Refused):
            plan.refused.append(one)
        elif isinstance(one, Remark | NotDescribed):
            place, words = one.place, one.words
            warning = of_title(place, words) if isinstance(words, Phrase) else f"{place}: {words}"
            plan.warnings.append(warning)
            entries.is_described &= isinstance(one, Remark)
        elif isinstance(one, CollectionEntry):
            entries.collections.append(one)
        elif isinstance(one, AddressList):
            entries.lists.append(one)
        elif one.key in entries.titles:
            reason = Phrase("its key was used before, by %(name)s", name=repr(entries.titles[one.key].name))
            plan.refused.append(Refused(place=Phrase("key %(key)s", key=one.key), reason=reason))
        else:
            entries.titles[one.key] = one
    return entries


def _refuse_changed_keys(
    plan: ImportPlan,
    titles: dict[str, TitleEntry],
    stored: Mapping[str, Title],
    missing: Iterable[Title],
) -> None:
    """Refuse new titles whose key a spreadsheet program has made of that of a missing one."""
    saved = saved_as_numbers(title.source_key for title in missing)
    for key in [key for key in titles if key not in stored or stored[key].gone]:
        if before := saved.get(with_plain_exponent(key)):
            reason = Phrase(
                "the source has no title with this key, but one with the key %(key)s, which a spreadsheet "
                "program may have read as a number; open the file with this column as text, and correct it",
                key=before,
            )
            plan.refused.append(Refused(place=Phrase("key %(key)s", key=key), reason=reason))
            del titles[key]


def _why_kept(plan: ImportPlan, seen: Mapping[str, TitleEntry]) -> str | None:
    if unread := sum(not one.is_decision for one in plan.refused):
        return f"{unread} entries could not be read, and may be these titles"
    return None if seen else "the source contains no title"


def _stored(source: str) -> Any:  # noqa: ANN401 a long generic type
    return select(Title).where(Title.source == source)


def _seeds_of(session: Session, source: str) -> dict[int, list[dict[str, Any]]]:
    rows = session.scalars(
        select(TitleSeed)
        .join(Title, Title.title_id == TitleSeed.title_id)
        .where(Title.source == source)
        .order_by(TitleSeed.title_id, TitleSeed.position)
    )
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row.title_id, []).append(
            {
                "url": row.url,
                "kind": row.kind,
                "main": row.main,
                "harvested_from": row.harvested_from,
                "harvested_to": row.harvested_to,
            }
        )
    return found


def _compare(
    plan: ImportPlan,
    entry: TitleEntry,
    title: Title | None,
    seeds: Mapping[int, list[dict[str, Any]]],
    rules: RangeRules,
    www: WwwRule,
) -> None:
    licence = licence_of(entry.licence) if entry.licence else None
    plan.warnings += title_warnings(entry, rules, www)
    key = licence.key if licence else None
    if title is None:
        plan.new.append(Difference(entry=entry, licence=key, title_id=None))
        return
    wanted = {**_values(entry), "licence": key, "gone": False}
    both = {name: (getattr(title, name), value) for name, value in wanted.items()}
    both["seeds"] = (seeds.get(title.title_id, []), [seed.model_dump() for seed in entry.seeds])
    # CSV has no difference between an empty text and none.
    changes = {name: (old, new) for name, (old, new) in both.items() if (old or None) != (new or None)}
    plan.warnings += change_warnings(entry.key, changes)
    if changes:
        plan.changed.append(Difference(entry=entry, licence=key, title_id=title.title_id, changes=changes))
    else:
        plan.unchanged += 1


def _values(entry: TitleEntry) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(entry, name)
        values[name] = list(value) if isinstance(value, tuple) else value
    values["subjects"] = [subject.model_dump(exclude_none=True) for subject in entry.subjects]
    return values


def apply_import(
    session: Session, plan: ImportPlan, rules: RangeRules, *, margin: float
) -> Sequence[Conflict]:
    """Carry out a plan in the transaction in which it was made; returns the ranges that two titles claim.

    Counts the captures of the titles whose ranges have changed, and gives a new datestamp to those whose
    records show something else. The caller commits. `margin` is that of `provider.holdings.mark.reserve`.
    """
    if plan.changes_nothing:
        follow_setting(session, rules, margin=margin)
        return []
    # Before any row of a title is locked: a count that holds the figures would wait for that row.
    hold_figures(session)
    changed, conflicts, resegmented = _change(session, plan, rules)
    publish(session, (), resegmented, imported=changed, margin=margin)
    return conflicts


def preview_import(session: Session, plan: ImportPlan, rules: RangeRules) -> Sequence[Conflict]:
    """Carry out a plan, as `apply_import` does, to see what it means; the caller rolls back.

    Nothing is counted, and no datestamp is reserved, for which answers to harvesters would wait.
    """
    if plan.changes_nothing:
        assign_ranges(session, rules, ())
        return []
    return _change(session, plan, rules)[1]


def _change(
    session: Session, plan: ImportPlan, rules: RangeRules
) -> tuple[set[int], Sequence[Conflict], set[int]]:
    """Return the titles that the plan changes, the conflicts, and the titles whose segments have changed."""
    collections = plan.collections.changed.keys() | plan.collections.gone.keys()
    gone = {title_id for title_id, *_ in plan.gone}
    stored = gone.union(one.title_id for one in plan.changed if one.title_id is not None)
    before = claimed_urls(session, plan.source, stored, collections)
    store_collections(session, plan.source, plan.collections)
    store_lists(session, plan.source, plan.lists)
    changed = _store(session, plan.source, (*plan.new, *plan.changed))
    session.execute(
        update(Title).where(Title.title_id == any_id(gone)).values(gone=True, imported=func.now())
    )
    after = claimed_urls(session, plan.source, changed | gone, collections)
    return (changed | gone, *assign_ranges(session, rules, before ^ after))


def _store(session: Session, source: str, differences: Sequence[Difference]) -> set[int]:
    """Write titles with their seeds, in a few statements for any number; returns their ids."""
    new = [one for one in differences if one.title_id is None]
    ids = {one.entry.key: one.title_id for one in differences if one.title_id is not None}
    if new:
        # Not from a sequence, from which plans that are rolled back would take numbers, too. Imports run one
        # at a time, and titles are never deleted.
        last = session.scalar(select(func.coalesce(func.max(Title.title_id), 0))) or 0
        ids |= {one.entry.key: last + number for number, one in enumerate(new, start=1)}
        rows = [
            {
                **_columns(one),
                "title_id": ids[one.entry.key],
                "key": title_key(source, one.entry.key),
                "source": source,
                "source_key": one.entry.key,
                "datestamp": UNLISTED,
            }
            for one in new
        ]
        session.execute(insert(Title), rows)
    changed = [one for one in differences if one.title_id is not None]
    if changed:
        # With the primary key in each row, the ORM writes them in batches.
        session.execute(update(Title), [{"title_id": one.title_id, **_columns(one)} for one in changed])
    reseeded = [one for one in differences if one.title_id is None or "seeds" in one.fields]
    _store_seeds(session, {ids[one.entry.key]: one.entry for one in reseeded})
    return set(ids.values())


def _columns(difference: Difference) -> dict[str, Any]:
    values = _values(difference.entry)
    return {**values, "licence": difference.licence, "gone": False, "imported": utc_now()}


def _store_seeds(session: Session, entries: Mapping[int, TitleEntry]) -> None:
    session.execute(delete(TitleSeed).where(TitleSeed.title_id == any_id(entries)))
    rows = [
        {"title_id": title_id, "position": position, **seed.model_dump()}
        for title_id, entry in entries.items()
        for position, seed in enumerate(entry.seeds)
    ]
    if rows:
        session.execute(insert(TitleSeed), rows)


def title_key(source: str, source_key: str) -> uuid.UUID:
    """Return the key of a title: the first 128 bits of the SHA-256 of source, a line break, and its key."""
    return uuid.UUID(bytes=hashlib.sha256(f"{source}\n{source_key}".encode()).digest()[:_KEY_BYTES])
