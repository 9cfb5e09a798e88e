"""Roles, the rights of each, and the scopes that limit an API token."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """The role of a user; `RIGHTS` maps it to rights."""

    VIEWER = "viewer"
    PARTNER = "partner"
    """Harvests for its own organisation, and sees nothing of others."""
    CURATOR = "curator"
    """Maintains the archive: collections, access rules, hidden documents."""
    ADMINISTRATOR = "administrator"


class Right(StrEnum):
    """The right that a route requires of its caller."""

    ANYBODY = "anybody"
    """Everyone, including visitors who are not signed in."""
    ACCOUNT = "account"
    """The user's own account: every signed-in user, but no API token."""
    LOOK = "look"
    """View repositories, schedules, jobs and runs, as far as they are visible to the user."""
    LOOK_AROUND = "look around"
    """View what belongs to no organisation: the archive, its harvesters, the system's health."""
    HARVEST = "harvest"
    """Add and change repositories, schedules, jobs and runs, as far as they are visible to the user."""
    ARCHIVE = "archive"
    """Change the archive's collections, access rules and documents."""
    ADMINISTER = "administer"
    """Users, organisations, all users' tokens, the audit log, workers."""


class Scope(StrEnum):
    """What an API token may be used for; its user's role limits it further."""

    READ = "read"
    HARVEST = "harvest"
    ARCHIVE = "archive"
    ADMIN = "admin"


_PERSON: Final = frozenset({Right.ANYBODY, Right.ACCOUNT, Right.LOOK})

RIGHTS: Final[Mapping[Role, frozenset[Right]]] = {
    Role.VIEWER: _PERSON,
    Role.PARTNER: _PERSON | {Right.HARVEST},
    Role.CURATOR: _PERSON | {Right.LOOK_AROUND, Right.ARCHIVE},
    Role.ADMINISTRATOR: frozenset(Right),
}

SCOPED: Final[Mapping[Scope, frozenset[Right]]] = {
    Scope.READ: frozenset({Right.ANYBODY, Right.LOOK, Right.LOOK_AROUND}),
    Scope.HARVEST: frozenset({Right.ANYBODY, Right.HARVEST}),
    Scope.ARCHIVE: frozenset({Right.ANYBODY, Right.ARCHIVE}),
    Scope.ADMIN: frozenset({Right.ANYBODY, Right.ADMINISTER}),
}


def rights_of(
    role: Role, *, organisation_id: int | None, scopes: frozenset[Scope] | None
) -> frozenset[Right]:
    """Return a user's rights by role and organisation, through a token with `scopes` or (None) signed in.

    A viewer without an organisation is on the institution's staff and sees everything.
    """
    rights = RIGHTS[role]
    if role is Role.VIEWER and organisation_id is None:
        rights |= {Right.LOOK_AROUND}
    if scopes is None:
        return rights
    return rights & frozenset(right for scope in scopes for right in SCOPED[scope])


def sees_everything(role: Role, organisation_id: int | None) -> bool:
    """Return whether a user with this role sees every repository, or only those of the organisation.

    A partner without an organisation sees none.
    """
    return role is Role.ADMINISTRATOR or (organisation_id is None and role is not Role.PARTNER)


def scopes_for(role: Role) -> list[Scope]:
    """Return the scopes that are useful for a user with this role."""
    more = RIGHTS[role] - _PERSON
    return [Scope.READ, *(scope for scope in Scope if scope is not Scope.READ and SCOPED[scope] & more)]
