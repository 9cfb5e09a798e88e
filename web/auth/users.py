"""Users: add, change role and organisation, disable. The caller commits."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, func, literal, not_, or_, select, tuple_
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.folding import contains_folded, folded_column
from oai.models import from_row
from oai.owners import Organisation
from web.auth.sessions import end_sessions
from web.models import Role, SignInLink, User
from web.site.i18n import _
from web.site.zones import known_zone

LONGEST_NAME: Final = 100
_IS_ADMINISTRATOR: Final = and_(User.role == Role.ADMINISTRATOR, User.disabled.is_(None))
STATES: Final = ("active", "invited", "disabled")
_BY_NAME: Final = (folded_column(User.name), User.name)


class LastAdministratorError(UsageError):
    """The change would leave no administrator."""


def add_user(
    session: Session, name: str, role: Role = Role.VIEWER, *, organisation_id: int | None = None
) -> User:
    """Add a user.

    Raises UsageError for a name that is empty, too long or taken, for an unknown organisation, and for a
    partner without an organisation.
    """
    name = name.strip()
    if not name:
        raise UsageError(_("the user name is empty; enter one"))
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(
            _("a user name must have at most %(most)s characters, all printable") % {"most": LONGEST_NAME}
        )
    if find_user(session, name):
        raise UsageError(
            _("user %(name)s already exists; choose another name, or send this user a new invitation")
            % {"name": repr(name)}
        )
    _check_organisation(session, role, organisation_id)
    user = User(name=name, role=role, organisation_id=organisation_id)
    session.add(user)
    session.flush()
    return user


def find_user(session: Session, name: str) -> User | None:
    """Return the user with that name, if any."""
    return session.scalars(select(User).where(User.name == name)).one_or_none()


def get_user(session: Session, name: str) -> User:
    """Return the user with that name. Raises UsageError if there is none."""
    user = find_user(session, name)
    if user is None:
        raise UsageError(f"there is no user {name!r}; add one with `zatva user add`, see `zatva user list`")
    return user


def check_enabled(user: User) -> None:
    """Raise UsageError for a disabled user, whose new links and tokens would work unexpectedly later."""
    if user.disabled is not None:
        raise UsageError(_("user %(name)s is disabled; enable the user first") % {"name": repr(user.name)})


def change_role(session: Session, user_id: int, role: Role, *, organisation_id: int | None = None) -> User:
    """Change the user's role and organisation.

    Raises UsageError like `add_user`, and if no administrator would be left.
    """
    user = _user_with_administrators(session, user_id)
    _check_organisation(session, role, organisation_id)
    if role is not Role.ADMINISTRATOR:
        _check_not_the_last_administrator(session, user)
    user.role, user.organisation_id = role, organisation_id
    session.flush()
    return user


def disable_user(session: Session, user_id: int) -> User:
    """Disable the user: end all sessions and reject the user's API tokens.

    Raises UsageError if no administrator would be left.
    """
    user = _user_with_administrators(session, user_id)
    _check_not_the_last_administrator(session, user)
    if user.disabled is None:
        user.disabled = utc_now()
    session.execute(delete(SignInLink).where(SignInLink.user_id == user_id))
    end_sessions(session, user.user_id)
    session.flush()
    return user


def enable_user(session: Session, user_id: int) -> User:
    """Enable a disabled user."""
    user = locked_user(session, user_id)
    user.disabled = None
    session.flush()
    return user


def set_password(session: Session, user_id: int, password_hash: str, *, keep: str | None = None) -> None:
    """Store the hash of a new password; end what else lets the user in.

    That is all sign-in links, and the sessions except that of the cookie `keep`.
    """
    locked_user(session, user_id).password_hash = password_hash
    session.execute(delete(SignInLink).where(SignInLink.user_id == user_id))
    end_sessions(session, user_id, keep=keep)


def set_language(session: Session, user_id: int, language: str | None) -> None:
    """Store the user's preferred language; None: the browser's."""
    locked_user(session, user_id).language = language


def set_time_zone(session: Session, user_id: int, time_zone: str | None) -> None:
    """Store the time zone in which the user sees times; None: the installation's.

    Raises UsageError for an unknown zone.
    """
    locked_user(session, user_id).time_zone = known_zone(session, time_zone) if time_zone else None


def locked_user(session: Session, user_id: int) -> User:
    """Return the user, locked until commit, so that changes of one user take place one after the other."""
    user = session.get(User, user_id, with_for_update=True)
    if user is None:
        raise UsageError(f"there is no user {user_id}; see `zatva user list`")
    return user


def _user_with_administrators(session: Session, user_id: int) -> User:
    # Locked together in the order of their ids: two changes that each remove an administrator wait for each
    # other, so neither relies on the administrator whom the other removes, and neither holds what the other
    # needs next.
    both = (User.user_id == user_id) | _IS_ADMINISTRATOR
    session.scalars(select(User).where(both).order_by(User.user_id).with_for_update()).all()
    return locked_user(session, user_id)


def _check_organisation(session: Session, role: Role, organisation_id: int | None) -> None:
    if organisation_id is None:
        if role is Role.PARTNER:
            raise UsageError(_("a partner must belong to an organisation; choose one"))
    elif session.get(Organisation, organisation_id) is None:
        raise UsageError(_("organisation %(number)s does not exist") % {"number": organisation_id})


def _check_not_the_last_administrator(session: Session, user: User) -> None:
    if user.role != Role.ADMINISTRATOR or user.disabled is not None:
        return
    if list(session.scalars(select(User.user_id).where(_IS_ADMINISTRATOR))) == [user.user_id]:
        raise LastAdministratorError(
            _("%(name)s is the last administrator; make another user an administrator first")
            % {"name": repr(user.name)}
        )


@dataclass(frozen=True, kw_only=True)
class UserView:
    """A user as lists show it."""

    user_id: int
    name: str
    role: Role
    organisation_id: int | None
    organisation: str | None
    created: datetime
    last_sign_in: datetime | None
    disabled: datetime | None
    has_password: bool
    has_second_factor: bool
    invited: bool
    """Whether an invitation is still open."""

    @property
    def state(self) -> str:
        """The state: active, invited or disabled."""
        if self.disabled is not None:
            return "disabled"
        return "invited" if self.invited and self.last_sign_in is None else "active"


def list_users(session: Session) -> list[UserView]:
    """Return all users by name, whatever case and accents."""
    return list(_views(session, _rows().order_by(*_BY_NAME)))


def find_users(
    session: Session,
    *,
    limit: int,
    after: str = "",
    words: str = "",
    role: str = "",
    state: str = "",
) -> list[UserView]:
    """Return users by name, after `after`; `words` occur in the name or the organisation's short name."""
    rows = _rows()
    if after:
        rows = rows.where(tuple_(*_BY_NAME) > tuple_(folded_column(literal(after)), literal(after)))
    if words:
        named = contains_folded(User.name, words)
        rows = rows.where(or_(named, Organisation.short_name.icontains(words, autoescape=True)))
    if role:
        rows = rows.where(User.role == role)
    if state:
        rows = rows.where(_in_state(state))
    return list(_views(session, rows.order_by(*_BY_NAME).limit(limit)))


