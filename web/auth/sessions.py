"""Server-side sessions of browsers, identified by a random cookie of which only the hash is stored."""

import hashlib
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.models import from_row
from oai.owners import Organisation
from oai.rights import Right, Scope, rights_of, sees_everything
from oai.sections import WebSettings
from oai.settings import Settings
from web.models import Role, User, UserSession
from web.site.keys import SETTINGS

_SESSION = "zatva_session"
_FORM = "zatva_form"
_BROWSER = "zatva_browser"
_DEPARTURE = "zatva_openid"
_SECURE_PREFIX = "__Host-"
_BYTES = 32
_LONGEST_BROWSER = 300
_CODE_MINUTES = 10
"""How long a sign-in waits for its second factor, or for the OpenID provider."""
_SEEN_EVERY = timedelta(minutes=1)
"""How exactly a session's last request is noted: once in this time, not with each request."""


def session_token(request: web.Request) -> str | None:
    """Return the value of the session cookie."""
    return request.cookies.get(_name(request, _SESSION))


def form_token(request: web.Request) -> str | None:
    """Return the value of the cookie that an anonymous visitor's form must repeat."""
    return request.cookies.get(_name(request, _FORM))


def browser_token(request: web.Request) -> str | None:
    """Return the value of the cookie of a browser in which a user has signed in before."""
    return request.cookies.get(_name(request, _BROWSER))


def provider_cookie(request: web.Request) -> str | None:
    """Return the cookie of a browser that went to the OpenID provider."""
    return request.cookies.get(_name(request, _DEPARTURE))


def set_provider_cookie(request: web.Request, response: web.StreamResponse, value: str) -> None:
    """Set the cookie of a browser that goes to the OpenID provider."""
    _set(request, response, _DEPARTURE, value, max_age=_CODE_MINUTES * 60)


def forget_provider_cookie(request: web.Request, response: web.StreamResponse) -> None:
    """Delete the cookie of a browser that has come back: each request to the provider ends once."""
    _delete(request, response, _DEPARTURE)


