"""Whose filtering sets are: an organisation's short name stands before those of its own, as in `mzk/maps`.

Sets without one are the administrators', who see and change all; everybody sees those, too, and may let a
source use them. The callers of what writes commit.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.filtering_sets import NamedSet, list_sets, set_by_id
from harvester.bibliographic.models import FilteringSet
from oai.errors import UsageError
from oai.owners import Organisation
from oai.rights import Right
from web.sessions import SignedIn
from web.words import _

_MARK: Final = "/"
_NOBODYS: Final = " / "
"""In the place of the mark once the organisation is gone: another one of its name does not inherit."""


def sets_seen(session: Session, who: SignedIn) -> list[NamedSet]:
    """The sets that somebody sees, by name: all but those of other organisations."""
    found = list_sets(session)
    if who.sees_everything:
        return found
    others = set(session.scalars(select(Organisation.short_name))) - {who.organisation}
    return [one for one in found if _owner_in(one.name) not in others]


def set_seen(session: Session, who: SignedIn, set_id: int) -> NamedSet | None:
    """The set of that number where there is one that somebody sees."""
    if session.get(FilteringSet, set_id) is None:
        return None
    found = set_by_id(session, set_id)
    return found if found in sets_seen(session, who) else None


def may_change(who: SignedIn, found: NamedSet) -> bool:
    """Whether somebody may change the set and remove it."""
    if Right.HARVEST not in who.rights:
        return False
    return who.sees_everything or (who.organisation is not None and _owner_in(found.name) == who.organisation)


def name_for(who: SignedIn, name: str) -> str:
    """The whole name of a new set of theirs. Raises UsageError for who belongs to no organisation."""
    if who.sees_everything:
        return name
    if who.organisation is None:
        raise UsageError(_("You do not belong to an organisation. Ask an administrator."))
    mine = f"{who.organisation}{_MARK}"
    return name if name.startswith(mine) else mine + name


def follow_organisation(session: Session, before: str, after: str | None) -> None:
    """Let the sets of an organisation follow its new short name, or be the administrators' where it goes."""
    for row in session.scalars(
        select(FilteringSet).where(FilteringSet.name.startswith(f"{before}{_MARK}", autoescape=True))
    ):
        rest = row.name.removeprefix(f"{before}{_MARK}")
        row.name = f"{before}{_NOBODYS}{rest}" if after is None else f"{after}{_MARK}{rest}"
    session.flush()


def choices_for(session: Session, who: SignedIn, present: int | None) -> Sequence[NamedSet]:
    """The sets that somebody may let a source use: those seen, and the one that it uses now."""
    seen = sets_seen(session, who)
    if present is None or any(one.set_id == present for one in seen):
        return seen
    return [*seen, set_by_id(session, present)]


def _owner_in(name: str) -> str | None:
    owner, mark, _rest = name.partition(_MARK)
    return owner if mark else None
