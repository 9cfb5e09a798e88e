"""Server-side sessions: who is signed in on a browser, known by a random cookie that is kept hashed."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.sections import WebSettings
from web.models import Role, User, UserSession
from web.tokens import hashed, new_token


@dataclass(frozen=True, kw_only=True)
class SignedIn:
    """A signed-in user on one browser."""

    user_id: int
    name: str
    role: Role
    csrf_token: str
    expires: datetime

    @property
    def may_change(self) -> bool:
        """Whether the user may change things, or only look."""
        return self.role is Role.ADMINISTRATOR


def start_session(session: Session, settings: WebSettings, user_id: int) -> str:
    """Begin a session for the user and give the cookie's value; sessions that have ended are cleared away.

    The caller commits.
    """
    session.execute(delete(UserSession).where(UserSession.expires <= func.now()))
    token = new_token()
    row = UserSession(
        token_hash=hashed(token),
        user_id=user_id,
        csrf_token=new_token(),
        expires=utc_now() + timedelta(hours=settings.session_hours),
    )
    session.add(row)
    return token


def find_session(session: Session, token: str) -> SignedIn | None:
    """Who is signed in with this cookie, or None where it is unknown or has ended."""
    statement = (
        select(UserSession, User)
        .join(User, User.user_id == UserSession.user_id)
        .where(UserSession.token_hash == hashed(token), UserSession.expires > func.now())
    )
    found = session.execute(statement).one_or_none()
    if found is None:
        return None
    row, user = found
    return SignedIn(
        user_id=user.user_id,
        name=user.name,
        role=Role(user.role),
        csrf_token=row.csrf_token,
        expires=row.expires,
    )


def end_session(session: Session, token: str) -> None:
    """End the session of this cookie, if there is one. The caller commits."""
    session.execute(delete(UserSession).where(UserSession.token_hash == hashed(token)))
