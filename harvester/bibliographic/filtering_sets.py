"""Filtering sets in their tables: add, change, remove, and read for an import. The caller commits."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from harvester.bibliographic.conditions import Condition, Conditions, Match, Operator
from harvester.bibliographic.models import FilteringCondition, FilteringSet, ImportSource
from oai.errors import UsageError
from oai.folding import folded_column
from oai.models import from_row


@dataclass(frozen=True, kw_only=True)
class NamedSet:
    """A filtering set."""

    set_id: int
    name: str
    description: str
    revision: int
    rules: Conditions
    used_by: tuple[int, ...]
    """Ids of the repositories whose imports use it."""


def list_sets(session: Session) -> list[NamedSet]:
    """Return all filtering sets, ordered by name."""
    ordered = select(FilteringSet).order_by(folded_column(FilteringSet.name), FilteringSet.name)
    return [_named(session, row) for row in session.scalars(ordered)]


def get_set(session: Session, name: str) -> NamedSet:
    """Return the set with that name. Raises UsageError if there is none."""
    return _named(session, _row(session, name))


def set_by_id(session: Session, set_id: int) -> NamedSet:
    """Return the set with that id, to which a source refers."""
    return _named(session, session.get_one(FilteringSet, set_id))


def add_set(
    session: Session, *, name: str, match: Match, conditions: Sequence[Condition], description: str = ""
) -> NamedSet:
    """Add a set. Raises UsageError if the name is in use or empty, or if there are no conditions."""
    if not name.strip():
        raise UsageError("a filtering set needs a name")
    if session.scalars(select(FilteringSet).where(FilteringSet.name == name)).first() is not None:
        raise UsageError("filtering set %(name)s already exists; give another name", name=repr(name))
    row = FilteringSet(name=name, match=match.value, description=description)
    session.add(row)
    session.flush()
    _write_conditions(session, row.set_id, conditions)
    return _named(session, row)


def edit_set(
    session: Session,
    name: str,
    *,
    match: Match | None = None,
    conditions: Sequence[Condition] | None = None,
    description: str | None = None,
) -> NamedSet:
    """Change the given columns. If the selection changes, imports process all records again."""
    row = _row(session, name)
    if description is not None:
        row.description = description
    before = _named(session, row).rules
    rules = Conditions(
        match=match or before.match, conditions=before.conditions if conditions is None else conditions
    )
    if rules != before:
        row.match = rules.match.value
        row.revision += 1
        row.changed = func.now()
        _write_conditions(session, row.set_id, rules.conditions)
    session.flush()
    return _named(session, row)


def remove_set(session: Session, name: str) -> None:
    """Remove a set. Raises UsageError if a repository's import uses it."""
    found = get_set(session, name)
    if found.used_by:
        numbers = ", ".join(map(str, found.used_by))
        raise UsageError(
            "filtering set %(name)s is used by the imports of repositories %(numbers)s; choose another "
            "set for them first (`zatva import source ID --set NAME`, or `--set none`)",
            name=repr(name),
            numbers=numbers,
        )
    session.delete(_row(session, name))
    session.flush()


def _row(session: Session, name: str) -> FilteringSet:
    row = session.scalars(select(FilteringSet).where(FilteringSet.name == name)).first()
    if row is None:
        raise UsageError(f"no filtering set {name!r}; list sets with `zatva import set list`")
    return row


def _write_conditions(session: Session, set_id: int, conditions: Sequence[Condition]) -> None:
    if not conditions:
        raise UsageError("a filtering set needs a condition; give one with --where")
    session.execute(delete(FilteringCondition).where(FilteringCondition.set_id == set_id))
    session.add_all(
        FilteringCondition(
            set_id=set_id,
            position=position,
            field=one.field,
            first_character=one.first_character,
            last_character=one.last_character,
            indicators=one.indicators,
            subfield=one.subfield,
            operator=one.operator.value,
            value=one.value,
            inverted=one.inverted,
        )
        for position, one in enumerate(conditions)
    )
    session.flush()


def _named(session: Session, row: FilteringSet) -> NamedSet:
    conditions = session.scalars(
        select(FilteringCondition)
        .where(FilteringCondition.set_id == row.set_id)
        .order_by(FilteringCondition.position)
        .execution_options(populate_existing=True)
    )
    used_by = session.scalars(
        select(ImportSource.repository_id)
        .where(ImportSource.set_id == row.set_id)
        .order_by(ImportSource.repository_id)
    )
    rules = [from_row(Condition, one, operator=Operator(one.operator)) for one in conditions]
    return NamedSet(
        set_id=row.set_id,
        name=row.name,
        description=row.description or "",
        revision=row.revision,
        rules=Conditions(match=Match(row.match), conditions=rules),
        used_by=tuple(used_by),
    )
