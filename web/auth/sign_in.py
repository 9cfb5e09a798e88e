"""One-time sign-in links, and the users who may sign in. The caller commits."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.settings import Settings
from web.auth.sessions import hashed, new_token
from web.auth.users import check_enabled, find_user, get_user
from web.models import LinkKind, Role, SignInLink, User

LOCAL_DASHBOARD: Final = "http://127.0.0.1:8090"
"""Where the dashboard is by default, for links if `web.base_url` is not set."""


@dataclass(frozen=True, kw_only=True)
class OpenLink:
    """A link that is still valid: its user and its purpose."""

    user_id: int
    user_name: str
    kind: LinkKind


@dataclass(frozen=True, kw_only=True)
class Known:
    """A user who may sign in: id, name, password hash, and whether a second factor is needed, too."""

    user_id: int
    name: str
    password_hash: str | None
    has_second_factor: bool


def make_link(
    session: Session,
    settings: Settings,
    user_name: str,
    base_url: str,
    *,
    create_administrator: bool = False,
    kind: LinkKind = LinkKind.SIGN_IN,
) -> str:
    """Return a URL below `base_url` that signs the user in once, valid for `web.link_minutes`.

    An invitation is valid for `web.invitation_hours`, invalidates earlier ones, and asks for a password. With
    `create_administrator`, an unknown user is created as administrator. Raises UsageError if there is no such
    user, or if the user is disabled.
    """
    if create_administrator:
        # If another command adds the user at the same moment, this insert waits for it and does nothing.
        added = insert(User).values(name=user_name, role=Role.ADMINISTRATOR)
        session.execute(added.on_conflict_do_nothing())
    user = get_user(session, user_name)
    check_enabled(user)
    session.execute(delete(SignInLink).where(SignInLink.expires <= func.now()))
    lasts = timedelta(minutes=settings.web.link_minutes)
    if kind is LinkKind.INVITATION:
        lasts = timedelta(hours=settings.web.invitation_hours)
        session.execute(delete(SignInLink).where(SignInLink.user_id == user.user_id, SignInLink.kind == kind))
    token = new_token()
    row = SignInLink(
        token_hash=hashed(token), user_id=user.user_id, expires=utc_now() + lasts, kind=kind.value
    )
    session.add(row)
    return f"{base_url.rstrip('/')}/sign-in?{urlencode({'token': token})}"


def open_link(session: Session, token: str) -> OpenLink | None:
    """Return the link with that token if it is still valid."""
    statement = (
        select(SignInLink, User)
        .join(User, User.user_id == SignInLink.user_id)
        .where(
            SignInLink.token_hash == hashed(token),
            SignInLink.used.is_(None),
            SignInLink.expires > func.now(),
            User.disabled.is_(None),
        )
    )
    found = session.execute(statement).one_or_none()
    if found is None:
        return None
    link, user = found
    return OpenLink(user_id=user.user_id, user_name=user.name, kind=LinkKind(link.kind))


def use_link(session: Session, token: str) -> OpenLink | None:
    """Consume the link; return None if it is unknown, used or expired, or its user is disabled.

    The UPDATE tests `used IS NULL`, so that only one of two simultaneous requests succeeds.
    """
    link = open_link(session, token)
    used = (
        update(SignInLink)
        .where(SignInLink.token_hash == hashed(token), SignInLink.used.is_(None))
        .values(used=func.now())
        .returning(SignInLink.user_id)
    )
    return link if link is not None and session.scalar(used) is not None else None


def known_user(session: Session, name: str) -> Known | None:
    """Return the user with that name if the user may sign in."""
    user = find_user(session, name.strip())
    if user is None or user.disabled is not None:
        return None
    return Known(
        user_id=user.user_id,
        name=user.name,
        password_hash=user.password_hash,
        has_second_factor=user.totp_since is not None,
    )