def set_browser(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Set the cookie by which this browser is known; it stays when the user signs out."""
    seconds = int(request.config_dict[SETTINGS].web.known_browser_days * 86_400)
    _set(request, response, _BROWSER, token, max_age=seconds)


def set_session(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Set the session cookie; the session's lifetime is that of its row in the database."""
    seconds = int(request.config_dict[SETTINGS].web.session_hours * 3600)
    _set(request, response, _SESSION, token, max_age=seconds)


def set_form(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Set the cookie whose value an anonymous visitor's form must repeat."""
    _set(request, response, _FORM, token, max_age=None)


def forget(request: web.Request, response: web.StreamResponse) -> None:
    """Delete the cookies of the session and of an anonymous visitor's forms."""
    for name in (_SESSION, _FORM):
        _delete(request, response, name)


def _delete(request: web.Request, response: web.StreamResponse, name: str) -> None:
    response.del_cookie(
        _name(request, name), path="/", secure=is_secure(request), httponly=True, samesite="Lax"
    )


def leave(request: web.Request, response: web.StreamResponse) -> None:
    """Delete the cookies of a session that has ended, and let the browser drop what it kept of its pages."""
    forget(request, response)
    response.headers["Clear-Site-Data"] = '"cache", "storage"'


def is_secure(request: web.Request) -> bool:
    """Return whether users reach the dashboard by https, according to the settings."""
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


def new_token() -> str:
    """Return a new URL-safe token of 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def hashed(token: str) -> bytes:
    """Return the SHA-256 of the token; a random token of 256 bits needs no salt."""
    # Request data need not be valid UTF-8; aiohttp decodes invalid bytes as surrogates.
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


@dataclass(frozen=True, kw_only=True)
class SignedIn:
    """The authenticated caller: a user on a browser, or a program with a user's API token."""

    user_id: int
    name: str
    role: Role
    csrf_token: str
    """Token that forms must repeat; empty for API tokens, which need none."""
    expires: datetime | None
    organisation_id: int | None = None
    organisation: str | None = None
    """Short name of the organisation."""
    language: str | None = None
    time_zone: str | None = None
    """IANA name; None: the installation's time zone."""
    way: str = "link"
    """How the caller authenticated: link, password, proxy, openid or token."""
    scopes: frozenset[Scope] | None = None
    """Scopes of the API token; None for a user on a browser."""
    confirmed: datetime | None = None
    """UTC time at which the user last proved who they are; None for API tokens."""
    has_second_factor: bool = False

    @property
    def rights(self) -> frozenset[Right]:
        """All rights of the caller."""
        return rights_of(self.role, organisation_id=self.organisation_id, scopes=self.scopes)

    def may(self, right: str) -> bool:
        """Return whether the user has the right, which templates give as its stored word."""
        return Right(right) in self.rights

    def is_fresh(self, settings: WebSettings) -> bool:
        """Return whether the user has just proved who they are, or a proxy answers for it."""
        if self.way == "proxy":
            return True
        limit = timedelta(minutes=settings.fresh_minutes)
        return self.confirmed is not None and utc_now() - self.confirmed < limit

    def lacks_second_factor(self, settings: Settings) -> bool:
        """Return whether the user must set up a second factor before anything else."""
        ways = {"link", "password"} | ({"openid"} if settings.openid.second_factor == "ours" else set())
        if self.has_second_factor or self.way not in ways:
            return False
        who = settings.web.second_factor
        return who == "all" or (who == "administrators" and self.role is Role.ADMINISTRATOR)

    @property
    def may_change(self) -> bool:
        """Return whether the user may add and change repositories, schedules and jobs."""
        return Right.HARVEST in self.rights

    @property
    def sees_everything(self) -> bool:
        """Return whether the user sees every repository or only those of the organisation."""
        return sees_everything(self.role, self.organisation_id)


@dataclass(frozen=True, kw_only=True)
class WaitingForCode:
    """A sign-in whose password or link was right and whose second factor is missing."""

    user_id: int
    name: str
    way: str


@dataclass(frozen=True, kw_only=True)
class SessionView:
    """A session as lists show it to its user. `mark` identifies it, but does not authenticate."""

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
    awaits_code: bool = False,
    confirmed: datetime | None = None,
) -> str:
    """Start a session for the user and return the cookie's value; deletes expired sessions.

    `confirmed` is the UTC time at which the user proved who they are, if that was before now.
    With `awaits_code`, it gives no access and lasts only as long as one needs to enter the second factor.
    The caller commits.
    """
    ended = (UserSession.expires <= func.now()) | (UserSession.idle_until <= func.now())
    session.execute(delete(UserSession).where(ended))
    if not awaits_code:
        session.execute(update(User).where(User.user_id == user_id).values(last_sign_in=func.now()))
    token, now = new_token(), utc_now()
    lasts = timedelta(minutes=_CODE_MINUTES) if awaits_code else timedelta(hours=settings.session_hours)
    row = UserSession(
        token_hash=hashed(token),
        user_id=user_id,
        csrf_token=new_token(),
        expires=now + lasts,
        idle_until=now + timedelta(minutes=settings.idle_minutes),
        confirmed=min(confirmed or now, now),
        awaits_code=awaits_code,
        way=way,
        address=address,
        browser=_storable(browser),
    )
    session.add(row)
    return token


def continue_session(
    session: Session, settings: WebSettings, user_id: int, *, address: str | None, browser: str | None
) -> str | None:
    """Continue the session of a proxy's user with this address and browser; return its new cookie value.

    For requests without a cookie, as programs send them; otherwise each would start a session. Of several
    sessions, it is the oldest, so that programs leave newer ones to browsers. Returns None if there is no
    such session. The caller commits.
    """
    open_ones = select(UserSession).where(
        UserSession.user_id == user_id,
        UserSession.way == "proxy",
        UserSession.address.is_not_distinct_from(address),
        UserSession.browser.is_not_distinct_from(_storable(browser)),
        UserSession.expires > func.now(),
        UserSession.idle_until > func.now(),
    )
    row = session.scalars(open_ones.order_by(UserSession.created).limit(1).with_for_update()).first()
    if row is None:
        return None
    token = new_token()
    row.token_hash, row.idle_until = hashed(token), utc_now() + timedelta(minutes=settings.idle_minutes)
    return token


def _storable(browser: str | None) -> str | None:
    """Return the header `User-Agent` as stored: it need not be UTF-8, but PostgreSQL accepts nothing else."""
    return browser.encode(errors="replace").decode()[:_LONGEST_BROWSER] if browser else None


def find_session(session: Session, token: str) -> SignedIn | None:
    """Return the cookie's user; None if the session has ended or awaits a code, or the user is disabled."""
    return find_sessions(session, [token]).get(token)


def find_sessions(session: Session, tokens: Collection[str]) -> dict[str, SignedIn]:
    """Return the users of those cookies for which `find_session` finds one, with one statement."""
    found = {row.token_hash: (row, *of) for row, *of in _open_sessions(session, tokens, awaits_code=False)}
    return {token: _who(*found[key]) for token in tokens if (key := hashed(token)) in found}


def _who(row: UserSession, user: User, organisation: str | None) -> SignedIn:
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
        confirmed=row.confirmed,
        has_second_factor=user.totp_since is not None,
    )


