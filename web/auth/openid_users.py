"""The users behind accounts of the OpenID provider. The caller commits.

An account is known by issuer and subject alone: names and mail addresses change, and at some providers users
choose them.
"""

from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.owners import Organisation
from oai.rights import Role
from oai.sections import OpenIdSettings
from web.auth.openid import Identity
from web.auth.sign_in import Known
from web.auth.users import add_user, change_role, disable_user, find_user
from web.models import User, UserIdentity
from web.site.i18n import _


class NoRoleError(UsageError):
    """None of the user's groups at the provider has a role here."""


def user_of(session: Session, settings: OpenIdSettings, identity: Identity) -> tuple[Known, dict[str, Any]]:
    """Return the user who signs in, and what was changed, for the audit log.

    Adds the user and applies the mapped role as the settings say. Raises UsageError, in words for the user,
    if the account belongs to no user, or the user is disabled; NoRoleError if no role is mapped.
    """
    user, changed = find_identity(session, identity), dict[str, Any]()
    place = _place(session, settings, identity)
    if user is None:
        user = _added(session, settings, identity, place)
        changed["added"] = user.name
    if user.disabled is not None:
        raise UsageError(_("Your user %(name)s is disabled. Ask an administrator.") % {"name": user.name})
    if place is not None and (Role(user.role), user.organisation_id) != place:
        changed["role"] = f"{user.role} → {place[0]}"
        change_role(session, user.user_id, place[0], organisation_id=place[1])
    session.execute(update(UserIdentity).where(_same(identity)).values(last_used=func.now()))
    asks = user.totp_since is not None and settings.second_factor == "ours"
    known = Known(
        user_id=user.user_id, name=user.name, password_hash=user.password_hash, has_second_factor=asks
    )
    return known, changed


def find_identity(session: Session, identity: Identity) -> User | None:
    """Return the user to whom the account is connected, if any."""
    joined = select(User).join(UserIdentity, UserIdentity.user_id == User.user_id)
    return session.scalars(joined.where(_same(identity))).one_or_none()


def disable_owner(session: Session, identity: Identity) -> User | None:
    """Disable the user to whom the account is connected, and return it; None if there is nothing to disable.

    If the provider sent no groups at all, it may be set up wrongly, and the user stays. Raises UsageError for
    the last administrator.
    """
    user = find_identity(session, identity) if identity.has_groups else None
    if user is None or user.disabled is not None:
        return None
    return disable_user(session, user.user_id)


def connect(session: Session, identity: Identity, user_id: int) -> None:
    """Connect the account to the user. Raises UsageError if it is connected to another one."""
    owner = find_identity(session, identity)
    if owner is not None and owner.user_id != user_id:
        raise UsageError(_("This account is connected to another user. Nothing was changed."))
    if owner is None:
        session.add(UserIdentity(issuer=identity.issuer, subject=identity.subject, user_id=user_id))
        session.flush()


def disconnect(session: Session, user_id: int) -> None:
    """Remove the user's connections to accounts of providers.

    Raises UsageError for a user without a password, who could not sign in any more.
    """
    if session.get_one(User, user_id).password_hash is None:
        raise UsageError(_("Set a password first: without it, you could not sign in any more."))
    session.execute(delete(UserIdentity).where(UserIdentity.user_id == user_id))


def is_connected(session: Session, user_id: int, issuer: str) -> bool:
    """Return whether the user has an account at the provider."""
    found = select(UserIdentity.user_id).where(UserIdentity.user_id == user_id, UserIdentity.issuer == issuer)
    return session.scalars(found.limit(1)).first() is not None


def _same(identity: Identity) -> Any:  # noqa: ANN401 an SQL expression
    return (UserIdentity.issuer == identity.issuer) & (UserIdentity.subject == identity.subject)


def _place(session: Session, settings: OpenIdSettings, identity: Identity) -> tuple[Role, int | None] | None:
    """Return the mapped role and organisation; None if administrators set them."""
    if not settings.roles:
        return None
    found = settings.role_of(identity.groups)
    if found is None:
        raise NoRoleError(
            _("None of your groups at %(provider)s has a role here. Ask an administrator.")
            % {"provider": settings.name}
        )
    role, short_name = found
    if short_name is None:
        return role, None
    organisation_id = session.scalar(
        select(Organisation.organisation_id).where(Organisation.short_name == short_name)
    )
    if organisation_id is None:
        raise UsageError(
            _("Your organisation %(name)s does not exist here yet. Ask an administrator to add it.")
            % {"name": short_name}
        )
    return role, organisation_id


def _added(
    session: Session, settings: OpenIdSettings, identity: Identity, place: tuple[Role, int | None] | None
) -> User:
    if not settings.create_users:
        raise UsageError(
            _(
                "Your %(provider)s account is not connected to a user here. Sign in with a password or a "
                "one-time link, and connect it on the page of your account; or ask an administrator."
            )
            % {"provider": settings.name}
        )
    name = identity.name.strip()
    if not name:
        raise UsageError(
            _("%(provider)s sent no user name (%(claim)s). Ask an administrator.")
            % {"provider": settings.name, "claim": settings.user_claim}
        )
    # A name proves nothing: whoever can choose theirs at the provider would become that user. Names that are
    # not printable are left to `add_user`, which refuses them; the database cannot look for some of them.
    if name.isprintable() and find_user(session, name) is not None:
        raise UsageError(
            _(
                "There is a user %(name)s already. If it is you, sign in with a password or a one-time link, "
                "and connect your %(provider)s account on the page of your account."
            )
            % {"name": name, "provider": settings.name}
        )
    role, organisation_id = place or (Role.VIEWER, None)
    user = add_user(session, name, role, organisation_id=organisation_id)
    session.add(UserIdentity(issuer=identity.issuer, subject=identity.subject, user_id=user.user_id))
    session.flush()
    return user