def find_user_view(session: Session, user_id: int) -> UserView | None:
    """Return the user with that id, if any."""
    return next(_views(session, _rows().where(User.user_id == user_id)), None)


def _in_state(state: str) -> ColumnElement[bool]:
    """Return the SQL condition that corresponds to `UserView.state`."""
    invited = and_(User.last_sign_in.is_(None), _invited())
    if state == "disabled":
        return User.disabled.is_not(None)
    return and_(User.disabled.is_(None), invited if state == "invited" else not_(invited))


def _invited() -> ColumnElement[bool]:
    return (
        select(SignInLink.user_id)
        .where(
            SignInLink.user_id == User.user_id,
            SignInLink.kind == "invitation",
            SignInLink.used.is_(None),
            SignInLink.expires > func.now(),
        )
        .exists()
    )


def _rows() -> Any:  # noqa: ANN401 an SQL expression
    return select(User, Organisation.short_name, _invited()).outerjoin(
        Organisation, Organisation.organisation_id == User.organisation_id
    )


def _views(session: Session, rows: Any) -> Iterator[UserView]:  # noqa: ANN401 as above
    for user, organisation, is_invited in session.execute(rows):
        yield from_row(
            UserView,
            user,
            role=Role(user.role),
            organisation=organisation,
            has_password=user.password_hash is not None,
            has_second_factor=user.totp_since is not None,
            invited=is_invited,
        )
