"""Imports of titles: compares what a source contains with what is stored, and applies the differences.

An import is repeatable: run again, it changes nothing. A source that could not be read in full, or that is
empty, never means that titles are gone.
"""

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from provider.holdings.urlkeys import WwwRule
from provider.holdings.www_rule import hold_rule, www_rule
from provider.models import UNLISTED, Access
from provider.titles.access import IMPORTING, note_pending
from provider.titles.entries import Read, Refused, Remark, TitleEntry
from provider.titles.licences import licence_of
from provider.titles.models import SeedKind, Title, TitleSeed, TitleSegment
from provider.titles.publication import follow_sets, publish
from provider.titles.ranges import Claim, Conflict, KeyRange, RangeRules, divide, keys_in, ranges_of
from provider.titles.sets import sets_of

_FIELDS: Final = (
    "name", "alternative_names", "publisher", "annotation", "languages", "issn", "catalogue_number",
    "classification", "subjects", "keywords", "collections", "state", "public", "access", "contract_from",
    "contract_to",
)  # fmt: skip
_SEEDS: Final = {SeedKind.INCLUDE: "seed", SeedKind.CARVE_OUT: "carve-out"}
_ALWAYS: Final = 20
"""Titles that an import may change or remove without approval, however few there are."""
_KEY_BYTES: Final = 16


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A title that an import adds or changes."""

    entry: TitleEntry
    licence: str | None
    title_id: int | None
    """None for a new title."""
    fields: tuple[str, ...] = ()
    """Names of the changed fields; `seeds` if its URLs have changed."""


@dataclass(kw_only=True)
class ImportPlan:
    """What an import would do."""

    source: str
    new: list[Difference] = field(default_factory=list)
    changed: list[Difference] = field(default_factory=list)
    gone: list[tuple[int, str]] = field(default_factory=list)
    """Id and name of each title that the source no longer contains."""
    unchanged: int = 0
    refused: list[Refused] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    kept_because: str | None = None
    """Why titles that are missing from the source are kept."""
    stored: int = 0
    """Titles of the source that were stored and not gone before."""

    @property
    def weight(self) -> int:
        """The number of stored titles that it changes or removes."""
        return len(self.changed) + len(self.gone)

    def exceeds(self, percent: float) -> bool:
        """Return whether it changes or removes more than this share of the source's titles."""
        return self.weight > max(_ALWAYS, int(self.stored * percent / 100))

    def check(self, percent: float) -> None:
        """Raise UsageError if it changes or removes more than this share of the source's titles."""
        if self.exceeds(percent):
            raise UsageError(
                f"the import would change {len(self.changed)} and remove {len(self.gone)} of {self.stored} "
                f"titles, which is more than {percent:g} % (provider.title_change_percent). Look at what "
                "--dry-run lists, and repeat the import with --approve if that is what you want"
            )


def plan_import(session: Session, source: str, found: Iterable[Read], rules: RangeRules) -> ImportPlan:
    """Compare the entries with the stored titles of the source; nothing is changed.

    Waits for another import to end, and keeps others away until the transaction ends.
    """
    session.execute(select(func.pg_advisory_xact_lock(IMPORTING)))
    www = www_rule(session)
    plan = ImportPlan(source=source)
    stored = {title.source_key: title for title in session.scalars(_stored(source))}
    seeds = _seeds_of(session, source)
    plan.stored = sum(not title.gone for title in stored.values())
    seen: dict[str, str] = {}
    for one in found:
        if isinstance(one, Refused):
            plan.refused.append(one)
        elif isinstance(one, Remark):
            plan.warnings.append(f"{one.place}: {one.words}")
        elif one.key in seen:
            plan.refused.append(
                Refused(place=one.key, reason=f"its key was used before, by {seen[one.key]!r}")
            )
        else:
            seen[one.key] = one.name
            _compare(plan, one, stored.get(one.key), seeds, rules, www)
    missing = [title for key, title in stored.items() if key not in seen and not title.gone]
    plan.kept_because = _why_kept(plan, seen) if missing else None
    if plan.kept_because is None:
        plan.gone = [(title.title_id, title.name) for title in missing]
    return plan


