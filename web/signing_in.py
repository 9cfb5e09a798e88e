"""Users, and the one-time links that sign them in."""

from datetime import timedelta
from urllib.parse import urlencode

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.settings import Settings
from web.models import Role, SignInLink, User
from web.tokens import hashed, new_token


def add_user(session: Session, name: str, role: Role = Role.VIEWER) -> User:
    """Add a user. Raises UsageError for a name that is empty or taken. The caller commits."""
    name = name.strip()
    if not name:
        raise UsageError("the user's name is empty; give one")
    if find_user(session, name):
        raise UsageError(f"there is a user {name!r} already; choose another name")
    user = User(name=name, role=role)
    session.add(user)
    session.flush()
    return user


def find_user(session: Session, name: str) -> User | None:
    """The user of that name, if there is one."""
    return session.scalars(select(User).where(User.name == name)).one_or_none()


def list_users(session: Session) -> list[User]:
    """All users by name."""
    return list(session.scalars(select(User).order_by(User.name)))


def make_link(
    session: Session, settings: Settings, user_name: str, base_url: str, *, create_administrator: bool = False
) -> str:
    """A link below `base_url` that signs the user in once, good for `web.link_minutes`.

    With `create_administrator` an unknown user is made, as administrator. The caller commits.
    Raises UsageError where there is no such user.
    """
    user = find_user(session, user_name)
    if user is None and create_administrator:
        user = add_user(session, user_name, Role.ADMINISTRATOR)
    if user is None:
        raise UsageError(f"there is no user {user_name!r}; add one with `zatva user add`")
    session.execute(delete(SignInLink).where(SignInLink.expires <= func.now()))
    token = new_token()
    expires = utc_now() + timedelta(minutes=settings.web.link_minutes)
    session.add(SignInLink(token_hash=hashed(token), user_id=user.user_id, expires=expires))
    return f"{base_url.rstrip('/')}/sign-in?{urlencode({'token': token})}"


def link_is_good(session: Session, token: str) -> bool:
    """Whether the link's token can still be used."""
    good = select(SignInLink.user_id).where(
        SignInLink.token_hash == hashed(token), SignInLink.used.is_(None), SignInLink.expires > func.now()
    )
    return session.scalar(good) is not None


def use_link(session: Session, token: str) -> int | None:
    """Use the link's token up and give its user's id; None where it is unknown, used or too old.

    Of two that come at the same moment only one wins. The caller commits.
    """
    used = (
        update(SignInLink)
        .where(
            SignInLink.token_hash == hashed(token), SignInLink.used.is_(None), SignInLink.expires > func.now()
        )
        .values(used=func.now())
        .returning(SignInLink.user_id)
    )
    return session.scalar(used)
