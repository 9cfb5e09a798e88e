"""Users: added, given roles and organisations, disabled. The caller commits."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.owners import Organisation
from web.models import Role, User
from web.sessions import end_sessions
from web.words import _
from web.zones import known_zone

_LONGEST_NAME: Final = 100


def add_user(
    session: Session, name: str, role: Role = Role.VIEWER, *, organisation_id: int | None = None
) -> User:
    """Add a user.

    Raises UsageError for a name that is empty, too long or taken, for an organisation that is not there, and
    for a partner without one.
    """
    name = name.strip()
    if not name:
        raise UsageError(_("the user name is empty; enter one"))
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(
            _("a user name must have at most %(most)s characters, all printable") % {"most": _LONGEST_NAME}
        )
    if find_user(session, name):
        raise UsageError(_("user %(name)s already exists; choose another name") % {"name": repr(name)})
    _check_organisation(session, role, organisation_id)
    user = User(name=name, role=role, organisation_id=organisation_id)
    session.add(user)
    session.flush()
    return user


def find_user(session: Session, name: str) -> User | None:
    """The user of that name, if there is one."""
    return session.scalars(select(User).where(User.name == name)).one_or_none()


def get_user(session: Session, name: str) -> User:
    """The user of that name. Raises UsageError where there is none."""
    user = find_user(session, name)
    if user is None:
        raise UsageError(f"there is no user {name!r}; add one with `zatva user add`, see `zatva user list`")
    return user


def change_role(session: Session, user_id: int, role: Role, *, organisation_id: int | None = None) -> User:
    """Give the user another role, or another organisation, or both.

    Raises UsageError as `add_user` does, and where no administrator would be left.
    """
    user = _user(session, user_id)
    _check_organisation(session, role, organisation_id)
    if role is not Role.ADMINISTRATOR:
        _check_not_the_last_administrator(session, user)
    user.role, user.organisation_id = role, organisation_id
    session.flush()
    return user


def disable_user(session: Session, user_id: int) -> User:
    """Let the user sign in no more; sessions end, and API tokens are not taken any more.

    Raises UsageError where no administrator would be left.
    """
    user = _user(session, user_id)
    _check_not_the_last_administrator(session, user)
    if user.disabled is None:
        user.disabled = utc_now()
    end_sessions(session, user.user_id)
    session.flush()
    return user


def enable_user(session: Session, user_id: int) -> User:
    """Let the user sign in again."""
    user = _user(session, user_id)
    user.disabled = None
    session.flush()
    return user


def set_password(session: Session, user_id: int, password_hash: str, *, keep: str | None = None) -> None:
    """Keep the hash of a new password, and end the user's sessions but that of the cookie `keep`."""
    _user(session, user_id).password_hash = password_hash
    end_sessions(session, user_id, keep=keep)


def set_language(session: Session, user_id: int, language: str | None) -> None:
    """Note the language that the user wants; None: the browser's."""
    _user(session, user_id).language = language


def set_time_zone(session: Session, user_id: int, time_zone: str | None) -> None:
    """Note the time zone that the user wants to see times in; None: the installation's.

    Raises UsageError for one that there is not.
    """
    _user(session, user_id).time_zone = known_zone(session, time_zone) if time_zone else None


def _user(session: Session, user_id: int) -> User:
    user = session.get(User, user_id, with_for_update=True)
    if user is None:
        raise UsageError(f"there is no user {user_id}; see `zatva user list`")
    return user


def _check_organisation(session: Session, role: Role, organisation_id: int | None) -> None:
    if organisation_id is None:
        if role is Role.PARTNER:
            raise UsageError(_("a partner must belong to an organisation; choose one"))
    elif session.get(Organisation, organisation_id) is None:
        raise UsageError(_("organisation %(number)s does not exist") % {"number": organisation_id})


def _check_not_the_last_administrator(session: Session, user: User) -> None:
    if user.role != Role.ADMINISTRATOR or user.disabled is not None:
        return
    # Two that are taken away at the same moment wait for one another here.
    administrators = select(User.user_id).where(User.role == Role.ADMINISTRATOR, User.disabled.is_(None))
    if list(session.scalars(administrators.order_by(User.user_id).with_for_update())) == [user.user_id]:
        raise UsageError(
            _("%(name)s is the last administrator; make another user an administrator first")
            % {"name": repr(user.name)}
        )