def _why_kept(plan: ImportPlan, seen: Mapping[str, str]) -> str | None:
    if not seen:
        return "the source contains no title"
    unread = sum(not one.is_decision for one in plan.refused)
    return f"{unread} entries could not be read, and may be these titles" if unread else None


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
    if entry.licence and licence is None:
        plan.warnings.append(
            f"{entry.key}: {entry.licence[:100]!r} is not a licence that is known; it gets none"
        )
    for seed in entry.seeds:
        if not ranges_of(seed.url, rules, www):
            plan.warnings.append(
                f"{entry.key}: the {_SEEDS[seed.kind]} {seed.url[:200]!r} is no URL with a host; "
                "it means no captures"
            )
    key = licence.key if licence else None
    if title is None:
        plan.new.append(Difference(entry=entry, licence=key, title_id=None))
        return
    wanted = {**_values(entry), "licence": key, "gone": False}
    fields = [name for name, value in wanted.items() if getattr(title, name) != value]
    if seeds.get(title.title_id, []) != [seed.model_dump() for seed in entry.seeds]:
        fields.append("seeds")
    if fields:
        plan.changed.append(
            Difference(entry=entry, licence=key, title_id=title.title_id, fields=tuple(fields))
        )
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
    if not (plan.new or plan.changed or plan.gone):
        return []
    _store(session, plan.source, (*plan.new, *plan.changed))
    gone = [title_id for title_id, _ in plan.gone]
    session.execute(update(Title).where(Title.title_id.in_(gone)).values(gone=True, imported=func.now()))
    conflicts, affected = assign_ranges(session, rules)
    publish(session, affected, margin=margin)
    return conflicts


def _store(session: Session, source: str, differences: Sequence[Difference]) -> None:
    """Write titles with their seeds and sets, in a few statements for any number of them."""
    new = [one for one in differences if one.title_id is None]
    ids = {one.entry.key: one.title_id for one in differences if one.title_id is not None}
    if new:
        rows = [
            {
                **_columns(one),
                "key": title_key(source, one.entry.key),
                "source": source,
                "source_key": one.entry.key,
                "datestamp": UNLISTED,
            }
            for one in new
        ]
        added = session.execute(insert(Title).returning(Title.source_key, Title.title_id), rows)
        ids |= {row.source_key: row.title_id for row in added}
    changed = [one for one in differences if one.title_id is not None]
    if changed:
        # With the primary key in each row, the ORM writes them in batches.
        session.execute(update(Title), [{"title_id": one.title_id, **_columns(one)} for one in changed])
    reseeded = [one for one in differences if one.title_id is None or "seeds" in one.fields]
    _store_seeds(session, {ids[one.entry.key]: one.entry for one in reseeded})
    follow_sets(session, {ids[one.entry.key]: sets_of(one.entry, one.licence) for one in differences})


def _columns(difference: Difference) -> dict[str, Any]:
    values = _values(difference.entry)
    return {**values, "licence": difference.licence, "gone": False, "imported": utc_now()}


def _store_seeds(session: Session, entries: Mapping[int, TitleEntry]) -> None:
    session.execute(delete(TitleSeed).where(TitleSeed.title_id.in_(entries)))
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


def assign_ranges(session: Session, rules: RangeRules) -> tuple[Sequence[Conflict], set[int]]:
    """Divide the keys among all titles; returns the conflicts, and the titles whose segments have changed."""
    seeds = session.execute(
        select(TitleSeed.title_id, TitleSeed.url, TitleSeed.kind, Title.access, Title.gone)
        .join(Title, Title.title_id == TitleSeed.title_id)
        # What a title closed stays closed when the title is gone: no decision to open it has been made.
        .where(~Title.gone | ((Title.access != Access.OPEN) & (TitleSeed.kind == SeedKind.INCLUDE)))
    )
    www = hold_rule(session)
    claims = []
    access: dict[int, str | None] = {}
    for seed in seeds:
        access[seed.title_id] = seed.access
        carved = seed.kind == SeedKind.CARVE_OUT
        claims += [
            Claim(found, seed.title_id, carved, seed.gone) for found in ranges_of(seed.url, rules, www)
        ]
    segments, conflicts = divide(claims)
    wanted = {
        (
            *one.range,
            one.title_id,
            one.is_carve_out,
            rules.carve_out if one.is_carve_out else access[one.title_id],
        )
        for one in segments
    }
    return conflicts, _replace_segments(session, wanted)


_SEGMENT: Final = ("low", "high", "title_id", "is_carve_out", "access")
_Row = tuple[str, str, int, bool, str | None]
"""Low, high, title, whether it is carved out, and who may see its captures."""


def _replace_segments(session: Session, wanted: set[_Row]) -> set[int]:
    """Store the segments, and note the ranges whose documents then have another rule.

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
    note_pending(session, [row[:2] for row in removed | added if row[4] not in {None, Access.OPEN}])
    return {row[2] for row in removed | added}


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
