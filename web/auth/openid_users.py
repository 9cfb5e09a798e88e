"""The users behind accounts of the OpenID provider. The caller commits.

An account is known by issuer and subject alone: names and mail addresses change, and at some providers users
choose them.
"""

from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from oai.audit import Subject
from oai.datestamps import utc_now
from oai.errors import UsageError, required
from oai.owners import Organisation
from oai.rights import Role
from oai.sections import OpenIdSettings
from web.auth.openid import Identity
from web.auth.sign_in import Known
from web.auth.users import LastAdministratorError, add_user, change_role, disable_user, find_user
from web.models import User, UserIdentity
from web.site.i18n import _


class NoRoleError(UsageError):
    """The user's groups at the provider give no role here, or one that cannot be given."""


def apply_groups(session: Session, settings: OpenIdSettings, identity: Identity) -> Subject | None:
    """Give the account's user the role of the groups that the provider sends now; return what changed.

    Raises UsageError in words for the user: NoRoleError, or for the last administrator.
    """
    user, place = find_identity(session, identity), _place(session, settings, identity)
    if user is None or place is None or (Role(user.role), user.organisation_id) == place:
        return None
    before = _rights(user)
    try:
        change_role(session, user.user_id, place[0], organisation_id=place[1])
    except LastAdministratorError:
        raise LastAdministratorError(
            _(
                "%(name)s is the last administrator, but the groups at %(provider)s give another role. On "
                "the server, run: zatva user add NAME --role administrator"
            )
            % {"name": repr(user.name), "provider": settings.name}
        ) from None
    return _changed("user.role", user, before=before, **_rights(user))


def add_unknown(session: Session, settings: OpenIdSettings, identity: Identity) -> Subject | None:
    """Add the user of an unknown account as the settings say; return what changed, None if it is known.

    Raises UsageError, in words for the user, if that is not possible.
    """
    if find_identity(session, identity) is not None:
        return None
    if not settings.create_users:
        raise UsageError(
            _(
                "Your %(provider)s account is not connected to a user here. Sign in with a password or a "
                "one-time link, and connect it on the page of your account; or ask an administrator."
            )
            % {"provider": settings.name}
        )
    name = _new_name(session, settings, identity)
    role, organisation_id = _place(session, settings, identity) or (Role.VIEWER, None)
    user = add_user(session, name, role, organisation_id=organisation_id)
    session.add(UserIdentity(issuer=identity.issuer, subject=identity.subject, user_id=user.user_id))
    session.flush()
    account = f"{identity.issuer} {identity.subject}"
    return _changed("user.add", user, openid=account, **_rights(user))


def _new_name(session: Session, settings: OpenIdSettings, identity: Identity) -> str:
    """Return the name of a new user. Raises UsageError, in words for the user, if it cannot be given."""
    name = identity.name.strip()
    if not name:
        raise UsageError(
            _("%(provider)s sent no user name (%(claim)s). Ask an administrator.")
            % {"provider": settings.name, "claim": settings.user_claim}
        )
    if not identity.is_verified:
        raise UsageError(
            _("%(provider)s has not verified your e-mail address. Verify it there, and sign in again.")
            % {"provider": settings.name}
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
    return name


def user_of(session: Session, settings: OpenIdSettings, identity: Identity) -> Known:
    """Return the user who signs in. Raises UsageError, in words for the user, for a disabled one."""
    user = required(find_identity(session, identity), "unknown users were added or refused")
    if user.disabled is not None:
        raise UsageError(_("Your account %(name)s is disabled. Ask an administrator.") % {"name": user.name})
    session.execute(update(UserIdentity).where(_same(identity)).values(last_used=func.now()))
    asks = user.totp_since is not None and settings.second_factor == "ours"
    return Known(
        user_id=user.user_id, name=user.name, password_hash=user.password_hash, has_second_factor=asks
    )


def find_identity(session: Session, identity: Identity) -> User | None:
    """Return the user to whom the account is connected, if any."""
    joined = select(User).join(UserIdentity, UserIdentity.user_id == User.user_id)
    return session.scalars(joined.where(_same(identity))).one_or_none()


def disable_owner(session: Session, identity: Identity) -> Subject | None:
    """Disable the user to whom the account is connected; return what changed, None if nothing did.

    If the provider sent no groups at all, it may be set up wrongly, and the user stays. Raises UsageError for
    the last administrator.
    """
    user = find_identity(session, identity) if identity.has_groups else None
    if user is None or user.disabled is not None:
        return None
    disable_user(session, user.user_id)
    return _changed("user.disable", user, disabled=utc_now().isoformat(), groups=list(identity.groups))


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


def _changed(
    action: str,
    user: User,
    *,
    before: dict[str, Any] | None = None,
    **after: Any,  # noqa: ANN401 any JSON value
) -> Subject:
    number = str(user.user_id)
    return Subject(kind="user", number=number, name=user.name, details=after, before=before, action=action)


def _rights(user: User) -> dict[str, Any]:
    return {"role": user.role, "organisation_id": user.organisation_id}


def _same(identity: Identity) -> Any:  # noqa: ANN401 an SQL expression
    return (UserIdentity.issuer == identity.issuer) & (UserIdentity.subject == identity.subject)


def _place(session: Session, settings: OpenIdSettings, identity: Identity) -> tuple[Role, int | None] | None:
    """Return the strongest mapped role that can be given, and its organisation.

    None if administrators set them. Raises NoRoleError if there is no such role.
    """
    if not settings.roles:
        return None
    if not identity.has_groups:
        raise NoRoleError(
            _("%(provider)s sent no groups (%(claim)s). Ask an administrator.")
            % {"provider": settings.name, "claim": settings.groups_claim}
        )
    found = settings.roles_of(identity.groups)
    if not found:
        raise NoRoleError(
            _("None of your groups at %(provider)s has a role here. Ask an administrator.")
            % {"provider": settings.name}
        )
    for role, short_name in found:
        organisation_id = session.scalar(
            select(Organisation.organisation_id).where(Organisation.short_name == short_name)
        )
        if short_name is None or organisation_id is not None:
            return role, organisation_id
    raise NoRoleError(
        _("Your organisation %(name)s does not exist here yet. Ask an administrator to add it.")
        % {"name": found[0][1]}
    )
