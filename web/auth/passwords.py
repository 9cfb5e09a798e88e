"""Passwords, stored as Argon2id. Hashing is slow on purpose: call these functions in a thread."""

import ipaddress
import math
from datetime import timedelta
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.sections import WebSettings
from web.models import SignInAttempt
from web.site.i18n import _

_LONGEST: Final = 1000
"""Maximum length in characters; hashing time grows with length."""
_LONGEST_KEY: Final = 200
_HOUSEHOLD: Final = 64
"""Prefix length in bits: the holder of one IPv6 address controls its whole /64 network."""


def hash_password(password: str, *, least: int, user_name: str) -> str:
    """Return the hash to store for the password.

    Raises UsageError if it has fewer than `least` or more than 1000 characters, or is easily guessed.
    """
    check_password(password, least=least, user_name=user_name)
    return _hasher().hash(password)


def check_password(password: str, *, least: int, user_name: str) -> None:
    """Raise UsageError for a password that `hash_password` would reject."""
    if len(password) < least:
        raise UsageError(
            _("The password has %(found)s characters; use at least %(least)s.")
            % {"found": len(password), "least": least}
        )
    if len(password) > _LONGEST:
        raise UsageError(
            _("The password has %(found)s characters; use at most %(most)s.")
            % {"found": len(password), "most": _LONGEST}
        )
    if len(set(password)) < 5 or password.casefold() == user_name.casefold():  # noqa: PLR2004 `aaaaaaaaaaaa`
        raise UsageError(_("The password is easy to guess; choose another, such as four random words."))


def password_fits(kept: str | None, password: str) -> bool:
    """Return whether the password matches; takes equally long without a hash, to hide who has a password."""
    try:
        _hasher().verify(kept or _nobodys(), password[: _LONGEST + 1])
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _nobodys() -> str:
    return _hasher().hash("the password of no account")


def attempt(session: Session, settings: WebSettings, *, address: str | None, user_name: str) -> float | None:
    """Count an attempt; return the seconds to wait if there were too many, or None if it may proceed.

    Commit before checking the password; otherwise simultaneous attempts do not see each other.
    """
    window = timedelta(minutes=settings.sign_in_minutes)
    session.execute(delete(SignInAttempt).where(SignInAttempt.at < func.now() - window))
    waits = []
    for key in _keys(address, user_name):
        # The advisory lock, held until commit, serializes the attempts of one key: otherwise two could each
        # count as the last one allowed.
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"sign-in {key}"))))
        wait = _wait(session, key, settings)
        if wait is not None:
            waits.append(wait)
    if waits:
        return max(waits)
    session.add_all([SignInAttempt(key=key) for key in _keys(address, user_name)])
    return None


def succeeded(session: Session, *, address: str | None, user_name: str) -> None:
    """Delete the attempts of a user who has signed in. The caller commits."""
    session.execute(delete(SignInAttempt).where(SignInAttempt.key.in_(_keys(address, user_name))))


def too_many(seconds: float) -> str:
    """Return the message for a user who must wait."""
    minutes = math.ceil(seconds / 60)
    return _("Too many attempts. Wait %(minutes)s min, then try again.") % {"minutes": minutes}


def _wait(session: Session, key: str, settings: WebSettings) -> float | None:
    """Return the seconds until enough attempts expire to allow another one; None if it is allowed now."""
    latest = (
        select(func.extract("epoch", func.now() - SignInAttempt.at))
        .where(SignInAttempt.key == key)
        .order_by(SignInAttempt.at.desc())
        .offset(settings.sign_in_tries - 1)
        .limit(1)
    )
    age = session.scalar(latest)
    return None if age is None else max(1.0, settings.sign_in_minutes * 60 - float(age))


def _keys(address: str | None, user_name: str) -> list[str]:
    keys = [f"user {user_name.strip().casefold()}"[:_LONGEST_KEY]]
    return [f"address {_network(address)}", *keys] if address else keys


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_KEY]
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, _HOUSEHOLD), strict=False))
    return str(ip)
