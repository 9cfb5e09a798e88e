"""Server-side sessions: who is signed in on a browser, known by a random cookie that is kept hashed."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from aiohttp import web
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.owners import Organisation
from oai.rights import Right, Scope, rights_of, sees_everything
from oai.sections import WebSettings
from web.models import Role, User, UserSession
from web.site.keys import SETTINGS

_SESSION = "zatva_session"
_FORM = "zatva_form"
_SECURE_PREFIX = "__Host-"


def session_token(request: web.Request) -> str | None:
    """The session cookie's value."""
    return request.cookies.get(_name(request, _SESSION))


def form_token(request: web.Request) -> str | None:
    """The value of the cookie that a stranger's form has to repeat."""
    return request.cookies.get(_name(request, _FORM))


def set_session(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Give the browser its session; it lasts as long as the server's own row."""
    seconds = int(request.config_dict[SETTINGS].web.session_hours * 3600)
    _set(request, response, _SESSION, token, max_age=seconds)


def set_form(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Give a stranger's browser the value that its form repeats."""
    _set(request, response, _FORM, token, max_age=None)


def forget(request: web.Request, response: web.StreamResponse) -> None:
    """Take both cookies away."""
    for name in (_SESSION, _FORM):
        response.del_cookie(_name(request, name), path="/", secure=is_secure(request), httponly=True)


def is_secure(request: web.Request) -> bool:
    """Whether users reach the dashboard by https, as the settings say."""
    base_url = request.config_dict[SETTINGS].web.base_url
    return base_url is not None and base_url.startswith("https://")


def _name(request: web.Request, name: str) -> str:
    return _SECURE_PREFIX + name if is_secure(request) else name


def _set(
    request: web.Request, response: web.StreamResponse, name: str, value: str, *, max_age: int | None
) -> None:
    response.set_cookie(
        _name(request, name),
        value,
        path="/",
        max_age=max_age,
        httponly=True,
        samesite="Lax",
        secure=is_secure(request),
    )


_BYTES = 32


def new_token() -> str:
    """A fresh URL-safe token of 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def hashed(token: str) -> bytes:
    """The SHA-256 of the token; a token has enough randomness to need no salt."""
    # What a browser sends need not be UTF-8; aiohttp hands odd bytes on as surrogates.
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


_LONGEST_BROWSER = 300


@dataclass(frozen=True, kw_only=True)
class SignedIn:
    """Who asks: a person on one browser, or a program with a user's API token."""

    user_id: int
    name: str
    role: Role
    csrf_token: str
    """What forms repeat; empty for API tokens, which need none."""
    expires: datetime | None
    organisation_id: int | None = None
    organisation: str | None = None
    """The organisation's short name."""
    language: str | None = None
    time_zone: str | None = None
    """IANA name; None: the installation's."""
    way: str = "link"
    """How the user came in: link, password, proxy; token."""
    scopes: frozenset[Scope] | None = None
    """What an API token is limited to; None for a person."""

    @property
    def rights(self) -> frozenset[Right]:
        """All rights."""
        return rights_of(self.role, organisation_id=self.organisation_id, scopes=self.scopes)

    def may(self, right: str) -> bool:
        """Whether the user has the right; templates name it by its word."""
        return Right(right) in self.rights

    @property
    def may_change(self) -> bool:
        """Whether the user may add and change repositories, schedules and jobs."""
        return Right.HARVEST in self.rights

    @property
    def sees_everything(self) -> bool:
        """Whether the user sees every repository, or only those of the organisation."""
        return sees_everything(self.role, self.organisation_id)


@dataclass(frozen=True, kw_only=True)
class SessionView:
    """A session as its user sees it. `mark` tells it from the others and opens nothing."""

    mark: str
    created: datetime
    expires: datetime
    address: str | None
    browser: str | None
    way: str


def start_session(
    session: Session,
    settings: WebSettings,
    user_id: int,
    *,
    way: str = "link",
    address: str | None = None,
    browser: str | None = None,
) -> str:
    """Begin a session for the user and give the cookie's value; sessions that have ended are cleared away.

    The caller commits.
    """
    session.execute(delete(UserSession).where(UserSession.expires <= func.now()))
    session.execute(update(User).where(User.user_id == user_id).values(last_sign_in=func.now()))
    token = new_token()
    row = UserSession(
        token_hash=hashed(token),
        user_id=user_id,
        csrf_token=new_token(),
        expires=utc_now() + timedelta(hours=settings.session_hours),
        way=way,
        address=address,
        # What a browser sends need not be UTF-8, which is all that the database takes.
        browser=browser.encode(errors="replace").decode()[:_LONGEST_BROWSER] if browser else None,
    )
    session.add(row)
    return token


def find_session(session: Session, token: str) -> SignedIn | None:
    """Who is signed in with this cookie, or None: it is unknown, has ended, or its user is disabled."""
    statement = (
        select(UserSession, User, Organisation.short_name)
        .join(User, User.user_id == UserSession.user_id)
        .outerjoin(Organisation, Organisation.organisation_id == User.organisation_id)
        .where(
            UserSession.token_hash == hashed(token),
            UserSession.expires > func.now(),
            User.disabled.is_(None),
        )
    )
    found = session.execute(statement).one_or_none()
    if found is None:
        return None
    row, user, organisation = found
    return SignedIn(
        user_id=user.user_id,
        name=user.name,
        role=Role(user.role),
        csrf_token=row.csrf_token,
        expires=row.expires,
        organisation_id=user.organisation_id,
        organisation=organisation,
        language=user.language,
        time_zone=user.time_zone,
        way=row.way,
    )


def end_session(session: Session, token: str) -> None:
    """End the session of this cookie, if there is one. The caller commits."""
    session.execute(delete(UserSession).where(UserSession.token_hash == hashed(token)))


def list_sessions(session: Session, user_id: int) -> list[SessionView]:
    """The user's sessions, the newest first."""
    rows = select(UserSession).where(UserSession.user_id == user_id, UserSession.expires > func.now())
    return [
        SessionView(
            mark=_mark(row.token_hash),
            created=row.created,
            expires=row.expires,
            address=row.address,
            browser=row.browser,
            way=row.way,
        )
        for row in session.scalars(rows.order_by(UserSession.created.desc(), UserSession.token_hash))
    ]


def mark_of(token: str) -> str:
    """The mark of the session of this cookie."""
    return _mark(hashed(token))


def end_sessions(session: Session, user_id: int, *, mark: str | None = None, keep: str | None = None) -> int:
    """End the user's sessions: all, the one with the mark, or all but that of the cookie `keep`.

    Gives how many there were. The caller commits.
    """
    ended = delete(UserSession).where(UserSession.user_id == user_id)
    if mark is not None:
        ended = ended.where(func.encode(UserSession.token_hash, "hex").startswith(mark, autoescape=True))
    if keep is not None:
        ended = ended.where(UserSession.token_hash != hashed(keep))
    return len(session.scalars(ended.returning(UserSession.token_hash)).all())


def _mark(token_hash: bytes) -> str:
    return token_hash.hex()[:16]