def find_waiting(session: Session, token: str) -> WaitingForCode | None:
    """Return the sign-in of this cookie that still awaits the second factor."""
    for row, user, _organisation in _open_sessions(session, [token], awaits_code=True):
        return WaitingForCode(user_id=user.user_id, name=user.name, way=row.way)
    return None


def was_active(session: Session, settings: WebSettings, token: str) -> None:
    """Note a request of the session's user, which postpones the idle time-out. The caller commits."""
    until = utc_now() + timedelta(minutes=settings.idle_minutes)
    session.execute(
        update(UserSession)
        .where(UserSession.token_hash == hashed(token), UserSession.idle_until < until - _SEEN_EVERY)
        .values(idle_until=until)
    )


def was_confirmed(session: Session, token: str) -> None:
    """Note that the session's user has proved again who they are. The caller commits."""
    session.execute(
        update(UserSession).where(UserSession.token_hash == hashed(token)).values(confirmed=func.now())
    )


def _open_sessions(session: Session, tokens: Iterable[str], *, awaits_code: bool) -> Iterable[Any]:
    statement = (
        select(UserSession, User, Organisation.short_name)
        .join(User, User.user_id == UserSession.user_id)
        .outerjoin(Organisation, Organisation.organisation_id == User.organisation_id)
        .where(
            UserSession.token_hash.in_(map(hashed, tokens)),
            UserSession.expires > func.now(),
            UserSession.idle_until > func.now(),
            UserSession.awaits_code.is_(awaits_code),
            User.disabled.is_(None),
        )
    )
    return session.execute(statement).all()


def end_session(session: Session, token: str) -> None:
    """End the session of this cookie, if it exists. The caller commits."""
    session.execute(delete(UserSession).where(UserSession.token_hash == hashed(token)))


def list_sessions(session: Session, user_id: int) -> list[SessionView]:
    """Return the user's sessions, newest first."""
    rows = select(UserSession).where(
        UserSession.user_id == user_id,
        UserSession.expires > func.now(),
        UserSession.idle_until > func.now(),
        UserSession.awaits_code.is_(False),
    )
    return [
        from_row(SessionView, row, mark=_mark(row.token_hash))
        for row in session.scalars(rows.order_by(UserSession.created.desc(), UserSession.token_hash))
    ]


def mark_of(token: str) -> str:
    """Return the mark of this cookie's session."""
    return _mark(hashed(token))


def end_sessions(session: Session, user_id: int, *, mark: str | None = None, keep: str | None = None) -> int:
    """End the user's sessions: all, the one with the mark, or all except that of the cookie `keep`.

    Also discards a proposed second-factor secret, which an ended session may have shown. Returns the number
    of ended sessions. The caller commits.
    """
    proposed = (User.user_id == user_id, User.totp_since.is_(None), User.totp_secret.is_not(None))
    session.execute(update(User).where(*proposed).values(totp_secret=None))
    ended = delete(UserSession).where(UserSession.user_id == user_id)
    if mark is not None:
        ended = ended.where(func.encode(UserSession.token_hash, "hex").startswith(mark, autoescape=True))
    if keep is not None:
        ended = ended.where(UserSession.token_hash != hashed(keep))
    return len(session.scalars(ended.returning(UserSession.token_hash)).all())


def _mark(token_hash: bytes) -> str:
    return token_hash.hex()[:16]
