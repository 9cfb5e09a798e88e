"""Owners of filtering sets, by the names of the sets: who sees and changes which ones. The caller commits.

The name begins with the owner and a slash: `mzk/maps` is a set of the organisation mzk, and `/maps` belongs
to the administrators alone. A set without a slash, or whose owner is no organisation, is shared.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.conditions import Conditions
from harvester.bibliographic.filtering_sets import (
    NamedSet,
    edit_set,
    get_set,
    list_sets,
    remove_set,
    set_by_id,
)
from harvester.bibliographic.models import FilteringSet
from oai.errors import UsageError
from oai.owners import Organisation, RepositoryOwner
from oai.rights import Right
from web.auth.access import visible_repositories
from web.auth.sessions import SignedIn
from web.site.i18n import _

_MARK: Final = "/"
_ADMINISTRATORS: Final = ""
"""Owner of the sets that only administrators see, besides users whose sources use them."""


def sets_seen(session: Session, who: SignedIn) -> list[NamedSet]:
    """Return the named sets that the user may see, by name, each with those of its users that they see.

    These are their own and the shared ones, and those of the administrators that their sources use.
    """
    found, visible = list_sets(session), visible_repositories(who)
    if visible is None:
        return found
    own = set(session.scalars(visible))
    others = set(session.scalars(select(Organisation.short_name))) - {who.organisation}
    limited = [replace(one, used_by=tuple(filter(own.__contains__, one.used_by))) for one in found]
    return [
        one
        for one in limited
        if (owner := _owner_in(one.name)) not in others and (owner != _ADMINISTRATORS or one.used_by)
    ]


def set_seen(session: Session, who: SignedIn, set_id: int) -> NamedSet | None:
    """Return the named set with that id if it exists and the user may see it, as `sets_seen`."""
    return next((one for one in sets_seen(session, who) if one.set_id == set_id), None)


def remove_seen_set(session: Session, found: NamedSet) -> None:
    """Remove a set from `set_seen`. Raises UsageError if a source uses it; unseen ones are not named."""
    if _unseen_users(session, found):
        raise _in_use()
    remove_set(session, found.name)


def change_seen_set(session: Session, found: NamedSet, rules: Conditions, description: str) -> NamedSet:
    """Change a set from `set_seen`, as `edit_set`.

    Raises UsageError if an unseen source of another organisation uses it: a repository keeps its set when it
    is assigned to another organisation, and its records must not change without this one. Administrators who
    choose an organisation's set for a repository of theirs want it as the organisation maintains it.
    """
    unseen = _unseen_users(session, found)
    if session.scalars(select(RepositoryOwner).where(RepositoryOwner.repository_id.in_(unseen))).first():
        raise _in_use()
    return edit_set(
        session, found.name, match=rules.match, conditions=rules.conditions, description=description
    )


def _unseen_users(session: Session, found: NamedSet) -> set[int]:
    return set(get_set(session, found.name).used_by) - set(found.used_by)


def _in_use() -> UsageError:
    return UsageError(
        _(
            "a repository that does not belong to your organisation uses this set; ask an administrator "
            "to choose another set for it"
        )
    )


def may_change(who: SignedIn, found: NamedSet) -> bool:
    """Return whether the user may change and remove the named set."""
    if Right.HARVEST not in who.rights:
        return False
    return who.sees_everything or (who.organisation is not None and _owner_in(found.name) == who.organisation)


def name_for(who: SignedIn, name: str) -> str:
    """Return the full name of a new named set. Raises UsageError for a user without organisation."""
    if who.sees_everything:
        return name
    if who.organisation is None:
        raise UsageError(_("You do not belong to an organisation. Ask an administrator."))
    mine = f"{who.organisation}{_MARK}"
    return name if name.startswith(mine) else mine + name


def follow_organisation(session: Session, before: str, after: str | None) -> None:
    """Rename an organisation's named sets after its new short name; None: assign them to administrators.

    The administrators' keep the old short name in theirs, behind the mark: a new organisation of that name
    does not inherit them. Raises UsageError if a new name is taken; the administrators' sets get a number
    instead, because those of a former organisation do not keep this one from being removed.
    """
    if after == before:
        return
    mine = f"{before}{_MARK}"
    taken = set(session.scalars(select(FilteringSet.name)))
    chosen = select(FilteringSet).where(FilteringSet.name.startswith(mine, autoescape=True))
    for row in session.scalars(chosen.order_by(FilteringSet.set_id)):
        rest = row.name.removeprefix(mine)
        name = f"{_ADMINISTRATORS}{_MARK}{row.name}" if after is None else f"{after}{_MARK}{rest}"
        if after is not None and name in taken:
            words = _(
                "the filtering set %(name)s already exists; remove it first, or choose another short name"
            )
            raise UsageError(words % {"name": repr(name)})
        numbered = (f"{name} ({number})" for number in count(2))
        row.name = next(one for one in chain([name], numbered) if one not in taken)
        taken.add(row.name)
    session.flush()


def choices_for(session: Session, who: SignedIn, present: int | None) -> Sequence[NamedSet]:
    """Return the named sets that a source may use: those the user sees, and the one that it uses now."""
    seen = sets_seen(session, who)
    if present is None or any(one.set_id == present for one in seen):
        return seen
    return [*seen, set_by_id(session, present)]


def _owner_in(name: str) -> str | None:
    owner, mark, _rest = name.partition(_MARK)
    return owner if mark else None
