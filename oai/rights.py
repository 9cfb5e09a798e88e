"""Roles, the rights that each gives, and the scopes that an API token can be limited to."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Role(StrEnum):
    """What a user is; `RIGHTS` says what follows from it."""

    VIEWER = "viewer"
    PARTNER = "partner"
    """Harvests for its own organisation, and sees nothing of others."""
    CURATOR = "curator"
    """Keeps the archive: collections, access rules, hidden documents."""
    ADMINISTRATOR = "administrator"


class Right(StrEnum):
    """What a route asks of whoever calls it."""

    ANYBODY = "anybody"
    """Strangers, too."""
    ACCOUNT = "account"
    """One's own account: every person who is signed in, but no API token."""
    LOOK = "look"
    """To look at repositories, schedules, jobs and runs, as far as one sees them."""
    LOOK_AROUND = "look around"
    """To look at what belongs to no organisation: the archive, who harvests it, the parts' health."""
    HARVEST = "harvest"
    """To add and change repositories, schedules, jobs and runs, as far as one sees them."""
    ARCHIVE = "archive"
    """To change the archive's collections, access rules and documents."""
    ADMINISTER = "administer"
    """Users, organisations, everybody's tokens, the audit log, workers."""


class Scope(StrEnum):
    """What an API token may be used for; its user's role limits it further."""

    READ = "read"
    HARVEST = "harvest"
    ARCHIVE = "archive"
    ADMIN = "admin"


_PERSON: Final = frozenset({Right.ANYBODY, Right.ACCOUNT, Right.LOOK})

RIGHTS: Final[Mapping[Role, frozenset[Right]]] = MappingProxyType(
    {
        Role.VIEWER: _PERSON,
        Role.PARTNER: _PERSON | {Right.HARVEST},
        Role.CURATOR: _PERSON | {Right.LOOK_AROUND, Right.ARCHIVE},
        Role.ADMINISTRATOR: frozenset(Right),
    }
)

SCOPED: Final[Mapping[Scope, frozenset[Right]]] = MappingProxyType(
    {
        Scope.READ: frozenset({Right.ANYBODY, Right.LOOK, Right.LOOK_AROUND}),
        Scope.HARVEST: frozenset({Right.ANYBODY, Right.HARVEST}),
        Scope.ARCHIVE: frozenset({Right.ANYBODY, Right.ARCHIVE}),
        Scope.ADMIN: frozenset({Right.ANYBODY, Right.ADMINISTER}),
    }
)


def rights_of(
    role: Role, *, organisation_id: int | None, scopes: frozenset[Scope] | None
) -> frozenset[Right]:
    """The rights of a user of that role and organisation, by a token with these scopes or (None) in person.

    A viewer without an organisation belongs to the house and looks at everything.
    """
    rights = RIGHTS[role]
    if role is Role.VIEWER and organisation_id is None:
        rights |= {Right.LOOK_AROUND}
    if scopes is None:
        return rights
    return rights & frozenset(right for scope in scopes for right in SCOPED[scope])


def sees_everything(role: Role, organisation_id: int | None) -> bool:
    """Whether somebody of that role sees every repository, or only those of the organisation.

    A partner without an organisation sees none.
    """
    return role is Role.ADMINISTRATOR or (organisation_id is None and role is not Role.PARTNER)


def scopes_for(role: Role) -> list[Scope]:
    """The scopes that make sense for a user of that role."""
    more = RIGHTS[role] - _PERSON
    return [Scope.READ, *(scope for scope in Scope if scope is not Scope.READ and SCOPED[scope] & more)]
