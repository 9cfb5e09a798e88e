"""API tokens: create, show once, store as hashes, list, revoke, authenticate."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.models import from_row
from oai.owners import Organisation
from oai.rights import Scope, scopes_for
from oai.sections import WebSettings
from web.auth.sessions import SignedIn, hashed, new_token
from web.auth.users import check_enabled
from web.models import ApiToken, Role, User
from web.site.i18n import _

PREFIX: Final = "zatva_"
"""Prefix of every token, by which secret scanners recognize it."""
_LONGEST_NAME: Final = 100
_NOTED_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class TokenView:
    """A token as lists show it, without its secret."""

    token_id: int
    user_name: str
    name: str
    scopes: tuple[str, ...]
    created: datetime
    expires: datetime
    last_used: datetime | None
    revoked: datetime | None
    disabled: datetime | None
    """Since when its user is disabled, and the token therefore rejected."""

    @property
    def state(self) -> str:
        """The state: good, expired, revoked or disabled."""
        if self.revoked is not None:
            return "revoked"
        if self.expires <= utc_now():
            return "expired"
        return "good" if self.disabled is None else "disabled"


def make_token(
    session: Session,
    settings: WebSettings,
    user_id: int,
    *,
    name: str,
    scopes: Iterable[Scope],
    days: float | None = None,
) -> tuple[int, str]:
    """Create a token for the user, valid for `days` (None: the greatest age); return its id and its secret.

    The caller commits. Raises UsageError for a disabled user, an empty or overlong name, no scope or one that
    the user's role does not have, and for more days than `web.token_days`.
    """
    name = name.strip()
    if not name or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"a token's name must have 1 to {_LONGEST_NAME} characters; enter the purpose of the token"
        )
    wanted = sorted({Scope(scope).value for scope in scopes})
    if not wanted:
        raise UsageError("a token must have a scope; give at least 'read'")
    user = session.get_one(User, user_id)
    check_enabled(user)
    _check_scopes(Role(user.role), wanted)
    expires = utc_now() + timedelta(days=_checked_days(days, settings.token_days))
    token = PREFIX + new_token()
    row = ApiToken(
        user_id=user_id,
        name=name,
        token_hash=hashed(token),
        scopes=wanted,
        expires=expires,
    )
    session.add(row)
    session.flush()
    return row.token_id, token


def _checked_days(days: float | None, most: float) -> float:
    if days is not None and not 0 < days <= most:
        raise UsageError(
            _("%(days)s days: give more than 0 and at most %(most)s days (setting web.token_days)")
            % {"days": f"{days:g}", "most": f"{most:g}"}
        )
    return most if days is None else days


def _check_scopes(role: Role, wanted: Iterable[str]) -> None:
    """Raise UsageError for a scope beyond the user's role; it would take effect with a higher role."""
    beyond = sorted(set(wanted) - {scope.value for scope in scopes_for(role)})
    if beyond:
        raise UsageError(
            _("the role %(role)s does not have the scope %(scope)s; give one that it has")
            % {"role": role.value, "scope": ", ".join(beyond)}
        )


def find_token(session: Session, token: str) -> SignedIn | None:
    """Return the token's user; None if the token is unknown, revoked or expired, or the user is disabled.

    Stores the time of use to the minute; the caller commits.
    """
    who = find_tokens(session, [token]).get(token)
    if who is not None:
        unnoted = ApiToken.last_used.is_(None) | (ApiToken.last_used <= utc_now() - _NOTED_EVERY)
        session.execute(
            update(ApiToken).where(ApiToken.token_hash == hashed(token), unnoted).values(last_used=func.now())
        )
    return who


def find_tokens(session: Session, tokens: Collection[str]) -> dict[str, SignedIn]:
    """Return the users of those tokens for which `find_token` finds one, with one statement."""
    statement = (
        select(ApiToken, User, Organisation.short_name)
        .join(User, User.user_id == ApiToken.user_id)
        .outerjoin(Organisation, Organisation.organisation_id == User.organisation_id)
        .where(ApiToken.token_hash.in_(map(hashed, tokens)), ApiToken.revoked.is_(None))
        .where(ApiToken.expires > func.now(), User.disabled.is_(None))
    )
    found = {
        row.token_hash: (row, user, organisation) for row, user, organisation in session.execute(statement)
    }
    return {token: _who(*found[key]) for token in tokens if (key := hashed(token)) in found}


def _who(row: ApiToken, user: User, organisation: str | None) -> SignedIn:
    return SignedIn(
        user_id=user.user_id,
        name=user.name,
        role=Role(user.role),
        csrf_token="",
        expires=row.expires,
        organisation_id=user.organisation_id,
        organisation=organisation,
        language=user.language,
        time_zone=user.time_zone,
        way="token",
        scopes=frozenset(Scope(scope) for scope in row.scopes),
    )


def list_tokens(
    session: Session, user_id: int | None = None, *, limit: int | None = None, before: int | None = None
) -> list[TokenView]:
    """Return the user's tokens, or all users', newest first, older than the one numbered `before`."""
    rows = select(ApiToken, User.name, User.disabled).join(User, User.user_id == ApiToken.user_id)
    if user_id is not None:
        rows = rows.where(ApiToken.user_id == user_id)
    if before is not None:
        rows = rows.where(ApiToken.token_id < before)
    return [
        from_row(TokenView, row, user_name=user_name, scopes=tuple(row.scopes), disabled=disabled)
        for row, user_name, disabled in session.execute(rows.order_by(ApiToken.token_id.desc()).limit(limit))
    ]


def revoke_token(session: Session, token_id: int, *, user_id: int | None = None) -> ApiToken:
    """Revoke the token; with `user_id`, only if it is that user's. The caller commits.

    Raises UsageError if there is no such token.
    """
    row = session.get(ApiToken, token_id)
    if row is None or user_id not in (None, row.user_id):
        raise UsageError(f"there is no token {token_id}; see `zatva token list`")
    if row.revoked is None:
        row.revoked = utc_now()
    return row
