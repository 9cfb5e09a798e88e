"""Passwords: kept as Argon2id, which takes long on purpose: call these in a thread."""

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
"""Characters; hashing takes longer the longer the password is."""


def hash_password(password: str, *, least: int, user_name: str) -> str:
    """What the database keeps of the password.

    Raises UsageError for one that has fewer than `least` characters or over 1000, or is easily guessed.
    """
    check_password(password, least=least, user_name=user_name)
    return _hasher().hash(password)


def check_password(password: str, *, least: int, user_name: str) -> None:
    """Raises UsageError for a password that `hash_password` would not take."""
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
    """Whether it is the password; takes as long where there is none, so that nobody learns who has one."""
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


_LONGEST_KEY: Final = 200
_HOUSEHOLD: Final = 64
"""Bits: whoever has one IPv6 address has all of its network."""


def attempt(session: Session, settings: WebSettings, *, address: str | None, user_name: str) -> float | None:
    """Count a try, and give the seconds to wait where there were too many; None where it may go on.

    Commit before the password is looked at, or several tries at the same moment count as none.
    """
    window = timedelta(minutes=settings.sign_in_minutes)
    session.execute(delete(SignInAttempt).where(SignInAttempt.at < func.now() - window))
    waits = []
    for key in _keys(address, user_name):
        # Of one key, one after the other: else two would each be the last one that is allowed.
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"sign-in {key}"))))
        wait = _wait(session, key, settings)
        if wait is not None:
            waits.append(wait)
    if waits:
        return max(waits)
    session.add_all([SignInAttempt(key=key) for key in _keys(address, user_name)])
    return None


def succeeded(session: Session, *, address: str | None, user_name: str) -> None:
    """Forget the tries of a user who has signed in. The caller commits."""
    session.execute(delete(SignInAttempt).where(SignInAttempt.key.in_(_keys(address, user_name))))


def too_many(seconds: float) -> str:
    """What is told to whoever has to wait so long."""
    minutes = math.ceil(seconds / 60)
    return _("Too many attempts. Wait %(minutes)s min, then try again.") % {"minutes": minutes}


def _wait(session: Session, key: str, settings: WebSettings) -> float | None:
    """Seconds until the oldest of as many tries as are allowed counts no more."""
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
